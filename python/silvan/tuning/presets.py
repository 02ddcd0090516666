"""Published settings of InfiniBand congestion control, the default search space, and delay tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from silvan.sweeps.axes import Axis
from silvan.sweeps.errors import SweepError

#: Number of entries of a generated table, which is the minimum that IBA allows.
ENTRIES = 128
#: Keys of a search that together define a table: delay[i] = longest * (i / 127)^exponent.
EXPONENT, LONGEST = "cct.exponent", "cct.longest_us"
TABLE = "congestion.reaction.table"
#: Limits of the exponent, and of the longest delay in microseconds.
EXPONENTS, DELAYS_US = (0.25, 8.0), (0.1, 100_000.0)


def quadratic(scale: int, divisor: int = 106) -> dict[str, Any]:
    """Return the table of the switch vendor's formula: scale * i^2 * 7 / divisor^2 microseconds."""
    return {"kind": "quadratic", "divisor": divisor, "scale": scale, "entries": ENTRIES}


def _settings(
    threshold: int, marking_rate: int, packet_size: int, table: Mapping[str, Any] | None
) -> dict[str, Any]:
    keys = {
        "congestion.mechanism": "ib-cc",
        "congestion.marking.threshold": threshold,
        "congestion.marking.marking_rate": marking_rate,
        "congestion.marking.packet_size": packet_size,
        "congestion.reaction.ccti_increase": 1,
        "congestion.reaction.ccti_limit": 127,
        "congestion.reaction.ccti_min": 0,
        "congestion.reaction.ccti_timer": 150,
        "congestion.reaction.level": "qp",
    }
    return keys if table is None else {**keys, TABLE: dict(table)}


#: Known settings by name. Silvan's defaults are the settings of Paper III. Paper IV does not publish the
#: scale of its table; papers/notes/paper-iv.md explains how the value 14 was found. The settings of the
#: ccmgr plug-in are its documented defaults (manual of MLNX_OFED 2.2, tables 25 to 27). The plug-in computes
#: the table and the timer from the number of hosts with an unpublished formula, so those of Paper IV are used
#: instead.
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "defaults": _settings(15, 1, 8, quadratic(1)),
    "longer delays": _settings(15, 0, 0, quadratic(14)),
    "ccmgr": _settings(15, 10, 8, quadratic(14)),
}
#: The settings to which scores are relative.
REFERENCE = "defaults"
#: Settings that turn congestion control off.
NONE = {"congestion.mechanism": "none"}

#: Option file of the ccmgr plug-in with the defaults of its manual, in the plug-in's names and units.
CCMGR = """\
# Congestion Control Manager (plug-in ccmgr of MLNX_OFED's OpenSM): its documented defaults.
# Not OpenSM's cc_* options: a file of its own, named by event_plugin_options. Sizes are in bytes here.
enable TRUE
# 0: table and timer are made from the number of hosts of the subnet.
num_hosts 0
threshold 0xf
marking_rate 0xa
packet_size 0x200
port_control 0
ca_control_map 0xffff
ccti_increase 1
trigger_threshold 2
ccti_min 0
cct 0
ccti_timer 0
"""

#: The default search space: name of an axis, scenario key, and values.
SPACE: tuple[tuple[str, str, tuple[Any, ...]], ...] = (
    ("threshold", "congestion.marking.threshold", (1, 3, 5, 7, 9, 11, 13, 15)),
    ("marking_rate", "congestion.marking.marking_rate", (0, 1, 2, 5, 10, 20, 50)),
    ("packet_size", "congestion.marking.packet_size", (0, 8, 32)),
    ("cct_exponent", EXPONENT, (1, 2, 3)),
    ("cct_longest", LONGEST, (5, 10, 20, 40, 80, 120, 160, 240, 320, 480, 640)),
    ("ccti_timer", "congestion.reaction.ccti_timer", (10, 20, 50, 100, 150, 200, 300, 500, 750, 1000)),
    ("ccti_increase", "congestion.reaction.ccti_increase", (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)),
    ("ccti_limit", "congestion.reaction.ccti_limit", (31, 63, 95, 127)),
    ("level", "congestion.reaction.level", ("qp", "sl")),
)
UNITS = {
    LONGEST: "us",
    "congestion.reaction.ccti_timer": "1.024 us",
    "congestion.marking.packet_size": "64 B",
}


def usual_space() -> tuple[Axis, ...]:
    """Return the default search space as axes."""
    return tuple(Axis(name, UNITS.get(key, ""), values, ((key, values),)) for name, key, values in SPACE)


def with_table(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the exponent (default 2) and the longest delay by the table that they define; keep other keys.

    Raises :class:`SweepError` if there is an exponent without a longest delay, or a number out of range.
    """
    keys = {key: value for key, value in settings.items() if key not in (EXPONENT, LONGEST)}
    if len(keys) == len(settings):
        return keys
    if LONGEST not in settings:
        raise SweepError(f"{EXPONENT} is the shape of a table: give its longest delay too, as {LONGEST}")
    exponent = _number(EXPONENT, settings.get(EXPONENT, 2), *EXPONENTS)
    longest_us = _number(LONGEST, settings[LONGEST], *DELAYS_US)
    delays = [round(longest_us * 1000 * (i / (ENTRIES - 1)) ** exponent) for i in range(ENTRIES)]
    return {**keys, TABLE: {"kind": "list", "delays_ns": delays}}


def _number(key: str, value: Any, low: float, high: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if isinstance(value, bool) or not low <= number <= high:
        raise SweepError(f"{key} = {value!r}: must be a number from {low:g} to {high:g}")
    return number
