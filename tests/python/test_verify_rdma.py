"""Compares both models with mechanisms of RDMA over Ethernet, and checks that it detects errors."""

import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT))

from verify import compare, rdma_drawing
from verify.reading import plan
from verify.reference import Network, credits, hosts, marking, rdma, switches


def test_a_control_packet_ends_no_wait_of_a_host_with_one_flow():
    assert compare.differences(rdma_drawing.variant(998000015)) == []


def test_scenarios_drawn_at_random():
    compared = compare.compare(rdma_drawing.many(1000, 60), show=False)
    assert not compared.wrong
    assert len(compared.refused) <= 2


def in_turn(lanes, last):
    """Return the lanes in turn, without priority."""
    return [(last + 1 + step) % len(lanes) for step in lanes]


def take_every_answer(flight, answer):
    """End a round trip with every answer."""
    flight.acknowledged += answer.size
    flight.round_ends = flight.sent
    return True


@pytest.mark.parametrize(
    ("part", "name", "broken", "seed"),
    [
        (marking.RedState, "share", lambda state: state.one // 2, 2),
        (switches.Switch, "stamp", lambda *_: None, 1),
        (hosts.Host, "expire", lambda *_: None, 3),
        (rdma.DcqcnControl, "raise_rate", lambda *_: None, 3),
        (rdma.DcqcnControl, "next_timer", lambda *_: None, 3),
        (rdma.Flight, "take", take_every_answer, 1),
        (rdma.TimelyControl, "change", lambda *_: None, 45),
        (rdma.PccRttControl, "sample", lambda *_: None, 60),
        (rdma.PccTelemetryControl, "step", lambda *_: 0, 445),
        (rdma.SwiftControl, "root", lambda *_: 2**16, 13),
        (rdma.HpccControl, "busiest", lambda *_: None, 1),
        (rdma.NsccControl, "reduce", lambda *_: None, 54),
        (rdma.NsccControl, "adapts", lambda *_, **__: False, 95),
        (credits.Granter, "expire", lambda *_: None, 7),
        (credits.RcccControl, "take", lambda *_: None, 7),
        (credits.RcccControl, "take_answer", lambda *_: None, 14),
        (credits.RcccControl, "wanted", lambda *_: 0, 7),
        (credits.Slowdown, "pass_time", lambda *_: None, 7),
        (credits.Slowdown, "length", lambda self: self.rule.interval_ps, 7),
        (switches.Switch, "lane_order", lambda self, last: in_turn(self.lanes, last), 8),
    ],
)
def test_a_broken_reference_is_noticed(monkeypatch, part, name, broken, seed):
    scenario = rdma_drawing.variant(seed)
    assert compare.differences(scenario) == []
    monkeypatch.setattr(part, name, broken)
    assert compare.differences(scenario)


def test_delayed_notifications_are_compared(monkeypatch):
    delayed = []
    for seed in range(1, 200):
        scenario = rdma_drawing.variant(seed)
        if "notification_delay" in scenario["congestion"] and len(delayed) < 5:
            delayed.append(scenario)
    assert all(compare.differences(scenario) == [] for scenario in delayed)
    monkeypatch.setattr(hosts.Host, "reply", lambda *_: None)
    assert any(compare.differences(scenario) for scenario in delayed)


@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize(
    ("mtu", "header", "turn"), [(1000, 24, 1), (4096, 64, 1), (4096, 64, 2), (50, 10, 1)]
)
def test_receivers_grant_what_arrives_and_the_second_model_delivers_everything(seed, mtu, header, turn):
    """Check the purpose of credit in the second model, because both models share the rule for grants."""
    full = mtu + header
    scenario = {
        "seed": seed,
        "duration": "20 ms",
        "topology": {"kind": "star", "hosts": 8},
        "packet": {"mtu": f"{mtu} B", "header": f"{header} B"},
        "traffic": [
            {
                "message": f"{mtu} B",
                "message_max": f"{3 * mtu // 2} B",
                "packets_per_host": 30,
                "pattern": {"kind": "uniform"},
            }
        ],
        "measure": {"interval": "20 ms"},
        "congestion": {
            "marking": {"kind": "none"},
            "notification": "ack-grant",
            "reaction": {
                "kind": "rccc",
                "limit": f"{full} B",
                "speculative": "0 B",
                "grant_packets": turn,
                "divide_requests": True,
            },
        },
    }
    net = Network(plan(scenario))
    net.run()
    assert net.injected == net.delivered == 8 * 30
    for host in net.hosts.values():
        most = -(-full // credits.QUANTUM)
        for flow, granted in host.granter.grants.items():
            # All grants have arrived, and a flow never has more credit than a packet needs and a turn brings.
            assert flow.control.granted == granted
            assert flow.sent <= granted * credits.QUANTUM + full - 1
            assert granted - host.granter.targets[flow] <= most + host.granter.turn


def test_scenarios_cover_every_component():
    parts = [rdma_drawing.variant(seed)["congestion"] for seed in range(1, 300)]
    assert {part["reaction"]["kind"] for part in parts} == {
        "dcqcn",
        "dctcp",
        "timely",
        "swift",
        "hpcc",
        "nscc",
        "rccc",
        "pcc-rtt",
        "pcc-telemetry",
    }
    assert {part["marking"]["kind"] for part in parts} == {"red", "telemetry", "none"}
    assert {part["notification"] for part in parts} == {"cnp", "ack", "ack-each", "ack-grant", "backward"}
