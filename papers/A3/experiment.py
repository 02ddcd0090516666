"""All to one on a 4-ary 3-tree: shares by distance (Paper II, V)."""

from silvan.papers import figures

TABLES = ()
#: Senders by distance from H1: under the same leaf switch, in the same pod, further away.
LEVELS = {"near": range(2, 5), "second": range(5, 17), "third": range(17, 65)}
LAW = {"near": 1 / 4, "second": 1 / 64, "third": 1 / 768}


def runs(quick):
    return {"off": ("all-to-one.toml", {"duration": "153.6 ms"} if quick else {})}


def _shares(results):
    """Each sender's share; what a host sends in the steady state arrives."""
    run = results["off"]
    return {
        level: [run.host(f"H{n}")["sent_gbit_s"] / 16.0 for n in numbers] for level, numbers in LEVELS.items()
    }


def compare(results):
    values = {}
    for level, shares in _shares(results).items():
        values[f"{level}_least"] = min(shares)
        values[f"{level}_most"] = max(shares)
    return values


def plot(results, out):
    fig, (ax,) = figures.figure()
    for n, (level, shares) in enumerate(_shares(results).items()):
        ax.plot(
            list(LEVELS[level]), shares, "o", markersize=4, color=figures.COLOURS[n], label=f"{level} level"
        )
        ax.axhline(LAW[level], color=figures.COLOURS[n], linewidth=0.8, linestyle="--")
    ax.set_yscale("log")
    ax.set_xlabel("sending host")
    ax.set_ylabel("share of the link to H1")
    ax.set_title("All to one, 4-ary 3-tree (dashed: 1/4, 1/64, 1/768)")
    ax.legend(frameon=False)
    figures.save(fig, out, "A3")
