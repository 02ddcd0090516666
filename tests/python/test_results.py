"""Tests running a scenario, the tables, and the folder of a run."""

import hashlib
import io
import json
import random
import re
import threading
import time

import arro3.io
import numpy as np
import pytest
import tomllib
from arro3.core import Array, DataType, Table

import silvan
from conftest import ROOT, SMALL, command
from silvan import Scenario, _columns, _files, _folder, _layout, _store, _tables, _written, plot
from silvan.fairness import jain, rates_gbit_s, treatment_variation


def test_a_run_gives_summary_account_and_tables(result):
    assert result.summary["simulated_ns"] == 3_000_000
    assert [flow["flow"] for flow in result.summary["flows"]] == ["F1", "F2", "F3"]
    assert result.summary["packets_injected"] == (
        result.summary["packets_delivered"] + result.summary["packets_inside"]
    )
    assert result.account
    assert {"flows", "hosts", "links", "latency"} <= set(result.tables)


def test_traffic_without_a_name_is_called_as_in_results():
    unnamed = re.sub('name = "F."\n', "", SMALL) + 2 * "[[traffic]]\npattern = { kind = 'uniform' }\n"
    done = silvan.run(Scenario.from_toml(unnamed))
    scenario = tomllib.loads(done.scenario_toml)
    named = [one["name"] for one in (*_written.flows(scenario), *_written.patterns(scenario))]
    assert sorted(named) == sorted(one["class"] for one in done.summary["classes"])
    assert len(named) == 5


def test_a_missing_table_is_explained(result):
    names = ", ".join(result.tables)
    for read in (result.table, result.tables.__getitem__, result.numpy):
        with pytest.raises(
            KeyError, match=f"no table `flow`; did you mean `flows`\\? the tables of .* are {names}"
        ):
            read("flow")
        with pytest.raises(
            KeyError, match=f"`transfers`: a run has it with measure.transfers = true; .*{names}"
        ):
            read("transfers")
    with pytest.raises(KeyError, match="this run was kept without its tables; run the scenario again"):
        _store._without_tables(result).table("flows")
    # Each table is in all runs or has a condition.
    assert _columns.CONDITIONS.keys() == _columns.TABLES.keys() - _columns.ALWAYS


def test_overrides_reach_the_run(result):
    scenario = silvan.Scenario.from_toml(SMALL)
    shorter = silvan.run(scenario, duration="2 ms", warmup="0 s", **{"measure.interval": "1 ms"})
    assert shorter.summary["simulated_ns"] == 2_000_000
    assert list(np.unique(shorter.numpy("hosts")["time_ns"])) == [1_000_000, 2_000_000]
    assert silvan.run(scenario, measure__links=False).links.num_rows == 0
    assert result.links.num_rows > 0


def test_the_same_seed_gives_the_same_result(result):
    again = silvan.run(silvan.Scenario.from_toml(SMALL))
    assert again.summary == result.summary
    for name in result.tables:
        one, other = result.numpy(name), again.numpy(name)
        assert one.keys() == other.keys()
        for column in one:
            np.testing.assert_array_equal(one[column], other[column])  # an interval without deliveries is NaN


def test_numbers_are_read_in_place(result):
    numbers = result.coded("flows")["received_bytes"]
    assert np.shares_memory(numbers, result.numpy("flows")["received_bytes"])
    assert not result.numpy("flows")["received_bytes"].flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        result.numpy("flows")["received_bytes"][0] = 1


def test_arrow_tables_are_over_the_memory_of_arrays():
    numbers = np.arange(3, dtype=np.uint64)
    table = _tables.to_arrow({"n": numbers})
    numbers[1] = 7
    assert table["n"].to_pylist() == [0, 7, 2]


@pytest.mark.parametrize("rows", [0, 5000])
def test_tables_keep_kinds_and_names_through_arrow_and_a_file(rows):
    names = ["b", "unused", "a"]
    columns = {
        "n": np.arange(rows, dtype=np.uint64),
        "who": (np.arange(rows, dtype=np.uint32) % 2 * 2, names),
        "count": np.ones(rows, dtype=np.uint32),
        "part": np.arange(rows) / 7,
    }
    table = _tables.to_arrow(columns)
    in_file = arro3.io.read_parquet(io.BytesIO(_folder.parquet(table))).read_all()
    assert in_file.num_rows == rows
    for back in (_tables.of_arrow(table), _tables.of_arrow(in_file)):
        assert list(back) == list(columns)
        for name, values in back.items():
            if name == "who":
                codes, of = values
                assert np.array_equal(np.array([*of, ""])[codes], np.array(names)[columns["who"][0]])
            else:
                assert values.dtype == columns[name].dtype
                assert np.array_equal(values, columns[name])
                assert not values.flags.writeable


def test_arrow_tables_of_something_else_are_refused():
    table = Table.from_pydict({"n": arro3.core.Array([1, None], type=arro3.core.DataType.uint64())})
    with pytest.raises(TypeError, match="column `n` has missing values"):
        _tables.of_arrow(table)
    table = Table.from_pydict({"n": Array([1], type=DataType.int8())})
    with pytest.raises(TypeError, match=r"column `n` is .*Int8"):
        _tables.of_arrow(table)


def test_arrays_outlive_the_result():
    array = silvan.run(silvan.Scenario.from_toml(SMALL), duration="2 ms").numpy("flows")["time_ns"]
    junk = [np.ones(100_000) for _ in range(20)]
    assert array[-1] == 2_000_000
    assert len(junk) == 20


def test_tables_speak_arrow(result):
    assert hasattr(result.flows, "__arrow_c_stream__")
    assert result.flows.column_names[:3] == ["time_ns", "flow", "received_bytes"]
    total = sum(result.numpy("flows")["received_bytes"].tolist())
    assert total == sum(flow["received_bytes"] for flow in result.summary["flows"])


def test_a_folder_is_read_back_as_it_was(result, tmp_path):
    assert result.save(tmp_path / "run") == tmp_path / "run"
    loaded = silvan.load(tmp_path / "run")
    assert loaded.summary == result.summary
    assert loaded.account == result.account
    assert loaded.warnings == result.warnings
    assert loaded.provenance == json.loads(json.dumps(result.provenance))
    assert loaded.scenario.to_toml() == result.scenario_toml
    for name in result.tables:
        one, other = result.numpy(name), loaded.numpy(name)
        assert list(one) == list(other)
        for column in one:
            missing = one[column].dtype.kind == "f"
            assert np.array_equal(one[column], other[column], equal_nan=missing), (name, column)


def test_a_folder_tells_where_it_came_from(result, tmp_path):
    folder = result.save(tmp_path / "deep" / "run")
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "scenario.toml",
        "provenance.json",
        "summary.json",
        "account.txt",
        *(f"{table}.parquet" for table in result.tables),
    }
    provenance = json.loads((folder / "provenance.json").read_text())
    assert provenance["seed"] == 3
    assert provenance["version"] == silvan.__version__
    assert provenance["wall_s"] > 0
    assert provenance["machine"]["cores"] >= 1
    assert "T" in provenance["started"]


def test_only_runs_are_replaced(result, tmp_path):
    folder = result.save(tmp_path / "run")
    silvan.run(silvan.Scenario.from_toml(SMALL), seed=4).save(folder)
    assert silvan.load(folder).provenance["seed"] == 4

    empty = tmp_path / "empty"
    empty.mkdir()
    result.save(empty)

    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("precious")
    with pytest.raises(silvan.ResultError, match=r"foreign: is not empty and not the folder of a run"):
        result.save(foreign)
    assert [path.name for path in foreign.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("broken", ["summary.json", "flows.parquet", "provenance.json"])
def test_a_failed_save_leaves_nothing(result, tmp_path, monkeypatch, broken):
    """If any file cannot be written, there is no new folder, and an earlier folder is unchanged."""
    target = tmp_path / "run"
    flush = _files.flush

    def failing(path):
        if path.name == broken:
            raise OSError(28, "No space left on device", str(path))
        flush(path)

    with monkeypatch.context() as patch:
        patch.setattr(_files, "flush", failing)
        with pytest.raises(silvan.ResultError, match=r"No space left on device; nothing written"):
            result.save(target)
    assert list(tmp_path.iterdir()) == []

    result.save(target)
    before = (target / "provenance.json").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(_files, "flush", failing)
        with pytest.raises(silvan.ResultError):
            result.save(target)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert (target / "provenance.json").read_bytes() == before


def test_unfinished_folders_are_not_runs(result, tmp_path):
    with pytest.raises(silvan.ResultError, match="not the folder of a finished run"):
        silvan.load(tmp_path)
    folder = result.save(tmp_path / "run")
    (folder / "summary.json").unlink()
    with pytest.raises(silvan.ResultError, match="cannot be read as a run"):
        silvan.load(folder)


def test_other_threads_go_on_during_a_run():
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    before = len(ticks)
    silvan.run(silvan.Scenario.from_toml(SMALL), duration="200 ms", measure__interval="10 ms")
    during = len(ticks) - before
    stop.set()
    thread.join()
    assert during > 5


def test_progress_is_told_and_may_stop_the_run():
    seen = []

    class EnoughError(Exception):
        pass

    def progress(now_ns, end_ns, events):
        seen.append((now_ns, end_ns, events))
        if len(seen) == 2:
            raise EnoughError

    with pytest.raises(EnoughError):
        silvan.run(
            silvan.Scenario.from_toml(SMALL), progress=progress, duration="3600 s", measure__interval="1 s"
        )
    assert seen[1][1] == 3_600_000_000_000
    assert 0 < seen[0][0] < seen[1][0]
    assert 0 < seen[0][2] < seen[1][2]


def test_every_figure_is_drawn(result, tmp_path):
    folder = plot.save_all(result, tmp_path / "figures")
    stems = {path.stem for path in folder.glob("*.png")}
    assert stems >= {"throughput", "hosts", "links", "latency", "class-throughput", "class-latency"}
    assert stems == {path.stem for path in folder.glob("*.svg")}
    assert all(path.stat().st_size > 2_000 for path in folder.iterdir())


def test_figures_say_what_they_show(result):
    axes = plot.throughput(result)
    assert "Gbit/s" in axes.get_ylabel()
    assert "(ms)" in axes.get_xlabel()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["F1", "F2", "F3"]
    series = plot.Series(result, "flows", "flow", "received_bytes")
    assert series.names == ["F1", "F2", "F3"]
    first = result.numpy("flows")["flow"] == "F1"
    assert np.array_equal(series.values[0], result.numpy("flows")["received_bytes"][first])


def drawn(axes):
    """Return the values of each line of a figure by its name in the legend."""
    legend = axes.get_legend()
    names = [text.get_text() for text in legend.get_texts()]
    stairs = [patch for one in axes.figure.axes for patch in one.patches]
    found = {patch.get_label(): patch.get_data().values for patch in stairs}
    return names, found


def test_congestion_is_drawn_as_the_account_tells_it():
    """The figure shows the same number of roots as the account."""
    run = silvan.run(silvan.Scenario.from_toml(SMALL))
    (told,) = (line for line in run.account if line.startswith("Roots of congestion"))
    roots = re.findall(r"(\S+) \((\d+) % of the samples\)", told)
    samples = run.tables["network"].num_rows
    rows = run.numpy("tree_links")
    assert roots
    for link, percent in roots:
        seen = np.count_nonzero((rows["link"] == link) & (rows["depth"] == 0))
        assert round(100 * seen / samples) == int(percent), link
    names, lines = drawn(plot.congestion(run))
    assert names == ["roots of trees", "links that wait for them", "throttled flows"]
    assert lines["roots of trees"].sum() == np.count_nonzero(rows["depth"] == 0)
    assert lines["links that wait for them"].sum() == np.count_nonzero(rows["depth"])
    most = int(lines["links that wait for them"].max())
    assert f"Up to {most} links waited for a root at a time." in told


def test_control_that_keeps_trees_from_growing_is_told_and_drawn():
    run = silvan.run(silvan.Scenario.from_toml(SMALL), congestion__mechanism="ib-cc")
    told = "No output was the root of a congestion tree in more than a tenth of the samples."
    assert told in run.account
    names, lines = drawn(plot.congestion(run))
    assert names[-1] == "outputs that mark"
    assert not lines["roots of trees"].any()


def test_what_was_not_recorded_of_trees_is_not_drawn(monkeypatch):
    run = silvan.run(silvan.Scenario.from_toml(SMALL))
    numpy, rows = run.numpy, run.numpy("tree_links")
    half = len(rows["time_ns"]) // 2
    fewer = {name: column[:half] for name, column in rows.items()}
    monkeypatch.setattr(run, "numpy", lambda name: fewer if name == "tree_links" else numpy(name))
    counts = plot.in_trees(run)["roots of trees"]
    first = int(np.flatnonzero(np.isnan(counts))[0])
    assert run.numpy("network")["time_ns"][first - 1] == fewer["time_ns"][-1]
    assert np.isnan(counts[first:]).all()
    plot.congestion(run)


def test_congestion_shows_without_trees_too():
    run = silvan.run(silvan.Scenario.from_toml(SMALL), measure__forest=False)
    assert "Congestion trees were not recorded (measure.forest)." in run.account
    axes = plot.congestion(run)
    assert drawn(axes)[0] == ["packets inside", "throttled flows"]
    number, inside = axes.figure.axes
    assert "inside" in inside.get_ylabel()
    assert inside.get_ylim()[1] > inside.patches[0].get_data().values.max() > 100
    assert number.get_ylim() == (0, 1)


def test_the_eight_roots_of_the_silent_forest_show_without_control():
    short = {"duration": "200 us", "warmup": "100 us", "measure.interval": "20 us"}
    short["congestion.mechanism"] = "none"
    run = silvan.run(silvan.Scenario.load(ROOT / "scenarios" / "silent-forest.toml", short))
    assert not run.numpy("network")["congested_outputs"].any()
    _, lines = drawn(plot.congestion(run))
    assert lines["roots of trees"][-1] == 8


def test_figures_side_by_side_share_the_higher_scale():
    runs = [
        silvan.run(
            silvan.Scenario.from_toml(SMALL), congestion__mechanism=mechanism, host__injection_rate=rate
        )
        for mechanism, rate in (("none", "2 Gbit/s"), ("none", "13 Gbit/s"))
    ]
    figure = plot.compare(runs, ["slow", "fast"])
    assert figure.axes[0].get_ylim()[1] > 13
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()


def test_fairness_over_any_span():
    assert jain([2.0, 2.0]) == 1.0
    assert jain([1.0, 0.0, 0.0, 0.0]) == 0.25
    assert treatment_variation([[1.0, 5.0], [1.0, 1.0]]) == 4.0
    short = {"duration": "20 ms", "warmup": "0 s", "measure.interval": "1 ms"}
    run = silvan.run(Scenario.load(ROOT / "scenarios" / "testbed.toml", short))
    rates = rates_gbit_s(run, ["F1"], start_s=0.01)
    assert rates.shape == (1, 10)
    assert rates.mean() == pytest.approx(13.0, rel=0.001)
    with pytest.raises(KeyError, match="no `F9` among the flows"):
        rates_gbit_s(run, ["F9"])


PHASES = """
cycle = "1 ns"
duration = "200_000 cycles"

[topology]
kind = "star"
hosts = 4
link_rate = "1 byte/cycle"
link_delay = "1 cycle"

[packet]
mtu = "256 B"

[measure]
interval = "20_000 cycles"

[[traffic]]
name = "calm"
hosts = ["H1", "H2"]
pattern = { kind = "uniform" }
rate = "0.25 bytes/cycle"

[[traffic]]
name = "hot"
hosts = ["H3"]
pattern = { kind = "hotspots", to = ["H4"] }
start_after_packets = 150
packets_per_host = 40
message = "100 B"
message_max = "256 B"
"""


def test_phases_are_counted_in_packets_and_told_over_time():
    scenario = silvan.Scenario.from_toml(PHASES)
    assert scenario.duration_ns == 200_000
    result = silvan.run(scenario)
    (trigger,) = result.summary["triggers"]
    calm, hot = result.summary["classes"]
    assert (trigger["class"], trigger["after_packets"]) == ("hot", 150)
    assert 0 < trigger["started_ns"] < 200_000
    assert hot["delivered_packets"] == 40
    assert 100 < hot["received_gbit_s"] * 200_000 / 8 / 40 < 256

    columns = result.numpy("classes")
    assert result.classes.num_rows == 20
    rows = columns["class"] == "hot"
    packets = columns["delivered_packets"][rows]
    assert packets.sum() == 40
    assert not packets[columns["time_ns"][rows] <= trigger["started_ns"]].any()
    latency = columns["mean_since_generation_ns"][rows]
    assert np.array_equal(np.isnan(latency), packets == 0)
    assert columns["delivered_packets"][~rows].sum() == calm["delivered_packets"]

    later = silvan.run(scenario, **{"cycle": "2 ns", "traffic.1.start_after_packets": 100_000})
    assert later.scenario.duration_ns == 400_000
    assert later.summary["triggers"][0]["started_ns"] is None
    assert any("`hot` never started" in warning for warning in later.warnings)


def test_one_link_is_read_over_time():
    result = silvan.run(silvan.Scenario.from_toml(PHASES))
    links = result.numpy("links")
    one = links["link"] == "H1->S1:1"
    assert one.sum() == 10
    assert np.allclose(links["utilisation"][one], 0.25, atol=0.02)


def test_the_hot_phase_comes_and_goes_and_its_latency_hides_no_other():
    run = silvan.run(ROOT / "scenarios" / "hot-phase.toml")
    rows = run.numpy("classes")
    active = rows["time_ns"][(rows["class"] == "hot") & (rows["throughput_gbit_s"] > 0)]
    assert 0.2e6 < active.min() < active.max() < 0.9e6
    ax = plot.class_latency(run)
    assert ax.get_yscale() == "log"
    assert [text.get_text() for text in ax.texts] == ["background"]  # the other line has no value at the end
    assert plot.class_throughput(run).get_yscale() == "linear"


def test_congestion_logs_are_saved_with_a_run(small, tmp_path):
    overrides = {
        "congestion.mechanism": "ib-cc",
        "congestion.reaction": "{ ccti_timer = 4, trigger_threshold = 1 }",
        "measure.congestion_log": "true",
    }
    result = silvan.run(silvan.Scenario.load(small, overrides))
    loaded = silvan.load(result.save(tmp_path / "run"))
    logs = loaded.summary["congestion_log"]
    assert sum(one["events"] for one in logs["switches"]) == loaded.summary["fecn_marks"] > 15
    marks = loaded.numpy("congestion_log_switches")
    kept = {one["switch"]: min(one["events"], 15) for one in logs["switches"]}
    assert {name: (marks["switch"] == name).sum() for name in kept} == kept
    assert set(marks["destination"]) == {"H5"}
    triggers = loaded.numpy("congestion_log_hosts")
    assert set(triggers["host"]) == {one["host"] for one in logs["hosts"]} == {"H2", "H6"}
    assert set(triggers["class"]) == {"F2", "F3"}
    assert result.columns["congestion_log_hosts"] == ("host", "time_ns", "class", "destination", "sl")
    assert "congestion_log" not in silvan.run(silvan.Scenario.load(small)).summary


def rewrite(folder, name, content):
    """Replace a file of a run, and correct its hash."""
    (folder / name).write_bytes(content)
    provenance = json.loads((folder / "provenance.json").read_text())
    facts = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    provenance["files"][name] = facts
    (folder / "provenance.json").write_text(json.dumps(provenance))


def assert_refused(folder, match):
    """Check that every way to read a run reports what does not fit."""
    with pytest.raises(silvan.ResultError, match=match):
        silvan.load(folder)
    for command_ in (("compare", folder, folder), ("report", folder, "--out", folder.parent / "r.html")):
        done = command(*command_)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert re.search(match, done.stderr), done.stderr


def test_a_folder_of_another_layout_is_refused(result, tmp_path):
    folder = result.save(tmp_path / "run")
    provenance = json.loads((folder / "provenance.json").read_text())
    for wrong in ({"format": 1}, {"format": _folder.FORMAT + 1}, {"tables": ["flows", "planets"]}):
        (folder / "provenance.json").write_text(json.dumps(provenance | wrong))
        with pytest.raises(silvan.ResultError, match="written by another version of Silvan"):
            silvan.load(folder)


def test_contents_that_do_not_fit_are_named(result, tmp_path):
    folder = result.save(tmp_path / "run")
    rewrite(
        folder,
        "summary.json",
        json.dumps({k: v for k, v in result.summary.items() if k != "latency"}).encode(),
    )
    assert_refused(folder, r"summary.json: the summary has no key `latency`")
    whole = result.save(tmp_path / "run")
    table = result.tables["flows"].drop_columns(["received_bytes"])
    rewrite(whole, "flows.parquet", _folder.parquet(table))
    assert_refused(whole, r"flows.parquet: the table `flows` has no column `received_bytes`")
    result.save(tmp_path / "run")
    rewrite(folder, "scenario.toml", b"= 1")
    assert_refused(folder, r"scenario.toml: not valid TOML")


def leaves(value, path=()):
    """Return the paths of all values in a JSON value."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        yield from leaves(one, (*path, key))


@pytest.mark.parametrize("name", ["summary.json", "provenance.json"])
def test_no_change_of_a_value_gives_a_traceback(result, tmp_path, name):
    draw = random.Random(1)
    saved = result.save(tmp_path / "run")
    texts = {file: (saved / file).read_bytes() for file in ("summary.json", "provenance.json")}
    value = json.loads(texts[name])
    paths = [path for path in leaves(value) if path and path[0] != "files"]
    for path in draw.sample(paths, min(len(paths), 25)):
        for other in (None, -1, 0.5, "text", [], {}, [1], {"a": 1}, True, "DELETED"):
            changed = json.loads(texts[name])
            *parents, last = path
            at = changed
            for step in parents:
                at = at[step]
            if other == "DELETED":
                del at[last]
            else:
                at[last] = other
            for file, text in texts.items():
                (saved / file).write_bytes(text)
            if name == "summary.json":
                rewrite(saved, name, json.dumps(changed).encode())
            else:
                (saved / name).write_text(json.dumps(changed))
            try:
                read = silvan.load(saved)
            except silvan.ResultError:
                continue
            read._repr_html_()
            silvan.compare(read, read)


@pytest.mark.parametrize("name", sorted(_layout.COLUMNS))
def test_every_column_that_a_table_needs_is_checked(name):
    kinds = {"names": None, "whole numbers": np.uint64, "numbers": np.float64}

    def column(kind):
        return (np.zeros(2, np.uint32), ["a"]) if kind == "names" else np.ones(2, kinds[kind])

    columns = {key: column(kind) for key, kind in _layout.COLUMNS[name].items()}
    _layout.check_table(name, _tables.to_arrow(columns))
    for key in columns:
        with pytest.raises(_layout.LayoutError, match=f"no column `{key}`"):
            _layout.check_table(name, _tables.to_arrow({k: v for k, v in columns.items() if k != key}))
        other = next(kind for kind in kinds if kind != _layout.COLUMNS[name][key])
        with pytest.raises(_layout.LayoutError, match=f"the column `{key}` of the table `{name}` contains"):
            _layout.check_table(name, _tables.to_arrow({**columns, key: column(other)}))


def test_the_layout_names_the_tables_that_exist(result):
    assert set(_layout.COLUMNS) == set(_folder.TABLES)
    for name, table in result.tables.items():
        assert tuple(_layout.COLUMNS[name]) != ()
        assert set(table.column_names) == set(_layout.COLUMNS[name])


def test_names_that_spreadsheets_would_execute_are_marked_as_text_in_csv():
    names = ["=1+1", "+a", "-b", "@c", "'d"]
    flows = "".join(
        f'[[flow]]\nname = "{name}"\nfrom = "H1"\nto = "H{4 + at % 4}"\n' for at, name in enumerate(names)
    )
    scenario = silvan.Scenario.from_toml(
        SMALL[: SMALL.index("[[flow]]")] + flows, overrides={"duration": "200 us", "warmup": "0 s"}
    )
    result = silvan.run(scenario)
    cells = [line.split(",")[1] for line in result.csv("flows").decode().splitlines()[1:]]
    assert set(cells) == {"'=1+1", "'+a", "'-b", "'@c", "'d"}
    # Only CSV has the mark, and numbers have none.
    assert set(result.numpy("flows")["flow"]) == set(names)


def test_a_change_that_stops_all_traffic_permits_zero():
    text = """
        duration = "100 us"
        [topology]
        kind = "star"
        hosts = 2
        [measure]
        interval = "10 us"
        [[flow]]
        from = "H1"
        to = "H2"
        [[event]]
        kind = "down"
        links = ["H2"]
        start = "50 us"
    """
    run = silvan.run(silvan.Scenario.from_toml(text))
    table = run.numpy("recoveries")
    assert table["permitted_gbit_s"].tolist() == [0.0]
    assert not np.signbit(table["permitted_gbit_s"]).any()
    assert not [line for line in (*run.account, *run.warnings) if "-0" in line or "then permits" in line]
