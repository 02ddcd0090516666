"""Tests the reference of the keys of scenario files."""

import json
import re

import pytest
from typer.testing import CliRunner

import silvan
from silvan import _columns, _reference, cli

SCHEMA = json.loads(silvan.schema())
REFERENCE = _reference.Reference(silvan.schema())
PAGES = _reference.pages(silvan.schema())


def shown(*arguments):
    done = CliRunner().invoke(cli.application(), ["schema", *arguments], env={"COLUMNS": "100"})
    assert done.exit_code == 0, done.output
    return done.output


def named(schema, found):
    """Collect the keys of all tables of a schema, with their descriptions."""
    if isinstance(schema, dict):
        for key, one in schema.get("properties", {}).items():
            found.add((key, one.get("description", "").replace("\n", " ").replace("|", "\\|")))
        for one in schema.values():
            named(one, found)
    elif isinstance(schema, list):
        for one in schema:
            named(one, found)
    return found


def test_the_pages_contain_every_key_with_its_description():
    text = "\n".join(PAGES.values())
    for key, meaning in named(SCHEMA, set()):
        if key == "kind":
            continue
        assert re.search(rf"\| `{key}` \||[\[.]{key}\]", text), key
        assert meaning in text, key


def test_every_key_of_a_kind_is_described_once():
    assert [name for name in PAGES if name != "run.md"] == [
        f"{key}.md" for key, one in SCHEMA["properties"].items() if key in {t.path for t in REFERENCE.tables}
    ]
    assert [one.same_as for one in REFERENCE.tables if one.same_as] == ["congestion.reaction"]
    rows = [line for text in PAGES.values() for line in text.split("\n") if line.startswith("| `")]
    repeated = {line for line in rows if rows.count(line) >= _reference.COMMON}
    # The tables of reactions and of traffic use some texts of one line, in different tables.
    for table in REFERENCE.tables:
        for key in table.common:
            assert sum(key in one.keys for one in table.variants) == 0, (table.path, key.name)
    assert len(repeated) <= 3, repeated


def test_links_in_the_pages_lead_to_headings():
    anchors = {name: {*re.findall(r"\{ #(\S+) \}", text)} for name, text in PAGES.items()}
    for name, text in PAGES.items():
        assert len(anchors[name]) == text.count("{ #"), f"{name}: an anchor is used twice"
        for file, target in re.findall(r"\]\(([\w.]*)#([^)]*)\)", text):
            assert target in anchors[file or name], f"{name}: {file}#{target}"


@pytest.mark.parametrize(
    ("key", "lines"),
    [
        ("duration", ["Keys outside tables", "  duration: time (needed)"]),
        ("[[traffic]]", ["[[traffic]]", "[traffic.pattern]", 'kind = "forest"']),
        ("traffic.0.message", ["[[traffic]]", "  message: size"]),
        ("topology.star", ["[topology]", 'kind = "star"', '  link_rate: rate (default "16 Gbit/s")']),
        ("congestion.hosts.reaction.hpcc", ["[congestion.hosts.reaction]", 'kind = "hpcc"']),
        ("congestion.hosts.reaction", ["The keys are those of congestion.reaction."]),
    ],
)
def test_the_command_describes_a_key(key, lines):
    text = shown(key)
    for line in lines:
        assert any(one.startswith(line) for one in text.split("\n")), f"{line}\n{text}"
    assert max(map(len, text.split("\n"))) <= 100


def test_one_kind_is_described_without_others():
    text = shown("topology.star")
    assert text.count("kind = ") == 1
    assert "hosts_per_switch" not in text
    assert shown("topology.hosts_per_leaf").count("kind = ") == 1


def test_the_tables_are_listed():
    lines = shown("--list").strip().split("\n")
    assert [line.split()[0].strip("[]") for line in lines] == [
        one.path for one in REFERENCE.tables if one.path and "." not in one.path
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["congestion.reactoin"], "did you mean `congestion.reaction`"),
        (["xyzzy.xyzzy"], "no key `xyzzy.xyzzy`; try `topology`"),
        ([""], "no key ``"),
        (["topology", "--list"], "give one of KEY, --list, --study and --results"),
    ],
)
def test_wrong_keys_are_explained(arguments, message):
    done = CliRunner().invoke(cli.application(), ["schema", *arguments], env={"COLUMNS": "300"})
    assert done.exit_code == 2
    assert message in done.output


def test_the_tables_of_results_are_described():
    overview = shown("--results").splitlines()
    assert [line.split()[0] for line in overview] == list(_columns.TABLES)
    for table in _columns.TABLES.values():
        text = shown("--results", table.name)
        for column in table.columns:
            assert column.meaning
            assert f"  {column.name} " in text
            assert f"| `{column.name}` | {column.meaning} |" in _columns.markdown()
    done = CliRunner().invoke(cli.application(), ["schema", "--results", "tree"])
    assert done.exit_code == 2
    assert "no table `tree`; there are trees" in done.output
    assert CliRunner().invoke(cli.application(), ["schema", "--results", "--list"]).exit_code == 2
