"""Tests the trace events of runs: the format for Perfetto, and the agreement with the tables."""

import gzip
import itertools
import json
from collections import defaultdict

import numpy as np
import pytest

import silvan
from conftest import SMALL, command
from silvan import report

NUMBER = (int, float)
#: Kinds of written events, with the keys that each must contain in addition to its kind.
NEEDED = {
    "M": {"name": str, "pid": int, "tid": int, "args": dict},
    "C": {"name": str, "pid": int, "tid": int, "args": dict, "ts": NUMBER},
    "X": {"name": str, "cat": str, "pid": int, "tid": int, "args": dict, "ts": NUMBER, "dur": NUMBER},
}


@pytest.fixture(scope="module")
def runs():
    scenario = silvan.Scenario.from_toml(SMALL)
    return [silvan.run(scenario), silvan.run(scenario, congestion__mechanism="ib-cc")]


@pytest.fixture(scope="module")
def events(runs, tmp_path_factory):
    path = report.trace_events(runs, tmp_path_factory.mktemp("trace") / "trace.json", titles=["off", "on"])
    trace = json.loads(path.read_text(encoding="utf-8"))
    assert trace["displayTimeUnit"] == "ns"
    return trace["traceEvents"]


def named(events, kind):
    return {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one["name"] == kind}


def test_every_event_is_one_of_the_format(events):
    for event in events:
        for key, kind in NEEDED[event["ph"]].items():
            assert isinstance(event[key], kind), event
            assert not isinstance(event[key], bool)
        assert event.get("ts", 0) >= 0
        assert event.get("dur", 1) > 0
        if event["ph"] == "C":
            assert event["args"]
            assert all(isinstance(value, NUMBER) for value in event["args"].values())
    processes = {pid for pid, _ in named(events, "process_name")}
    threads = set(named(events, "thread_name"))
    assert {event["pid"] for event in events} == processes
    assert {(event["pid"], event["tid"]) for event in events if event["ph"] == "X"} == threads


def test_slices_of_a_thread_do_not_overlap(events):
    slices = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            slices[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert slices
    for spans in slices.values():
        spans.sort()
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))


def test_a_link_waits_as_long_as_the_table_says(runs, events):
    """Reconstruct from the slices which link waits for which at each sample."""
    processes = named(events, "process_name")
    for run, title in zip(runs, ("off", "on"), strict=True):
        (process,) = [pid for (pid, _), name in processes.items() if name == f"{title}: links in trees"]
        links = {tid: name for (pid, tid), name in named(events, "thread_name").items() if pid == process}
        ends_us = run.numpy("network")["time_ns"] / 1e3
        found = set()
        for event in events:
            if event["ph"] == "X" and event["pid"] == process:
                link, args = links[event["tid"]], event["args"]
                end = event["ts"] + event["dur"]
                waits_for = event["name"].partition(": waits for ")[2] or link
                inside = ends_us[(ends_us > event["ts"] + 1e-6) & (ends_us <= end + 1e-6)]
                found |= {(at, link, args["tree"], waits_for, args["depth"]) for at in inside.tolist()}
        rows = run.numpy("tree_links")
        columns = (rows[name].tolist() for name in ("link", "tree", "waits_for", "depth"))
        assert found == set(zip((rows["time_ns"] / 1e3).tolist(), *columns, strict=True))
        assert len(found) == len(rows["tree"])
    assert len(runs[0].numpy("tree_links")["tree"]) > 20


def test_trees_and_counters_are_the_runs(runs, events):
    processes = {name: pid for (pid, _), name in named(events, "process_name").items()}
    trees = [one for one in events if one["ph"] == "X" and one["pid"] == processes["off: trees"]]
    forest = runs[0].forest.trees
    assert [(one["ts"] * 1e3, one["dur"] * 1e3) for one in trees] == [
        pytest.approx((tree.born_ns, tree.lifetime_ns)) for tree in forest
    ]
    assert {host for one in trees for host in one["args"]["victims"]} == {"H1"}
    name = "Received throughput (Gbit/s)"
    counters = [one for one in events if one["name"] == name and one["pid"] == processes["on: counters"]]
    flows, times = runs[1].numpy("flows"), runs[1].numpy("network")["time_ns"]
    received = flows["received_bytes"][flows["flow"] == "F1"]
    width = np.diff(times, prepend=0)
    assert [one["args"]["F1"] for one in counters] == pytest.approx(received * 8 / width)
    assert [one["ts"] for one in counters] == pytest.approx([0, *times[:-1] / 1e3])


def test_causes_partition_a_message_and_arrows_lead_to_their_places(runs, tmp_path):
    found = silvan.why(runs[0], slowest=2)
    path = report.trace_events(runs, tmp_path / "why.json", explained=[found, []])
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    process = next(pid for (pid, _), name in named(events, "process_name").items() if "causes" in name)
    own = [one for one in events if one["pid"] == process]
    threads = {tid: name for (_, tid), name in named(own, "thread_name").items()}
    for number, one in enumerate(found, start=1):
        title = f"{number}. {one.subject}"
        slices = [event for event in own if event["ph"] == "X" and threads[event["tid"]] == title]
        edges = [(event["args"]["start_ps"], event["args"]["end_ps"]) for event in slices]
        subject = one.explanation.subject
        assert [start for start, _ in edges] == [subject.start, *(end for _, end in edges[:-1])]
        assert edges[-1][1] == subject.end
        assert [event["ts"] for event in slices] == [start / 1e6 for start, _ in edges]
        named_slices = defaultdict(list)
        for event in slices:
            named_slices[event["name"]].append(event["args"]["start_ps"])
        for cause in one.explanation.causes:
            name = f"{cause.label.value} at {cause.place}"
            there = [event for event in own if threads.get(event["tid"]) == f"{number}. {name}"]
            shown = [event["args"]["start_ps"] for event in there if event["ph"] == "X"]
            assert len(shown) == min(len(named_slices[name]), 200)
            assert len(shown) == sum(event["ph"] == "f" for event in there)
            assert shown[0] == named_slices[name][0]
            assert {*shown} <= {*named_slices[name]}
    begin = {event["id"]: event for event in own if event["ph"] == "s"}
    end = {event["id"]: event for event in own if event["ph"] == "f"}
    assert begin.keys() == end.keys()
    assert begin
    assert {threads[event["tid"]].partition(" at ")[2] for event in end.values()} >= {
        one.explanation.causes[0].place for one in found
    }
    with pytest.raises(ValueError, match="explanations of 1 runs for 2 runs"):
        report.html(runs, explained=[found])


def test_a_name_with_gz_is_packed_and_the_same_each_time(runs, tmp_path):
    plain = report.trace_events(runs, tmp_path / "trace.json")
    packed = [report.trace_events(runs, tmp_path / name) for name in ("a.json.gz", "b.json.gz")]
    assert gzip.decompress(packed[0].read_bytes()) == plain.read_bytes()
    assert packed[0].read_bytes() == packed[1].read_bytes()


def test_names_of_others_stay_text_and_a_run_without_forest_has_counters(tmp_path):
    name = '<script>"' + "x" * 1_000
    text = SMALL.replace('name = "F1"', f"name = {json.dumps(name)}")
    run = silvan.run(silvan.Scenario.from_toml(text), measure__forest="false")
    path = report.trace_events([run], tmp_path / "new" / "trace.json")
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    assert {one["ph"] for one in events} == {"M", "C"}
    assert any(name in one["args"] for one in events if one["ph"] == "C")


def test_the_command_writes_both_files(runs, tmp_path):
    runs[0].save(tmp_path / "run")
    done = command("report", "run", "--out", "a.html", "--trace-events", "a.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["Report in a.html", "Trace events in a.json"]
    assert json.loads((tmp_path / "a.json").read_text())["traceEvents"]
    done = command("report", "run", "--out", "a.html", "--trace-events", "./a.html", cwd=tmp_path)
    assert done.returncode == 2
    assert "also the file of --out" in done.stderr
    with pytest.raises(IsADirectoryError, match=r"trace\.json"):
        report.trace_events(runs, tmp_path)
