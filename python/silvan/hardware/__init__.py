"""Counters of ports in the units of hardware: those of a run, and dumps of real devices.

| module | content |
| --- | --- |
| `units` | words, ticks and pause quanta |
| `ports` | the counters of the ports of a run |
| `names` | names of the counters in hardware and in exporters |
| `texts` | text as `perfquery -x` prints it, SONiC's counter database, Prometheus |
| `readers` | reads dumps of counters |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from silvan.hardware.units import TICK_BYTES

if TYPE_CHECKING:
    from silvan.hardware.ports import Counters
    from silvan.results import Result


def counters(run: Result, *, tick_bytes: int = TICK_BYTES, second_run: bool = False) -> Counters:
    """Return the counters that the ports of a run would show in hardware.

    >>> import silvan
    >>> found = silvan.counters(silvan.load("out/testbed"))  # doctest: +SKIP
    >>> found.table()  # a row per port and sample  # doctest: +SKIP
    >>> print(found.perfquery())  # doctest: +SKIP

    Args:
        run: A finished run with the time series of links (``measure.links``).
        tick_bytes: Byte times of a tick of PortXmitWait: 8 on present devices, 32 on older ones.
        second_run: Run the scenario again, with the same results, to count what tables do not contain:
            packets, PortXmitWait, and the notifications of adapters.

    Raises:
        SilvanError: the run has no time series of links, `tick_bytes` is not positive, or the second run has
            too many packets.

    """
    from silvan.hardware.ports import Counters

    return Counters(run, tick_bytes, second_run=second_run)
