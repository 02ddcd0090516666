"""The components of congestion management, read from a scenario independently of the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil
from typing import Any

from verify import rdma
from verify.quantities import NotCovered, nothing_left, rate_ps_per_byte, size_bytes, time_ps
from verify.rdma import RdmaReaction, RedMarking, TelemetryMarking
from verify.wiring import Link, Wiring

#: The components that each mechanism presets. Numbers of thresholds are full packets.
FBICM = {"kind": "special-queues", "detection": 4, "stop": 10, "go": 4, "at_root": True}
HFDI = {"kind": "special-queues", "detection": 6, "stop": 6, "go": 4, "at_root": True}
CNP, ACK_EACH = {"notification": "cnp"}, {"notification": "ack-each"}
PRESETS: dict[str, dict[str, Any]] = {
    "none": {},
    "ib-cc": {**CNP, "marking": {"kind": "fecn"}, "reaction": {"kind": "cct"}},
    "fbicm": {**CNP, "isolation": FBICM},
    "ccfit": {
        **CNP,
        "marking": {"kind": "fecn", "fill": "each", "upper": 4, "lower": 2, "percent": 85},
        "isolation": FBICM,
        "reaction": {"kind": "cct", "ccti_timer": 8},
    },
    "hfdi": {**CNP, "isolation": HFDI},
    "ecocc": {
        **CNP,
        "marking": {"kind": "fecn", "fill": "each", "upper": 6, "lower": 4},
        "isolation": {**HFDI, "at_root": False},
        "reaction": {"kind": "cct"},
    },
    "renato": {**ACK_EACH, "marking": {"kind": "ipm"}, "reaction": {"kind": "lipd", "window": 1}},
    "pfister": {
        **ACK_EACH,
        "marking": {"kind": "opm"},
        "reaction": {
            "kind": "cct",
            "ccti_timer": 1,
            "table": {"kind": "linear", "packets": 1, "entries": 128},
        },
    },
    "saa": {**CNP, "reaction": {"kind": "explicit-rate"}},
    "qcn": {
        "notification": "backward",
        "feedback": "quantized",
        "marking": {"kind": "sampled"},
        "reaction": {"kind": "qcn"},
    },
    "mvcm": {**ACK_EACH, "marking": {"kind": "mvpm"}, "reaction": {"kind": "mvcm"}},
}
QUADRATIC = {"kind": "quadratic", "divisor": 106, "scale": 1, "entries": 128}
TIMER_UNIT_PS = 1_024_000


@dataclass(frozen=True)
class RoundTrip:
    """The longest route between hosts that communicate.

    `radix` is the largest number of hosts at a switch, `trip_ps` the round trip without load, and `data_ps`
    the transmission time of a full packet.
    """

    hops: int
    stages: int
    radix: int
    trip_ps: int
    data_ps: int


@dataclass(frozen=True)
class Marking:
    """The congestion manager of a switch, with thresholds in bytes.

    With a `share` of (m, n), m of n eligible packets are marked, at random or in a regular pattern.
    """

    upper: int
    lower: int
    fill: str
    share: tuple[int, int]
    is_random: bool
    smallest: int
    victim_mask: str
    is_off: bool
    #: The settings of single ports or switches, by name.
    ports: Mapping[str, Marking] = field(default_factory=dict)
    #: The settings of outputs by rate (picoseconds per byte). Empty if all outputs have the same.
    by_rate: Mapping[Fraction, Marking] = field(default_factory=dict)

    def of(self, switch: str, port: int, ps_per_byte: Fraction) -> Marking:
        """Return the setting of a port: its own, that of its switch, or that of all outputs of its rate."""
        if self.by_rate:
            return self.by_rate[ps_per_byte].of(switch, port, ps_per_byte)
        return self.ports.get(f"{switch}:{port}") or self.ports.get(switch) or self


@dataclass(frozen=True)
class SampledMarking:
    """Marking that samples packets on arrival.

    `sample` is the number of bytes between samples, with a random deviation of up to `jitter_percent`.
    """

    set_point: int
    weight: int
    sample: int
    jitter_percent: int


@dataclass(frozen=True)
class BufferMarking:
    """Marking by the fill of buffers: `ipm`, `opm` or `mvpm`. `input` and `output` are in bytes."""

    kind: str
    input: int
    output: int


@dataclass(frozen=True)
class Isolation:
    """Special queues.

    A CAM line has at most `destinations` entries. Thresholds are in bytes, and `longest_wait` is in ps.
    """

    queues: int
    destinations: int
    detection: int
    stop: int
    go: int
    at_root: bool
    message: int
    arbitration: str
    longest_wait: int


@dataclass(frozen=True)
class Reaction:
    """The congestion control table: the delay between full packets by index, in ps, and limits of the index.

    Each flow has an index, or all flows of a service level share one. The delays are given for each rate of
    hosts' links. An index decreases by one per period.
    """

    increase: int
    quantized_increase: int
    limit: int
    lowest: int
    period_ps: int
    delays_ps: Mapping[Fraction, tuple[int, ...]]
    is_per_level: bool
    #: A host logs an increase of an index from below this value to it or beyond. 0: no increase is logged.
    trigger: int
    #: Whether a BECN restarts the timer of its index. Otherwise, the timer is cyclic with a random phase.
    is_restarted: bool


@dataclass(frozen=True)
class WindowReaction:
    """Reactions that count acknowledgements: `static-window`, `aimd`, `fimd`, `lipd` or `mvcm`.

    `step_ps` is the unit of LIPD's delay or MVCM's slot, and `limit` the largest number of such units.
    `factor` is the m of AIMD and FIMD, or the factor of MVCM's slots. `slowest` is the divisor of the lowest
    rate.
    """

    kind: str
    window: int
    factor: int = 0
    slowest: int = 0
    step_ps: int = 0
    limit: int | None = None
    hears_warm: bool = True
    is_per_level: bool = False


@dataclass(frozen=True)
class QcnReaction:
    """The reaction of QCN. Rates are in bit/s.

    `cycles` is the number of recovery cycles, and `binary_severity` is assumed for marks without a severity.
    """

    min_rate: int
    active: int
    hyper: int
    cycle_bytes: int
    cycle_ps: int
    cycles: int
    binary_severity: int


@dataclass(frozen=True)
class ExplicitRates:
    """Rates that links assign, with a shaped virtual clock (`is_clocked`) or periodic selection."""

    is_clocked: bool
    #: Time to the first probe packet; `None` if data packets carry the weights.
    probe_ps: int | None
    #: Whether links keep the weights of flows that have ended.
    is_retained: bool


@dataclass(frozen=True)
class Sizes:
    """The quantities to which thresholds and delays refer, in bytes unless the name states ps."""

    full: int
    payload: int
    control: int
    block: int
    input_lane: int
    output_lane: int
    latency_ps: int
    #: Whether switches receive a whole packet before they forward it.
    stores: bool
    #: Whether switches trim packets. The lane of an input is then the limit of a queue.
    trims: bool = False


#: The reaction of a host, or its explicit rates.
Own = tuple["Reaction | WindowReaction | QcnReaction | RdmaReaction | None", "ExplicitRates | None"]


@dataclass(frozen=True)
class Congestion:
    """All components of congestion management."""

    mechanism: str
    marking: Marking | SampledMarking | BufferMarking | RedMarking | TelemetryMarking | None
    notification: str
    #: Whether marks have a severity.
    is_quantized: bool
    #: Minimum time between notification packets of a receiver in ps, and whether it applies per flow.
    coalescing: tuple[int, bool] | None
    #: Time from a mark to its notification packet, in picoseconds.
    notification_delay: int
    #: For acknowledgements of several packets: the bytes that they cover, and the longest wait in ps.
    acknowledge: tuple[int, int] | None
    isolation: Isolation | None
    reaction: Reaction | WindowReaction | QcnReaction | RdmaReaction | None
    rates: ExplicitRates | None
    #: Reactions and explicit rates of single hosts, which replace those above.
    hosts: Mapping[str, Own] = field(default_factory=dict)

    def at(self, host: str) -> Congestion:
        """Return the components of a host."""
        if host not in self.hosts:
            return self
        reaction, rates = self.hosts[host]
        return replace(self, reaction=reaction, rates=rates)

    @property
    def has_control_per_level(self) -> bool:
        """Whether throttling is per service level."""
        return isinstance(self.reaction, Reaction | WindowReaction) and self.reaction.is_per_level

    @property
    def has_control_per_destination(self) -> bool:
        """Whether flows to a destination share a window."""
        return isinstance(self.reaction, rdma.NsccReaction) and self.reaction.is_per_destination

    @property
    def has_control_per_flow(self) -> bool:
        """Whether control is per flow."""
        return self.reaction is not None and not self.has_control_per_level

    @property
    def has_windows(self) -> bool:
        """Whether sources count acknowledgements."""
        counting = WindowReaction | rdma.AnsweredReaction | rdma.RcccReaction
        return isinstance(self.reaction, counting)

    @property
    def is_ethernet(self) -> bool:
        """Whether marks come from RED, telemetry or sampling, or a reaction is QCN or one of RDMA."""
        marks = isinstance(self.marking, RedMarking | TelemetryMarking | SampledMarking)
        reactions = (self.reaction, *(own for own, _ in self.hosts.values()))
        return marks or any(isinstance(one, RdmaReaction | QcnReaction) for one in reactions)

    @property
    def validates(self) -> bool:
        """Whether switches validate marks at outputs."""
        return isinstance(self.marking, BufferMarking) and self.marking.kind == "mvpm"


def part(given: dict[str, Any], key: str, preset: Mapping[str, Any]) -> dict[str, Any]:
    """Remove and return the keys of a component.

    If they contain a `kind`, they replace the preset's keys. Otherwise, they are added to the preset's keys,
    and take precedence.
    """
    own = dict(given.pop(key, {}))
    return own if "kind" in own else {**preset.get(key, {"kind": "none"}), **own}


def congestion(table: Mapping[str, Any], sizes: Sizes, net: Wiring) -> Congestion:
    """Read `[congestion]`. `NotCovered` is raised for unknown mechanisms and keys."""
    given = dict(table)
    mechanism = given.pop("mechanism", "none")
    if mechanism not in PRESETS:
        raise NotCovered(f"congestion.mechanism = {mechanism}")
    preset = PRESETS[mechanism]
    reaction = part(given, "reaction", preset)
    groups = net.sets_of_hosts()
    own, rates = _own(reaction, sizes, net, groups[0])
    #: The parameters of a group of hosts that exchange traffic may differ from those of others.
    of_groups = {host: _own(reaction, sizes, net, group) for group in groups[1:] for host in group}
    found = Congestion(
        mechanism=mechanism,
        marking=_marking(part(given, "marking", preset), sizes),
        notification=given.pop("notification", preset.get("notification", "cnp")),
        is_quantized=given.pop("feedback", preset.get("feedback", "binary")) == "quantized",
        coalescing=_coalescing(given.pop("coalescing", None)),
        notification_delay=time_ps(given.pop("notification_delay", "0 ps")),
        acknowledge=_acknowledge(given.pop("acknowledge", None)),
        isolation=_isolation(part(given, "isolation", preset), sizes),
        reaction=own,
        rates=rates,
        hosts=of_groups | _of_hosts(given.pop("hosts", []), reaction, sizes, net),
    )
    nothing_left("congestion", given)
    return found


def _own(reaction: Mapping[str, Any], sizes: Sizes, net: Wiring, group: set[str]) -> Own:
    """Return a reaction of a group of hosts, or explicit rates."""
    if reaction["kind"] == "explicit-rate":
        return None, _rates(dict(reaction))
    return _reaction(dict(reaction), sizes, net, group), None


def _of_hosts(
    settings: list[dict[str, Any]], usual: Mapping[str, Any], sizes: Sizes, net: Wiring
) -> dict[str, Own]:
    """Return the reactions of single hosts. A reaction without a `kind` adjusts that of the other hosts."""
    found: dict[str, Own] = {}
    groups = net.sets_of_hosts()
    for setting in settings:
        given = dict(setting)
        own, hosts = given.pop("reaction"), given.pop("at")
        nothing_left("congestion.hosts", given)
        whole = own if "kind" in own else {**usual, **own}
        for host in hosts:
            group = next((group for group in groups if host in group), groups[0])
            found[host] = _own(whole, sizes, net, group)
    return found


def _coalescing(table: Mapping[str, Any] | None) -> tuple[int, bool] | None:
    if table is None:
        return None
    given = dict(table)
    found = time_ps(given.pop("interval")), {"flow": True, "port": False}[given.pop("per", "flow")]
    nothing_left("congestion.coalescing", given)
    return found


def _acknowledge(table: Mapping[str, Any] | None) -> tuple[int, int] | None:
    if table is None:
        return None
    given = dict(table)
    found = size_bytes(given.pop("bytes", "16 KiB")), time_ps(given.pop("within", "100 us"))
    nothing_left("congestion.acknowledge", given)
    return found


def _bytes(value: str | int, full: int) -> int:
    """Return a threshold in bytes. Integers, which presets have, are full packets."""
    return value * full if isinstance(value, int) else size_bytes(value)


def _marking(
    given: dict[str, Any], sizes: Sizes
) -> Marking | SampledMarking | BufferMarking | RedMarking | TelemetryMarking | None:
    kind = given.pop("kind")
    if kind == "none":
        nothing_left("congestion.marking", given)
        return None
    if kind in ("ipm", "opm", "mvpm"):
        into = sizes.input_lane * given.pop("input_percent", 66) // 100
        out = sizes.output_lane * given.pop("output_percent", 33) // 100
        nothing_left("congestion.marking", given)
        if kind == "ipm":
            into = sizes.input_lane - -(-sizes.full // sizes.block) * sizes.block
        return BufferMarking(kind, into, out)
    if kind == "red":
        return rdma.red(given)
    if kind == "telemetry":
        nothing_left("congestion.marking", given)
        return rdma.TelemetryMarking()
    if kind == "sampled":
        found_ = SampledMarking(
            set_point=size_bytes(given.pop("set_point", "26000 B")),
            weight=given.pop("weight", 2),
            sample=size_bytes(given.pop("sample", "150000 B")),
            jitter_percent=given.pop("jitter_percent", 15),
        )
        nothing_left("congestion.marking", given)
        return found_
    of_rates = given.pop("thresholds", [])
    by_rate = {rate_ps_per_byte(one["rate"]): _marking(_of_rate(given, one), sizes) for one in of_rates}
    settings = given.pop("ports", [])
    ports = {name: _marking(_of_ports(given, one), sizes) for one in settings for name in one["at"]}
    threshold, is_given = given.pop("threshold", 15), "upper" in given
    upper = sizes.input_lane * (16 - threshold) // 16
    if is_given:
        upper = _bytes(given.pop("upper"), sizes.full)
    lower = max(upper - size_bytes(given.pop("hysteresis", "4224 B")), 0)
    if "lower" in given:
        lower = _bytes(given.pop("lower"), sizes.full)
    share = (1, given.pop("marking_rate", 1) + 1)
    if "percent" in given:
        share = (given.pop("percent"), 100)
    found = Marking(
        upper=upper,
        lower=lower,
        fill=given.pop("fill", "sum"),
        share=share,
        is_random=given.pop("pattern", "random") == "random",
        smallest=64 * given.pop("packet_size", 8),
        victim_mask=given.pop("victim_mask", "hosts"),
        is_off=threshold == 0 and not is_given,
        ports={name: one for name, one in ports.items() if isinstance(one, Marking)},
        by_rate={rate: one for rate, one in by_rate.items() if isinstance(one, Marking)},
    )
    nothing_left("congestion.marking", given)
    return found


def _of_rate(given: Mapping[str, Any], one: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of the outputs of a rate, completed with those that all outputs share."""
    common = {key: value for key, value in given.items() if key not in ("threshold", "upper", "lower")}
    return {"kind": "fecn", **common, **{key: value for key, value in one.items() if key != "rate"}}


def _of_ports(given: Mapping[str, Any], setting: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a setting of ports, completed with those of all other ports."""
    own = {key: value for key, value in setting.items() if key not in ("at", "victim_mask")}
    rest = {"kind": "fecn", **given}
    if "threshold" in own or "upper" in own:
        for key in ("upper", "lower"):
            rest.pop(key, None)
    if "victim_mask" in setting:
        rest["victim_mask"] = "all" if setting["victim_mask"] else "none"
    return {**rest, **own}


def _isolation(given: dict[str, Any], sizes: Sizes) -> Isolation | None:
    if given.pop("kind") == "none":
        nothing_left("congestion.isolation", given)
        return None
    found = Isolation(
        queues=given.pop("queues", 2),
        destinations=given.pop("destinations", 8),
        detection=_bytes(given.pop("detection", 6), sizes.full),
        stop=_bytes(given.pop("stop", 6), sizes.full),
        go=_bytes(given.pop("go", 4), sizes.full),
        at_root=given.pop("at_root", False),
        message=size_bytes(given.pop("message", "16 B")),
        arbitration=given.pop("arbitration", "round-robin"),
        longest_wait=time_ps(given.pop("longest_wait", "10 us")),
    )
    nothing_left("congestion.isolation", given)
    return found


def _reaction(
    given: dict[str, Any], sizes: Sizes, net: Wiring, group: set[str]
) -> Reaction | WindowReaction | QcnReaction | RdmaReaction | None:
    kind = given.pop("kind")
    if kind == "none":
        nothing_left("congestion.reaction", given)
        return None
    if kind == "qcn":
        return _qcn(given)
    if kind in rdma.KINDS:
        found_trip = _round_trip(sizes, net, group)
        trip = rdma.Trip(found_trip.hops, found_trip.trip_ps, sizes.trims)
        return rdma.reaction(kind, given, trip, (sizes.full, sizes.payload))
    if kind != "cct":
        return _window_reaction(kind, given, sizes, net, group)
    table = dict(given.pop("table", QUADRATIC))
    found = Reaction(
        increase=given.pop("ccti_increase", 1),
        quantized_increase=given.pop("quantized_increase", 8),
        limit=given.pop("ccti_limit", 127),
        lowest=given.pop("ccti_min", 0),
        period_ps=given.pop("ccti_timer", 150) * TIMER_UNIT_PS,
        delays_ps={pace: _delays(table, ceil(sizes.full * pace)) for pace in net.host_paces()},
        is_per_level=given.pop("level", "qp") == "sl",
        trigger=given.pop("trigger_threshold", 0),
        is_restarted=given.pop("timer", "cyclic") == "notification",
    )
    nothing_left("congestion.reaction", given)
    return found


def _qcn(given: dict[str, Any]) -> QcnReaction:
    def rate(key: str, default: str) -> int:
        return int(Fraction(8 * 10**12) / rate_ps_per_byte(given.pop(key, default)))

    found = QcnReaction(
        min_rate=rate("min_rate", "10 Mbit/s"),
        active=rate("active_increase", "5 Mbit/s"),
        hyper=rate("hyper_increase", "50 Mbit/s"),
        cycle_bytes=size_bytes(given.pop("cycle_bytes", "150000 B")),
        cycle_ps=time_ps(given.pop("cycle_time", "15 ms")),
        cycles=given.pop("cycles", 5),
        binary_severity=given.pop("binary_severity", 32),
    )
    nothing_left("congestion.reaction", given)
    return found


def _rates(given: dict[str, Any]) -> ExplicitRates:
    given.pop("kind")
    is_clocked = given.pop("injection", "periodic-selection") == "shaped-virtual-clock"
    probe_ps = time_ps(given.pop("probe", "10 us"))
    carries = given.pop("probing", "packets") == "piggyback"
    found = ExplicitRates(is_clocked, None if carries else probe_ps, given.pop("retain", False))
    nothing_left("congestion.reaction", given)
    return found


def _delays(table: Mapping[str, Any], span: int) -> tuple[int, ...]:
    """Return the delay after a full packet by index, in ps. `span` is its transmission time in ps."""
    given = dict(table)
    kind = given.pop("kind")
    if kind == "list":
        delays = [1000 * ns for ns in given.pop("delays_ns")]
    elif kind == "quadratic":
        scale, divisor = given.pop("scale"), given.pop("divisor")
        delays = [scale * i * i * 7 * 10**6 // divisor**2 for i in range(given.pop("entries"))]
    elif kind == "linear":
        packets = given.pop("packets")
        delays = [i * packets * span for i in range(given.pop("entries"))]
    elif kind == "iba":
        delays = [span * (entry & 0x3FFF) // 2 ** (entry >> 14) for entry in given.pop("entries")]
    else:
        raise NotCovered(f"table kind {kind}")
    nothing_left("congestion.reaction.table", given)
    return tuple(delays)


def _window_reaction(
    kind: str, given: dict[str, Any], sizes: Sizes, net: Wiring, group: set[str]
) -> WindowReaction:
    trip = _round_trip(sizes, net, group)
    is_per_level = given.pop("level", "qp") == "sl"
    if kind == "static-window":
        found = WindowReaction(kind, given.pop("packets", 1))
    elif kind in ("aimd", "fimd"):
        factor, slowest = given.pop("m", 2), given.pop("slowest", 256)
        found = WindowReaction(kind, given.pop("window", 65_535), factor=factor, slowest=slowest)
    elif kind == "lipd":
        step = time_ps(given.pop("delay")) if "delay" in given else trip.trip_ps
        found = WindowReaction(kind, given.pop("window", 65_535), step_ps=step, limit=given.pop("limit", 255))
    elif kind == "mvcm":
        found = WindowReaction(
            kind,
            given.pop("window", min(ceil(Fraction(trip.trip_ps, trip.data_ps)), 65_535)),
            factor=given.pop("factor", trip.radix),
            step_ps=time_ps(given.pop("slot")) if "slot" in given else trip.trip_ps,
            limit=given.pop("limit", trip.stages) if given.pop("limited", True) else None,
            hears_warm=given.pop("warm", True),
        )
    else:
        raise NotCovered(f"congestion.reaction.kind = {kind}")
    nothing_left("congestion.reaction", given)
    return replace(found, is_per_level=is_per_level)


def _round_trip(sizes: Sizes, net: Wiring, group: set[str]) -> RoundTrip:
    """Return the longest round trip of hosts of a group that exchange traffic, without load."""
    routes = list(net.round_routes(group))
    hops = max(len(there) - 1 for there, _ in routes)
    pace = max(link.ps_per_byte for link in net.links for name, _ in link.ends if name in group)
    neighbours = [[far for _, far in net.neighbours(switch)] for switch in net.switches]
    homes = [nodes for nodes in neighbours if any(node in group for node in nodes)]
    return RoundTrip(
        hops=hops,
        # Half of a route goes up, so the stages are half of its switches, rounded up.
        stages=-(-hops // 2),
        radix=max(sum(node in net.hosts for node in nodes) for nodes in homes),
        trip_ps=max(
            _one_way(there, sizes.full, sizes) + _one_way(back, sizes.control, sizes)
            for there, back in routes
        ),
        data_ps=ceil(sizes.full * pace),
    )


def _one_way(route: list[Link], size: int, sizes: Sizes) -> int:
    """Return the time from the start of a packet until its tail has arrived, if it never waits.

    On each link, the head follows the tail that is stored, or starts such that the tail arrives in time.
    """
    head = tail = 0
    for number, link in enumerate(route):
        span = ceil(size * link.ps_per_byte)
        if number > 0:
            ready = tail if sizes.stores else max(head, tail - span)
            head = ready + sizes.latency_ps
        tail = head + span + link.delay_ps
        head += link.delay_ps
    return tail
