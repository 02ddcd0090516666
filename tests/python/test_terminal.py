"""Tests that names of others cannot control the terminal, and that output without a reader ends quietly."""

import json
import os
import re
import subprocess
import sys
import unicodedata

import pytest

import silvan
from conftest import SMALL, command, silvan_command
from silvan import _terminal
from silvan._terminal import clean

#: Escape sequences, emoji codes, markup, a formula, a right-to-left override, and a zero-width space.
TITLE = "\x1b]0;title\x07"
HOSTILE = f"root:x:1 [red]F{TITLE}[/] $\\frac{{$ \u202eb\u200b"
#: The form in which the terminal shows it.
SHOWN = r"root:x:1 [red]F\x1b]0;title\x07[/] $\frac{$ \u202eb\u200b"


def raw(*arguments, start=(sys.executable, "-m", "silvan.cli"), cwd=None, stdin=None, **environment):
    return subprocess.run(
        [*start, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        cwd=cwd,
        timeout=120,
        check=False,
        env={**os.environ, "COLUMNS": "200", **environment},
    )


def assert_clean(text):
    hidden = [c for c in text if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"]
    assert not hidden, text


def test_hidden_characters_are_shown_as_escapes():
    assert clean(HOSTILE) == SHOWN
    assert clean("tab\tline\nM\u00fcnchen \u65e5\u672c") == "tab\tline\nM\u00fcnchen \u65e5\u672c"
    assert clean("\u009b31m \ud800 \r") == r"\x9b31m \ud800 \r"


def toml(text):
    return json.dumps(text)


@pytest.fixture
def hostile(tmp_path):
    """Return a folder with hostile inputs of every kind."""
    text = SMALL.replace('name = "F1"', f"name = {toml(HOSTILE)}")
    assert text != SMALL
    (tmp_path / "flow.toml").write_text(text)
    (tmp_path / "name.toml").write_text(
        f"name = {toml(HOSTILE)}\n" + re.sub(r"(?m)^name = .*\n", "", SMALL, count=1)
    )
    (tmp_path / "key.toml").write_text(f"{toml(HOSTILE)} = 1\n{SMALL}")
    (tmp_path / "value.toml").write_text(f"routing.kind = {toml(HOSTILE)}\n{SMALL}")
    (tmp_path / "small.toml").write_text(SMALL)
    (tmp_path / "study.toml").write_text(f'scenario = "small.toml"\nname = {toml(HOSTILE)}\n')
    (tmp_path / "axis.toml").write_text(
        f'scenario = "small.toml"\n[[axis]]\nkey = {toml(HOSTILE)}\nvalues = [1, 2]\n'
    )
    (tmp_path / "tune.toml").write_text(f'scenario = "small.toml"\nruns = {toml(HOSTILE)}\n')
    (tmp_path / f"{TITLE}.toml").write_text("x")
    (tmp_path / "trace.goal").write_text(f"num_ranks 1\nrank {HOSTILE} {{\n")
    (tmp_path / "fabric.topo").write_text(f"switchguid=0x1{HOSTILE}\n")
    (tmp_path / "opensm.conf").write_text(f"congestion_control {HOSTILE}\n")
    run = silvan.run(silvan.Scenario.from_toml(SMALL), duration="1 ms", warmup="0 s")
    run.provenance["scenario"] = HOSTILE
    run.warnings.append(HOSTILE)
    run.save(tmp_path / "run")
    other = run.save(tmp_path / "other")
    provenance = json.loads((other / "provenance.json").read_text())
    (other / "provenance.json").write_text(json.dumps(provenance | {"format": 99, "version": HOSTILE}))
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "flow.toml"),
        ("run", "name.toml"),
        ("check", "flow.toml"),
        ("run", "key.toml"),
        ("run", "value.toml"),
        ("run", "small.toml", "--json", "--set", f"flow.0.name={toml('a' + chr(0x9B))}"),
        ("sweep", "study.toml"),
        ("sweep", "axis.toml"),
        ("tune", "tune.toml"),
        ("run", f"{TITLE}.toml"),
        ("run", f"missing{TITLE}.toml"),
        ("trace", "check", "trace.goal"),
        ("fabric", "check", "fabric.topo"),
        ("run", "small.toml", "--opensm-conf", "opensm.conf"),
        ("compare", "run", "run"),
        ("compare", "other", "run"),
        ("report", "run", "--out", "run.html"),
        ("plot", "run", "--out", "figures"),
    ],
    ids=" ".join,
)
def test_no_name_controls_the_terminal(hostile, arguments):
    done = raw(*arguments, start=silvan_command(), cwd=hostile, NO_COLOR="1")
    assert b"Traceback" not in done.stderr
    assert_clean(done.stdout.decode())
    assert_clean(done.stderr.decode())
    # Warnings of libraries do not show the place in their source.
    assert b"site-packages" not in done.stderr


def test_names_are_shown_as_they_are(hostile):
    name = "vm:m:2 [bold]"
    settings = ("--set", f"flow.0.name={toml(name)}", "--set", f"name={toml('leaf:x:1 [/]')}")
    done = command("run", hostile / "small.toml", *settings)
    assert name in done.stdout
    assert "leaf:x:1 [/]" in done.stdout


@pytest.mark.parametrize("name", ["a$b_$c", "$_$", "$\\frac{$", "_hidden"])
def test_figures_show_names_as_they_are(small, tmp_path, name):
    given = {"name": name, "flow.0.name": name, "duration": "1 ms", "warmup": "0 s"}
    result = silvan.run(silvan.Scenario.load(small, given))
    from silvan import plot

    axes = plot.throughput(result)
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert plot.literal(name) in legend
    # Only this name is not valid as a formula, so no figure could be drawn if it were parsed as one.
    if name == "$\\frac{$":
        plot.save_all(result, tmp_path)
    else:
        plot.save(axes.figure, tmp_path / "throughput")
    svg = (tmp_path / "throughput.svg").read_text(encoding="utf-8")
    assert f">{name}" in svg or f"> {name}" in svg or f": {name}" in svg


def test_closed_streams_do_not_matter(small):
    run = f"{sys.executable} -m silvan.cli run {small} --set 'duration=1 ms' --set 'warmup=0 s'"
    for closed in (">&-", "2>&-", "<&-", ">&- 2>&-"):
        done = subprocess.run(["sh", "-c", f"{run} {closed}"], capture_output=True, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (0, b""), closed


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_characters_that_the_terminal_lacks_are_escaped(small, encoding):
    settings = ("--set", 'name="\u65e5\u672c \U0001f600"', "--set", "duration=1 ms", "--set", "warmup=0 s")
    done = raw("run", small, *settings, PYTHONIOENCODING=encoding)
    assert done.returncode == 0
    assert rb"\u65e5\u672c \U0001f600" in done.stdout
    done = raw("run", small, *settings, "--json", PYTHONIOENCODING=encoding)
    assert json.loads(done.stdout)["scenario"] == "\u65e5\u672c \U0001f600"


@pytest.mark.parametrize(
    "arguments",
    [("schema",), ("run", "SMALL"), ("run", "SMALL", "--json"), ("scenarios", "list")],
    ids=" ".join,
)
def test_a_pipe_that_closes_ends_a_command_quietly(small, arguments):
    arguments = [small if one == "SMALL" else one for one in arguments]
    with subprocess.Popen(
        [sys.executable, "-m", "silvan.cli", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode in (0, _terminal.EXIT_PIPE)


def test_standard_input_is_read_up_to_a_limit():
    reader, writer = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-m", "silvan.cli", "run", "-"],
        stdin=reader,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(reader)
        sent = 0
        try:
            while sent < 1 << 28:
                sent += os.write(writer, b"y\n" * (1 << 15))
        except BrokenPipeError:
            pass
        finally:
            os.close(writer)
        assert (
            process.stderr.read()
            == "Error: stdin: has more than 16,777,216 characters, the limit of a scenario\n"
        )
    assert process.returncode == 1
    # The command reads little more than the limit.
    assert sent < 20 << 20
