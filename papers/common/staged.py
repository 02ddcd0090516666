"""Common code of the testbed experiments: flows start one after the other, one per step."""

from __future__ import annotations

from typing import Any

from silvan.papers.data import RunData

#: Length of a step in s, as published and in quick runs. Congestion control settles within some tens of
#: milliseconds.
FULL_S = 1.0
QUICK_S = 0.1

#: Congestion control with the values of Table I of Paper III. The distance between the two thresholds of the
#: hardware is not published. Paper II finds that it must be more than an MTU. Here, it is an MTU and a
#: header.
CC = {"congestion.mechanism": "ib-cc", "congestion.marking.hysteresis": "2112 B"}

#: Hosts of the testbed. A host starts at most one message per microsecond. Paper III measures 13 Gbit/s with
#: messages of 64 KiB, or 40.33 us per message. The bus therefore transfers 64 KiB in 1 us less, at 13.33
#: Gbit/s.
HOSTS = {"host.message_overhead": "1 us", "host.injection_rate": "13.33 Gbit/s"}

#: Switches with a queue per output at each input, and a buffer at each output. Paper I describes such a
#: buffer of its simulator. Whether the hardware has one is not published. Its size was fitted to the
#: latencies of the ping-pong and of the natural ring next to a congestion tree (T9, b). The ping-pong then
#: takes the time of twelve packets at the rate of the link to H5.
SWITCHES = {
    "switch.architecture": "cioq",
    "switch.queues": "per-output",
    "switch.output_buffer": "22 KiB",
}

#: Hosts and switches for the numbers of Paper I (T1, T2, T12), and for T9 together with its own hosts.
HARDWARE = {**HOSTS, **SWITCHES}

#: Transmission time of a full packet and its header at 20 Gbit/s, the signaling rate of the links, in ns.
PACKET_NS = 2112 * 8 / 20


def whole_packets(divisor: int) -> dict[str, Any]:
    """Return the table of Paper III, VII.B, for a divisor, with delays of whole packet times.

    InfiniBand encodes a delay as a multiple of the transmission time of a packet. Fractions are cut off. The
    transmission time is that at the signaling rate, a choice that was fitted to the smallest samples of table
    II (T4).
    """
    delays_ns = [i * i * 7000 / divisor**2 for i in range(128)]
    whole = [round(delay // PACKET_NS * PACKET_NS) for delay in delays_ns]
    return {"congestion.reaction.table": {"kind": "list", "delays_ns": whole}}


#: Congestion control for the numbers of Paper I. The time in which an adapter answers a marked packet is not
#: published. It was fitted to the 11 Gbit/s that two contributors have together (T2).
HARDWARE_CC = {**CC, **whole_packets(106), "congestion.notification_delay": "10 us"}

#: Congestion control for the numbers of Paper III (T3, T4, T7, T8, T10), on switches without output
#: buffers. Papers I and III print different results of the same test: control reduces the rates of three
#: flows by 21 and by 3.5 %. No rule was found that gives both, so each paper has its own parameters. Here,
#: an adapter sends at most one notification in 4 us, and sends it without delay. The rule was selected by
#: table II (T4); 4 us is the default of ConnectX-4 and later adapters (NVIDIA, "DCQCN Parameters",
#: `min_time_between_cnps`).
PAPER_III_CC = {
    **CC,
    **whole_packets(106),
    "congestion.coalescing": {"interval": "4 us", "per": "port"},
}


def overrides(flows: int, step_s: float, **more: Any) -> dict[str, Any]:
    """Return overrides for a scenario whose flows start one after the other every ``step_s`` seconds."""
    microseconds = round(step_s * 1e6)
    starts = {f"flow.{n}.start": f"{n * microseconds} us" for n in range(flows)}
    return {"duration": f"{flows * microseconds} us", **starts, **more}


def quick_or_full(quick: bool) -> float:
    """Return the length of a step in s."""
    return QUICK_S if quick else FULL_S


def settled(run: RunData, flow: str, active: int, flows: int) -> float:
    """Return a flow's throughput while ``active`` of ``flows`` flows are active, in Gbit/s.

    It is averaged over the second half of the step, after control has settled.
    """
    step_s = run.duration_s / flows
    return run.mean_gbit_s(flow, (active - 0.5) * step_s, active * step_s)
