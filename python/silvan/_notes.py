"""Notes on scenarios that are valid, but do something else than their author probably wants."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

from silvan._written import gbit_s, time_ns

if TYPE_CHECKING:
    from silvan._core import Scenario
    from silvan.types import Summary

#: Number of samples after the warm-up below which averages and trees say little.
FEW_SAMPLES = 5
#: Tolerance of a rate that is a rounded link rate.
_ROUNDED = 1.001


def of_scenario(scenario: Scenario) -> list[str]:
    """Return sentences on offered loads, samples and headers that deserve a second look."""
    spec: dict[str, Any] = tomllib.loads(scenario.to_toml())
    return [*_loads(spec), *_samples(spec), *_headers(spec)]


def of_summary(summary: Summary) -> list[str]:
    """Return sentences on a run in which a job ended before the averages begin."""
    after = summary["averages_from_ns"]
    early = [
        job["job"]
        for job in summary.get("jobs", ())
        if job["finished_ns"] is not None and job["finished_ns"] <= after
    ]
    return [
        f"job `{name}` ended before the end of the warm-up ({after / 1e6:g} ms), so no average contains it; "
        "use a shorter warmup"
        for name in early
    ]


def _loads(spec: Mapping[str, Any]) -> Iterator[str]:
    link = spec.get("topology", {}).get("host_link_rate", spec.get("topology", {}).get("link_rate"))
    if link is None:
        return
    most = gbit_s(link)
    for number, traffic in enumerate(spec.get("traffic", ())):
        rate = gbit_s(traffic["rate"]) if "rate" in traffic else 0.0
        if rate > most * _ROUNDED:
            yield (
                f"traffic.{number}.rate = {traffic['rate']} offers {rate / most:.3g} times the rate of a "
                f"host link ({link}): the sources have a growing backlog"
            )


def _samples(spec: Mapping[str, Any]) -> Iterator[str]:
    interval, end, start = map(time_ns, (spec["measure"]["interval"], spec["duration"], spec["warmup"]))
    samples = float((end - start) / interval)
    if spec["measure"].get("forest") and samples < FEW_SAMPLES:
        yield (
            f"measure.interval = {spec['measure']['interval']}: only {samples:.2g} samples are after the "
            "warm-up, so trees and shares of samples say little; use a shorter interval"
        )


def _headers(spec: Mapping[str, Any]) -> Iterator[str]:
    header = str(spec.get("packet", {}).get("header", ""))
    if not re.fullmatch(r"0 ?B", header) or not any("sizes" in one for one in spec.get("traffic", ())):
        return
    pauses = spec.get("flow_control", {}).get("kind") == "pfc"
    yield (
        "packet.header = 0 B: packets of drawn sizes have as few bytes as their messages, so a message of 1 "
        f"B takes 1 B of a link, but {spec['packet'].get('credit_block', '64 B')} of a buffer"
        f"{', and the headroom of PFC is large' if pauses else ''}; set packet.header, such as 64 B"
    )
