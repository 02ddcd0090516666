"""All to one on a 4-ary 3-tree: shares by distance (Paper II, V)."""

from silvan.papers import figures

TABLES = ()
#: Senders by distance from H1: under the same leaf switch, in the same pod, further away.
LEVELS = {"near": range(2, 5), "second": range(5, 17), "third": range(17, 65)}
LAW = {"near": 1 / 4, "second": 1 / 64, "third": 1 / 768}


#: Other trees, by k and n. The shares of their farthest senders are compared with the general law.
OTHERS = ((2, 2), (2, 3), (2, 4), (4, 2), (8, 2))


def _of(k, n):
    hosts = [f"H{host + 1}" for host in range(1, k**n)]
    own = {"topology.k": k, "topology.n": n, "duration": "40 ms", "warmup": "20 ms"}
    return "all-to-one.toml", {**own, "traffic.0.hosts": hosts}


def runs(quick):
    trees = {f"{k} {n}": _of(k, n) for k, n in OTHERS}
    return {"off": ("all-to-one.toml", {"duration": "153.6 ms"} if quick else {}), **trees}


def _shares(results):
    """Return the shares of senders by level. In the steady state, all data that a host sends also arrives."""
    run = results["off"]
    return {
        level: [run.host(f"H{n}")["sent_gbit_s"] / 16.0 for n in numbers] for level, numbers in LEVELS.items()
    }


def compare(results):
    values = {}
    for level, shares in _shares(results).items():
        values[f"{level}_least"] = min(shares)
        values[f"{level}_most"] = max(shares)
    for k, n in OTHERS:
        run = results[f"{k} {n}"]
        furthest = range(k ** (n - 1) + 1, k**n + 1)
        sent = [run.host(f"H{host}")["sent_gbit_s"] / 16.0 for host in furthest]
        values[f"furthest_{k}_{n}"] = sum(sent) / len(sent)
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
