"""Shows which hosts lose how much if a switch or a link fails, until new tables and after them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from silvan._comparison_text import in_words
from silvan._core import FabricError, Scenario
from silvan._progress import simulated
from silvan.results import Result
from silvan.tuning.presets import NONE

#: A host loses if it receives at least this share less than in the run without the failure.
LOSS = 0.05
#: Maximum number of hosts in a sentence.
NAMED = 4

Simulate = Callable[[Scenario, str], Result]


def sentences(file: Path, off: Result, names: Sequence[str], simulate: Simulate) -> list[str]:
    """Return a sentence for each switch or link that fails at the end of the warm-up, without control.

    `file` is the scenario of the study, and `off` its run without control. The second half of the remaining
    time is simulated with new tables. Raises `FabricError` for a name that the fabric does not have.
    """
    start = off.summary["averages_from_ns"]
    end = off.summary["simulated_ns"]
    middle = (start + end) / 2
    links = [str(link) for link in off.numpy("wiring")["link"]]
    hosts = [host["host"] for host in off.summary["hosts"]]
    lines = []
    for name in names:
        target = {"links": [name]} if is_link(links, hosts, name) else {"switches": [name]}
        keys = {
            **NONE,
            "event": [{"kind": "down", "start": f"{start:.0f} ns", **target}],
            "rerouting": {"delay": f"{middle - start:.0f} ns"},
        }
        result = simulate(Scenario.load(file, keys), f"{name} down")
        before = _losses(off, result, start, middle)
        after = _losses(off, result, middle, end)
        lines.append(
            f"Down: `{name}` fails, without control, compared with the run without the failure. Until new "
            f"tables ({simulated(middle - start)} later): {before}. After that: {after}."
        )
    return lines


def is_link(links: Sequence[str], hosts: Sequence[str], name: str) -> bool:
    """Return whether a name is that of a link, by its host or port; False for a switch.

    Raises `FabricError` for other names.
    """
    ends = dict.fromkeys(end for link in links for end in link.split("->"))
    switches = dict.fromkeys(re.sub(r":\d+$", "", end) for end in ends if end not in set(hosts))
    if name in switches:
        return False
    if name in ends:
        return True
    near = difflib.get_close_matches(name.lower(), {one.lower(): one for one in (*switches, *ends)}, 1)
    hint = next((one for one in (*switches, *ends) if near and one.lower() == near[0]), None)
    said = f"; did you mean `{hint}`?" if hint else f"; switches are {', '.join(list(switches)[:NAMED])}, ..."
    raise FabricError(f"--down {name}: no switch, host or port with a link has this name{said}")


def _losses(off: Result, down: Result, start: float, end: float) -> str:
    """Return which hosts receive less with the failure, in a time span in ns."""
    usual, now = _rates(off, start, end), _rates(down, start, end)
    lost = {
        host: (1 - now.get(host, 0.0) / rate) for host, rate in usual.items() if rate > 0
    }  # fmt: skip
    worst = sorted((host for host in lost if lost[host] >= LOSS), key=lambda host: (-lost[host], host))
    change = sum(now.values()) / max(sum(usual.values()), 1e-9) - 1
    whole, rest = in_words(sum(usual.values())), in_words(sum(now.values()))
    total = f"{rest} instead of {whole} Gbit/s in all, {100 * change:+.0f} %"
    if not worst:
        return f"no host receives {100 * LOSS:.0f} % less ({total})"
    named = ", ".join(f"{host} {100 * lost[host]:.0f} %" for host in worst[:NAMED])
    more = f" and {len(worst) - NAMED} more" if len(worst) > NAMED else ""
    verb = "host receives" if len(worst) == 1 else "hosts receive"
    return f"{len(worst)} {verb} less ({named}{more}; {total})"


def _rates(result: Result, start: float, end: float) -> dict[str, float]:
    """Return the mean rate that each host receives in a time span, in Gbit/s."""
    table = result.numpy("hosts")
    inside = (table["time_ns"] > start) & (table["time_ns"] <= end)
    names, at = np.unique(table["host"][inside].astype(str), return_inverse=True)
    totals = np.bincount(at, table["received_bytes"][inside]) * 8 / (end - start)
    return dict(zip(names.tolist(), totals.tolist(), strict=True))
