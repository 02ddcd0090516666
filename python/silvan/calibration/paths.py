"""Finds the hosts of a test in a scenario, and the route between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from silvan._core import FabricError, Scenario
from silvan.calibration.keys import mtu
from silvan.calibration.measurements import CalibrationError, Measurement, shown

#: Largest number of receivers among which the nearest one is searched.
NEAR_AT_MOST = 2048
#: Most ranks per host that a job can have.
RANKS_PER_HOST = 64


@dataclass(frozen=True)
class Route:
    """The route of a message on the empty network."""

    #: Number of links, including those of the hosts; with several routes, their mean.
    cables: float
    #: Rates of the first and of the slowest link, in bytes per second.
    first: float
    slowest: float

    @property
    def switches(self) -> float:
        """Number of switches on the route."""
        return self.cables - 1


class Paths:
    """The hosts and routes of a scenario."""

    def __init__(self, scenario: Scenario) -> None:
        try:
            self._routes = scenario.routes()
        except FabricError as error:
            raise CalibrationError(
                f"{scenario.origin}: {error}; calibrate with fixed routes, and then set the routing again"
            ) from None
        self.hosts = list(self._routes.hosts)
        self._number = {name: at for at, name in enumerate(self.hosts)}

    def find(self, host: str, where: Path) -> int:
        """Return the number of a host; raises :class:`CalibrationError` for an unknown name."""
        if host not in self._number:
            some = ", ".join(self.hosts[:4])
            raise CalibrationError(
                f"{where}: the scenario has no host `{host}`; it has {len(self.hosts)}, such as {some}"
            )
        return self._number[host]

    def route(self, source: str, destination: str) -> Route:
        """Return the route between two hosts; with several routes, their mean length."""
        ends = [self._number[source]], [self._number[destination]]
        _, links, shares = self._routes.ways(*ends)
        if not links:
            raise CalibrationError(f"the scenario has no route from {source} to {destination}")
        rates = [self._routes.rates_gbit_s[link] * 1e9 / 8 for link in links]
        first = next(rate for rate, link in zip(rates, links, strict=True) if self._starts(link, source))
        return Route(sum(shares), first, min(rates))

    def _starts(self, link: int, host: str) -> bool:
        return self._routes.links[link].startswith(f"{host}->")

    def near(self) -> tuple[str, str]:
        """Return the first host and the nearest other one, with the fewest links between them."""
        others = range(1, min(len(self.hosts), NEAR_AT_MOST + 1))
        flows, _, shares = self._routes.ways([0] * len(others), list(others))
        lengths: Counter[int] = Counter()
        for flow, share in zip(flows, shares, strict=True):
            lengths[flow] += share  # type: ignore[assignment]
        nearest = min(lengths, key=lambda flow: (lengths[flow], flow))
        return self.hosts[0], self.hosts[others[nearest]]


def ends_of(text: str) -> tuple[Path, tuple[str, ...]]:
    """Divide `FILE@FROM,TO` into the file and the hosts; a file with this name takes precedence."""
    whole = Path(text)
    name, at, ends = text.rpartition("@")
    if whole.exists() or not at:
        return whole, ()
    hosts = tuple(one.strip() for one in ends.split(","))
    if len(hosts) != 2 or not all(hosts) or hosts[0] == hosts[1]:
        raise CalibrationError(f"`{text}`: must be FILE or FILE@FROM,TO with two hosts of the scenario")
    return Path(name), hosts


def file_of_ranks(text: str) -> Path:
    """Return the file of a collective operation, whose ranks have no `@FROM,TO`."""
    file, hosts = ends_of(text)
    if hosts:
        raise CalibrationError(
            f"{text}: a test of all ranks has no FROM,TO: the names of hosts in the file, or the order of "
            "hosts in the scenario, determine where the ranks are"
        )
    return file


def placed(measurements: Sequence[Measurement], paths: Paths, scenario: Scenario) -> list[Measurement]:
    """Return measurements with their hosts.

    A test between two hosts without hosts is one between the first host and the nearest other one. Raises
    :class:`CalibrationError` for unknown hosts, for two tests of a kind without hosts, and for more ranks or
    another MTU than the scenario has.
    """
    unnamed = Counter(one.kind for one in measurements if not one.hosts)
    payload = mtu(scenario)
    found = []
    for one in measurements:
        if one.kind == "collective":
            found.append(_with_ranks(one, paths))
            continue
        if not one.hosts and unnamed[one.kind] > 1:
            raise CalibrationError(
                f"{one.file}: several {one.kind} tests state no hosts; "
                f"give each as FILE@FROM,TO, such as {one.file}@{','.join(paths.near())}"
            )
        hosts = one.hosts or paths.near()
        for host in hosts:
            paths.find(host, one.file)
        notes = list(one.notes)
        if not one.hosts:
            notes.append(
                f"the hosts are assumed to be {hosts[0]} and {hosts[1]} (FILE@FROM,TO states others)"
            )
        _check_mtu(one, payload)
        found.append(replace(one, hosts=hosts, notes=tuple(notes)))
    return found


def _check_mtu(one: Measurement, payload: int) -> None:
    if one.mtu is not None and one.mtu != payload:
        raise CalibrationError(
            f"{one.file}: was measured with an MTU of {one.mtu} B, but packet.mtu is {payload} B; "
            f'give --set packet.mtu="{one.mtu} B", or the test with -m {payload}'
        )


def _with_ranks(one: Measurement, paths: Paths) -> Measurement:
    """Place the ranks of a collective operation: one per host, or as on the nodes of the file."""
    per_node = Counter(one.nodes)
    if len(set(per_node.values())) > 1:
        raise CalibrationError(f"{one.file}: nodes have different numbers of ranks; measure with equal ones")
    nodes = len(per_node)
    if list(one.nodes) != sorted(one.nodes):
        raise CalibrationError(f"{one.file}: ranks of a node must be consecutive; start them in blocks")
    known = [name for name in one.node_names if name in paths.hosts]
    if known and len(known) < nodes:
        missing = next(name for name in one.node_names if name not in paths.hosts)
        raise CalibrationError(
            f"{one.file}: the scenario has the host `{shown(known[0])}` of the test, but not "
            f"`{shown(missing)}`; name the hosts of the scenario as all nodes of the test, or as none"
        )
    shared = bool(known) or nodes == 1 or one.ranks > len(paths.hosts)
    needed = nodes if shared else one.ranks
    if needed > len(paths.hosts):
        raise CalibrationError(
            f"{one.file}: {one.ranks} ranks on {nodes} nodes need {needed} hosts, "
            f"but the scenario has {len(paths.hosts)}"
        )
    per_host = one.ranks // needed
    if per_host > RANKS_PER_HOST:
        raise CalibrationError(f"{one.file}: {per_host} ranks per host; at most {RANKS_PER_HOST}")
    hosts = tuple(known) if known else tuple(paths.hosts[:needed])
    how = "one rank per host" if per_host == 1 else f"{per_host} ranks per host"
    where = "named in the file" if known else "the first of the scenario"
    on = "1 host" if len(hosts) == 1 else f"{len(hosts)} hosts"
    notes = (*one.notes, f"the ranks are on {on}, {where}, with {how}")
    return replace(one, hosts=hosts, notes=notes)


def is_inner(one: Measurement) -> bool:
    """Return whether all ranks of a collective operation are on one host."""
    return one.kind == "collective" and len(one.hosts) == 1
