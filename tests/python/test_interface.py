"""Tests the public names of the package, and the conventions of its command."""

import json
import subprocess
import sys

import click
import pytest
import typer
from rich.text import Text
from typer.testing import CliRunner

import silvan
from conftest import FABRICS, ROOT, SMALL, command
from silvan import cli

TESTBED = ROOT / "scenarios" / "testbed.toml"


def invoke(*arguments, **more):
    return CliRunner().invoke(cli.application(), [str(argument) for argument in arguments], **more)


def test_public_names_are_there_and_documented():
    for name in silvan.__all__:
        value = getattr(silvan, name)
        assert name in dir(silvan)
        assert name == "__version__" or value.__doc__, name
    with pytest.raises(AttributeError, match="no attribute `fabric_check`"):
        silvan.fabric_check  # noqa: B018 - it is the access that fails
    for name in ("check", "route", "study", "collide", "ibdmchk"):
        assert getattr(silvan.fabric, name).__doc__


@pytest.mark.parametrize(
    ("module", "slow"),
    [("silvan", ("numpy", "matplotlib", "rich")), ("silvan.cli", ("numpy", "matplotlib", "silvan.sweeps"))],
)
def test_importing_the_package_and_its_command_imports_nothing_slow(module, slow):
    code = f"import sys, {module}; print([name for name in {slow} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_command_imports_no_other_command():
    code = """
import sys
from silvan import cli
sys.argv[1:] = ["check", "testbed"]
try:
    cli.main()
finally:
    print(*(name for name in sorted(sys.modules) if name.startswith("silvan.commands.")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = done.stdout.splitlines()[-1].replace("silvan.commands.", "").split()
    assert modules == ["_show", "check", "common", "completion", "version"]


def test_functions_of_fabrics(tmp_path):
    files = FABRICS / "sw2-h7" / "updn" / "ibnetdiscover.topo"
    routes = silvan.fabric.route(files, "up-down")
    for name, text in (("tables.lft", routes.tables), ("wiring.topo", routes.network)):
        (tmp_path / name).write_text(text)
    assert silvan.fabric.check(tmp_path)["pairs_routed"] == 42
    assert "opensm-subnet.lst" in silvan.fabric.ibdmchk(tmp_path)


def test_an_unknown_column_lists_the_columns(result):
    with pytest.raises(KeyError, match="no column `t_ns` in the table `flows`; did you mean `time_ns`"):
        result.numpy("flows")["t_ns"]
    with pytest.raises(KeyError, match="it has time_ns, "):
        result.numpy("classes")["nonsense"]
    assert result.columns["flows"] == tuple(result.numpy("flows"))


# Tests of the command.


def commands():
    """Yield every command with its name."""

    def walk(one, path):
        yield path, one
        for name, inner in getattr(one, "commands", {}).items():
            yield from walk(inner, f"{path} {name}")

    yield from walk(typer.main.get_command(cli.application()), "silvan")


@pytest.mark.parametrize(
    ("path", "one"), list(commands()), ids=lambda one: one if isinstance(one, str) else ""
)
def test_help_texts_are_shown_in_full(path, one):
    """No part of a help text, such as a default in brackets, is parsed as markup; none is missing."""
    texts = [one.help, *(parameter.help for parameter in one.params if getattr(parameter, "help", None))]
    assert one.help, path
    for text in filter(None, texts):
        assert Text.from_markup(text).plain == text.replace("\\[", "["), (path, text)
        assert "[default" not in text, (path, text)
        assert "default:" not in text, (path, text)


def test_defaults_are_in_the_help():
    assert "DIR/figures" in invoke("plot", "--help", terminal_width=200).output
    assert "[default: (out/NAME)]" in invoke("sweep", "--help", terminal_width=200).output


def test_options_have_the_same_short_names_everywhere():
    for path, one in commands():
        for parameter in one.params:
            if isinstance(parameter, click.Option) and "--out" in parameter.opts:
                assert "-o" in parameter.opts, path
    for arguments in (("-h",), ("run", "-h"), ("fabric", "check", "-h")):
        done = invoke(*arguments)
        assert done.exit_code == 0
        assert "Usage:" in done.output


def test_the_version_is_an_option_too():
    assert invoke("--version").output == invoke("version").output
    assert invoke("--version").output.startswith(f"silvan {silvan.__version__}")


def test_a_scenario_from_standard_input(tmp_path):
    done = invoke("run", "-", "--json", input=SMALL)
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["provenance"]["origin"] == "stdin"
    assert json.loads(invoke("check", "-", "--json", input=SMALL).output)["hosts"] == 7
    wrong = invoke("run", "-", input="seed = 1\n")
    assert wrong.exit_code == 1
    assert "stdin" in str(wrong.exception)
    conf = tmp_path / "opensm.conf"
    conf.write_text("congestion_control TRUE\n")
    done = invoke("run", "-", "--opensm-conf", conf, "--json", input=SMALL)
    assert done.exit_code == 0, done.output


def test_a_shipped_scenario_by_its_name(tmp_path):
    done = command("check", "testbed", "--json", cwd=tmp_path)
    assert json.loads(done.stdout) == json.loads(command("check", TESTBED, "--json").stdout)
    assert silvan.scenarios.load("testbed").to_toml() == silvan.Scenario.load(TESTBED).to_toml()
    (tmp_path / "testbed").write_text(SMALL)
    done = command("check", "testbed", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["name"] == "small"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("testbd", "did you mean `testbed`?"),
        ("smal.toml", "did you mean `small.toml`?"),
        ("scenarios/testbed.toml", "the scenario `testbed` comes with Silvan: silvan run testbed"),
        ("cc-grid-648", "the study `cc-grid-648` comes with Silvan: silvan sweep cc-grid-648"),
        ("nothing-like-it", "silvan scenarios list shows those that come with Silvan"),
    ],
)
def test_a_missing_scenario_names_similar_ones(name, hint, small, tmp_path):
    done = command("run", name, cwd=tmp_path)
    assert done.returncode == 1
    assert f"{name}: no such file; " in done.stderr
    assert hint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_shipped_study_by_its_name():
    study = silvan.Study.load("cc-grid-648")
    assert study.name == "cc-grid-648"
    with pytest.raises(silvan.SweepError, match="the scenario `testbed` comes with Silvan"):
        silvan.Study.load("testbed")


def test_the_seed_has_an_option(small):
    done = invoke("run", small, "--seed", 7, "--json")
    assert json.loads(done.output)["provenance"]["seed"] == 7
    twice = invoke("run", small, "--seed", 7, "--set", "seed=8")
    assert twice.exit_code == 2
    assert invoke("run", small, "--seed", -1).exit_code == 2


def test_a_run_of_another_scenario_is_replaced_only_by_force(small, tmp_path):
    out, other = tmp_path / "out", tmp_path / "other.toml"
    other.write_text(SMALL.replace('name = "small"', 'name = "other"'))
    assert command("run", small, "-o", out).returncode == 0
    assert command("run", small, "-o", out, "--seed", 9).returncode == 0
    done = command("run", other, "-o", out)
    assert done.returncode == 1
    assert "has a run of the scenario `small`, not of `other`" in done.stderr
    assert silvan.load(out).provenance["seed"] == 9
    done = command("run", other, "-o", out, "--force")
    assert done.returncode == 0, done.stderr
    assert silvan.load(out).name == "other"
    (out / "notes.txt").write_text("")
    done = command("run", small, "-o", out, "--force")
    assert done.returncode == 1
    assert "notes.txt" in done.stderr
