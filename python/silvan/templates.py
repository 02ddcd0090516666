"""Creates new scenarios for `silvan new`: commented TOML that can be run without changes.

Averages begin when the network is in steady state with each mechanism of the fabric, because the scenario is
made for comparisons. The warm-up of a fabric is the longest of these times:

- InfiniBand: an index into the congestion control table falls by one step per CCTI_Timer. From the end of the
  table, 127 steps of 150 us take 19 ms. The other mechanisms of the fabric need at most this time: EcoCC and
  CCFIT throttle with the same table, and rates of QCN recover in steps of 150 kB.
- RoCE and Ultra Ethernet: rates and windows adapt within some hundred round trips, or within timers of less
  than a millisecond, but flows that were held back at first then have a backlog. In an incast of 64 hosts,
  averages are level after 2 ms (HPCC), 7 ms (DCQCN) to 12 ms (credit of receivers).

The averaged time is as long as the warm-up. Jobs start at its beginning. `silvan run` tests whether averages
are in steady state (:mod:`silvan.steadiness`), because a template cannot know this for all sizes and loads.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from silvan._core import SilvanError

#: Maximum number of hosts of a new scenario.
MOST_HOSTS = 4096
#: Maximum rate of links of a new scenario in Gbit/s.
MOST_GBIT_S = 1600
#: Default rate of links in scenarios, in Gbit/s.
SILVAN_GBIT_S = 16


_TWO_LANES = '\n[lanes]\n# {} need two lanes to be free of deadlock.\ncount = 2\nassignment = "routing"\n'


@dataclass(frozen=True)
class Network:
    """A network that a new scenario can use."""

    #: Short description.
    about: str
    #: Maps a number of hosts to the smallest network with at least this number, or to the largest network.
    #: Returns the actual number of hosts and the TOML tables.
    of: Callable[[int], tuple[int, str]]


def _star(hosts: int) -> tuple[int, str]:
    number = min(max(hosts, 2), 256)
    return number, f'[topology]\nkind = "star"\nhosts = {number} # all at one switch\n'


def _dumbbell(hosts: int) -> tuple[int, str]:
    left = min(max(1, hosts // 2), 255)
    right = min(max(1, hosts - left), 255)
    return left + right, (
        f'[topology]\nkind = "dumbbell" # two switches with one link between them\nleft = {left}\n'
        f'right = {right}\ntrunk_rate = "32 Gbit/s"\n'
    )


def _fat_tree(hosts: int) -> tuple[int, str]:
    radix = next(k for k in range(2, 65) if k * k >= hosts)
    return radix * radix, (
        f'[topology]\nkind = "two-level-fat-tree" # leaf and spine switches, without oversubscription\n'
        f"leaves = {radix}\nspines = {radix} # fewer spines: an oversubscribed network\n"
        f"hosts_per_leaf = {radix}\n"
    )


def _torus(hosts: int) -> tuple[int, str]:
    side = next(k for k in range(2, 17) if k**3 >= hosts)
    lanes = "" if side <= 4 else _TWO_LANES.format("Rings of more than four switches")
    return side**3, (
        f'[topology]\nkind = "torus"\nsizes = [{side}, {side}, {side}] # switches in each dimension\n'
        f"hosts_per_switch = 1\n{lanes}"
    )


def _dragonfly(hosts: int) -> tuple[int, str]:
    p = next(h for h in range(1, 9) if 2 * h * h * (2 * h * h + 1) >= hosts)
    return 2 * p * p * (2 * p * p + 1), (
        f'[topology]\nkind = "dragonfly"\np = {p} # hosts per switch\na = {2 * p} # switches per group\n'
        f"h = {p} # links of a switch to other groups\n" + _TWO_LANES.format("Minimal routes")
    )


NETWORKS = {
    "star": Network("one switch", _star),
    "dumbbell": Network("two switches and the link between them", _dumbbell),
    "fat-tree": Network("leaf and spine switches (leaf-spine)", _fat_tree),
    "torus": Network("a three-dimensional torus", _torus),
    "dragonfly": Network("groups of switches, with links between all groups", _dragonfly),
}

#: Other names of networks.
OTHER_NAMES = {
    "leaf-spine": "fat-tree",
    "spine-leaf": "fat-tree",
    "clos": "fat-tree",
    "switch": "star",
    "3d-torus": "torus",
}


def network_of(name: str) -> str:
    """Return the usual name of a network; the same name if Silvan does not know it."""
    return OTHER_NAMES.get(name, name)


@dataclass(frozen=True)
class Fabric:
    """A network technology that a new scenario can use."""

    #: Short description.
    about: str
    #: Networks for which its switches and links are suitable.
    networks: tuple[str, ...]
    #: The mechanisms of the fabric. A scenario without control suggests a run with the first except `none`.
    mechanisms: tuple[str, ...]
    #: The default traffic.
    traffic: str
    #: Warm-up, duration and sampling interval; see the top of this file.
    times: tuple[str, str, str]
    #: Rate of links in Gbit/s; None for the default.
    gbit_s: int | None = None
    #: Tables of switches, links and packets.
    tables: str = ""
    #: Additional tables for fat trees.
    of_trees: str = ""


_ROCE = """
[packet]
mtu = "4096 B"
header = "64 B" # Ethernet, IP, UDP and InfiniBand's transport

[flow_control]
kind = "pfc" # pause frames

[flow_control.shared]
# The ports of a switch share its memory, which contains the headroom; `silvan check` prints how much is left.

[switch]
buffer = "1 MiB"       # per port; merchant switches have 0.5 to 2 MB
arbitration = "fcfs"   # an output is one queue per class
latency = "300 ns"

[host]
buffer = "1 MiB"
"""
_UEC = """
[packet]
mtu = "4096 B"
header = "64 B"

[lanes]
count = 2 # acknowledgements and grants have a lane of their own, which precedes data
control = 1
control_priority = true

[switch]
buffer = "1 MiB"       # per port
arbitration = "fcfs"   # an output is one queue per class
latency = "300 ns"

[host]
buffer = "1 MiB"
delivery = "out-of-order"
"""
_SPRAYING = """
[ecmp]
spraying = "mixed" # each packet selects one of the routes
"""
_CREDITS, _MARKS = ("20 ms", "40 ms", "100 us"), ("10 ms", "20 ms", "50 us")
_GRANTS = ("12 ms", "24 ms", "50 us")
_TREES = ("fat-tree", "star", "dumbbell")
FABRICS = {
    "infiniband": Fabric(
        "InfiniBand: credits",
        tuple(NETWORKS),
        ("none", "ib-cc", "ecocc", "fbicm", "ccfit", "qcn"),
        "hotspot",
        _CREDITS,
    ),
    "roce": Fabric(
        "RDMA over Ethernet: pause frames, ECMP",
        _TREES,
        ("dcqcn", "hpcc", "swift", "timely", "dctcp"),
        "incast",
        _MARKS,
        400,
        _ROCE,
        "\n[ecmp] # switches hash flows onto the routes\n",
    ),
    "uec": Fabric(
        "Ultra Ethernet: credits, sprayed packets",
        _TREES,
        ("uec", "nscc", "rccc"),
        "incast",
        _GRANTS,
        400,
        _UEC,
        _SPRAYING,
    ),
}
#: Descriptions of the traffic that a new scenario can contain.
TRAFFICS = {
    "incast": "several hosts that send to one, a victim that shares links with them, and a parallel job",
    "hotspot": "a light load between all hosts, and some hosts that overload one host",
    "uniform": "every host sends to random hosts as fast as it can",
    "all-to-all": "every host sends to all others in turn, as fast as it can",
    "moving": "hotspots that move, with contributors and victims",
    "all-reduce": "a parallel job that repeats an all-reduce, next to a hotspot",
}
#: Mechanisms of congestion management by value of `congestion.mechanism`, with descriptions.
MECHANISMS = {
    "none": "no congestion control",
    "ib-cc": "InfiniBand congestion control",
    "ecocc": "EcoCC: isolation and throttling",
    "fbicm": "FBICM: queues of their own for congested flows",
    "ccfit": "CCFIT: FBICM and throttling",
    "qcn": "quantized congestion notification (IEEE 802.1Qau)",
    "dcqcn": "DCQCN: marks and a rate per flow",
    "dctcp": "DCTCP: marks and a window per flow",
    "timely": "TIMELY: a rate by the gradient of the round trip",
    "swift": "Swift: a window that aims at a round trip",
    "hpcc": "HPCC: telemetry of switches",
    "nscc": "Ultra Ethernet's control of sources",
    "rccc": "Ultra Ethernet's credit of receivers",
    "uec": "Ultra Ethernet's credit of receivers and control of sources",
}


def fabric_of(mechanism: str) -> str:
    """Return the fabric of a mechanism; `infiniband` for `none` and for unknown mechanisms."""
    return next((name for name, one in FABRICS.items() if mechanism in one.mechanisms), "infiniband")


def rate_gbit_s(text: str) -> int:
    """Parse a rate such as `400G` or `400 Gbit/s`, in Gbit/s.

    Raises :class:`silvan.SilvanError` unless it is a whole number from 1 to :data:`MOST_GBIT_S`.
    """
    found = re.fullmatch(r"(\d+) ?(G|Gbps|Gb/s|Gbit/s)?", text.strip(), re.IGNORECASE)
    if not found or not 1 <= int(found[1]) <= MOST_GBIT_S:
        raise SilvanError(f"rate `{text}`; give Gbit/s, 1 to {MOST_GBIT_S}, such as 400G")
    return int(found[1])


def write(
    name: str,
    network: str,
    hosts: int,
    traffic: str,
    mechanism: str,
    fabric: str | None = None,
    gbit_s: int | None = None,
) -> str:
    """Return a scenario in TOML; raises :class:`silvan.SilvanError` for invalid or incompatible arguments.

    By default, the fabric is that of the mechanism, and the rate of links is that of the fabric.
    """
    fabric = fabric or fabric_of(mechanism)
    network = network_of(network)
    for value, known, what in (
        (network, NETWORKS, "network"),
        (traffic, TRAFFICS, "traffic"),
        (mechanism, MECHANISMS, "mechanism"),
        (fabric, FABRICS, "fabric"),
    ):
        if value not in known:
            raise SilvanError(f"{what} `{value}` is not known; there are {', '.join(known)}")
    kind = FABRICS[fabric]
    if mechanism not in ("none", *kind.mechanisms):
        raise SilvanError(
            f"{mechanism} is not a mechanism of {fabric}; choose none, {', '.join(kind.mechanisms)}, or the "
            f"fabric {fabric_of(mechanism)}"
        )
    if network not in kind.networks:
        raise SilvanError(f"{fabric} on a {network} is not possible here; choose {', '.join(kind.networks)}")
    if not 4 <= hosts <= MOST_HOSTS:
        raise SilvanError(f"{hosts} hosts; must be 4 to {MOST_HOSTS:,}")
    number, topology = NETWORKS[network].of(hosts)
    if number < hosts:
        raise SilvanError(
            f"a {network} has at most {number} hosts here; choose another network, or fewer hosts"
        )
    gbit_s = gbit_s or kind.gbit_s or SILVAN_GBIT_S
    tables = kind.tables + kind.of_trees
    if network != "fat-tree":
        # There is only one route, so packets arrive in order.
        tables = kind.tables.replace('delivery = "out-of-order"\n', "")
    if mechanism in ("none", "rccc"):
        # Sources receive no marks, so they cannot avoid congested routes.
        tables = tables.replace('spraying = "mixed"', 'spraying = "oblivious"')
    warmup, duration, interval = kind.times
    compared = "none" if mechanism != "none" else next(one for one in kind.mechanisms if one != "none")
    return "\n".join(
        (
            f"# {number} hosts in a {network}: {TRAFFICS[traffic]}.",
            "#",
            f"#   silvan check {name}.toml",
            f"#   silvan run {name}.toml --out out/{name}",
            f"#   silvan run {name}.toml --set congestion.mechanism={compared} --out out/{name}-2",
            f"#   silvan compare out/{name} out/{name}-2",
            "#",
            "# `silvan schema > silvan.schema.json` lets editors complete and check the keys:",
            "#:schema silvan.schema.json",
            "",
            f'name = "{name}"',
            "seed = 1           # another seed draws other random numbers",
            f'duration = "{duration}" # simulated time',
            f'warmup = "{warmup}"   # averages begin here, when the network has adapted to its load',
            *(["end_with_jobs = false"] if traffic == "incast" else []),
            "",
            _rated(topology, fabric, gbit_s) + tables,
            "[congestion]",
            f'mechanism = "{mechanism}" # {MECHANISMS[mechanism]}; others: '
            + ", ".join(f'"{one}"' for one in _others(fabric, mechanism)),
            "",
            "[measure]",
            f'interval = "{interval}" # length of a sample in tables and charts',
            "",
            _traffic(traffic, number, gbit_s, warmup),
        )
    )


def _others(fabric: str, mechanism: str) -> list[str]:
    """Return other mechanisms that the scenario can have: those of the fabric, and none."""
    return [one for one in dict.fromkeys(("none", *FABRICS[fabric].mechanisms)) if one != mechanism]


def _rated(topology: str, fabric: str, gbit_s: int) -> str:
    """Insert the rate of links, and their delay unless the fabric is InfiniBand, into a topology."""
    delay = "" if fabric == "infiniband" else 'link_delay = "500 ns" # cables of 100 m\n'
    head, kind, rest = topology.partition(topology.splitlines()[1] + "\n")
    rest = rest.replace('trunk_rate = "32 Gbit/s"', f'trunk_rate = "{2 * gbit_s} Gbit/s"')
    return f'{head}{kind}link_rate = "{gbit_s} Gbit/s"\n{delay}{rest}'


def _incast(hosts: int, gbit_s: int, warmup: str) -> str:
    """Return an incast to H1, a victim that sends to H2, and a job if at least two other hosts remain."""
    others = range(3, hosts)
    senders = [host for host in others if host % 2][:16] or [3]
    ranks = [host for host in others if host not in senders]
    lines = [
        "# An incast: these hosts send all they can to one host, the root of a congestion tree.",
        f'[[traffic]]\nname = "incast"\nhosts = {_listed(senders)}',
        'pattern = { kind = "hotspots", to = ["H1"] }\nmessage = "1 MB"\n',
        "# A victim: no other host sends to its destination, but its packets share links with the incast.",
        f'[[flow]]\nname = "victim"\nfrom = "H{hosts}"\nto = "H2"\nmessage = "64 KiB"',
        f'rate = "{max(1, gbit_s // 4)} Gbit/s"\n',
    ]
    if len(ranks) > 1:
        lines += [
            "# A parallel job on the other hosts.",
            f'[[job]]\nname = "job"\nhosts = {_listed(ranks)}\nstart = "{warmup}"',
            'algorithms = { all_reduce = "ring" }\n',
            '[job.program]\nkind = "collective"\noperation = "all-reduce"',
            f'ranks = {len(ranks)}\nbytes = "1 MiB"\niterations = 10\n',
        ]
    return "\n".join(lines)


def _traffic(kind: str, hosts: int, gbit_s: int, warmup: str) -> str:
    if kind == "incast":
        return _incast(hosts, gbit_s, warmup)
    # The largest power of two that is at most half of the hosts.
    ranks = 1 << max(1, (hosts // 2).bit_length() - 1)
    senders = [host for host in _spread(hosts) if kind != "all-reduce" or host > ranks + 1] or [hosts]
    hot = (
        "# These hosts send all they can to one host: the root of a congestion tree.\n"
        f'[[traffic]]\nname = "hot"\nhosts = {_listed(senders)}\n'
        'pattern = { kind = "hotspots", to = ["H1"] }\nstart = "500 us"\n'
    )
    if kind == "uniform":
        return (
            "# Every host sends to random hosts at its full rate.\n"
            '[[traffic]]\nname = "all"\npattern = { kind = "uniform" }\nmessage = "4 KiB"\n'
        )
    if kind == "all-to-all":
        return (
            "# Every host sends a message to each of the others in turn, and then starts again.\n"
            '[[traffic]]\nname = "all-to-all"\npattern = { kind = "all-to-all" }\nmessage = "64 KiB"\n'
        )
    if kind == "moving":
        return (
            "# Contributors send to hotspots, victims to random hosts; after a lifetime, hotspots move.\n"
            '[[traffic]]\nname = "forest"\nmessage = "4 KiB"\n'
            f'pattern = {{ kind = "forest", hotspots = {max(1, hosts // 32)}, contributors = 60, '
            'victims = 40, lifetime = "1 ms" }\n'
        )
    if kind == "all-reduce":
        return (
            "# The ranks of the job run on these hosts; `placement` and `ranks_per_host` change that.\n"
            f'[[job]]\nname = "job"\nhosts = "H[2-{ranks + 1}]"\nstart = "{warmup}"\n'
            'algorithms = { all_reduce = "ring" }\n\n'
            '[job.program]\nkind = "collective"\noperation = "all-reduce"\n'
            f'ranks = {ranks}\nbytes = "{_call_kib(gbit_s)} KiB"\niterations = 10\n\n{hot}'
        )
    return (
        "# A light load between all hosts: the victims of the congestion tree are among them.\n"
        '[[traffic]]\nname = "background"\npattern = { kind = "uniform" }\n'
        f'rate = "{max(1, 3 * gbit_s // 16)} Gbit/s" # per host\n'
        f'message = "4 KiB"\n\n{hot}'
    )


def _call_kib(gbit_s: int) -> int:
    """Return half of the KiB that a host sends in 150 us, rounded to a power of two of at least 16."""
    return 1 << max(4, round(math.log2(gbit_s * 1e9 / 8 * 150e-6 / 2 / 1024)))


def _listed(numbers: Sequence[int]) -> str:
    """Return hosts as a list of names and ranges in TOML.

    A range contains at least three hosts with equal differences of their numbers.
    """
    parts = []
    at = 0
    while at < len(numbers):
        end = at + 1
        step = numbers[end] - numbers[at] if end < len(numbers) else 0
        while end < len(numbers) and numbers[end] - numbers[end - 1] == step:
            end += 1
        if end - at >= 3:
            parts.append(f'"H[{numbers[at]}-{numbers[end - 1]}{f"/{step}" if step > 1 else ""}]"')
            at = end
        else:
            parts.append(f'"H{numbers[at]}"')
            at += 1
    return f"[{', '.join(parts)}]"


def _spread(hosts: int) -> list[int]:
    """Return the numbers of 3 to 17 hosts from all parts of the network, without the first host."""
    number = max(2, min(16, hosts // 8))
    return sorted({2 + step * (hosts - 2) // number for step in range(number)} | {hosts})
