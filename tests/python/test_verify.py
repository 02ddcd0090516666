"""Tests a quick subset of the oracles in `verify/`, and that the oracles detect errors."""

import copy
import itertools
import sys
import time
from dataclasses import replace
from fractions import Fraction

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT))

from verify import (
    __main__ as program,
)
from verify import (
    cases,
    check,
    compare,
    covered,
    crossbar,
    direct,
    drawing,
    laws,
    quantities,
    reading,
    reference,
)
from verify.reference import (
    announcing,
    cioq,
    forests,
    hosts,
    isolation,
    marking,
    queues,
    reactions,
    rounds,
    routes,
    streams,
    switches,
)
from verify.reference.waking import WakingHost

TABLE = dict(cases.table())


@pytest.mark.parametrize("name", TABLE)
def test_the_simulator_does_what_the_reference_does(name):
    found = compare.differences(TABLE[name])
    assert not found, f"{found[0]} ({len(found)} differences)"


def test_announced_flows_take_turns_in_the_order_in_which_they_may_send():
    """A flow whose wait ended while its host was busy precedes a flow whose announcement returns later."""
    assert not compare.compare(drawing.many(880053, 1), show=False).wrong


def test_an_error_of_one_scenario_does_not_end_the_comparison(monkeypatch):
    cases = [("bad", {}), *itertools.islice(drawing.many(1, 1), 1)]
    found = compare.compare(cases, show=False)
    assert len(found.wrong) == 1
    assert found.wrong[0].startswith("bad: ")
    monkeypatch.setattr(compare, "differences", lambda _scenario: time.sleep(5))
    monkeypatch.setattr(compare, "MOST_SECONDS", 1)
    found = compare.compare(cases[:1], show=False)
    assert found.wrong == ["bad: TimeoutError: has not ended within 1 s"]


@pytest.mark.parametrize("listed", [{}, {"wrong": ["a: differs"]}, {"refused": ["a: no model"]}])
def test_the_command_fails_if_a_listed_scenario_differs_or_is_not_covered(listed, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["verify", "--quick", "--drawn", "0"])
    monkeypatch.setattr(program, "DRAWN", ())
    monkeypatch.setattr(program.laws, "report", lambda *, quick: [])
    monkeypatch.setattr(program.compare, "compare", lambda scenarios: compare.Compared(**listed))
    assert program.main() == bool(listed)
    said = capsys.readouterr().out
    counts = [len(listed.get(key, ())) for key in ("wrong", "refused")]
    assert "{} disagreements, {} listed scenarios not covered".format(*counts) in said
    assert ("not covered: a: no model" in said) == ("refused" in listed)


def test_scenarios_drawn_at_random():
    compared = compare.compare(drawing.many(1000, 45), show=False)
    assert not compared.wrong
    assert len(compared.refused) <= 2


@pytest.mark.parametrize("seed", [3, 9, 23, 36, 38, 46, 54, 59])
def test_receivers_that_coalesce(monkeypatch, seed):
    """Receivers coalesce notifications per flow or per port, and the comparison detects a wrong rule."""
    scenario = drawing.with_coalescing(drawing.with_lanes(drawing.drawn(seed)))
    assert compare.differences(scenario) == []
    monkeypatch.setattr(hosts.Host, "may_notify", lambda *_: True)
    assert compare.differences(scenario)


@pytest.mark.parametrize("seed", [3, 9, 18, 19, 54, 59])
def test_timers_that_a_notification_starts_anew(monkeypatch, seed):
    scenario = drawing.with_own_timers(drawing.drawn(seed), timer=1)
    assert compare.differences(scenario) == []
    monkeypatch.setattr(reactions.TableControl, "start_anew", lambda *_: None)
    assert compare.differences(scenario)


@pytest.mark.parametrize(
    ("part", "name", "broken", "seed"),
    [
        (rounds.Round, "gap", lambda *_: 0, 11),
        (queues.Buffers, "return_from_aside", lambda *_: None, 58),
        (isolation.IsolatingBuffers, "release", lambda *_: None, 6),
        (isolation.IsolatingBuffers, "is_stopped", lambda *_: False, 6),
        (cioq.CioqSwitch, "mark_at_input", lambda *_: None, 9),
        (reactions, "power", lambda base, _: base << 16, 9),
        (reactions.SlotControl, "restarted", lambda *_: None, 81),
        (streams.Stream, "below", lambda stream, bound: stream.bits() % bound, 2),
        (forests.Placement, "period", lambda *_: 0, 2),
        (announcing.Announcer, "urgency", lambda *_: 0, 14),
        (announcing.Announcer, "send_probes", lambda *_: None, 12),
        (marking.Sampler, "draw", lambda sampler: sampler.rule.sample, 36),
        (reactions.QcnControl, "recover", lambda *_: None, 45),
        (switches.Switch, "report", lambda *_: None, 51),
        (marking.PortState, "severity", lambda *_: 1, 42),
        (routes.FlowRoutes, "choose", lambda switch, key, port, default: default, 15),
        (routes.FlowRoutes, "longer_side", lambda switch: switch.right, 52),
    ],
)
def test_a_defect_of_any_part_shows(monkeypatch, part, name, broken, seed):
    scenario = drawing.variant(seed)
    assert compare.differences(scenario) == []
    monkeypatch.setattr(part, name, broken)
    assert compare.differences(scenario)


def test_control_packets_do_not_delay_data_that_had_credit_before():
    assert compare.differences(drawing.variant(343132681)) == []


def test_a_flow_whose_wait_has_ended_is_ready_when_any_answer_returns():
    assert compare.differences(drawing.variant(990001166)) == []


@pytest.mark.parametrize("first", [306, 468, 630])
def test_direct_networks_and_their_lanes(first):
    compared = compare.compare(drawing.many(first, 18), show=False)
    assert not compared.wrong
    assert not compared.refused


@pytest.mark.parametrize(
    ("part", "name", "broken", "seed"),
    [
        (direct.Grid, "stations", lambda _, near, far, __: direct.line(near, far), 3),
        (direct.Groups, "lanes_of", lambda groups, links, ends: [0] * len(links), 7),
        (direct, "drawn", lambda words: words[2], 16),
    ],
)
def test_a_defect_of_ways_shows(monkeypatch, part, name, broken, seed):
    scenario = drawing.on_direct_networks(drawing.drawn(seed))
    assert compare.differences(scenario) == []
    monkeypatch.setattr(part, name, broken)
    assert compare.differences(scenario)


def test_every_architecture_and_mechanism_is_drawn():
    """The scenarios of 300 seeds cover all switches, mechanisms, reactions and patterns."""
    found = [drawing.variant(seed) for seed in range(300)]
    parts = [scenario.get("congestion", {}) for scenario in found]
    switches = [scenario["switch"] for scenario in found]
    assert {switch.get("architecture") for switch in switches} == {None, "voq", "iq", "cioq"}
    assert any(switch.get("arbitration") == "fcfs" for switch in switches)
    assert {switch.get("forwarding") for switch in switches} == {None, "store-and-forward"}
    assert len({switch.get("queues") for switch in switches}) == 6
    heuristics = {scenario.get("adaptive_routing", {}).get("heuristic") for scenario in found}
    assert heuristics == {None, "flow-count", "bytes", "random"}
    mechanisms = {part.get("mechanism") for part in parts}
    assert {part.get("feedback") for part in parts} == {None, "binary", "quantized"}
    assert {part.get("notification") for part in parts} >= {"cnp", "ack-message", "ack-each", "backward"}
    assert mechanisms >= {"ib-cc", "fbicm", "ccfit", "hfdi", "ecocc", "renato", "pfister", "mvcm", "saa"}
    assert {part["marking"].get("kind") for part in parts if "marking" in part} >= {
        "ipm",
        "opm",
        "mvpm",
        "sampled",
    }
    kinds = {part["reaction"].get("kind") for part in parts if "reaction" in part}
    assert kinds >= {"cct", "static-window", "aimd", "fimd", "lipd", "mvcm", "qcn"}
    networks = {scenario["topology"]["kind"] for scenario in found}
    assert networks >= {"torus", "mesh", "hyperx", "dragonfly", "dragonfly-plus", "custom", "k-ary-n-tree"}
    patterns = {one["pattern"]["kind"] for scenario in found for one in scenario.get("traffic", [])}
    assert patterns == {"uniform", "hotspots", "shift", "permutation", "all-to-all", "forest"}


def test_the_list_of_checks_follows_from_the_scenarios():
    text = covered.markdown(seeds=3)
    row = next(line for line in text.split("\n") if line.startswith("| `congestion.reaction` |"))
    compared, others = row.strip("| ").split(" | ")[1:]
    assert "`cct` (" in compared
    # So few random scenarios do not have all reactions.
    assert "`pcc-rtt`" in others
    assert "| `flow_control` | `credits`" in text
    assert "`on-off` |" in text
    assert "- FIFO input queues saturate by head-of-line blocking." in text


def test_the_scenarios_reach_what_they_are_there_for():
    """The scenarios contain marks, notifications, throttling, waits for credit, and unequal links."""
    marked, throttled, full = 0, 0, 0
    for scenario in (TABLE[name] for name in TABLE if "CC" in name or "one packet" in name):
        net = reference.Network(reading.plan(scenario))
        samples = net.run()
        marked += net.fecn_marks > 10
        throttled += any(max(sample.ccti.values(), default=0) > 2 for sample in samples)
        full += any(
            min(channel.parts.values()) < net.space(net.plan.mtu)
            for switch in net.switches.values()
            for channel in switch.out.values()
        )
    assert marked >= 8
    assert throttled >= 6
    assert full >= 3


@pytest.mark.parametrize(
    ("part", "name", "broken"),
    [
        (reference.PortState, "marks", lambda *_, **__: False),
        (reference.TableControl, "answered", lambda *_: None),
        (reference.Limiter, "take", lambda _, start, size: start + size * 500),
        (reference.Channel, "span", lambda channel, size: int(size * channel.pace) + 1000),
    ],
)
def test_a_defect_of_either_model_shows(monkeypatch, part, name, broken):
    scenario = TABLE["dumbbell: CC"]
    assert compare.differences(scenario) == []
    monkeypatch.setattr(part, name, broken)
    assert compare.differences(scenario)


@pytest.mark.parametrize(
    ("part", "name", "broken"),
    [
        # Serves lanes in the order of their numbers.
        (
            reference.VoqSwitch,
            "decide",
            lambda switch: [any(switch.send_from(out, lane) for lane in switch.lanes) for out in switch.out],
        ),
        (reading, "_share", lambda text, block, lanes: quantities.size_bytes(text) // block * block),
        (
            reading,
            "_lanes",
            lambda lanes, _: reading.Lanes(lanes.get("count", 1), (0,) * 16, None, by_way=False, first=None),
        ),
    ],
)
def test_a_defect_of_virtual_lanes_shows(monkeypatch, part, name, broken):
    scenario = TABLE["2 lanes: dumbbell, CC, control apart"]
    monkeypatch.setattr(part, name, broken)
    assert compare.differences(scenario)


@pytest.mark.parametrize("name", ["dumbbell: CC, store-and-forward", "links of two rates, store-and-forward"])
def test_a_switch_that_does_not_wait_for_the_tail_shows(monkeypatch, name):
    read = reading._switch
    monkeypatch.setattr(reading, "_switch", lambda *given: replace(read(*given), stores=False))
    assert compare.differences(TABLE[name])


def test_control_packets_wait_for_their_lane(monkeypatch):
    """In one of the scenarios, control packets wait while data of another lane continues."""
    waited = set()
    send_data = reference.Host.send_data

    def noting(host, lacking):
        waited.update(lacking)
        return send_data(host, lacking)

    monkeypatch.setattr(reference.Host, "send_data", noting)
    reference.Network(reading.plan(TABLE["2 lanes: star, full lane"])).run()
    assert waited == {1}


def _first_control(host):
    """Return the control packets at the heads of their lanes, the longest waiting first."""
    waiting = [lane[0] for lane in host.control.values() if lane]
    return [packet for _, packet in sorted(waiting, key=lambda waits: waits[0])]


def _one_queue(host):
    """Never let a packet overtake one that has waited longer."""
    return [packet for packet in _first_control(host)[:1] if host.out.can_take(packet)]


def _lowest_lane(host):
    """Ignore which packet has waited longest."""
    able = [packet for packet in _first_control(host) if host.out.can_take(packet)]
    return sorted(able, key=lambda packet: packet.lane)


@pytest.mark.parametrize("order", [_one_queue, _lowest_lane])
def test_another_order_of_control_packets_shows(monkeypatch, order):
    def send(host, lacking):
        for packet in order(host):
            host.control[packet.lane].popleft()
            host.out.send(packet)
            return True
        return False

    monkeypatch.setattr(WakingHost, "send_oldest_control", send)
    assert compare.differences(TABLE["4 lanes: star, control passes a full lane"])


@pytest.mark.parametrize("law", list(laws.checks(quick=True)), ids=lambda law: law.name)
def test_laws(law):
    assert law.passed, f"{law.simulated} where the law has {law.law} +- {law.tolerance}"


def test_a_law_that_is_missed_fails():
    assert not check.Check("x", 1.0, 1.02, 0.01).passed
    assert check.sampled("x", 1.0, [1.0] * 8, 0.01).passed
    assert not check.sampled("x", 2.0, [1.0, 1.1, 0.9, 1.0, 1.05, 0.95], 0.0).passed


def test_two_models_that_differ_fail():
    one, other = [1.0, 1.01, 0.99, 1.0, 1.005, 0.995], [1.1, 1.11, 1.09, 1.1, 1.105, 1.095]
    assert check.alike("x", one, one[::-1], 0.0).passed
    assert not check.alike("x", one, other, 0.05).passed


def test_the_crossbar_with_packets_of_one_size_is_slotted(monkeypatch):
    """All inputs and outputs become free at the same times, as in Karol, Hluchyj and Morgan (1987)."""
    monkeypatch.setattr(crossbar, "SMALLEST", 1000)
    monkeypatch.setattr(crossbar, "LARGEST", 1000)
    monkeypatch.setattr(crossbar, "MEAN", 1000.0)
    for ports in (2, 8):
        assert crossbar.fifo_saturation(ports, 20_000_000, 1) == pytest.approx(laws.KAROL[ports], rel=0.01)
    assert crossbar.many_ports() == pytest.approx(2 - 2**0.5)


def test_a_crossbar_with_one_port_is_a_queue():
    """The mean time in the system follows Pollaczek and Khinchine, and a full system loses no packet."""
    load, variance = 0.5, (4096 - 64) ** 2 / 12
    law = crossbar.MEAN + load * (1 + variance / crossbar.MEAN**2) / (2 * (1 - load)) * crossbar.MEAN
    throughput, latency = crossbar.Voqs(1, load, 2**20, 1).run(1e6, 2e8)
    assert latency == pytest.approx(law, rel=0.02)
    assert throughput == pytest.approx(load, rel=0.02)
    assert crossbar.Voqs(1, None, 2**20, 1).run(1e6, 1e7)[0] == pytest.approx(1, abs=0.001)


def test_quantities_are_read_exactly():
    assert quantities.time_ps("1.5 us") == 1_500_000
    assert quantities.size_bytes("2 KiB") == 2048
    assert quantities.rate_ps_per_byte("13.5 Gbit/s") == Fraction(8000, 1) / Fraction(27, 2)
    assert quantities.rate_ps_per_byte("2 GB/s") == 500
    with pytest.raises(ValueError, match="not whole"):
        quantities.time_ps("0.5 ps")


def test_the_reference_refuses_what_it_does_not_model():
    scenario = copy.deepcopy(TABLE["star: a flow"])
    for key, value in (
        ("lanes", {"weights": [1, 2]}),
        ("flow_control", {"kind": "on-off"}),
        ("adaptive_routing", {"heuristic": "bytes"}),
    ):
        with pytest.raises(quantities.NotCovered):
            reading.plan({**scenario, key: value})


def test_the_cost_of_a_sample_does_not_grow_with_the_samples_before_it():
    """With special queues, an interval has the most counts."""

    class Unread(list):
        def __iter__(self):
            raise AssertionError("a sample reads all samples before it")

    net = reference.Network(reading.plan({**TABLE["star: a flow"], "congestion": {"mechanism": "fbicm"}}))
    net.samples = Unread()
    assert len(net.run()) > 1
