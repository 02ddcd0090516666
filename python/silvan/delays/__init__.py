"""Explains why messages were slow: causes that add up exactly to their delay.

>>> import silvan
>>> result = silvan.load("out/incast")                 # doctest: +SKIP
>>> for found in silvan.why(result, slowest=3):        # doctest: +SKIP
...     print(found)

The run is executed again with the same results. The second run records which packets cross which links, and
when. From this record, each moment of a message is attributed to the link, host or packet that delayed it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from silvan._core import SilvanError
from silvan._terminal import clean
from silvan.delays import subjects, text
from silvan.delays.explanation import Cause, Explanation, FlowKey, Label, Message, Piece, Signal, Step
from silvan.delays.proof import Proof, Question, Trial
from silvan.delays.proof import prove as proven
from silvan.delays.subjects import MOST_DEPARTURES

if TYPE_CHECKING:
    from silvan.results import Result

__all__ = [
    "Cause",
    "Explanation",
    "FlowKey",
    "Label",
    "Message",
    "Piece",
    "Proof",
    "Signal",
    "Step",
    "Trial",
    "Why",
    "why",
]


@dataclass(frozen=True)
class Why:
    """An explanation of a message, with the names of its network. ``print(found)`` shows it in words."""

    explanation: Explanation
    _network: subjects.Network
    #: Runs without the first cause, and what they gained; None unless a proof was requested.
    proof: Proof | None = None
    #: What the explanation does not contain; empty if it is complete.
    caution: str = ""

    @property
    def sentences(self) -> list[str]:
        """The explanation, one line per cause."""
        lines = text.sentences(self.explanation, self._network, self.proof)
        return [clean(line) for line in (*lines, *([self.caution] if self.caution else []))]

    @property
    def subject(self) -> str:
        """The name of what is explained, such as `victim (H17->H26), 1 MB`."""
        return clean(text.title(self.explanation, self._network))

    def lines_of(self, cause: Cause) -> list[str]:
        """Return a cause with its share, and the flows and links behind it, one per line."""
        return [clean(line) for line in text.lines_of(cause, self.explanation, self._network)]

    def name_of(self, flow: FlowKey) -> str:
        """Return the name of a flow: its own, or its class and its hosts."""
        return clean(self._network.name_of(flow))

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as an object; `docs/why.schema.json` describes it."""
        return text.as_json(self.explanation, self._network, self.proof)

    def to_json(self) -> str:
        """Return :meth:`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=1)

    def __str__(self) -> str:
        """Return the explanation in words."""
        return "\n".join(self.sentences)

    def _repr_markdown_(self) -> str:
        """Show the explanation in notebooks."""
        return f"```text\n{self}\n```"


def why(
    result: Result,
    *,
    flow: str | None = None,
    slowest: int = 1,
    message: int | None = None,
    job: str | None = None,
    step: int | None = None,
    prove: bool = False,
    most_departures: int = MOST_DEPARTURES,
    progress: Callable[[int, int, int], object] | None = None,
) -> list[Why]:
    """Explain the messages of a run with the longest delays, the longest first, or a job.

    `flow` restricts the messages to a flow, a pattern or a job, by its name, or to two hosts (``"H1->H2"``).
    With `message`, explain only the message with this number, from 1 on, in the order in which they were
    generated. With `job`, explain the duration of this job, or of its collective operation number `step`
    (from 1 on), instead: the critical path through its ranks. With `prove`, run the scenario again without
    the first cause, and compare the durations. `most_departures` limits the memory of the record, about 90
    bytes per packet and link. `progress` is called like that of :func:`silvan.run`.

    Raises :class:`silvan.SilvanError` if there is no such message or job, if the record would be too large,
    or if arguments exclude each other.
    """
    for name, number in (("slowest", slowest), ("message", message), ("step", step)):
        if number is not None and number < 1:
            raise SilvanError(f"{name} = {number}: must be 1 or more")
    if job is None and step is not None:
        raise SilvanError("step: needs a job")
    if job is not None and (flow is not None or message is not None or slowest != 1):
        raise SilvanError("flow, message, slowest: have no effect with a job")
    if message is not None and slowest != 1:
        raise SilvanError("slowest: has no effect with a message")
    if job is not None:
        network, of_job = subjects.explain_job(result, job, step, most=most_departures, progress=progress)
        found = [of_job]
    else:
        network, messages = subjects.choose(
            result, flow=flow, slowest=slowest, message=message, most=most_departures, progress=progress
        )
        found = [network.explain(message) for message in messages]
    question = Question(result, job, step, most_departures, progress)
    proofs = [proven(question, network, one) if prove else None for one in found]
    return [Why(one, network, proof, _caution(result)) for one, proof in zip(found, proofs, strict=True)]


def _caution(result: Result) -> str:
    """Return what the explanations of a run lack: the time until messages moved from failed ports."""
    moved = [job["job"] for job in result.summary.get("jobs", ()) if job.get("moved_bytes")]
    if not moved:
        return ""
    names = ", ".join(f"`{name}`" for name in moved)
    return (
        f"Caution: messages of job {names} moved from failed ports to others. The delay until then counts "
        "for the ports to which they moved; the failure is not named as its cause. `silvan run --alone` "
        "states what the failures cost."
    )
