"""Tests that images of the network with its trees agree with the tables."""

import itertools
import re
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.animation import FFMpegWriter
from matplotlib.collections import LineCollection, PathCollection
from PIL import Image

import silvan
from conftest import SMALL, command
from silvan import forest_figures
from silvan.report._scene import typical_ns


@pytest.fixture(scope="module")
def runs():
    scenario = silvan.Scenario.from_toml(SMALL)
    return [silvan.run(scenario), silvan.run(scenario, congestion__mechanism="ib-cc", duration="2.5 ms")]


@pytest.fixture(scope="module")
def folders(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return [run.save(folder / name) for run, name in zip(runs, ("off", "on"), strict=True)]


@pytest.mark.parametrize("time_ns", [0.5e6, 2.45e6])
def test_a_still_shows_the_trees_of_its_time(runs, time_ns):
    figure = forest_figures.still(runs, time_ns, titles=["off", "on $x$"])
    for run, axes, title in zip(runs, figure.axes, ("off", "on $x$"), strict=True):
        links = run.forest.at(time_ns)
        idle, waiting = [one for one in axes.collections if isinstance(one, LineCollection)]
        assert len(idle.get_segments()) == len(run.numpy("wiring")["link"])
        assert len(waiting.get_segments()) == len(links)
        switches, hosts, victims, roots = [one for one in axes.collections if isinstance(one, PathCollection)]
        assert len(switches.get_offsets()) == 2
        assert len(roots.get_offsets()) == sum(link.is_root for link in links)
        now = [tree for tree in run.forest.trees if tree.born_ns < time_ns <= tree.last_ns]
        hurt = {one.host for tree in now for one in tree.victims if one.first_ns < time_ns <= one.last_ns}
        fed = {one.host for tree in now for one in tree.contributors if one.first_ns < time_ns <= one.last_ns}
        assert len(victims.get_offsets()) == len(hurt)
        grey = hosts.get_facecolors()[6]
        coloured = np.any(hosts.get_facecolors() != grey, axis=1)
        assert {f"H{at + 1}" for at in np.flatnonzero(coloured)} == fed
        assert {text.get_text() for text in axes.texts} >= {"H1", "H7", "S2"}
        assert axes.get_title("left").startswith(title.replace("$", r"\$"))
    if time_ns > 2e6:
        assert len(runs[0].forest.at(time_ns)) >= 4
        assert "1 tree, " in figure.axes[0].get_title("left")
    else:
        assert "no tree" in figure.axes[0].get_title("left")


def sizes(run):
    """Return the number of links in trees at each sample after the warm-up, and the times of the samples."""
    times = run.numpy("network")["time_ns"]
    times = times[times > run.summary["averages_from_ns"]]
    return np.array([len(run.forest.at(time)) for time in times]), times


def test_without_a_time_it_is_a_typical_one(runs):
    figure = forest_figures.still(runs[:1])
    waiting = [one for one in figure.axes[0].collections if isinstance(one, LineCollection)][1]
    found, _ = sizes(runs[0])
    away = np.abs(found - found.mean())
    assert abs(len(waiting.get_segments()) - found.mean()) == away.min()
    assert len(waiting.get_segments()) == len(
        runs[0].forest.at(forest_figures.named_time(runs[:1], "typical"))
    )


def test_the_busiest_time_has_the_most_links(runs):
    at = forest_figures.named_time(runs[:1], "busiest")
    most = np.unique(runs[0].numpy("tree_links")["time_ns"], return_counts=True)[1].max()
    assert len(runs[0].forest.at(at)) == most


def test_a_transient_is_not_typical():
    def scene(*links):
        clock = SimpleNamespace(frames_ns=np.arange(1, len(links) + 1) * 100)
        return SimpleNamespace(clock=clock, links_in_trees=np.array(links), averages_from_ns=200.0)

    # After the warm-up the mean is 6 links, so the time with 6 is typical, not the one with 18.
    assert typical_ns([scene(0, 50, 18, 2, 6, 2, 2)]) == 500
    # Two runs: relative to their means, the sum of both deviations counts.
    assert typical_ns([scene(0, 0, 9, 3, 6), scene(0, 0, 40, 22, 28)]) == 500
    # Without samples after the warm-up it is the end.
    assert typical_ns([scene(4, 4)]) == 200


def test_files_of_a_still_are_the_same_each_time(runs, tmp_path):
    for name in ("one", "two"):
        figure = forest_figures.still(runs[:1], 2e6)
        assert forest_figures.save(figure, tmp_path / name) == [
            tmp_path / f"{name}.svg", tmp_path / f"{name}.pdf"
        ]  # fmt: skip
    assert (tmp_path / "one.pdf").read_bytes()[:5] == b"%PDF-"
    assert "<svg" in (tmp_path / "one.svg").read_text()
    for ending in ("svg", "pdf"):
        assert (tmp_path / f"one.{ending}").read_bytes() == (tmp_path / f"two.{ending}").read_bytes()


def test_pictures_have_a_legend_and_titles_that_differ(runs):
    figure = forest_figures.still([runs[0], runs[0]])
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "switch", "host", "root of a tree", "waits for this root", "contributor", "victim",
    ]  # fmt: skip
    titles = [axes.get_title(loc="left").partition("   ")[0] for axes in figure.axes]
    assert len(set(titles)) == 2
    slow = silvan.run(runs[0].scenario, host__drain_rate="12 Gbit/s")
    figure = forest_figures.still([runs[0], slow])
    titles = [axes.get_title(loc="left").partition("   ")[0] for axes in figure.axes]
    assert titles[1] == "drain_rate = 12 Gbit/s"


def test_a_gif_moves(runs, tmp_path):
    path = forest_figures.animate(runs, tmp_path / "new" / "forest.gif", frames=10, span_ns=(0, 2e6))
    with Image.open(path) as image:
        assert image.n_frames > 2  # equal frames are stored once, with a longer duration
        frames, shown_ms = [], 0
        for at in range(image.n_frames):
            image.seek(at)
            frames.append(np.asarray(image.convert("RGB")))
            shown_ms += image.info["duration"]
        assert shown_ms == pytest.approx(10 * 1000 / forest_figures.FRAMES_PER_S, abs=50)
    assert all((one != other).any() for one, other in itertools.pairwise(frames))
    # Orange is the color of the first root, also in the legend.
    orange = [int((np.abs(one.astype(int) - (213, 94, 0)).sum(axis=2) < 40).sum()) for one in frames]
    assert min(orange) == orange[0]
    assert orange[-1] - orange[0] > 500
    again = forest_figures.animate(runs, tmp_path / "again.gif", frames=10, span_ns=(0, 2e6))
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.skipif(not FFMpegWriter.isAvailable(), reason="without ffmpeg")
def test_an_mp4_where_ffmpeg_is(runs, tmp_path):
    path = forest_figures.animate(runs, tmp_path / "forest.mp4", frames=5)
    assert path.read_bytes()[4:8] == b"ftyp"
    assert [one.name for one in tmp_path.iterdir()] == ["forest.mp4"]


def test_what_cannot_be_drawn_is_told(runs, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"an animation is a \.gif or \.mp4"):
        forest_figures.animate(runs, tmp_path / "forest.png")
    with pytest.raises(ValueError, match=r"not in runs of 2\.5e\+06 ns"):
        forest_figures.animate(runs, tmp_path / "forest.gif", span_ns=(0, 3e6))
    with pytest.raises(ValueError, match="an image needs at least one run"):
        forest_figures.still([])
    with pytest.raises(ValueError, match="1 titles for 2 runs"):
        forest_figures.still(runs, titles=["one"])
    (tmp_path / "folder.gif").mkdir()
    with pytest.raises(IsADirectoryError):
        forest_figures.animate(runs, tmp_path / "folder.gif")
    monkeypatch.setattr(FFMpegWriter, "isAvailable", classmethod(lambda _: False))
    with pytest.raises(silvan.SilvanError, match="MP4 needs the program ffmpeg"):
        forest_figures.animate(runs, tmp_path / "forest.mp4")


@pytest.mark.parametrize(
    ("text", "time_ns"), [("4.5 s", 4.5e9), ("250us", 250e3), (" 3 µs ", 3e3), ("12ms", 12e6), ("7 ns", 7.0)]
)
def test_times_have_units(text, time_ns):
    assert forest_figures.read_time(text) == pytest.approx(time_ns)


@pytest.mark.parametrize("text", ["", "5", "s", "5 h", "four s", "5 mms"])
def test_other_times_are_refused(text):
    with pytest.raises(ValueError, match="is not a time, such as"):
        forest_figures.read_time(text)


def test_the_command_draws_runs_side_by_side(folders, tmp_path):
    done = command(
        "plot", *folders, "--forest", "2 ms", "--out", "a", "--title", "off", "--title", "on", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Forest in a/forest-2ms.svg and a/forest-2ms.pdf\n"
    text = (tmp_path / "a" / "forest-2ms.svg").read_text()
    assert re.search(r">off\s+2 ms: 1 tree, ", text)
    done = command("plot", folders[0], "--animate", "a.gif", "--frames", 3, cwd=tmp_path)
    assert done.stdout == "Forest in a.gif\n"


def test_the_command_tells_what_is_wrong(folders, tmp_path):
    bare = silvan.run(silvan.Scenario.from_toml(SMALL), measure__forest="false").save(tmp_path / "bare")
    for arguments, told in (
        ((folders[0], folders[1]), "several runs need --forest or --animate"),
        ((folders[0], "--forest", "soon"), "is not a time"),
        ((folders[0], "--forest", "9 s"), "is not a time of the run"),
        ((bare, "--forest", "busiest"), "measure.forest = false"),
        ((folders[0], "--forest", "1 ms", "--title", "a", "--title", "b"), "2 titles for 1 runs"),
        ((folders[0], "--animate", "a.webp"), "an animation is a .gif or .mp4"),
    ):
        done = command("plot", *arguments, cwd=tmp_path)
        assert done.returncode == 2, arguments
        assert told in re.sub(r"[\s│]+", " ", done.stderr)


def test_links_that_are_down_are_drawn_and_listed():
    scenario = silvan.Scenario.from_toml(
        SMALL + '[[event]]\nkind = "down"\nlinks = ["S1:1", "H2"]\nstart = "1 ms"\nlasts = "400 us"\n'
    )
    run = silvan.run(scenario)
    (both,) = {(one.first_ns, one.last_ns) for one in run.forest.failures}
    assert both == (1e6, 1.4e6)
    first = run.numpy("events")["place"][0]
    assert f"{first.replace(' - ', '->')}" in run.forest.down(1.2e6)
    assert len(run.forest.down(1.2e6)) == 4
    assert run.forest.down(0.9e6) == run.forest.down(1.4e6) == ()
    for time_ns, count in ((1.2e6, 4), (2e6, 0)):
        axes = forest_figures.still([run], time_ns).axes[0]
        dead = [one for one in axes.collections if isinstance(one, LineCollection)][2]
        assert len(dead.get_segments()) == count
        told = [text.get_text() for text in axes.texts if text.get_text().startswith("down: ")]
        assert [text.count(" - ") for text in told] == [2][: count // 4]
