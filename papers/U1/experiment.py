"""The validation of Ultra Ethernet's simulator: completion of transfers, incasts and permutations."""

from silvan.papers import figures

TABLES = ()

SCENARIO = "uec.toml"
#: The control of sources, of receivers, and both.
CONTROLS = {
    "nscc": {"congestion.notification": "ack-each", "congestion.reaction": {"kind": "nscc"}},
    "rccc": {
        "congestion.notification": "ack-grant",
        "congestion.reaction": {"kind": "rccc", "divide_requests": True},
    },
    "both": {
        "congestion.notification": "ack-grant",
        "congestion.reaction": {"kind": "rccc", "divide_requests": True, "nscc": {}},
    },
}
#: The lowest rate of grants in an oversubscribed network, which RCCC alone controls: 0.9 of the rate of a
#: link, divided by the number of hosts per link to a spine.
LOWEST = {"leaves_4": 225, "leaves_8": 112}
#: The permutation of 16 hosts that the simulator comes with.
TO = (8, 4, 13, 10, 12, 15, 0, 9, 14, 7, 5, 3, 11, 6, 2, 1)
#: Links on the longest route, which the last acknowledgement crosses on its way back: 1 us and 64 bytes each.
LINKS = {"tree": 6, "leaves": 4}


def tree(radix):
    link = {"link_rate": "100 Gbit/s", "link_delay": "1 us"}
    return {"topology": {"kind": "three-level-fat-tree", "radix": radix, **link}}


def leaves(spines):
    link = {"link_rate": "100 Gbit/s", "link_delay": "1 us"}
    sizes = {"leaves": 32, "spines": spines, "hosts_per_leaf": 32}
    return {"topology": {"kind": "two-level-fat-tree", **sizes, **link}}


def flows(pairs):
    """Return the flows between numbered hosts; pairs may have a size and a start."""
    found = []
    for number, (near, far, *more) in enumerate(pairs, 1):
        size, start = more or ("2 MB", "0 us")
        ends = {"from": f"H{near + 1}", "to": f"H{far + 1}"}
        found.append({"name": f"F{number}", **ends, "message": size, "total": size, "start": start})
    return {"flow": found}


def permutation():
    # 490 packets are 2 MB.
    one = {"name": "permutation", "pattern": {"kind": "permutation"}}
    return {"flow": [], "traffic": [{**one, "message": "2 MB", "packets_per_host": 490}]}


OUTCAST = [(1, 0), (2, 0), *((2, n) for n in range(4, 13)), (3, 0), *((3, n) for n in range(13, 22))]
CASES = {
    "one": tree(4),
    "two_ways": tree(4) | flows([(0, 13), (13, 0)]),
    "incast_15": tree(4) | flows([(n, 15) for n in range(15)]),
    "incast_127": tree(8) | flows([(n, 33) for n in range(128) if n != 33]),
    "overlap": tree(8) | flows([(127, 0), (95, 0, "250 kB", "40 us"), (61, 0, "250 kB", "40 us")]),
    "outcast": tree(8) | flows(OUTCAST),
    "permutation_16": tree(4) | flows(enumerate(TO)) | {"ecmp.values": 128},
    "permutation_16_one": tree(4) | flows(enumerate(TO)) | {"ecmp.values": 1},
    "permutation_1024": tree(16) | permutation() | {"ecmp.values": 128},
    "permutation_1024_one": tree(16) | permutation() | {"ecmp.values": 1},
    "leaves_4": leaves(8) | permutation() | {"ecmp.values": 128},
    "leaves_8": leaves(4) | permutation() | {"ecmp.values": 128},
}


def runs(quick):
    return {
        f"{case} {control}": (SCENARIO, CASES[case] | parts | grants(case, control))
        for case in CASES
        for control, parts in CONTROLS.items()
    }


def grants(case, control):
    if case not in LOWEST or control != "rccc":
        return {}
    reaction = CONTROLS[control]["congestion.reaction"]
    return {"congestion.reaction": reaction | {"oversubscribed": {"min_rate_permille": LOWEST[case]}}}


def last_us(run, case, only=None):
    """Return when the last acknowledgement is back: of all flows, or of one."""
    classes = run.summary["classes"]
    last_ns = max(one["last_delivery_ns"] for one in classes if only in (None, one["class"]))
    links = LINKS["leaves" if case.startswith("leaves") else "tree"]
    return last_ns / 1e3 + links * (1 + 0.00512)


def compare(results):
    found = {}
    for key, run in results.items():
        case, control = key.split()
        found[f"{case}_{control}"] = last_us(run, case)
        if case == "outcast":
            found[f"outcast_first_{control}"] = last_us(run, case, "F1")
    return found


def plot(results, out):
    fig, (ax,) = figures.figure()
    times = compare(results)
    for control, colour in zip(CONTROLS, figures.COLOURS, strict=False):
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
