"""Tests the counters of ports against closed forms, and texts of counters against the integers in them."""

from __future__ import annotations

import csv
import io
import json
import re

import numpy as np
import pytest
from arro3.io import read_parquet

import silvan
from conftest import command
from silvan.hardware import units

#: Two hosts at one switch, with a link rate of 100 Gbit/s.
PAIR = """
name = "pair"
duration = "2 ms"
warmup = "0 s"
[topology]
kind = "star"
hosts = 3
link_rate = "100 Gbit/s"
[measure]
interval = "1 ms"
[[flow]]
name = "full"
from = "H1"
to = "H2"
"""
#: An incast of seven senders with pause frames, and marks.
PAUSED = """
name = "paused"
duration = "1 ms"
warmup = "0 s"
[topology]
kind = "two-level-fat-tree"
leaves = 2
spines = 2
hosts_per_leaf = 4
link_rate = "100 Gbit/s"
[flow_control]
kind = "pfc"
[switch]
buffer = "300 KiB"
[congestion]
marking = { kind = "red", min = "100 kB", max = "400 kB", percent = 20 }
notification = "cnp"
coalescing = { interval = "4 us" }
reaction = { kind = "dcqcn", set = "tuned" }
[measure]
interval = "100 us"
[[traffic]]
name = "incast"
hosts = ["H[1-4]", "H[6-8]"]
pattern = { kind = "hotspots", to = ["H5"] }
message = "1 MB"
"""


@pytest.fixture(scope="module")
def pair():
    return silvan.run(silvan.Scenario.from_toml(PAIR))


@pytest.fixture(scope="module")
def paused():
    return silvan.run(silvan.Scenario.from_toml(PAUSED))


def value(shot, port, name):
    return int(shot.values[name][[one.name for one in shot.ports].index(port)])


def test_units_have_closed_forms():
    assert units.words(12_500_000) == 3_125_000
    assert units.ticks(1e6, 100) == 1_562_500
    assert units.ticks(1e6, 100, 32) == 390_625
    assert units.waited_ns(1_562_500, 100) == 1e6
    assert [round(float(units.quanta_ns(65_535, rate)) / 1000, 3) for rate in (400, 100)] == [83.885, 335.539]
    assert units.quanta(units.quanta_ns(65_535, 400), 400) == 65_535
    assert units.words([0, 3, 4, 7]).tolist() == [0, 0, 1, 1]


def test_a_full_port_sends_words_at_its_rate(pair):
    found = silvan.counters(pair)
    first, second = found.at(1_000_000), found.at(2_000_000)
    # 100 Gbit/s are 3,125,000 words in a millisecond.
    sent = value(second, "H1:1", "xmit_words") - value(first, "H1:1", "xmit_words")
    assert sent == 3_125_000
    assert value(second, "S1:1", "rcv_words") == value(second, "H1:1", "xmit_words")
    assert value(second, "S1:3", "xmit_words") == 0
    assert {int(one) for name in second.values for one in found.at(0).values[name]} == {0}
    assert found.at(1_999_999).time_ns == first.time_ns
    with pytest.raises(silvan.SilvanError, match=r"3 s: the run covers the time from 0 s to 0\.002 s"):
        found.at(3_000_000_000)


#: The receiver accepts nothing for a millisecond.
STALL = """
[[event]]
kind = "stall"
hosts = ["H2"]
start = "500 us"
lasts = "1 ms"
"""


def test_a_blocked_port_counts_ticks():
    """A port that always has packets sends or waits. With 100 Gbit/s, a millisecond is 1,562,500 ticks."""
    stalled = silvan.run(silvan.Scenario.from_toml(PAIR + STALL))
    found = silvan.counters(stalled, second_run=True)
    shot = found.at()
    rows = stalled.numpy("links")
    for port, link in (("H1:1", "H1->S1:1"), ("S1:2", "S1:2->H2")):
        waited = units.waited_ns(value(shot, port, "xmit_wait_ticks"), 100)
        sent = rows["sent_bytes"][rows["link"] == link].sum() * 8 / 100
        # The first packet reaches the switch after a microsecond at most. A packet lasts 0.2 us.
        assert 2e6 - 1200 <= waited + sent <= 2e6 + 200
        # The buffers on the way fill before the port waits.
        assert 0.95e6 < waited < 1e6
    coarse = silvan.counters(stalled, tick_bytes=32, second_run=True).at()
    assert value(coarse, "H1:1", "xmit_wait_ticks") == value(shot, "H1:1", "xmit_wait_ticks") // 4
    assert f"PortXmitWait:....................{value(shot, 'H1:1', 'xmit_wait_ticks')}" in found.perfquery()


def test_a_second_run_counts_what_tables_lack(paused):
    found, plain = silvan.counters(paused, second_run=True), silvan.counters(paused)
    assert "PortXmitWait" not in plain.perfquery()
    assert any("--second-run" in note for note in plain.notes)
    assert not any("--second-run" in note for note in found.notes)
    shot, other = found.at(), plain.at()
    assert shot.values["xmit_packets"].sum() == paused.summary["packet_hops"]
    # A pause frame takes 84 B on the link, and travels opposite to the data that it stops. A byte of the last
    # packet may be divided.
    frames = other.values["pause_frames_sent"]
    assert frames.sum() > 0
    assert np.abs(other.values["xmit_bytes"] - shot.values["xmit_bytes"] - 84 * frames).max() <= 1
    received = [value(shot, f"H{number}:1", "cnps_received") for number in range(1, 9)]
    # Some are on the link to their adapter at the end.
    assert 0 <= sum(received) - paused.numpy("network")["becn_received"].sum() < 3
    assert received[4] == 0 < value(shot, "H5:1", "cnps_sent")


def test_a_second_run_that_is_too_long_says_what_to_do(paused, monkeypatch):
    monkeypatch.setattr("silvan.hardware.ports.MOST_DEPARTURES", 10)
    with pytest.raises(
        silvan.SilvanError, match=r"more than 10 packets .*; count a run with a shorter duration"
    ):
        silvan.counters(paused, second_run=True)


def test_pauses_are_those_of_the_run(paused):
    found = silvan.counters(paused)
    shot, rows = found.at(), paused.numpy("pauses")
    assert len(rows["link"]) > 1
    port = next(one for one in shot.ports if one.link == rows["link"][0])
    paused_ns = float(rows["paused_ns"][0])
    assert value(shot, port.name, "paused_us") == int(paused_ns // 1000) > 0
    assert value(shot, port.name, "paused_quanta") == int(paused_ns * 100 // 512)
    frames = int(rows["pause_frames"][0] + rows["resume_frames"][0])
    assert value(shot, port.name, "pause_frames_received") == frames > 0
    assert value(shot, port.peer, "pause_frames_sent") == frames
    assert "paused_us" not in found.at(500_000).values
    assert value(found.at(0), port.name, "paused_us") == 0
    marks = paused.numpy("links")["fecn_marks"].sum()
    assert shot.values["marked_packets"].sum() == marks > 0
    assert shot.notifications == paused.numpy("network")["becn_received"].sum() > 0


def test_texts_read_back_are_the_integers(paused):
    found = silvan.counters(paused)
    shot = found.at()
    database = json.loads(found.sonic())
    oid = database["COUNTERS_PORT_NAME_MAP"]["value"]
    assert not any(name.startswith("H") for name in oid)
    for at, port in enumerate(shot.ports):
        if port.is_host:
            continue
        counters = database[f"COUNTERS:{oid[port.name]}"]["value"]
        assert int(counters["SAI_PORT_STAT_IF_OUT_OCTETS"]) == shot.values["xmit_bytes"][at]
        assert int(counters["SAI_PORT_STAT_PFC_0_RX_PKTS"]) == shot.values["pause_frames_received"][at]
        assert int(counters["SAI_PORT_STAT_PFC_0_TX_PKTS"]) == shot.values["pause_frames_sent"][at]
        assert int(counters["SAI_PORT_STAT_PFC_0_RX_PAUSE_DURATION_US"]) == shot.values["paused_us"][at]
        assert counters["SAI_PORT_STAT_PFC_7_RX_PKTS"] == "0"
        queue = database["COUNTERS_QUEUE_NAME_MAP"]["value"][f"{port.name}:0"]
        marks = database[f"COUNTERS:{queue}"]["value"]["SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS"]
        assert int(marks) == shot.values["marked_packets"][at]
    lines = re.findall(r'^(\w+)\{device="(.*)",port="(\d+)"\} (\d+)$', found.prometheus(), re.MULTILINE)
    read = {(name, f"{node}:{port}"): int(number) for name, node, port, number in lines}
    for at, port in enumerate(shot.ports):
        words = int(shot.values["xmit_words"][at])
        assert read["node_infiniband_port_data_transmitted_bytes_total", port.name] == 4 * words
    table = {
        (row["node"], int(row["port"])): row
        for row in csv.DictReader(io.StringIO(found.csv(1_000_000).decode()))
    }
    assert len(table) == len(shot.ports)


def test_a_table_has_a_row_per_port_and_sample(paused, tmp_path):
    found = silvan.counters(paused)
    table = found.table()
    assert table.num_rows == len(found.ports) * len(found.times_ns)
    found.save_parquet(tmp_path / "counters.parquet")
    again = read_parquet(str(tmp_path / "counters.parquet")).read_all()
    assert again["xmit_words"].to_pylist() == table["xmit_words"].to_pylist()
    last = found.at().values
    assert table["xmit_words"].to_pylist()[-len(found.ports) :] == last["xmit_words"].tolist()
    maximum = np.array(table["queued_bytes_maximum"].to_pylist()).reshape(len(found.times_ns), -1)
    assert (np.diff(maximum, axis=0) >= 0).all()
    assert maximum[-1].max() == paused.numpy("links")["queued_bytes"].max()


def test_links_that_go_down_and_packets_that_are_lost():
    cut = (
        PAIR.replace('interval = "1 ms"', 'interval = "100 us"')
        + """
[[event]]
kind = "down"
links = ["S1:2"]
start = "1 ms"
lasts = "100 us"
"""
    )
    found = silvan.counters(silvan.run(silvan.Scenario.from_toml(cut)))
    assert [value(found.at(time), "H2:1", "link_downed") for time in (900_000, 1_000_000, 2_000_000)] == [
        0,
        1,
        1,
    ]
    assert value(found.at(), "S1:2", "link_downed") == 1
    assert value(found.at(), "S1:1", "link_downed") == 0
    assert value(found.at(), "S1:2", "lost_packets") > 0
    assert "xmit_discards" not in found.at().values


def test_runs_without_the_tables(pair):
    quiet = silvan.run(silvan.Scenario.from_toml(PAIR), measure__links=False)
    with pytest.raises(silvan.SilvanError, match=r"pair: has no time series of links.*measure\.links = true"):
        silvan.counters(quiet)
    with pytest.raises(silvan.SilvanError, match=r"measure\.forest = true"):
        silvan.counters(silvan.run(silvan.Scenario.from_toml(PAIR), measure__forest=False))
    with pytest.raises(silvan.SilvanError, match="tick_bytes = 0"):
        silvan.counters(pair, tick_bytes=0)


def test_the_command(pair, tmp_path):
    pair.save(tmp_path / "run")
    done = command("counters", tmp_path / "run", "--top", 2)
    assert done.returncode == 0, done.stderr
    assert "PortXmitData" in done.stdout
    assert "4 ports that sent less are not shown" in done.stdout
    assert "PortXmitWait" in done.stderr
    done = command(
        "counters", tmp_path / "run", "--format", "perfquery", "--at", "1 ms", "-o", tmp_path / "dump"
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "dump").read_text() == silvan.counters(pair).perfquery(1_000_000)
    for wrong in (["--at", "soon"], ["--format", "xml"], ["--format", "parquet"], ["-o", tmp_path / "x"]):
        assert command("counters", tmp_path / "run", *wrong).returncode == 2, wrong
    assert command("counters", tmp_path / "run", "--at", "1 s").returncode == 1


def test_names_cannot_control_a_terminal(pair):
    found = silvan.counters(pair)
    found.ports[0] = type(found.ports[0])('\x1b[31m"\n', 1, "S1", 1, 100.0, False, found.ports[0].link)
    for text in (found.prometheus(), found.sonic()):
        assert "\x1b" not in text
    line = next(line for line in found.prometheus().splitlines() if "[31m" in line)
    assert line.startswith(
        'node_infiniband_port_data_transmitted_bytes_total{device="\\\\x1b[31m\\"\\n",port="1"}'
    )
