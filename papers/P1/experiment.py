"""Failures of links, ports and switches on eight planes, with the paths of MRC."""

import numpy as np

from silvan.papers import figures

TABLES = ("hosts",)

PAIR, LEAF = "pair.toml", "leaf.toml"
#: The time of the failure, and the span over which rates are averaged afterward, in us.
FAILS, SPAN, BEFORE = 500, (700, 1900), (200, 500)
RECOVERY = {"kind": "selective-repeat", "timeout": "100 us", "reordering": 32}


def event(kind, links, **more):
    """Return an event of links that begins at the time of the failure."""
    return {"kind": kind, "links": links, "start": f"{FAILS} us", **more}


def lossy(ppb):
    """Return an event by which all links of H1 lose packets."""
    return event("errors", [f"H1.{port}" for port in range(1, 9)], loss_ppb=ppb)


#: Eight links between leaves and spines, one of each plane, and twenty of them that fail one after the other.
EIGHT = [f"P{plane}.L1.1:{plane + 2}" for plane in range(1, 9)]
IN_TURN = [
    {
        "kind": "down",
        "links": [f"P{1 + k % 8}.L1.1:{3 + k // 8}"],
        "start": f"{FAILS + 60 * k} us",
        "lasts": "60 us",
    }
    for k in range(20)
]
FLAPS = {"every": "200 us", "lasts": "100 us"}
#: The events of each run, and whether messages leave ports that fail.
CASES = {
    "port": ([event("down", ["H1.3"])], True),
    "flapping_ports": ([event("down", [f"H1.{port}" for port in range(1, 5)], **FLAPS)], True),
    "leaf": ([{"kind": "down", "switches": ["P1.L1.1"], "start": f"{FAILS} us"}], True),
    "spine": ([{"kind": "down", "switches": ["P1.L2.1"], "start": f"{FAILS} us"}], False),
    "link": ([event("down", EIGHT[:1])], False),
    "in_turn": (IN_TURN, False),
    "flapping_links": ([event("down", EIGHT, **FLAPS)], False),
    "drop": ([event("errors", EIGHT[:1], loss_ppb=200_000_000)], False),
    "port_drop": ([event("errors", ["H1.3"], loss_ppb=200_000_000)], False),
    "loss_1000": ([lossy(1_000_000)], False),
    "loss_100": ([lossy(10_000_000)], False),
}


def runs(quick):
    found = {"whole": (PAIR, {}), "leaf_link": (LEAF, {})}
    for case, (events, moves) in CASES.items():
        changes = {"event": events, "recovery": RECOVERY}
        found[case] = (PAIR, changes | ({"ports.failover": "20 us"} if moves else {}))
    found["port_of_four"] = (PAIR, found["port"][1] | {"ports.count": 4})
    found["whole_of_four"] = (PAIR, {"ports.count": 4})
    return found


def rate(run, from_us, to_us, host="H3."):
    """Return the payload that the ports of a host receive in a span of time, in Gbit/s."""
    table = run.tables["hosts"]
    of_host = np.char.startswith(table["host"].astype(str), host)
    inside = of_host & (table["time_ns"] > from_us * 1e3) & (table["time_ns"] <= to_us * 1e3)
    return float(table["received_bytes"][inside].sum()) * 8e-3 / (to_us - from_us)


def bypass_us(run, whole):
    """Return the time from the failure until the last 5 us with less than 95 % of the usual rate end, in us.

    The probes of the paths begin 100 us after the failure.
    """
    usual = rate(whole, *BEFORE)
    ends = range(FAILS + 5, FAILS + 105, 5)
    return max((end - FAILS for end in ends if rate(run, end - 5, end) < 0.95 * usual), default=0)


def compare(results):
    whole = rate(results["whole"], *SPAN)
    found = {case: rate(results[case], *SPAN) / whole for case in CASES if case != "link"}
    found["port_of_four"] = rate(results["port_of_four"], *SPAN) / rate(results["whole_of_four"], *SPAN)
    found["leaf"] = rate(results["leaf"], *SPAN) - whole
    found["leaf_link"] = rate(results["leaf_link"], 700, 1200, "H") / rate(
        results["leaf_link"], 200, 600, "H"
    )
    found["bypass_link"] = bypass_us(results["link"], results["whole"])
    found["bypass_drop"] = bypass_us(results["drop"], results["whole"])
    return found


def plot(results, out):
    fig, (ax,) = figures.figure()
    names = {"port": "a port", "leaf": "a leaf of a plane", "link": "a link", "drop": "a link loses 20 %"}
    times = np.arange(400, 700, 10)
    for colour, (case, name) in zip(figures.COLOURS, names.items(), strict=False):
        ax.plot(times + 10, [rate(results[case], t, t + 20) for t in times], color=colour, label=name)
    ax.axvline(FAILS, color="0.6", linewidth=0.8)
    ax.set(xlabel="time, us", ylabel="payload received by a host, Gbit/s", ylim=(0, 900))
    ax.legend(frameon=False, loc="lower right")
    figures.save(fig, out, "P1")
