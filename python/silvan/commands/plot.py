"""The command `silvan plot`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from silvan.commands import common

Drawn = TypeVar("Drawn")


def register(app: typer.Typer) -> None:
    """Add `silvan plot`."""
    app.command()(plot)


def plot(  # noqa: PLR0913, PLR0917 - options with names and defaults
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...", help="Folder of a run; several with --fct, --cdf, --forest or --animate."
        ),
    ],
    out: Annotated[Path | None, common.out_option("Folder for the figures.", "DIR/figures")] = None,
    forest: Annotated[
        str | None,
        typer.Option(
            "--forest",
            metavar="AT",
            help='Draw only the network at a time ("4.5 s", typical or busiest), as SVG and PDF.',
        ),
    ] = None,
    animate: Annotated[
        Path | None,
        typer.Option(
            "--animate", metavar="FILE", help="Write only an animation of the network: .gif or .mp4."
        ),
    ] = None,
    frames: Annotated[
        int, typer.Option("--frames", metavar="N", min=1, max=2_000, help="Frames of --animate.")
    ] = 120,
    fct: Annotated[
        bool,
        typer.Option(
            "--fct", help="Draw only the slowdown of transfers by size; runs with other seeds share a line."
        ),
    ] = False,
    cdf: Annotated[
        bool, typer.Option("--cdf", help="Draw only the distribution of the slowdown of transfers.")
    ] = False,
    acked: Annotated[
        bool,
        typer.Option("--acked", help="With --fct or --cdf: transfers last until their last acknowledgement."),
    ] = False,
    titles: common.Titles = None,
    width: common.Width = None,
    is_print: common.Print = False,
) -> None:
    """Draw the figures of a run that was written with --out, its network with the trees, or its transfers."""
    if acked and not (fct or cdf):
        raise typer.BadParameter("has no effect without --fct or --cdf", param_hint="--acked")
    if (fct or cdf) and (forest is not None or animate is not None):
        raise typer.BadParameter("draws no network; leave out --forest and --animate", param_hint="--fct")
    with common.look(width, is_print=is_print):
        if fct or cdf:
            _transfers(folders, out, titles, (fct, cdf), acked=acked)
        else:
            _draw(folders, out, forest, animate, frames, titles)


def _draw(
    folders: list[Path],
    out: Path | None,
    forest: str | None,
    animate: Path | None,
    frames: int,
    titles: list[str] | None,
) -> None:
    import silvan

    if titles and len(titles) != len(folders):
        raise typer.BadParameter(f"{len(titles)} titles for {len(folders)} runs", param_hint="--title")
    if forest is None and animate is None:
        from silvan import plot as drawing

        if len(folders) > 1:
            raise typer.BadParameter("several runs need --forest or --animate", param_hint="DIR")
        target = drawing.save_all(silvan.load(folders[0]), out or folders[0] / "figures")
        typer.echo(f"Figures in {target}")
        return
    from silvan import forest_figures

    runs = [silvan.load(folder) for folder in folders]
    if forest is not None:
        at = _on_forests(lambda: forest_figures.named_time(runs, forest), "--forest")
        target = (out or folders[0] / "figures") / f"forest-{forest.replace(' ', '')}"
        figure = _on_forests(lambda: forest_figures.still(runs, at, titles=titles or None), "--forest")
        typer.echo(f"Forest in {' and '.join(map(str, forest_figures.save(figure, target)))}")
    if animate is not None:
        path = _on_forests(
            lambda: forest_figures.animate(runs, animate, titles=titles or None, frames=frames), "--animate"
        )
        typer.echo(f"Forest in {path}")


def _transfers(
    folders: list[Path], out: Path | None, titles: list[str] | None, which: tuple[bool, bool], *, acked: bool
) -> None:
    """Draw the slowdown of transfers. Runs that differ only in their seed form a group."""
    import silvan
    from silvan import plot as drawing
    from silvan import transfer_figures
    from silvan.comparison import groups_of
    from silvan.report import run_titles

    runs = [silvan.load(folder) for folder in folders]
    groups = groups_of(runs)
    if titles and len(titles) != len(groups):
        lines = "1 line" if len(groups) == 1 else f"{len(groups)} lines"
        what = f"{len(titles)} titles, but {lines} in the figure: runs with other seeds share a line"
        raise typer.BadParameter(what, param_hint="--title")
    names = titles or run_titles([group.runs[0] for group in groups], brief=True)
    of_groups = [group.runs for group in groups]
    for run, folder in zip(runs, folders, strict=True):
        told = run.summary.get("transfers")
        if told and told["unfinished"]:
            common.err_console().print(
                f"note: {folder}: {told['unfinished']} of {told['started']} transfers are unfinished and not "
                "in the figure; long transfers are more often unfinished than short ones",
                markup=False,
            )
    draw = {"fct": transfer_figures.slowdowns, "cdf": transfer_figures.distribution}
    for name, wanted in zip(draw, which, strict=True):
        if wanted:
            figure = draw[name](of_groups, names, acked=acked)
            written = drawing.save(figure, (out or folders[0] / "figures") / name)
            typer.echo(f"Transfers in {' and '.join(map(str, written))}")


def _on_forests(draw: Callable[[], Drawn], option: str) -> Drawn:
    """Call `draw`; report a run without a forest or an invalid time as an incorrect use of the option."""
    try:
        return draw()
    except (KeyError, ValueError) as error:
        raise typer.BadParameter(str(error.args[0]), param_hint=option) from None
