"""Tests the display of results, forests, sweeps and reports in a notebook."""

import html
import json
import time
from html.parser import HTMLParser

import pytest

import silvan
from browser import browser
from conftest import SMALL
from silvan import report

HOSTILE = '<script>alert("1")</script>&' + "x" * 10_000


class Page(HTMLParser):
    """Collects elements, and table rows as texts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.rows = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data):
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def off():
    return silvan.run(silvan.Scenario.from_toml(SMALL))


def test_a_result_shows_its_numbers_account_and_warnings(off):
    page = Page(off._repr_html_())
    rows = {row[0]: row[1] for row in page.rows}
    assert rows["All hosts receive"] == f"{off.summary['throughput_gbit_s']:.2f} Gbit/s"
    assert rows["Victims receive (F1)"].endswith("Gbit/s")
    assert rows["Congestion trees"] == str(len(off.forest))
    text = html.unescape(off._repr_html_())
    assert all(line in text for line in (*off.account, *off.warnings))
    assert "<b>small</b>: 3 ms simulated" in text


def test_a_forest_shows_the_network_and_its_trees(off):
    page = Page(off.forest._repr_html_())
    assert page.tags.count("svg") == 1
    assert {"circle", "path"} <= set(page.tags)
    (tree,) = off.forest.trees
    assert page.rows[0][:4] == ["tree", "", "root", "kind"]
    assert page.rows[1][0] == "1"
    assert page.rows[1][2:4] == [tree.root, tree.kind]
    assert page.rows[1][-2:] == [str(len(tree.contributors)), str(len(tree.victims))]
    calm = silvan.run(silvan.Scenario.from_toml(SMALL), duration="0.2 ms", warmup="0.1 ms")
    assert calm.forest._repr_html_() == "<div><p>silvan.Forest: 0 trees</p></div>"
    assert repr(off.forest) == f"<silvan.Forest: 1 tree (1 {tree.kind})>"


def test_a_sweep_shows_rows_and_failures(tmp_path):
    def received(result):
        if result.scenario.seed == 2:
            raise ValueError("<b>two</b>")
        return {"received": result.summary["throughput_gbit_s"]}

    shown = silvan.sweep(
        silvan.Scenario.from_toml(SMALL),
        {"congestion.mechanism": ["none", "ib-cc"], "topology.link_delay": ["10 ns"]},
        seeds=2, measure=received, executor="threads", store=tmp_path,
    )  # fmt: skip
    page = Page(shown._repr_html_())
    assert page.rows[0] == ["congestion.mechanism", "seed", "received"]
    assert [row[:2] for row in page.rows[1:]] == [
        ["none", "1"],
        ["none", "2"],
        ["ib-cc", "1"],
        ["ib-cc", "2"],
    ]
    assert page.rows[1][2] == f"{shown.rows[0].values['received']:.6g}"
    assert page.rows[2][2] == "failed"
    assert "&lt;b&gt;two" in shown._repr_html_()
    assert "b" not in page.tags


def test_long_tables_are_cut(tmp_path):
    shown = silvan.sweep(
        silvan.Scenario.from_toml(SMALL), seeds=15, overrides={"duration": "20 us", "warmup": "10 us",
        "measure.interval": "10 us"}, executor="threads", keep="summary", store=tmp_path,
    )  # fmt: skip
    page = shown._repr_html_()
    assert len(Page(page).rows) == 13
    assert "And 3 more." in page


def test_names_of_others_stay_text():
    text = SMALL.replace('name = "small"', f"name = {json.dumps(HOSTILE)}")
    text = text.replace('name = "F1"', f"name = {json.dumps(HOSTILE + 'F1')}")
    run = silvan.run(silvan.Scenario.from_toml(text))
    for shown in (run, run.forest):
        page = Page(shown._repr_html_())
        assert "script" not in page.tags
    assert len(run._repr_html_()) < 50_000


def test_a_report_lives_in_a_frame(off, tmp_path):
    on = silvan.run(silvan.Scenario.from_toml(SMALL), congestion__mechanism="ib-cc")
    shown = report.embed([off, on], titles=["off", 'on "<it>"'], height=640)
    frame = shown._repr_html_()
    assert Page(frame).tags == ["iframe"]
    assert repr(shown).startswith("<silvan.report.Embedded: ")
    notebook = tmp_path / "notebook.html"
    notebook.write_text(
        f"<!doctype html><meta charset=utf-8><title>notebook</title>{frame}", encoding="utf-8"
    )
    with browser(tmp_path / "profile") as page:
        page.call("Page.bringToFront")
        # The test cannot query the content of the frame, only its image. An empty frame has a single color. A
        # browser that has just started without a display may leave the frame empty, so reload the page then.
        seen = b""
        for _ in range(3):
            page.call("Page.navigate", url=notebook.as_uri())
            page.wait("document.querySelector('iframe')?.getBoundingClientRect().height === 640")
            end = time.monotonic() + 20
            while len(seen) <= 20_000 and time.monotonic() < end:
                page.settle()
                time.sleep(0.2)
                seen = page.picture("iframe")
        assert len(seen) > 20_000
        assert page.complaints == []
        assert {url.partition(":")[0] for url in page.requests} <= {"file", "about", "data"}


def test_a_comparison_shows_settings_and_results(off):
    on = silvan.run(silvan.Scenario.from_toml(SMALL), congestion__mechanism="ib-cc")
    found = silvan.compare(off, on)
    page = Page(found._repr_html_())
    assert ["congestion.mechanism", "none", "ib-cc"] in page.rows
    heads = next(row for row in page.rows if row[:1] == ["result"])
    assert heads == ["result", "unit", "A", "B", "change"]
    received = next(row for row in page.rows if row[0] == "received by all hosts")
    assert received[1] == "Gbit/s"
    assert len(received) == 5
    assert repr(found).startswith("<Comparison of 1 run with 1 run: ")
    assert "<script>" not in silvan.compare(off, on)._repr_html_()
