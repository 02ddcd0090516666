"""The validation of Ultra Ethernet's simulator where it has losses, with the same trimming of packets."""

from silvan.papers import figures

TABLES = ()

SCENARIO = "uec.toml"
PACKET = 4150
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
LOWEST = {"leaves_4": 225}
#: Networks in which a flow has at most 50 packets of credit.
LIMITED = ("incast_1023", "overlap")
#: Links on the longest route, which the last acknowledgement crosses on its way back: 1 us and 64 bytes each.
LINKS = {"tree": 6, "leaves": 4}


def tree(radix):
    link = {"link_rate": "100 Gbit/s", "link_delay": "1 us"}
    return {"topology": {"kind": "three-level-fat-tree", "radix": radix, **link}}


def leaves(spines):
    """Return a leaf-spine network; its bandwidth-delay product is 29 packets, of which marks use 6 and 24."""
    link = {"link_rate": "100 Gbit/s", "link_delay": "1 us"}
    sizes = {"leaves": 32, "spines": spines, "hosts_per_leaf": 32}
    low, high = f"{6 * PACKET} B", f"{24 * PACKET} B"
    return {
        "topology": {"kind": "two-level-fat-tree", **sizes, **link},
        "switch.trimming": {"queue": f"{28 * PACKET} B", "size": "64 B"},
        "congestion.marking": {"kind": "red", "min": low, "max": high, "percent": 100},
        "ecmp.values": 128,
    }


def flows(pairs, size="2 MB"):
    """Return the flows between numbered hosts; pairs may have a size and a start."""
    found = []
    for number, (near, far, *more) in enumerate(pairs, 1):
        own, start = more or (size, "0 us")
        ends = {"from": f"H{near + 1}", "to": f"H{far + 1}"}
        found.append({"name": f"F{number}", **ends, "message": own, "total": own, "start": start})
    return {"flow": found}


def permutation():
    # 490 packets are 2 MB.
    one = {"name": "permutation", "pattern": {"kind": "permutation"}}
    return {"flow": [], "traffic": [{**one, "message": "2 MB", "packets_per_host": 490}]}


CASES = {
    "incast_15": tree(4) | flows([(n, 15) for n in range(15)]),
    "incast_127": tree(8) | flows([(n, 33) for n in range(128) if n != 33]),
    "incast_1023": tree(16) | flows([(n, 0) for n in range(1, 1024)], "100 kB"),
    "overlap": tree(8) | flows([(127, 0), (95, 0, "250 kB", "40 us"), (61, 0, "250 kB", "40 us")]),
    "leaves_4": leaves(8) | permutation(),
}


def control_of(case, control):
    """Return the control of a case."""
    parts = dict(CONTROLS[control])
    reaction = dict(parts["congestion.reaction"])
    if case in LOWEST and control == "rccc":
        reaction["oversubscribed"] = {"min_rate_permille": LOWEST[case]}
    if case in LIMITED and control != "nscc":
        reaction["limit"] = f"{50 * PACKET} B"
    return parts | {"congestion.reaction": reaction}


def runs(quick):
    return {
        f"{case} {control}": (SCENARIO, CASES[case] | control_of(case, control))
        for case in CASES
        for control in CONTROLS
    }


def last_us(run, case):
    """Return when the last acknowledgement is back."""
    last_ns = max(one["last_delivery_ns"] for one in run.summary["classes"])
    links = LINKS["leaves" if case.startswith("leaves") else "tree"]
    return last_ns / 1e3 + links * (1 + 0.00512)


def compare(results):
    found = {}
    for key, run in results.items():
        case, control = key.split()
        found[f"{case}_{control}"] = last_us(run, case)
        found[f"{case}_{control}_again"] = run.summary["trimming"]["retransmitted_packets"]
    return found


def plot(results, out):
    fig, axes = figures.figure(columns=2)
    found = compare(results)
    for ax, end, label in (
        (axes[0], "", "completion of the last flow, us"),
        (axes[1], "_again", "packets sent again"),
    ):
        for control, colour in zip(CONTROLS, figures.COLOURS, strict=False):
            values = [max(found[f"{case}_{control}{end}"], 1) for case in CASES]
            ax.plot(range(len(CASES)), values, "o", color=colour, label=control)
        ax.set(yscale="log", ylabel=label, xticks=range(len(CASES)))
        ax.set_xticklabels(CASES, rotation=60, ha="right", fontsize="small")
    axes[0].legend(frameon=False)
    figures.save(fig, out, "U5")
