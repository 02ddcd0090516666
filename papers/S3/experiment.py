"""The share of the calculated rates that a network with small buffers reaches (SYSTOR 2009, table 1)."""

from silvan.papers import common, figures

phases = common("phases")

TABLES = ()
BUFFERS = (2, 4, 8, 16)
FLOWS = (1, 2, 3, 4, 5)
#: Phases per seed by the number of packets, each with other flows. The published numbers are averages over 50
#: runs. With 8 and 16 packets, the ratios of single phases differ by at most 0.04.
DRAWS = {2: 5, 4: 5, 8: 1, 16: 1}
rates = phases.rates


def runs(quick):
    size = {"k": 8 if quick else 16, "injection": "periodic-selection"}
    return {
        f"{flows} {packets}": (
            "rates",
            {"permutations": flows, "packets": packets, "draws": 1 if quick else DRAWS[packets], **size},
        )
        for flows in FLOWS
        for packets in BUFFERS
    }


def compare(results):
    return {
        f"n{flows}_b{packets}": results[f"{flows} {packets}"].summary["ratio"]
        for flows in FLOWS
        for packets in BUFFERS
    }


def plot(results, out):
    fig, (ax,) = figures.figure()
    for flows, colour in zip(FLOWS, figures.COLOURS, strict=False):
        ratios = [results[f"{flows} {packets}"].summary["ratio"] for packets in BUFFERS]
        ax.plot(range(len(BUFFERS)), ratios, "o-", color=colour, label=f"{flows} flows per source")
    ax.set_xticks(range(len(BUFFERS)), [str(packets) for packets in BUFFERS])
    ax.set(xlabel="packets per input port", ylabel="least measured over least calculated rate")
    ax.set_ylim(0, 1.1)
    ax.legend(frameon=False, fontsize="small")
    figures.save(fig, out, "S3")
