"""Tests the command from a user's point of view."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

import silvan
from conftest import FABRICS, ROOT, SMALL, command
from silvan import cli

SW2 = FABRICS / "sw2-h7" / "updn"


def invoke(*arguments):
    return CliRunner().invoke(cli.application(), [str(argument) for argument in arguments])


def test_help_lists_the_commands():
    text = invoke("--help").output
    for name in ("run", "check", "schema", "plot", "fabric", "papers", "demo", "version"):
        assert name in text


def test_a_run_prints_what_happened(small):
    done = command("run", small)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for text in ("small: 3 ms simulated", "F1", "H4", "Latency of packets", "Jain"):
        assert text in done.stdout


def test_a_quiet_run_prints_warnings_only(small, tmp_path):
    done = command("run", small, "--quiet", "--out", tmp_path / "out")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert silvan.load(tmp_path / "out").name == "small"
    done = command("run", "testbed", "-q", "--set", "duration=10 ms", "--set", "warmup=5 ms")
    assert done.stdout == ""
    assert done.stderr.startswith("Warning: `F2` never sent")
    assert all(line.startswith("Warning: ") for line in done.stderr.splitlines())


def test_a_run_prints_json(small):
    done = invoke("run", small, "--json", "--set", "duration=2 ms", "--set", "seed=5")
    answer = json.loads(done.output)
    assert answer["summary"]["simulated_ns"] == 2_000_000
    assert answer["provenance"]["seed"] == 5
    assert answer["out"] is None
    assert answer["account"]


TREE = """
name = "tree"
duration = "100 us"
[topology]
kind = "k-ary-n-tree"
k = 4
n = 2
[measure]
interval = "20 us"
[[traffic]]
pattern = { kind = "uniform" }
"""


@pytest.fixture
def tree(tmp_path):
    file = tmp_path / "tree.toml"
    file.write_text(TREE)
    return file


def test_threads_change_nothing_but_the_time(tree, tmp_path):
    for threads in ("1", "2", "3", "auto"):
        done = invoke("run", tree, "--out", tmp_path / threads, "--threads", threads)
        assert done.exit_code == 0, done.output
    one = silvan.load(tmp_path / "1")
    assert one.summary["packets_delivered"] > 1_000
    for threads in ("2", "3", "auto"):
        # Compare all files except those that describe the execution of the run.
        for file in (tmp_path / "1").iterdir():
            if file.name not in ("provenance.json", "scenario.toml"):
                assert (tmp_path / threads / file.name).read_bytes() == file.read_bytes(), file.name
    done = command("run", tree, "--threads", "0")
    assert done.returncode == 1
    assert "threads = 0: must be 1 to 256" in done.stderr


def test_check_says_which_threads_have_nothing_to_do(tree):
    def warnings(*settings, scenario=tree):
        words = [word for setting in settings for word in ("--set", setting)]
        return json.loads(invoke("check", scenario, "--json", *words).output)["warnings"]

    assert not warnings("threads=4")
    assert warnings("threads=5") == [
        "threads = 5: the run uses 4 threads, because its network has only that many partitions"
    ]
    for other in ("switch.architecture=iq", "host.queues=single", "lanes.count=4"):
        assert not warnings("threads=2", other)
    for name in ("mvcm-hot-phase", "job-collective"):
        shown = warnings("threads=2", scenario=ROOT / "scenarios" / f"{name}.toml")
        assert not [warning for warning in shown if warning.startswith("threads")]


def test_a_run_is_written_and_drawn(small, tmp_path):
    out = tmp_path / "out"
    done = invoke("run", small, "--out", out, "--plot")
    assert done.exit_code == 0
    assert f"Written to {out}" in done.output
    assert silvan.load(out).name == "small"
    assert (out / "figures" / "throughput.png").is_file()
    again = command("plot", out, "--out", tmp_path / "figures")
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "figures" / "throughput.svg").is_file()


def test_a_run_can_be_repeated_from_its_folder(small, tmp_path):
    command("run", small, "--out", tmp_path / "one")
    done = command("run", tmp_path / "one" / "scenario.toml", "--out", tmp_path / "two")
    assert done.returncode == 0, done.stderr
    assert silvan.load(tmp_path / "one").summary == silvan.load(tmp_path / "two").summary


def test_the_folder_of_a_run_is_no_scenario(small, tmp_path):
    silvan.run(small).save(tmp_path / "own")
    done = command("run", tmp_path / "own")
    assert done.returncode == 1
    scenario = tmp_path / "own" / "scenario.toml"
    assert done.stderr == f"Error: {tmp_path / 'own'}: is the folder of a run; its scenario is {scenario}\n"


def test_the_index_of_a_single_receiver_is_left_out():
    done = command("run", "roce-incast-16", "--set", "duration=20 us")
    assert re.search(r"Jain's index of the hosts +- *\n", done.stdout)


def test_a_scenario_of_the_folder_one_is_in(small, tmp_path):
    """A file name without a folder works wherever a scenario is expected."""
    (tmp_path / "study.toml").write_text('scenario = "small.toml"')
    for arguments in (
        ("run", "small.toml", "--out", "one"),
        ("run", "./one/scenario.toml", "--out", "two"),
        ("check", "small.toml", "--fluid"),
        ("fabric", "options", "small.toml", "--set", "congestion.mechanism=ib-cc"),
        ("fabric", "route", "small.toml", "--out", "small.lft"),
        ("sweep", "study.toml", "--jobs", 1),
    ):
        done = command(*arguments, cwd=tmp_path)
        assert done.returncode == 0, (arguments, done.stderr)
    assert silvan.load(tmp_path / "one").summary == silvan.load(tmp_path / "two").summary
    named = silvan.load(tmp_path / "one").provenance
    assert named["base_dir"] == str(tmp_path)


def test_a_scenario_of_no_folder_names_its_files_by_absolute_paths(monkeypatch):
    monkeypatch.chdir(SW2)
    text = 'duration = "1 ms"\n[topology]\nkind = "file"\nfile = "ibnetdiscover.topo"\n'
    text += '[[traffic]]\npattern = { kind = "uniform" }\n'
    scenario = silvan.Scenario.from_toml(text, base_dir="")
    assert f'file = "{SW2 / "ibnetdiscover.topo"}"' in scenario.to_toml(standalone=True)


def test_errors_are_one_message_and_no_traceback(small, tmp_path):
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "file").write_text("")
    study = tmp_path / "study"
    study.mkdir()
    (study / "report.html").write_text("")
    cases = [
        (("run", "nowhere.toml"), 1, "nowhere.toml"),
        (("run", small, "--set", "flow.0.to=H9"), 1, "--set flow.0.to"),
        (("run", small, "--set", "flow.0.to"), 2, "is not KEY=VALUE"),
        (("run", small, "--plot"), 2, "--out DIR"),
        (("run", small, "--out", foreign), 1, "not the folder of a run"),
        (("run", ROOT / "scenarios" / "ring-deadlock.toml"), 1, "can deadlock"),
        (("run", study), 1, "is a folder"),
        (("plot", foreign), 1, "not the folder of a finished run"),
        (("plot", "none"), 1, "none: no such folder; `silvan run SCENARIO --out none` writes one"),
        (("report", study), 1, f"its report is {study / 'report.html'}"),
        (("fabric", "check", "none"), 1, "none: no such file or folder; `silvan fabric examples` copies"),
        (("fabric", "check", "mal.toml"), 1, "did you mean `small.toml`?"),
        (
            ("fabric", "study", "testbed"),
            1,
            "as files of a fabric: silvan fabric route testbed",
        ),
        (("fabric", "collide", "nothing", "--pattern", "ring"), 1, "nothing: no such file or folder"),
        (("fabric", "check", small, "--lft", small), 1, "small.toml:"),
        (("fabric", "route", SW2 / "ibnetdiscover.topo", "--routing", "fast", "--out", "x"), 1, "up-down"),
        (("papers", "run"), 2, "papers list"),
        (("papers", "run", "T99"), 1, "T99"),
        (("juggle",), 2, "juggle"),
    ]
    for arguments, status, text in cases:
        done = command(*arguments, cwd=tmp_path)
        assert done.returncode == status, (arguments, done.stderr)
        assert text in done.stderr, (arguments, done.stderr)
        assert "Traceback" not in done.stderr, arguments
        assert done.stdout == "", arguments
    assert not (tmp_path / "x").exists()


def test_check_reports_without_running(small):
    done = invoke("check", small)
    assert done.exit_code == 0
    assert "small: fine" in done.output
    assert "impossible" in done.output
    report = json.loads(invoke("check", small, "--json", "--set", "topology.left=4").output)
    assert report["hosts"] == 8
    assert report["deadlock"] is None


def test_schema_and_version():
    assert json.loads(invoke("schema").output) == json.loads(silvan.schema())
    assert invoke("version").output.startswith(f"silvan {silvan.__version__}")


def test_no_progress_bar_off_a_terminal(small):
    quiet = command("run", small, "--set", "duration=500 ms", "--set", "measure.interval=10 ms")
    assert quiet.stderr == ""


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize("delay_s", [0.0, 1.0])
def test_ctrl_c_stops_cleanly(small, tmp_path, delay_s):
    out = tmp_path / "out"
    arguments = ["run", small, "--set", "duration=3600 s", "--set", "measure.interval=1 s", "--out", out]
    # If a script runs the tests in the background, their processes ignore Ctrl-C. Restore the handler,
    # because processes on a user's terminal do not ignore the signal.
    listening = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    # On a busy machine, the command takes seconds to start, so make it report when the run starts.
    told = "from silvan import _core, cli; run = _core.run; "
    told += "_core.run = lambda *all: (print('ready', flush=True), run(*all))[1]; "
    start = listening + told + "cli.main()"
    process = subprocess.Popen(
        [sys.executable, "-c", start, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(1.0 + delay_s)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    stdout, stderr = process.communicate(timeout=20)
    assert time.monotonic() - began < 10
    assert process.returncode == 130
    assert stdout == ""
    assert stderr.startswith("stopped at ")
    assert stderr.endswith("of 3600 s; nothing written\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small.toml"]


def test_a_killed_run_leaves_nothing(small, tmp_path):
    out = tmp_path / "out"
    arguments = ["run", small, "--set", "duration=3600 s", "--set", "measure.interval=1 s", "--out", out]
    process = subprocess.Popen([sys.executable, "-m", "silvan.cli", *arguments])
    time.sleep(1.5)
    process.kill()
    assert process.wait(timeout=10) == -signal.SIGKILL
    assert not out.exists()


def test_the_progress_bar_tells_time_and_rate(small):
    done = command(
        "run", small, "--progress", "--set", "duration=6 s", "--set", "measure.interval=100 ms", "--json"
    )
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)
    if json.loads(done.stdout)["provenance"]["wall_s"] > 2:
        assert "of 6 s" in done.stderr
        assert "events/s" in done.stderr


def test_a_fine_fabric_exits_with_0():
    done = command("fabric", "check", SW2 / "ibnetdiscover.topo", "--lft", SW2 / "opensm-lfts.dump")
    assert done.returncode == 0, done.stderr
    assert "42" in done.stdout
    assert "impossible" in done.stdout


def test_the_648_fabric_is_even():
    folder = FABRICS / "ft2-36p-h648" / "ftree"
    done = command(
        "fabric", "check", folder / "ibnetdiscover.topo.gz", "--lft", folder / "opensm-lfts.dump.gz", "--json"
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["hosts"], report["switches"]) == (648, 54)
    assert report["pairs_routed"] == 648 * 647
    assert report["all_to_all"]["histogram"] == {"630": 1296}
    assert report["hops"] == {"1": 648 * 17, "3": 648 * 630}


def test_a_fabric_that_can_deadlock_exits_with_3_and_names_the_cycle(tmp_path):
    ring = ROOT / "scenarios" / "ring-deadlock.toml"
    dump, network = tmp_path / "ring.lft", tmp_path / "ring.topo"
    done = command("fabric", "route", ring, "--out", dump, "--network", network)
    assert done.returncode == 0, done.stderr
    done = command("fabric", "check", network, "--lft", dump)
    assert done.returncode == 3, done.stderr
    assert "possible" in done.stdout
    assert "S1:" in done.stdout

    done = command("fabric", "route", network, "--routing", "up-down", "--out", dump)
    assert done.returncode == 0, done.stderr
    done = command("fabric", "check", network, "--lft", dump)
    assert done.returncode == 0, done.stderr


def test_an_unusable_fabric_exits_with_1(tmp_path):
    text = (SW2 / "opensm-lfts.dump").read_text()
    cut = tmp_path / "cut.dump"
    cut.write_text(text[: len(text) // 2])
    done = command("fabric", "check", SW2 / "ibnetdiscover.topo", "--lft", cut)
    assert done.returncode == 1
    assert "cut.dump:" in done.stderr


def test_the_demo_shows_the_victim_and_the_cure(tmp_path, monkeypatch):
    """Runs the whole demo on a testbed with shorter times."""
    from silvan import demo

    short = SMALL.replace('"3 ms"', '"40 ms"').replace('"1 ms"', '"2 ms"').replace('"100 us"', '"1 ms"')
    (tmp_path / "testbed.toml").write_text(short)
    monkeypatch.setattr(demo, "find_scenario", lambda: tmp_path / "testbed.toml")
    monkeypatch.setattr(demo, "LAST_NS", 10_000_000)
    done = invoke("demo", "--out", tmp_path / "demo")
    assert done.exit_code == 0, done.output
    assert "CC off: victim F1" in done.output
    assert (tmp_path / "demo" / "comparison.png").stat().st_size > 10_000
    assert (tmp_path / "demo" / "comparison.svg").is_file()
    assert silvan.load(tmp_path / "demo" / "cc-on").provenance["overrides"] == {
        "congestion.mechanism": "ib-cc"
    }


def test_papers_are_listed():
    done = command("papers", "list", "--json")
    assert done.returncode == 0, done.stderr
    assert {"T1", "A2", "A8"} <= {entry["id"] for entry in json.loads(done.stdout)}
    assert "T1" in command("papers", "list").stdout


def test_closed_pipes_are_no_error(small):
    process = subprocess.run(
        f"{sys.executable} -m silvan.cli schema | head -c 10",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert process.stderr == ""


def test_congestion_control_comes_out_as_opensm_options():
    testbed = ROOT / "scenarios" / "testbed.toml"
    done = invoke("fabric", "options", testbed, "--set", "congestion.mechanism=ib-cc")
    assert "cc_sw_cong_setting_threshold 0x0f\n" in done.output
    assert "cc_ca_cong_setting_ccti_timer 0 150\n" in done.output
    refused = command("fabric", "options", testbed)
    assert refused.returncode == 1
    assert 'congestion.mechanism must be "ib-cc"' in refused.stderr


def test_the_check_tells_the_round_trip_where_windows_live_from_it():
    done = command("check", "scenarios/hot-phase.toml")
    expected = "320 ns from H5 to H1 and back; at most 3 switches; 1.15 packets fill it, so windows of 2"
    assert expected in done.stdout
    assert "round trip" not in command("check", "scenarios/testbed.toml").stdout


def test_the_account_tells_the_round_trip_from_which_defaults_follow():
    quick = ("--set", "duration=50 us", "--set", "warmup=0 s")
    account = " ".join(command("run", "scenarios/hot-phase.toml", *quick).stdout.split())
    assert (
        "round trips on the empty network; the longest one takes 320 ns, from H5 to H1 and back." in account
    )
    assert "round trip" not in command("run", "scenarios/star.toml", *quick).stdout
