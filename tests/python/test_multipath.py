"""Losses that later acknowledgements show, and entropy values that are retired and restored, as in MRC."""

from __future__ import annotations

import numpy as np
import pytest

import silvan
from conftest import run_text

#: The time of a packet of 4096 bytes on a link of 100 Gbit/s, in nanoseconds.
PACKET_NS = 4096 * 8 / 100


def recovered(result: silvan.Result) -> dict[str, int]:
    """Return the counts of loss recovery, and those of lost packets."""
    losses = result.summary["losses"]
    return {**losses["recovery"], "data": losses["data_packets"], "control": losses["control_packets"]}


def ended_ns(result: silvan.Result, flow: int = 0) -> float:
    """Return the time at which a flow has delivered all of its data."""
    ended = result.summary["flows"][flow]["completed_ns"]
    assert ended is not None
    return float(ended)


#: One flow that uses its links all the time. Only the last packets of the flow need the timeout.
PAIR = """
    duration = "30 ms"
    [topology]
    kind = "star"
    hosts = 2
    link_rate = "100 Gbit/s"
    link_delay = "500 ns"
    [packet]
    mtu = "4096 B"
    [congestion]
    notification = "ack-each"
    marking = { kind = "red", min = "100 kB", max = "200 kB", percent = 100 }
    reaction = { kind = "nscc" }
    [host]
    buffer = "4 MiB"
    [recovery]
    kind = "selective-repeat"
    timeout = "20 ms"
    reordering = 16
    [[flow]]
    name = "write"
    from = "H1"
    to = "H2"
    message = "8 MiB"
    total = "8 MiB"
"""


#: The link of the receiver is down for 5 us.
DOWN = {"kind": "down", "links": ["H2"], "start": "100 us", "lasts": "5 us"}


@pytest.mark.parametrize("distance", [1, 16, 200])
def test_a_packet_is_sent_again_when_one_that_was_sent_later_is_acknowledged(distance):
    changes = {"congestion": {"notification": "ack-each"}, "recovery.reordering": distance}
    result = run_text(PAIR, event=[DOWN], **changes)
    found = recovered(result)
    # Packets leave the switch for 5 us while the link is down, and acknowledgements are lost on it.
    assert 5_000 / PACKET_NS - 1 <= found["data"] <= 5_000 / PACKET_NS + 3
    assert found["control"] >= 1, "acknowledgements on the link are lost"
    assert found["resent_packets"] == found["overtaken_packets"] == found["data"]
    assert found["discarded_packets"] == found["timeouts"] == 0
    # The host sends all the time, so each lost packet takes the time of one packet.
    whole = run_text(PAIR, event=[DOWN | {"start": "29 ms"}], **changes)
    assert ended_ns(result) - ended_ns(whole) == pytest.approx(found["data"] * PACKET_NS, abs=1)


def test_no_packet_is_repeated_only_because_its_acknowledgement_was_lost():
    event = {"kind": "errors", "links": ["H2"], "loss_ppb": 20_000_000, "start": "0 s"}
    found = recovered(run_text(PAIR, event=[event]))
    assert found["data"] > 20
    assert found["control"] > 20
    # Packets whose acknowledgements were lost near the end of the flow may be repeated after the timeout.
    assert found["resent_packets"] <= found["data"] + 3
    assert found["discarded_packets"] <= 3
    timeouts_only = PAIR.replace("reordering = 16", "").replace("20 ms", "100 us")
    without = recovered(run_text(timeouts_only, event=[event]))
    assert without["discarded_packets"] > 20, "without the states of other packets, all of them are repeated"


@pytest.mark.parametrize("packets", [1, 4, 16, 64])
def test_acknowledgements_of_several_packets_report_what_has_arrived(packets):
    changes = {
        "congestion.acknowledge": {"bytes": f"{4096 * packets} B"},
        # Windows have more than a hundred packets, and no packet is marked.
        "topology.link_delay": "10 us",
        "congestion.marking": {"kind": "red", "min": "1 MB", "max": "2 MB", "percent": 100},
    }
    whole = run_text(PAIR, event=[DOWN | {"start": "29 ms"}], **changes)
    links = whole.numpy("links")
    answers = links["sent_bytes"][links["link"] == "H2->S1:2"].sum() / 64
    assert answers == 8 * 2**20 / 4096 / packets + (packets > 1), "the first packet requests one"
    result = run_text(PAIR, event=[DOWN], **changes)
    found = recovered(result)
    assert found["data"] > 10
    assert found["resent_packets"] == found["overtaken_packets"] == found["data"]
    assert found["discarded_packets"] == found["timeouts"] == 0
    # Each loss also reduces the window.
    assert found["data"] < (ended_ns(result) - ended_ns(whole)) / PACKET_NS < 3 * found["data"]


def test_no_packet_is_repeated_although_acknowledgements_of_several_packets_are_lost():
    event = {"kind": "errors", "links": ["H2"], "loss_ppb": 20_000_000, "start": "0 s"}
    found = recovered(run_text(PAIR, event=[event], **{"congestion.acknowledge": {"bytes": "16 KiB"}}))
    assert found["data"] > 20
    assert found["control"] > 5
    assert found["resent_packets"] <= found["data"] + 3
    assert found["discarded_packets"] <= 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"recovery": {"kind": "go-back-n", "timeout": "1 ms"}},
            'acknowledge.*use recovery.kind = "selective-repeat"',
        ),
        (
            {"congestion.acknowledge": {"bytes": "262145 B"}},
            "acknowledge.bytes = .262145 B.: must be at most 256 KiB with",
        ),
    ],
)
def test_settings_that_acknowledgements_of_several_packets_exclude(changes, message):
    with pytest.raises(silvan.SilvanError, match=message):
        run_text(PAIR, **({"congestion.acknowledge": {}, "event": [DOWN]} | changes))


#: Sixteen hosts exchange data over eight spines. The link of the first leaf and the first spine fails.
TREE = """
    duration = "2 ms"
    [topology]
    kind = "two-level-fat-tree"
    leaves = 2
    spines = 8
    hosts_per_leaf = 8
    link_rate = "100 Gbit/s"
    link_delay = "500 ns"
    [packet]
    mtu = "4096 B"
    [lanes]
    count = 2
    control = 1
    control_priority = true
    [switch]
    arbitration = "fcfs"
    trimming = { queue = "200 kB" }
    [host]
    delivery = "out-of-order"
    [ecmp]
    spraying = "path-states"
    values = 64
    retirement = { probe_interval = "50 us" }
    [recovery]
    kind = "selective-repeat"
    timeout = "100 us"
    reordering = 32
    [congestion]
    notification = "ack-each"
    marking = { kind = "red", min = "50 kB", max = "200 kB", percent = 100, hosts = false }
    reaction = { kind = "nscc" }
    [[event]]
    kind = "down"
    links = ["L1.1:9"]
    start = "300 us"
    [[traffic]]
    name = "shift"
    hosts = "H[1-16]"
    pattern = { kind = "shift", by = 8 }
    message = "1 MiB"
    load_percent = 50
    [measure]
    interval = "100 us"
"""


RETIREMENT = 'retirement = { probe_interval = "50 us" }'


def test_values_over_a_failed_link_are_retired_and_restored_when_it_is_up():
    failed = recovered(run_text(TREE))
    assert failed["restored_values"] == 0
    assert failed["probes"] > 100
    # A value leads over the failed link with a chance of 1/8, and so does the spare that replaces it. The
    # bounds are four standard deviations. Lost acknowledgements retire no values.
    assert failed["retired_values"] == pytest.approx(16 * 64 / 7, abs=4 * (16 * 64 / 7) ** 0.5)
    # Each of them loses few packets before it is retired. Without states, values lose packets until the end.
    bitmap = recovered(run_text(TREE.replace(RETIREMENT, ""), **{"ecmp.spraying": "bitmap"}))
    assert failed["data"] < 3 * failed["retired_values"]
    assert bitmap["data"] > 4 * failed["data"]
    changes = {"event.0.lasts": "500 us"}
    repaired = recovered(run_text(TREE, **changes))
    assert repaired["restored_values"] == repaired["retired_values"] > 0


def test_a_flow_keeps_some_values_if_all_lose_packets():
    links = [f"L1.1:{port}" for port in range(9, 17)]
    event = [{"kind": "errors", "links": links, "loss_ppb": 100_000_000, "start": "0 s"}]
    changes = {"ecmp.retirement": {"spares": 0, "least_active": 8, "probe_interval": "1 ms"}}
    found = recovered(run_text(TREE, event=event, **changes))
    # 56 of the 64 values of each flow, and those that probes have restored and that were then retired again.
    assert 16 * 56 * 0.9 < found["retired_values"] <= 16 * 56 + found["restored_values"]
    assert found["data"] > 500


@pytest.mark.parametrize("threads", [2, 3])
def test_results_do_not_depend_on_threads_and_schedulers(threads):
    text = TREE.replace('duration = "2 ms"', 'duration = "1 ms"')
    one = run_text(text, scheduler="event-ordered")
    many = run_text(text, threads=threads)
    for name in ("flows", "hosts", "links"):
        mine, others = one.numpy(name), many.numpy(name)
        assert all(np.array_equal(mine[column], others[column]) for column in mine), name
    assert recovered(one) == recovered(many)


RECOVERY = """    [recovery]
    kind = "selective-repeat"
    timeout = "100 us"
    reordering = 32
"""


@pytest.mark.parametrize(
    ("removed", "changes", "message"),
    [
        ("", {"recovery.reordering": 0}, "recovery.reordering = 0: must be 1 to 65535"),
        ("", {"recovery.kind": "go-back-n"}, "reordering = 32: needs packets that may arrive in any order"),
        ("", {"ecmp.spraying": "bitmap"}, "ecmp.retirement: has no effect: no values are retired"),
        ("", {"ecmp.retirement.least_active": 65}, "least_active = 65: must be between 1 and ecmp.values"),
        ("", {"ecmp.retirement.probe_interval": "0 s"}, 'probe_interval = "0 s": must be more than 0 s'),
        ("", {"ecmp.retirement.spares": 20_000}, "ecmp.retirement.spares = 20000: must be 0 to 16384"),
        (RECOVERY, {"event": []}, "ecmp.retirement: has no effect without"),
    ],
)
def test_settings_without_effect_are_errors(removed, changes, message):
    with pytest.raises(silvan.SilvanError, match=message):
        silvan.Scenario.from_toml(TREE.replace(removed, ""), overrides=changes)


def test_reordering_needs_acknowledgements_of_packets():
    with pytest.raises(silvan.SilvanError, match="reordering = 16: needs an acknowledgement of each packet"):
        silvan.Scenario.from_toml(PAIR, overrides={"congestion": {"mechanism": "dcqcn"}, "event": [DOWN]})


def test_a_distance_that_is_too_short_is_named():
    changes = {"recovery.reordering": 1, "recovery.timeout": "1 ms", "traffic.0.load_percent": 90}
    result = run_text(TREE, **changes)
    assert any("by more than recovery.reordering = 1" in line for line in result.warnings), result.warnings


def test_probes_become_rarer_while_they_are_not_answered():
    # Values over the failed link, until the end of the run, 1.7 ms later.
    often = recovered(run_text(TREE, **{"ecmp.retirement.probe_interval": "1 us"}))
    assert often["probes"] < 60 * often["retired_values"]


def test_packets_whose_acknowledgements_were_lost_do_not_fill_windows(tmp_path):
    # Acknowledgements of every eighth packet are lost on the failed link.
    one = TREE.replace('hosts = "H[1-16]"', 'hosts = "H[1-1]"').replace("load_percent = 50", "")
    rates = [
        run_text(one, **{"recovery.reordering": distance, "duration": "3 ms"})
        .numpy("network")["received_bytes"][-5:]
        .sum()
        for distance in (32, 300)
    ]
    assert rates[1] > 0.97 * rates[0]


def test_lists_of_transfers_do_not_use_the_lane_of_headers(tmp_path):
    (tmp_path / "list.txt").write_text("2\n1 0 3 100 100000 0.000001\n2 0 2 100 100000 0.000001\n")
    text = TREE[: TREE.index("[[traffic]]")] + "[[traffic]]\nname = 'l'\n"
    file = tmp_path / "listed.toml"
    file.write_text(text + "pattern = { kind = 'listed', file = 'list.txt' }\n")
    with pytest.raises(silvan.SilvanError, match="has transfers with service level 3 and virtual lane 1"):
        silvan.run(file)


#: A flow between the first and the last host of a tree, which has 16 routes.
SOURCE_ROUTES = """
    duration = "1 ms"
    [topology]
    kind = "k-ary-n-tree"
    k = 4
    n = 3
    link_rate = "100 Gbit/s"
    [packet]
    mtu = "4096 B"
    [host]
    delivery = "out-of-order"
    [ecmp]
    spraying = "oblivious"
    values = 16
    selection = "SELECTION"
    [measure]
    interval = "1 ms"
    links = true
    [[flow]]
    from = "H1"
    to = "H64"
    total = "2 MiB"
"""


def test_source_routes_use_all_links_equally():
    def packets(selection, level):
        result = run_text(SOURCE_ROUTES.replace("SELECTION", selection))
        links = result.numpy("links")
        ups = [up for up in range(len(links["link"])) if rising(links["link"][up]) == level]
        return sorted(int(links["sent_bytes"][up]) // 4096 for up in ups if links["sent_bytes"][up])

    def rising(link):
        """Return the level from which a link between switches rises; 0 for other links."""
        low, high = (int(end.split(".")[0][1:]) if end.startswith("L") else 0 for end in link.split("->"))
        return low if 0 < low < high else 0

    # 512 packets: 32 rounds of the 16 routes.
    assert packets("source-route", 1) == [128] * 4
    assert packets("source-route", 2) == [32] * 16
    assert len(packets("hash", 2)) < 16, "hashes lead several values to one link, and none to others"


def test_each_source_route_needs_a_value():
    text = SOURCE_ROUTES.replace("SELECTION", "source-route").replace("values = 16", "values = 8")
    with pytest.raises(silvan.ScenarioError, match=r"ecmp.values = 8: must be at least 16"):
        run_text(text)
    text = text.replace('spraying = "oblivious"', "").replace("values = 8", "")
    text = text.replace('delivery = "out-of-order"', "")
    with pytest.raises(silvan.ScenarioError, match=r"ecmp.selection .*has no effect"):
        run_text(text)


#: Sixteen hosts, each of which has a leaf, write to each other over 64 spines. Spine 1 fails.
SPINES = """
    duration = "500 us"
    [topology]
    kind = "two-level-fat-tree"
    leaves = 16
    spines = 64
    hosts_per_leaf = 1
    link_rate = "200 Gbit/s"
    link_delay = "250 ns"
    [packet]
    mtu = "4096 B"
    header = "162 B"
    control = "110 B"
    [lanes]
    count = 2
    control = 1
    control_priority = true
    [switch]
    arbitration = "fcfs"
    [host]
    delivery = "out-of-order"
    [ecmp]
    spraying = "path-states"
    values = 64
    [recovery]
    kind = "selective-repeat"
    timeout = "TIMEOUT us"
    [congestion]
    marking = { kind = "red", min = "40 kB", max = "160 kB", percent = 100, hosts = false }
    notification = "ack-each"
    reaction = { kind = "static-window", packets = 1000 }
    [[event]]
    kind = "down"
    switches = ["L2.1"]
    start = "100 us"
    [[traffic]]
    hosts = "H[1-16]"
    pattern = { kind = "shift", by = 8 }
    message = "16 MiB"
"""


def test_a_failed_spine_costs_rate_times_share_times_time():
    # Packets per microsecond of each of the 64 values of a host.
    rate = 200e3 / (8 * (4096 + 162)) / 64
    for timeout in (100, 200):
        result = run_text(SPINES.replace("TIMEOUT", str(timeout)))
        losses = result.numpy("losses")
        of_hosts = losses["data_packets"][np.char.find(losses["link"].astype(str), "->L2.1:") >= 0]
        # Eleven hosts have values over the spine, and five of them have two.
        values = np.round(of_hosts / (rate * timeout))
        assert sorted(values[values > 0]) == [1] * 6 + [2] * 5
        assert of_hosts.sum() / (rate * values.sum()) == pytest.approx(timeout, rel=0.03)


#: A message of H1 to H2 over one or more ports. The round trip takes 200 us, 610 times as long as a packet. A
#: window starts with 64 packets.
WINDOWS = """
    duration = "2 ms"
    [topology]
    kind = "star"
    hosts = 2
    link_rate = "100 Gbit/s"
    link_delay = "50 us"
    [packet]
    mtu = "4096 B"
    [switch]
    buffer = "8 MiB"
    [ports]
    count = 4
    wiring = "planes"
    use = "stripe"
    [congestion]
    notification = "ack-each"
    reaction = { kind = "nscc", first_window = "256 KiB" }
    [host]
    buffer = "8 MiB"
    [[job]]
    program = { kind = "collective", operation = "broadcast", ranks = 2, bytes = "512 KiB" }
"""


@pytest.mark.parametrize("ports", [1, 4])
@pytest.mark.parametrize("level", ["qp", "destination"])
def test_a_window_per_destination_limits_all_ports_and_queue_pairs_together(level, ports):
    text = WINDOWS
    if ports == 1:
        table = text[text.index("    [ports]") : text.index("    [congestion]")]
        text = text.replace(table, "").replace(
            "[[job]]", "[[job]]\n    queue_pairs = { count = 4, split = true }"
        )
    result = run_text(text, **{"congestion.reaction.level": level})
    (job,) = result.summary["jobs"]
    # Four windows of 64 packets have room for all 128 packets. A common one has room for the first half. The
    # other half follows when the first half is acknowledged, a round trip later.
    way = 100_000
    expected = way + PACKET_NS * 128 / ports
    if level == "destination":
        expected = way + PACKET_NS + way + way + PACKET_NS * 64 / ports
    assert job["span_ns"] == pytest.approx(expected, abs=500)


def test_a_common_window_follows_from_the_rate_of_all_ports():
    text = WINDOWS.replace(', first_window = "256 KiB"', ', level = "destination"')
    result = run_text(text, **{"job.0.program.bytes": "8 MiB", "duration": "20 ms"})
    (job,) = result.summary["jobs"]
    # The largest window is 1.5 times the round trip at 400 Gbit/s, so the ports are always busy.
    assert job["span_ns"] == pytest.approx(100_000 + (8 << 20) * 8 / 400, rel=1e-2)


def test_ports_with_a_common_window_take_turns_with_its_room():
    # A plane with a quarter of the rate fills the window with its packets. The others wait for its answers.
    event = 'event = [{ kind = "rate", links = "H2.3", rate = "25 Gbit/s", start = "0 s" }]'
    slow = WINDOWS.replace("    [topology]", f"    {event}\n    [topology]").replace("50 us", "500 ns")
    keys = {"job.0.program.bytes": "32 MiB", "duration": "20 ms", "ports.use": "spray"}
    keys["congestion.reaction.first_window"] = "64 KiB"
    times = {
        level: run_text(slow, **{**keys, "congestion.reaction.level": level}).summary["jobs"][0]["span_ns"]
        for level in ("qp", "destination")
    }
    # Each port for itself: spray lets the fast ports take what the slow one cannot.
    assert times["qp"] == pytest.approx((32 << 20) * 8 / 325, rel=0.1)
    assert times["destination"] > times["qp"]
