"""Types for traffic and causes that follow from counters of ports."""

from __future__ import annotations

from typing import TypedDict

_Ends = TypedDict("_Ends", {"from": str, "to": str})


class CountedPair(_Ends):
    """Bytes from a host to a host (`from`, `to`), with headers."""

    #: None if the counters do not determine them.
    bytes: float | None
    #: The smallest number of bytes that the counters permit.
    low_bytes: float
    #: The largest number of bytes that the counters permit.
    high_bytes: float


class WaitingPort(TypedDict):
    """A port that waited."""

    #: The directed link on which it sends.
    link: str
    #: Fraction of the time.
    share: float


class PortShare(TypedDict):
    """A host that sends through a root."""

    host: str
    #: Fraction of the bytes of the root; None if the counters do not determine it.
    share: float | None
    #: The smallest fraction that the counters permit, 0 to 1.
    low_share: float
    #: The largest fraction that the counters permit, 0 to 1.
    high_share: float


class CountedRoot(TypedDict):
    """An output for which other ports wait."""

    #: The directed link of the output.
    link: str
    #: ``busy``; ``busy at times``; ``slow receiver``, a host that does not take the data; ``cable or
    #: receiver``, if no output behind the link explains why its sender waits; ``cycle``, if ports wait for
    #: each other.
    kind: str
    #: Fraction of the rate of the link.
    utilization: float
    #: The ports that wait for the root, longest first.
    waiting: list[WaitingPort]
    #: The hosts that sent most through the root.
    contributors: list[PortShare]
    #: Pairs of hosts that wait for the root, but do not cross it.
    victims: list[CountedPair]


class Forward(TypedDict):
    """A run of the traffic, compared with the counters."""

    #: Number of flows of the scenario.
    flows: int
    #: Fraction of the bytes of all pairs that these flows send, 0 to 1.
    sent_share: float
    #: Number of links that used at least 1 % of their rate.
    links_compared: int
    #: Number of those whose rate in the run differs by at most 5 %.
    links_close: int
    #: The link with the largest relative difference, and this difference; None without links.
    worst_link: str | None
    worst_deviation: float | None


class Inference(TypedDict):
    """The traffic and the causes behind counters of ports."""

    #: Time between the dumps; None if it is unknown.
    seconds: float | None
    #: Number of directed links with traffic, and of pairs of hosts that may have exchanged it.
    links_measured: int
    pairs_possible: int
    #: Number of pairs whose bytes could be chosen freely, apart from signs, without contradiction to the
    #: counters.
    free_parameters: int
    #: Largest difference between the bytes of a link and those that the traffic explains, relative to the
    #: busiest link.
    mismatch: float
    #: The pairs that may have exchanged most.
    pairs: list[CountedPair]
    #: Whether the dumps state for how long ports waited or were paused.
    waiting_known: bool
    roots: list[CountedRoot]
    #: None without a run.
    forward: Forward | None
    #: The file of the scenario, if it was written.
    scenario: str | None
    #: Statements about the dumps and the limits of the result.
    notes: list[str]
