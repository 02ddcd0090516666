"""Published numbers of switches and adapters, each with its source.

They contain ports and rates only. Sizes of buffers of these chips are known from press and forums, not from
documents of their vendors, so they are left out: `switch.buffer` needs a measurement.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from silvan._core import Scenario
from silvan.calibration.measurements import CalibrationError


@dataclass(frozen=True)
class Ports:
    """A way to divide a chip into ports."""

    count: int
    gbit_s: float
    #: Document that states these numbers.
    source: str


@dataclass(frozen=True)
class Hardware:
    """A switch or an adapter."""

    name: str
    kind: Literal["switch", "adapter"]
    ports: tuple[Ports, ...]


def _of(name: str, kind: Literal["switch", "adapter"], source: str, *ports: tuple[int, float]) -> Hardware:
    return Hardware(name, kind, tuple(Ports(count, rate, source) for count, rate in ports))


_TOMAHAWK_3 = "https://www.linleygroup.com/newsletters/newsletter_detail.php?num=5799&year=2017&tag=3"
_TOMAHAWK_4 = "https://www.linleygroup.com/newsletters/newsletter_detail.php?num=6104"
_TOMAHAWK_5 = "https://www-prod.techinsights.com/ko/node/49000"
_SN5000 = "https://docs.nvidia.com/networking/display/sn5000/data+interfaces"
_QUANTUM_2 = "https://yobitel.com/knowledge-base/nvidia-quantum-2"
_CONNECTX_7 = "https://docs.nvidia.com/networking/display/ConnectX7VPIOCP3/Introduction"

HARDWARE: Mapping[str, Hardware] = {
    one.name: one
    for one in (
        _of("tomahawk-3", "switch", _TOMAHAWK_3, (32, 400), (64, 200), (128, 100)),
        _of("tomahawk-4", "switch", _TOMAHAWK_4, (64, 400), (128, 200), (256, 100)),
        _of("tomahawk-5", "switch", _TOMAHAWK_5, (64, 800), (128, 400), (256, 200)),
        _of("sn5400", "switch", _SN5000, (64, 400), (128, 200), (256, 100)),
        _of("sn5600", "switch", _SN5000, (64, 800), (128, 400), (256, 200)),
        _of("quantum-2", "switch", _QUANTUM_2, (64, 400), (128, 200)),
        _of("connectx-7", "adapter", _CONNECTX_7, (1, 400), (2, 200)),
    )
}


def find(name: str) -> Hardware:
    """Return hardware by its name; for an unknown name, the `CalibrationError` lists similar ones."""
    if name not in HARDWARE:
        near = difflib.get_close_matches(name, HARDWARE, n=2) or list(HARDWARE)
        raise CalibrationError(f"no published numbers of `{name}`; there are those of {', '.join(near)}")
    return HARDWARE[name]


def check(scenario: Scenario, name: str) -> str:
    """Compare the ports of a scenario with hardware; return a sentence with the source.

    Raises :class:`CalibrationError` if a switch has more ports, or a link a higher rate, than the hardware.
    """
    hardware = find(name)
    routes = scenario.routes()
    hosts = set(routes.hosts)
    ports: dict[str, Counter[float]] = defaultdict(Counter)
    for link, rate in zip(routes.links, routes.rates_gbit_s, strict=True):
        node = link.split("->")[0]
        own = node if node in hosts else re.sub(r":[^:]*$", "", node)
        if (own in hosts) == (hardware.kind == "adapter"):
            ports[own][rate] += 1
    for node, counts in ports.items():
        _check_node(node, counts, hardware)
    most = max(ports.values(), key=lambda counts: counts.total(), default=Counter())
    used = " and ".join(f"{count} of {rate:g} Gbit/s" for rate, count in sorted(most.items()))
    return (
        f"{hardware.name} has the ports of each {hardware.kind} (at most {used}): {hardware.ports[0].source}"
    )


def _check_node(node: str, counts: Counter[float], hardware: Hardware) -> None:
    """Raise :class:`CalibrationError` if a node has ports that the hardware does not have."""
    total, fastest = counts.total(), max(counts)
    suitable = [ports for ports in hardware.ports if ports.gbit_s >= fastest]
    if suitable and total <= max(ports.count for ports in suitable):
        return
    # Ports of different rates share lanes.
    if suitable and sum(rate * count for rate, count in counts.items()) <= max(
        ports.gbit_s * ports.count for ports in suitable
    ):
        return
    has = ", ".join(f"{ports.count} x {ports.gbit_s:g} Gbit/s" for ports in hardware.ports)
    raise CalibrationError(
        f"{node} has {total} ports of up to {fastest:g} Gbit/s, but {hardware.name} has {has} "
        f"({hardware.ports[0].source})"
    )
