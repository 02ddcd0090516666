"""Marking and reactions of RDMA over Ethernet, read independently of the simulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from verify.quantities import nothing_left, rate_ps_per_byte, size_bytes, time_ps

#: DCQCN's intervals in picoseconds by set: of updates of alpha, of decreases, and of increases.
INTERVALS = {"tuned": (10**6, 4 * 10**6, 300 * 10**6), "paper": (50 * 10**6, 50 * 10**6, 55 * 10**6)}


@dataclass(frozen=True)
class RedMarking:
    """Marks by the bytes behind a departing packet.

    `least` and `most` are thresholds in bytes, and `percent` is the share that is marked at the upper one.
    """

    least: int
    most: int
    percent: int
    is_regular: bool
    #: Whether outputs to hosts mark.
    is_at_hosts: bool = True
    #: The settings of outputs by rate, in picoseconds per byte. If empty, the settings above apply.
    by_rate: Mapping[Fraction, RedMarking] = field(default_factory=dict)

    def of(self, ps_per_byte: Fraction, *, faces_host: bool) -> RedMarking:
        """Return the settings of an output. An output without marks has thresholds that no fill reaches."""
        if faces_host and not self.is_at_hosts:
            return replace(self, least=2**62, most=2**62, by_rate={})
        return self.by_rate[ps_per_byte] if self.by_rate else self


@dataclass(frozen=True)
class DcqcnReaction:
    """DCQCN. Rates are in bit/s. If `None`, they are a share of the link rate.

    `divisor` is 1 / g, and `fast` the number of increases of fast recovery.
    """

    alpha_ps: int
    decrease_ps: int
    increase_ps: int
    increase_bytes: int | None
    divisor: int
    fast: int
    additive: int | None
    hyper: int | None
    least: int | None
    is_clamped: bool
    after_losses: bool
    first_percent: int
    is_alpha_first: bool


def red(given: dict[str, Any]) -> RedMarking:
    """Read the marking rule `red`, with the thresholds of all outputs or of outputs by rate."""
    of_rates = given.pop("thresholds", [])
    common = {key: given[key] for key in ("percent", "pattern") if key in given}
    by_rate = {
        rate_ps_per_byte(one["rate"]): red(common | {key: one[key] for key in one if key != "rate"})
        for one in of_rates
    }
    found = RedMarking(
        least=size_bytes(given.pop("min", "5000 B")),
        most=size_bytes(given.pop("max", "200000 B")),
        percent=given.pop("percent", 1),
        is_regular=given.pop("pattern", "random") == "regular",
        is_at_hosts=given.pop("hosts", True),
        by_rate=by_rate,
    )
    nothing_left("congestion.marking", given)
    return found


def bits(given: dict[str, Any], key: str) -> int | None:
    """Read a rate in bit/s; `None` if it is not given."""
    return int(Fraction(8 * 10**12) / rate_ps_per_byte(given.pop(key))) if key in given else None


def dcqcn(given: dict[str, Any]) -> DcqcnReaction:
    """Read DCQCN's reaction point."""
    usual = INTERVALS[given.pop("set", "tuned")]
    keys = ("alpha_interval", "decrease_interval", "increase_interval")
    alpha, decrease, increase = (
        time_ps(given.pop(key)) if key in given else ps for key, ps in zip(keys, usual, strict=True)
    )
    found = DcqcnReaction(
        alpha_ps=alpha,
        decrease_ps=decrease,
        increase_ps=increase,
        increase_bytes=size_bytes(given.pop("increase_bytes")) if "increase_bytes" in given else None,
        divisor=given.pop("gain_divisor", 256),
        fast=given.pop("fast_recovery", 1),
        additive=bits(given, "additive_increase"),
        hyper=bits(given, "hyper_increase"),
        least=bits(given, "min_rate"),
        is_clamped=given.pop("clamp_target", False),
        after_losses=given.pop("after_losses", False),
        first_percent=given.pop("first_rate_percent", 100),
        is_alpha_first=given.pop("order", "alpha-first") == "alpha-first",
    )
    nothing_left("congestion.reaction", given)
    return found


@dataclass(frozen=True)
class TelemetryMarking:
    """Marking in which switches write telemetry into data packets."""


@dataclass(frozen=True)
class Trip:
    """The longest route: its switches, its round trip without load, and whether switches trim packets."""

    hops: int
    trip_ps: int
    trims: bool


@dataclass(frozen=True)
class DctcpReaction:
    """DCTCP. Windows are in packets.

    `divisor` is 1 / g, `is_slow` whether a flow begins with slow start, and `full` the bytes of a packet.
    """

    divisor: int
    initial: int
    least: int
    is_slow: bool
    full: int


@dataclass(frozen=True)
class TimelyReaction:
    """TIMELY. `weight` and `beta` are in thousandths, and rates in bit/s or `None` for a default."""

    low_ps: int
    high_ps: int
    least_ps: int
    weight: int
    beta: int
    stages: int
    additive: int | None
    hyper: int | None
    slowest: int | None


@dataclass(frozen=True)
class SwiftReaction:
    """Swift. The parts of the target are in ps, and the ends of flow scaling in percent of a packet."""

    base_ps: int
    hop_ps: int
    range_ps: int
    scaling_from: int
    scaling_to: int
    hops: int
    increase: int
    beta: int
    most_less: int
    initial: int


@dataclass(frozen=True)
class HpccReaction:
    """HPCC. `percent` is the target utilization, and rates are in bit/s or `None` for a default."""

    percent: int
    most_stages: int
    trip_ps: int
    additive: int | None
    least: int | None


def dctcp(given: dict[str, Any], full: int) -> DctcpReaction:
    """Read DCTCP."""
    least = given.pop("min_packets", 1)
    found = DctcpReaction(
        divisor=given.pop("gain_divisor", 16),
        initial=max(given.pop("initial_packets", 10), least),
        least=least,
        is_slow=given.pop("slow_start", True),
        full=full,
    )
    nothing_left("congestion.reaction", given)
    return found


def timely(given: dict[str, Any], trip: Trip) -> TimelyReaction:
    """Read TIMELY."""
    least = time_ps(given.pop("min_delay")) if "min_delay" in given else trip.trip_ps
    found = TimelyReaction(
        low_ps=time_ps(given.pop("low")) if "low" in given else least * 5 // 2,
        high_ps=time_ps(given.pop("high")) if "high" in given else least * 25,
        least_ps=least,
        weight=given.pop("weight_permille", 875),
        beta=given.pop("beta_permille", 800),
        stages=given.pop("stages", 5),
        additive=bits(given, "additive_increase"),
        hyper=bits(given, "hyper_increase"),
        slowest=bits(given, "min_rate"),
    )
    nothing_left("congestion.reaction", given)
    return found


def swift(given: dict[str, Any], trip: Trip) -> SwiftReaction:
    """Read Swift."""
    base = time_ps(given.pop("base_target")) if "base_target" in given else trip.trip_ps
    found = SwiftReaction(
        base_ps=base,
        hop_ps=time_ps(given.pop("per_hop")) if "per_hop" in given else base * 100 // 655,
        range_ps=time_ps(given.pop("flow_scaling")) if "flow_scaling" in given else 5 * base,
        scaling_from=given.pop("scaling_from_percent", 10),
        scaling_to=100 * given.pop("scaling_to_packets", 100),
        hops=trip.hops,
        increase=given.pop("increase_packets", 1),
        beta=given.pop("beta_percent", 80),
        most_less=given.pop("max_decrease_percent", 50),
        initial=given.pop("initial_packets", 10),
    )
    nothing_left("congestion.reaction", given)
    return found


def hpcc(given: dict[str, Any], trip: Trip) -> HpccReaction:
    """Read HPCC."""
    found = HpccReaction(
        percent=given.pop("utilization_percent", 95),
        most_stages=given.pop("max_stage", 5),
        trip_ps=time_ps(given.pop("round_trip")) if "round_trip" in given else trip.trip_ps,
        additive=bits(given, "additive_increase"),
        least=bits(given, "min_rate"),
    )
    nothing_left("congestion.reaction", given)
    return found


@dataclass(frozen=True)
class PccRttReaction:
    """PCC by the round-trip time. `decrease` is in thousandths, and rates are in bit/s.

    `forget` is the number of samples after which the least delay is discarded.
    """

    decrease: int
    allowed_ps: int
    longest_ps: int
    forget: int
    additive: int | None
    slowest: int | None


@dataclass(frozen=True)
class PccTelemetryReaction:
    """PCC by telemetry. `queue` is in bytes, `decrease` and `busy` are in thousandths, and rates in bit/s.

    `is_last` is whether the last output counts, and not the one with the longest queue.
    """

    is_last: bool
    queue: int
    decrease: int
    busy: int
    additive: int | None
    hyper: int | None
    slowest: int | None


def pcc_rtt(given: dict[str, Any]) -> PccRttReaction:
    """Read PCC by the round-trip time."""
    found = PccRttReaction(
        decrease=given.pop("decrease_permille", 100),
        allowed_ps=time_ps(given.pop("allowed_delay", "13 us")),
        longest_ps=time_ps(given.pop("max_delay", "150 us")),
        forget=given.pop("forget_samples", 256),
        additive=bits(given, "additive_increase"),
        slowest=bits(given, "min_rate"),
    )
    nothing_left("congestion.reaction", given)
    return found


def pcc_telemetry(given: dict[str, Any]) -> PccTelemetryReaction:
    """Read PCC by telemetry."""
    found = PccTelemetryReaction(
        is_last=given.pop("hop", "last") == "last",
        queue=size_bytes(given.pop("queue", "200000 B")),
        decrease=given.pop("decrease_permille", 100),
        busy=given.pop("busy_permille", 800),
        additive=bits(given, "additive_increase"),
        hyper=bits(given, "hyper_increase"),
        slowest=bits(given, "min_rate"),
    )
    nothing_left("congestion.reaction", given)
    return found


@dataclass(frozen=True)
class NsccReaction:
    """NSCC. `target_ps` is the target of the queueing delay.

    `gate` is that of quick adapt, or `None` if quick adapt is off.
    """

    trip_ps: int
    target_ps: int
    gate: int | None
    full: int
    payload: int
    #: Bytes of the first window, if it is not the largest.
    first: int | None
    #: Whether the rules are those of the text of the specification, and whether delays start quick adapt.
    is_text: bool
    adapts_to_delay: bool
    #: Whether all flows from a host to another one, over all ports, have one window.
    is_per_destination: bool


@dataclass(frozen=True)
class OversubscribedControl:
    """Control of grants in oversubscribed networks. Fractions are shares from 0 to 1."""

    interval_ps: int
    target: Fraction
    decrease: Fraction
    increase: Fraction
    least: Fraction


@dataclass(frozen=True)
class RcccReaction:
    """RCCC, with a window if `nscc` is given. Credit is in bytes; `None` is the default."""

    trip_ps: int
    limit: int | None
    speculative: int | None
    percent: int
    grant_packets: int
    is_idle_granted: bool
    is_divided: bool
    oversubscribed: OversubscribedControl | None
    nscc: NsccReaction | None
    full: int
    payload: int


PccReaction = PccRttReaction | PccTelemetryReaction
#: Reactions that need an acknowledgement of every packet, except RCCC.
AnsweredReaction = DctcpReaction | TimelyReaction | SwiftReaction | HpccReaction | NsccReaction | PccReaction
RdmaReaction = DcqcnReaction | AnsweredReaction | RcccReaction


def nscc(given: dict[str, Any], trip: Trip, full: int, payload: int) -> NsccReaction:
    """Read NSCC."""
    trip_ps = time_ps(given.pop("round_trip")) if "round_trip" in given else trip.trip_ps
    usual = max(trip_ps // 4 * 3, 1) if trip.trims else trip_ps
    target = time_ps(given.pop("target")) if "target" in given else usual
    gate = given.pop("quick_adapt_gate", 3)
    gate = gate if given.pop("quick_adapt", True) else None
    first = size_bytes(given.pop("first_window")) if "first_window" in given else None
    is_text = given.pop("rule", "htsim") == "spec"
    found = NsccReaction(
        trip_ps,
        target,
        gate,
        full,
        payload,
        first,
        is_text,
        adapts_to_delay=not (is_text and trip.trims),
        is_per_destination=given.pop("level", "qp") == "destination",
    )
    nothing_left("congestion.reaction", given)
    return found


def oversubscribed(given: dict[str, Any], trip_ps: int) -> OversubscribedControl:
    """Read the control of grants in oversubscribed networks."""
    interval = time_ps(given.pop("interval")) if "interval" in given else trip_ps // 2 * 3
    found = OversubscribedControl(
        interval_ps=min(max(interval, 10**5), 10**12),
        target=Fraction(given.pop("target_percent", 30), 100),
        decrease=Fraction(given.pop("decrease_percent", 50), 100),
        increase=Fraction(given.pop("increase_permille", 10), 1000),
        least=Fraction(given.pop("min_rate_permille", 10), 1000),
    )
    nothing_left("congestion.reaction.oversubscribed", given)
    return found


def rccc(given: dict[str, Any], trip: Trip, full: int, payload: int) -> RcccReaction:
    """Read RCCC."""
    trip_ps = time_ps(given.pop("round_trip")) if "round_trip" in given else trip.trip_ps
    control = given.pop("oversubscribed", None)
    found = RcccReaction(
        trip_ps=trip_ps,
        limit=size_bytes(given.pop("limit")) if "limit" in given else None,
        speculative=size_bytes(given.pop("speculative")) if "speculative" in given else None,
        percent=given.pop("grant_percent", 99),
        grant_packets=given.pop("grant_packets", 4),
        is_idle_granted=given.pop("idle_credit", True),
        is_divided=given.pop("divide_requests", False),
        oversubscribed=None if control is None else oversubscribed(dict(control), trip_ps),
        nscc=nscc(dict(given.pop("nscc")), trip, full, payload) if "nscc" in given else None,
        full=full,
        payload=payload,
    )
    nothing_left("congestion.reaction", given)
    return found


KINDS = ("dcqcn", "dctcp", "timely", "swift", "hpcc", "nscc", "rccc", "pcc-rtt", "pcc-telemetry")


def reaction(kind: str, given: dict[str, Any], trip: Trip, packet: tuple[int, int]) -> RdmaReaction:
    """Read a reaction of RDMA over Ethernet; `packet` has the bytes of a full packet and of its payload."""
    alone: dict[str, Callable[[dict[str, Any]], RdmaReaction]]
    by_trip: dict[str, Callable[[dict[str, Any], Trip], RdmaReaction]]
    alone = {"dcqcn": dcqcn, "pcc-rtt": pcc_rtt, "pcc-telemetry": pcc_telemetry}
    by_trip = {"timely": timely, "swift": swift, "hpcc": hpcc}
    if kind in alone:
        return alone[kind](given)
    if kind in by_trip:
        return by_trip[kind](given, trip)
    if kind == "dctcp":
        return dctcp(given, packet[0])
    return nscc(given, trip, *packet) if kind == "nscc" else rccc(given, trip, *packet)
