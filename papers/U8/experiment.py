"""Two hosts that send to one without pause frames, with go-back-N."""

from silvan.papers import figures

TABLES = ()

SCENARIO = "incast.toml"
#: Bytes that each sender sends, in one message or in several.
TOTAL = 32 << 20
#: Sources, destinations, and the number of messages of each pair.
CASES = {
    "out": (("H1",), ("H2", "H3"), 1),
    "incast": (("H1", "H2"), ("H3",), 1),
    "short": (("H1", "H2"), ("H3",), 32),
}
NAMES = {"out": "one to two", "incast": "two to one", "short": "two to one, 32 messages each"}


def flows(sources, destinations, count):
    """Return a flow for each message. All flows start at the same time."""
    size = f"{TOTAL // count} B"
    pairs = [(one, other) for one in sources for other in destinations]
    return [
        {"name": f"{one}-{other}-{number}", "from": one, "to": other, "message": size, "total": size}
        for one, other in pairs
        for number in range(count)
    ]


def runs(quick):
    return {
        case: (SCENARIO, {"flow": flows(*parts)} | ({} if case != "out" else {"duration": "10 ms"}))
        for case, parts in CASES.items()
    }


def compare(results):
    """Return the payload rate of all flows together until the last one has ended, in Gbit/s."""
    found = {}
    for case, run in results.items():
        sources, destinations, _ = CASES[case]
        last = max(flow["completed_ns"] for flow in run.summary["flows"])
        found[case] = len(sources) * len(destinations) * TOTAL * 8 / last
    return found


def plot(results, out):
    fig, (ax,) = figures.figure()
    found = compare(results)
    ax.bar(list(NAMES.values()), [found[case] for case in NAMES], color=figures.COLOURS[0], width=0.5)
    ax.axhline(73.9, color="0.4", linestyle="--", linewidth=1, label="two to one, measured")
    ax.set(ylabel="payload received, Gbit/s", ylim=(0, 100))
    ax.legend(frameon=False)
    figures.save(fig, out, "U8")
