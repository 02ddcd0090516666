"""Compares both models with link errors and rules of credits, and checks that this detects errors."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT))

from verify import compare, link_drawing, reading
from verify.reference import Network, hosts, links, retrying, waking

STAR = {
    "duration": "300 us",
    "measure": {"interval": "100 us"},
    "topology": {"kind": "star", "hosts": 4, "link_rate": "16 Gbit/s", "link_delay": "200 ns"},
    "flow": [
        {"name": f"F{at}", "from": f"H{at}", "to": "H1" if at < 4 else "H2", "sl": at % 2} for at in (2, 3, 4)
    ],
}
#: Frames are bad often, and the replay buffer is small.
RETRY = {"link": {"error_rate_ppb": 100_000_000, "retry": {"frames": 5}}}
LANES = {"lanes": {"count": 2}, "switch": {"buffer": "32 KiB"}}
SHARED = {**LANES, "flow_control": {"kind": "credits", "shared": {"alpha_shift": 1}}}
SPACED = {"flow_control": {"kind": "credits", "return_spacing": "9 us"}, "switch": {"buffer": "8 KiB"}}


def test_scenarios_drawn_at_random() -> None:
    compared = compare.compare(link_drawing.many(1, 60), show=False)
    assert not compared.wrong
    assert len(compared.refused) <= 6, compared.refused


def test_an_output_that_waits_for_credit_and_replay_room_is_woken_by_both() -> None:
    """A credit that returns at the instant of a wake-up for replay room must not cancel the wake-up."""
    assert compare.differences(link_drawing.variant(660020)) == []


def test_reactions_use_the_service_level_of_the_route(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timers of service levels have different phases, which decide when an index returns to zero."""
    scenario = link_drawing.variant(316)
    assert scenario["lanes"]["assignment"] == "routing"
    assert compare.differences(scenario) == []
    monkeypatch.setattr(hosts.Host, "level", lambda self, destination, level: level)
    assert compare.differences(scenario)


def test_a_host_checks_when_its_link_is_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host then generates the messages that are due, although the replay buffer is still full."""
    scenario = link_drawing.variant(433)
    assert compare.differences(scenario) == []
    settle = waking.WakingHost.settle

    def waits(self: waking.WakingHost) -> None:
        if self.out.free_at > self.net.now or not self.out.must_wait((0, 0), 1):
            settle(self)

    monkeypatch.setattr(waking.WakingHost, "settle", waits)
    assert compare.differences(scenario)


def test_scenarios_cover_every_rule() -> None:
    scenarios = [link_drawing.variant(seed) for seed in range(1, 200)]
    errors = {one["link"]["error_rate_ppb"] for one in scenarios if "link" in one}
    assert {0, 500_000_000} <= errors
    credits = [one["flow_control"] for one in scenarios if "flow_control" in one]
    assert any("return_spacing" in one for one in credits)
    rules = [set(one["shared"]) for one in credits if "shared" in one]
    assert all(any(key in rule for rule in rules) for key in ("reserve", "limit", "alpha_shift"))


@pytest.mark.parametrize(
    ("part", "name", "broken", "settings"),
    [
        (retrying.Retry, "is_open", True, RETRY),
        (retrying.Retry, "refuse", lambda self: None, RETRY),
        (
            retrying.Retry,
            "has_error",
            lambda self, stream: stream is self.errors and stream.chance(1, 10),
            RETRY,
        ),
        (retrying, "BILLION", 2_000_000_000, RETRY),
        (links.Channel, "shares", lambda *_: True, SHARED),
        (links.Channel, "must_wait", lambda self, where, space: self.parts[where] < space, SHARED),
        (links.Stream, "below", lambda *_: 0, SPACED),
    ],
)
def test_a_broken_reference_is_noticed(
    monkeypatch: pytest.MonkeyPatch, part: Any, name: str, broken: Any, settings: dict[str, Any]
) -> None:
    scenario = {**STAR, **settings}
    assert compare.differences(scenario) == []
    monkeypatch.setattr(part, name, broken)
    assert compare.differences(scenario)


def test_the_flow_that_has_sent_the_least_is_first_also_after_it_was_held() -> None:
    assert compare.differences(link_drawing.variant(995000017)) == []


@pytest.mark.parametrize("seed", [990002196, 990002682])
def test_room_in_the_replay_buffer_wakes_no_sender_that_lacks_credit(seed: int) -> None:
    assert compare.differences(link_drawing.variant(seed)) == []


def test_a_link_fails_after_too_many_replays() -> None:
    link = {"error_rate_ppb": 500_000_000, "retry": {"count": 1}}
    with pytest.raises(retrying.LinkFailedError):
        Network(reading.plan({**STAR, "link": link})).run()
