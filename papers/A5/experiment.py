"""Latency of a packet in an idle network: the delays on its route plus its transmission time."""

from silvan.papers import figures

TABLES = ()
SIZES = (64, 512, 2048, 4096)
HOPS = (1, 3, 5)


def runs(quick):
    return {
        str(size): ("one-packet.toml", {f"flow.{n}.message": f"{size} B" for n in range(len(HOPS))})
        for size in SIZES
    }


def _name(hops):
    return f"{hops} switch" if hops == 1 else f"{hops} switches"


def law_ns(hops, size):
    """Return the latency over a number of switches, in ns.

    Each switch and the link before it take 120 ns, and the last link 20 ns. The transmission of the packet at
    16 Gbit/s is added.
    """
    return hops * (20 + 100) + 20 + size * 8 / 16


def compare(results):
    return {
        f"{hops}_{size}": results[str(size)].mean_latency_ns(_name(hops), "injection")
        for hops in HOPS
        for size in SIZES
    }


def plot(results, out):
    fig, (ax,) = figures.figure()
    for n, hops in enumerate(HOPS):
        colour = figures.COLOURS[n]
        simulated = [results[str(size)].mean_latency_ns(_name(hops), "injection") for size in SIZES]
        ax.plot(SIZES, [law_ns(hops, size) for size in SIZES], color=colour, linewidth=1, label=_name(hops))
        ax.plot(SIZES, simulated, "o", color=colour, markersize=5)
    ax.set_xlabel("packet (bytes)")
    ax.set_ylabel("latency (ns)")
    ax.set_title("Zero-load latency (lines: law, dots: simulated)")
    ax.legend(frameon=False)
    figures.save(fig, out, "A5")
