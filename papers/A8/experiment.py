"""Checks of laws of queues and switches.

They are the saturation of input-queued switches, the waiting time in an M/D/1 queue, shift permutations on a
fat tree, and the total of max-min shares as a bound.
"""

from silvan.papers import common, figures
from silvan.papers.catalogue import find_papers, load_module

staged = common("staged")

PORTS = (2, 3, 4, 5, 6, 7, 8)
#: Number of ports that represents a very large switch.
MANY = 128
KAROL = {2: 0.75, 3: 0.6825, 4: 0.6552, 5: 0.6399, 6: 0.6301, 7: 0.6234, 8: 0.6184, MANY: 0.5858}
LOADS = (20, 50, 80)
TESTBED = "../common/testbed-scenario-1.toml"
#: The links on the route of each flow of scenario 1. `CAPACITY` has the rates of these links in Gbit/s, with
#: hosts limited to 13 Gbit/s.
PATHS = {
    "F1": ("H1", "trunk", "to H4"),
    "F2": ("H2", "trunk", "to H5"),
    "F3": ("H3", "trunk", "to H5"),
    "F4": ("H6", "to H5"),
    "F5": ("H7", "to H5"),
}
CAPACITY = {"trunk": 32.0} | dict.fromkeys(("H1", "H2", "H3", "H6", "H7", "to H4", "to H5"), 13.0)


def runs(quick):
    named = {}
    length = {"duration": "60 ms", "warmup": "10 ms"} if quick else {}
    for n in PORTS:
        named[f"fifo {n}"] = ("one-switch.toml", {"topology.hosts": n, **length})
    # In a large switch, each packet time gives many samples, so shorter runs suffice.
    short = {"duration": "6 ms", "warmup": "2 ms"} if quick else {"duration": "12 ms", "warmup": "4 ms"}
    named[f"fifo {MANY}"] = ("one-switch.toml", {"topology.hosts": MANY, **short})
    named["voq 8"] = ("one-switch.toml", {"switch.queues": "per-output", "switch.buffer": "8 MiB", **length})
    duration = "1 s" if quick else "10 s"
    named["idle"] = (
        "md1.toml",
        {"flow.0.arrivals": "periodic", "duration": "1 ms", "flow.0.rate": "160 Mbit/s"},
    )
    for load in LOADS:
        rate = f"{load * 160} Mbit/s"
        named[f"md1 {load}"] = ("md1.toml", {"flow.0.rate": rate, "duration": duration})
    for by in (1, 5, 21, 42) if quick else range(1, 64):
        named[f"shift {by}"] = ("shift.toml", {"traffic.0.pattern.by": by})
    starts = {f"flow.{n}.start": "0 s" for n in range(5)} | {"duration": "300 ms", "warmup": "100 ms"}
    named["testbed off"] = (TESTBED, starts)
    named["testbed on"] = (TESTBED, starts | staged.CC)
    return named


def _utilisation(run, ports):
    return run.summary["throughput_gbit_s"] / (16.0 * ports)


def _waiting(results, load):
    """Return the mean waiting time in the queue, in packet times of 1 us."""
    since = "generation"
    idle = results["idle"].mean_latency_ns("queue", since)
    return (results[f"md1 {load}"].mean_latency_ns("queue", since) - idle) / 1000


def _slowest_shifted(results):
    rates = [
        host["received_gbit_s"]
        for name, run in results.items()
        if name.startswith("shift ")
        for host in run.summary["hosts"]
    ]
    return min(rates) / 16.0


def _max_min():
    return load_module(find_papers().parent / "verify" / "maxmin.py", "silvan_verify_maxmin").max_min(
        PATHS, CAPACITY
    )


def compare(results):
    values = {f"fifo_{n}": _utilisation(results[f"fifo {n}"], n) for n in (*PORTS, MANY)}
    values["voq_8"] = _utilisation(results["voq 8"], 8)
    values |= {f"md1_{load}": _waiting(results, load) for load in LOADS}
    values["shift"] = _slowest_shifted(results)
    fair = sum(_max_min().values())
    values["total_off"] = sum(results["testbed off"].received_gbit_s(f) for f in PATHS) / fair
    values["total_on"] = sum(results["testbed on"].received_gbit_s(f) for f in PATHS) / fair
    return values


def plot(results, out):
    fig, (left, middle, right) = figures.figure(columns=3, size=(4.6, 3.8))
    values = compare(results)
    left.plot(PORTS, [KAROL[n] for n in PORTS], color="0.5", linewidth=1, label="Karol et al.")
    left.plot(
        PORTS, [values[f"fifo_{n}"] for n in PORTS], "o", color=figures.COLOURS[0], label="simulated, FIFO"
    )
    left.plot([8], [values["voq_8"]], "s", color=figures.COLOURS[2], label="simulated, VOQ with iSLIP")
    left.axhline(KAROL[MANY], color="0.5", linewidth=0.8, linestyle=":")
    left.set(xlabel="ports", ylabel="saturation throughput", ylim=(0.5, 1.05), title="Input-queued switch")
    left.legend(frameon=False, fontsize="small")
    loads = [n / 100 for n in range(0, 90)]
    middle.plot(loads, [x / (2 * (1 - x)) for x in loads], color="0.5", linewidth=1, label="law")
    waits = [values[f"md1_{load}"] for load in LOADS]
    middle.plot([load / 100 for load in LOADS], waits, "o", color=figures.COLOURS[0], label="simulated")
    middle.set(xlabel="load", ylabel="mean waiting (packet times)", title="M/D/1 queue")
    middle.legend(frameon=False)
    fair = _max_min()
    rates = {
        name: [results[name].received_gbit_s(f) for f in PATHS] for name in ("testbed off", "testbed on")
    }
    for n, (label, series) in enumerate({"max-min": list(fair.values()), **rates}.items()):
        at = [i + 0.27 * (n - 1) for i in range(len(PATHS))]
        right.bar(at, series, 0.25, color=("0.7", figures.COLOURS[1], figures.COLOURS[0])[n], label=label)
    right.set_xticks(range(len(PATHS)), list(PATHS))
    right.set(ylabel="throughput (Gbit/s)", title="Testbed, scenario 1")
    right.legend(frameon=False)
    figures.save(fig, out, "A8")
