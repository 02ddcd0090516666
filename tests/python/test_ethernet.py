"""Tests Ethernet fabrics on the command line: new scenarios, `silvan check`, and the names of runs."""

import re
import sys

import pytest
from typer.testing import CliRunner

import silvan
from silvan import _control, cli, templates
from silvan.comparison import compare
from silvan.report import run_titles

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

STAR = """
name = "star"
duration = "60 us"
topology = { kind = "star", hosts = 4, link_rate = "400 Gbit/s" }
measure = { interval = "20 us" }
[[traffic]]
name = "all"
hosts = ["H[2-4]"]
pattern = { kind = "hotspots", to = ["H1"] }
"""
DCQCN = 'congestion = { marking.kind = "red", notification = "cnp", reaction.kind = "dcqcn" }'


def resolved(scenario):
    return tomllib.loads(scenario.to_toml())


def star(line=""):
    return silvan.run(silvan.Scenario.from_toml(f"{line}\n{STAR}"))


@pytest.mark.parametrize("fabric", templates.FABRICS)
@pytest.mark.parametrize("network", ["fat-tree", "star", "dumbbell"])
def test_a_new_scenario_of_a_fabric_runs(fabric, network):
    kind = templates.FABRICS[fabric]
    text = templates.write("mine", network, 16, "incast", kind.mechanisms[0], fabric, 200)
    short = {"duration": "300 us", "warmup": "0 s", "job.0.start": "0 s"}
    scenario = silvan.Scenario.from_toml(text, overrides=short)
    found = resolved(scenario)
    assert found["topology"]["link_rate"] == "200 Gbit/s"
    assert found["congestion"].get("mechanism", "none") == kind.mechanisms[0]
    assert found["switch"]["arbitration"] == ("round-robin" if fabric == "infiniband" else "fcfs")
    assert found["flow_control"]["kind"] == ("pfc" if fabric == "roce" else "credits")
    run = silvan.run(scenario)
    assert {one["class"] for one in run.summary["classes"]} == {"incast", "victim", "job"}
    assert all(one["received_bytes"] > 0 for one in run.summary["flows"])
    assert not [line for line in run.warnings if "never" in line]


def hosts_of(patterns: list[str]) -> set[str]:
    """Return the hosts that ranges such as H[4-34/2] select."""
    found = set()
    for pattern in patterns:
        first, last, step = re.fullmatch(r"H\[(\d+)-(\d+)(?:/(\d+))?\]", pattern).groups()
        found |= {f"H{number}" for number in range(int(first), int(last) + 1, int(step or 1))}
    return found


def test_the_job_and_the_incast_of_a_new_scenario_have_different_hosts():
    text = templates.write("mine", "fat-tree", 64, "incast", "dcqcn", "roce", 400)
    found = tomllib.loads(text)
    job, senders = (hosts_of(found[part][0]["hosts"]) for part in ("job", "traffic"))
    assert len(job) == found["job"][0]["program"]["ranks"]
    assert not job & senders
    victim = found["flow"][0]
    assert not {victim["from"], victim["to"], "H1"} & (job | senders)


def test_the_mechanism_determines_the_fabric():
    assert [templates.fabric_of(name) for name in ("none", "ecocc", "hpcc", "uec")] == [
        "infiniband", "infiniband", "roce", "uec",
    ]  # fmt: skip
    for options, message in (
        ({"mechanism": "ib-cc", "fabric": "roce"}, "ib-cc is not a mechanism of roce; choose none, dcqcn"),
        (
            {"mechanism": "dcqcn", "fabric": "roce", "network": "torus"},
            "roce on a torus is not possible here",
        ),
        ({"mechanism": "dcqcn", "fabric": "token-ring"}, "fabric `token-ring` is not known"),
    ):
        given = {"name": "x", "network": "star", "hosts": 8, "traffic": "incast"} | options
        with pytest.raises(silvan.SilvanError, match=message):
            templates.write(**given)


@pytest.mark.parametrize("name", templates.OTHER_NAMES)
def test_networks_have_other_names(name, tmp_path):
    kind = templates.network_of(name)
    assert kind in templates.NETWORKS
    written = [templates.write("x", one, 16, "uniform", "none") for one in (name, kind)]
    assert written[0] == written[1]
    file = tmp_path / "mine.toml"
    made = CliRunner().invoke(cli.application(), ["new", str(file), "--network", name, "--hosts", "16"])
    assert made.exit_code == 0, made.output
    assert tomllib.loads(file.read_text())["topology"]["link_rate"] == "16 Gbit/s"


@pytest.mark.parametrize("fabric", templates.FABRICS)
def test_a_new_scenario_has_no_words_of_another_fabric(fabric):
    kind = templates.FABRICS[fabric]
    for traffic in templates.TRAFFICS:
        text = templates.write("x", "fat-tree", 16, traffic, kind.mechanisms[-1], fabric)
        words = (
            r"\b(FECN|BECN|CCT|CCTI|InfiniBand)\b"
            if fabric != "infiniband"
            else r"\b(CNP|ECN|Ethernet|PFC)\b"
        )
        found = re.findall(words, text.replace("InfiniBand's transport", ""))
        assert not found, traffic


@pytest.mark.parametrize(
    ("text", "gbit_s"), [("400G", 400), ("100 Gbit/s", 100), ("25", 25), ("800 Gbps", 800), ("200Gb/s", 200)]
)
def test_rates_have_the_usual_forms(text, gbit_s):
    assert templates.rate_gbit_s(text) == gbit_s


@pytest.mark.parametrize("text", ["fast", "0G", "400M", "9999G", "-1"])
def test_other_rates_are_refused(text):
    with pytest.raises(silvan.SilvanError, match="give Gbit/s"):
        templates.rate_gbit_s(text)


def test_new_and_check_show_the_memory_of_a_roce_switch(tmp_path):
    file = tmp_path / "mine.toml"
    made = CliRunner().invoke(
        cli.application(), ["new", str(file), "--fabric", "roce", "--rate", "400G", "--hosts", "16"]
    )
    assert made.exit_code == 0, made.output
    report = silvan.Scenario.load(file).check()
    shared = report["pauses"]["shared"]
    # A spine has the least: four ports of 1 MiB each.
    assert shared["memory_bytes"] == 4 << 20
    parts = (shared[key] for key in ("headroom_bytes", "reserve_bytes", "left_bytes"))
    assert sum(parts) == shared["memory_bytes"]
    assert shared["headroom_bytes"] == 4 * report["pauses"]["most_headroom_bytes"]
    printed = CliRunner().invoke(cli.application(), ["check", str(file)], env={"COLUMNS": "200"}).output
    assert "left to share" in printed
    assert "in the order of arrival (fcfs)" in printed
    assert "marks at 400 Gbit/s" in printed


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("", "none"),
        ('congestion.mechanism = "hpcc"', "hpcc"),
        (DCQCN, "dcqcn"),
        (
            'congestion = { notification = "ack-grant", reaction = { kind = "rccc", nscc = {} } }',
            "rccc + nscc",
        ),
        (
            'congestion = { marking.kind = "fecn", notification = "cnp", reaction.kind = "dcqcn" }',
            "fecn + dcqcn",
        ),
        ('congestion.marking.kind = "red"', "red"),
        ('congestion.isolation.kind = "special-queues"', "special-queues"),
    ],
)
def test_runs_are_named_by_their_mechanism_or_reaction(line, name):
    settings = dict(flat(resolved(silvan.Scenario.from_toml(f"{line}\n{STAR}"))))
    assert _control.name(settings) == name


def flat(value, path=""):
    for key, one in value.items():
        at = f"{path}.{key}" if path else key
        if isinstance(one, dict):
            yield from flat(one, at)
        else:
            yield at, one


def test_a_composition_has_a_name_in_reports_and_comparisons():
    off, on = star(), star(DCQCN)
    assert run_titles([off, on]) == ["star: none", "star: dcqcn"]
    assert compare(off, on).settings["congestion.mechanism"] == ("none", "dcqcn")
