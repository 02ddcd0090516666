"""Notes on scenarios that are valid, but do something else than their author probably wants."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

if TYPE_CHECKING:
    from silvan._core import Scenario
    from silvan.types import Summary

#: Units of rates in Gbit/s, and of times in ns.
_GBIT_S = {"bit/s": 1e-9, "kbit/s": 1e-6, "Mbit/s": 1e-3, "Gbit/s": 1.0, "Tbit/s": 1e3}
_NS = {"ps": 1e-3, "ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
#: Number of samples after the warm-up below which averages and trees say little.
FEW_SAMPLES = 5
#: Tolerance of a rate that is a rounded link rate.
_ROUNDED = 1.001


def of_scenario(scenario: Scenario) -> list[str]:
    """Return sentences on offered loads, names, samples and headers that deserve a second look."""
    spec: dict[str, Any] = tomllib.loads(scenario.to_toml())
    return [*_loads(spec), *_names(spec), *_samples(spec), *_headers(spec)]


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
    most = _value(link, _GBIT_S)
    if not most:
        return
    for number, traffic in enumerate(spec.get("traffic", ())):
        rate = _value(traffic.get("rate"), _GBIT_S)
        if rate and rate > most * _ROUNDED:
            yield (
                f"traffic.{number}.rate = {traffic['rate']} offers {rate / most:.3g} times the rate of a "
                f"host link ({link}): the sources have a growing backlog"
            )


def _names(spec: Mapping[str, Any]) -> Iterator[str]:
    names = Counter(one["name"] for one in spec.get("traffic", ()) if one.get("name"))
    for name, times in names.items():
        if times > 1:
            yield f"{times} traffic patterns are named `{name}`: tables cannot distinguish them"


def _samples(spec: Mapping[str, Any]) -> Iterator[str]:
    interval = _value(spec.get("measure", {}).get("interval"), _NS)
    end, start = (_value(spec.get(key), _NS) for key in ("duration", "warmup"))
    if not interval or end is None:
        return
    samples = (end - (start or 0.0)) / interval
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


def _value(text: Any, units: Mapping[str, float]) -> float | None:
    """Return a quantity in the unit with factor 1; None if it has none of the units."""
    found = re.fullmatch(r"([\d.]+(?:e[+-]?\d+)?) ?([A-Za-z/]+)", text) if isinstance(text, str) else None
    return float(found[1]) * units[found[2]] if found and found[2] in units else None
