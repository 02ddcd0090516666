"""Tests the text of reports: contents, errors, and names that contain markup."""

import base64
import hashlib
import json
import re
import zlib
from html import escape
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest

import silvan
from conftest import SMALL, command
from silvan import report
from silvan.report import _text
from silvan.report._frames import Clock, spans
from silvan.report._layout import Wiring, place

HOSTILE = ["<script>alert(1)</script>", "\"'><img src=x onerror=alert(2)>", "</script><b>&amp;", "x" * 10_000]


class Elements(HTMLParser):
    """Collects the elements of a page and their texts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.texts = [], [], {}
        self._open = None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        self._open = (tag, dict(attributes).get("id"))

    def handle_endtag(self, tag):
        self._open = None

    def handle_data(self, data):
        if self._open:
            self.texts[self._open] = self.texts.get(self._open, "") + data


def columns(page):
    """Return the data of a page, with its columns as arrays."""
    texts = Elements(page).texts
    packed = zlib.decompress(base64.b64decode(texts["script", "columns"]))

    def resolve(value):
        if isinstance(value, list):
            return [resolve(one) for one in value]
        if not isinstance(value, dict):
            return value
        if {"kind", "at", "length"} <= set(value):
            kind = value["kind"].removesuffix("Array").lower()
            found = np.frombuffer(packed, kind, value["length"], value["at"])
            return np.cumsum(found, dtype=kind) if value["rising"] else found
        return {key: resolve(one) for key, one in value.items()}

    return resolve(json.loads(texts["script", "data"]))


@pytest.fixture(scope="module")
def results():
    scenario = silvan.Scenario.from_toml(SMALL)
    return [silvan.run(scenario), silvan.run(scenario, congestion__mechanism="ib-cc")]


def test_the_policy_forbids_all_but_the_page_itself(results):
    page = report.html(results)
    elements = Elements(page)
    policy = next(
        value for name, value in elements.attributes if name == "content" and "default-src" in value
    )
    for kind in ("script", "style"):
        own = elements.texts[kind, None]
        hashed = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{hashed}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    # The page fetches nothing, and has no handlers or styles in attributes, which its policy would block.
    names = {name for name, _ in elements.attributes}
    assert not names & {"src", "href", "style"}
    assert not [name for name in names if name.startswith("on")]
    assert "://" not in elements.texts["script", None] + elements.texts["style", None]


def test_the_spans_are_the_table(results):
    run = columns(report.html(results[:1]))["runs"][0]
    rows = results[0].numpy("tree_links")
    ends = results[0].numpy("network")["time_ns"]
    true = {
        (link, int(np.searchsorted(ends, time))): (tree, waits_for, depth)
        for time, link, tree, waits_for, depth in zip(
            *(rows[name] for name in ("time_ns", "link", "tree", "waits_for", "depth")), strict=True
        )
    }
    found = run["spans"]
    shown = {}
    for at, link in enumerate(found["link"]):
        for frame in range(found["first"][at], found["last"][at] + 1):
            waits_for = run["links"][found["waits_for"][at]]
            shown[run["links"][link], frame] = (found["tree"][at], waits_for, found["depth"][at])
    assert shown == true
    assert np.allclose(run["frames"] * 1e3, ends)
    assert set(found["share"]) == {255}


def test_frames_stand_for_several_samples(results):
    clock = Clock.of(results[0], most=7)
    number = {name: at for at, name in enumerate(results[0].numpy("wiring")["link"])}
    found = spans(results[0], clock, number)
    assert (clock.step, len(clock.frames_ns)) == (5, 6)
    assert clock.frames_ns[-1] == results[0].numpy("network")["time_ns"][-1]
    rows = results[0].numpy("tree_links")
    root = number["S2:2->H5"]
    samples = np.bincount(clock.frame(rows["time_ns"][rows["link"] == "S2:2->H5"]), minlength=6)
    for at in np.flatnonzero(found["link"] == root):
        for frame in range(found["first"][at], found["last"][at] + 1):
            assert abs(found["share"][at] / 255 - samples[frame] / 5) < 0.13
    assert clock.mean(np.array([1.0, 3, np.nan, 2, 2, *[np.nan] * 5])).tolist()[:1] == [2.0]


def test_links_lead_between_the_nodes_that_they_name(results):
    run = columns(report.html(results[:1]))["runs"][0]
    nodes = run["nodes"]
    for link, source, target in zip(run["links"], run["source"], run["target"], strict=True):
        ends = [end.partition(":")[0] for end in link.split("->")]
        assert ends == [nodes[source], nodes[target]]
    assert sorted(nodes[: run["hosts"]]) == [f"H{at}" for at in range(1, 8)]


def test_reduction_units_are_beside_their_switches():
    result = silvan.run(
        "job-in-network", job__0__program__bytes="64 KiB", measure__interval="5 us", traffic=[]
    )
    run = columns(report.html([result]))["runs"][0]
    nodes, hosts = run["nodes"], run["hosts"]
    units = [at for at, name in enumerate(nodes[:hosts]) if name.endswith("/unit")]
    assert len(units) == result.summary["jobs"][0]["units"] == 9
    at = place(Wiring(nodes, hosts, run["links"], run["source"], run["target"]))
    switches = {name: at[number] for number, name in enumerate(nodes) if number >= hosts}
    rows = {name[:2]: one[1] for name, one in switches.items()}
    assert rows["L2"] < rows["L1"]
    assert all(one[1] == rows[name[:2]] for name, one in switches.items())
    for unit in units:
        assert np.linalg.norm(at[unit] - switches[nodes[unit].removesuffix("/unit")]) < 0.05


@pytest.mark.parametrize("name", HOSTILE, ids=["script", "quotes", "end", "long"])
def test_hostile_names_are_text(name):
    text = SMALL.replace('name = "small"', f"name = {json.dumps(name)}")
    text = text.replace('name = "F1"', f"name = {json.dumps(name)}")
    result = silvan.run(silvan.Scenario.from_toml(text))
    page = report.html([result, result], titles=[name, f"{name} again"])
    harmless = report.html([silvan.run(silvan.Scenario.from_toml(SMALL))] * 2, titles=["a", "b"])
    for tag in ("script", "img", "b", "td", "section"):
        assert Elements(page).tags.count(tag) == Elements(harmless).tags.count(tag)
    assert not [attribute for attribute, _ in Elements(page).attributes if attribute.startswith("on")]
    assert columns(page)["runs"][0]["title"] == name
    assert name in Elements(page).texts["h1", None]


def test_titles_tell_runs_apart(results):
    assert "<h1>small: none vs. small: ib-cc</h1>" in report.html(results)
    assert "<h1>small (1)" not in report.html(results)
    assert "small: none (2)" in report.html([results[0], results[0]])
    assert "<h1>off vs. on</h1>" in report.html(results, titles=["off", "on"])


def test_it_says_in_words_what_control_is_worth(results):
    page = report.html(results, titles=["off", "on"])
    rates = [one["received_gbit_s"] for result in results for one in result.summary["flows"][:1]]
    told = re.search(r"The victim F1 receives ([\d.]+) Gbit/s in “on”, ([\d.]+) Gbit/s in “off”", page)
    assert [float(told[2]), float(told[1])] == [pytest.approx(rate, abs=0.006) for rate in rates]
    # The table contains exactly the settings that differ.
    table = page.partition('id="settings"')[2].partition("</table>")[0]
    assert "congestion.mechanism" in table
    assert "topology" not in table


@pytest.mark.parametrize(("count", "titles", "says"), [
    (0, None, "a report has 1 to 6 runs, not 0"),
    (7, None, "a report has 1 to 6 runs, not 7"),
    (2, ["one"], "1 titles for 2 runs"),
])  # fmt: skip
def test_what_is_refused(results, count, titles, says):
    with pytest.raises(ValueError, match=says):
        report.html([results[0]] * count, titles=titles)


def test_a_folder_is_no_file(results, tmp_path):
    with pytest.raises(IsADirectoryError, match=r"name a file, such as report\.html"):
        report.write(results, tmp_path)


def test_a_run_without_a_forest_has_its_charts_all_the_same():
    page = report.html([silvan.run(silvan.Scenario.from_toml(SMALL), measure__forest=False)])
    run = columns(page)["runs"][0]
    assert "spans" not in run
    assert {chart["id"] for chart in run["charts"]} >= {"throughput", "latency"}
    assert "no congestion trees on record" in page


def test_a_report_of_runs_read_back_is_the_same(results, tmp_path):
    for at, result in enumerate(results):
        result.save(tmp_path / f"run {at}")
    folders = [tmp_path / "run 0", tmp_path / "run 1"]
    done = command("report", *folders, "--out", tmp_path / "r.html", "--title", "a", "--title", "b")
    assert done.stdout == f"Report in {tmp_path / 'r.html'}\n"
    written = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert columns(written)["runs"][0]["links"] == columns(report.html(results))["runs"][0]["links"]
    again = report.html([silvan.load(folder) for folder in folders], titles=["a", "b"])
    assert again == written, "the same runs give the same bytes"
    failed = command("report", *folders, "--title", "a")
    assert failed.returncode == 2
    assert "1 titles for 2 runs" in failed.stderr


def wiring(hosts, switches, cables):
    names = [f"H{at}" for at in range(hosts)] + [f"S{at}" for at in range(switches)]
    ends = np.array([*cables, *[(b, a) for a, b in cables]], np.uint32)
    return Wiring(names, hosts, ["" for _ in ends], ends[:, 0], ends[:, 1])


def test_hosts_stand_below_their_switches_and_levels_in_rows():
    # Four hosts, two leaves (4, 5) and one spine (6).
    at = place(wiring(4, 3, [(0, 4), (1, 4), (2, 5), (3, 5), (4, 6), (5, 6)]))
    assert at.min() == 0
    assert at.max() == 1
    assert at[4, 1] == at[5, 1] > at[6, 1] == 0
    assert (at[:4, 1] == 1).all()
    assert max(at[0, 0], at[1, 0]) < min(at[2, 0], at[3, 0])


def test_many_hosts_of_a_switch_stand_in_rows_with_room_for_their_marks():
    leaves, per_leaf = 8, 8
    hosts = leaves * per_leaf
    cables = [(host, hosts + host // per_leaf) for host in range(hosts)]
    cables += [(hosts + leaf, hosts + leaves) for leaf in range(leaves)]
    at = place(wiring(hosts, leaves + 1, cables))[:hosts]
    rows = sorted({float(y) for y in at[:, 1]})
    assert len(rows) == 2
    for row in rows:
        x = np.sort(at[at[:, 1] == row, 0])
        assert len(x) == hosts / 2, "rows have the same length"
        assert np.diff(x).min() > 1 / 50
    # More hosts do not have more than five rows.
    many = place(wiring(400, 2, [(host, 400 + host % 2) for host in range(400)] + [(400, 401)]))
    assert len({float(y) for y in many[:400, 1]}) == 5


def test_names_in_sentences_are_code():
    assert _text.sentence("9 hosts of `hot` wait; `a<b` does not.") == (
        "9 hosts of <code>hot</code> wait; <code>a&lt;b</code> does not."
    )
    assert _text.sentence("a ` b") == "a ` b"
    line = "Contributors (they send through a root): 3 hosts of `hot`."
    result = SimpleNamespace(account=[line], warnings=["`x` has no effect"])
    shown = _text.account(result)
    assert "3 hosts of <code>hot</code>." in shown
    assert "Warning: <code>x</code> has no effect" in shown
    assert "`" not in shown


def test_free_graphs_are_spread_by_springs():
    """A ring of switches with one host each has no levels: neighbors are near, and no nodes overlap."""
    size = 12
    cables = [(at, size + at) for at in range(size)]
    cables += [(size + at, size + (at + 1) % size) for at in range(size)]
    at = place(wiring(size, size, cables)).astype(float)
    switches = at[size:]
    apart = np.linalg.norm(switches[:, None] - switches[None], axis=2) + np.eye(size)
    assert apart.min() > 0.05
    beside = [np.linalg.norm(switches[one] - switches[(one + 1) % size]) for one in range(size)]
    assert np.mean(beside) < 0.6 * np.mean(apart)
    assert np.isfinite(at).all()
    assert (place(wiring(size, size, cables)) == at.astype(np.float32)).all()


def test_three_runs_have_a_headline_and_titles_by_what_differs(results):
    runs = [silvan.run(results[0].scenario, host__drain_rate=f"{rate} Gbit/s") for rate in (11, 12, 13)]
    page = report.html(runs)
    names = [f"drain_rate = {rate} Gbit/s" for rate in (11, 12, 13)]
    assert f"<h1>{' vs. '.join(names)}</h1>" in page
    spread = silvan.run("job-collective", job__0__program__iterations=1)
    other = silvan.run("job-collective", job__0__program__iterations=1, job__0__placement="linear")
    page = report.html([spread, other, other], titles=["a", "b", "c"])
    spans = [f"{run.summary['jobs'][0]['span_ns'] / 1e6:.4g} ms" for run in (spread, other)]
    assert f"The job all-reduce takes {spans[0]} in “a”, {spans[1]} in “b”, {spans[1]} in “c”." in page


def test_the_main_result_names_averages_that_are_not_in_steady_state(results):
    ramp = silvan.run(results[0].scenario)
    ramp.summary["steadiness"] = {
        "trends": [
            {"quantity": name, "unit": "us", "early": 2.0, "late": 1.0, "level_from_ns": None}
            for name in ("a", "b", "c", "d", "e")
        ],
        "changes": [],
        "untested": [],
        "testable_at_ns": None,
    }
    page = report.html([ramp, ramp], titles=["x", "y"])
    text = "Not in steady state in “y”: a, b, c, d and 1 more. These averages depend on the warm-up"
    assert text in page
    ramp.summary["steadiness"] |= {"trends": [], "untested": ["a", "b"], "testable_at_ns": 4_000_000}
    text = "Steady state not tested in “y”: a, b: fewer than 40 values after the warm-up; a duration of 4 ms"
    assert text in report.html([ramp, ramp], titles=["x", "y"])
    ramp.summary["steadiness"]["changes"] = ["F5 starts"]
    assert "teady state" not in report.html([ramp, ramp], titles=["x", "y"])


def test_a_report_is_written_beside_the_runs_and_replaces_only_reports(results, tmp_path):
    for name, result in zip("ab", results, strict=True):
        result.save(tmp_path / name)
    assert command("report", "a", cwd=tmp_path).stdout == "Report in a.html\n"
    assert command("report", tmp_path / "a", tmp_path / "b", cwd=tmp_path).stdout == "Report in report.html\n"
    assert command("report", "a", cwd=tmp_path).returncode == 0
    (tmp_path / "a.html").write_text("mine")
    refused = command("report", "a", cwd=tmp_path)
    assert refused.returncode == 1
    assert "a.html: exists and is not a report of Silvan" in refused.stderr
    assert (tmp_path / "a.html").read_text() == "mine"
    assert command("report", "a", "--force", cwd=tmp_path).returncode == 0


def test_changes_recovery_and_lost_packets_are_tables():
    cable = """
    duration = "300 us"
    topology = { kind = "two-level-fat-tree", leaves = 2, spines = 2, hosts_per_leaf = 2 }
    event = [{ kind = "down", links = ["L1.1:3"], start = "100 us" }]
    rerouting = { delay = "20 us" }
    recovery = { kind = "selective-repeat", timeout = "50 us" }
    traffic = [{ hosts = "H[1-2]", pattern = { kind = "shift", by = 2 }, rate = "5 Gbit/s" }]
    measure = { interval = "10 us" }
    """
    run = silvan.run(silvan.Scenario.from_toml(cable))
    page = report.html([run])
    lost = run.numpy("losses")
    for title in (
        "Changes of links and hosts",
        "Recovery",
        "Lost packets, by the link on which they arrived",
    ):
        assert f"<h3>{title} <small>" in page
    (place,) = run.numpy("events")["place"].tolist()
    assert f'data-v="100000">100 µs</td><td>{escape(place)}</td><td>down</td>' in page
    (after,) = run.numpy("recoveries")["recovered_ns"]
    assert f'data-v="{after:.9g}">' in page
    for link, data in zip(lost["link"].tolist(), lost["data_packets"].tolist(), strict=True):
        assert f'<td>{escape(link)}</td><td class=number data-v="{data}">{data:,}</td>' in page
    calm = silvan.run(silvan.Scenario.from_toml(SMALL))
    assert "Recovery <small>" not in report.html([calm])
