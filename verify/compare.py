"""The simulator against the reference model: the same scenarios, the same numbers, exactly."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import silvan
from verify.quantities import NotCovered
from verify.reading import plan
from verify.reference import Network

Scenario = Mapping[str, Any]

#: Names of what is compared: per flow and interval, per interval, and in all.
PER_FLOW = ("received_bytes", "sent_bytes", "ccti")
PER_INTERVAL = ("fecn_marks", "becn_received")
TOTALS = ("packets_injected", "packets_delivered", "packet_hops", "fecn_marks", "becn_received")


def toml(value: Any, *, top: bool = False) -> str:
    """Write a scenario as TOML: the tables of the top level as inline tables, a line each."""
    if isinstance(value, Mapping):
        entries = [f"{key} = {toml(inner)}" for key, inner in value.items()]
        return "\n".join(entries) + "\n" if top else "{ " + ", ".join(entries) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml(inner) for inner in value) + "]"
    return json.dumps(value)


@dataclass(frozen=True)
class Difference:
    """The first number that differs in a scenario."""

    time_ns: int | None
    what: str
    reference: int
    simulated: int

    def __str__(self) -> str:
        when = "in all" if self.time_ns is None else f"in the interval to {self.time_ns} ns"
        return f"{self.what} {when}: {self.reference} by the reference, {self.simulated} simulated"


def differences(scenario: Scenario) -> list[Difference]:
    """Run a scenario on both sides and list what differs, the earliest first."""
    net = Network(plan(scenario))
    samples = net.run()
    result = silvan.run(silvan.Scenario.from_toml(toml(scenario, top=True)))
    found: list[Difference] = []
    names = [flow.plan.name for flow in net.flows]
    step = net.plan.interval_ps // 1000
    flows, network = result.numpy("flows"), result.numpy("network")
    simulated = {
        (int(t), str(name)): row
        for row, (t, name) in enumerate(zip(flows["time_ns"], flows["flow"], strict=True))
    }
    for number, sample in enumerate(samples):
        now = (number + 1) * step
        expected = {"received_bytes": sample.received, "sent_bytes": sample.sent, "ccti": sample.ccti}
        for what in PER_FLOW:
            for name in names:
                got = int(flows[what][simulated[now, name]])
                if got != expected[what][name]:
                    found.append(Difference(now, f"{what} of flow {name}", expected[what][name], got))
        row = network["time_ns"].tolist().index(now)
        for what in PER_INTERVAL:
            if (got := int(network[what][row])) != getattr(sample, what):
                found.append(Difference(now, what, getattr(sample, what), got))
        found += _isolation(result, row, now, sample.isolation)
    totals = dict(
        zip(TOTALS, (net.injected, net.delivered, net.hops, net.fecn_marks, net.becn_received), strict=True)
    )
    for what in TOTALS:
        if totals[what] != result.summary[what]:
            found.append(Difference(None, what, totals[what], result.summary[what]))
    return found


def _isolation(result: silvan.Result, row: int, now: int, expected: Mapping[str, int]) -> list[Difference]:
    """Compare what is known of special queues in an interval, where there are any."""
    found = []
    for what, count in expected.items():
        if (got := int(result.numpy("isolation")[what][row])) != count:
            found.append(Difference(now, f"{what} of special queues", count, got))
    return found


def compare(cases: Iterable[tuple[str, Scenario]], *, show: bool = True) -> list[str]:
    """Compare scenarios; return a sentence for each that differs."""
    wrong = []
    for name, scenario in cases:
        began = time.perf_counter()
        try:
            found = differences(scenario)
        except NotCovered as refused:
            print(f"  {name}: not compared: {refused}")
            continue
        if show:
            verdict = "differs" if found else "same"
            print(f"  {name:<44} {verdict:<8} {time.perf_counter() - began:6.2f} s")
        if found:
            wrong.append(f"{name}: {found[0]} ({len(found)} differences)")
            if show:
                print(f"    {found[0]} ({len(found)} differences)")
    return wrong
