"""Finds the messages to explain, and what the scenario says about their network."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from silvan import _core
from silvan._core import SilvanError
from silvan.delays.explanation import Explanation, FlowKey, Message, RankTime, Step

if TYPE_CHECKING:
    from silvan.results import Result

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

Progress = Callable[[int, int, int], object]
#: Departures that a recording holds at most by default (0.9 GB).
MOST_DEPARTURES = 10_000_000
#: What to do if there are more.
FEWER = "explain fewer messages, or messages that took less time"
#: Kinds of reactions that slow down without marks, because of delays or loads.
SENSE_DELAYS = frozenset({"hpcc", "swift", "timely", "nscc", "pcc-rtt", "pcc-telemetry"})
#: A recording starts at least this much before the first message, for marks that caused earlier reactions
#: (100 us, in ps).
BEFORE = 100_000_000


class NoMessageError(SilvanError):
    """No message was delivered."""


#: What the table of transfers names all flows.
FLOWS = "flows"


class Selection(NamedTuple):
    """The messages of a flow, a pattern or a job, or those between two hosts."""

    #: The name of the class; None for all messages between the hosts.
    name: str | None = None
    #: What the tables of results name the class.
    source: str | None = None
    sender: str | None = None
    receiver: str | None = None
    #: Whether the tables of results tell these messages from others.
    is_in_tables: bool = True

    def has(self, one: Wanted) -> bool:
        """Return whether a message is selected."""
        ends = (self.source, one.source), (self.sender, one.sender), (self.receiver, one.receiver)
        return all(wanted in {None, own} for wanted, own in ends)


@dataclass(frozen=True)
class Wanted:
    """A message to explain, as the tables of results name it. Times are picoseconds."""

    #: Its pattern or job; :data:`FLOWS` for the messages of flows.
    source: str
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
        ("transfers", ("class", "from", "to", "start_ns", "delivered_ns", "bytes", "ideal_ns")),
        ("messages", ("job", "from_rank", "to_rank", "handed_ns", "delivered_ns", "bytes", "alone_ns")),
    ):
        if table not in result.tables:
            continue
        known = True
        columns = result.numpy(table)
        is_finished = ~np.isnan(columns["delivered_ns"].astype(float))
        values = [columns[name][is_finished].tolist() for name in names]
        hosts = hosts_of_ranks(result) if table == "messages" else {}
        for source, sender, receiver, start, end, size, ideal in zip(*values, strict=True):
            ends = (sender, receiver)
            if table == "messages":
                ends = (hosts[source, sender], hosts[source, receiver])
            if ends[0] != ends[1]:
                begin, done, least = (round(time * 1000) for time in (start, end, ideal))
                found.append(Wanted(str(source), str(ends[0]), str(ends[1]), begin, done, int(size), least))
    return found if known else None


def hosts_of_ranks(result: Result) -> dict[tuple[Any, Any], str]:
    """Return the host of each rank of each job."""
    ranks = result.numpy("ranks")
    rows = zip(ranks["job"].tolist(), ranks["rank"].tolist(), ranks["host"].tolist(), strict=True)
    return {(job, rank): str(host) for job, rank, host in rows}


class Network:
    """A recording of the packets of a run from `begin` to `end` (ps), with what is known of the network.

    Raises :class:`SilvanError` with `advice` if there are more than `most` departures.
    """

    def __init__(
        self,
        result: Result,
        begin: int,
        end: int,
        *,
        most: int = MOST_DEPARTURES,
        progress: Progress | None = None,
        advice: str = FEWER,
    ) -> None:
        self.scenario, self._result, self._until = result.scenario, result, end
        self.spec = tomllib.loads(self.scenario.to_toml(standalone=True))
        recording = _core.record(self.scenario, max(begin, 0), end, most, progress)
        if recording.is_full:
            raise SilvanError(
                f"{self.scenario.name}: more than {most:,} packets cross links from "
                f"{max(begin, 0) / 1e6:,.0f} to {end / 1e6:,.0f} us; {advice}"
            )
        switch = self.spec.get("switch", {})
        reaction = self.spec.get("congestion", {}).get("reaction", {})
        #: Names of the directions of links, by number.
        self.channels: list[str] = recording.channels
        circumstances: _core.Circumstances = {
            "down": self._down(self.channels),
            "has_paths": self._has_paths(),
            "has_one_queue": switch.get("queues") == "single",
            "shares_inputs": switch.get("architecture") in {"iq", "cioq"},
            "requests_grants": reaction.get("kind") == "rccc",
            "goes_back": self.spec.get("recovery", {}).get("kind") == "go-back-n",
            "senses_delays": reaction.get("kind") in SENSE_DELAYS,
        }
        self.delays = _core.Delays(recording, end, circumstances)
        self.hosts: list[str] = self.delays.hosts

    @cached_property
    def _named(self) -> dict[tuple[str, str], str]:
        return {ends: name for name, ends in _named_flows(self.spec).items()}

    @cached_property
    def classes(self) -> list[str]:
        """Names of the classes of traffic, by number."""
        return [str(one["class"]) for one in self._result.summary["classes"]]

    def name_of(self, flow: FlowKey) -> str:
        """Return the name of a flow: its own, or its class and its hosts."""
        ends = (self.hosts[flow.host], self.hosts[flow.destination])
        way = f"{ends[0]}->{ends[1]}"
        # Flows between the same hosts have different classes.
        name = self.class_of(flow) or self._named.get(ends)
        return f"{name} ({way})" if name and name != way else way

    def class_number(self, flow: FlowKey) -> int | None:
        """Return the number of the class of a flow; None if it is not known."""
        number = self.delays.class_of(flow)
        if number is None:
            # The recording may have only answers of the flow, which have its class.
            number = self.delays.class_of(FlowKey(flow.destination, flow.source, flow.host))
        return number

    def class_of(self, flow: FlowKey) -> str:
        """Return the name of the class of a flow; empty if it is not known."""
        number = self.class_number(flow)
        return self.classes[number] if number is not None and number < len(self.classes) else ""

    def queue_pairs(self, flow: FlowKey) -> int:
        """Return the number of queue pairs of two ranks of the job of a flow; 1 for other flows."""
        name = self.class_of(flow)
        jobs = enumerate(self.spec.get("job", []))
        none: dict[str, Any] = {}
        found = next((job for at, job in jobs if job.get("name", f"job.{at}") == name), none)
        return int(found.get("queue_pairs", {}).get("count", 1))

    def _down(self, channels: list[str]) -> dict[int, list[tuple[int, int]]]:
        """Return the times in which each channel is down, from the table of events."""
        if "events" not in self._result.tables:
            return {}
        ends: dict[frozenset[str], list[int]] = {}
        for number, channel in enumerate(channels):
            ends.setdefault(frozenset(channel.split("->")), []).append(number)
        events = self._result.numpy("events")
        found: dict[int, list[tuple[int, int]]] = {}
        since: dict[str, int] = {}
        rows = zip(
            events["place"].tolist(), events["time_ns"].tolist(), events["state"].tolist(), strict=True
        )
        last = self._until + 1
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

    def _has_paths(self) -> bool:
        ecmp, adaptive = (self.spec.get(name, {}) for name in ("ecmp", "adaptive_routing"))
        return bool(ecmp.get("enabled", bool(ecmp)) or adaptive.get("enabled", bool(adaptive)))

    def explain(self, message: Message) -> Explanation:
        """Explain the duration of a message."""
        return Explanation(message, self.delays.explain(message.flow, message.number))

    def explain_step(self, job: tuple[int, str], step: Step) -> Explanation:
        """Explain a job, which has a number and a name, or one of its operations."""
        found = self.delays.explain_step(job, step.start, step.end)
        ranks = tuple(RankTime(*one) for one in found.ranks())
        return Explanation(replace(step, end=found.end_ps, ranks=ranks), found)

    def _host(self, name: str) -> int:
        if name not in self.hosts:
            raise SilvanError(f"--flow: the network has no host {name}; the first is {self.hosts[0]}")
        return self.hosts.index(name)

    def slowest(self, chosen: Selection, most: int) -> list[Message]:
        """Return the selected messages with the longest delays that were recorded.

        Raises :class:`SilvanError` if there is no such host.
        """
        ends = (chosen.sender, chosen.receiver)
        sender, receiver = (None if name is None else self._host(name) for name in ends)
        found = self.delays.slowest(sender, receiver, most if chosen.name is None else sys.maxsize)
        messages = (Message(FlowKey(*flow), number, *row) for flow, number, row in found)
        is_own = (one for one in messages if chosen.name in {None, self.class_of(one.flow)})
        return list(islice(is_own, most))

    def find(self, wanted: Wanted) -> Message:
        """Return the recording of a message of the results; raises :class:`SilvanError` if it is missing."""
        # If several ports carry the message, the part that arrives last is at one of them. Other parts may
        # arrive at the same time, but only that one has the bytes of the whole message.
        found: list[Message] = []
        for of in (str, _without_port):
            for key in self.delays.flows():
                flow = FlowKey(*key)
                ends = of(self.hosts[flow.host]), of(self.hosts[flow.destination])
                if ends != (of(wanted.sender), of(wanted.receiver)):
                    continue
                for number, row in enumerate(self.delays.messages(flow)):
                    if abs(row[0] - wanted.start) < 1000 and abs(row[1] - wanted.end) < 1000:
                        found.append(Message(flow, number, *row))
                        if found[-1].bytes == wanted.bytes:
                            return found[-1]
        if found:
            return found[0]
        raise SilvanError(
            f"the message of {wanted.bytes:,} B from {wanted.sender} to {wanted.receiver}, from "
            f"{wanted.start / 1000:,.0f} ns to {wanted.end / 1000:,.0f} ns, was not recorded"
        )


def _without_port(name: str) -> str:
    """Return the name of the host of a port."""
    return name.rpartition(".")[0] or name


def _named_flows(spec: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the hosts of the flows that have a name."""
    return {str(flow["name"]): (flow["from"], flow["to"]) for flow in spec.get("flow", []) if "name" in flow}


def selected(result: Result, name: str) -> Selection:
    """Return the messages of a flow, a pattern or a job, from its name, or those of `FROM->TO`.

    Raises :class:`SilvanError` if there is no such flow.
    """
    spec = tomllib.loads(result.scenario.to_toml(standalone=True))
    named, ends = _named_flows(spec), [(flow["from"], flow["to"]) for flow in spec.get("flow", [])]
    if name in named:
        return Selection(name, FLOWS, *named[name], is_in_tables=ends.count(named[name]) == 1)
    others = {str(one["class"]) for one in result.summary["classes"][len(ends) :]}
    if name in others:
        return Selection(name, name)
    sender, arrow, receiver = name.partition("->")
    if arrow and sender and receiver:
        return Selection(sender=sender.strip(), receiver=receiver.strip())
    known = ", ".join([*named, *sorted(others)]) or "none has a name"
    raise SilvanError(f"--flow {name}: no such flow; give its name ({known}), or its hosts, such as H1->H2")


def choose(
    result: Result,
    *,
    flow: str | None,
    slowest: int,
    message: int | None = None,
    most: int = MOST_DEPARTURES,
    progress: Progress | None = None,
) -> tuple[Network, list[Message]]:
    """Record a run again, and return the recording and its messages with the longest delays.

    `flow` names the flow, the pattern or the job to which they belong, or its hosts. With `message`, return
    only the message with this number, from 1 on, in the order in which they were generated. Raises
    :class:`SilvanError` if there are none.
    """
    chosen = selected(result, flow) if flow is not None else Selection()
    wanted = of_results(result) if chosen.is_in_tables else None
    where = f" of {flow}" if flow is not None else ""
    if wanted is not None:
        own = [one for one in wanted if chosen.has(one)]
        own.sort(key=lambda one: (one.start, one.sender, one.receiver))
        if message is None:
            own.sort(key=lambda one: -one.delay)
        elif own:
            own = [_numbered(own, message)]
        if own := own[:slowest]:
            begin, end = min(one.start for one in own), max(one.end for one in own)
            network = recorded(result, begin, end, most=most, progress=progress)
            return network, [network.find(one) for one in own]
    end = round(result.summary["simulated_ns"] * 1000)
    try:
        network = Network(result, 0, end, most=most, progress=progress)
    except SilvanError as error:
        if wanted is not None or not chosen.is_in_tables:
            raise
        hint = "or record transfers (measure.transfers = true), to record only the slowest messages"
        raise SilvanError(f"{error}; {hint}") from error
    found = network.slowest(chosen, slowest if message is None else sys.maxsize)
    if not found:
        raise NoMessageError(f"{result.name}: no message{where} was delivered during the run")
    if message is not None:
        found = [_numbered(sorted(found, key=lambda one: (one.start, one.flow, one.number)), message)]
    return network, found


def _numbered(messages: list[Any], number: int) -> Any:
    if number > len(messages):
        count = f"{len(messages):,} message{' was' if len(messages) == 1 else 's were'}"
        raise SilvanError(f"--message {number}: no such message; {count} delivered")
    return messages[number - 1]


def recorded(
    result: Result, start: int, end: int, *, most: int, progress: Progress | None, advice: str = FEWER
) -> Network:
    """Record what a run did from a time on until another one (ps), and at least as long before."""
    return Network(result, start - max(BEFORE, end - start), end, most=most, progress=progress, advice=advice)


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
    advice = "explain a shorter operation" if number else "explain a collective operation of the job (step)"
    network = recorded(result, step.start, step.end, most=most, progress=progress, advice=advice)
    return network, network.explain_step((index, job), step)
