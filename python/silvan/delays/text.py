"""Explanations in words, and as JSON."""

from __future__ import annotations

from collections import Counter
from typing import Any

from silvan.delays.explanation import Cause, Explanation, Label, Message, Step
from silvan.delays.proof import Proof
from silvan.delays.subjects import Network

#: Version of the JSON form.
JSON_VERSION = 1
#: Numbers of causes, and of owners of a cause, that are named in words.
CAUSES_NAMED = 3
OWNERS_NAMED = 3
#: Shares are those of the waiting time if necessary transmissions during waits exceed this part of the delay.
OVERLAP_NAMED = 0.01

#: What each cause means, as a clause that follows "because". `{place}` is a link or a host.
CLAUSES = {
    Label.OUTPUT_BUSY: "{place} was busy with other packets",
    Label.HASH_COLLISION: "it shared {place} while an equally short path was idle (a hash collision)",
    Label.SLOW_LINK: "{place} was slower than other links of its kind",
    Label.SLOW_RECEIVER: "host {place} drained its input buffer more slowly than its link",
    Label.SMALL_BUFFER: "the buffer at the end of {place} is too small for its round trip",
    Label.INJECTION: "host {place} injected packets more slowly than its link",
    Label.PACING: "the reaction of host {place} slowed the flow down",
    Label.WINDOW: "the window of the flow at host {place} was smaller than its rate times its round trip",
    Label.GRANT: "host {place} waited for a grant of the receiver",
    Label.ANNOUNCEMENT: "host {place} waited for the answer to its announcement",
    Label.LOSS: "packets or answers were lost on {place} and sent again",
    Label.LINK_DOWN: "{place} was down",
    Label.LINK_ERRORS: "{place} sent packets again after errors",
    Label.DEADLOCK: "packets wait for each other in a cycle through {place}",
    Label.COMPUTE: "{place} computed longer than the median of the ranks",
    Label.OVERHEAD: "{place} handled messages",
    Label.LOCAL: "{place} waited for something on its host",
    Label.EARLIER: "of what happened before the recording, at {place}",
}


#: What each kind of loss means.
LOSSES = {
    "link-down": "the link went down",
    "errors": "errors of the link",
    "full-buffer": "the buffer behind it was full",
    "trimmed": "a switch removed their payload",
}


def duration(ps: int) -> str:
    """Return a time with a unit and up to four significant digits."""
    for unit, size in (("s", 10**12), ("ms", 10**9), ("us", 10**6), ("ns", 10**3)):
        if abs(ps) >= size:
            return f"{ps / size:.4g} {unit}"
    return f"{ps} ps"


def size(count: int) -> str:
    """Return a number of bytes with a decimal unit."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            return f"{count / factor:.4g} {unit}"
    return f"{count} B"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole > 0 else duration(part)


def _others(count: int, what: str) -> str:
    return f"{count} other {what}{'' if count == 1 else 's'}"


def _by_name(cause: Cause, found: Explanation, network: Network) -> list[tuple[str, int]]:
    """Return the owners of a time, the largest first. Flows with the same name and hosts are one owner."""
    own = found.subject.flow if isinstance(found.subject, Message) else None
    own_name = network.name_of(own) if own is not None else ""
    sums: Counter[str] = Counter()
    for flow, ps in cause.owners:
        name = network.name_of(flow)
        is_other = name == own_name and flow != own and network.queue_pairs(flow) > 1
        sums[f"{name}, other queue pairs" if is_other else name] += ps
    return sums.most_common()


def _owners(cause: Cause, found: Explanation, network: Network) -> str:
    owners = _by_name(cause, found, network)
    named = [f"{name} {duration(ps)}" for name, ps in owners[:OWNERS_NAMED]]
    rest = owners[OWNERS_NAMED:]
    if rest:
        named.append(f"{_others(len(rest), 'flow')} {duration(sum(ps for _, ps in rest))}")
    return ", ".join(named)


def _is_own(cause: Cause, found: Explanation) -> bool:
    """Return whether a message waited for a link only because of other messages of its flow."""
    subject = found.subject
    if not isinstance(subject, Message) or cause.label != Label.OUTPUT_BUSY:
        return False
    return [flow for flow, _ in cause.owners] == [subject.flow]


def _clause(cause: Cause, found: Explanation, network: Network) -> str:
    """Return what a cause means, as a clause that follows "because"."""
    if _is_own(cause, found):
        return f"{cause.place} was busy with other messages of the flow"
    reaction = network.spec["congestion"]["reaction"]["kind"]
    if cause.label == Label.WINDOW and reaction not in {"none", "static-window"}:
        return f"the reaction of host {cause.place} reduced the window of the flow"
    clause = CLAUSES[cause.label].format(place=cause.place or "an unknown link")
    return f"{clause} ({LOSSES[cause.loss]})" if cause.loss is not None else clause


def lines_of(cause: Cause, found: Explanation, network: Network) -> list[str]:
    """Return a cause with its share, and the flows and links behind it, one per line."""
    clause = _clause(cause, found, network).removeprefix("of ")
    lines = [f"{_share(cause.ps, found.whole)} ({duration(cause.ps)}): {clause}"]
    if (signal := cause.signal) is not None:
        what = "for a packet marked" if signal.is_mark else "for a packet that waited longest"
        lines[0] += f"; the last answer was {what} at {signal.queue} at {duration(signal.ps)}"
    use = {
        Label.OUTPUT_BUSY: "with",
        Label.HASH_COLLISION: "with",
        Label.SLOW_RECEIVER: "draining",
        Label.PACING: "in its queue",
        Label.LOSS: "in the buffer",
    }.get(cause.label)
    if cause.owners and use is not None and not _is_own(cause, found):
        lines.append(f"{use}: {_owners(cause, found, network)}")
    if len(cause.chain) > 1:
        lines.append(f"reached through: {' <- '.join(cause.chain)}")
    return lines


def title(found: Explanation, network: Network) -> str:
    """Return the name of what is explained: a flow with the size of its message, a job or an operation."""
    subject = found.subject
    if isinstance(subject, Message):
        return f"{network.name_of(subject.flow)}, {size(subject.bytes)}"
    return subject.name


def _head(found: Explanation, network: Network) -> str:
    subject = found.subject
    took = f"took {duration(found.duration)}"
    if isinstance(subject, Message):
        return (
            f"The message of {size(subject.bytes)} of {network.name_of(subject.flow)}, generated at "
            f"{duration(subject.start)}, {took}; alone it takes {duration(found.ideal)}."
        )
    return (
        f"{subject.name}, from {duration(subject.start)} on, {took}; {duration(found.ideal)} of its critical "
        "path are necessary."
    )


def _ranks(step: Step) -> str:
    """Return when the ranks arrived, and how long they waited: the last to arrive often waits least."""
    last = max(step.ranks, key=lambda one: (one.arrival, -one.rank))
    first = min(one.arrival for one in step.ranks)
    least, most = (choose(step.ranks, key=lambda one: (one.waiting, one.rank)) for choose in (min, max))
    arrived = "at the same time"
    if last.arrival > first:
        arrived = f"within {duration(last.arrival - first)}, rank {last.rank} last"
    return (
        f"Its ranks posted their first messages {arrived}, and from then on waited "
        f"{duration(least.waiting)} (rank {least.rank}) to {duration(most.waiting)} (rank {most.rank})."
    )


def _proof(proof: Proof) -> list[str]:
    lines = []
    for trial in proof.trials:
        lines.append(f"Proof: without {trial.removed}, ")
        if trial.actual is None:
            lines[-1] += "it does not end during the run"
        elif trial.actual < 0:
            lines[-1] += f"it takes {duration(-trial.actual)} more"
        else:
            lines[-1] += f"it takes {duration(trial.actual)} less"
        lines[-1] += f" (predicted: {duration(trial.predicted)} less)."
    if proof.reason:
        lines.append(f"No {'further ' if lines else ''}proof: {proof.reason}.")
    return lines


def sentences(found: Explanation, network: Network, proof: Proof | None = None) -> list[str]:
    """Return an explanation: what took how long, the root, all causes and the proof, one per line."""
    lines = _sentences(found, network)
    return [*lines, *_proof(proof)] if proof is not None else lines


def _sentences(found: Explanation, network: Network) -> list[str]:
    lines = [_head(found, network)]
    if isinstance(found.subject, Step) and len(found.subject.ranks) > 1:
        lines.append(_ranks(found.subject))
    if found.delay <= 0:
        lines.append("Nothing delayed it.")
        return lines
    delayed = f"It was delayed by {duration(found.delay)}"
    if not found.causes:
        lines.append(f"{delayed}, because transmissions did not overlap as on an empty network.")
        return lines
    first = found.causes[0]
    because = f"{_share(first.ps, found.whole)} of it because {_clause(first, found, network)}."
    if found.whole > found.delay * (1 + OVERLAP_NAMED):
        lines += [
            f"{delayed}: it waited for {duration(found.whole)}, but {duration(-found.pipeline)} of necessary "
            "transmissions took place meanwhile.",
            f"Of the waiting time, {because.replace(' of it', '', 1)}",
        ]
    else:
        lines.append(f"{delayed}, {because}")
    for cause in found.causes[:CAUSES_NAMED]:
        head, *rest = lines_of(cause, found, network)
        lines.append(f"- {head}")
        lines += [f"    {line}" for line in rest]
    if others := found.causes[CAUSES_NAMED:]:
        lines.append(
            f"- {_share(sum(one.ps for one in others), found.whole)}: {_others(len(others), 'cause')}"
        )
    if found.pipeline and found.whole <= found.delay * (1 + OVERLAP_NAMED):
        lines.append(
            f"- {duration(found.pipeline)}: transmissions that did not overlap as on an empty network"
        )
    return lines


def _subject(found: Explanation, network: Network) -> dict[str, Any]:
    subject = found.subject
    if isinstance(subject, Message):
        return {
            "kind": "message",
            "flow": network.name_of(subject.flow),
            "from": network.hosts[subject.flow.host],
            "to": network.hosts[subject.flow.destination],
            "bytes": subject.bytes,
        }
    ranks = [
        {"rank": one.rank, "arrival_ps": one.arrival, "busy_ps": one.busy, "waiting_ps": one.waiting}
        for one in subject.ranks
    ]
    return {"kind": "step", "name": subject.name, "ranks": ranks}


def _signal(cause: Cause) -> dict[str, Any]:
    if cause.signal is None:
        return {}
    kind = "mark" if cause.signal.is_mark else "wait"
    return {kind: {"at_ps": cause.signal.ps, "queue": cause.signal.queue}}


def as_json(found: Explanation, network: Network, proof: Proof | None = None) -> dict[str, Any]:
    """Return an explanation as an object whose form `docs/why.schema.json` states."""
    return {
        "why": JSON_VERSION,
        "subject": _subject(found, network),
        "start_ps": found.subject.start,
        "end_ps": found.subject.end,
        "ideal_ps": found.ideal,
        "delay_ps": found.delay,
        "pipeline_ps": found.pipeline,
        "causes": [
            {
                "label": cause.label.value,
                "place": cause.place,
                "ps": cause.ps,
                "owners": [{"flow": name, "ps": ps} for name, ps in _by_name(cause, found, network)],
                "chain": list(cause.chain),
                **_signal(cause),
                **({"loss": cause.loss} if cause.loss is not None else {}),
            }
            for cause in found.causes
        ],
        **({"proof": _proof_as_json(proof)} if proof is not None else {}),
    }


def _proof_as_json(proof: Proof) -> dict[str, Any]:
    runs = [
        {"removed": trial.removed, "predicted_ps": trial.predicted, "actual_ps": trial.actual}
        for trial in proof.trials
    ]
    return {"runs": runs, **({"reason": proof.reason} if proof.reason else {})}
