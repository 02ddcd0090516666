"""A list of scenarios on which the simulator and the second model are always compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verify.drawing import NO_DELAYS, Scenario, cc, drawn, flow, with_coalescing, with_lanes, with_own_timers

STAR = {"kind": "star", "hosts": 5, "link_rate": "16 Gbit/s"}
DUMBBELL = {"kind": "dumbbell", "left": 3, "right": 4, "link_rate": "16 Gbit/s", "trunk_rate": "32 Gbit/s"}
LIMITS = {"injection_rate": "13.5 Gbit/s", "drain_rate": "13 Gbit/s"}
TESTBED = [
    flow("H1", "H4"),
    flow("H2", "H5"),
    flow("H3", "H5", start="20 us"),
    flow("H6", "H5", start="30 us"),
    flow("H7", "H5", start="40 us"),
]
TO_ONE = [flow(f"H{i}", "H1") for i in (2, 3, 4, 5)]
#: A tree of two levels with hosts on ports out of order and links of four rates.
TREE = {
    "kind": "custom",
    "hosts": [f"H{i}" for i in range(1, 9)],
    "switches": [{"name": "Top", "ports": 4}, *({"name": f"L{i}", "ports": 5} for i in (1, 2, 3))],
    "links": [
        {"from": "L1:5", "to": "Top:3", "rate": "32 Gbit/s"},
        {"from": "L2:1", "to": "Top:1", "rate": "16 Gbit/s", "delay": "55 ns"},
        {"from": "L3:2", "to": "Top:4", "rate": "8 Gbit/s", "delay": "7 ns"},
        {"from": "H1", "to": "L1:4"},
        {"from": "H2", "to": "L1:1"},
        {"from": "H3", "to": "L1:2", "rate": "32 Gbit/s"},
        {"from": "H4", "to": "L2:5"},
        {"from": "H5", "to": "L2:3", "rate": "4 Gbit/s"},
        {"from": "H6", "to": "L2:2"},
        {"from": "H7", "to": "L3:1", "rate": "32 Gbit/s"},
        {"from": "H8", "to": "L3:5"},
    ],
    "link_rate": "16 Gbit/s",
}
#: A chain of three switches with links of different rates.
CHAIN = {
    "kind": "custom",
    "hosts": ["A", "B", "C", "D"],
    "switches": [{"name": f"S{i}", "ports": 4} for i in (1, 2, 3)],
    "links": [
        {"from": "A", "to": "S1:1", "rate": "40 Gbit/s"},
        {"from": "B", "to": "S1:3", "rate": "2.5 Gbit/s"},
        {"from": "S1:2", "to": "S2:2", "rate": "10 Gbit/s", "delay": "1 us"},
        {"from": "S2:1", "to": "S3:4", "rate": "25 Gbit/s", "delay": "3 ns"},
        {"from": "C", "to": "S2:3", "rate": "7 Gbit/s"},
        {"from": "D", "to": "S3:1", "rate": "40 Gbit/s"},
    ],
}
#: One switch with a fast input, and with a slow and a fast output.
FORK = {
    "kind": "custom",
    "hosts": ["A", "Slow", "Fast"],
    "switches": [{"name": "S", "ports": 3}],
    "links": [
        {"from": "A", "to": "S:1", "rate": "40 Gbit/s"},
        {"from": "Slow", "to": "S:2", "rate": "4 Gbit/s"},
        {"from": "Fast", "to": "S:3", "rate": "40 Gbit/s"},
    ],
}
FORK_FLOWS = [flow("A", "Fast", message="249 B"), flow("A", "Slow", rate="1 Gbit/s")]
TREE_FLOWS = [
    flow("H1", "H8"),
    flow("H2", "H8"),
    flow("H4", "H8"),
    flow("H5", "H8"),
    flow("H7", "H8"),
    flow("H3", "H5"),
    flow("H6", "H7"),
    flow("H8", "H1"),
]
CHAIN_FLOWS = [flow("A", "D"), flow("B", "D"), flow("C", "D"), flow("D", "B"), flow("C", "A")]
MIXED = [
    flow("H2", "H1", message="100 B"),
    flow("H2", "H3", message="5000 B", rate="3 Gbit/s"),
    flow("H3", "H1", message="2048 B", rate="7 Gbit/s"),
    flow("H4", "H1", message="10 KB", total="200 KB"),
    flow("H5", "H1", message="777 B", start="3.5 us", stop="70 us"),
]
#: A saturating flow ends while the other flows of the host have nothing to send.
STOPPED = [
    flow("H2", "H1", stop="10 us"),
    flow("H2", "H3", rate="1 Gbit/s"),
    flow("H2", "H4", start="50 us", total="20 KB"),
]


def scenario(topology: Mapping[str, Any], flows: list[dict[str, Any]], **more: Any) -> Scenario:
    """Compose a scenario. Flow number n in the list, counted from 1, is named `Fn` unless it has a name."""
    named = [{"name": f"F{number + 1}", **one} for number, one in enumerate(flows)]
    base = {"duration": "120 us", "measure": {"interval": "4 us"}}
    return {**base, "topology": dict(topology), **more, "flow": named}


def _switch(buffer: str, latency: str = "100 ns") -> dict[str, str]:
    return {"buffer": buffer, "latency": latency}


def _logs() -> list[tuple[str, Scenario]]:
    """Return scenarios in which congestion logs lose events and indices often reach their thresholds."""
    kept = {"measure": {"interval": "4 us", "congestion_log": True}, "duration": "400 us"}

    def quick(increase: int, trigger: int, **more: Any) -> dict[str, Any]:
        parts = cc(increase=increase, marking_rate=0, victim_mask="all")
        own = {"ccti_timer": 1, "trigger_threshold": trigger, **more}
        return {**parts, "reaction": {**parts["reaction"], **own}}

    small = _switch("8 KiB")
    by_level = quick(2, 4, level="sl")
    two = {"lanes": {"count": 2}}
    backward = {**quick(1, 2), "notification": "backward"}
    return [
        ("logs: star", scenario(STAR, TO_ONE, switch=small, congestion=quick(2, 2), **kept)),
        ("logs: tree, steps across thresholds", scenario(TREE, TREE_FLOWS, congestion=quick(3, 4), **kept)),
        (
            "logs: star, indices of service levels",
            scenario(STAR, _levels(MIXED, 2), switch=small, congestion=by_level, **two, **kept),
        ),
        (
            "logs: tree, switches notify",
            scenario(TREE, TREE_FLOWS, switch=small, congestion=backward, **kept),
        ),
    ]


def _levels(flows: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Give flows the service levels 0 to `count` - 1 cyclically."""
    return [{**one, "sl": number % count} for number, one in enumerate(flows)]


def _lanes_of_a_star() -> list[tuple[str, Scenario]]:
    two, four = {"count": 2}, {"count": 4}
    tiny = {"switch": _switch("4099 B"), "host": {"buffer": "4100 B", "drain_rate": "13 Gbit/s"}}
    odd = {"packet": {"credit_block": "100 B", "header": "30 B"}, "switch": _switch("9 KB"), "host": LIMITS}
    # H2 must notify on a lane that its own packets to H3 have filled. It also sends to H1.
    crossed = [
        flow("H2", "H1", sl=0),
        *(flow(source, to, sl=1) for source, to in (("H2", "H3"), ("H4", "H3"), ("H5", "H2"), ("H4", "H2"))),
    ]
    # H2 fills lane 1 to H3, and notifies on all lanes. Several notifications wait while it sends data.
    answered = [
        *(flow(source, "H3", sl=1) for source in ("H2", "H4", "H5")),
        flow("H2", "H1", sl=0),
        *(flow(f"H{i}", "H2", sl=sl, message="600 B") for i, sl in ((1, 0), (3, 1), (4, 2), (5, 3), (4, 1))),
    ]
    short = {"switch": _switch("8400 B"), "host": {"buffer": "8400 B"}}
    eager = cc(upper="1 KiB", lower="0 B", marking_rate=0, victim_mask="all", table=NO_DELAYS)
    return [
        ("2 lanes: star, all to one", scenario(STAR, _levels(TO_ONE, 2), lanes=two)),
        ("2 lanes: star, a packet of buffer", scenario(STAR, _levels(TO_ONE, 2), lanes=two, **tiny)),
        ("2 lanes: star, full lane", scenario(STAR, crossed, lanes=two, congestion=eager, **tiny)),
        (
            "4 lanes: star, control passes a full lane",
            scenario(STAR, answered, lanes=four, congestion=eager, **short),
        ),
        ("4 lanes: star, messages of all sizes", scenario(STAR, _levels(MIXED, 4), lanes=four)),
        ("4 lanes: star, odd blocks, limits", scenario(STAR, _levels(MIXED, 4), lanes=four, **odd)),
    ]


def _lanes_of_a_dumbbell() -> list[tuple[str, Scenario]]:
    two, four = {"count": 2}, {"count": 4}
    apart = {**four, "sl_to_vl": [0, 1, 1, 2, 0], "control": 3}

    def testbed(lanes: Mapping[str, Any], buffer: str = "64 KiB", **more: Any) -> Scenario:
        flows = _levels(TESTBED, 16)
        return scenario(DUMBBELL, flows, host=LIMITS, switch=_switch(buffer), lanes=dict(lanes), **more)

    level = cc(increase=2)
    level["reaction"]["level"] = "sl"
    answers = {**cc(), "notification": "ack"}
    combined = {**cc(), "notification": "ack-message"}
    return [
        ("2 lanes: dumbbell", testbed(two)),
        ("2 lanes: dumbbell, a map, all on one", testbed({**two, "sl_to_vl": [1] * 5})),
        ("2 lanes: dumbbell, CC", testbed(two, congestion=cc())),
        ("2 lanes: dumbbell, CC, control apart", testbed({**two, "control": 1}, congestion=cc())),
        ("4 lanes: dumbbell, CC", testbed(four, "80 KiB", congestion=cc(marking_rate=0))),
        ("4 lanes: dumbbell, CC, a map, control apart", testbed(apart, congestion=cc(fill="each"))),
        ("2 lanes: dumbbell, CC per service level", testbed(two, congestion=level)),
        ("1 lane: dumbbell, CC per service level", testbed({"count": 1}, congestion=level)),
        ("1 lane: dumbbell, acknowledgements", testbed({"count": 1}, congestion=answers)),
        ("1 lane: dumbbell, acknowledgements of messages", testbed({"count": 1}, congestion=combined)),
        ("2 lanes: dumbbell, acknowledgements", testbed({**two, "control": 0}, congestion=answers)),
    ]


def _lanes_of_mixed_rates() -> list[tuple[str, Scenario]]:
    two, four = {"count": 2}, {"count": 4}
    tree, chain = _levels(TREE_FLOWS, 4), _levels(CHAIN_FLOWS, 4)
    large, slow = _switch("40 KiB"), _switch("6 KiB", "1 us")
    return [
        ("4 lanes: tree", scenario(TREE, tree, lanes=four, switch=_switch("16 KiB"))),
        (
            "2 lanes: tree, CC",
            scenario(TREE, tree, lanes=two, switch=large, congestion=cc(victim_mask="all")),
        ),
        ("4 lanes: chain, CC", scenario(CHAIN, chain, lanes=four, switch=large, congestion=cc())),
        ("2 lanes: fork", scenario(FORK, _levels(FORK_FLOWS, 2), lanes=two, switch=slow)),
    ]


def table() -> list[tuple[str, Scenario]]:
    """Return the scenarios that are always compared."""
    return (
        _single_lane() + _lanes_of_a_star() + _lanes_of_a_dumbbell() + _lanes_of_mixed_rates() + _once_wrong()
    )


def _fecn(**marking: Any) -> dict[str, Any]:
    """Describe marking of every packet above a threshold, with an injection table that adds no delay."""
    return {
        **cc(marking_rate=0, packet_size=0, **marking, table=NO_DELAYS),
        "notification": "cnp",
    }


def _once_wrong() -> list[tuple[str, Scenario]]:
    """Return scenarios that revealed defects of the simulator."""
    cioq = {"architecture": "cioq", "buffer": "16 KiB"}
    behind = [flow("H1", "H2"), flow("H3", "H2"), flow("H4", "H3", rate="1 Gbit/s")]
    other_lane = [flow("H1", "H3"), flow("H2", "H3"), flow("H4", "H3", sl=1, rate="1 Gbit/s")]
    one_packet = {"queues": "per-destination", "queue_buffer": "2 KiB"}
    lone = {
        "kind": "custom",
        "hosts": ["A", "B", "C"],
        "switches": [{"name": "S1", "ports": 3}, {"name": "S2", "ports": 2}],
        "links": [
            {"from": "A", "to": "S1:1"},
            {"from": "B", "to": "S1:2"},
            {"from": "S1:3", "to": "S2:1"},
            {"from": "C", "to": "S2:2"},
        ],
    }
    hurried = [
        flow("H1", "H3", message="8779 B", rate="9 Gbit/s"),
        flow("H3", "H2", message="4096 B"),
        flow("H3", "H2", start="2302149 ps"),
        flow("H1", "H2", message="4096 B", rate="9 Gbit/s", start="3588768 ps"),
        flow("H3", "H1"),
    ]
    lipd = {"marking": {"kind": "ipm"}, "notification": "ack-each", "reaction": {"kind": "lipd"}}
    return [
        # When a packet leaves an output buffer, only the queues for that output count. The flow from H4 to H3
        # is alone at its output, so it must not be marked.
        (
            "cioq, each: another output's queue",
            scenario(STAR, behind, switch=cioq, congestion=_fecn(fill="each", upper="4 KiB", lower="2 KiB")),
        ),
        # Bytes in an output buffer count only on their lane, so the only flow of lane 1 must not be marked.
        (
            "cioq, sum: another lane's bytes",
            scenario(
                STAR,
                other_lane,
                lanes={"count": 2},
                switch={**cioq, "buffer": "64 KiB"},
                congestion=_fecn(upper="4 KiB", lower="2 KiB"),
            ),
        ),
        # No queue of the next switch has room for two packets, so a port is not a root even before it first
        # requests credit.
        (
            "per-destination, one packet: a root without credit",
            scenario(
                lone,
                [flow("A", "C"), flow("B", "C")],
                switch=one_packet,
                congestion=_fecn(victim_mask="none", upper="3 KiB", lower="1 KiB"),
            ),
        ),
        # If an answer extends the pause of a flow, the longer pause determines when the flow is resumed.
        (
            "lipd: the order of release after a longer pause",
            scenario(
                {"kind": "star", "hosts": 4, "link_rate": "20 Gbit/s"},
                hurried,
                packet={"control": "100 B"},
                switch={
                    "architecture": "cioq",
                    "queues": "per-output",
                    "buffer": "4176 B",
                    "latency": "6 ns",
                },
                congestion=lipd,
            ),
        ),
    ]


def _single_lane() -> list[tuple[str, Scenario]]:
    small = _switch("32 KiB")
    header = {"header": "30 B"}
    far = {**DUMBBELL, "link_delay": "500 ns"}

    def testbed(**marking: Any) -> Scenario:
        return scenario(DUMBBELL, TESTBED, host=LIMITS, switch=small, congestion=cc(**marking))

    steps = {"kind": "list", "delays_ns": [i * 700 for i in range(128)]}
    iba = {"kind": "iba", "entries": [((i % 3) << 14) + 9 * i for i in range(128)]}
    return [
        ("star: a flow", scenario(STAR, [flow("H1", "H2")])),
        ("star: all to one", scenario(STAR, TO_ONE)),
        ("star: all to one, limits", scenario(STAR, TO_ONE, host=LIMITS)),
        ("star: one packet of buffer", scenario(STAR, TO_ONE, switch=_switch("2048 B"))),
        ("star: buffer not in whole blocks", scenario(STAR, TO_ONE, switch=_switch("6200 B"))),
        (
            "star: slow sink with one packet of buffer",
            scenario(STAR, TO_ONE, host={**LIMITS, "buffer": "2 KiB"}),
        ),
        ("star: messages of all sizes", scenario(STAR, MIXED)),
        ("star: messages of all sizes, header, limits", scenario(STAR, MIXED, host=LIMITS, packet=header)),
        (
            "star: messages, packets of 256 B",
            scenario(STAR, MIXED, packet={"mtu": "256 B", "header": "26 B"}),
        ),
        (
            "star: blocks of 100 B",
            scenario(STAR, MIXED, packet={"credit_block": "100 B"}, switch=_switch("5 KB")),
        ),
        ("star: CC", scenario(STAR, TO_ONE, host=LIMITS, switch=small, congestion=cc())),
        (
            "star: CC, one threshold",
            scenario(STAR, TO_ONE, host=LIMITS, switch=small, congestion=cc(hysteresis="0 B")),
        ),
        ("star: CC, small packets marked", scenario(STAR, MIXED, switch=small, congestion=cc(packet_size=0))),
        ("dumbbell: parking lot", scenario(DUMBBELL, TESTBED)),
        ("dumbbell: parking lot, limits", scenario(DUMBBELL, TESTBED, host=LIMITS, switch=small)),
        ("dumbbell: latency 0, long cables", scenario(far, TESTBED, switch=_switch("16 KiB", "0 ns"))),
        ("dumbbell: CC", testbed()),
        (
            "dumbbell: CC, store-and-forward",
            {**testbed(), "switch": {**small, "forwarding": "store-and-forward"}},
        ),
        (
            "links of two rates, store-and-forward",
            scenario(FORK, FORK_FLOWS, switch={**small, "forwarding": "store-and-forward"}),
        ),
        (
            "dumbbell: CC, header",
            scenario(DUMBBELL, TESTBED, host=LIMITS, switch=small, packet=header, congestion=cc()),
        ),
        ("dumbbell: CC, each queue alone", testbed(fill="each", upper="6 KiB", lower="2 KiB")),
        ("dumbbell: CC, sum per input", testbed(fill="sum-per-input", threshold=8)),
        ("dumbbell: CC, every packet marked", testbed(marking_rate=0, increase=3)),
        ("dumbbell: CC, every tenth", testbed(marking_rate=9)),
        ("dumbbell: CC, no Victim_Mask", testbed(victim_mask="none")),
        ("dumbbell: CC, Victim_Mask everywhere", testbed(victim_mask="all")),
        ("dumbbell: CC, table as a list", testbed(table=steps)),
        ("dumbbell: CC, table as IBA has it", testbed(table=iba, increase=4)),
        ("tree: four rates", scenario(TREE, TREE_FLOWS)),
        (
            "tree: four rates, limits, header",
            scenario(TREE, TREE_FLOWS, host=LIMITS, packet=header, switch=small),
        ),
        ("tree: four rates, one packet of buffer", scenario(TREE, TREE_FLOWS, switch=_switch("2 KiB"))),
        ("tree: CC", scenario(TREE, TREE_FLOWS, switch=small, congestion=cc())),
        (
            "tree: CC, each queue, no hysteresis",
            scenario(
                TREE, TREE_FLOWS, switch=small, congestion=cc(fill="each", threshold=12, hysteresis="0 B")
            ),
        ),
        (
            "star: messages have a cost",
            scenario(STAR, MIXED, host={**LIMITS, "message_overhead": "1234567 ps"}),
        ),
        ("star: other flows continue after one ends", scenario(STAR, STOPPED)),
        (
            "fork: credits of small packets overtake",
            scenario(FORK, FORK_FLOWS, switch=_switch("3 KiB", "1 us")),
        ),
        ("chain: slow and fast links", scenario(CHAIN, CHAIN_FLOWS)),
        ("chain: slow and fast links, CC", scenario(CHAIN, CHAIN_FLOWS, switch=small, congestion=cc())),
        ("drawn: a credit and a packet at one instant", drawn(200739)),
        # Orders of events within a host that few scenarios have.
        ("drawn: a notification that lacks credit", drawn(480)),
        ("drawn: a notification while data lacks credit", drawn(942)),
        ("drawn: two flows released at one instant", drawn(11362)),
        ("drawn: timers that a notification restarts", with_own_timers(drawn(19), timer=1)),
        ("drawn: receivers that coalesce, per flow", with_coalescing(with_lanes(drawn(46)))),
        ("drawn: receivers that coalesce, per port", with_coalescing(with_lanes(drawn(54)))),
        *_logs(),
    ]
