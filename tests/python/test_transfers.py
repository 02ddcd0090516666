"""Tests completion times of transfers: tables, summaries, figures, comparisons and reports."""

import numpy as np
import pytest

import silvan
from conftest import command
from silvan import report, transfer_figures, transfers

SCENARIO = """
name = "sizes"
seed = {seed}
duration = "400 us"
warmup = "20 us"
[topology]
kind = "two-level-fat-tree"
leaves = 2
spines = 2
hosts_per_leaf = 4
link_rate = "100 Gbit/s"
uplink_rate = "400 Gbit/s"
link_delay = "500 ns"
[ecmp]
[packet]
mtu = "1000 B"
header = "48 B"
[congestion]
notification = "{notification}"
[measure]
interval = "100 us"
links = false
forest = false
[[traffic]]
name = "storage"
pattern = {{ kind = "uniform" }}
sizes = {{ kind = "storage" }}
load_percent = {load}
arrivals = "poisson"
"""


def run(seed=1, load=40, notification="ack-each"):
    text = SCENARIO.format(seed=seed, load=load, notification=notification)
    return silvan.run(silvan.Scenario.from_toml(text))


@pytest.fixture(scope="module")
def runs():
    return {(seed, load): run(seed, load) for seed in (1, 2) for load in (20, 60)}


def test_the_summary_agrees_with_the_table(runs):
    result = runs[1, 60]
    table, summary = result.numpy("transfers"), result.summary["transfers"]
    assert summary["started"] == len(table["bytes"])
    assert summary["undelivered"] == int(np.isnan(table["delivered_ns"]).sum())
    assert summary["unfinished"] == int(np.isnan(table["acked_ns"]).sum())
    assert set(table["class"]) == {"storage"}
    for column, key in (("slowdown", "slowdown"), ("acked_slowdown", "acked_slowdown")):
        is_counted = ~np.isnan(table["acked_ns"]) & (table["start_ns"] >= 20_000)
        for one in summary["sizes"]:
            low, high = one.get("above_bytes", 0), one.get("up_to_bytes", np.inf)
            own = table[column][is_counted & (table["bytes"] > low) & (table["bytes"] <= high)]
            assert len(own) == one["transfers"]
            for share, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99")):
                assert one[key][name] == transfers.quantile(own, share)
    assert (table["slowdown"][is_counted] >= 1).all()
    assert any(line.startswith(f"{summary['unfinished']} of {summary['started']}") for line in result.account)


@pytest.mark.parametrize("kind", ["selective-repeat", "go-back-n"])
def test_receipts_of_loss_recovery_acknowledge_transfers(kind):
    text = f'''
duration = "100 us"
topology = {{ kind = "star", hosts = 2, link_rate = "100 Gbit/s", link_delay = "500 ns" }}
packet = {{ mtu = "1000 B" }}
recovery = {{ kind = "{kind}", timeout = "50 us" }}
measure = {{ transfers = true }}
event = [{{ kind = "down", links = ["H2"], start = "90 us", lasts = "1 us" }}]
[[flow]]
from = "H1"
to = "H2"
message = "10 kB"
total = "10 kB"
'''
    table = silvan.run(silvan.Scenario.from_toml(text)).numpy("transfers")
    (acked,), (start,), (ideal,) = table["acked_ns"], table["start_ns"], table["ideal_acked_ns"]
    assert acked - start == ideal
    # The data crosses two links and a switch of 100 ns, and the last receipt of 64 B returns.
    assert ideal == 10 * 80 + 1000 + 100 + 64 * 0.08 + 1000 + 100
    assert table["acked_slowdown"] == [1]


def test_transfers_without_acknowledgements_end_with_their_delivery():
    result = run(notification="cnp")
    table, summary = result.numpy("transfers"), result.summary["transfers"]
    assert np.isnan(table["acked_ns"]).all()
    assert summary["unfinished"] == summary["undelivered"]
    assert not any("acked_slowdown" in one for one in summary["sizes"])
    with pytest.raises(silvan.SilvanError, match="no transfer was acknowledged before the end"):
        transfers.finished(result, acked=True)


def test_curves_are_means_over_seeds(runs):
    groups = [[runs[1, 20], runs[2, 20]], [runs[1, 60]]]
    low, high = transfers.by_size(groups, share=0.99)
    assert (low.sizes == high.sizes).all()
    assert len(low.sizes) > 10
    assert (low.low <= low.slowdowns).all()
    assert (low.slowdowns <= low.high).all()
    assert (low.low > 0).all()
    assert high.low is None
    assert high.high is None
    sizes, slowdowns = transfers.finished(runs[1, 20])
    inside = (sizes > low.sizes[2]) & (sizes <= low.sizes[3])
    other_sizes, other = transfers.finished(runs[2, 20])
    others = (other_sizes > low.sizes[2]) & (other_sizes <= low.sizes[3])
    parts = [transfers.quantile(slowdowns[inside], 0.99), transfers.quantile(other[others], 0.99)]
    assert low.slowdowns[3] == pytest.approx(np.mean(parts))
    assert np.nanmean(high.slowdowns) > np.nanmean(low.slowdowns)


def test_the_command_draws_a_line_per_group(runs, tmp_path):
    folders = [str(runs[key].save(tmp_path / f"{key[1]}-{key[0]}")) for key in sorted(runs)]
    titles = ["--title", "20 %", "--title", "60 %"]
    command("plot", *folders, "--fct", "--cdf", "--acked", *titles, "--out", str(tmp_path / "figures"))
    for name in ("fct", "cdf"):
        text = (tmp_path / "figures" / f"{name}.svg").read_text()
        assert "20 %" in text
        assert "60 %" in text
        assert (tmp_path / "figures" / f"{name}.png").stat().st_size > 10_000
    figure = transfer_figures.slowdowns([[runs[1, 20]]], ["one"])
    assert [ax.get_title() or ax.get_title(loc="left") for ax in figure.axes] == ["Median", "99th percentile"]


def test_wrong_uses_of_the_command_are_explained(runs, tmp_path):
    folder = str(runs[1, 20].save(tmp_path / "run"))
    for options, what in (
        (["--acked"], "has no effect without --fct or --cdf"),
        (["--fct", "--forest", "busiest"], "draws no network"),
        (["--fct", "--title", "a", "--title", "b"], "2 titles, but 1 line in the figure"),
    ):
        done = command("plot", folder, *options)
        assert done.returncode != 0
        assert what in " ".join((done.stdout + done.stderr).split())


def test_comparisons_and_reports_have_the_quantiles(runs):
    found = silvan.compare(runs[1, 20], runs[2, 20], runs[1, 60], runs[2, 60])
    rows = {row.measure: row for row in found.rows}
    few, many = rows["transfers of storage, up to 10 kB: slowdown, 99 %"].means
    assert few is None, "the smaller runs have less than 100 such transfers"
    assert many is not None
    row = rows["transfers of storage, up to 10 kB: slowdown, median"]
    assert row.means[0].low is not None
    assert row.changes[0].difference > 0
    assert "transfers unfinished" in rows
    page = report.html([runs[1, 20], runs[1, 60]])
    assert "Slowdown of transfers of storage, up to 10 kB, median" in page
    assert "Transfers unfinished" in page
