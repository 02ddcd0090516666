"""Proves the first cause of a delay: runs the scenario again without it, and compares the durations.

The random numbers of all other traffic and changes stay the same. Random streams are defined by the seed, a
purpose and an owner, such as the number of a pattern in its host. Therefore, flows, patterns, jobs and events
are not deleted: they start at the end of the run.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median_low, multimode
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from silvan import results, traces
from silvan._core import ScenarioError, SilvanError
from silvan.delays import subjects
from silvan.delays.explanation import Cause, Explanation, FlowKey, Label, Message
from silvan.delays.subjects import Network, Progress, Wanted

if TYPE_CHECKING:
    from silvan.results import Result

#: The next cause is removed, too, if the actual gain is less than this share of the predicted one.
PARALLEL = 0.5
#: Number of flows that are named.
FLOWS_NAMED = 3
#: Number of silent flows that are added at most to change the path of a flow.
MOST_SILENT = 16
#: Delays by packets of others on a link.
BUSY = (Label.OUTPUT_BUSY, Label.HASH_COLLISION)
#: Picoseconds per nanosecond, the unit of tables.
NS = 1000


@dataclass(frozen=True)
class Trial:
    """A run without causes."""

    #: What the run lacks, in words.
    removed: str
    #: Expected and actual reduction of the duration, ps. None if the subject did not end in the run.
    predicted: int
    actual: int | None


@dataclass(frozen=True)
class Proof:
    """Runs without the first cause and, if it had another cause behind it, without both."""

    trials: tuple[Trial, ...]
    #: Why there is no run, or no second one; empty if none is missing.
    reason: str = ""


class NoRemovalError(SilvanError):
    """A scenario cannot express the network without a cause."""


@dataclass(frozen=True)
class Question:
    """What is explained, and how much may be recorded."""

    result: Result
    job: str | None
    step: int | None
    most: int
    progress: Progress | None

    def of(self, result: Result) -> Question:
        """Return the same question about another run."""
        return replace(self, result=result)


@dataclass(frozen=True)
class Change:
    """A scenario without a cause."""

    removed: str
    #: The part of the delay that is expected to disappear, ps.
    predicted: int
    overrides: Mapping[str, Any]


#: The start and the end of a message, a job or an operation, ps. A message that did not end has no end.
Span = tuple[int, int | None]
#: A message: its table, its class or job, its ends, and its number among the messages between these ends.
Key = tuple[str, str, Any, Any, int]


def prove(question: Question, network: Network, found: Explanation) -> Proof:
    """Run the scenario again without the first cause of an explanation.

    If the actual gain is less than half of the predicted one, another cause has taken the place of the first
    one. The first cause in the changed run is then removed, too.
    """
    with TemporaryDirectory(prefix="silvan-proof-") as folder:
        trials: list[Trial] = []
        try:
            question = _with_messages(question, found)
            change = without(question, network, found, Path(folder, "1"))
            key, duration = _located(question, network, found)
            after = _run(question, change)
            span = _span(question.of(after), key)
            gain = _gain(duration, span)
            trials.append(Trial(change.removed, change.predicted, gain))
            if gain is None or gain >= PARALLEL * change.predicted:
                return Proof(tuple(trials))
            again = question.of(after)
            second = without(again, *_explained(again, found, span), Path(folder, "2"))
            removed = f"{change.removed} and {second.removed}"
            gain_of_both = _gain(duration, _span(question.of(_run(again, second)), key))
            trials.append(Trial(removed, gain + second.predicted, gain_of_both))
        except NoRemovalError as error:
            return Proof(tuple(trials), f"{'in that run, ' if trials else ''}{error}")
        return Proof(tuple(trials))


def _run(question: Question, change: Change) -> Result:
    try:
        scenario = question.result.scenario.with_overrides(change.overrides)
        return results.run(scenario, progress=question.progress)
    except ScenarioError as error:
        raise NoRemovalError(f"the scenario without {change.removed} is invalid: {error}") from error


def _gain(duration: int, after: Span) -> int | None:
    return None if after[1] is None else duration - (after[1] - after[0])


def _with_messages(question: Question, found: Explanation) -> Question:
    """Return the question about a run that records its messages."""
    result = question.result
    if not isinstance(found.subject, Message) or "transfers" in result.tables:
        return question
    scenario = result.scenario.with_overrides({"measure.transfers": True})
    return question.of(results.run(scenario, progress=question.progress))


def _located(question: Question, network: Network, found: Explanation) -> tuple[Key | None, int]:
    """Return the key of the message that is explained, None for jobs, and the duration in the tables."""
    subject, result = found.subject, question.result
    if not isinstance(subject, Message):
        start, end = _span(question, None)
        assert end is not None
        return None, end - start
    ends = network.hosts[subject.flow.host], network.hosts[subject.flow.destination]
    hosts = subjects.hosts_of_ranks(result) if "ranks" in result.tables else {}
    for key, (start, end) in _messages(result).items():
        table, job, *pair = key[:4]
        own = tuple(hosts[job, rank] for rank in pair) if table == "messages" else tuple(pair)
        if own == ends and abs(start - subject.start) < NS and end and abs(end - subject.end) < NS:
            return key, end - start
    raise NoRemovalError("the tables of the run do not contain the message")


def _messages(result: Result) -> dict[Key, Span]:
    """Return the messages in the tables of a run."""
    found: dict[Key, Span] = {}
    for table, names in (
        ("transfers", ("class", "from", "to", "start_ns", "delivered_ns")),
        ("messages", ("job", "from_rank", "to_rank", "handed_ns", "delivered_ns")),
    ):
        if table not in result.tables:
            continue
        columns = result.numpy(table)
        order = np.argsort(columns[names[3]], kind="stable")
        count: Counter[tuple[Any, ...]] = Counter()
        rows = zip(*(columns[name][order].tolist() for name in names), strict=True)
        for name, sender, receiver, start, end in rows:
            ends = (name, sender, receiver)
            done = None if np.isnan(end) else round(end * NS)
            found[table, name, sender, receiver, count[ends]] = (round(start * NS), done)
            count[ends] += 1
    return found


def _span(question: Question, key: Key | None) -> Span:
    """Return when a message, or the job or operation of the question, started and ended."""
    if key is not None:
        return _messages(question.result).get(key, (0, None))
    assert question.job is not None
    try:
        step = subjects.step_of(question.result, question.job, question.step)
    except SilvanError:
        return 0, None
    return step.start, step.end


def _explained(question: Question, found: Explanation, span: Span) -> tuple[Network, Explanation]:
    """Explain the same subject in a changed run, in which it has another time."""
    result, most, progress = question.result, question.most, question.progress
    if question.job is not None:
        return subjects.explain_job(result, question.job, question.step, most=most, progress=progress)
    start, end = span
    assert isinstance(found.subject, Message)
    assert end is not None
    flow = found.subject.flow
    network = subjects.recorded(result, start, end, most=most, progress=progress)
    wanted = Wanted(
        "", network.hosts[flow.host], network.hosts[flow.destination], start, end, found.subject.bytes, 0
    )
    return network, network.explain(network.find(wanted))


def without(question: Question, network: Network, found: Explanation, folder: Path) -> Change:
    """Return the scenario without the first cause of an explanation.

    `folder` is for files of the changed scenario. Raises :class:`NoRemovalError` if there is no such
    scenario.
    """
    if not found.causes:
        raise NoRemovalError("nothing delayed it")
    cause = found.causes[0]
    removal = _Removal(question, network, found, cause, folder)
    if cause.label not in REMOVALS:
        raise removal.refuse("a scenario cannot express the network without it")
    return REMOVALS[cause.label](removal)


@dataclass(frozen=True)
class _Removal:
    """A cause, and how a scenario is changed to lack it."""

    question: Question
    network: Network
    found: Explanation
    cause: Cause
    folder: Path

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.network.spec
        return spec

    @property
    def late(self) -> str:
        """The end of the run."""
        return f"{self.network.scenario.duration_ns - 1} ns"

    def change(self, removed: str, overrides: Mapping[str, Any]) -> Change:
        return Change(removed, self.cause.ps, overrides)

    def refuse(self, reason: str) -> NoRemovalError:
        cause = self.cause
        return NoRemovalError(f"{cause.label.value} at {cause.place} cannot be removed: {reason}")

    def owners(self) -> Change:
        """Remove the flows that used the place, except those without which the subject would not exist."""
        subject = self.found.subject
        own = subject.flow if isinstance(subject, Message) else None
        by_source: dict[tuple[str, int], list[tuple[FlowKey, int]]] = {}
        for flow, ps in self.cause.owners:
            if own is None or (flow.host, flow.destination) != (own.host, own.destination):
                by_source.setdefault(self._source_of(flow), []).append((flow, ps))
        own_source = ("job", self._job()) if own is None else self._source_of(own)
        tables: dict[str, list[dict[str, Any]]] = {}
        removed: list[str] = []
        whole: set[tuple[str, int]] = set()
        single: set[FlowKey] = set()
        for (kind, index), flows in by_source.items():
            table = tables.get(kind) or [dict(one) for one in self.spec[kind]]
            if (kind, index) == own_source:
                if kind != "traffic":
                    continue
                if _is_replayable(table[index]):
                    table[index] = self._replayed(table[index], flows)
                elif self._has_separate_hosts(index):
                    gone = {self.network.hosts[flow.host] for flow, _ in flows}
                    senders = table[index].get("hosts", self.network.hosts)
                    table[index]["hosts"] = [host for host in senders if host not in gone]
                else:
                    continue
                single.update(flow for flow, _ in flows)
            else:
                table[index].pop("start_after_packets", None)
                table[index]["start"] = self.late
                whole.add((kind, index))
            tables[kind] = table
            removed.append(self._named(kind, index, table[index], flows))
        if not removed:
            what = "its own flow or pattern, or of a flow between the same hosts"
            if own_source[0] == "job":
                what = "the job itself"
            raise self.refuse(f"the packets are those of {what}" if self.cause.owners else "it has no owners")
        # The removed flows may also delay the subject at other places.
        causes = (one for one in self.found.causes if one.label in {self.cause.label, *BUSY})
        owners = (owner for one in causes for owner in one.owners)
        predicted = sum(ps for flow, ps in owners if flow in single or self._source_of(flow) in whole)
        return Change(_listed(removed, "others"), predicted, tables)

    def _source_of(self, flow: FlowKey) -> tuple[str, int]:
        """Return the table and the index of the flow, pattern or job to which a flow belongs."""
        number = self.network.class_number(flow)
        assert number is not None
        return _sources(self.spec, self.network.classes)[number]

    def _job(self) -> int:
        assert self.question.job is not None
        return subjects.job_of(self.question.result, self.question.job)

    def _has_separate_hosts(self, index: int) -> bool:
        """Return whether each host of a pattern has one flow, and can be left out.

        Streams of a host depend on the number of its earlier patterns, so later ones would change.
        """
        pattern = self.spec["traffic"][index]["pattern"]
        has_one_target = pattern["kind"] == "hotspots" and len(pattern["to"]) == 1
        return has_one_target and index == len(self.spec["traffic"]) - 1

    def _named(
        self, kind: str, index: int, source: Mapping[str, Any], flows: Sequence[tuple[FlowKey, int]]
    ) -> str:
        """Name a removed source, or the removed flows of a pattern."""
        names = [self.network.name_of(flow) for flow, _ in flows]
        if kind == "flow":
            return f"flow {names[0]}"
        if source.get("start") == self.late:
            return f"{kind} {source.get('name', f'{kind}.{index}')}"
        return _listed(names, "other flows")

    def _replayed(self, traffic: Mapping[str, Any], flows: Sequence[tuple[FlowKey, int]]) -> dict[str, Any]:
        """Return a pattern as a list of its transfers without those of some flows."""
        hosts, result = self.network.hosts, self.question.result
        if "transfers" not in result.tables:
            raise self.refuse("the run does not record the transfers of its pattern (measure.transfers)")
        gone = {(hosts[flow.host], hosts[flow.destination]) for flow, _ in flows}
        columns = result.numpy("transfers")
        names = ("class", "from", "to", "bytes", "start_ns")
        rows = zip(*(columns[name].tolist() for name in names), strict=True)
        name, level = self.network.class_of(flows[0][0]), traffic.get("sl", 0)
        lines = [
            f"{sender},{receiver},{size},{start:.3f},{level}"
            for own, sender, receiver, size, start in rows
            if own == name and (sender, receiver) not in gone
        ]
        self.folder.mkdir()
        file = self.folder / f"{name}.csv"
        file.write_text("\n".join(["from,to,bytes,start_ns,sl", *lines, ""]), encoding="utf-8")
        return {"name": name, "pattern": {"kind": "listed", "file": str(file)}}

    def collision(self) -> Change:
        """Let the flow take another path; if the scenario cannot express that, remove the other flows."""
        subject = self.found.subject
        if isinstance(subject, Message) and (flows := self._on_another_path(subject.flow)):
            name = self.network.name_of(subject.flow)
            return self.change(f"the collision, because {name} takes another path", {"flow": flows})
        change = self.owners()
        return replace(change, removed=f"{change.removed}, which the scenario cannot move to another path")

    def _on_another_path(self, flow: FlowKey) -> list[dict[str, Any]] | None:
        """Return the flows with additional silent ones, so that the hash of a flow selects the idlest path.

        Hashes depend on the number of the source in its host, and sources are in the order of their names.
        Returns None if other sources of the host would change, or if there is no other path.
        """
        flows, (kind, index) = self.spec.get("flow", []), self._source_of(flow)
        host, receiver = (self.network.hosts[number] for number in (flow.host, flow.destination))
        is_alone = [one["from"] for one in flows].count(host) == 1 and not self.spec.get("job")
        patterns = self.spec.get("traffic", [])
        if kind != "flow" or not is_alone or any(host in one.get("hosts", [host]) for one in patterns):
            return None
        try:
            routes = self.network.scenario.routes()
        except SilvanError:
            return None
        sent = self._sent()
        paths = {}
        for count in range(1, MOST_SILENT + 1):
            _, numbers, shares = routes.ways([flow.host], [flow.destination], [count])
            links = [routes.links[number] for number in numbers]
            if self.cause.place not in links and min(shares) == 1:
                # The ends of the route belong to all paths.
                paths[count] = sorted((sent[link] for link in links), reverse=True)
        if not paths:
            return None
        silent = {**flows[index], "to": receiver, "start": self.late}
        silent.pop("start_after_packets", None)
        count = min(paths, key=lambda one: (paths[one], one))
        return [*flows, *({**silent, "name": f"! {number}"} for number in range(count))]

    def _sent(self) -> Counter[str]:
        """Return the bytes that each link sent during the run, if this was recorded."""
        sent: Counter[str] = Counter()
        if "links" in self.question.result.tables:
            links = self.question.result.numpy("links")
            for link, count in zip(links["link"].tolist(), links["sent_bytes"].tolist(), strict=True):
                sent[link] += count
        return sent

    def events(self, *kinds: str) -> dict[str, Any]:
        """Return the overrides that let the events of some kinds at the place begin at the end of the run."""
        ends = {self.cause.place, *self.cause.place.split("->")}
        switches = {end.partition(":")[0] for end in ends if ":" in end}
        found = []
        for event in self.spec.get("event", []):
            places = {*event.get("links", ()), *event.get("hosts", ())}
            is_there = bool(places & ends or set(event.get("switches", ())) & switches)
            found.append({**event, "start": self.late} if is_there and event["kind"] in kinds else event)
        return {"event": found} if found != self.spec.get("event", []) else {}

    def receiver(self) -> Change:
        """Let a host drain at the rate of its link."""
        overrides = self.events("stall", "drain")
        if "drain_rate" in self.spec["host"]:
            # Events may lower the rate only, so it may be as high as that of the fastest link.
            overrides["host.drain_rate"] = self._fastest()
        if not overrides:
            raise self.refuse("no key of the scenario slows down the host")
        return self.change(f"the limits of the drain rate of {self.cause.place}", overrides)

    def _fastest(self) -> str:
        return _rate(max(self.question.result.numpy("wiring")["rate_gbit_s"]))

    def injection(self) -> Change:
        """Let a host inject at the rate of its link."""
        overrides = self.events("drain")
        host = self.spec["host"]
        if "injection_rate" in host:
            overrides["host.injection_rate"] = self._fastest()
        if host["message_overhead"] != "0 ps":
            overrides["host.message_overhead"] = "0 ps"
        if not overrides:
            raise self.refuse("no key of the scenario slows down the host")
        return self.change(f"the limits of the injection of {self.cause.place}", overrides)

    def link(self) -> Change:
        """Give a link its usual rate."""
        overrides = self.events("rate")
        ends = [end.partition(":")[0] for end in self.cause.place.split("->")]
        links = [dict(link) for link in self.spec["topology"].get("links", ())]
        for link in links:
            if {str(link[end]).partition(":")[0] for end in ("from", "to")} == set(ends) and "rate" in link:
                link["rate"] = _usual_rate(self.question.result, self.cause.place)
                overrides["topology.links"] = links
        if not overrides:
            raise self.refuse("neither an event nor a key of this link alone sets its rate")
        return self.change(f"the lower rate of {self.cause.place}", overrides)

    def faults(self) -> Change:
        """Remove the events in which a link is down or loses packets, and the errors of links."""
        overrides = self.events("down", "errors", "stop")
        if self.spec.get("link", {}).get("error_rate_ppb", 0):
            overrides["link.error_rate_ppb"] = 0
        if not overrides and self.spec["flow_control"].get("lossy_lanes"):
            raise self.refuse("packets of lossy lanes were dropped at a full buffer")
        if not overrides:
            raise self.refuse(f"no event and no error rate concerns {self.cause.place or 'the place'}")
        return self.change(f"the faults of {self.cause.place}", overrides)

    def reaction(self) -> Change:
        """Switch off the reaction of a host; if that is impossible, remove the owners of the queue."""
        place = self.cause.place
        settings = [dict(one) for one in self.spec["congestion"].get("hosts", [])]
        for one in settings:
            one["at"] = [host for host in one["at"] if host != place]
        kept = [one for one in settings if one["at"]]
        overrides = {"congestion.hosts": [*kept, {"at": [place], "reaction": {"kind": "none"}}]}
        try:
            self.network.scenario.with_overrides(overrides)
        except ScenarioError:
            change = self.owners()
            note = f"because the reaction of {place} cannot be switched off alone"
            return replace(change, removed=f"{change.removed} ({note})")
        return self.change(f"the reaction of {place}", overrides)

    def window(self) -> Change:
        """Give flows a window of the rate times the longest round trip."""
        reaction = self.spec["congestion"]["reaction"]
        trip = self.network.scenario.check()["round_trip"]
        if reaction["kind"] != "static-window" or trip is None:
            return self.reaction()
        packets = max(trip["packets"], reaction["packets"])
        return self.change(
            f"the limit of the window ({packets} instead of {reaction['packets']} packets)",
            {"congestion.reaction.packets": packets},
        )

    def compute(self) -> Change:
        """Let a rank compute as long as the median of the ranks."""
        jobs = [dict(job) for job in self.spec["job"]]
        program = dict(jobs[self._job()]["program"])
        if program["kind"] != "trace":
            raise self.refuse("only the computation of ranks in a trace can be changed")
        self.folder.mkdir()
        file = self.folder / "trace.goal"
        text = _goal(Path(program["file"]))
        if text is None:
            if self.question.step is not None:
                raise self.refuse("traces that are converted to GOAL have no collective operations")
            reading = {key: value for key, value in program.items() if key not in {"kind", "file"}}
            traces.convert(program["file"], file, algorithms=jobs[self._job()]["algorithms"], **reading)
            text, program = file.read_text(encoding="utf-8"), {"kind": "trace"}
        file.write_text(_with_median(text, int(self.cause.place.split()[1])), encoding="utf-8")
        jobs[self._job()]["program"] = {**program, "file": str(file)}
        return self.change(f"the additional computation of {self.cause.place}", {"job": jobs})


#: How each cause is removed. The others cannot be removed.
REMOVALS: Mapping[Label, Callable[[_Removal], Change]] = {
    Label.OUTPUT_BUSY: _Removal.owners,
    Label.HASH_COLLISION: _Removal.collision,
    Label.SLOW_LINK: _Removal.link,
    Label.SLOW_RECEIVER: _Removal.receiver,
    Label.INJECTION: _Removal.injection,
    Label.PACING: _Removal.reaction,
    Label.WINDOW: _Removal.window,
    Label.LOSS: _Removal.faults,
    Label.LINK_DOWN: _Removal.faults,
    Label.LINK_ERRORS: _Removal.faults,
    Label.COMPUTE: _Removal.compute,
}


def _listed(names: Sequence[str], others: str) -> str:
    """Name the first of some things, and count the others."""
    rest = len(names) - FLOWS_NAMED
    return ", ".join(names[:FLOWS_NAMED]) + (f" and {rest} {others}" if rest > 0 else "")


def _sources(spec: Mapping[str, Any], classes: Sequence[str]) -> list[tuple[str, int]]:
    """Return the table and the index of the flow, pattern or job of each class.

    Classes are in the order of the file, flows first and jobs last. The roles of a forest are classes.
    """
    found = [("flow", index) for index in range(len(spec.get("flow", [])))]
    for index, traffic in enumerate(spec.get("traffic", [])):
        roles = 1
        if traffic["pattern"]["kind"] == "forest":
            name = traffic.get("name", f"traffic.{index}")
            roles = sum(one.startswith(f"{name}: ") for one in classes[len(found) :])
        found += [("traffic", index)] * roles
    return found + [("job", index) for index in range(len(spec.get("job", [])))]


def _is_replayable(traffic: Mapping[str, Any]) -> bool:
    """Return whether the messages of a pattern have their own flows and do not depend on the network."""
    has_own_flows = "sizes" in traffic or traffic["pattern"]["kind"] in {"incast", "listed"}
    is_open = "rate" in traffic or "load_percent" in traffic or "sizes" not in traffic
    return has_own_flows and is_open and "outstanding" not in traffic


def _goal(file: Path) -> str | None:
    """Return the text of a trace in GOAL; None for other formats."""
    data = file.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    text = data.decode("utf-8", errors="replace")
    return text if re.search(r"^\s*num_ranks\s", text, re.MULTILINE) else None


def _with_median(text: str, rank: int) -> str:
    """Return a trace in GOAL in which a rank computes as long as the median of the ranks."""
    blocks = re.compile(r"^\s*rank\s+(\d+)\s*\{([^}]*)\}", re.MULTILINE)
    found = {int(block[1]): block for block in blocks.finditer(text)}
    calculations = re.compile(r"(\bcalc\s+)(\d+)")
    sums = {
        one: sum(int(calc[2]) for calc in calculations.finditer(block[2])) for one, block in found.items()
    }
    factor = median_low(sums.values()) / max(sums[rank], 1)
    own = calculations.sub(lambda calc: f"{calc[1]}{round(int(calc[2]) * factor)}", found[rank][2])
    return text[: found[rank].start(2)] + own + text[found[rank].end(2) :]


def _rate(gbit_s: float) -> str:
    return f"{round(gbit_s * 1e9)} bit/s"


def _usual_rate(result: Result, channel: str) -> str:
    """Return the most frequent rate of the channels with the same kinds of ends, and of these the highest."""
    wiring = result.numpy("wiring")
    kinds = list(zip(wiring["from_kind"].tolist(), wiring["to_kind"].tolist(), strict=True))
    own = kinds[wiring["link"].tolist().index(channel)]
    rates = [rate for rate, kind in zip(wiring["rate_gbit_s"].tolist(), kinds, strict=True) if kind == own]
    return _rate(max(multimode(rates)))
