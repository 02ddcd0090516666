"""The commands `silvan trace`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from silvan import traces
from silvan._core import TraceError
from silvan._progress import simulated
from silvan.commands import common
from silvan.types import TraceCheck, WrittenTrace

#: Maximum number of ranks that a message about a cycle names.
RANKS_AT_MOST = 16

app = typer.Typer(
    help="Traces of applications: check, convert to GOAL, generate.",
    no_args_is_help=True,
)

Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Traces; text formats may be .gz.")]
FormatName = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="Format of the trace: goal, goal-binary, ti, vef, chakra, hpcc, workload or msccl.",
        show_default="detected",
    ),
]
Algorithms = Annotated[
    list[str] | None,
    typer.Option(
        "--algorithm",
        metavar="OPERATION=NAME",
        help="Algorithm of a collective operation, such as all-reduce=ring; may be repeated.",
    ),
]
TimeScale = Annotated[
    float, typer.Option("--time-scale", metavar="X", help="Nanoseconds per time unit of the file.")
]
ComputeScale = Annotated[
    float,
    typer.Option("--compute-scale", metavar="X", help="Factor by which computation times are multiplied."),
]
HostFlops = Annotated[
    float | None,
    typer.Option(
        "--host-flops",
        metavar="X",
        help="Speed of a host in flop/s, for traces that count operations (SimGrid: 1e9 by default; Chakra).",
    ),
]
HostBandwidth = Annotated[
    str | None,
    typer.Option(
        "--host-bandwidth",
        metavar="RATE",
        help="Memory bandwidth of a host, for Chakra nodes that state bytes, but no duration.",
    ),
]
Ranks = Annotated[
    int | None,
    typer.Option(
        "--ranks",
        metavar="N",
        min=1,
        help="Number of ranks, for workloads of SimAI and ASTRA-sim without all_gpus.",
    ),
]
TotalBytes = Annotated[
    str | None,
    typer.Option(
        "--bytes",
        metavar="SIZE",
        help="Total size of the operation, for algorithms of MSCCL, such as '16 MiB'.",
    ),
]
Out = Annotated[Path, typer.Argument(metavar="OUT", help="NAME.goal (text) or NAME.bin (binary).")]


def register(parent: typer.Typer) -> None:
    """Add `silvan trace` with its commands."""
    parent.add_typer(app, name="trace")


@app.command()
def check(  # noqa: PLR0913, PLR0917 - one argument per option
    files: Files,
    format_name: FormatName = None,
    latency: Annotated[
        str, typer.Option("--latency", metavar="TIME", help="Latency per message (L).")
    ] = "0 ns",
    overhead: Annotated[
        str, typer.Option("--overhead", metavar="TIME", help="CPU time per message (o).")
    ] = "0 ns",
    gap: Annotated[
        str, typer.Option("--gap", metavar="TIME", help="Gap between messages of a network interface (g).")
    ] = "0 ns",
    bandwidth: Annotated[
        str | None,
        typer.Option("--bandwidth", metavar="RATE", help="Bandwidth of a network interface (1/G)."),
    ] = None,
    copy: Annotated[
        str | None, typer.Option("--copy", metavar="RATE", help="Copy bandwidth of a CPU (1/O).")
    ] = None,
    rendezvous_above: Annotated[
        str | None,
        typer.Option("--rendezvous-above", metavar="SIZE", help="Size of the largest eager message (S)."),
    ] = None,
    algorithm: Algorithms = None,
    time_scale: TimeScale = 1.0,
    compute_scale: ComputeScale = 1.0,
    host_flops: HostFlops = None,
    host_bandwidth: HostBandwidth = None,
    ranks: Ranks = None,
    total_bytes: TotalBytes = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream", help="Only read the trace, without running it; GOAL binary and VEF of any size."
        ),
    ] = False,
    as_json: common.AsJson = False,
) -> None:
    """Read traces and run them without a network, to find operations that never finish.

    Exit status: 0 success, 1 a trace is unusable.
    """
    request = {
        "format": format_name,
        "time_scale": time_scale,
        "compute_scale": compute_scale,
        "host_flops": host_flops,
        "host_bandwidth": host_bandwidth,
        "ranks": ranks,
        "bytes": total_bytes,
        "algorithms": common.pairs(algorithm, "--algorithm"),
        "latency": latency,
        "overhead": overhead,
        "gap": gap,
        "bandwidth": bandwidth,
        "copy": copy,
        "rendezvous_above": rendezvous_above,
    }
    checked, failed = _check_all(files, request, stream)
    if as_json:
        common.print_json([{"file": str(file), **one} for file, one in checked])
    elif checked:
        _show(common.out_console(), checked)
    if failed or any(one["run"] and not one["run"]["complete"] for _, one in checked):
        raise typer.Exit(common.EXIT_FAILED)


@app.command()
def convert(
    file: Annotated[Path, typer.Argument(metavar="IN", help="A trace of any format.")],
    out: Out,
    format_name: FormatName = None,
    algorithm: Algorithms = None,
    time_scale: TimeScale = 1.0,
    compute_scale: ComputeScale = 1.0,
    host_flops: HostFlops = None,
    host_bandwidth: HostBandwidth = None,
    ranks: Ranks = None,
    total_bytes: TotalBytes = None,
) -> None:
    """Write a trace as GOAL, with its collective operations as messages."""
    done = traces.convert(
        file,
        out,
        format=format_name,
        algorithms=common.pairs(algorithm, "--algorithm"),
        time_scale=time_scale,
        compute_scale=compute_scale,
        host_flops=host_flops,
        host_bandwidth=host_bandwidth,
        ranks=ranks,
        bytes=total_bytes,
    )
    _print_written(done, out)


@app.command()
def generate(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"One of {', '.join(traces.KINDS)}.")],
    out: Out,
    sizes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=NUMBER", help="A size, such as ranks=16; may be repeated."),
    ] = None,
    algorithm: Algorithms = None,
) -> None:
    """Generate the trace of an HPC Challenge kernel, a collective operation or a training step."""
    given = {
        name.replace("-", "_"): _number(name, value) for name, value in common.pairs(sizes, "--set").items()
    }
    done = traces.generate(kind, out, algorithms=common.pairs(algorithm, "--algorithm"), **given)
    _print_written(done, out)


def _number(name: str, text: str) -> int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise typer.BadParameter(f"{name} = `{text}` is not a number", param_hint="--set")


def _check_all(
    files: Sequence[Path], request: Mapping[str, Any], stream: bool
) -> tuple[list[tuple[Path, TraceCheck]], bool]:
    """Check traces, except files that belong to a trace already checked.

    Returns the results, and whether a trace could not be read.
    """
    checked: list[tuple[Path, TraceCheck]] = []
    failed = False
    known: set[Path] = set()
    for file in files:
        if file.resolve() in known:
            continue
        try:
            one = traces.check(file, stream=stream, **request)
        except TraceError as error:
            common.complain(str(error))
            failed = True
            continue
        known.update(Path(name).resolve() for name in one["files"])
        checked.append((file, one))
    return checked, failed


def _show(console: Console, checked: Sequence[tuple[Path, TraceCheck]]) -> None:
    table = Table(header_style="bold", box=None)
    for name in ("trace", "format"):
        table.add_column(name, overflow="fold")
    for name in ("ranks", "operations", "messages", "bytes", "span"):
        table.add_column(name, justify="right")
    table.add_column("ends")
    for file, one in checked:
        contents, run = one["contents"], one["run"]
        operations = (contents["sends"], contents["receives"], contents["computations"], contents["delays"])
        numbers = (
            contents["ranks"],
            sum(operations),
            contents["sends"],
            contents["bytes"],
        )
        table.add_row(
            escape(file.name),
            one["format"],
            *(f"{number:,}" for number in numbers),
            simulated(run["span_ps"] / 1000) if run else "-",
            ("yes" if run["complete"] else "[bold red]no[/]") if run else "not run",
        )
    console.print(table)
    for file, one in checked:
        for line in _remarks(one):
            console.print(f"{escape(file.name)}: {line}")


def _remarks(one: TraceCheck) -> list[str]:
    """Return the facts that the table omits: algorithms, notes, warnings, operations that never finish."""
    lines = []
    if one["collectives"]:
        by = ", ".join(f"{use['operation']} by {use['algorithm']}" for use in one["collectives"])
        lines.append(f"collective operations: {by}")
    lines += [f"[yellow]Note:[/] {escape(note)}" for note in one["notes"]]
    run = one["run"]
    if run is None:
        return lines
    lines += [f"[yellow]Warning:[/] {escape(warning)}" for warning in run["warnings"]]
    if not run["complete"]:
        lines.append(f"[bold red]{run['unfinished']:,} operations never finish[/]")
        lines += [f"  {escape(stuck)}" for stuck in run["stuck"]]
        if circle := run["circle"]:
            named = " -> ".join(str(rank) for rank in [*circle[:RANKS_AT_MOST], circle[0]])
            more = f" ({len(circle)} ranks)" if len(circle) > RANKS_AT_MOST else ""
            lines.append(f"  ranks wait for each other in a cycle: {named}{more}")
    return lines


def _print_written(done: WrittenTrace, out: Path) -> None:
    contents = done["contents"]
    typer.echo(
        f"{contents['ranks']:,} ranks, {contents['sends']:,} messages of {contents['bytes']:,} bytes "
        f"in all written to {out}"
    )
    for use in done["collectives"]:
        typer.echo(f"{use['operation']} by {use['algorithm']}")
    for note in done["notes"]:
        typer.echo(f"Note: {note}")
