"""How hosts select paths around slow links: a permutation with four ways to spray packets."""

from silvan.papers import common, figures

uec = common("uec")

TABLES = ()

SCENARIO = "../common/uec-trimming.toml"
CONTROLS = ("nscc", "rccc")
#: Rates in Gbit/s: of most links, and of the links from the cores to one switch below them.
RATE, SLOW = 100, 25
#: Limits of a queue in packets, including the one that is being sent. `LOW` and `HIGH` are the thresholds of
#: marks in bytes.
USUAL, LARGE = 43, 500
LOW, HIGH = 37350, 145250
#: Ways to spray, limits of a queue, and whether each packet is acknowledged.
CASES = {
    "oblivious": ("oblivious", USUAL, False),
    "oblivious_large": ("oblivious", LARGE, False),
    "bitmap": ("bitmap", USUAL, False),
    "bitmap_large": ("bitmap", LARGE, False),
    "reps": ("reps", USUAL, True),
    "reps_large": ("reps", LARGE, True),
    "reps_unit": ("reps", USUAL, False),
    "mixed": ("mixed", USUAL, True),
    "mixed_unit": ("mixed", USUAL, False),
}
#: Round trip in ps over six links, without load and without slow links. Windows and credit follow from it. A
#: packet and its answer are transmitted on each link, because switches store them.
ROUND_TRIP = 12e6 + 6 * (uec.PACKET + uec.ANSWER) * 8e3 / RATE


def network(radix):
    """Return a network of three levels whose cores send slowly to one switch below them."""
    half = radix // 2
    hosts = [f"H{number}" for number in range(1, radix * half * half + 1)]
    links = []
    for pod in range(radix):
        for leaf in range(half):
            below = hosts[(pod * half + leaf) * half :][:half]
            links += [{"from": host, "to": f"L{pod}.{leaf}:{n}"} for n, host in enumerate(below, 1)]
            ends = [(f"L{pod}.{leaf}:{half + n + 1}", f"M{pod}.{n}:{leaf + 1}") for n in range(half)]
            links += [{"from": one, "to": other} for one, other in ends]
        for middle in range(half):
            for core in range(half):
                up, down = f"M{pod}.{middle}:{half + core + 1}", f"C{middle}.{core}:{pod + 1}"
                if pod == 0 and middle == 0:
                    links.append({"from": up, "to": down, "one_way": True})
                    links.append({"from": down, "to": up, "one_way": True, "rate": f"{SLOW} Gbit/s"})
                else:
                    links.append({"from": up, "to": down})
    names = [f"{level}{pod}.{n}" for level in "LM" for pod in range(radix) for n in range(half)]
    names += [f"C{middle}.{core}" for middle in range(half) for core in range(half)]
    return {
        "topology": {
            "kind": "custom",
            "hosts": hosts,
            "switches": [{"name": name, "ports": radix} for name in names],
            "links": links,
            **uec.links(RATE),
        },
        "routing": {"kind": "shortest-path"},
    }


def limits(packets):
    """Return the limits of queues and the thresholds of marks.

    For slow links, both are multiplied by `SLOW` / `RATE`.
    """
    share = SLOW / RATE
    slow = {"rate": f"{SLOW} Gbit/s"}
    return {
        "switch.trimming": {
            "queue": f"{(packets - 1) * uec.PACKET} B",
            "rates": [slow | {"queue": f"{int((packets * share - 1) * uec.PACKET)} B"}],
            "size": "64 B",
        },
        "congestion.marking": {
            "kind": "red",
            "percent": 100,
            "thresholds": [
                {"rate": f"{RATE} Gbit/s", "min": f"{LOW} B", "max": f"{HIGH} B"},
                slow | {"min": f"{int(LOW * share)} B", "max": f"{int(HIGH * share)} B"},
            ],
        },
    }


def runs(quick):
    found = {}
    for control in CONTROLS:
        for case, (spraying, packets, is_each) in CASES.items():
            found[f"{control}_{case}"] = (
                SCENARIO,
                network(4 if quick else 16)
                | uec.permutation()
                | limits(packets)
                | uec.control(control, is_each=is_each, round_trip=f"{int(ROUND_TRIP)} ps")
                | {"ecmp.values": 128, "ecmp.spraying": spraying},
            )
    return found


def compare(results):
    return {name: uec.last_us(run, "tree") for name, run in results.items()}


def plot(results, out):
    fig, ax = uec.plot_cases(compare(results), CONTROLS, CASES)
    ax.set(ylim=(0, None))
    ax.legend(frameon=False)
    figures.save(fig, out, "U7")
