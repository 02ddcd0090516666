"""How hosts select paths: a permutation with four ways to spray packets, with trimming of packets."""

from silvan.papers import common, figures

uec = common("uec")

TABLES = ()

SCENARIO = "../common/uec-trimming.toml"
CONTROLS = ("nscc", "rccc")
SPRAYING = ("oblivious", "bitmap", "reps", "mixed")
#: Packets of a queue, including the one that is being sent. With the last two ways, no queue becomes longer
#: than 43 packets, so that longer ones change nothing.
USUAL, LARGE = 43, 500
CASES = [
    *((control, spraying, USUAL) for control in CONTROLS for spraying in SPRAYING),
    *((control, spraying, LARGE) for control in CONTROLS for spraying in SPRAYING[:2]),
]


def _name(control, spraying, packets):
    return f"{control}_{spraying}" + ("_large" if packets == LARGE else "")


def runs(quick):
    return {
        _name(control, spraying, packets): (
            SCENARIO,
            uec.tree(4 if quick else 16)
            | uec.permutation()
            | uec.control(control)
            | {
                "ecmp.values": 128,
                "ecmp.spraying": spraying,
                "switch.trimming": {"queue": f"{(packets - 1) * uec.PACKET} B", "size": "64 B"},
            },
        )
        for control, spraying, packets in CASES
    }


def compare(results):
    return {name: uec.last_us(run, "tree") for name, run in results.items()}


def plot(results, out):
    fig, (ax,) = figures.figure()
    found = compare(results)
    for control, colour in zip(CONTROLS, figures.COLOURS, strict=False):
        for packets, style in ((USUAL, "o"), (LARGE, "s")):
            names = [_name(*case) for case in CASES if (case[0], case[2]) == (control, packets)]
            label = f"{control}, {packets} packets"
            ax.plot(range(len(names)), [found[name] for name in names], style, color=colour, label=label)
    ax.set(ylabel="completion of the last flow, us", xticks=range(len(SPRAYING)))
    ax.set_xticklabels(SPRAYING)
    ax.legend(frameon=False, fontsize="small")
    figures.save(fig, out, "U6")
