"""How hosts select paths: a permutation with four ways to spray packets. Switches trim packets."""

from silvan.papers import common, figures

uec = common("uec")

TABLES = ()

SCENARIO = "../common/uec-trimming.toml"
CONTROLS = ("nscc", "rccc")
#: Limits of a queue in packets, including the packet that is being sent.
USUAL, LARGE = 43, 500
#: Ways to spray, limits of a queue, and whether each packet is acknowledged. With REPS or the mixed way, and
#: each packet acknowledged, no queue exceeds 43 packets, so a larger limit would change nothing.
CASES = {
    "oblivious": ("oblivious", USUAL, False),
    "bitmap": ("bitmap", USUAL, False),
    "reps": ("reps", USUAL, True),
    "reps_unit": ("reps", USUAL, False),
    "mixed": ("mixed", USUAL, True),
    "mixed_unit": ("mixed", USUAL, False),
    "oblivious_large": ("oblivious", LARGE, False),
    "bitmap_large": ("bitmap", LARGE, False),
}


def runs(quick):
    return {
        f"{control}_{case}": (
            SCENARIO,
            uec.tree(4 if quick else 16)
            | uec.permutation()
            | uec.control(control, is_each=is_each)
            | {
                "ecmp.values": 128,
                "ecmp.spraying": spraying,
                "switch.trimming": {"queue": f"{(packets - 1) * uec.PACKET} B", "size": "64 B"},
            },
        )
        for control in CONTROLS
        for case, (spraying, packets, is_each) in CASES.items()
    }


def compare(results):
    return {name: uec.last_us(run, "tree") for name, run in results.items()}


def plot(results, out):
    fig, ax = uec.plot_cases(compare(results), CONTROLS, CASES)
    ax.legend(frameon=False, fontsize="small")
    figures.save(fig, out, "U6")
