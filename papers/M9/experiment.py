"""Measurements for MVCM's thresholds and window: uniform traffic near saturation (MVCM, 4.3)."""

import numpy as np

from silvan.papers import common, figures

mvcm = common("mvcm")

TABLES = ("links",)
LOADS = {False: (1.6, 2.0, 2.4, 2.8), True: (1.6, 2.0)}
#: Warm-up and duration in cycles. `BUFFER` is the size of a switch's input or output buffer in bytes.
WARMUP, DURATION = 20_000, 60_000
BUFFER = 1024
#: A load counts as accepted if hosts receive at least this share of it.
ACCEPTED = 0.98


def runs(quick):
    own = {
        **mvcm.NONE,
        "duration": f"{DURATION} cycles",
        "warmup": f"{WARMUP} cycles",
        "measure.interval": "1000 cycles",
        "measure.links": True,
    }
    return {f"{load:g}": mvcm.Case(load=load, share=0).run(own) for load in LOADS[quick]}


def _numbers(run, load):
    """Return the accepted share of the load, the fill of buffers in percent, and outstanding packets.

    Outstanding packets are those of one host.
    """
    of = mvcm.Case(load=load, share=0)
    per_host = run.summary["throughput_gbit_s"] / 8 * mvcm.PACKET / mvcm.PAYLOAD / of.hosts
    links = run.tables["links"]
    inside = links["time_ns"] > WARMUP
    names = links["link"].astype(str)
    from_switch = np.char.startswith(names, "S") & inside
    to_switch = ~np.char.startswith(np.array([name.rpartition("->")[2] for name in names]), "H") & inside
    # The acknowledgment consists of a header. It crosses as many links as the packet, in an idle network.
    back = mvcm.HEADER + mvcm.Window().hops * mvcm.Window().hop_cycles
    outside = run.mean_latency_ns("cold", "injection") + back
    return {
        "accepted": per_host / of.host_rate,
        "input": 100 * float(links["downstream_bytes"][to_switch].mean()) / BUFFER,
        "output": 100 * float(links["queued_bytes"][from_switch].mean()) / BUFFER,
        "outstanding": per_host / mvcm.PACKET * outside,
    }


def _by_load(results):
    return {load: _numbers(results[f"{load:g}"], load) for load in LOADS[results.quick]}


def compare(results):
    found = _by_load(results)
    own = [numbers for numbers in found.values() if numbers["accepted"] >= ACCEPTED][-1]
    return {
        "input": own["input"],
        "output": own["output"],
        "outstanding": own["outstanding"],
        "above_formula": own["outstanding"] / 1.28,
    }


def plot(results, out):
    found = _by_load(results)
    fig, (fill, packets) = figures.figure(columns=2)
    for key in ("input", "output"):
        fill.plot(list(found), [own[key] for own in found.values()], "o-", label=f"{key} buffers")
    fill.set(xlabel="load (bytes per cycle and switch)", ylabel="occupancy (%)", ylim=(0, 100))
    fill.legend(frameon=False)
    packets.plot(list(found), [own["outstanding"] for own in found.values()], "o-")
    packets.axhline(1.4, color="0.4", linestyle="--")
    packets.set(xlabel="load (bytes per cycle and switch)", ylabel="outstanding packets of a host")
    figures.save(fig, out, "M9")
