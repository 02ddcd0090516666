"""Ultra Ethernet's permutations of 8,192 hosts at 400 Gbit/s, and its incasts of two senders."""

from random import Random

from silvan.papers import figures

TABLES = ()

SCENARIO = "leaves.toml"
#: The control of sources, and of receivers.
CONTROLS = {
    "nscc": {"congestion.notification": "ack-each", "congestion.reaction": {"kind": "nscc"}},
    "rccc": {
        "congestion.notification": "ack-grant",
        "congestion.reaction": {"kind": "rccc", "divide_requests": True},
    },
}
#: Spines by the number of hosts per link from a leaf to the spines. Each leaf has 64 hosts.
SPINES = {1: 64, 4: 16}
LEAF = 64
LEAVES, QUICK_LEAVES = 128, 4
#: Megabytes of a transfer, and paths over which it is sprayed. The source has all combinations of them.
SPRAYED = ((1, 32), (1, 64), (1, 128), (2, 64), (4, 64))
#: With few links to the spines, those of 4 MB have the bottleneck of those of 2 MB.
LEFT_OUT = {(4, 4)}
#: The bytes of a full packet, and those of an acknowledgement.
PACKET, ANSWER = 4150, 64
#: Thresholds of marks in packets by the rate of links in Gbit/s.
THRESHOLDS = {200: (12, 37), 400: (25, 75), 800: (50, 150)}


def network(gbits, ratio, leaves):
    """Return the network, whose switches store a packet before they forward it."""
    link = {"link_rate": f"{gbits} Gbit/s", "link_delay": "1 us"}
    sizes = {"leaves": leaves, "spines": SPINES[ratio], "hosts_per_leaf": LEAF}
    low, high = (count * PACKET for count in THRESHOLDS[gbits])
    return {
        "topology": {"kind": "two-level-fat-tree", **sizes, **link},
        "switch.latency": f"{PACKET * 8000 // gbits} ps",
        "congestion.marking": {"kind": "red", "min": f"{low} B", "max": f"{high} B", "percent": 100},
    }


def permutation(hosts, megabytes):
    """Return the destination of each host: no host sends to itself. The source has one per size, too."""
    random = Random(megabytes)
    while True:
        order = list(range(hosts))
        random.shuffle(order)
        moved = [host for host in range(hosts) if order[host] == host]
        # Hosts that would send to themselves take each other's destinations.
        for one, other in zip(moved, moved[1:] + moved[:1], strict=True):
            order[one] = other
        if len(moved) != 1:
            return order


def flows(pairs, size):
    """Return the flows between numbered hosts."""
    return [
        {"name": f"F{n}", "from": f"H{near + 1}", "to": f"H{far + 1}", "message": size, "total": size}
        for n, (near, far) in enumerate(pairs, 1)
    ]


def hosts(quick):
    return LEAF * (QUICK_LEAVES if quick else LEAVES)


def grants(control, ratio):
    """Return the reaction of a network in which the links to the spines are the bottleneck."""
    if control != "rccc" or ratio == 1:
        return {}
    # The lowest rate of grants in thousandths: 0.9 of the part of a link to a spine that each host has.
    reaction = CONTROLS[control]["congestion.reaction"]
    return {"congestion.reaction": reaction | {"oversubscribed": {"min_rate_permille": 900 // ratio}}}


def cases(ratio):
    return [(size, values) for size, values in SPRAYED if (ratio, size) not in LEFT_OUT]


def runs(quick):
    found = {}
    leaves = QUICK_LEAVES if quick else LEAVES
    for control, parts in CONTROLS.items():
        for ratio in SPINES:
            for size, values in cases(ratio):
                given = flows(enumerate(permutation(hosts(quick), size)), f"{size} MB")
                own = grants(control, ratio) | {"flow": given, "ecmp.values": values}
                found[f"{control} {ratio} {size} {values}"] = (
                    SCENARIO,
                    network(400, ratio, leaves) | parts | own,
                )
        for gbits in THRESHOLDS:
            # The source has these two senders in a network of 8,192 hosts, of which all others are idle.
            given = flows([(LEAF, 0), (2 * LEAF, 0)], "1048576 B")
            found[f"incast {control} {gbits}"] = (SCENARIO, network(gbits, 1, 4) | parts | {"flow": given})
    return found


def ends(run, pairs, gbits):
    """Return when the last acknowledgement of each flow is back at its source, in microseconds."""
    found = []
    for (near, far), flow in zip(pairs, run.summary["flows"], strict=True):
        links = 2 if near // LEAF == far // LEAF else 4
        found.append(flow["completed_ns"] / 1e3 + links * (1 + ANSWER * 8 / gbits / 1e3))
    return found


def spreads(results):
    """Return the first and the last end of the flows of each run."""
    found = {}
    for key, run in results.items():
        words = key.split()
        if words[0] == "incast":
            times = ends(run, [(LEAF, 0), (2 * LEAF, 0)], int(words[2]))
        else:
            times = ends(run, list(enumerate(permutation(hosts(results.quick), int(words[2])))), 400)
        found[key] = min(times), max(times)
    return found


def compare(results):
    found = {}
    for key, (first, last) in spreads(results).items():
        name = key.replace(" ", "_")
        found[f"{name}_first"], found[f"{name}_last"] = first, last
    return found


def plot(results, out):
    fig, axes = figures.figure(2, 1)
    spread = spreads(results)
    for ax, ratio in zip(axes, SPINES, strict=True):
        for control, colour, shift in zip(CONTROLS, figures.COLOURS, (-0.15, 0.15), strict=False):
            for n, (size, values) in enumerate(cases(ratio)):
                first, last = spread[f"{control} {ratio} {size} {values}"]
                label = control if n == 0 else None
                ax.plot([n + shift] * 2, [first, last], "o-", color=colour, markersize=3, label=label)
        ax.set(ylim=(0, None), title=f"{ratio} to 1", xticks=range(len(cases(ratio))))
        names = [f"{size} MB, {values}" for size, values in cases(ratio)]
        ax.set_xticklabels(names, rotation=60, ha="right", fontsize="small")
    axes[0].set_ylabel("first and last completion, us")
    axes[0].legend(frameon=False)
    figures.save(fig, out, "U2")
