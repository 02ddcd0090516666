"""The command `silvan counters`."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from silvan import _files, _written
from silvan.commands import common

if TYPE_CHECKING:
    from silvan.hardware.ports import Counters, Snapshot

FORMATS = ("table", "csv", "parquet", "perfquery", "sonic", "prometheus")
LISTED = f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
#: Counters of the table on the terminal, with the titles of their columns.
SHOWN = (
    ("xmit_words", "PortXmitData"),
    ("rcv_words", "PortRcvData"),
    ("xmit_wait_ticks", "PortXmitWait"),
    ("marked_packets", "marked"),
    ("pause_frames_received", "pause frames"),
    ("paused_us", "paused us"),
    ("link_downed", "downs"),
    ("lost_packets", "lost"),
    ("rcv_discards", "dropped"),
    ("queued_bytes_maximum", "queued bytes"),
)


def register(app: typer.Typer) -> None:
    """Add `silvan counters`."""
    app.command()(counters)


def counters(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run (silvan run --out).")],
    form: Annotated[str, typer.Option("--format", metavar="FORMAT", help=f"{LISTED}.")] = "table",
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TIME",
            help='Simulated time of the counters, such as "2 ms".',
            show_default="the end; csv and parquet: all samples",
        ),
    ] = None,
    tick_bytes: Annotated[
        int,
        typer.Option("--tick-bytes", metavar="N", min=1, help="Byte times of a tick of PortXmitWait."),
    ] = 8,
    second_run: Annotated[
        bool,
        typer.Option(
            "--second-run",
            help="Run the scenario again to count packets, PortXmitWait, and CNPs of adapters.",
        ),
    ] = False,
    top: Annotated[
        int, typer.Option("--top", metavar="N", min=1, help="Number of ports in a table on the terminal.")
    ] = 20,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="File to write.", show_default="standard output"),
    ] = None,
) -> None:
    """Write the counters that the ports of a run would show in hardware."""
    import silvan

    if form not in FORMATS:
        raise typer.BadParameter(f"`{form}`: must be {LISTED}", param_hint="--format")
    to_file = out is not None and str(out) != common.STDIN
    if form == "parquet" and not to_file:
        raise typer.BadParameter("parquet needs a file: --out FILE", param_hint="--format")
    if form == "table" and to_file:
        raise typer.BadParameter("a table is for the terminal; choose another --format", param_hint="--out")
    time_ns = None if at is None else _time_ns(at)
    found = silvan.counters(silvan.load(folder), tick_bytes=tick_bytes, second_run=second_run)
    if form == "table":
        _print(found, found.at(time_ns), top)
        return
    if form == "parquet":
        found.save_parquet(str(out), time_ns)
    elif form == "csv":
        _write(found.csv(time_ns), out if to_file else None)
    else:
        writers = {"perfquery": found.perfquery, "sonic": found.sonic, "prometheus": found.prometheus}
        _write(writers[form](time_ns).encode("utf-8", "backslashreplace"), out if to_file else None)
    _note(found)
    if to_file:
        typer.echo(str(out))


def _time_ns(text: str) -> int:
    try:
        time = _written.time_ns(text)
    except (ValueError, KeyError, ZeroDivisionError):
        raise typer.BadParameter(f'`{text}` is not a time such as "2 ms"', param_hint="--at") from None
    return int(Fraction(time))


def _write(content: bytes, out: Path | None) -> None:
    if out is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        return
    with _files.replacing(out) as partial:
        partial.write_bytes(content)


def _note(found: Counters) -> None:
    for note in found.notes:
        common.err_console().print(f"[yellow]Note:[/] {escape(note)}")


def _print(found: Counters, shot: Snapshot, top: int) -> None:
    """Print the ports that sent most."""
    console = common.out_console()
    columns = [(name, title) for name, title in SHOWN if name in shot.values]
    table = Table(
        box=None, header_style="bold", title=f"Counters at {shot.time_ns / 1e6:g} ms", title_justify="left"
    )
    for name in ("port", "to"):
        table.add_column(name, overflow="fold")
    for _, title in columns:
        table.add_column(title, justify="right")
    sent = shot.values["xmit_words"]
    order = sorted(range(len(shot.ports)), key=lambda at: (-int(sent[at]), at))
    for at in order[:top]:
        row: list[Any] = [escape(shot.ports[at].name), escape(shot.ports[at].peer)]
        table.add_row(*row, *(f"{int(shot.values[name][at]):,}" for name, _ in columns))
    console.print(table)
    if (rest := len(order) - top) > 0:
        console.print(f"{rest:,} ports that sent less are not shown (--top N)", markup=False)
    _note(found)
