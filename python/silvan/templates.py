"""Creates new scenarios for `silvan new`: commented TOML that can be run without changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from silvan._core import SilvanError

#: Maximum number of hosts of a new scenario.
MOST_HOSTS = 4096


_TWO_LANES = '\n[lanes]\n# {} need two lanes to be free of deadlock.\ncount = 2\nassignment = "routing"\n'


@dataclass(frozen=True)
class Network:
    """A network that a new scenario can use."""

    #: Short description.
    about: str
    #: Maps a number of hosts to the smallest network with at least this number: its actual number of hosts,
    #: and its tables.
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
    "fat-tree": Network("leaf and spine switches", _fat_tree),
    "torus": Network("a three-dimensional torus", _torus),
    "dragonfly": Network("groups of switches, with links between all groups", _dragonfly),
}
#: Descriptions of the traffic that a new scenario can contain.
TRAFFICS = {
    "hotspot": "a light load between all hosts, and some hosts that overload one host",
    "uniform": "every host sends to random hosts as fast as it can",
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
}


def write(name: str, network: str, hosts: int, traffic: str, mechanism: str) -> str:
    """Return a scenario; raises :class:`silvan.SilvanError` for values that are not possible."""
    for value, known, what in (
        (network, NETWORKS, "network"),
        (traffic, TRAFFICS, "traffic"),
        (mechanism, MECHANISMS, "mechanism"),
    ):
        if value not in known:
            raise SilvanError(f"{what} `{value}` is not known; there are {', '.join(known)}")
    if not 4 <= hosts <= MOST_HOSTS:
        raise SilvanError(f"{hosts} hosts; must be 4 to {MOST_HOSTS:,}")
    number, topology = NETWORKS[network].of(hosts)
    if number < hosts:
        raise SilvanError(
            f"a {network} has at most {number} hosts here; choose another network, or fewer hosts"
        )
    other = "ib-cc" if mechanism == "none" else "none"
    return "\n".join(
        (
            f"# {number} hosts in a {network}: {TRAFFICS[traffic]}.",
            "#",
            f"#   silvan check {name}.toml",
            f"#   silvan run {name}.toml --out out/{name}",
            f"#   silvan run {name}.toml --set congestion.mechanism={other} --out out/{name}-2",
            f"#   silvan compare out/{name} out/{name}-2",
            "#",
            "# `silvan schema > silvan.schema.json` lets editors complete and check the keys:",
            "#:schema silvan.schema.json",
            "",
            f'name = "{name}"',
            "seed = 1           # another seed draws other random numbers",
            'duration = "4 ms"  # simulated time',
            'warmup = "2 ms"    # averages are over the time after it',
            "",
            topology,
            "[congestion]",
            f'mechanism = "{mechanism}" # {MECHANISMS[mechanism]}; others: '
            + ", ".join(f'"{one}"' for one in MECHANISMS if one != mechanism),
            "",
            "[measure]",
            'interval = "50 us" # length of a sample in tables and charts',
            "",
            _traffic(traffic, number),
        )
    )


def _traffic(kind: str, hosts: int) -> str:
    senders = [f'"H{host}"' for host in _spread(hosts)]
    hot = (
        "# These hosts send all they can to one host: the root of a congestion tree.\n"
        f'[[traffic]]\nname = "hot"\nhosts = [{", ".join(senders)}] # a range: "H[2-9]"\n'
        'pattern = { kind = "hotspots", to = ["H1"] }\nstart = "500 us"\n'
    )
    if kind == "uniform":
        return (
            "# Every host sends to random hosts at its full rate.\n"
            '[[traffic]]\nname = "all"\npattern = { kind = "uniform" }\nmessage = "4 KiB"\n'
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
            f'[[job]]\nname = "job"\nhosts = "H[2-{max(3, hosts // 2)}]"\n'
            'algorithms = { all_reduce = "ring" }\n\n'
            '[job.program]\nkind = "collective"\noperation = "all-reduce"\n'
            f'ranks = {max(2, hosts // 2 - 1)}\nbytes = "64 KiB"\niterations = 10\n\n{hot}'
        )
    return (
        "# A light load between all hosts: the victims of the congestion tree are among them.\n"
        '[[traffic]]\nname = "background"\npattern = { kind = "uniform" }\nrate = "3 Gbit/s" # per host\n'
        f'message = "4 KiB"\n\n{hot}'
    )


def _spread(hosts: int) -> list[int]:
    """Return some hosts from all parts of the network, without the first host."""
    number = max(2, min(16, hosts // 8))
    return sorted({2 + step * (hosts - 2) // number for step in range(number)} | {hosts})
