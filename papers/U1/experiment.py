"""The validation of Ultra Ethernet's simulator: completion of transfers, incasts and permutations."""

from silvan.papers import common, figures

uec = common("uec")

TABLES = ()

SCENARIO = "uec.toml"
#: Hosts per link from a leaf to the spines, unless it is one.
RATIOS = {"leaves_4": 4, "leaves_8": 8}
#: Destinations of the 16 hosts in the permutation that comes with the simulator.
TO = (8, 4, 13, 10, 12, 15, 0, 9, 14, 7, 5, 3, 11, 6, 2, 1)


def leaves(spines):
    return uec.leaves(32, spines, 32)


OUTCAST = [(1, 0), (2, 0), *((2, n) for n in range(4, 13)), (3, 0), *((3, n) for n in range(13, 22))]
CASES = {
    "one": uec.tree(4),
    "two_ways": uec.tree(4) | uec.flows([(0, 13), (13, 0)]),
    "incast_15": uec.tree(4) | uec.flows([(n, 15) for n in range(15)]),
    "incast_127": uec.tree(8) | uec.flows([(n, 33) for n in range(128) if n != 33]),
    "overlap": uec.tree(8) | uec.flows([(127, 0), (95, 0, "250 kB", "40 us"), (61, 0, "250 kB", "40 us")]),
    "outcast": uec.tree(8) | uec.flows(OUTCAST),
    "permutation_16": uec.tree(4) | uec.flows(enumerate(TO)) | {"ecmp.values": 128},
    "permutation_16_one": uec.tree(4) | uec.flows(enumerate(TO)) | {"ecmp.values": 1},
    "permutation_1024": uec.tree(16) | uec.permutation() | {"ecmp.values": 128},
    "permutation_1024_one": uec.tree(16) | uec.permutation() | {"ecmp.values": 1},
    "leaves_4": leaves(8) | uec.permutation() | {"ecmp.values": 128},
    "leaves_8": leaves(4) | uec.permutation() | {"ecmp.values": 128},
}


def runs(quick):
    return {
        f"{case} {control}": (SCENARIO, parts | uec.control(control, RATIOS.get(case, 1)))
        for case, parts in CASES.items()
        for control in uec.CONTROLS
    }


def compare(results):
    found = {}
    for key, run in results.items():
        case, control = key.split()
        found[f"{case}_{control}"] = uec.last_us(run, case)
        if case == "outcast":
            found[f"outcast_first_{control}"] = uec.last_us(run, case, "F1")
    return found


def plot(results, out):
    fig, (ax,) = figures.figure()
    times = compare(results)
    for control, colour in zip(uec.CONTROLS, figures.COLOURS, strict=False):
        ax.plot(
            range(len(CASES)),
            [times[f"{case}_{control}"] for case in CASES],
            "o",
            color=colour,
            label=control,
        )
    ax.set(yscale="log", ylabel="completion of the last flow, us", xticks=range(len(CASES)))
    ax.set_xticklabels(CASES, rotation=60, ha="right", fontsize="small")
    ax.legend(frameon=False)
    figures.save(fig, out, "U1")
