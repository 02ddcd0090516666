"""Tests that figures are honest and readable: names are not connected, intervals are drawn, text fits."""

import itertools
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest

import silvan
from conftest import ROOT, command
from silvan import _intervals, comparison_figures, plot, transfer_figures
from silvan._statistics import mean
from silvan.sweeps import figures
from silvan.sweeps.axes import Axis
from silvan.tuning import figures as tuning_figures
from silvan.tuning.outcome import Contrast, Interval
from silvan.tuning.problem import Kind
from silvan.tuning.runs import Instance

HOT = """
name = "hot"
duration = "200 us"
warmup = "100 us"
[topology]
kind = "star"
hosts = 6
link_rate = "100 Gbit/s"
[measure]
interval = "5 us"
transfers = true
[[traffic]]
name = "hot"
hosts = ["H1", "H2", "H3"]
pattern = { kind = "hotspots", to = ["H6"] }
message = "8 KiB"
rate = "40 Gbit/s"
[[traffic]]
name = "rest"
hosts = ["H4", "H5"]
pattern = { kind = "uniform" }
message = "4 KiB"
rate = "20 Gbit/s"
arrivals = "poisson"
"""
MECHANISMS = ["none", "ib-cc", "ecocc", "fbicm", "hfdi", "ccfit"]
#: Smallest size of text that is readable in print, in points.
READABLE = 7.0


@pytest.fixture(scope="module")
def hot(tmp_path_factory):
    path = tmp_path_factory.mktemp("hot") / "hot.toml"
    path.write_text(HOT)
    return path


@pytest.fixture(scope="module")
def swept(hot):
    axes = {"congestion.mechanism": MECHANISMS[:3], "traffic.0.rate": ["20 Gbit/s", "40 Gbit/s"]}
    return silvan.sweep(hot, axes, seeds=3, store=hot.parent / "runs")


@pytest.fixture(scope="module")
def groups(hot):
    return [
        [
            silvan.run(silvan.Scenario.load(hot, {"congestion.mechanism": one}), seed=seed)
            for seed in (1, 2, 3)
        ]
        for one in MECHANISMS
    ]


def bars(axes):
    """Return the lines of means, and the limits of the intervals of each."""
    lines = [container.lines[0] for container in axes.containers]
    return lines, [container.lines[2][0].get_segments() for container in axes.containers]


def test_a_sweep_over_names_and_numbers_has_a_line_per_name_with_intervals(swept, tmp_path):
    assert figures.save_all(swept, tmp_path) == len(swept.measures)
    assert not list(tmp_path.glob("*surface*"))
    assert not list(tmp_path.glob("*map*"))
    figure = figures.lines(swept, "throughput_gbit_s")
    (axes,) = figure.axes
    lines, segments = bars(axes)
    values = figures.cube(swept, "throughput_gbit_s")
    assert len(lines) == 3
    for line, own, found in zip(lines, values, segments, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), [20.0, 40.0])
        np.testing.assert_allclose(line.get_ydata(), own.mean(axis=-1))
        assert line.get_linestyle() == "-"
        for at, segment in zip(own.tolist(), found, strict=True):
            one = mean(at)
            np.testing.assert_allclose(segment[:, 1], [one.low, one.high])
    assert axes.get_xlabel() == "traffic.0.rate (Gbit/s)"
    assert axes.get_ylabel() == "throughput_gbit_s (Gbit/s)"
    legend = axes.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == MECHANISMS[:3]
    assert legend.get_title().get_text() == "congestion.mechanism\n95 % intervals of 3 seeds"
    with pytest.raises(silvan.SweepError, match=r"the values of congestion\.mechanism are names"):
        figures.surface(swept, "throughput_gbit_s")


def test_means_at_names_are_not_connected(hot):
    axes = {"congestion.mechanism": MECHANISMS[:3], "traffic.1.pattern.kind": ["uniform", "permutation"]}
    both = silvan.sweep(hot, axes, seeds=2, store=hot.parent / "runs")
    drawn = figures.lines(both, "throughput_gbit_s").axes[0]
    lines, segments = bars(drawn)
    assert [line.get_linestyle() for line in lines] == ["None", "None"]
    assert [text.get_text() for text in drawn.get_xticklabels()] == MECHANISMS[:3]
    # The points of the two patterns are next to each other.
    assert (lines[0].get_xdata() < np.arange(3)).all()
    assert (lines[1].get_xdata() > np.arange(3)).all()
    assert all(len(own) == 3 for own in segments)


def test_numbers_with_one_unit_are_numbers():
    def axis(*labels):
        return SimpleNamespace(labels=labels)

    values, unit = figures._numbers(axis("10 us", "2.5 us"))
    assert (values.tolist(), unit) == ([10.0, 2.5], "us")
    assert figures._numbers(axis(1, 2.5))[0].tolist() == [1.0, 2.5]
    for names in (("10 us", "1 ms"), ("none", "ib-cc"), (True, False), ("10 us", "auto")):
        assert figures._numbers(axis(*names)) is None


def test_axes_include_the_intervals_unless_these_are_very_wide():
    assert _intervals.limits({"a": [[10.0, 11.0, 12.0]]})[1] > mean([10.0, 11.0, 12.0]).high
    low, high = _intervals.limits({"a": [[1.0, 20.0]]})
    assert low == 0.0
    assert high <= 1.05 * _intervals.WIDEST * 10.5
    assert _intervals.limits({"a": [[float("nan")]]}) == (0.0, 1.0)


def check_readable(figure):
    """Check a figure for a column: the width, the size of all texts, and that legends cover no axes."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    assert figure.get_size_inches()[0] == pytest.approx(3.5)
    texts = [
        text for text in figure.findobj(match=plot.mpl.text.Text) if text.get_visible() and text.get_text()
    ]
    assert min(text.get_fontsize() for text in texts) >= READABLE
    assert max(text.get_fontsize() for text in texts) <= 9
    legends = [*figure.legends, *(ax.get_legend() for ax in figure.axes if ax.get_legend() is not None)]
    inside = figure.bbox
    for legend in legends:
        box = legend.get_window_extent(renderer)
        assert not any(box.overlaps(ax.get_window_extent(renderer)) for ax in figure.axes)
        assert inside.x0 <= box.x0
        assert box.x1 <= inside.x1 + 1
        assert box.y0 >= inside.y0 - 1
    for ax in figure.axes:
        # Axes keep most of the width and a third of the height.
        assert ax.get_window_extent(renderer).height > 0.3 * inside.height
    return legends


@pytest.mark.parametrize("is_print", [False, True])
def test_figures_of_six_series_are_readable_in_a_column(groups, swept, is_print):
    found = silvan.compare(*(run for own in groups for run in own))
    titles = comparison_figures.group_titles(found)
    assert titles == MECHANISMS
    with plot.formatted("ieee-column", is_print=is_print):
        drawn = {
            "fct": transfer_figures.slowdowns(groups, titles),
            "cdf": transfer_figures.distribution(groups, titles),
            "sweep": figures.lines(swept, "throughput_gbit_s"),
            "means": comparison_figures.means(found, "received by all hosts"),
            "pair": plot.compare([groups[0][0], groups[1][0]], ["none", "ib-cc"], plot.class_throughput),
        }
        for name, (draw, table, _) in plot.FIGURES.items():
            if name != "links" and len(groups[1][0].numpy(table).get("time_ns", ())):
                drawn[name] = draw(groups[1][0]).get_figure(root=True)
    assert "congestion" in drawn
    for name, figure in drawn.items():
        legends = check_readable(figure)
        assert len(legends) == 1, name
        for ax in figure.axes:
            assert ax.get_xlabel() or name == "means", name
    shown = [text.get_text() for text in drawn["fct"].legends[0].get_texts()]
    assert shown == MECHANISMS
    assert drawn["fct"].legends[0].get_title().get_text() == "95 % intervals over seeds"


def test_legends_and_titles_name_the_mechanism(groups, tmp_path):
    """The first folder of a group says nothing about its settings."""
    folders = [
        run.save(tmp_path / f"{n}-{k}") for n, own in enumerate(groups[:2]) for k, run in enumerate(own)
    ]
    done = command("plot", *folders, "--fct", "--out", tmp_path / "figures")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "figures" / "fct.svg").read_text()
    assert ">none<" in text
    assert ">ib-cc<" in text
    assert "0-0" not in text
    assert plot.hosts(groups[1][0]).get_title(loc="left").endswith(": hot, ib-cc")
    assert plot.hosts(groups[0][0]).get_title(loc="left").endswith(": hot")


def test_comparisons_are_drawn_as_points_with_verdicts(groups, tmp_path):
    folders = [
        run.save(tmp_path / f"{n}-{k}") for n, own in enumerate(groups[:2]) for k, run in enumerate(own)
    ]
    done = command("compare", *folders, "--plot", tmp_path / "figures", "--width", "ieee-column")
    assert done.returncode == 0, done.stderr
    found = silvan.compare(*(run for own in groups[:2] for run in own))
    differ = [row for row in found.rows if row.differs]
    assert len(list((tmp_path / "figures").glob("*.png"))) == len(differ) > 5
    for row in differ:
        (axes,) = comparison_figures.means(found, row.measure).axes
        (line,), _ = bars(axes)
        assert line.get_linestyle() == "None"
        shown = [np.nan if one is None else one.value for one in row.means]
        np.testing.assert_allclose(line.get_ydata(), shown)
        words = [text.get_text().partition(",")[0] for text in axes.texts]
        assert words == [one.verdict for one in row.changes if one is not None and one.is_proven]
    with pytest.raises(silvan.SilvanError, match="no measure `speed`; there are received by all hosts, "):
        comparison_figures.means(found, "speed")


def test_options_of_figures_without_figures_are_refused(groups, tmp_path):
    folder = groups[0][0].save(tmp_path / "run")
    for arguments, hint in (
        (("compare", folder, folder, "--width", "slide"), "--width"),
        (("compare", folder, folder, "--print"), "--print"),
        (("sweep", ROOT / "studies" / "arbitration.toml", "--print"), "--print"),
    ):
        done = command(*arguments)
        assert done.returncode == 2
        assert f"{hint}: has no effect without --plot" in " ".join(done.stderr.split())


OBJECTIVES = ["victims", "hotspots", "storage", "background", "latency", "fairness"]


def a_tuning():
    """Return six objectives compared with four settings, one with seeds that differ too much."""
    ratio, wide = Interval(1.2, 1.1, 1.3), Interval(2.0, 0.01, 400.0)
    contrasts = [
        Contrast(name, ratio, dict.fromkeys(OBJECTIVES, wide if name == "ccmgr" else ratio), {})
        for name in ("no control", "defaults", "ccmgr", "opensm.conf")
    ]
    search = [
        Axis("congestion.reaction.ccti_timer", "1.024 us", tuple(range(100, 900, 100)), ()),
        *(
            Axis(f"congestion.marking.{name}", "", (1, 2), ())
            for name in ("threshold", "packet_size", "upper")
        ),
    ]
    trials = [
        SimpleNamespace(
            state="done", score=1.0 + n / 10, runs=n + 1, setting=n, steps=(n, n % 2, n % 2, 0),
            ratios={Instance(Kind("all"), 1): (1.0 + n / 5, 2.0 - n / 9)},
        )
        for n in range(8)
    ]  # fmt: skip
    return SimpleNamespace(
        tuning=SimpleNamespace(
            name="a fabric with a long name",
            objectives=[SimpleNamespace(name=name) for name in OBJECTIVES],
            search=search,
        ),
        contrasts=contrasts,
        found=SimpleNamespace(trials=trials, runs=8),
        finalists=[SimpleNamespace(setting=7)],
        importance={axis.name: 0.25 for axis in search},
        kept=[
            SimpleNamespace(kind=kind, score=Interval(0.9, 0.8, 1.0))
            for kind in ("moving", "an incast of thirty hosts to one")
        ],
    )


@pytest.mark.parametrize("is_print", [False, True])
def test_figures_of_a_tuning_are_readable_in_a_column(is_print):
    tuned = a_tuning()
    drawing = (
        tuning_figures.search, tuning_figures.parameters, tuning_figures.comparison, tuning_figures.unseen,
        tuning_figures.objectives,
    )  # fmt: skip
    with plot.formatted("ieee-column", is_print=is_print):
        drawn = [draw(tuned) for draw in drawing]
    for figure in drawn:
        check_readable(figure)
        check_texts_are_apart(figure)
        colours = {mpl.colors.to_hex(line.get_color()) for ax in figure.axes for line in ax.lines}
        grays = {one for one in colours if one[1:3] == one[3:5] == one[5:7]}
        assert (grays == colours) == is_print
    (axes,) = drawn[2].axes
    looks = {
        (line.get_marker(), mpl.colors.to_hex(line.get_color()))
        for line in axes.lines
        if line.get_marker() != "None" and line.get_marker()
    }
    assert len(looks) == len(OBJECTIVES) + 1
    intervals = [line for line in axes.lines if len(line.get_xdata()) == 2 and line.get_linewidth() == 2]
    assert {line.get_linestyle() for line in intervals} == {"-"}


def check_texts_are_apart(figure):
    """Check that titles and labels are inside the figure, and that those of one axis do not overlap."""
    figure.canvas.draw()
    whole = figure.bbox
    axes = [ax for ax in figure.axes if ax.get_visible()]
    titles = [ax._left_title for ax in axes]
    for texts in (
        titles,
        *([*ax.get_xticklabels()] for ax in axes),
        *([*ax.get_yticklabels()] for ax in axes),
    ):
        shown = [text for text in texts if text.get_text()]
        straight = [text.get_window_extent() for text in shown if not text.get_rotation()]
        assert not any(one.overlaps(other) for one, other in itertools.combinations(straight, 2))
    every = [
        *titles,
        *(text for ax in axes for text in (ax.xaxis.label, ax.yaxis.label, *ax.get_yticklabels())),
    ]
    for text in every:
        if text.get_text():
            box = text.get_window_extent()
            assert whole.x0 - 1 <= box.x0, text
            assert box.x1 <= whole.x1 + 1, text


def test_maps_and_surfaces_of_sweeps_fit_a_column(hot):
    axes = {
        "traffic.1.rate": [f"{rate} Gbit/s" for rate in range(10, 50, 5)],
        "traffic.0.rate": ["20 Gbit/s", "40 Gbit/s"],
    }
    over = silvan.sweep(hot, axes, store=hot.parent / "runs")
    with plot.formatted("ieee-column"):
        surface = figures.surface(over, "throughput_gbit_s")
        drawn = figures.surface_map(over, "throughput_gbit_s")
    check_readable(surface)
    check_readable(drawn)
    check_texts_are_apart(drawn)
    assert not drawn.axes[0].texts
    wide = figures.surface_map(over, "throughput_gbit_s")
    assert len(wide.axes[0].texts) == 16


def test_tuning_and_studies_have_the_options_of_figures(tmp_path):
    fabric = ROOT / "tests" / "data" / "fabrics" / "sw2-h7" / "minhop"
    for arguments in (("tune", "testbed"), ("fabric", "study", fabric)):
        done = command(*arguments, "--width", "wide", "--print", "--out", tmp_path / "out")
        assert done.returncode == 2
        assert "--width: `wide` is no width: must be ieee-column, " in " ".join(done.stderr.split())


def test_ratios_do_not_run_into_each_other():
    names = OBJECTIVES
    figure = tuning_figures.comparison(a_tuning())
    (axes,) = figure.axes
    figure.canvas.draw()
    points = [line.get_ydata()[0] for line in axes.lines if len(line.get_ydata()) == 1]
    for at in range(4):
        assert sum(at - 0.5 < y < at + 0.5 for y in points) == len(names) + 1
    boxes = sorted((label.get_window_extent() for label in axes.get_xticklabels()), key=lambda box: box.x0)
    assert len(boxes) >= 3
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))
    # Very wide intervals do not determine the axis.
    assert axes.get_xlim()[1] < 5
