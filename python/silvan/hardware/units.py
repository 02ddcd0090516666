"""Units of hardware counters, as conversions between counters and quantities.

| counter | unit |
| --- | --- |
| PortXmitData, PortRcvData | words of 4 bytes |
| PortXmitWait | ticks, of 8 byte times of the port on present devices and of 32 on older ones |
| pause frames of Ethernet | quanta of 512 bit times of the port |

A rate in Gbit/s is the number of bits in a nanosecond.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: Bytes of a word of PortXmitData and PortRcvData.
WORD_BYTES = 4
#: Byte times of a tick of PortXmitWait on present devices.
TICK_BYTES = 8
#: Bit times of a quantum of pause frames (IEEE 802.1Qbb).
QUANTUM_BITS = 512


def words(octets: ArrayLike) -> NDArray[np.int64]:
    """Return the number of whole words in numbers of bytes."""
    return np.asarray(octets, dtype=np.int64) // WORD_BYTES


def ticks(waited_ns: ArrayLike, rate_gbit_s: ArrayLike, tick_bytes: int = TICK_BYTES) -> NDArray[np.int64]:
    """Return the value of PortXmitWait after ports have waited for times in ns.

    >>> int(ticks(1e6, 100))
    1562500
    """
    return _whole(np.multiply(waited_ns, rate_gbit_s) / (8 * tick_bytes))


def waited_ns(number: ArrayLike, rate_gbit_s: ArrayLike, tick_bytes: int = TICK_BYTES) -> NDArray[Any]:
    """Return the times in ns that numbers of ticks of PortXmitWait take."""
    return np.multiply(number, 8.0 * tick_bytes) / rate_gbit_s


def quanta(paused_ns: ArrayLike, rate_gbit_s: ArrayLike) -> NDArray[np.int64]:
    """Return the number of whole pause quanta in times in ns."""
    return _whole(np.multiply(paused_ns, rate_gbit_s) / QUANTUM_BITS)


def quanta_ns(number: ArrayLike, rate_gbit_s: ArrayLike) -> NDArray[Any]:
    """Return the times in ns that numbers of pause quanta take.

    >>> round(float(quanta_ns(65_535, 400)) / 1000, 3)
    83.885
    """
    return np.multiply(number, float(QUANTUM_BITS)) / rate_gbit_s


def _whole(values: ArrayLike) -> NDArray[np.int64]:
    return np.floor(np.asarray(values, dtype=np.float64)).astype(np.int64)
