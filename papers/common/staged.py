"""Experiments of the testbed: flows that start one after the other, one per step."""

from __future__ import annotations

from typing import Any

from silvan.papers.data import RunData

#: Length of a step as published, and in quick runs; congestion control settles within some tens
#: of milliseconds.
FULL_S = 1.0
QUICK_S = 0.1

#: Congestion control with the values of Table I of Paper III. The distance between the two thresholds of the
#: hardware is not published. Paper II finds that it must be more than an MTU. All experiments of Papers II
#: and III use an MTU and a header.
CC = {"congestion.mechanism": "ib-cc", "congestion.marking.hysteresis": "2112 B"}

#: Hosts of the hardware, which is not the simulator of Papers I and II. A host starts at most one message per
#: microsecond. The 13 Gbit/s of Paper III are measured with messages of 64 KiB, so the bus itself carries
#: 64 KiB in the 40.33 us that a message takes at this rate, less 1 us.
HOSTS = {"host.message_overhead": "1 us", "host.injection_rate": "13.33 Gbit/s"}

#: Switches of the hardware: the queues per output of an input, and a buffer at each output, as in the switch
#: that Paper I describes. Its size is not published. It was fitted to the latency of the ping-pong next to a
#: congestion tree and on the natural ring (T9, b): the ping-pong takes the time of twelve packets at the rate
#: of the link to H5.
SWITCHES = {
    "switch.architecture": "cioq",
    "switch.queues": "per-output",
    "switch.output_buffer": "22 KiB",
}

HARDWARE = {**HOSTS, **SWITCHES}

#: Transmission time of a full packet and its header at 20 Gbit/s, the signaling rate of the links.
PACKET_NS = 2112 * 8 / 20


def whole_packets(divisor: int) -> dict[str, Any]:
    """Return the table of Paper III, VII.B, with its divisor, as the adapters of the hardware have it.

    InfiniBand encodes a delay as a multiple of the transmission time of a packet. Fractions are cut off, and
    the time is that at the signaling rate. Both were fitted to the smallest samples of table II (T4), which
    all three flows have: those of a flow that waits for one packet.
    """
    delays_ns = [i * i * 7000 / divisor**2 for i in range(128)]
    whole = [round(delay // PACKET_NS * PACKET_NS) for delay in delays_ns]
    return {"congestion.reaction.table": {"kind": "list", "delays_ns": whole}}


#: An adapter of the hardware needs time to answer a marked packet. The time is not published. It was
#: fitted to the 11 Gbit/s that two contributors have together (T2).
HARDWARE_CC = {**CC, **whole_packets(106), "congestion.notification_delay": "10 us"}


def overrides(flows: int, step_s: float, **more: Any) -> dict[str, Any]:
    """Return overrides for a scenario whose flows start one after the other every ``step_s``."""
    microseconds = round(step_s * 1e6)
    starts = {f"flow.{n}.start": f"{n * microseconds} us" for n in range(flows)}
    return {"duration": f"{flows * microseconds} us", **starts, **more}


def quick_or_full(quick: bool) -> float:
    """Return the length of a step."""
    return QUICK_S if quick else FULL_S


def settled(run: RunData, flow: str, active: int, flows: int) -> float:
    """Return a flow's throughput while ``active`` of ``flows`` flows are active, in Gbit/s.

    It is averaged over the second half of the step, after control has settled.
    """
    step_s = run.duration_s / flows
    return run.mean_gbit_s(flow, (active - 0.5) * step_s, active * step_s)
