"""The validation cases of Ultra Ethernet's simulator in which packets are trimmed, run with trimming."""

from silvan.papers import common, figures

uec = common("uec")

TABLES = ()

SCENARIO = "../common/uec-trimming.toml"
#: Hosts per link from a leaf to the spines, unless it is one.
RATIOS = {"leaves_4": 4}
#: Packets in the first window of NSCC, if uet-htsim sets it.
FIRST = {"incast_1023": 50, "overlap": 50}


def leaves(spines):
    """Return a leaf-spine network, whose bandwidth-delay product is 29 packets.

    Marks begin with 6 packets in a queue, and all packets are marked from 24 on.
    """
    return uec.leaves(32, spines, 32) | {
        "switch.trimming": {"queue": f"{28 * uec.PACKET} B", "size": "64 B"},
        "congestion.marking": uec.marks(6, 24),
        "ecmp.values": 128,
    }


CASES = {
    "incast_15": uec.tree(4) | uec.flows([(n, 15) for n in range(15)]),
    "incast_127": uec.tree(8) | uec.flows([(n, 33) for n in range(128) if n != 33]),
    "incast_1023": uec.tree(16) | uec.flows([(n, 0) for n in range(1, 1024)], "100 kB"),
    "overlap": uec.tree(8) | uec.flows([(127, 0), (95, 0, "250 kB", "40 us"), (61, 0, "250 kB", "40 us")]),
    "leaves_4": leaves(8) | uec.permutation(),
}


def runs(quick):
    return {
        f"{case} {control}": (
            SCENARIO,
            parts | uec.control(control, RATIOS.get(case, 1), FIRST.get(case)),
        )
        for case, parts in CASES.items()
        for control in uec.CONTROLS
    }


def compare(results):
    found = {}
    for key, run in results.items():
        case, control = key.split()
        found[f"{case}_{control}"] = uec.last_us(run, case)
        found[f"{case}_{control}_again"] = run.summary["trimming"]["retransmitted_packets"]
    return found


def plot(results, out):
    fig, axes = figures.figure(columns=2)
    found = compare(results)
    for ax, end, label in (
        (axes[0], "", "completion of the last flow, us"),
        (axes[1], "_again", "packets sent again"),
    ):
        for control, colour in zip(uec.CONTROLS, figures.COLOURS, strict=False):
            values = [max(found[f"{case}_{control}{end}"], 1) for case in CASES]
            ax.plot(range(len(CASES)), values, "o", color=colour, label=control)
        ax.set(yscale="log", ylabel=label, xticks=range(len(CASES)))
        ax.set_xticklabels(CASES, rotation=60, ha="right", fontsize="small")
    axes[0].legend(frameon=False)
    figures.save(fig, out, "U5")
