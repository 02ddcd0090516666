"""The content of a scenario, read independently of the simulator: quantities, defaults, wiring, routes.

A scenario is the nested dict of its TOML text. Only keys that the second model covers are read. For others,
`NotCovered` is raised, so that only names of scenarios and events are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import cycle, product
from math import floor
from pathlib import Path
from typing import Any

from verify.direct import GRIDS, GROUPS, Direct, direct
from verify.fabric_files import FileFabric, fabric, ports_of
from verify.groups import Groups, circle, groups
from verify.parts import Congestion, Marking, Sizes, congestion
from verify.pauses import Buffers, End, Packets, Pfc, payloads, pfc
from verify.ports import ported
from verify.quantities import NotCovered, nothing_left, rate_ps_per_byte, size_bytes, time_ps
from verify.searched import searched
from verify.trees import Tree, tree
from verify.wiring import Wiring, wiring

#: The kinds of events that concern hosts, and not links.
KINDS_OF_HOSTS = ("stall", "drain", "stop")
#: Credit in bytes of a link without credits.
UNLIMITED = 2**30


@dataclass(frozen=True)
class Timing:
    """When messages are generated, and their sizes in bytes.

    A saturating source has no interval.
    """

    start_ps: int
    stop_ps: int | None
    message: int
    interval_ps: Fraction | None
    is_poisson: bool
    total: int | None = None


@dataclass(frozen=True)
class FlowPlan:
    """A flow: source, destination, and messages."""

    name: str
    source: str
    destination: str
    timing: Timing
    level: int


@dataclass(frozen=True)
class Forest:
    """Shares of roles in percent, number of hotspots, and their lifetime."""

    hotspots: int
    contributors: int
    victims: int
    mixed: int
    p: int
    lifetime_ps: int | None


@dataclass(frozen=True)
class Given:
    """The parameters of traffic with a separate flow per message: sizes, bursts, lists of transfers.

    The points of a distribution have sizes in bytes and shares in percent. A listed transfer has source,
    destination, bytes, start and service level.
    """

    points: tuple[tuple[int, float], ...] = ()
    load_percent: int | None = None
    bursts: tuple[int, int] | None = None
    outstanding: int | None = None
    think: int = 0
    senders: int = 0
    every: int | None = None
    jitter: int = 0
    rows: tuple[tuple[str, str, int, int, int], ...] = ()

    def transfers(self, net: Wiring) -> Iterator[Any]:
        """Yield the listed transfers.

        A host is given by its name, or by its number, from 0, in the order of the network.
        """
        from verify.reference.own_flows import Transfer

        for source, destination, size, start, level in self.rows:
            ends = (end if end in net.hosts else net.hosts[int(end)] for end in (source, destination))
            yield Transfer(*ends, size, start, level)


@dataclass(frozen=True)
class TrafficPlan:
    """A pattern of traffic. Messages are up to `spread` bytes larger than the smallest."""

    name: str
    hosts: tuple[str, ...]
    kind: str
    to: tuple[str, ...]
    by: int
    include_self: bool
    forest: Forest | None
    rate_bits: int | None
    spread: int
    packets: int | None
    level: int
    timing: Timing
    class_number: int
    given: Given = Given()

    @property
    def has_own_flows(self) -> bool:
        """Whether each message has a separate flow."""
        listed = self.kind in ("incast", "listed")
        return bool(self.given.points) or self.given.outstanding is not None or listed


@dataclass(frozen=True)
class Lanes:
    """Virtual lanes: their number, the lane of each service level, and that of control packets, if separate.

    If `by_way`, the routes of pairs of hosts determine levels, and lanes after the first link.
    """

    count: int
    of_level: tuple[int, ...]
    control: int | None
    by_way: bool
    #: The lane that switches serve before all others, if there is one.
    first: int | None


@dataclass(frozen=True)
class Organisation:
    """How a buffer is divided into queues, and whether each has a separate region of memory.

    Outputs are numbered from 1, and destinations from 0 in the order of the hosts.
    """

    kind: str
    count: int
    is_divided: bool

    def fixed(self, outputs: int) -> int:
        """Return how many queues exist from the start."""
        return {"single": 1, "per-output": outputs, "per-destination": 0}.get(self.kind, self.count)

    def index(self, output: int, destination: int) -> int:
        """Return the queue of a packet. With queues per destination, it is the destination."""
        if self.kind == "single":
            return 0
        if self.kind in ("per-output", "output-modulo"):
            return output - 1 if self.kind == "per-output" else (output - 1) % self.count
        return destination if self.kind == "per-destination" else destination % self.count


@dataclass(frozen=True)
class Trimming:
    """Packet trimming: the limit of data on an output's lane, and the size of a header, in bytes."""

    queue: int
    #: Limits of outputs of some rates, by picoseconds per byte.
    of_rates: Mapping[Fraction, int]
    size: int
    #: Whether the newest packet of the queue may be trimmed instead of the arriving one. `None`: only if
    #: outputs serve first come, first served.
    is_random: bool | None

    def limit(self, pace: Fraction) -> int:
        """Return the bytes of data that may wait for an output with a link of this pace."""
        return self.of_rates.get(pace, self.queue)


@dataclass(frozen=True)
class SwitchPlan:
    """The parameters of switches. Sizes are in bytes: the buffers are those of a lane, `part` is of a queue.

    If memory is declared divided, queues take turns in rounds, even if there is only one.
    """

    architecture: str
    is_fcfs: bool
    queues: Organisation
    has_rounds: bool
    part: int | None
    buffer: int
    output_buffer: int
    latency_ps: int
    #: Whether a switch handles a packet when all of it has arrived.
    stores: bool
    crossbar: Fraction | None
    iterations: int
    cell: int
    control_first: bool
    trimming: Trimming | None


@dataclass(frozen=True)
class AdaptiveRouting:
    """Adaptive routing per flow: the criterion of ports, and the number of cache entries of an input."""

    heuristic: str
    cache: int | None


@dataclass(frozen=True)
class PacketRouting:
    """Adaptive routing per packet: the possible ports, the load grade in bytes, and its service levels.

    `pinned` lists the states in which packets take the route of the tables: `throttled`, `isolated`.
    """

    groups: Groups
    grade: int
    levels: tuple[int, ...]
    pinned: tuple[str, ...]


@dataclass(frozen=True)
class Ecmp:
    """Equal-cost multipath: the ports onto which packets are hashed, and how hosts select entropy values.

    There are `values` entropy values. Packets have none if `spraying` is `none`. If `by_lid`, the groups are
    the ports toward the LIDs of a host, and all switches select the same position in them.
    """

    groups: Groups
    spraying: str
    values: int
    by_lid: bool = False
    #: Whether the entropy values are source routes, with a digit for each level of switches.
    by_digit: bool = False
    #: With path states: spare values, the least number of values in use, and the interval of probes.
    spares: int = 0
    least_active: int = 1
    probe_ps: int = 0


@dataclass(frozen=True)
class SharedCredits:
    """Credits that lanes share: the reserve of each lane in bytes, and the static or dynamic threshold."""

    reserve: int
    limit: int | None
    alpha_shift: int | None


@dataclass(frozen=True)
class RetryPlan:
    """Link-level retry: the replay buffer, the largest frame in bytes, the timer, and errors per billion."""

    frames: int
    bytes: int
    largest: int
    timer_ps: int
    count: int
    ack_spacing: int
    error_ppb: int


@dataclass(frozen=True)
class EventPlan:
    """A change of links, which are given by ports (`S1:3`) or hosts, or a change of hosts."""

    kind: str
    places: tuple[str, ...]
    pace: Fraction | None
    #: The share of its lanes that a link keeps, if that determines the rate.
    width: Fraction | None
    #: Whether both directions of a host share the pace.
    shared: bool
    loss_ppb: int
    start_ps: int
    lasts_ps: int | None
    every_ps: int | None

    @property
    def is_of_hosts(self) -> bool:
        """Whether hosts change, and not links."""
        return self.kind in KINDS_OF_HOSTS

    def slower(self, usual: Fraction) -> Fraction | None:
        """Return the pace of a link in picoseconds per byte during the event; `None` for the usual one."""
        if self.width is None:
            return self.pace
        return Fraction(8 * 10**12, floor(8 * 10**12 / usual * self.width))


@dataclass(frozen=True)
class RecoveryPlan:
    """How hosts send lost packets again.

    If each packet is acknowledged (`has_acks`), these acknowledgements replace receipts.
    """

    goes_back: bool
    timeout_ps: int
    has_acks: bool
    #: The distance in the order of sending at which an acknowledged packet shows a loss; 0 if none does.
    reordering: int = 0


@dataclass(frozen=True)
class Plan:
    """All data that the second model needs. Sizes are in bytes, and times in picoseconds.

    Buffers are those of a lane. `adapter` is the buffer between a host's flows and its link, with the bytes
    of each of its queues. `accepts` is whether receivers accept packets out of order.
    """

    seed: int
    wiring: Wiring
    tables: dict[str, dict[str, int]]
    duration_ps: int
    interval_ps: int
    mtu: int
    header: int
    control: int
    block: int
    lanes: Lanes
    #: Minimum time between two returns of credits; zero if each returns immediately.
    return_spacing_ps: int
    shared: SharedCredits | None
    retry: RetryPlan | None
    #: Not `None` if receivers send pause frames or on/off messages instead of credits.
    pfc: Pfc | None
    switch: SwitchPlan
    host_buffer: int
    injection: Fraction | None
    drain: Fraction | None
    message_overhead_ps: int
    #: Whether control packets pass the injection limit, too.
    limits_control: bool
    adapter: tuple[Organisation, int] | None
    congestion: Congestion
    adaptive: AdaptiveRouting | PacketRouting | None
    ecmp: Ecmp | None
    accepts: bool
    #: Whether switches and hosts keep congestion logs.
    keeps_logs: bool
    flows: tuple[FlowPlan, ...]
    traffic: tuple[TrafficPlan, ...]
    events: tuple[EventPlan, ...]
    recovery: RecoveryPlan | None
    #: Time from the failure or repair of a link to new tables; `None` if tables do not change.
    reroutes_after_ps: int | None
    #: Time from the failure or repair of a link until its switch avoids its port, or uses it again; `None` if
    #: it does not.
    ports_after_ps: int | None
    #: The ports of switches while any link is down, from a file; `None` if they follow from the network.
    tables_after: Mapping[str, Mapping[str, int]] | None

    @property
    def announces(self) -> bool:
        """Whether flows are announced before they start."""
        return isinstance(self.adaptive, AdaptiveRouting) or self.congestion.rates is not None

    @property
    def by_packet(self) -> PacketRouting | None:
        """Adaptive routing per packet, if the scenario has it."""
        return self.adaptive if isinstance(self.adaptive, PacketRouting) else None

    @property
    def loses(self) -> bool:
        """Whether packets can be lost on links, or dropped by the nodes that receive them."""
        drops = self.pfc is not None and bool(self.pfc.lossy)
        return drops or any(one.kind in ("down", "errors", "stop") for one in self.events)

    @property
    def sprays(self) -> bool:
        """Whether packets have entropy values."""
        return self.ecmp is not None and self.ecmp.spraying != "none"

    @property
    def reorders(self) -> bool:
        """Whether packets of a flow may overtake each other."""
        return (
            self.by_packet is not None
            or self.switch.trimming is not None
            or self.sprays
            or self.recovery is not None
            or (isinstance(self.wiring, Direct) and self.wiring.routing == "ugal")
        )

    @property
    def full(self) -> int:
        """Bytes of a full packet."""
        return self.mtu + self.header

    def part_size(self, ports: int) -> int:
        """Return the bytes of each region of an input, for a switch with this number of ports."""
        switch = self.switch
        if switch.trimming:
            return UNLIMITED
        if not switch.queues.is_divided:
            return switch.buffer
        queues = len(self.wiring.hosts) if switch.queues.kind == "per-destination" else 0
        given = switch.part or switch.buffer // (queues or switch.queues.fixed(ports))
        return given // self.block * self.block


def plan(scenario: Mapping[str, Any]) -> Plan:
    """Read a scenario. `NotCovered` is raised if the second model does not cover it."""
    given: dict[str, Any] = {
        key: dict(value) if isinstance(value, Mapping) else value for key, value in scenario.items()
    }
    given.pop("name", None)
    routing, adaptive = given.pop("routing", None), given.pop("adaptive_routing", None)
    path_bits = (routing or {}).get("path_bits", "zero")
    ecmp = given.pop("ecmp", None)
    net = ported(network(given.pop("topology"), routing), given.pop("ports", None))
    packet, switch, host, measure = (given.pop(key, {}) for key in ("packet", "switch", "host", "measure"))
    mtu, header = (size_bytes(packet.pop(key, by)) for key, by in (("mtu", "2048 B"), ("header", "0 B")))
    block = size_bytes(packet.pop("credit_block", "64 B"))
    control = size_bytes(packet.pop("control", "64 B"))
    lanes = _lanes(given.pop("lanes", {}), net)
    mechanism = given.get("congestion", {}).get("mechanism", "none")
    built = _switch(switch, mechanism, block, lanes, net)
    trims = built.trimming is not None
    lane = built.trimming.queue if built.trimming else built.buffer
    sizes = Sizes(
        full=mtu + header,
        payload=mtu,
        control=control,
        block=block,
        input_lane=lane,
        output_lane=built.output_buffer,
        latency_ps=built.latency_ps,
        stores=built.stores,
        trims=trims,
    )
    net.pairs = pairs(given.get("flow", []), given.get("traffic", []), net.hosts)
    parts = congestion(given.pop("congestion", {}), sizes, net)
    controls = given.pop("flow_control", {})
    has_pauses = controls.get("kind") in ("pfc", "on-off")
    if "arbitration" not in scenario.get("switch", {}):
        is_ethernet = controls.get("kind") == "pfc" or parts.is_ethernet
        built = replace(built, is_fcfs=is_ethernet and _may_be_fcfs(built, parts, lanes))
    spacing, shared = _credits({} if has_pauses else controls, max(mtu + header, control), block)
    if (has_pauses or shared) and built.queues.is_divided:
        raise NotCovered("flow_control: the memory is divided")
    host_buffer, pauses = _share(host.pop("buffer", "64 KiB"), block, lanes), None
    events = tuple(_event(event) for event in given.pop("event", []))
    if has_pauses and any(event.width for event in events):
        raise NotCovered("event: a width, with pause frames")
    if has_pauses:
        data = payloads(given.get("flow", []), given.get("traffic", []), mtu)
        kinds = (control, *(header + payload for payload in data))
        whole = size_bytes(scenario.get("switch", {}).get("buffer", "128 KiB"))
        places = Buffers(whole, built.buffer, host_buffer, built.latency_ps, built.stores, lanes.count)
        slowest = slowest_paces(events, time_ps(given["duration"]))
        pauses = pfc(controls, Packets(mtu + header, control, kinds, block), places, slowest)
    flows = tuple(_flow(flow, mtu) for flow in given.pop("flow", []))
    rerouting = given.pop("rerouting", None)
    if rerouting is not None and lanes.by_way:
        raise NotCovered("rerouting: lanes follow from routes")
    if rerouting is not None and path_bits != "zero":
        raise NotCovered("rerouting: hosts have several LIDs")
    if rerouting is not None and built.queues.is_divided:
        raise NotCovered("rerouting: the queue of a packet follows from its route")
    found = Plan(
        seed=given.pop("seed", 1),
        wiring=net,
        tables=net.ways(),
        duration_ps=time_ps(given.pop("duration")),
        interval_ps=time_ps(measure.pop("interval", "1 ms")),
        mtu=mtu,
        header=header,
        control=control,
        block=block,
        lanes=lanes,
        return_spacing_ps=spacing,
        shared=shared,
        retry=_retry(given.pop("link", {}), max(mtu + header, control)),
        pfc=pauses,
        switch=built,
        host_buffer=host_buffer,
        injection=_rate_or_none(host, "injection_rate"),
        drain=_rate_or_none(host, "drain_rate"),
        message_overhead_ps=time_ps(host.pop("message_overhead", "0 ps")),
        limits_control=host.pop("injection_includes_control", False),
        adapter=_adapter(host, built.queues.count, lanes, has_special_queues=parts.isolation is not None),
        congestion=parts,
        adaptive=None,
        ecmp=None,
        keeps_logs=measure.pop("congestion_log", False),
        accepts=host.pop("delivery", "in-order") == "out-of-order",
        flows=flows,
        traffic=_traffic(given.pop("traffic", []), net, mtu, len(flows)),
        events=events,
        recovery=_recovery(given.pop("recovery", None), parts),
        **_rerouting(rerouting or {}, net),
    )
    for place, table in (("packet", packet), ("host", host), ("measure", measure)):
        nothing_left(place, table)
    nothing_left("scenario", given)
    may_deadlock = bool(routing and routing.get("allow_deadlock"))
    return replace(
        found,
        adaptive=_adaptive(adaptive, found, may_deadlock=may_deadlock),
        ecmp=_ecmp(ecmp, found, may_deadlock=may_deadlock) or _by_lid(path_bits, found),
    )


def _recovery(table: Mapping[str, Any] | None, parts: Congestion) -> RecoveryPlan | None:
    """Read `[recovery]`."""
    if table is None:
        return None
    if parts.has_windows and parts.has_control_per_level:
        raise NotCovered("recovery: flows share windows")
    has_acks = parts.notification in ("ack-each", "ack-grant")
    goes_back, reordering = table["kind"] == "go-back-n", table.get("reordering", 0)
    return RecoveryPlan(goes_back, time_ps(table["timeout"]), has_acks, reordering)


def _event(table: Mapping[str, Any]) -> EventPlan:
    """Read an `[[event]]`."""
    given = dict(table)
    given.pop("name", None)
    kind = given.pop("kind")
    lasts, every = given.pop("lasts", None), given.pop("every", None)
    found = EventPlan(
        kind=kind,
        places=tuple(given.pop("hosts" if kind in KINDS_OF_HOSTS else "links", ())),
        pace=rate_ps_per_byte(given.pop("rate")) if "rate" in given else None,
        width=_width(given.pop("width")) if "width" in given else None,
        shared=given.pop("shared", False),
        loss_ppb=given.pop("loss_ppb", 0),
        start_ps=time_ps(given.pop("start", "0 ps")),
        lasts_ps=None if lasts is None else time_ps(lasts),
        every_ps=None if every is None else time_ps(every),
    )
    nothing_left("event", given)
    return found


def _width(text: str) -> Fraction:
    """Return the share of lanes that a text states, such as "2x of 8x", or "1x", which means "1x of 4x"."""
    lanes, _, of = text.partition(" of ")
    return Fraction(int(lanes.rstrip("x")), int((of or "4x").rstrip("x")))


def _rerouting(table: Mapping[str, Any], net: Wiring) -> dict[str, Any]:
    """Read `[rerouting]`."""
    given = dict(table)
    delays = [time_ps(given.pop(key)) if key in given else None for key in ("delay", "port_delay")]
    tables, file = None, given.pop("tables", None)
    if file is not None:
        assert isinstance(net, FileFabric)
        tables = ports_of(Path(file), net)
    nothing_left("rerouting", given)
    return {"reroutes_after_ps": delays[0], "ports_after_ps": delays[1], "tables_after": tables}


def slowest_paces(events: Iterable[EventPlan], duration_ps: int) -> dict[End, Fraction]:
    """Return the largest pace (ps per byte) that events give to links, by the named ends of the links."""
    found: dict[End, Fraction] = {}
    for event in events:
        if event.kind == "rate" and event.pace is not None and event.start_ps < duration_ps:
            for place in event.places:
                end = end_of(place)
                found[end] = max(event.pace, found.get(end, event.pace))
    return found


def end_of(place: str) -> End:
    """Return the end of a link that an event names: `S1:3`, or a host."""
    name, _, port = place.partition(":")
    return name, int(port or 0)


def pairs(
    flows: list[Mapping[str, Any]], patterns: list[Mapping[str, Any]], hosts: list[str]
) -> set[tuple[str, str]]:
    """Return the senders and receivers that exchange traffic, or may do so."""
    found = {(flow["from"], flow["to"]) for flow in flows}
    for traffic in patterns:
        senders, pattern = traffic.get("hosts", hosts), traffic["pattern"]
        if pattern["kind"] == "hotspots":
            found |= set(zip(senders, cycle(pattern["to"])))
        elif pattern["kind"] == "shift":
            found |= {(name, hosts[(hosts.index(name) + pattern["by"]) % len(hosts)]) for name in senders}
        else:
            to = pattern.get("to") if pattern["kind"] == "incast" else None
            found |= set(product(senders, to or hosts))
    return {(near, far) for near, far in found if near != far}


def network(topology: Mapping[str, Any], routing: Mapping[str, Any] | None) -> Wiring:
    """Read `[topology]` and `[routing]`, without a check for deadlock.

    `NotCovered` is raised for kinds and keys that the second model does not cover.
    """
    if routing is not None:
        routing = {key: value for key, value in routing.items() if key != "allow_deadlock"}
    if topology["kind"] == "file":
        return fabric(topology, routing)
    if topology["kind"] in GRIDS + GROUPS:
        return direct(topology, routing)
    if topology["kind"] == "custom":
        net = wiring(topology)
        return searched(net, routing) if routing or net.has_rings() else net
    if routing:
        raise NotCovered("routing: the network has no choice of it")
    return tree(topology) if topology["kind"].endswith("k-ary-n-tree") else wiring(topology)


def _credits(table: Mapping[str, Any], largest: int, block: int) -> tuple[int, SharedCredits | None]:
    """Read `[flow_control]` with credits; return the time between returns, and the shared credit."""
    given = dict(table)
    if given.pop("kind", "credits") != "credits":
        raise NotCovered("flow_control: not credits, pause frames or on/off messages")
    spacing, shared = time_ps(given.pop("return_spacing", "0 ps")), None
    if "shared" in given:
        own = dict(given.pop("shared"))
        reserve = size_bytes(own.pop("reserve", f"{-(-largest // block) * block} B")) // block * block
        limit = size_bytes(own.pop("limit")) if "limit" in own else None
        shared = SharedCredits(reserve, limit, own.pop("alpha_shift", None))
        nothing_left("flow_control.shared", own)
    nothing_left("flow_control", given)
    return spacing, shared


def _retry(table: Mapping[str, Any], largest: int) -> RetryPlan | None:
    """Read `[link]`."""
    given = dict(table)
    errors, retry = given.pop("error_rate_ppb", 0), given.pop("retry", None)
    nothing_left("link", given)
    if retry is None:
        return None
    own = dict(retry)
    found = RetryPlan(
        frames=own.pop("frames", 100),
        bytes=size_bytes(own.pop("bytes", "102400 B")),
        largest=largest,
        timer_ps=time_ps(own.pop("timer", "10 us")),
        count=own.pop("count", 255),
        ack_spacing=size_bytes(own.pop("ack_spacing", "2048 B")),
        error_ppb=errors,
    )
    nothing_left("link.retry", own)
    return found


def _adaptive(
    table: Mapping[str, Any] | None, plan_: Plan, *, may_deadlock: bool
) -> AdaptiveRouting | PacketRouting | None:
    if table is None or not table.get("enabled", True):
        return None
    given = {key: value for key, value in table.items() if key != "enabled"}
    if given.pop("per", "flow") == "packet":
        return _packet_routing(given, plan_, may_deadlock=may_deadlock)
    if not isinstance(plan_.wiring, Tree):
        raise NotCovered("adaptive_routing: the network is no k-ary n-tree")
    found = AdaptiveRouting(given.pop("heuristic", "flow-count"), given.pop("cache", None))
    nothing_left("adaptive_routing", given)
    return found


def _packet_routing(given: dict[str, Any], plan_: Plan, *, may_deadlock: bool) -> PacketRouting:
    parts = plan_.congestion
    needs = {"throttled": parts.reaction, "isolated": parts.isolation}
    pinned = tuple(given.pop("pinned", ()))
    for name in pinned:
        if needs[name] is None:
            raise NotCovered(f"adaptive_routing.pinned = {name}, of which there are none")
    found = PacketRouting(
        groups=_free_ports("adaptive_routing", plan_, may_deadlock=may_deadlock),
        grade=size_bytes(given.pop("grade", f"{plan_.full} B")),
        levels=tuple(given.pop("levels", range(16))),
        pinned=pinned,
    )
    nothing_left("adaptive_routing", given)
    return found


def _ecmp(table: Mapping[str, Any] | None, plan_: Plan, *, may_deadlock: bool) -> Ecmp | None:
    if table is None or not table.get("enabled", True):
        return None
    given = {key: value for key, value in table.items() if key != "enabled"}
    spraying, values = given.pop("spraying", "none"), given.pop("values", 64)
    retirement = dict(given.pop("retirement", {}))
    by_digit = given.pop("selection", "hash") == "source-route"
    found = Ecmp(
        _free_ports("ecmp", plan_, may_deadlock=may_deadlock),
        spraying,
        values,
        spares=retirement.pop("spares", 16),
        least_active=retirement.pop("least_active", max(values // 4, 1)),
        probe_ps=time_ps(retirement.pop("probe_interval", "100 us")),
        by_digit=by_digit,
    )
    nothing_left("ecmp.retirement", retirement)
    nothing_left("ecmp", given)
    return found


def _by_lid(path_bits: str, plan_: Plan) -> Ecmp | None:
    if path_bits == "zero" or not isinstance(plan_.wiring, FileFabric):
        return None
    _movable("routing.path_bits", plan_)
    spraying = "oblivious" if path_bits == "per-packet" else "none"
    return Ecmp(plan_.wiring.routes, spraying, plan_.wiring.lids, by_lid=True)


def _movable(key: str, plan_: Plan) -> None:
    queues = plan_.switch.queues
    if plan_.congestion.rates or plan_.lanes.by_way:
        raise NotCovered(f"{key}: flows are announced, or ways have lanes")
    if queues.is_divided and queues.kind in ("per-output", "output-modulo"):
        raise NotCovered(f"{key}: the sender cannot know the part of the next output")


def _free_ports(key: str, plan_: Plan, *, may_deadlock: bool) -> Groups:
    """Return the ports among which packets may choose.

    `NotCovered` is raised if the network does not support a choice, or packets can wait in a cycle.
    """
    _movable(key, plan_)
    ports = groups(plan_.wiring, plan_.tables)
    if not may_deadlock and (found_cycle := circle(plan_.wiring, ports)):
        raise NotCovered(f"{key}: packets can wait in a cycle: {found_cycle}")
    return ports


def _switch(switch: Mapping[str, Any], mechanism: str, block: int, lanes: Lanes, net: Wiring) -> SwitchPlan:
    given = dict(switch)
    usual = {"fbicm": "iq", "ccfit": "iq", "renato": "cioq", "pfister": "cioq", "mvcm": "cioq"}
    architecture = given.pop("architecture", usual.get(mechanism, "voq"))
    is_single = mechanism in ("fbicm", "ccfit") or architecture == "cioq"
    kind = given.pop("queues", "single" if is_single else "per-output")
    shares = given.pop("memory", "shared" if kind in ("single", "per-output") else "divided") == "shared"
    buffer = given.pop("buffer", "128 KiB")
    crossbar = _rate_or_none(given, "crossbar")
    if architecture == "cioq" and crossbar is None:
        crossbar = min(link.ps_per_byte for link in net.links) / 2
    found = SwitchPlan(
        architecture=architecture,
        is_fcfs=given.pop("arbitration", "round-robin") == "fcfs",
        queues=Organisation(kind, given.pop("queue_count", 8), not shares and kind != "single"),
        has_rounds=not shares,
        part=size_bytes(given.pop("queue_buffer")) if "queue_buffer" in given else None,
        buffer=_share(buffer, block, lanes),
        output_buffer=_share(given.pop("output_buffer", buffer), block, lanes),
        latency_ps=time_ps(given.pop("latency", "100 ns")),
        stores={"cut-through": False, "store-and-forward": True}[given.pop("forwarding", "cut-through")],
        crossbar=crossbar,
        iterations=given.pop("islip_iterations", 1),
        cell=size_bytes(given.pop("islip_cell", "64 B")),
        control_first=given.pop("control_first", mechanism == "ccfit"),
        trimming=_trimming(given.pop("trimming", None)),
    )
    nothing_left("switch", given)
    return found


def _may_be_fcfs(switch: SwitchPlan, parts: Congestion, lanes: Lanes) -> bool:
    """Return whether each output can have one queue for the packets of all inputs, in order of arrival."""
    reads_inputs = isinstance(parts.marking, Marking) and parts.marking.fill != "sum"
    is_plain = switch.architecture == "voq" and switch.queues.kind == "per-output" and not switch.has_rounds
    return is_plain and not reads_inputs and parts.isolation is None and not lanes.by_way


def _trimming(table: Mapping[str, Any] | None) -> Trimming | None:
    if table is None:
        return None
    given = dict(table)
    which = given.pop("which", None)
    of_rates = {rate_ps_per_byte(one["rate"]): size_bytes(one["queue"]) for one in given.pop("rates", [])}
    found = Trimming(
        queue=size_bytes(given.pop("queue")),
        of_rates=of_rates,
        size=size_bytes(given.pop("size", "64 B")),
        is_random=None if which is None else which == "either",
    )
    nothing_left("switch.trimming", given)
    return found


def _adapter(
    host: dict[str, Any], count: int, lanes: Lanes, *, has_special_queues: bool
) -> tuple[Organisation, int] | None:
    kind = host.pop("queues", "single" if has_special_queues else "none")
    buffer = size_bytes(host.pop("output_buffer", "64 KiB"))
    if kind == "none":
        return None
    queues = Organisation(kind, count, is_divided=kind != "single")
    return queues, buffer // (max(queues.fixed(1), 1) * lanes.count)


def _lanes(lanes: Mapping[str, Any], net: Wiring) -> Lanes:
    given = dict(lanes)
    count = given.pop("count", 1)
    of_level = tuple(given.pop("sl_to_vl", [level % count for level in range(16)]))
    by_way = given.pop("assignment", "service-level") == "routing"
    if by_way and not isinstance(net, Direct):
        raise NotCovered("lanes.assignment = routing: the network's pairs have no ways of their own")
    if isinstance(net, Direct) and net.routing == "ugal" and not by_way:
        raise NotCovered("routing.kind = ugal: packets need the lanes of their ways")
    control = given.pop("control", None)
    first = control if given.pop("control_priority", False) else None
    found = Lanes(count, of_level, control, by_way, first)
    nothing_left("lanes", given)
    return found


def _share(text: str, block: int, lanes: Lanes) -> int:
    """Read the size of a buffer, and return the share of a lane in whole blocks."""
    return size_bytes(text) // lanes.count // block * block


def _rate_or_none(table: dict[str, Any], key: str) -> Fraction | None:
    return rate_ps_per_byte(table.pop(key)) if key in table else None


def _flow(flow: Mapping[str, Any], mtu: int) -> FlowPlan:
    given = dict(flow)
    source, destination = given.pop("from"), given.pop("to")
    found = FlowPlan(
        name=given.pop("name", f"{source}->{destination}"),
        source=source,
        destination=destination,
        timing=_timing(given, mtu, 0),
        level=given.pop("sl", 0),
    )
    nothing_left("flow", given)
    return found


def _timing(given: dict[str, Any], mtu: int, spread: int) -> Timing:
    message = size_bytes(given.pop("message")) if "message" in given else mtu
    rate = rate_ps_per_byte(given.pop("rate")) if "rate" in given else None
    return Timing(
        start_ps=time_ps(given.pop("start", "0 ps")),
        stop_ps=time_ps(given.pop("stop")) if "stop" in given else None,
        message=message,
        interval_ps=None if rate is None else rate * (2 * message + spread) / 2,
        is_poisson=given.pop("arrivals", "periodic") == "poisson",
        total=size_bytes(given.pop("total")) if "total" in given else None,
    )


def _traffic(patterns: list[Mapping[str, Any]], net: Wiring, mtu: int, flows: int) -> tuple[TrafficPlan, ...]:
    """Read the patterns. Classes are numbered after the flows."""
    found, class_number = [], flows
    for number, pattern in enumerate(patterns):
        given = dict(pattern)
        kind = dict(given.pop("pattern"))
        rate = Fraction(8 * 10**12) / rate_ps_per_byte(given["rate"]) if "rate" in given else None
        least = size_bytes(given.get("message", f"{mtu} B"))
        spread = size_bytes(given.pop("message_max")) - least if "message_max" in given else 0
        forest = _forest(kind) if kind["kind"] == "forest" else None
        own = _given(given, kind)
        plan_ = TrafficPlan(
            name=given.pop("name", f"traffic.{number}"),
            hosts=tuple(given.pop("hosts", net.hosts)),
            kind=kind.pop("kind"),
            to=tuple(kind.pop("to", ())),
            by=kind.pop("by", 0),
            include_self=kind.pop("include_self", False),
            forest=forest,
            rate_bits=None if rate is None else int(rate),
            spread=spread,
            packets=given.pop("packets_per_host", None),
            level=given.pop("sl", 0),
            timing=_timing(given, mtu, spread),
            class_number=class_number,
            given=own,
        )
        if not plan_.has_own_flows and own != Given():
            raise NotCovered("traffic: loads and bursts only of messages with flows of their own")
        nothing_left("traffic", given | kind)
        if forest and any(
            later.get("pattern", {}).get("kind") == "permutation" for later in patterns[number:]
        ):
            raise NotCovered("a permutation after a forest, whose classes count first")
        found.append(plan_)
        class_number += 1
    return tuple(found)


def _given(given: dict[str, Any], kind: dict[str, Any]) -> Given:
    """Read the keys about messages with separate flows."""
    sizes, bursts = given.pop("sizes", None), given.pop("bursts", None)
    every, jitter = kind.pop("every", None), kind.pop("jitter", "0 ps")
    rows: tuple[tuple[str, str, int, int, int], ...] = ()
    if kind["kind"] == "listed":
        rows = listed(Path(kind.pop("file")), time_ps(kind.pop("starts_at", "0 ps")))
    return Given(
        points=() if sizes is None else distribution(sizes),
        load_percent=given.pop("load_percent", None),
        bursts=None if bursts is None else (time_ps(bursts["on"]), time_ps(bursts["off"])),
        outstanding=given.pop("outstanding", None),
        think=time_ps(given.pop("think", "0 ps")),
        senders=kind.pop("senders", 0),
        every=None if every is None else time_ps(every),
        jitter=time_ps(jitter),
        rows=rows,
    )


def distribution(sizes: Mapping[str, Any]) -> tuple[tuple[int, float], ...]:
    """Read a distribution from its file. The cumulative share of the last point is 1 or 100."""
    if sizes["kind"] != "file":
        raise NotCovered("sizes: only those of files")
    lines = [line.split() for line in Path(sizes["file"]).read_text().splitlines() if line.strip()]
    scale = 100.0 if float(lines[-1][1]) <= 1 else 1.0
    return tuple((int(size), float(share) * scale) for size, share in lines)


def listed(file: Path, starts_at: int) -> tuple[tuple[str, str, int, int, int], ...]:
    """Read a list of transfers: the flow file of HPCC, or CSV."""
    first, *lines = [line.strip() for line in file.read_text().splitlines() if line.strip()]
    if "," in first:
        names = first.split(",")
        rows = [dict(zip(names, line.split(","), strict=True)) for line in lines]
        return tuple(
            (
                row["from"],
                row["to"],
                int(row["bytes"]),
                int(Fraction(row["start_ns"]) * 1000) - starts_at,
                int(row.get("sl", 0)),
            )
            for row in rows
        )
    found = []
    for line in lines[: int(first)]:
        source, destination, level, *_, size, start = line.split()
        found.append((source, destination, int(size), int(Fraction(start) * 10**12) - starts_at, int(level)))
    return tuple(found)


def _forest(given: dict[str, Any]) -> Forest:
    return Forest(
        hotspots=given.pop("hotspots"),
        contributors=given.pop("contributors", 0),
        victims=given.pop("victims", 0),
        mixed=given.pop("mixed", 0),
        p=given.pop("p", 0),
        lifetime_ps=time_ps(given.pop("lifetime")) if "lifetime" in given else None,
    )
