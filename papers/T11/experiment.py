"""One threshold for all queues to an output, or one per queue (Paper II, IV.B)."""

from silvan.fairness import jain
from silvan.papers import common, figures

staged = common("staged")

FLOWS = ("H1", "H2", "H3", "H6", "H7")
STAR = "../T5/star.toml"
FILLS = ("sum", "each")


def runs(quick):
    """Return runs in which four contributors start together, and runs with a single flow.

    The single flow goes to a host that drains packets at half of the rate of the flow.
    """
    step_ms = 100 if quick else 500
    starts = {f"flow.{n}.start": "0 s" for n in range(5)}
    length = {"duration": f"{2 * step_ms} ms", "warmup": f"{step_ms} ms"}
    alone = {"duration": "20 ms", "host.drain_rate": "6.5 Gbit/s", "flow": [_alone()]}
    return {
        f"{name} {fill}": (STAR, {**own, **staged.CC, "congestion.marking.fill": fill})
        for fill in FILLS
        for name, own in (("all", {**starts, **length}), ("alone", alone))
    }


def _alone():
    return {"name": "H2", "from": "H2", "to": "H5", "message": "64 KiB"}


def compare(results):
    rates = {fill: [results[f"all {fill}"].received_gbit_s(flow) for flow in FLOWS] for fill in FILLS}
    values = {
        "victim": rates["each"][0] / rates["sum"][0],
        "contributors": sum(rates["each"][1:]) / sum(rates["sum"][1:]),
        "fairness": jain(rates["each"][1:]) / jain(rates["sum"][1:]),
    }
    for fill in FILLS:
        values[f"alone_{fill}"] = results[f"alone {fill}"].summary["becn_received"]
    return values


def plot(results, out):
    fig, axes = figures.figure(columns=2)
    for ax, fill in zip(axes, FILLS, strict=True):
        figures.throughput(ax, results[f"all {fill}"], FLOWS, f"Fill: {fill}", smooth=10)
    figures.save(fig, out, "T11")
