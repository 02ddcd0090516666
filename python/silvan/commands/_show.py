"""Prints tables on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from silvan._comparison_text import in_words
from silvan._progress import count, simulated

if TYPE_CHECKING:
    from silvan.results import Result
    from silvan.types import (
        FabricCheck,
        FlowSummary,
        ForestCheck,
        GroupSummary,
        HostSummary,
        JobCheck,
        JobSummary,
        Lanes,
        LatencySummary,
        LinkLoad,
        PauseCheck,
        RoundTrip,
        ScenarioCheck,
        Summary,
    )

#: Colors of verdicts.
VERDICT_COLOURS = {
    "met": "green",
    "missed": "red",
    "incompatible": "red",
    "open": "yellow",
    "compatible": "green",
    "shown": "default",
    "not run": "yellow",
}

#: Longer lists of flows or hosts are replaced by a summary. At most this number of bottlenecks is printed. If
#: there are more than twice as many latencies, only this number of the largest means is printed.
LIST_AT_MOST = 16


def _table(title: str, left: Iterable[str], right: Iterable[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=None)
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right")
    return table


def gbit(value: float | None) -> str:
    """Format a throughput; a missing value becomes a dash."""
    return "-" if value is None else f"{value:.3f}"


def result(console: Console, run: Result) -> None:
    """Print the tables, account and warnings of a run."""
    summary = run.summary
    console.print(
        f"[bold]{escape(run.name)}[/]: {simulated(summary['simulated_ns'])} simulated in "
        f"{run.provenance['wall_s']:.3g} s, {count(summary['events'])}events, "
        f"{count(summary['packet_hops'])}packet-hops"
    )
    console.print()
    if summary["flows"]:
        console.print(_flows(summary["flows"]))
    elif summary["hosts"]:
        console.print(_hosts(summary["hosts"]))
    if summary.get("groups"):
        console.print(_groups(summary["groups"]))
    if summary.get("jobs"):
        console.print()
        console.print(_jobs(summary["jobs"]))
    if summary["latency"]:
        console.print()
        console.print(_latency(summary["latency"]))
    console.print()
    console.print(_totals(summary))
    if run.account:
        console.print()
        for line in run.account:
            console.print(escape(line))
    warnings(console, run)


def warnings(console: Console, run: Result) -> None:
    """Print the warnings of a run."""
    for warning in run.warnings:
        console.print(f"[yellow]Warning:[/] {escape(warning)}")


def _flows(flows: Sequence[FlowSummary]) -> Table:
    if len(flows) > LIST_AT_MOST:
        return _spread("Flows", {"received": [flow["received_gbit_s"] for flow in flows]})
    table = _table("Flows", ("flow", "from", "to"), ("received Gbit/s", "received MB", "completed"))
    for flow in flows:
        done = flow["completed_ns"]
        table.add_row(
            escape(flow["flow"]),
            escape(flow["from"]),
            escape(flow["to"]),
            gbit(flow["received_gbit_s"]),
            f"{flow['received_bytes'] / 1e6:.3f}",
            "-" if done is None else simulated(done),
        )
    return table


def _hosts(hosts: Sequence[HostSummary]) -> Table:
    if len(hosts) > LIST_AT_MOST:
        received, sent = [host["received_gbit_s"] for host in hosts], [host["sent_gbit_s"] for host in hosts]
        return _spread("Hosts", {"received": received, "sent": sent})
    table = _table("Hosts", ("host",), ("received Gbit/s", "sent Gbit/s"))
    for host in hosts:
        table.add_row(escape(host["host"]), gbit(host["received_gbit_s"]), gbit(host["sent_gbit_s"]))
    return table


def _groups(groups: Sequence[GroupSummary]) -> Table:
    table = _table(
        "Groups of hosts, means", ("traffic", "group"), ("hosts", "received Gbit/s", "sent Gbit/s")
    )
    for group in groups:
        means = (gbit(group["received_gbit_s"]), gbit(group["sent_gbit_s"]))
        table.add_row(escape(group["traffic"]), group["group"], str(group["hosts"]), *means)
    return table


def _jobs(jobs: Sequence[JobSummary]) -> Table:
    table = _table(
        "Jobs",
        ("job",),
        ("ranks", "hosts", "finished", "on a crossbar", "times that", "computing", "blocked", "throttled"),
    )
    for job in jobs:
        done, slowdown = job["finished_ns"], job["slowdown"]
        shares = (job["computing_share"], job["blocked_share"], job["throttled_share"])
        table.add_row(
            escape(job["job"]),
            f"{job['ranks']:,}",
            f"{job['hosts']:,}",
            "-" if done is None else simulated(done),
            simulated(job["started_ns"] + job["crossbar_ns"]),
            "-" if slowdown is None else f"{slowdown:.3f}",
            *(f"{share:.1%}" for share in shares),
        )
    return table


def _spread(what: str, columns: Mapping[str, Sequence[float]]) -> Table:
    """Return the distribution of values in Gbit/s, with one row for each list in `columns`."""
    import numpy as np

    number = len(next(iter(columns.values())))
    table = _table(f"{what} ({number}), Gbit/s", ("",), ("min", "5 %", "median", "mean", "95 %", "max"))
    for name, values in columns.items():
        low, five, half, most, high = np.percentile(values, (0, 5, 50, 95, 100))
        table.add_row(name, *(gbit(float(v)) for v in (low, five, half, np.mean(values), most, high)))
    return table


def _latency(rows: Sequence[LatencySummary]) -> Table:
    table = _table("Latency of packets", ("class", "since"), ("packets", "mean", "median", "99 %", "max"))
    if len(rows) > 2 * LIST_AT_MOST:
        rows = sorted(rows, key=lambda row: -row["mean_ns"])[:LIST_AT_MOST]
        table.title = f"Latency of packets, the {LIST_AT_MOST} slowest"
    for row in rows:
        times = (row["mean_ns"], row["p50_ns"], row["p99_ns"], row["max_ns"])
        cells = (simulated(time) if time is not None and row["count"] else "-" for time in times)
        table.add_row(escape(row["class"]), row["since"], f"{row['count']:,}", *cells)
    return table


def _totals(summary: Summary) -> Table:
    # Commands that print no results start faster without numpy.
    from silvan.fairness import jain_of_hosts

    table = _table("Totals", ("",), ("",))
    table.show_header = False
    table.add_row("received by all hosts", f"{gbit(summary['throughput_gbit_s'])} Gbit/s")
    if machines := summary.get("machines"):
        received = [machine["received_gbit_s"] for machine in machines]
        span = f"{gbit(min(received))} to {gbit(max(received))} Gbit/s"
        table.add_row(f"received by each of {len(machines)} hosts, all ports", span)
    of_hosts = jain_of_hosts(summary)
    table.add_row("Jain's index of the hosts", "-" if of_hosts is None else f"{of_hosts:.4f}")
    table.add_row("Jain's index of the flows", f"{summary['jain_flows']:.4f}" if summary["flows"] else "-")
    table.add_row("packets injected", f"{summary['packets_injected']:,}")
    table.add_row("packets delivered", f"{summary['packets_delivered']:,}")
    table.add_row("packets inside at the end", f"{summary['packets_inside']:,}")
    table.add_row("packets marked", f"{summary['fecn_marks']:,}")
    table.add_row("notifications received", f"{summary['becn_received']:,}")
    if "reordering" in summary:
        late, most = (summary["reordering"][key] for key in ("late_packets", "most_held_bytes"))
        table.add_row("packets that arrived after a later one", f"{late:,}")
        table.add_row("most bytes that a host held for earlier ones", f"{most:,} bytes")
    return table


def check(console: Console, name: str, report: ScenarioCheck) -> None:
    """Print the result of `silvan check`."""
    estimate, load = report["estimate"], report["all_to_all"]
    table = _table(escape(f"{name}: {'fine' if report['refusal'] is None else 'can deadlock'}"), ("",), ())
    table.show_header = False
    table.add_column(overflow="fold")
    table.add_row("topology", escape(report["topology"]))
    table.add_row("hosts, switches, links", f"{report['hosts']}, {report['switches']}, {report['links']}")
    choice = report.get("choice")
    table.add_row("routing", escape(report["routing"] + (f"; {choice}" if choice else "")))
    if ethernet := report.get("ethernet"):
        order = (
            "in the order of arrival"
            if report["arbitration"] == "fcfs"
            else "of all inputs in turn, not by arrival"
        )
        table.add_row(
            "Ethernet", escape(f"{ethernet}; outputs serve packets {order} ({report['arbitration']})")
        )
    for one in report.get("thresholds", ()):
        low, high = (f"{one[key] / 1e3:,.0f} kB" for key in ("min_bytes", "max_bytes"))
        table.add_row(
            f"marks at {one['gbit_s']:g} Gbit/s", f"from {low}, all from {high} in the queue of an output"
        )
    if pauses := report.get("pauses"):
        table.add_row("pause frames", _pauses(pauses))
    pairs = f"{report['pairs_routed']:,}"
    if report["pairs_unroutable"]:
        pairs += f"; [yellow]{report['pairs_unroutable']:,} without a route[/]"
    table.add_row("pairs routed", pairs)
    tables = f" ({report['routing']} alone)" if choice else ""
    table.add_row(f"all-to-all flows per link between switches{escape(tables)}", _load(load))
    cycle = report["deadlock"]
    allowed = " (allowed)" if report["refusal"] is None else ""
    possible = f"[red]possible{allowed}:[/] {escape(str(cycle))}"
    table.add_row("deadlock", "impossible" if cycle is None else possible)
    table.add_row("flows, traffic patterns", f"{report['flows']}, {report['traffic']}")
    for job in report.get("jobs", ()):
        table.add_row(escape(job["job"]), _job(job))
    for forest in report.get("forests", ()):
        table.add_row(escape(forest["traffic"]), _forest(forest))
    if trip := report.get("round_trip"):
        table.add_row("round trip", escape(_round_trip(trip)))
    table.add_row(
        "a run",
        f"up to {count(estimate['packet_hops'])}packet-hops, {count(estimate['events'])}events, about "
        f"{estimate['memory_mb']:.3g} MB and {estimate['wall_s']:.2g} s",
    )
    console.print(table)
    for warning in report["warnings"]:
        console.print(f"[yellow]Warning:[/] {escape(warning)}")


def _pauses(pauses: PauseCheck) -> str:
    """Describe the memory of switches with pause frames."""
    bounds = (pauses["least_headroom_bytes"], pauses["most_headroom_bytes"])
    least, most = (f"{size / 1e3:,.0f}" for size in bounds)
    text = f"headroom of {least if least == most else f'{least} to {most}'} kB for each input and lane"
    if shared := pauses.get("shared"):
        whole, headroom, reserve, left = (
            f"{shared[key] / 1e3:,.0f} kB"
            for key in ("memory_bytes", "headroom_bytes", "reserve_bytes", "left_bytes")
        )
        text += f"; of {whole} of shared memory, {headroom} is headroom, {reserve} reserve, "
        text += f"{left} is left to share"
    return text


def _job(job: JobCheck) -> str:
    """Describe the hosts and the messages of a job."""
    hosts = job["hosts"]
    where = ", ".join(hosts) if len(hosts) <= 4 else f"{', '.join(hosts[:3])} ... {hosts[-1]}"
    collectives = (
        f"; {use['operation']} by {use['algorithm']}, {use['calls']:,} calls of ranks"
        for use in job["collectives"]
    )
    notes = (f"; {note}" for note in job["notes"])
    units = f", {job['units']:,} reduction units" if job["units"] else ""
    return escape(
        f"{job['ranks']:,} ranks on {len(hosts):,} hosts ({where}){units}, {job['messages']:,} messages of "
        f"{job['bytes']:,} bytes in all" + "".join(collectives) + "".join(notes)
    )


def _forest(forest: ForestCheck) -> str:
    """Describe the roles of the hosts in a forest of congestion trees."""
    numbers = (forest["contributors"], forest["victims"], forest["mixed"])
    roles = zip(numbers, ("contributors", "victims", "mixed hosts"), strict=True)
    members = ", ".join(f"{number} {role}" for number, role in roles if number)
    smallest, largest = min(forest["subset_sizes"]), max(forest["subset_sizes"])
    size = str(largest) if smallest == largest else f"{smallest} to {largest}"
    moves = f", which move {count(forest['moves']).strip()} times" if forest["moves"] else ""
    hotspots = escape(", ".join(forest["hotspots"]))
    return (
        f"{members}; {size} senders to each of {len(forest['hotspots'])} hotspots{moves}: {hotspots}; "
        f"t_max {gbit(forest['tmax_gbit_s'])} Gbit/s"
    )


def _round_trip(trip: RoundTrip) -> str:
    """Describe the longest round trip, and the window that it requires."""
    switches = "1 switch" if trip["hops"] == 1 else f"{trip['hops']} switches"
    groups = ""
    if trip["groups"] > 1:
        groups = f"; the longest of {trip['groups']} groups of hosts without traffic between them"
    return (
        f"{simulated(trip['shortest_ns'])} from {trip['from']} to {trip['to']} and back{groups}; at most "
        f"{switches}; {trip['window']:.2f} packets fill it, so windows of {trip['packets']}"
    )


def _load(load: LinkLoad) -> str:
    if not load["links"]:
        return "no such links"
    span = f"{load['min']:,} to {load['max']:,}, mean {in_words(load['mean'])}"
    return f"{span}, over {load['links']:,} directed links"


def fabric(console: Console, report: FabricCheck) -> None:
    """Print the result of `silvan fabric check`."""
    table = _table(escape(report["topology"]), ("",), ())
    table.show_header = False
    table.add_column(overflow="fold")
    table.add_row("hosts, switches, links", f"{report['hosts']}, {report['switches']}, {report['links']}")
    if nodes := report["aggregation_nodes"]:
        table.add_row("aggregation nodes (SHARP) among the hosts", f"{len(nodes):,}")
    if report["lids_per_host"] > 1:
        lids = report["lids_per_host"]
        table.add_row("LIDs per host", f"up to {lids}; each pair has {lids} routes and flows")
    pairs = f"{report['pairs_routed']:,}"
    if report["pairs_unroutable"]:
        pairs += f"; [red]{report['pairs_unroutable']:,} without a route[/]"
    table.add_row("pairs routed", pairs)
    hops = ", ".join(f"{number:,} over {length}" for length, number in report["hops"].items())
    table.add_row("pairs by switches crossed", hops or "-")
    table.add_row("all-to-all flows per link between switches", _load(report["all_to_all"]))
    cycle = report["deadlock"]
    table.add_row("deadlock", "impossible" if cycle is None else f"[red]possible:[/] {escape(cycle)}")
    if report["lanes"] is not None:
        _lanes(table, report["lanes"])
    if report["adaptive_groups"]:
        table.add_row("groups for adaptive routing", f"{report['adaptive_groups']:,}, not simulated")
    console.print(table)
    for name in ("used", "ignored"):
        for file in report[name]:
            kind = f"{file['kind']}: " if file["kind"] else ""
            console.print(f"{name} {file['file']}: {kind}{file['note']}", markup=False)
    for finding in report["findings"]:
        console.print(f"[yellow]Warning:[/] {escape(finding)}")
    for problem in report["problems"]:
        console.print(f"[red]Unroutable:[/] {escape(problem)}")


def _lanes(table: Table, found: Lanes) -> None:
    for lane in found["lanes"]:
        circles = lane["in_circles"]
        verdict = "free of deadlock" if not circles else f"[red]{circles:,} of them in cycles[/]"
        table.add_row(f"virtual lane {lane['lane']}", f"{lane['channels']:,} directed links, {verdict}")
    if found["discarded"]:
        table.add_row("pairs that a switch discards", f"[red]{found['discarded']:,}[/] (VL 15)")


def papers(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print simulated and published numbers, and the assumptions."""
    from silvan.papers.rows import counts, expected_text, marks, simulated_text, tolerance_text

    table = _table("", ("id", "quantity"), ("expected", "simulated", "ratio", "tolerance"))
    table.title = None
    table.add_column("verdict")
    for row in rows:
        verdict = ", ".join((row["verdict"], *marks(row)))
        unit = f" {row['unit']}" if row["unit"] else ""
        table.add_row(
            row["id"],
            escape(row["quantity"]),
            escape(expected_text(row) + unit),
            simulated_text(row),
            _number(row["ratio"]),
            tolerance_text(row),
            f"[{VERDICT_COLOURS[row['verdict']]}]{verdict}[/]",
        )
    console.print(table)
    found = counts(rows)
    console.print(", ".join(f"{number} {verdict}" for verdict, number in found.items() if number))
    for row in rows:
        if row.get("reason"):
            console.print(f"{row['id']}, {escape(row['quantity'])}: {escape(row['reason'])}")
    notes = dict.fromkeys((row["id"], row["assumption"]) for row in rows if row["assumption"])
    if notes:
        console.print("\n[bold]Assumptions where the source has no information[/]")
        for key, text in notes:
            console.print(f"{key}: {escape(text)}")


def _number(value: object) -> str:
    return (
        in_words(value) if isinstance(value, (int, float)) else "-" if value is None else escape(str(value))
    )


def comparison(
    console: Console, flows: Iterable[FlowSummary], off: Mapping[str, float], on: Mapping[str, float]
) -> None:
    """Print the throughput of each flow of the demo without and with congestion control."""
    columns = ("CC off", "CC on", "on / off")
    table = _table("Received over the last half second, Gbit/s", ("flow", "from", "to"), columns)
    for flow in flows:
        name = flow["flow"]
        ratio = f"{on[name] / off[name]:.2f}" if off[name] > 0 else "-"
        cells = (gbit(off[name]), gbit(on[name]), ratio)
        table.add_row(escape(name), escape(flow["from"]), escape(flow["to"]), *cells)
    console.print(table)
