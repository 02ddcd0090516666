"""Tests `silvan compare`, `silvan export`, `silvan new`, `silvan doctor` and `silvan completion`."""

import csv
import io
import json
import math
import os
import shlex
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import silvan
from conftest import SMALL
from silvan import _comparison_text, _statistics, cli, comparison, quantities, templates
from silvan._statistics import Interval
from silvan.commands import doctor
from silvan.comparison import Change, compare

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

STAR = """
name = "star"
duration = "300 us"
warmup = "100 us"
[topology]
kind = "star"
hosts = 6
[measure]
interval = "4 us"
[[traffic]]
name = "all"
pattern = { kind = "uniform" }
rate = "5 Gbit/s"
arrivals = "poisson"
"""


def invoke(*arguments, **more):
    return CliRunner().invoke(cli.application(), [str(argument) for argument in arguments], **more)


def command(*arguments):
    """Run the command in this process, which is faster; `cli.main` converts errors to messages."""
    done = invoke(*arguments)
    is_error = isinstance(done.exception, silvan.SilvanError)
    said = f"{done.stderr}{done.exception}" if is_error else done.stderr
    assert is_error or done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return SimpleNamespace(returncode=1 if is_error else done.exit_code, stdout=done.stdout, stderr=said)


def star(seed, **overrides):
    return silvan.run(silvan.Scenario.from_toml(STAR), seed=seed, **overrides)


@pytest.fixture(scope="module")
def stars():
    """Return runs at two rates, with four seeds each."""
    return [star(seed, traffic__0__rate=rate) for rate in ("5 Gbit/s", "4 Gbit/s") for seed in (1, 2, 3, 4)]


def test_runs_that_differ_in_their_seed_form_a_group(stars):
    found = compare(*stars[:6])
    assert [group.seeds for group in found.groups] == [(1, 2, 3, 4), (1, 2)]
    assert found.settings == {"traffic.0.rate": ("5 Gbit/s", "4 Gbit/s")}
    row = found.rows[0]
    values = [run.summary["throughput_gbit_s"] for run in stars[:6]]
    mean = np.mean(values[:4])
    assert row.means[0].value == pytest.approx(mean)
    half = 3.182 * np.std(values[:4], ddof=1) / np.sqrt(4) / mean
    assert row.means[0].high == pytest.approx(mean * np.exp(half), rel=1e-4)
    # With different seeds, the comparison is not paired, and two seeds prove nothing.
    errors = [np.var(own, ddof=1) / len(own) / np.mean(own) ** 2 for own in (values[:4], values[4:])]
    freedom = sum(errors) ** 2 / (errors[0] ** 2 / 3 + errors[1] ** 2)
    half = _statistics.quantile(freedom) * np.sqrt(sum(errors))
    change = row.changes[0]
    assert change.relative.high == pytest.approx((1 + change.relative.value) * np.exp(half) - 1)
    assert (change.verdict, change.reason) == ("no verdict", "a proof needs at least 3 seeds in each group")


def test_the_same_seeds_are_compared_pair_by_pair(stars):
    found = compare(*stars)
    change = found.rows[0].changes[0]
    values = np.array([run.summary["throughput_gbit_s"] for run in stars])
    assert change.difference == pytest.approx(values[4:].mean() - values[:4].mean())
    pairs = values[4:] / values[4:].mean() - values[:4] / values[:4].mean()
    half = 3.182 * np.std(pairs, ddof=1) / np.sqrt(4)
    assert change.relative.high == pytest.approx((1 + change.relative.value) * np.exp(half) - 1, rel=1e-4)
    assert change.is_proven


def test_runs_that_are_too_short_for_a_test_of_steady_state_have_no_verdict():
    rates = ("5 Gbit/s", "4 Gbit/s")
    short = [
        star(seed, traffic__0__rate=rate, measure__interval="10 us") for rate in rates for seed in (1, 2, 3)
    ]
    change = compare(*short).rows[0].changes[0]
    assert change.verdict == "no verdict"
    # Between 100 us and 300 us are 20 of 40 values.
    reason = "steady state not tested: fewer than 40 values after the warm-up; a duration of 500 us or a "
    assert change.reason == f"{reason}shorter measure.interval has enough"
    longer = star(1, duration="500 us", measure__interval="10 us")
    assert longer.summary["steadiness"]["untested"] == []


def test_equal_runs_are_not_grouped_and_do_not_differ(stars):
    found = compare(stars[0], star(1, threads=2))
    assert len(found.groups) == 2
    assert found.settings == {}
    assert all(row.means[0] == row.means[1] for row in found.rows)
    assert found.rows[0].changes[0].p is None
    with pytest.raises(silvan.SilvanError, match="1 run to compare; give two or more"):
        compare(stars[0])


@pytest.mark.parametrize(
    ("duration", "interval", "idle"),
    [
        # The job lasts 2.3 us. The last sample of a run that is no multiple of the interval is at its end.
        ("20 us", "20 us", False),
        ("2400 ns", "1200 ns", False),
        ("3500 ns", "1200 ns", True),
        ("3700 ns", "1200 ns", True),
        ("300 us", "1 us", True),
    ],
)
def test_runs_without_tables_are_compared(duration, interval, idle, tmp_path):
    job = f"""
end_with_jobs = false
duration = "{duration}"
warmup = "0 s"
[topology]
kind = "star"
hosts = 6
[measure]
interval = "{interval}"
[[job]]
name = "sum"
hosts = ["H1", "H2", "H3", "H4"]
program = {{ kind = "collective", operation = "all-reduce", ranks = 4, bytes = "2 KiB" }}
"""
    whole = silvan.run(silvan.Scenario.from_toml(job))
    times = whole.numpy("network")["time_ns"]
    (row,) = whole.summary["jobs"]
    assert (row["finished_ns"] < [0, *times][-2]) == idle
    bare = silvan.results.Result(
        scenario_toml=whole.scenario_toml,
        provenance=whole.provenance,
        summary=whole.summary,
        account=whole.account,
        warnings=whole.warnings,
        tables={},
    )
    found = quantities.measures(whole)
    assert ("received by all hosts" not in [name for name, _ in found]) == idle
    del found["links in congestion trees", ""]
    assert quantities.measures(bare) == found
    said = command("compare", bare.save(tmp_path / "bare"), whole.save(tmp_path / "whole"))
    assert (said.returncode, said.stderr) == (0, "")


def test_a_comparison_is_printed(stars, tmp_path):
    folders = [run.save(tmp_path / str(number)) for number, run in enumerate(stars)]
    done = command("compare", *folders)
    assert done.returncode == 0, done.stderr
    assert f"B  {folders[4]}, {folders[5]}, {folders[6]}, {folders[7]} (seeds 1, 2, 3, 4)" in done.stdout
    assert "traffic.0.rate" in done.stdout
    assert "have no intervals" not in done.stdout
    # No run has marks, and at these loads the latency hardly changes.
    assert "packets marked" not in done.stdout
    assert "no difference shown (" in done.stdout
    assert "packets marked" in command("compare", "--all", *folders).stdout
    pair = command("compare", folders[0], folders[4])
    assert "Runs with one seed have no intervals" in pair.stdout
    numbers = json.loads(command("compare", "--json", *folders).stdout)
    assert numbers["results"][0]["means"][0]["low"] > 0
    same = command("compare", folders[0], folders[0])
    assert "The settings do not differ.\n\nThe results do not differ." in same.stdout
    assert command("compare", folders[0]).returncode == 2


def test_what_is_worse_comes_first(stars, tmp_path):
    """At 4 instead of 5 Gbit/s, hosts receive less, which is worse. Equal measures are no loss."""
    found = compare(*stars)
    assert [(loss.group, loss.row.measure) for loss in found.losses][:1] == [(1, "received by all hosts")]
    assert 0.15 < found.losses[0].size < 0.25
    # In the other direction, the same change is a gain; a single seed proves nothing.
    assert not any("received" in loss.row.measure for loss in compare(*stars[4:], *stars[:4]).losses)
    assert compare(stars[0], stars[4]).losses == ()
    row = found.rows[0]
    slow = comparison.Row("all: latency since injection, 99 %", "us", row.means, (), ())
    more, less, open_ = (
        Change(difference, Interval(difference, None, None), 0.01, verdict)
        for difference, verdict in ((2.0, "worse"), (-2.0, "better"), (2.0, "no difference shown"))
    )
    assert [slow.is_loss(one) for one in (more, less, open_, None)] == [True, False, False, False]
    assert found.rows[0].changes[0].verdict == "worse"
    assert compare(*stars[4:], *stars[:4]).rows[0].changes[0].verdict == "better"
    folders = [run.save(tmp_path / str(number)) for number, run in enumerate(stars)]
    said = command("compare", *folders).stdout
    assert said.index("Worse in B compared with A:\n received by all hosts -") < said.index("Settings")
    assert "losses" not in json.loads(command("compare", "--json", *folders).stdout)
    assert "Worse in B compared with A:" in found._repr_html_()
    slow = [star(seed, traffic__0__rate="1 Gbit/s") for seed in (1, 2, 3)]
    page = silvan.report.html([*stars[:3], *slow])
    lead = page.index("<strong>Worse:</strong> “star: none (4)” compared with “star: none (1)”: rec")
    assert lead < page.index("All hosts receive, in")


def test_parameters_of_one_mechanism_are_counted(tmp_path):
    for mechanism in ("none", "ib-cc"):
        star(1, congestion__mechanism=mechanism).save(tmp_path / mechanism)
    done = command("compare", tmp_path / "none", tmp_path / "ib-cc")
    assert "congestion.marking.kind" in done.stdout
    assert "congestion.marking.threshold" not in done.stdout
    assert "parameters that not all of these kinds have: --all lists them" in done.stdout
    assert (
        "congestion.marking.threshold"
        in command("compare", "--all", tmp_path / "none", tmp_path / "ib-cc").stdout
    )


def test_events_and_recovery_of_one_group_are_listed(tmp_path):
    """A table that only one group has is a difference, not a parameter of a mechanism."""
    text = STAR + '[[event]]\nkind = "down"\nlinks = ["H1"]\nstart = "200 us"\nlasts = "20 us"\n'
    text += '[recovery]\nkind = "go-back-n"\ntimeout = "100 us"\n'
    folders = [star(1).save(tmp_path / "a"), silvan.run(silvan.Scenario.from_toml(text)).save(tmp_path / "b")]
    said = command("compare", *folders).stdout
    for key in ("event.0.kind", "event.0.start", "event.0.lasts", "recovery.kind", "recovery.timeout"):
        assert f" {key} " in said
    assert "parameters that not all" not in said
    assert "\nSettings that differ\n" in said


def test_different_networks_or_traffic_are_not_compared_silently(tmp_path):
    small, other = star(1), star(1, topology__hosts=8, name="other")
    silvan.compare(small, star(1, topology__hosts=6, warmup="50 us"))
    with pytest.raises(silvan.SilvanError, match=r"different networks: topology\.hosts = 6, 8"):
        compare(small, other)
    folders = [run.save(tmp_path / run.name) for run in (small, other)]
    refused = command("compare", *folders)
    assert refused.returncode == 1
    assert "The groups of `star`, `other` have different networks" in refused.stderr
    assert (
        "Compare runs of the same network and traffic, or force the comparison with --force" in refused.stderr
    )
    forced = command("compare", *folders, "--force")
    assert forced.stdout.startswith("Warning: The groups of `star`, `other` have different networks")
    assert len(json.loads(command("compare", *folders, "--force", "--json").stdout)["incomparable"]) == 1
    hot = star(1, traffic__0__pattern={"kind": "hotspots", "to": ["H1"]})
    with pytest.raises(silvan.SilvanError, match=r"different traffic: traffic\.0\.pattern\.kind = uniform"):
        compare(small, hot)
    assert "Not the same:" in silvan.report.html([small, other])


def test_traffic_that_ended_and_indices_have_no_verdict():
    """H1 and H2 send all their data in one group, and continue in the other."""
    few = STAR + '[[flow]]\nname = "few"\nfrom = "H1"\nto = "H2"\nrate = "2 Gbit/s"\n'
    scenarios = [silvan.Scenario.from_toml(few + more) for more in ("", 'total = "32 KiB"\n')]
    runs = [silvan.run(one, seed=seed) for one in scenarios for seed in range(1, 6)]
    found = compare(*runs)
    rows = {row.measure: row for row in found.rows}
    received = rows["flow few: received"]
    assert received.means[1] is None
    assert received.changes == (None,)
    assert received.missing[1].startswith("`few` ends at ")
    assert "(in 5 of 5 seeds)" in received.missing[1]
    latency = rows["few: latency since injection, median"].changes[0]
    assert (latency.verdict, latency.reason) == ("no verdict", "`few` ends before the end of the run")
    jain = rows["Jain's index of the hosts"].changes[0]
    assert (jain.verdict, jain.p is not None) == ("no verdict", True)
    assert "Jain" not in " ".join(loss.row.measure for loss in found.losses)
    notes = "\n".join(_comparison_text.footnotes(found))
    assert "neither a larger nor a smaller value is better" in notes
    assert "`few` ends at " in notes


def test_classes_with_other_senders_have_no_verdict(stars):
    fewer = [star(seed, traffic__0__hosts=["H1", "H2", "H3"]) for seed in (1, 2, 3, 4)]
    found = compare(*stars[:4], *fewer, force=True)
    assert len(found.incomparable) == 1
    changes = {row.measure: row.changes[0] for row in found.rows}
    received = changes["class all: received"]
    assert (received.verdict, received.reason) == ("no verdict", "the senders of `all` differ")


def test_a_mechanism_that_changes_the_network_says_so():
    """The settings in the note give the same network without congestion control."""
    pfc = star(1, congestion__mechanism="dcqcn")
    (line,) = [line for line in pfc.account if line.startswith("The mechanism `dcqcn` also changes ")]
    assert "flow_control.kind (credits -> pfc)" in line
    assert "host.buffer (64 KiB -> 1 MiB)" in line
    settings = dict(one.split("=", 1) for one in shlex.split(line.partition("link layer: ")[2])[1::2])
    base = silvan.Scenario.from_toml(STAR, overrides={**settings, "congestion": {}})
    keys = ("flow_control", "switch", "host")
    with_control, without = (tomllib.loads(one) for one in (pfc.scenario_toml, base.to_toml()))
    for key in keys:
        assert {
            name: with_control[key][name]
            for name in ("kind", "arbitration", "buffer")
            if name in with_control[key]
        } == {name: without[key][name] for name in ("kind", "arbitration", "buffer") if name in without[key]}
    assert not [line for line in star(1, congestion__mechanism="ib-cc").account if "also changes" in line]
    written = star(1, **settings, congestion__mechanism="dcqcn")
    assert not [line for line in written.account if "also changes" in line]


def test_tables_are_exported(result, tmp_path):
    folder = result.save(tmp_path / "run")
    done = command("export", folder)
    assert done.returncode == 0, done.stderr
    written = sorted(path.name for path in (tmp_path / "run-csv").iterdir())
    assert written == sorted(f"{name}.csv" for name in result.tables)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "run-csv" / "flows.csv").read_text("utf-8"))))
    columns = result.numpy("flows")
    assert [row["flow"] for row in rows] == list(columns["flow"])
    assert [int(row["received_bytes"]) for row in rows] == columns["received_bytes"].tolist()
    one = command("export", folder, "--table", "classes", "--out", "-")
    shown = list(csv.DictReader(io.StringIO(one.stdout)))
    assert [float(row["throughput_gbit_s"]) for row in shown] == result.numpy("classes")[
        "throughput_gbit_s"
    ].tolist()
    assert "did you mean `flows`?" in command("export", folder, "--table", "flow").stderr
    assert "name one table" in command("export", folder, "-o", "-").stderr
    (tmp_path / "file").write_text("")
    assert "file" in command("export", folder, "-o", tmp_path / "file" / "x").stderr


@pytest.mark.parametrize("network", templates.NETWORKS)
@pytest.mark.parametrize("traffic", templates.TRAFFICS)
def test_a_new_scenario_runs(network, traffic):
    text = templates.write("mine", network, 20, traffic, "ib-cc")
    short = {"duration": "600 us", "warmup": "100 us"}
    if "[[job]]" in text:
        short["job.0.start"] = "0 us"
    result = silvan.run(silvan.Scenario.from_toml(text, overrides=short))
    assert result.summary["packets_delivered"] > 100
    assert not [line for line in result.warnings if "never" in line]
    hosts = len(set(result.numpy("hosts")["host"]))
    assert 20 <= hosts <= 80


def test_a_new_scenario_lists_hosts_as_ranges():
    text = templates.write("mine", "fat-tree", 64, "incast", "dcqcn")
    assert 'hosts = ["H[3-33/2]"]' in text
    assert 'hosts = ["H[4-34/2]", "H[35-63]"]' in text
    (job,) = silvan.Scenario.from_toml(text).check()["jobs"]
    assert job["hosts"] == [f"H{host}" for host in (*range(4, 35, 2), *range(35, 64))]


@pytest.mark.parametrize(("hosts", "ranks"), [(16, 8), (144, 64), (320, 128)])
def test_a_new_job_has_a_power_of_two_of_ranks_and_its_hosts_send_nothing_else(hosts, ranks):
    text = templates.write("mine", "fat-tree", hosts, "all-reduce", "none")
    scenario = silvan.Scenario.from_toml(text)
    (job,) = scenario.check()["jobs"]
    assert job["ranks"] == ranks
    (hot,) = tomllib.loads(scenario.to_toml())["traffic"]
    assert not set(hot["hosts"]) & set(job["hosts"])


@pytest.mark.parametrize(
    ("fabric", "mechanism", "gbit_s"), [("roce", "dcqcn", 400), ("infiniband", "ib-cc", None)]
)
def test_a_new_job_starts_after_the_warm_up(fabric, mechanism, gbit_s):
    text = templates.write("mine", "fat-tree", 64, "all-reduce", mechanism, fabric=fabric, gbit_s=gbit_s)
    result = silvan.run(silvan.Scenario.from_toml(text))
    (job,) = result.summary["jobs"]
    assert result.summary["averages_from_ns"] == job["started_ns"]
    assert 1e6 < job["span_ns"] < 4e6
    assert all(one["delivered_packets"] > 0 for one in result.summary["classes"])


@pytest.mark.parametrize("mechanism", [one for one in templates.MECHANISMS if one not in ("ecocc", "ccfit")])
def test_a_new_scenario_is_in_steady_state(mechanism):
    fabric = templates.fabric_of(mechanism)
    traffic = templates.FABRICS[fabric].traffic
    text = templates.write("mine", "fat-tree", 64, traffic, mechanism)
    # A job would be a change.
    text = text.partition("# A parallel job")[0].replace("end_with_jobs = false\n", "")
    result = silvan.run(silvan.Scenario.from_toml(text))
    found = result.summary["steadiness"]
    assert (found["changes"], found["untested"]) == ([], [])
    assert not [one for one in found["trends"] if not one["quantity"].startswith("victim: latency")]


def test_ranges_of_sizes_that_contain_all_transfers_are_left_out():
    rows = [
        {"class": "a", "transfers": 5},
        {"class": "a", "above_bytes": 0, "up_to_bytes": 10, "transfers": 5},
        {"class": "b", "transfers": 5},
        {"class": "b", "above_bytes": 0, "up_to_bytes": 10, "transfers": 4},
        {"class": "b", "above_bytes": 10, "transfers": 1},
    ]
    assert quantities.by_size(rows) == [rows[0], *rows[2:]]


def test_quantiles_of_few_transfers_are_left_out(tmp_path):
    """A run with 16 transfers of one size and hundreds of another; the number is always printed."""
    text = STAR.replace("[measure]", "[measure]\ntransfers = true")
    text += """
[[flow]]
name = "few"
from = "H1"
to = "H2"
total = "64 KiB"
message = "4 KiB"
start = "100 us"
"""
    runs = [silvan.run(silvan.Scenario.from_toml(text), traffic__0__rate=f"{rate} Gbit/s") for rate in (2, 4)]
    folders = [run.save(tmp_path / str(number)) for number, run in enumerate(runs)]
    counts = {one["class"]: one["transfers"] for one in runs[0].summary["transfers"]["sizes"]}
    assert counts["flows"] == 16
    assert counts["all"] >= 100
    found = quantities.measures(runs[0])
    assert found["transfers of flows: finished", ""] == 16
    names = [name for name, _ in found if name.startswith("transfers of flows: slowdown")]
    assert names == ["transfers of flows: slowdown, median"]
    assert ("transfers of all: slowdown, 99 %", "") in found
    assert not any("few" in name and "99 %" in name for name, _ in found)
    said = command("compare", *folders).stdout
    # The number of transfers is equal in both runs, but the median is not.
    assert "transfers of flows: finished" in said
    assert "transfers of flows: finished" in compare(*runs)._repr_html_()
    page = silvan.report.html(runs)
    assert "Slowdown of transfers of flows, median" in page
    assert "Slowdown of transfers of flows, 99 %" not in page
    assert "Slowdown of transfers of all, 99 %" in page
    same = command("compare", folders[0], folders[0]).stdout
    assert "The results do not differ." in same
    limits = [(0.5, 2), (0.95, 20), (0.99, 100)]
    assert all(quantities.is_supported(share, count) for share, count in limits)
    assert not any(quantities.is_supported(share, count - 1) for share, count in limits)


@pytest.mark.parametrize("mechanism", templates.MECHANISMS)
def test_a_new_scenario_may_have_any_mechanism(mechanism):
    silvan.Scenario.from_toml(templates.write("mine", "fat-tree", 16, "hotspot", mechanism)).check()


def test_new_uses_the_usual_answers_without_a_terminal(tmp_path):
    done = command("new", tmp_path / "mine", "--hosts", "30")
    assert done.returncode == 0, done.stderr
    assert "hosts: 36, switches: 12" in done.stdout
    text = (tmp_path / "mine.toml").read_text()
    assert 'name = "mine"' in text
    again = command("new", tmp_path / "mine.toml")
    assert again.returncode == 1
    assert "already exists" in again.stderr
    for options, message in (
        (("--network", "ring"), "network `ring` is not known; there are star"),
        (("--hosts", "3"), "3 hosts; must be 4 to 4,096"),
        (("--network", "star", "--hosts", "300"), "a star has at most 256 hosts"),
    ):
        refused = command("new", tmp_path / "other.toml", *options)
        assert refused.returncode == 1
        assert message in refused.stderr
    assert not (tmp_path / "other.toml").exists()


def test_new_asks_on_a_terminal(tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.chdir(tmp_path)
    answers = iter(["asked", "ring", "torus", "8", "uniform", "qcn"])
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("typer.prompt", lambda *_, **__: next(answers))
    cli.application()(["new"], standalone_mode=False)
    assert silvan.Scenario.load(tmp_path / "asked.toml").check()["hosts"] == 8


def test_the_doctor_finds_what_is_wrong(monkeypatch):
    done = command("doctor")
    assert done.returncode == 0, done.stdout
    assert "gives the expected results" in done.stdout
    monkeypatch.setattr(doctor, "EXPECTED", "0" * 16)
    wrong = invoke("doctor", "--json")
    assert wrong.exit_code == 1
    assert [one["what"] for one in json.loads(wrong.output) if one["verdict"] == "wrong"] == [
        "the results of a run differ from those on other machines"
    ]
    monkeypatch.setitem(doctor.OPTIONAL, "no_such_module", ("a feature", "pip install it"))
    assert "pip install it" in invoke("doctor").output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_completion_is_printed(shell):
    done = invoke("completion", shell)
    assert done.exit_code == 0
    assert "_SILVAN_COMPLETE" in done.output


def test_shells_complete_commands_and_scenarios(tmp_path):
    (tmp_path / "testing.toml").write_text(SMALL)
    (tmp_path / "testing.txt").write_text("")

    def completed(line):
        words = line.split(" ")
        environment = {
            **os.environ,
            "_SILVAN_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
        }
        done = subprocess.run(
            [sys.executable, "-c", "import sys; sys.argv[0] = 'silvan'; from silvan.cli import main; main()"],
            env=environment, cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stdout.split()

    assert completed("silvan comp") == ["compare", "completion"]
    assert completed("silvan run testi") == ["testing.toml"]
    assert completed("silvan check testb") == ["testbed"]
    assert "--seed" in completed("silvan run --s")
    assert invoke("completion", "csh").exit_code == 2


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (1895.2, 120.3, "1,895 ± 120"),
        (205.4, 1.26, "205.4 ± 1.3"),
        (0.0213177, 0.00042, "0.02132 ± 0.00042"),
        (12.0, 0.0, "12 ± 0"),
        (10540.4, None, "10,540"),
        (1234567.0, None, "1,234,567"),
        (0.99996, None, "1.0000"),
        (0.0, None, "0"),
        (5e-14, None, "5e-14"),
        (math.nan, None, "nan"),
    ],
)
def test_numbers_have_sensible_digits(value, half, text):
    assert _comparison_text.in_words(value, half) == text


def test_differences_have_a_sign_and_no_exponent():
    assert [_comparison_text.signed(value) for value in (706.1, -1054.4, 0.01234, 0)] == [
        "+706", "-1,054", "+0.0123", "0"
    ]  # fmt: skip
    tiny = Change(-2.2e-16, Interval(-2.2e-16, None, None), None, "no difference shown")
    assert _comparison_text.change_cell(tiny) == "0 %"


def test_intervals_are_written_with_their_limits_unless_they_are_symmetric():
    assert _comparison_text.mean_cell(Interval(89.0, 84.0, 94.3)) == "89 ± 5.1"
    assert _comparison_text.mean_cell(Interval(689.0, 68.0, 6951.0)) == "689 (68 to 6,951)"
    gone = Change(-5.0, Interval(-1.0, -1.0, -1.0), 0.001, "better")
    assert _comparison_text.change_cell(gone) == "better, -100 %"
    unknown = Change(-5.0, Interval(-1.0, -1.0, math.inf), 0.2, "no difference shown")
    assert _comparison_text.change_cell(unknown) == "no difference shown"


def test_one_receiver_has_no_fairness():
    alone = SimpleNamespace(
        scenario_toml='measure.interval = "1 us"',
        summary={
            "simulated_ns": 1000, "averages_from_ns": 0,
            "throughput_gbit_s": 1.0, "flows": [], "classes": [], "latency": [], "fecn_marks": 0,
            "jain_hosts": 1.0, "hosts": [{"received_gbit_s": 1.0}, {"received_gbit_s": 0.0}],
        },
        tables={},
    )  # fmt: skip
    assert not any("Jain" in name for name, _ in quantities.measures(alone))
    alone.summary["hosts"][1]["received_gbit_s"] = 0.5
    assert any("Jain" in name for name, _ in quantities.measures(alone))


def test_a_comparison_without_no_control_says_so(stars):
    """Mechanisms that are compared only with each other may all be worse than none."""

    def lacks(*mechanisms):
        runs = [
            SimpleNamespace(scenario_toml=f'[congestion]\nmechanism = "{one}"\nn = {n}')
            for n, one in enumerate(mechanisms)
        ]
        groups = tuple(comparison.Group((run,), (0,)) for run in runs)
        found = comparison.Comparison(groups, {"congestion.mechanism": mechanisms}, ())
        return any(
            "nothing shows whether it is better than none" in one for one in _comparison_text.footnotes(found)
        )

    assert lacks("dcqcn", "hpcc")
    assert not lacks("none", "dcqcn", "hpcc")
    assert not compare(*stars).lacks_none
