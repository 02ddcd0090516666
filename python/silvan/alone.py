"""Measures how much other traffic slows down each job, by comparison with a run of the job alone.

Each job also runs on its hosts without other jobs, flows, traffic and events such as faults. The additional
time in the full scenario is divided among the roots of congestion trees. For each root, the samples in which
a host of the job is a contributor or a victim of a tree of this root are counted, and added for all hosts.
The share of the root is proportional to this sum minus the sum in the run of the job alone, if the difference
is positive.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from silvan._core import Scenario, ScenarioError

if TYPE_CHECKING:
    from silvan.results import Result
    from silvan.types import AloneSummary, JobSummary, RootShare

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

#: Relative slowdown up to which a job counts as equally fast.
SAME = 0.005
#: Maximum number of roots that the account names, and of other traffic classes per root.
ROOTS_AT_MOST = 3

Runner = Callable[[Scenario], "Result"]


def scenarios(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """Yield the name of each job, and the scenario of that job alone on the same hosts.

    Raises `ScenarioError` if the scenario has no jobs.
    """
    spec = tomllib.loads(scenario.to_toml(standalone=True))
    jobs = spec.get("job", [])
    if not jobs:
        raise ScenarioError(f"{scenario.origin}: has no [[job]] to run alone")
    # Loss recovery needs an event, so events start at the end of the run instead of being omitted.
    never = {"start": f"{scenario.duration_ns - 1} ns"}
    calm = {"event": [{**event, **never} for event in spec["event"]]} if spec.get("event") else {}
    for job, found in zip(jobs, scenario.check()["jobs"], strict=True):
        # Placement depends on the job's number and on earlier jobs, so fix the name and the hosts.
        own = {**job, "name": found["job"], "hosts": found["hosts"], "placement": "linear"}
        yield found["job"], scenario.with_overrides({"job": [own], "flow": [], "traffic": [], **calm})


def add(result: Result, run: Runner) -> None:
    """Run each job alone, and add the comparison to the summary and the account of the run.

    A scenario with only one job, no other traffic and no events is not run again. Raises the exceptions of
    `run`, and `ScenarioError` if the scenario has no jobs.
    """
    spec = tomllib.loads(result.scenario_toml)
    events = _events(spec.get("event", []))
    shares = bool(spec.get("flow") or spec.get("traffic") or len(spec["job"]) > 1)
    others = shares or bool(events)
    programs = {
        found["job"]: _program(job["program"])
        for job, found in zip(spec["job"], result.summary["jobs"], strict=True)
    }
    told: list[AloneSummary] = []
    for (name, own), found in zip(scenarios(result.scenario), result.summary["jobs"], strict=True):
        alone = run(own) if others else result
        told.append(_compare(result, alone, name, found, alone.summary["jobs"][0 if others else len(told)]))
    result.summary["alone"] = told
    rails = _rails(result) if spec.get("ports", {}).get("wiring") == "rails" else {}
    if shares:
        result.account += [_sentence(result, row, programs, rails, events) for row in told]
    else:
        result.account += [_of_events(row, events) for row in told]
    if not others:
        result.account.append("There are no other jobs, traffic and events, so the job is alone in this run.")
    if events:
        result.account.append(
            "The runs of a job alone have no events, so the time that faults cost is part of the comparison."
        )


def _events(events: Sequence[Mapping[str, Any]]) -> str:
    """Return the events of a scenario in words; empty without events."""
    names = []
    for event in events[:ROOTS_AT_MOST]:
        places = event.get("links") or event.get("switches") or event.get("hosts") or []
        first = places if isinstance(places, str) else ", ".join(places[:2])
        names.append(f"`{event['name']}`" if "name" in event else f'"{event["kind"]}" of {first}')
    more = len(events) - len(names)
    if more > 0:
        names.append(f"{more} more")
    return "" if not names else f"the event{'s' if len(events) > 1 else ''} {', '.join(names)}"


def _program(program: Mapping[str, Any]) -> str:
    """Return the name of a program as it appears in sentences."""
    names = {"transformer": "training step", "trace": "trace", "moe": "mixture of experts"}
    kind = str(program["kind"])
    return names.get(kind) or str(program.get("operation") or program.get("kernel") or kind)


def _compare(beside: Result, alone: Result, name: str, found: JobSummary, apart: JobSummary) -> AloneSummary:
    done = found["finished_ns"] is not None and apart["finished_ns"] is not None
    slower = found["span_ns"] / apart["span_ns"] - 1 if done and apart["span_ns"] else None
    return {
        "job": name,
        "span_ns": found["span_ns"] if done else None,
        "alone_ns": apart["span_ns"] if done else None,
        "slower": slower,
        "message_slower_mean": _messages(beside, alone, name),
        "roots": _roots(beside, alone, name) if slower is not None and slower > SAME else [],
    }


def _latencies(result: Result, name: str) -> dict[tuple[int, int, int], float]:
    """Return the latency in ns of each delivered message of a job.

    The keys are the sending rank, the receiving rank, and the number of the message between them, from 0.
    """
    table = result.numpy("messages")
    own = (table["job"] == name) & np.isfinite(table["delivered_ns"])
    order = np.argsort(table["handed_ns"][own], kind="stable")
    number: Counter[tuple[int, int]] = Counter()
    found = {}
    columns = [
        table[key][own][order].tolist() for key in ("from_rank", "to_rank", "handed_ns", "delivered_ns")
    ]
    for one, other, handed, delivered in zip(*columns, strict=True):
        found[one, other, number[one, other]] = delivered - handed
        number[one, other] += 1
    return found


def _messages(beside: Result, alone: Result, name: str) -> float | None:
    """Return the mean ratio of message latencies to those of the job alone, minus 1.

    None if no message was delivered in both runs.
    """
    one, other = _latencies(beside, name), _latencies(alone, name)
    both = [one[key] / other[key] for key in one.keys() & other.keys() if other[key] > 0]
    return float(np.mean(sorted(both))) - 1 if both else None


def _held(result: Result, name: str) -> Counter[str]:
    """Return, for each root, the samples as contributor or victim of its trees, added for all hosts of a job.

    Empty if trees were not recorded.
    """
    held: Counter[str] = Counter()
    if "trees" in result.tables:
        for tree in result.forest.trees:
            held[tree.root] += sum(row.samples for row in tree.victims if row.class_ == name)
            held[tree.root] += sum(row.samples for row in tree.contributors if row.class_ == name)
    return held


def _roots(beside: Result, alone: Result, name: str) -> list[RootShare]:
    """Return the roots that slow a job down, largest share first, and the other classes that contribute."""
    more = _held(beside, name) - _held(alone, name)
    total = sum(more.values())
    found: list[RootShare] = []
    for root, samples in sorted(more.items(), key=lambda item: (-item[1], item[0])):
        feeds: Counter[str] = Counter()
        for tree in beside.forest.trees:
            if tree.root == root:
                for row in tree.contributors:
                    feeds[row.class_] += row.samples
        feeds.pop(name, None)
        order = sorted(feeds, key=lambda own: (-feeds[own], own))
        found.append({"root": root, "share": samples / total, "with": order})
    return found


def _rails(result: Result) -> dict[str, str]:
    """Return the rail of each leaf switch: the number of the port by which its hosts are attached."""
    links = (str(link).split("->") for link in np.unique(result.numpy("links")["link"]))
    return {start.partition(":")[0]: end.rpartition(".")[2] for start, end in links if ":" not in end}


def _at(link: str, rails: Mapping[str, str]) -> str:
    """Return a link with its rail, if it belongs to one."""
    ends = [end.partition(":")[0] for end in link.split("->")]
    found = next((rails[end] for end in ends if end in rails), None)
    return link if found is None else f"{link} (rail {found})"


def _sentence(
    result: Result, row: AloneSummary, programs: Mapping[str, str], rails: Mapping[str, str], events: str
) -> str:
    said = _said(row)
    if row["slower"] is None or row["slower"] <= SAME:
        return f"{said}."
    if "trees" not in result.tables:
        return f"{said}; the cause is unknown, because trees were not recorded (measure.forest)."
    if not row["roots"]:
        return (
            f"{said}; the cause is {f'{events}, or ' if events else ''}unknown: its hosts wait for no tree "
            "in a tenth or more of the samples in which the job is active, so shorter intervals may show it."
        )
    places = [
        f"{100 * root['share']:.0f} % of that at {_at(root['root'], rails)}, "
        + _shared(result, root["with"], programs)
        for root in row["roots"][:ROOTS_AT_MOST]
    ]
    rest = len(row["roots"]) - len(places)
    return f"{said}: {'; '.join(places)}{f'; the rest at {rest} more' if rest else ''}."


def _of_events(row: AloneSummary, events: str) -> str:
    """Describe how much slower a job is than alone if only events make the difference."""
    if row["slower"] is None or row["slower"] <= SAME:
        return f"{_said(row)}."
    return f"{_said(row)}, because of {events}: nothing else differs between the two runs."


def _said(row: AloneSummary) -> str:
    """Return how much slower a job is than alone, as a sentence without its end."""
    name = row["job"]
    if row["slower"] is None or row["span_ns"] is None or row["alone_ns"] is None:
        return f"Job `{name}` did not finish, here or alone on this network"
    times = f"{row['span_ns'] / 1e3:.6g} us, alone {row['alone_ns'] / 1e3:.6g} us"
    if row["slower"] <= SAME:
        return f"Job `{name}` is as fast as alone on this network ({times})"
    much = f"is {100 * row['slower']:.0f} % slower than" if row["slower"] < 1 else _times(row["slower"] + 1)
    return f"Job `{name}` {much} alone on this network ({times})"


def _times(ratio: float) -> str:
    return f"takes {ratio:.3g} times as long as"


def _shared(result: Result, others: list[str], programs: Mapping[str, str]) -> str:
    if not others:
        return "which only this job feeds"
    flows = {flow["flow"] for flow in result.summary["flows"]}
    named = []
    for other in others[:ROOTS_AT_MOST]:
        if other in programs:
            named.append(f"job `{other}`'s {programs[other]}")
        else:
            named.append(f"{'flow' if other in flows else 'traffic'} `{other}`")
    rest = len(others) - len(named)
    return f"shared with {', '.join(named)}{f' and {rest} more' if rest else ''}"
