"""Ultra Ethernet's permutations of 8,192 hosts at 400 Gbit/s, and its incasts of two senders."""

from random import Random

from silvan.papers import common, figures

uec = common("uec")

TABLES = ()

SCENARIO = "leaves.toml"
#: Congestion control by sources (NSCC) and by receivers (RCCC).
CONTROLS = ("nscc", "rccc")
#: Spines by the number of hosts per link from a leaf to the spines. Each leaf has 64 hosts.
SPINES = {1: 64, 4: 16}
LEAF = 64
LEAVES, QUICK_LEAVES = 128, 4
#: Megabytes of a transfer, and paths over which it is sprayed. The source has all combinations of them.
SPRAYED = ((1, 32), (1, 64), (1, 128), (2, 64), (4, 64))
#: Combinations that are left out: with few links to the spines, messages of 4 MB have the same bottleneck as
#: those of 2 MB.
LEFT_OUT = {(4, 4)}
#: Thresholds of marks in packets by the rate of links in Gbit/s.
THRESHOLDS = {200: (12, 37), 400: (25, 75), 800: (50, 150)}


def network(gbits, ratio, leaves):
    """Return the network."""
    thresholds = uec.marks(*THRESHOLDS[gbits])
    return uec.leaves(leaves, SPINES[ratio], LEAF, gbits) | {"congestion.marking": thresholds}


def permutation(hosts, megabytes):
    """Return the destination of each host in a random permutation.

    No host sends to itself. As in uet-htsim, there is one permutation for each size.
    """
    random = Random(megabytes)
    while True:
        order = list(range(hosts))
        random.shuffle(order)
        moved = [host for host in range(hosts) if order[host] == host]
        # Hosts that would send to themselves exchange their destinations.
        for one, other in zip(moved, moved[1:] + moved[:1], strict=True):
            order[one] = other
        if len(moved) != 1:
            return order


def flows(pairs, size):
    """Return flows with this size of messages between hosts that are numbered from 0."""
    return [uec.flow(number, near, far, size) for number, (near, far) in enumerate(pairs, 1)]


def hosts(quick):
    return LEAF * (QUICK_LEAVES if quick else LEAVES)


def cases(ratio):
    return [(size, values) for size, values in SPRAYED if (ratio, size) not in LEFT_OUT]


def runs(quick):
    found = {}
    leaves = QUICK_LEAVES if quick else LEAVES
    for control in CONTROLS:
        for ratio in SPINES:
            for size, values in cases(ratio):
                given = flows(enumerate(permutation(hosts(quick), size)), f"{size} MB")
                own = uec.control(control, ratio) | {"flow": given, "ecmp.values": values}
                found[f"{control} {ratio} {size} {values}"] = (SCENARIO, network(400, ratio, leaves) | own)
        for gbits in THRESHOLDS:
            # In uet-htsim, these two senders are in a network of 8,192 hosts, all others of which are idle.
            given = flows([(LEAF, 0), (2 * LEAF, 0)], "1048576 B")
            own = uec.control(control) | {"flow": given}
            found[f"incast {control} {gbits}"] = (SCENARIO, network(gbits, 1, 4) | own)
    return found


def ends(run, pairs, gbits):
    """Return when the last acknowledgement of each flow is back at its source, in microseconds."""
    found = []
    for (near, far), flow in zip(pairs, run.summary["flows"], strict=True):
        links = 2 if near // LEAF == far // LEAF else 4
        found.append(uec.answered_us(flow["completed_ns"], links, gbits))
    return found


def spreads(results):
    """Return the first and the last end of the flows of each run, in microseconds."""
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
