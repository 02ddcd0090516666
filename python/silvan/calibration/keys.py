"""The keys of a scenario that measurements can determine, and the measurements that other keys need."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from silvan._core import Scenario
from silvan.calibration.measurements import CalibrationError
from silvan.sweeps.measures import BYTES, SECONDS

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

#: Values of keys in seconds, bytes, or bytes per second.
Values = Mapping[str, float]

OVERHEAD, SWITCH, CABLE = "job.overhead", "switch.latency", "topology.link_delay"
HEADER, MESSAGES, INJECTION = "packet.header", "host.message_overhead", "host.injection_rate"
COLLECTIVE, MEMORY = "collective.overhead", "collective.memory_rate"
#: Kinds of programs whose ranks perform collective operations.
COLLECTIVES = frozenset(("collective", "transformer", "moe", "inference"))

#: Largest header, in bytes, that a fit accepts. RoCE with its Ethernet framing has about 130 B per packet.
HEADER_AT_MOST = 256.0
#: Shortest and longest time, and lowest and highest rate, that a fit accepts.
TIME_RANGE, RATE_RANGE = (1e-12, 1.0), (1e3, 1e14)

_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_UNITS: Mapping[str, Mapping[str, float]] = {
    "time": SECONDS,
    "size": BYTES,
    "rate": {
        f"{prefix}{unit}": factor * scale
        for prefix, factor in _PREFIXES.items()
        for unit, scale in (("bit/s", 0.125), ("B/s", 1.0))
    },
}


@dataclass(frozen=True)
class Key:
    """A key that can be fitted."""

    name: str
    #: `time`, `size` or `rate`.
    unit: str
    #: What identifies it, as the end of the sentence "needs ...".
    needs: str


#: In the order in which keys are fitted: a later key is fitted only if it can be separated from earlier ones.
KEYS: Mapping[str, Key] = {
    key.name: key
    for key in (
        Key(OVERHEAD, "time", "a latency test (ib_write_lat), which determines its sum with other delays"),
        Key(SWITCH, "time", "latency tests between hosts with different numbers of switches between them"),
        Key(HEADER, "size", "a bandwidth test (ib_write_bw) with messages of at least 64 KiB"),
        Key(
            MESSAGES,
            "time",
            "a bandwidth test with messages of 2 B to 1 KiB and enough messages in flight (-t, -q) "
            "that the adapter limits their rate",
        ),
        Key(COLLECTIVE, "time", "an nccl-tests run of several hosts with small sizes"),
        Key(MEMORY, "rate", "an nccl-tests run of one host with large sizes"),
        Key(CABLE, "time", "latency tests over cables of different lengths; state it with --fix instead"),
        Key(INJECTION, "rate", "a bandwidth test; fix packet.header, which has the same effect"),
    )
}
#: Keys that are fitted only if the user asks for them.
ASKED_ONLY = frozenset((CABLE, INJECTION))

#: Beginnings of keys, and the measurement that would determine them.
_INCAST = (
    "only an incast determines it, which these tests do not contain: measure many senders to one receiver, "
    "with counters of pauses or marks"
)
_REFUSED = {
    "switch.buffer": _INCAST,
    "switch.output_buffer": _INCAST,
    "switch.queue_buffer": _INCAST,
    "host.buffer": _INCAST,
    "host.output_buffer": _INCAST,
    "host.drain_rate": _INCAST,
    "flow_control": _INCAST,
    "congestion": _INCAST,
    "lanes": "it is a setting of the fabric; read it with the fabric's tools",
    "topology.link_rate": "the product of rate and share of payload is measured; state the rate of the link "
    "as sold, and fit packet.header",
    "packet.mtu": "it is a setting; perftest prints it (Mtu)",
    "switch.forwarding": "it is chosen automatically if latencies of messages below the MTU determine it",
}


def check(name: str) -> None:
    """Raise :class:`CalibrationError` for a key that is not fitted, with the measurement that would."""
    if name in KEYS:
        return
    for start, why in _REFUSED.items():
        if name == start or name.startswith(f"{start}."):
            raise CalibrationError(f"{name} cannot be fitted: {why}")
    raise CalibrationError(f"{name} is no key that can be fitted: must be one of {', '.join(KEYS)}")


def parse(name: str, text: str) -> float:
    """Return the value of a key from text with a unit; raises :class:`CalibrationError`."""
    check(name)
    unit = KEYS[name].unit
    found = re.fullmatch(r"\s*(\d[\d_]*(?:\.\d+)?)\s*([A-Za-z/]+)\s*", text, re.ASCII)
    scale = None if found is None else _UNITS[unit].get(found[2])
    if found is None or scale is None:
        example = {"time": "25 ns", "size": "162 B", "rate": "390 Gbit/s"}[unit]
        raise CalibrationError(f"{name} = `{text}`: must be a number with a unit, such as {example}")
    return float(found[1].replace("_", "")) * scale


def text(name: str, value: float) -> str:
    """Return a value as scenarios contain it: a whole number of picoseconds, bytes or bits per second."""
    unit = KEYS[name].unit
    if unit == "time":
        return f"{round(value * 1e12)} ps"
    return f"{round(value)} B" if unit == "size" else f"{round(float(f'{value * 8:.6g}'))} bit/s"


def in_words(name: str, value: float) -> str:
    """Return a value for people, with four significant digits.

    >>> in_words("switch.latency", 6.9e-07), in_words("packet.header", 162.4)
    ('690 ns', '162 B')
    >>> in_words("host.injection_rate", 0.0)
    'unlimited'
    """
    unit = KEYS[name].unit
    if unit == "time":
        return time_in_words(value)
    if unit == "size":
        return f"{value:.0f} B"
    return f"{value * 8 / 1e9:.4g} Gbit/s" if value else "unlimited"


def time_in_words(seconds: float) -> str:
    """Return a time in the largest unit in which it is at least 1, with four significant digits."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
        if abs(seconds) >= scale:
            return f"{seconds / scale:.4g} {unit}"
    return f"{seconds / 1e-12:.4g} ps"


def parsed(scenario: Scenario) -> dict[str, Any]:
    """Return the resolved scenario as a table."""
    found: dict[str, Any] = tomllib.loads(scenario.to_toml())
    return found


def base(scenario: Scenario) -> dict[str, float]:
    """Return the values of all keys that the resolved scenario states; 0 without a value."""
    table = parsed(scenario)
    values = dict.fromkeys(KEYS, 0.0)
    for name in (SWITCH, CABLE, HEADER, MESSAGES, INJECTION):
        section, key = name.split(".")
        if isinstance(given := table.get(section, {}).get(key), str):
            values[name] = parse(name, given)
    for job in table.get("job", ()):
        is_collective = job.get("program", {}).get("kind") in COLLECTIVES
        name = COLLECTIVE if is_collective else OVERHEAD
        if "overhead" in job and not values[name]:
            values[name] = parse(name, job["overhead"])
        if "memory_rate" in job and is_collective and not values[MEMORY]:
            values[MEMORY] = parse(MEMORY, job["memory_rate"])
    return values


def overrides(scenario: Scenario, values: Values) -> dict[str, str]:
    """Return the settings of a scenario that give its keys these values; jobs have some of them."""
    found = {
        name: text(name, value)
        for name, value in values.items()
        if name not in {OVERHEAD, COLLECTIVE, MEMORY}
    }
    for at, job in enumerate(parsed(scenario).get("job", ())):
        is_collective = job.get("program", {}).get("kind") in COLLECTIVES
        overhead = values.get(COLLECTIVE) if is_collective else values.get(OVERHEAD)
        if overhead is None and is_collective:
            overhead = values.get(OVERHEAD)
        if overhead is not None:
            found[f"job.{at}.overhead"] = text(OVERHEAD, overhead)
        if is_collective and MEMORY in values:
            found[f"job.{at}.memory_rate"] = text(MEMORY, values[MEMORY])
    return found


def mtu(scenario: Scenario) -> int:
    """Return the largest payload of a packet in bytes."""
    return round(parse(HEADER, parsed(scenario)["packet"]["mtu"]))


def to_x(name: str, value: float, payload: int) -> float:
    """Return the coordinate in which a key is fitted: the logarithm of the value.

    For the header, it is that of the bytes of a full packet, because a header can be 0. `payload` is the MTU
    in bytes.
    """
    return math.log(payload + value) if name == HEADER else math.log(max(value, 1e-15))


def from_x(name: str, x: float, payload: int) -> float:
    """Return the value of a key from its coordinate."""
    return math.exp(x) - payload if name == HEADER else math.exp(x)


def bounds(name: str, payload: int) -> tuple[float, float]:
    """Return the range of the coordinate of a key."""
    low, high = {
        "time": TIME_RANGE, "rate": RATE_RANGE, "size": (0.0, HEADER_AT_MOST),
    }[KEYS[name].unit]  # fmt: skip
    return to_x(name, low, payload), to_x(name, high, payload)
