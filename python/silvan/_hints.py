"""Hints for messages about keys and values that papers and products name differently."""

from __future__ import annotations

import re

#: Names of mechanisms in papers and products, in lower case, and what they are in Silvan.
MECHANISMS = {
    "pfc": 'PFC is flow control: flow_control.kind = "pfc"',
    "ecn": 'ECN is a marking rule: congestion.marking.kind = "red", as in the mechanisms dcqcn and dctcp',
    "cbfc": 'credit-based flow control: flow_control.kind = "credits"',
    "voqnet": 'VOQnet is an arrangement of queues: switch.queues = "per-destination"',
    "voqsw": 'VOQsw is an arrangement of queues: switch.queues = "per-output"',
    "recn": "RECN is not modeled; fbicm isolates congested flows in a similar way",
    "eqds": "EQDS is not modeled; rccc also gives credit by the receiver",
    "smartt": "SMaRTT is not modeled; nscc is its standardized relative",
    "strack": "STrack is not modeled; nscc is a relative",
    "powertcp": "PowerTCP is not modeled; hpcc also uses telemetry",
    "ndp": "NDP is not modeled; rccc with switch.trimming also trims and gives credit",
    "dcqcn+": "DCQCN+ is not modeled; see dcqcn",
    "ib cc": "it is called ib-cc here",
    "cc": "InfiniBand's congestion control is called ib-cc here",
}
#: How thresholds depend on rates.
_BY_RATE = "congestion.marking.thresholds has an entry with rate, min, max and percent for each rate"
#: Symbols of papers for keys of `congestion.reaction` and `congestion.marking`, in lower case.
SYMBOLS = {
    "g": "g is 1 / congestion.reaction.gain_divisor",
    "rai": "R_AI is congestion.reaction.additive_increase",
    "r_ai": "R_AI is congestion.reaction.additive_increase",
    "rhai": "R_HAI is congestion.reaction.hyper_increase",
    "r_hai": "R_HAI is congestion.reaction.hyper_increase",
    "eta": "eta is congestion.reaction.utilization_percent / 100",
    "wai": "W_AI is congestion.reaction.additive_increase",
    "w_ai": "W_AI is congestion.reaction.additive_increase",
    "pmax": "Pmax is congestion.marking.percent / 100",
    "p_max": "Pmax is congestion.marking.percent / 100",
    "kmin": "Kmin is congestion.marking.min",
    "k_min": "Kmin is congestion.marking.min",
    "kmax": "Kmax is congestion.marking.max",
    "k_max": "Kmax is congestion.marking.max",
    **dict.fromkeys(("kmin_map", "kmax_map", "pmax_map"), _BY_RATE),
}
#: Names of speeds for 4x links, and their rates.
SPEEDS = {
    "sdr": "8 Gbit/s", "ddr": "16 Gbit/s", "qdr": "32 Gbit/s", "fdr": "54.5 Gbit/s", "edr": "100 Gbit/s",
    "hdr": "200 Gbit/s", "ndr": "400 Gbit/s", "xdr": "800 Gbit/s",
}  # fmt: skip
#: Length of a cable whose signal takes 5 ns per meter.
_NS_PER_METER = 5
_NAMED = re.compile(r'([\w.]+) = "?([^"\n]*?)"?: ')
_LIST_OF_RATES = re.compile(r"congestion\.marking\.per_rate(?: = a list[^:]*)?: must be a rate")
_SUGGESTION = re.compile(r"; did you mean `[^`]*`\?")


def of_message(message: str) -> str:
    """Return a message with a hint, if it is about a name that Silvan knows by another one."""
    if _LIST_OF_RATES.search(message):
        return f"{message}; hint: {_BY_RATE}"
    found = _NAMED.search(message)
    if found is None:
        return message
    key, value = found[1], found[2].strip()
    last = key.rpartition(".")[2].lower()
    hint = None
    if key.endswith("congestion.mechanism"):
        hint = MECHANISMS.get(value.lower())
    elif re.search(r"congestion\.(reaction|marking)\.\w+$", key) and ": unknown key" in message:
        hint = SYMBOLS.get(last)
    elif re.search(r"traffic\.\d+\.to$", key) and ": unknown key" in message:
        hint = 'destinations are part of the pattern: pattern = { kind = "hotspots", to = [...] }'
    elif ": not a rate" in message or last.endswith("rate"):
        rate = SPEEDS.get(value.lower().removeprefix("4x ").removesuffix(" 4x"))
        hint = rate and f"a 4x link of {value.upper()} carries {rate}"
    elif ": not a time" in message and (length := re.fullmatch(r"([\d.]+) ?m", value)):
        hint = f"a cable of {length[1]} m delays by about {_NS_PER_METER * float(length[1]):g} ns"
    elif key.endswith("topology.kind") and re.fullmatch(r"fat-?tree|leaf-?spine|clos", value.lower()):
        hint = "a network of leaves and spines is two-level-fat-tree"
    if not hint:
        return message
    # A suggestion by spelling misleads if the name is known.
    return f"{_SUGGESTION.sub('', message)}; hint: {hint}"
