"""Compares both models with pause frames and shared buffers, and tests that the comparison detects errors."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import silvan
from conftest import ROOT

sys.path.insert(0, str(ROOT))

from verify import compare, pause_drawing, pauses, reading
from verify.quantities import NotCovered
from verify.reference import Network, links, pausing

#: Links of two rates, so that thresholds of shared memory can differ.
STAR = {
    "kind": "custom",
    "hosts": ["H1", "H2", "H3", "H4"],
    "switches": [{"name": "S", "ports": 4}],
    "links": [
        {"from": f"H{at}", "to": f"S:{at}", "rate": "8 Gbit/s" if at < 4 else "20 Gbit/s", "delay": "200 ns"}
        for at in (1, 2, 3, 4)
    ],
}
#: Sources, destinations, service levels, and bytes of messages.
FLOWS = [
    ("H2", "H1", 0, 1700),
    ("H3", "H1", 1, 990),
    ("H4", "H1", 0, 2300),
    ("H4", "H2", 1, 777),
    ("H1", "H4", 0, 1010),
]
BASE: dict[str, Any] = {
    "duration": "60 us",
    "measure": {"interval": "20 us"},
    "topology": STAR,
    "packet": {"mtu": "1000 B", "header": "30 B", "credit_block": "1 B"},
    "lanes": {"count": 2},
    "switch": {"buffer": "64 KiB"},
    "host": {"drain_rate": "7 Gbit/s"},
    "flow": [
        {"name": f"F{number}", "from": near, "to": to, "sl": level, "message": f"{message} B"}
        for number, (near, to, level, message) in enumerate(FLOWS)
    ],
}
OWN = {"kind": "pfc", "xoff": "4000 B", "xon": "1500 B", "response_time": "500 ns"}
SHARED = {
    "kind": "pfc",
    "response_time": "500 ns",
    "shared": {"memory": "100000 B", "reserve": "1500 B", "alpha_shift": 1, "resume_offset": "700 B"},
}


def scenario(flow_control: dict[str, Any]) -> dict[str, Any]:
    return {**BASE, "flow_control": flow_control}


def changed(flow_control: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """Return settings with other values; those of shared memory have names with a prefix."""
    shared = {key.removeprefix("shared_"): value for key, value in keys.items() if key.startswith("shared_")}
    own = {key: value for key, value in keys.items() if not key.startswith("shared_")}
    found = {**flow_control, **own}
    return {**found, "shared": {**found["shared"], **shared}} if shared else found


def test_scenarios_drawn_at_random() -> None:
    compared = compare.compare(pause_drawing.many(1, 30), show=False)
    assert not compared.wrong
    assert len(compared.refused) <= 2, compared.refused


def test_most_scenarios_have_pauses() -> None:
    """The pauses concern switches and hosts, own and shared memory, one lane and several."""
    frames, stopped, counts = 0, 0, {"own": 0, "shared": 0, "lanes": 0, "hosts": 0}
    scenarios = [one for _, one in pause_drawing.many(1, 100)]
    for one in scenarios:
        try:
            result = silvan.run(silvan.Scenario.from_toml(compare.toml(one, top=True)))
        except silvan.ModelError:
            stopped += 1
            continue
        table = result.numpy("pauses")
        if len(table["vl"]) == 0:
            continue
        frames += 1
        counts["shared" if "shared" in one["flow_control"] else "own"] += 1
        counts["lanes"] += len(set(table["vl"].tolist())) > 1
        counts["hosts"] += any(":" not in link.partition("->")[2] for link in table["link"].tolist())
    assert frames > 55
    assert stopped >= 3
    assert min(counts.values()) >= 10, counts


def test_scenarios_cover_every_key() -> None:
    # Lossy lanes are drawn with links that change, because they need loss recovery.
    rules = [one["flow_control"] for _, one in pause_drawing.many(1, 200)]
    shared = [rule["shared"] for rule in rules if "shared" in rule]
    for name, given in ((pauses.Pfc, rules), (pauses.SharedMemory, shared)):
        others = {"response_ps": "response_time", "watchdog_ps": "watchdog", "stops": "watchdog_action"}
        others |= {"is_by_rate": "alpha_by_rate"}
        fields = set(name.__dataclass_fields__) - {"packets", "buffers", "lossy", "slowest"}
        keys = {others.get(key, key) for key in fields}
        assert keys == {key for rule in given for key in rule} - {"kind"}
    assert {"0 ps", "20 us"} <= {rule.get("response_time") for rule in rules}
    assert {-7, 0, 10} <= {rule.get("alpha_shift") for rule in shared}


@pytest.mark.parametrize(
    ("flow_control", "keys"),
    [
        (OWN, {"response_time": "499999 ps"}),
        (OWN, {"xoff": "3000 B"}),
        (OWN, {"xon": "700 B"}),
        (OWN, {"frame": "85 B"}),
        (SHARED, {"response_time": "500001 ps"}),
        (SHARED, {"frame": "83 B"}),
        (SHARED, {"shared_memory": "99000 B"}),
        (SHARED, {"shared_alpha_shift": 2}),
        (SHARED, {"shared_alpha_by_rate": True}),
        (SHARED, {"shared_reserve": "1400 B"}),
        (SHARED, {"shared_resume_offset": "1200 B"}),
        (SHARED, {"shared_headroom_pool": "20000 B"}),
    ],
)
def test_another_setting_in_one_model_is_noticed(
    monkeypatch: pytest.MonkeyPatch, flow_control: dict[str, Any], keys: dict[str, Any]
) -> None:
    assert compare.differences(scenario(flow_control)) == []
    other = scenario(changed(flow_control, **keys))
    monkeypatch.setattr(compare, "plan", lambda _: reading.plan(other))
    assert compare.differences(scenario(flow_control))


def occupy_for_packets(channel: links.Channel, size: int) -> None:
    """Occupy a link for packets, but not for pause frames, which have 84 bytes."""
    duration = 0 if size == 84 else channel.span(size)
    channel.free_at = channel.net.now + duration
    channel.bytes += size
    channel.net.at(channel.free_at)


@pytest.mark.parametrize(
    ("part", "name", "broken", "flow_control"),
    [
        (pausing.OwnBuffer, "must_pause", lambda self: self.fill > self.rule.xon, OWN),
        (pausing.OwnBuffer, "may_resume", lambda self: self.fill == 0, OWN),
        (pausing.SharedBuffer, "must_pause", lambda self: self.over > 0, SHARED),
        (pausing.SharedBuffer, "may_resume", lambda self: self.over == 0, SHARED),
        (pausing.SharedBuffer, "threshold", 10_000, SHARED),
        (pausing.SwitchMemory, "free", property(lambda self: self.size), SHARED),
        (pausing.Pausing, "is_paused", lambda *_: False, {**OWN, "headroom": "25 KB"}),
        (pausing.Pausing, "is_paused", lambda self, _: any(one.since for one in self.lanes), OWN),
        (links.Channel, "occupy", occupy_for_packets, OWN),
    ],
)
def test_a_broken_reference_is_noticed(
    monkeypatch: pytest.MonkeyPatch, part: Any, name: str, broken: Any, flow_control: dict[str, Any]
) -> None:
    assert compare.differences(scenario(flow_control)) == []
    monkeypatch.setattr(part, name, broken)
    assert compare.differences(scenario(flow_control))


def lacking(flow_control: dict[str, Any]) -> pausing.Lack | None:
    """Return the lack of space of the first packet that does not fit, on which both models must agree."""
    one = scenario(flow_control)
    assert compare.differences(one) == []
    try:
        Network(reading.plan(one)).run()
    except pausing.OverflowedError as error:
        return error.overflow.lack
    return None


@pytest.mark.parametrize("flow_control", [OWN, changed(SHARED, shared_headroom_pool="20 KB")])
def test_the_headroom_is_exact_in_both_models(flow_control: dict[str, Any]) -> None:
    """A packet that lacks one byte is an error in both."""
    least, lack = 0, lacking({**flow_control, "headroom": "0 B"})
    while lack:
        least += lack.missing
        lack = lacking({**flow_control, "headroom": f"{least} B"})
    assert least > 1_000
    lack = lacking({**flow_control, "headroom": f"{least - 1} B"})
    assert lack == pausing.Lack(missing=1, headroom=least - 1, is_pool=False)
    assert lacking(flow_control) is None


def test_the_pool_of_headroom_is_exhausted_at_the_same_packet() -> None:
    lack = lacking(changed(SHARED, shared_headroom_pool="500 B"))
    assert lack
    assert lack.is_pool


def test_the_watchdog_warns_and_stops_in_both_models() -> None:
    for limit in ("1 us", "2345678 ps"):
        assert compare.differences(scenario({**OWN, "watchdog": limit})) == []
    one = scenario({**OWN, "watchdog": "1 us", "watchdog_action": "stop"})
    assert compare.differences(one) == []
    with pytest.raises(pausing.PausedTooLongError):
        Network(reading.plan(one)).run()


def test_divided_memory_is_refused() -> None:
    with pytest.raises(NotCovered, match="divided"):
        reading.plan({**scenario(OWN), "switch": {"queues": "per-output", "memory": "divided"}})


def test_thresholds_by_rate_fit_into_drawn_buffers() -> None:
    """Buffers are drawn after the thresholds of marks, which must not exceed them."""
    drawn = pause_drawing.variant(20052)
    uppers = [
        int(one["upper"].split()[0]) for one in drawn["congestion"]["marking"]["thresholds"] if "upper" in one
    ]
    assert max(uppers) > 4_458, "the case has a threshold above the memory that pause frames alone would need"
    silvan.Scenario.from_toml(compare.toml(drawn, top=True))
