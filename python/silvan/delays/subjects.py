"""Finds the messages to explain, and what the scenario says about their network."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from silvan._core import Scenario, SilvanError
from silvan.delays.causes import Causes
from silvan.delays.explain import (
    Explanation,
    Message,
    explain,
    ideal_time,
    messages,
    repeated,
    shape,
    usual_rates,
)
from silvan.delays.jobs import Ranks, Step
from silvan.delays.jobs import explain as explain_step
from silvan.delays.record import MOST_DEPARTURES, NONE, FlowKey, Record, record

if TYPE_CHECKING:
    from silvan.results import Result

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

Progress = Callable[[int, int, int], object]
#: A recording starts this much before the first message, for marks that caused earlier reactions (100 us, in
#: ps).
BEFORE = 100_000_000


@dataclass(frozen=True)
class Wanted:
    """A message to explain, as the tables of results name it. Times are picoseconds."""

    sender: str
    receiver: str
    start: int
    end: int
    bytes: int
    ideal: int

    @property
    def delay(self) -> int:
        """Duration beyond the one on an empty network."""
        return self.end - self.start - self.ideal


def of_results(result: Result) -> list[Wanted] | None:
    """Return the finished transfers and messages of jobs of a run; None if the run records neither."""
    found = []
    known = False
    for table, names in (
        ("transfers", ("from", "to", "start_ns", "delivered_ns", "bytes", "ideal_ns")),
        ("messages", ("from_rank", "to_rank", "handed_ns", "delivered_ns", "bytes", "alone_ns")),
    ):
        if table not in result.tables:
            continue
        known = True
        columns = result.numpy(table)
        is_finished = ~np.isnan(columns["delivered_ns"].astype(float))
        values = [columns[name][is_finished].tolist() for name in names]
        hosts = _hosts_of_ranks(result) if table == "messages" else {}
        jobs = columns["job"][is_finished].tolist() if table == "messages" else [None] * len(values[0])
        for job, sender, receiver, start, end, size, ideal in zip(jobs, *values, strict=True):
            ends = (hosts[job, sender], hosts[job, receiver]) if table == "messages" else (sender, receiver)
            if ends[0] != ends[1]:
                begin, done, least = (round(time * 1000) for time in (start, end, ideal))
                found.append(Wanted(str(ends[0]), str(ends[1]), begin, done, int(size), least))
    return found if known else None


def _hosts_of_ranks(result: Result) -> dict[tuple[Any, Any], str]:
    ranks = result.numpy("ranks")
    rows = zip(ranks["job"].tolist(), ranks["rank"].tolist(), ranks["host"].tolist(), strict=True)
    return {(job, rank): str(host) for job, rank, host in rows}


class Network:
    """A recording with what the scenario says about the network."""

    def __init__(self, scenario: Scenario, recorded: Record, result: Result | None = None) -> None:
        self.record, self.scenario = recorded, scenario
        self.spec = tomllib.loads(scenario.to_toml(standalone=True))
        self.hosts = recorded.hosts
        self.usual_rates = usual_rates(recorded)
        self._result = result
        self._known_alternatives: dict[int, dict[int, list[int]]] = {}
        self._ideals: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}

    @cached_property
    def _named(self) -> dict[tuple[str, str], str]:
        return {ends: name for name, ends in _named_flows(self.spec).items()}

    @cached_property
    def classes(self) -> list[str]:
        """Names of the classes of traffic, by number."""
        if self._result is None:
            return []
        return [str(one["class"]) for one in self._result.summary["classes"]]

    def name_of(self, flow: FlowKey) -> str:
        """Return the name of a flow: its own, or its class and its hosts."""
        ends = (self.hosts[flow.host], self.hosts[flow.destination])
        way = f"{ends[0]}->{ends[1]}"
        name = self._named.get(ends) or self.class_of(flow)
        return f"{name} ({way})" if name else way

    def class_of(self, flow: FlowKey) -> str:
        """Return the name of the class of a flow; empty if it is not known."""
        packets = self.record.packets_of(flow)
        number = int(self.record.packets["class"][packets[0]]) if len(packets) else len(self.classes)
        return self.classes[number] if number < len(self.classes) else ""

    @cached_property
    def _down(self) -> dict[int, list[tuple[int, int]]]:
        """The times in which each channel is down, from the table of events."""
        if self._result is None or "events" not in self._result.tables:
            return {}
        ends: dict[frozenset[str], list[int]] = {}
        for number, channel in enumerate(self.record.channels):
            ends.setdefault(frozenset(channel.name.split("->")), []).append(number)
        events = self._result.numpy("events")
        found: dict[int, list[tuple[int, int]]] = {}
        since: dict[str, int] = {}
        rows = zip(
            events["place"].tolist(), events["time_ns"].tolist(), events["state"].tolist(), strict=True
        )
        last = self.record.until + 1
        for place, time, state in rows:
            if state == "down":
                since.setdefault(place, round(time * 1000))
            elif place in since:
                for number in ends.get(frozenset(place.split(" - ")), ()):
                    found.setdefault(number, []).append((since[place], round(time * 1000)))
                del since[place]
        for place, begin in since.items():
            for number in ends.get(frozenset(place.split(" - ")), ()):
                found.setdefault(number, []).append((begin, last))
        return {number: sorted(spans) for number, spans in found.items()}

    @cached_property
    def _has_paths(self) -> bool:
        ecmp, adaptive = (self.spec.get(name, {}) for name in ("ecmp", "adaptive_routing"))
        return bool(ecmp.get("enabled", bool(ecmp)) or adaptive.get("enabled", bool(adaptive)))

    def _alternatives(self, destination: int) -> dict[int, list[int]]:
        """Return, for each channel, the others of its switch from which a host is equally far."""
        if not self._has_paths:
            return {}
        if destination not in self._known_alternatives:
            self._known_alternatives[destination] = self._find_alternatives(destination)
        return self._known_alternatives[destination]

    def _find_alternatives(self, destination: int) -> dict[int, list[int]]:
        into: dict[int, list[int]] = {}
        for number, channel in enumerate(self.record.channels):
            into.setdefault(channel.to_switch, []).append(number)
        first = next(one for one in self.record.channels if one.to_host == destination)
        distance = {first.from_switch: 0}
        queue = deque(distance)
        while queue:
            switch = queue.popleft()
            for number in into.get(switch, ()):
                before = self.record.channels[number].from_switch
                if before != NONE and before not in distance:
                    distance[before] = distance[switch] + 1
                    queue.append(before)
        groups: dict[tuple[int, int], list[int]] = {}
        for number, channel in enumerate(self.record.channels):
            far = distance.get(channel.to_switch)
            if channel.from_switch != NONE and far is not None:
                groups.setdefault((channel.from_switch, far), []).append(number)
        return {one: [other for other in group if other != one] for group in groups.values() for one in group}

    def causes(self, message: Message) -> Causes:
        """Return what follows the waits of a message."""
        switch = self.spec.get("switch", {})
        reaction = self.spec.get("congestion", {}).get("reaction", {})
        return Causes(
            record=self.record,
            flow=message.flow,
            usual_rates=self.usual_rates,
            hosts=self.hosts,
            alternatives=self._alternatives(message.flow.destination),
            down=self._down,
            has_one_queue=switch.get("queues") == "single",
            shares_inputs=switch.get("architecture") in {"iq", "cioq"},
            requests_grants=reaction.get("kind") in {"rccc"},
            span=(message.start, message.end),
            own=frozenset(message.packets),
            repeated=repeated(self.record, message.packets),
        )

    def explain(self, message: Message) -> Explanation:
        """Explain the duration of a message."""
        return explain(message, self.causes(message), self.ideal(message))

    def ideal(self, message: Message) -> int:
        """Return the time (ps) that a message takes alone on its route, with usual rates."""
        key = shape(message, self.record)
        if key not in self._ideals:
            self._ideals[key] = ideal_time(*key, self.record.channels, self.usual_rates)
        return self._ideals[key]

    def messages_of(self, flow: FlowKey) -> Iterator[Message]:
        """Yield the recorded messages of a flow."""
        return messages(self.record, flow)

    def messages(self, sender: str | None = None, receiver: str | None = None) -> Iterator[Message]:
        """Yield the recorded messages, of all flows or of those between some hosts."""
        for flow in self.record.flows():
            ends = (self.hosts[flow.host], self.hosts[flow.destination])
            if sender in {None, ends[0]} and receiver in {None, ends[1]}:
                yield from messages(self.record, flow)

    def find(self, wanted: Wanted) -> Message:
        """Return the recording of a message of the results; raises :class:`SilvanError` if it is missing."""
        for message in self.messages(wanted.sender, wanted.receiver):
            if abs(message.start - wanted.start) < 1000 and abs(message.end - wanted.end) < 1000:
                return message
        raise SilvanError(
            f"the message of {wanted.bytes:,} B from {wanted.sender} to {wanted.receiver}, from "
            f"{wanted.start / 1000:,.0f} ns to {wanted.end / 1000:,.0f} ns, was not recorded"
        )


def _named_flows(spec: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the hosts of the flows that have a name."""
    return {str(flow["name"]): (flow["from"], flow["to"]) for flow in spec.get("flow", []) if "name" in flow}


def ends_of(scenario: Scenario, name: str) -> tuple[str, str]:
    """Return the hosts of a flow, from its name or `FROM->TO`.

    Raises :class:`SilvanError` if there is no such flow.
    """
    named = _named_flows(tomllib.loads(scenario.to_toml(standalone=True)))
    if name in named:
        return named[name]
    sender, arrow, receiver = name.partition("->")
    if arrow and sender and receiver:
        return sender.strip(), receiver.strip()
    flows = ", ".join(named) if named else "none has a name"
    raise SilvanError(f"--flow {name}: no such flow; give its name ({flows}), or its hosts, such as H1->H2")


def choose(
    result: Result,
    *,
    flow: str | None,
    slowest: int,
    most: int = MOST_DEPARTURES,
    progress: Progress | None = None,
) -> tuple[Network, list[Message]]:
    """Record a run again, and return the recording and its messages with the longest delays.

    `flow` names the flow to which they belong. Raises :class:`SilvanError` if there are none.
    """
    scenario = result.scenario
    ends = ends_of(scenario, flow) if flow is not None else (None, None)
    wanted = of_results(result)
    where = f" from {ends[0]} to {ends[1]}" if flow is not None else ""
    if wanted is not None:
        own = [one for one in wanted if ends[0] in {None, one.sender} and ends[1] in {None, one.receiver}]
        own.sort(key=lambda one: (-one.delay, one.start, one.sender, one.receiver))
        if own := own[:slowest]:
            begin, end = min(one.start for one in own), max(one.end for one in own)
            network = _network(result, begin - BEFORE, end, most, progress)
            return network, [network.find(one) for one in own]
    network = _network(result, 0, round(result.summary["simulated_ns"] * 1000), most, progress)
    messages = network.messages(*ends)
    found = [(message.end - message.start - network.ideal(message), message) for message in messages]
    if not found:
        raise SilvanError(f"{result.name}: no message{where} was delivered during the run")
    found.sort(key=lambda one: (-one[0], one[1].start, one[1].flow))
    return network, [message for _, message in found[:slowest]]


def _network(result: Result, begin: int, end: int, most: int, progress: Progress | None) -> Network:
    recorded = record(result.scenario, begin, end, most=most, progress=progress)
    return Network(result.scenario, recorded, result)


def job_of(result: Result, name: str) -> int:
    """Return the number of a job; raises :class:`SilvanError` if there is no such job."""
    names = [str(job["job"]) for job in result.summary.get("jobs", [])]
    if name not in names:
        known = ", ".join(names) or "none"
        raise SilvanError(f"--job {name}: no such job; the run has: {known}")
    return names.index(name)


def step_of(result: Result, job: str, number: int | None) -> Step:
    """Return a job from its start to its end, or its collective operation with a number, from 1 on.

    Raises :class:`SilvanError` if there is no such operation, or if it has not ended.
    """
    if number is None:
        found = result.summary["jobs"][job_of(result, job)]
        end = found["finished_ns"]
        if end is None:
            raise SilvanError(f"--job {job}: had not finished at the end of the run")
        return Step(job, round(found["started_ns"] * 1000), round(end * 1000) + 999)
    columns = result.numpy("collectives")
    rows = np.flatnonzero(columns["job"] == job)
    if not 1 <= number <= len(rows):
        raise SilvanError(f"--step {number}: {job} has {len(rows)} collective operations, from 1 on")
    row = rows[np.argsort(columns["start_ns"][rows], kind="stable")[number - 1]]
    start, end = (columns[name][row] for name in ("start_ns", "end_ns"))
    if np.isnan(float(end)):
        raise SilvanError(f"--step {number}: had not finished at the end of the run")
    name = f"{job}, {columns['operation'][row]} {number}"
    return Step(name, round(float(start) * 1000), round(float(end) * 1000) + 999)


def explain_job(
    result: Result,
    job: str,
    number: int | None,
    *,
    most: int = MOST_DEPARTURES,
    progress: Progress | None = None,
) -> tuple[Network, Explanation]:
    """Record a run again, and explain a job, or its collective operation with a number.

    Raises :class:`SilvanError` if there is none.
    """
    index, step = job_of(result, job), step_of(result, job, number)
    network = _network(result, step.start - BEFORE, step.end, most, progress)
    return network, explain_step(Ranks(network, index, job), step)
