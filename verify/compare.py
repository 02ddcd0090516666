"""Comparison of the simulator with the second model: equal scenarios must give exactly equal numbers."""

from __future__ import annotations

import json
import math
import re
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import silvan
from verify.quantities import NotCovered, time_ps
from verify.reading import plan
from verify.reference import Network, Sample
from verify.reference.ordering import Reordering
from verify.reference.own_flows import OwnSource
from verify.reference.pausing import OverflowedError, PausedTooLongError
from verify.searched import Searched

Scenario = Mapping[str, Any]

#: Names of the compared numbers: per flow and interval, per interval, and in total.
PER_FLOW = ("received_bytes", "sent_bytes", "ccti")
PER_INTERVAL = ("fecn_marks", "becn_received")
TOTALS = ("packets_injected", "packets_delivered", "packet_hops", "fecn_marks", "becn_received")

#: Errors and warnings of runs with pause frames.
OVERFLOW = re.compile(
    r"buffer overflow at (.*?): the receiver of (\S+) lacks (\d+) B for a packet on VL (\d+), because the "
    r"headroom of (the lane|all lanes of the switch) is only (\d+) B;"
)
TOO_LONG = re.compile(r"pause watchdog at (.*?): (\S+) is paused on VL (\d+) since (.*?), and ")
WARNING = re.compile(
    r"Pause watchdog: (\S+) \(VL (\d+)\) was paused for (.*?) without interruption"
    r"(?:, and (one|\d+) other lanes? .*)?\.$"
)


def toml(value: Any, *, top: bool = False) -> str:
    """Write a value as TOML. At the top level, each key has a line, and tables are inline."""
    if isinstance(value, Mapping):
        entries = [f"{key} = {toml(inner)}" for key, inner in value.items()]
        return "\n".join(entries) + "\n" if top else "{ " + ", ".join(entries) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml(inner) for inner in value) + "]"
    return json.dumps(value)


@dataclass(frozen=True)
class Difference:
    """A number that differs between the two models."""

    time_ns: int | None
    what: str
    reference: int
    simulated: int

    def __str__(self) -> str:
        when = "in all" if self.time_ns is None else f"in the interval to {self.time_ns} ns"
        return f"{self.what} {when}: {self.reference} by the reference, {self.simulated} simulated"


def differences(scenario: Scenario) -> list[Difference]:
    """Run a scenario in both models and list the differences: those of intervals in order, then others.

    `NotCovered` is raised if the second model does not cover the scenario.
    """
    net = Network(plan(scenario))
    wiring = net.plan.wiring
    if isinstance(wiring, Searched):
        scenario = wiring.with_root(scenario)
    given = silvan.Scenario.from_toml(toml(scenario, top=True))
    try:
        samples = net.run()
    except (OverflowedError, PausedTooLongError) as stopped:
        return _stops(given, net, stopped)
    result = _run(given, net)
    found: list[Difference] = []
    names = list(net.flows)
    step = net.plan.interval_ps // 1000
    flows, network = result.numpy("flows"), result.numpy("network")
    simulated = {
        (int(t), str(name)): row
        for row, (t, name) in enumerate(zip(flows["time_ns"], flows["flow"], strict=True))
    }
    rows = {now: row for row, now in enumerate(network["time_ns"].tolist())}
    sent: dict[str, int] = {}
    for number, sample in enumerate(samples):
        now = (number + 1) * step
        expected = {"received_bytes": sample.received, "sent_bytes": sample.sent, "ccti": sample.ccti}
        for what in PER_FLOW:
            for name in names:
                got = int(flows[what][simulated[now, name]])
                if got != expected[what][name]:
                    found.append(Difference(now, f"{what} of flow {name}", expected[what][name], got))
        row = rows[now]
        for what in PER_INTERVAL:
            if (got := int(network[what][row])) != getattr(sample, what):
                found.append(Difference(now, what, getattr(sample, what), got))
        found += _isolation(result, row, now, sample.isolation)
        found += _hosts(result, number, sample, samples[number - 1] if number else None, now)
        found += _links(result, number, sample, sent, now)
        found += _classes(result, number, sample, now)
    totals = dict(
        zip(TOTALS, (net.injected, net.delivered, net.hops, net.fecn_marks, net.becn_received), strict=True)
    )
    for what in TOTALS:
        if totals[what] != result.summary[what]:
            found.append(Difference(None, what, totals[what], result.summary[what]))
    return found + _options(result, net)


def _options(result: silvan.Result, net: Network) -> list[Difference]:
    """Compare the results that only some scenarios have."""
    plan_ = net.plan
    parts = [
        _retries(result, net) if plan_.retry else [],
        _pauses(result, net) if plan_.pfc else [],
        _logs(result, net) if plan_.keeps_logs else [],
        _trimming(result, net) if plan_.switch.trimming else [],
        _losses(result, net) if plan_.loses else [],
        _reordering(result, net.reordering) if plan_.reorders else [],
        _transfers(result, net) if net.own_flows else [],
    ]
    return [one for part in parts for one in part]


def _transfers(result: silvan.Result, net: Network) -> list[Difference]:
    """Compare the start, delivery and last acknowledgement of each transfer that has its own flow."""
    never = -1
    expected = []
    for flow in net.own_flows:
        own = flow.source
        assert isinstance(own, OwnSource)
        times = (never if time is None else time for time in (own.delivered, own.acknowledged))
        expected.append((own.created, *flow.ends, own.size, *times))
    table = result.numpy("transfers")
    columns = [table[name] for name in ("start_ns", "from", "to", "bytes", "delivered_ns", "acked_ns")]
    got = [
        (
            round(start * 1000),
            str(source),
            str(to),
            int(size),
            *(never if math.isnan(time) else round(time * 1000) for time in times),
        )
        for start, source, to, size, *times in zip(*columns, strict=True)
    ]
    if len(got) != len(expected):
        return [Difference(None, "transfers", len(expected), len(got))]
    for ours, theirs in zip(sorted(expected), sorted(got), strict=True):
        name = f"of the transfer from {ours[1]} to {ours[2]} of {ours[3]} bytes that starts at {ours[0]} ps"
        if ours[:4] != theirs[:4]:
            return [Difference(None, f"start {name}", ours[0], theirs[0])]
        for what, expected_ps, got_ps in zip(("delivery", "end"), ours[4:], theirs[4:], strict=True):
            if expected_ps != got_ps:
                return [Difference(None, f"{what} {name}", expected_ps, got_ps)]
    return []


def _retries(result: silvan.Result, net: Network) -> list[Difference]:
    """Compare the frames that were sent again, those that were bad, and expiries of timers."""
    summary, found = result.summary["retries"], []
    ends = [channel.retry for channel in net.channels if channel.retry]
    for what in ("replayed", "bad", "timeouts"):
        expected = sum(getattr(end, what) for end in ends)
        if (got := summary[what]) != expected:
            found.append(Difference(None, f"frames and timers: {what}", expected, got))
    return found


def _run(scenario: silvan.Scenario, net: Network) -> silvan.Result:
    """Run a scenario in the simulator.

    `NotCovered` is raised if the simulator refuses it because of a cycle of old and new routes, for which the
    second model does not search, or because of too little headroom, which the second model finds only if a
    packet does not fit.
    """
    try:
        return silvan.run(scenario)
    except silvan.ScenarioError as error:
        if net.plan.reroutes_after_ps is not None and "when switches change their tables" in str(error):
            raise NotCovered("rerouting: old and new routes together can deadlock") from error
        if net.plan.pfc and "but needs" in str(error):
            raise NotCovered("flow_control: the headroom is too small") from error
        raise


def _stops(
    scenario: silvan.Scenario, net: Network, stopped: OverflowedError | PausedTooLongError
) -> list[Difference]:
    """Compare the error with which a run with pause frames stops."""
    try:
        _run(scenario, net)
        message = "the run ends"
    except silvan.ModelError as error:
        message = str(error)
    if isinstance(stopped, OverflowedError):
        lost = stopped.overflow
        expected = [lost.time, lost.link, lost.lack.missing, lost.lane, lost.lack.headroom, lost.lack.is_pool]
        parts = OVERFLOW.match(message)
        if parts:
            time, link, missing, lane, whose, headroom = parts.groups()
            got = [time_ps(time), link, int(missing), int(lane), int(headroom), whose != "the lane"]
    else:
        expected = [stopped.time, stopped.link, stopped.lane, stopped.since]
        parts = TOO_LONG.match(message)
        if parts:
            time, link, lane, since = parts.groups()
            got = [time_ps(time), link, int(lane), time_ps(since)]
    if parts and got == expected:
        return []
    return [Difference(None, f"the run stops with {stopped!r}, not with '{message}'", 1, 0)]


def _pauses(result: silvan.Result, net: Network) -> list[Difference]:
    """Compare the pauses of each lane that was paused, their totals, and the report of the watchdog."""
    rows = []
    for channel in net.channels:
        assert channel.pausing
        for lane, pause in enumerate(channel.pausing.lanes):
            if pause.first is not None:
                total, longest = pause.until(net.plan.duration_ps)
                rows.append((channel.name, lane, pause.pauses, pause.resumes, total, longest, pause.first))
    table = result.numpy("pauses")
    whole = ("link", "vl", "pause_frames", "resume_frames")
    times = ("paused_ns", "longest_ns", "first_ns")
    columns = [table[key].tolist() for key in whole]
    columns += [[round(time * 1000) for time in table[key].tolist()] for key in times]
    of_table = list(zip(*columns, strict=True))
    # The models list links in different orders. Of equal pauses, the summary names the first of the table.
    found = _unlike("pauses of lanes", sorted(rows), sorted(of_table))
    simulated = result.summary["pauses"]
    longest_row = max(of_table, key=lambda row: row[5], default=None)
    if longest_row and longest_row[5] == 0:
        longest_row = None
    expected = {
        "lanes": len(rows),
        "pause_frames": sum(row[2] for row in rows),
        "paused_ns": sum(row[4] for row in rows),
        "longest_ns": longest_row[5] if longest_row else 0,
    }
    for what, value in expected.items():
        got = simulated[what]
        if what.endswith("_ns"):
            got = round(got * 1000)
        if got != value:
            found.append(Difference(None, f"pauses: {what}", value, got))
    place = (simulated["longest_link"], simulated["longest_vl"])
    if place != (longest_row[:2] if longest_row else (None, None)):
        found.append(Difference(None, f"place of the longest pause (simulated: {place})", 0, 1))
    return found + _watchdog(result, net)


def _watchdog(result: silvan.Result, net: Network) -> list[Difference]:
    """Compare the warning of the watchdog."""
    warned = [parts.groups() for text in result.warnings if (parts := WARNING.match(text))]
    simulated = [
        (link, int(lane), time_ps(paused), 1 if others == "one" else int(others or 0))
        for link, lane, paused, others in warned
    ]
    long = net.long_pauses()
    return _unlike("warnings of the watchdog", [(*long[0], len(long) - 1)] if long else [], simulated)


def _hosts(
    result: silvan.Result, number: int, sample: Sample, before: Sample | None, now: int
) -> list[Difference]:
    """Compare what each host received and sent in an interval."""
    rows, found, count = result.numpy("hosts"), [], len(sample.hosts)
    for place, (name, totals) in enumerate(sample.hosts.items()):
        earlier = before.hosts[name] if before else (0, 0)
        for what, total, was in zip(("received_bytes", "sent_bytes"), totals, earlier, strict=True):
            if (got := int(rows[what][number * count + place])) != total - was:
                found.append(Difference(now, f"{what} of host {name}", total - was, got))
    return found


def _links(
    result: silvan.Result, number: int, sample: Sample, earlier: dict[str, int], now: int
) -> list[Difference]:
    """Compare the bytes of all packets and frames that each link sent in an interval.

    Times are rounded up, so the remaining bytes of a frame that starts at the end of an interval can exceed
    the size of the frame, and the total of the link can decrease. The interval then counts 0 bytes. `earlier`
    contains the total of each link up to the last sample, and is updated.
    """
    rows, found, count = result.numpy("links"), [], len(sample.links)
    part = slice(number * count, (number + 1) * count)
    simulated = dict(zip(rows["link"][part].tolist(), rows["sent_bytes"][part].tolist(), strict=True))
    for name, total in sample.links.items():
        sent = max(total - earlier.get(name, 0), 0)
        earlier[name] = earlier.get(name, 0) + sent
        if simulated[name] != sent:
            found.append(Difference(now, f"bytes sent on {name}", sent, simulated[name]))
    return found


def _classes(result: silvan.Result, number: int, sample: Sample, now: int) -> list[Difference]:
    """Compare the delivered packets of each flow and pattern in an interval, and their latency."""
    rows, found, count = result.numpy("classes"), [], len(sample.classes)
    names = rows["class"][number * count : (number + 1) * count].tolist()
    for place, name in enumerate(names, start=number * count):
        tally = sample.classes[name]
        expected = {
            "delivered_packets": tally.packets,
            "marked_packets": tally.marked,
            "validated_packets": tally.validated,
        }
        for what, value in expected.items():
            if (got := int(rows[what][place])) != value:
                found.append(Difference(now, f"{what} of class {name}", value, got))
        times = {"generation": tally.since_generation, "injection": tally.since_injection}
        for since, total in times.items():
            # The simulator gives the mean, in nanoseconds.
            got = rows[f"mean_since_{since}_ns"][place] * tally.packets * 1000 if tally.packets else 0
            if abs(got - total) > 1:
                found.append(Difference(now, f"time since {since} of class {name}", total, round(got)))
    return found


def _isolation(result: silvan.Result, row: int, now: int, expected: Mapping[str, int]) -> list[Difference]:
    """Compare the counts of special queues in an interval, if there are special queues."""
    found = []
    for what, count in expected.items():
        if (got := int(result.numpy("isolation")[what][row])) != count:
            found.append(Difference(now, f"{what} of special queues", count, got))
    return found


def _logs(result: silvan.Result, net: Network) -> list[Difference]:
    """Compare the congestion logs: totals, then the latest 15 events of each switch and 13 of each host."""
    hosts, totals = net.plan.wiring.hosts, result.summary["congestion_log"]
    # If routes determine the service levels, the second model has no levels.
    levels = not net.plan.lanes.by_way
    marked = {name: sorted(switch.marked) for name, switch in net.switches.items() if switch.marked}
    raised = {name: sorted(host.raised) for name, host in net.hosts.items() if host.raised}
    expected = [(name, len(log), sorted({port for _, port, *_ in log})) for name, log in marked.items()]
    simulated = [(one["switch"], one["events"], one["ports"]) for one in totals["switches"]]
    found = _unlike("totals of the log of switch", expected, simulated)
    of_hosts = [
        (name, len(log), sorted({level for _, _, level, _ in log}) if levels else [])
        for name, log in raised.items()
    ]
    got = [(one["host"], one["events"], one["service_levels"] if levels else []) for one in totals["hosts"]]
    found += _unlike("totals of the log of host", of_hosts, got)
    rows = [
        (name, time, port, hosts[source], hosts[to], level if levels else 0)
        for name, log in marked.items()
        for time, port, source, to, level in log[-15:]
    ]
    table = result.numpy("congestion_log_switches")
    columns = [table[key].tolist() for key in ("switch", "time_ns", "port", "source", "destination", "sl")]
    found += _unlike("log of switch", rows, _rows(columns, levels=levels))
    answers = [
        (name, time, source, hosts[to], level if levels else 0)
        for name, log in raised.items()
        for time, to, level, source in log[-13:]
    ]
    table = result.numpy("congestion_log_hosts")
    columns = [table[key].tolist() for key in ("host", "time_ns", "class", "destination", "sl")]
    return found + _unlike("log of host", answers, _rows(columns, levels=levels))


def _trimming(result: silvan.Result, net: Network) -> list[Difference]:
    """Compare trimmed packets: totals, then those of each output."""
    expected = {
        "trimmed_packets": net.trimmed,
        "retransmitted_packets": net.resent,
        "most_header_bytes": net.most_headers,
    }
    simulated = result.summary["trimming"]
    found = [
        Difference(None, what, count, simulated[what])
        for what, count in expected.items()
        if count != simulated[what]
    ]
    by_output = sorted(
        (f"{switch.name}:{output}", count)
        for switch in net.switches.values()
        for output, count in switch.trimmed.items()
        if count
    )
    table = result.numpy("trimming")
    links = [str(link).partition("->")[0] for link in table["link"].tolist()]
    rows = sorted(zip(links, table["trimmed_packets"].tolist(), strict=True))
    return found + _unlike("trimmed packets of outputs", by_output, rows)


def _losses(result: silvan.Result, net: Network) -> list[Difference]:
    """Compare lost packets of each link, the counts of recovery, dropped packets, and the lost payload."""
    expected = sorted(
        (channel.name, fault.data_packets, fault.control_packets, fault.dropped, fault.bytes)
        for channel in net.channels
        if (fault := channel.fault) and fault.bytes
    )
    table = result.numpy("losses")
    counts = ("data_packets", "control_packets", "dropped_packets", "bytes")
    columns = (table[key].tolist() for key in ("link", *counts))
    rows = sorted((str(link), *counts) for link, *counts in zip(*columns, strict=True))
    found = _unlike("lost packets of links", expected, rows)
    if net.plan.recovery:
        repeated = {
            "resent_packets": net.resent,
            "repeated_bytes": net.repeated,
            "discarded_packets": net.discarded,
            "timeouts": net.timeouts,
            "overtaken_packets": net.overtaken,
            "retired_values": net.retired,
            "restored_values": net.restored,
            "probes": net.path_probes,
        }
        simulated = result.summary["losses"]["recovery"]
        found += [
            Difference(None, what, count, simulated[what])
            for what, count in repeated.items()
            if count != simulated[what]
        ]
    if net.plan.pfc and net.plan.pfc.lossy:
        dropped = sum(channel.fault.dropped for channel in net.channels if channel.fault)
        if (got := result.summary["losses"]["dropped_packets"]) != dropped:
            found.append(Difference(None, "dropped packets", dropped, got or 0))
    payload = result.summary["losses"]["payload_bytes"]
    if payload != net.lost_payload:
        found.append(Difference(None, "lost payload", net.lost_payload, payload))
    return found


def _rows(columns: list[list[Any]], *, levels: bool) -> list[tuple[Any, ...]]:
    """Return the rows of a log with times in picoseconds. Without `levels`, all levels are 0."""
    rows = zip(*columns, strict=True)
    return [(name, round(time * 1000), *rest, level if levels else 0) for name, time, *rest, level in rows]


def _unlike(what: str, expected: list[tuple[Any, ...]], simulated: list[tuple[Any, ...]]) -> list[Difference]:
    """Compare two lists of rows.

    The difference states the numbers of rows, and in its name the first rows that differ.
    """
    if expected == simulated:
        return []
    pairs = zip(expected, simulated, strict=False)
    first = next(((one, two) for one, two in pairs if one != two), ("none", "none"))
    name = f"{what} (first rows that differ: {first[0]}, {first[1]})"
    return [Difference(None, name, len(expected), len(simulated))]


def _reordering(result: silvan.Result, tally: Reordering) -> list[Difference]:
    """Compare the reordering at receivers."""
    simulated = result.summary["reordering"]
    expected = {
        "late_packets": tally.late,
        "held_packets": tally.held,
        "most_held_bytes": tally.most_bytes,
    }
    found = [
        Difference(None, what, count, simulated[what])
        for what, count in expected.items()
        if count != simulated[what]
    ]
    # The simulator gives the mean, in nanoseconds.
    got = (simulated["mean_held_ns"] or 0) * tally.released * 1000
    if abs(got - tally.waited_ps) > 1:
        found.append(Difference(None, "time for which packets were held", tally.waited_ps, round(got)))
    return found


@dataclass
class Compared:
    """A sentence for each scenario that differs, and for each that the reference does not cover."""

    wrong: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


#: Seconds after which the comparison of one scenario counts as an error.
MOST_SECONDS = 300


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """Raise `TimeoutError` in the block if it takes longer. Without effect outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def expired(_number: int, _frame: object) -> None:
        raise TimeoutError(f"has not ended within {seconds} s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def compare(cases: Iterable[tuple[str, Scenario]], *, show: bool = True) -> Compared:
    """Compare scenarios. If `show`, print the outcome of each scenario that the reference covers."""
    compared = Compared()
    for name, scenario in cases:
        began = time.perf_counter()
        try:
            with _limited(MOST_SECONDS):
                found = differences(scenario)
        except NotCovered as refused:
            compared.refused.append(f"{name}: {refused}")
            continue
        except Exception as error:
            # The error of one scenario must not end the comparison of the others.
            compared.wrong.append(f"{name}: {type(error).__name__}: {error}")
            continue
        if show:
            verdict = "differs" if found else "same"
            print(f"  {name:<44} {verdict:<8} {time.perf_counter() - began:6.2f} s")
        if found:
            compared.wrong.append(f"{name}: {found[0]} ({len(found)} differences)")
            if show:
                print(f"    {found[0]} ({len(found)} differences)")
    return compared
