"""Real InfiniBand fabrics: check, route and study them, and find the links that the flows of a job share.

>>> import silvan
>>> found = silvan.fabric.check("tests/data/fabrics/sw2-h7/updn")
>>> found["pairs_routed"], found["deadlock"]
(42, None)

| function | command |
| --- | --- |
| :func:`check` | `silvan fabric check` |
| :func:`route` | `silvan fabric route` |
| :func:`study` | `silvan fabric study` |
| :func:`collide` | `silvan fabric collide` |
| :func:`infer` | `silvan fabric infer` |
| :func:`ibdmchk` | `silvan fabric check --ibdmchk` |
| :func:`examples` | `silvan fabric examples` |

`collisions` implements :func:`collide`, `inference` implements :func:`infer`, `studies` implements
:func:`study`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from silvan import _core
from silvan.fabric import _paths
from silvan.fabric._paths import Paths
from silvan.fabric.examples import examples
from silvan.types import Collisions, FabricCheck, Inference, LinkDemand, PairDemand, Placement, RailDemand

if TYPE_CHECKING:
    from silvan.fabric.studies.study import Simulated

__all__ = [
    "Collisions",
    "FabricCheck",
    "Inference",
    "LinkDemand",
    "PairDemand",
    "Placement",
    "RailDemand",
    "Routes",
    "check",
    "collide",
    "examples",
    "ibdmchk",
    "infer",
    "route",
    "study",
]


@dataclass(frozen=True)
class Routes:
    """The forwarding tables and the network of a fabric, as texts that use the same LIDs and GUIDs."""

    #: In the format of ``opensm-lfts.dump``.
    tables: str
    #: In the format of ``ibnetdiscover``.
    network: str
    #: Faults of the routes: links that they leave unused, an uneven load, or a possible deadlock.
    findings: list[str]
    #: Statements about parts of the file that are not used.
    notes: list[str] = field(default_factory=list)


def check(
    paths: Paths, tables: str | PathLike[str] | None = None, default_rate: str | None = None
) -> FabricCheck:
    """Check a real fabric: routes of all pairs of hosts, load of each link, deadlock lane by lane.

    Args:
        paths: Files and folders of the fabric, recognized by their contents.
        tables: The forwarding tables, if the files have several.
        default_rate: Rate of links without one, such as ``"16 Gbit/s"``.

    Raises:
        FabricError: files that are wrong or inconsistent.

    """
    return _core.fabric_check(_paths.files(paths), tables, default_rate)


def ibdmchk(
    paths: Paths, tables: str | PathLike[str] | None = None, default_rate: str | None = None
) -> dict[str, str]:
    """Return the files that `ibdmchk` reads, as a mapping from file name to text.

    The arguments and the errors are those of :func:`check`.
    """
    return _core.fabric_ibdmchk(_paths.files(paths), tables, default_rate)


def route(
    topology: str | PathLike[str],
    routing: str | None = None,
    default_rate: str | None = None,
    roots: Sequence[str] | None = None,
) -> Routes:
    """Compute the forwarding tables of a fabric, or of the network of a scenario (`.toml`).

    Args:
        topology: The wiring, in a format that :func:`check` reads, or a scenario: a file, or the name of one
            that comes with Silvan.
        routing: ``d-mod-k``, ``up-down`` or ``shortest-path``; by default that of the scenario, or one that
            suits the fabric.
        default_rate: Rate of links without one.
        roots: Names of the switches at the top of ``up-down`` routing; by default, Silvan selects them.

    Raises:
        FabricError: a wiring that is wrong, an unknown routing or an unknown root.
        ScenarioError: a scenario that is wrong.

    """
    [path] = _paths.files_or_scenario(topology)
    routes = Routes(*_core.fabric_route(path, routing, default_rate, roots))
    if cycle := _cycle(routes):
        routes.findings.append(
            f"these tables can deadlock unless virtual lanes exclude it, and they do not contain any: {cycle}"
        )
    return routes


def _cycle(routes: Routes) -> str | None:
    """Return the cycle in which packets on one virtual lane can wait for each other, if there is one."""
    with tempfile.TemporaryDirectory(prefix="silvan-") as folder:
        for name, text in (("fabric.topo", routes.network), ("fabric.lft", routes.tables)):
            (Path(folder) / name).write_text(text, encoding="utf-8")
        # Deadlocks do not depend on the rate.
        return _core.fabric_check(folder, None, "1 Gbit/s")["deadlock"]


def collide(  # noqa: PLR0913 - options with names and defaults
    paths: Paths,
    *,
    pattern: str | None = None,
    trace: str | PathLike[str] | None = None,
    hosts: Sequence[str] | None = None,
    placement: str = "linear",
    ranks: int | None = None,
    ranks_per_host: int = 1,
    distance: int | None = None,
    tables: str | PathLike[str] | None = None,
    default_rate: str | None = None,
    top: int = 10,
    tries: int = 1000,
    seed: int = 1,
) -> Collisions:
    """Find the links that a job's messages share, without a run, and suggest a better placement.

    Args:
        paths: Files and folders of a fabric, as for :func:`check`, or a scenario.
        pattern: ``shift`` (by `distance`, default 1), ``ring``, ``all-to-all``, or a collective
            operation, ``all-reduce`` or ``all-reduce=ring``.
        trace: Instead of a pattern, a trace in any format that :mod:`silvan.traces` reads.
        hosts: Hosts, in the order of the ranks, also as ``node-[00-17]``; by default all hosts of the fabric
            except aggregation nodes. The suggestion may use hosts that the ranks do not need.
        placement: ``linear``, or ``round-robin`` over leaf switches.
        ranks: Number of ranks; by default as many as fit on the hosts, or those of the trace.
        ranks_per_host: Ranks that share a host.
        distance: Distance of a shift.
        tables: Forwarding tables, if the files have several.
        default_rate: Rate of links without one.
        top: Maximum number of links and of pairs in the result.
        tries: Number of host exchanges in the search for a better placement; 0 for no suggestion.
        seed: Seed of the search.

    Raises:
        FabricError: inconsistent files, invalid arguments, unknown hosts, too few hosts, or a route that
            misses its host.
        ScenarioError: a scenario that is wrong.
        TraceError: an unknown pattern, or a trace that cannot be read.

    """
    from silvan.fabric.collisions.collide import collide as find

    return find(
        paths,
        pattern=pattern,
        trace=trace,
        hosts=hosts,
        placement=placement,
        ranks=ranks,
        ranks_per_host=ranks_per_host,
        distance=distance,
        tables=tables,
        default_rate=default_rate,
        top=top,
        tries=tries,
        seed=seed,
    )


def infer(  # noqa: PLR0913 - options with names and defaults
    paths: Paths,
    *,
    after: str | PathLike[str],
    before: str | PathLike[str] | None = None,
    seconds: float | None = None,
    tables: str | PathLike[str] | None = None,
    default_rate: str | None = None,
    hosts: Sequence[str] | None = None,
    tick_bytes: int = 8,
    is_line_rate: bool = False,
    top: int = 10,
    error: float = 0.001,
    tolerance: float = 0.05,
    out: str | PathLike[str] | None = None,
    run: bool = True,
) -> Inference:
    """Find the traffic and the outputs for which ports wait, from two dumps of the counters of ports.

    Needs SciPy (the extra `fit`).

    Args:
        paths: Files and folders of a fabric, as for :func:`check`, or a scenario.
        after: The second dump: output of ``perfquery -x`` for each port, metrics of Prometheus, or CSV.
        before: The first dump; by default, all counters were 0.
        seconds: Time between the dumps; by default that which the dumps state.
        tables: Forwarding tables, if the files have several.
        default_rate: Rate of links without one.
        hosts: Hosts that exchange traffic, also as ``node-[00-17]``; by default all.
        tick_bytes: Byte times of a tick of PortXmitWait: 8 on present devices, 32 on older ones.
        is_line_rate: Whether the traffic was a test at line rate, in which a low utilization shows wrong
            units.
        top: Maximum number of pairs and of roots in the result.
        error: Relative error of a counter.
        tolerance: Relative width of an interval up to which its claim is determined.
        out: Folder for the scenario of the traffic.
        run: Run this scenario, and compare its counters with the measured ones.

    Raises:
        FabricError: a dump or the fabric is wrong, no port of the dump belongs to the fabric, a counter fell,
            or too many pairs may have exchanged traffic.
        ScenarioError: a scenario that is wrong.
        SilvanError: SciPy is missing.

    """
    from silvan import results
    from silvan.fabric.inference.infer import infer as find

    return find(
        paths,
        before=before,
        after=after,
        seconds=seconds,
        run=results.run if run else None,
        tables=tables,
        default_rate=default_rate,
        hosts=hosts,
        tick_bytes=tick_bytes,
        is_line_rate=is_line_rate,
        top=top,
        error=error,
        tolerance=tolerance,
        out=out,
    )


def study(  # noqa: PLR0913 - options with names and defaults
    paths: Paths,
    *,
    out: str | PathLike[str] = "out/fabric-study",
    tables: str | PathLike[str] | None = None,
    default_rate: str | None = None,
    hotspots: int | Sequence[str] | None = None,
    contributors: float = 0.5,
    incast: float = 0.1,
    background: float = 1.0,
    seed: int = 1,
    opensm_conf: str | PathLike[str] | None = None,
    jobs: int | None = None,
    protect: Sequence[str] = (),
    weights: Mapping[str, float] | None = None,
    seeds: int = 16,
    aggregation_nodes: bool = False,
) -> Simulated:
    """Simulate hotspots, a storage incast and a background on a fabric, and recommend settings.

    Simulates the fabric without congestion control, with the defaults and with the best of a few settings,
    and writes an account, figures, a report and lines for opensm.conf.

    Args:
        paths: Files and folders of the fabric, as for :func:`check`.
        out: Folder for everything that is written; finished runs in it are reused.
        tables: Forwarding tables, if the files have several.
        default_rate: Rate of links without one.
        hotspots: Number of hosts drawn as hotspots (default: one in 80), or their names.
        contributors: Share of the hosts that send to hotspots.
        incast: Share of the hosts that write to storage; 0 for none.
        background: Load that the other hosts offer, as a share of their links.
        seed: Seed from which the roles of hosts are drawn.
        opensm_conf: OpenSM's configuration file that is in use, for the comparison.
        jobs: Concurrent runs of the survey; by default the number of cores.
        protect: Classes of traffic (``hotspots``, ``storage``, ``background``) that recommended settings must
            not harm.
        weights: Weights of the score by objective (``victims``, ``hotspots``) or class; by default victims
            and hotspots have equal weights.
        seeds: Maximum number of seeds for a comparison that is undecided with fewer seeds, 3 to 100.
        aggregation_nodes: Let aggregation nodes (SHARP) send and receive like hosts.

    Returns:
        A `silvan.fabric.studies.study.Studied`, with `.lead()` (the sentences that come first), `.verdict`,
        `.runs` and `.tuned`; a `Simulated` without verdict if runs that a comparison needs deadlocked.

    Raises:
        FabricError: a fabric or a load that is wrong.
        SilvanError: `out` contains other files, or a run failed.

    """
    from silvan import results
    from silvan.fabric.studies import files
    from silvan.fabric.studies.load import Shape
    from silvan.fabric.studies.study import Asked
    from silvan.fabric.studies.study import study as run
    from silvan.fabric.studies.verdict import Care

    names = () if hotspots is None or isinstance(hotspots, int) else tuple(hotspots)
    number = hotspots if isinstance(hotspots, int) else None
    shape = Shape(number, names, contributors, incast, background)
    folder = Path(out)
    files.refuse_foreign(folder)
    given = [paths] if isinstance(paths, (str, PathLike)) else paths
    asked = Asked(
        fabric=[Path(fspath(path)) for path in given],
        out=folder,
        tables=None if tables is None else Path(tables),
        default_rate=default_rate,
        shape=shape,
        seed=seed,
        conf=None if opensm_conf is None else Path(opensm_conf),
        jobs=jobs,
        care=Care(tuple(protect), tuple((weights or {}).items())),
        seeds=seeds,
        aggregation_nodes=aggregation_nodes,
    )
    studied = run(asked, lambda scenario, _title: results.run(scenario), lambda *_: None)
    files.write(studied, folder)
    return studied
