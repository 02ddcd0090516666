"""Contention of random permutations on the modified 16-ary 3-tree (SYSTOR 2009, figure 5).

Flows are set up one after another: over default ports on the plain tree, and adaptively on trees with 0 to 4
links between neighbors. No packets are simulated.
"""

import silvan
from silvan.papers import figures

TABLES = ()
WIDTHS = (0, 1, 2, 3, 4)
#: Switch ports of a 16-ary 3-tree: 32 each on two levels, 16 at the top.
PORTS = 256 * (32 + 32 + 16)
#: Pairs of neighbors in the rows of the second and third levels.
NEIGHBOURS = 16 * 15 + 255


def runs(quick):
    permutations = 40 if quick else 1000
    named = {"static": ("contention", {"width": 0, "routing": "default", "permutations": permutations})}
    for width in WIDTHS:
        named[f"width {width}"] = (
            "contention",
            {"width": width, "routing": "flow-count", "permutations": permutations},
        )
    return named


def contention(width, routing, permutations, repeat):
    tree = {"kind": "modified-k-ary-n-tree", "k": 16, "n": 3, "horizontal_width": width}
    found = silvan.contention(tree, routing, permutations=permutations, seed=1 + repeat)
    return {
        "maximum": float(found.maximum.mean()),
        "maximum_range": [int(found.maximum.min()), int(found.maximum.max())],
        "mean": float(found.mean.mean()),
        "mean_switches": float(found.mean_switches.mean()),
    }


def _over_static(results, width, measure):
    return results[f"width {width}"].summary[measure] / results["static"].summary[measure]


def compare(results):
    values = {"ports_2": 100 * 2 * 2 * NEIGHBOURS / PORTS}
    for width in WIDTHS:
        for measure in ("maximum", "mean"):
            values[f"{measure}_{width}"] = _over_static(results, width, measure)
    del values["maximum_1"], values["mean_1"]
    return values


def plot(results, out):
    fig, panels = figures.figure(columns=2, size=(4.6, 3.8))
    static = results["static"].summary
    for ax, measure, title in zip(
        panels, ("maximum", "mean"), ("Highest of all flows", "Average over flows"), strict=True
    ):
        found = [results[f"width {width}"].summary for width in WIDTHS]
        ax.axhline(static[measure], color="0.5", linewidth=1, label="default ports")
        ax.plot(WIDTHS, [own[measure] for own in found], "o-", color=figures.COLOURS[0], label="adaptive")
        if measure == "maximum":
            low, high = ([abs(own["maximum_range"][n] - own["maximum"]) for own in found] for n in (0, 1))
            ax.errorbar(
                WIDTHS, [own["maximum"] for own in found], (low, high), fmt="none", ecolor="0.6", capsize=3
            )
        ax.set(xlabel="horizontal width", ylabel="flows on a flow's worst link", title=title)
        ax.set_xticks(WIDTHS)
        ax.margins(y=0.1)
        ax.set_ylim(bottom=0)
        ax.legend(frameon=False, fontsize="small", loc="lower left")
    figures.save(fig, out, "S1")
