"""Tests a report in a browser: drawing, zoom, selection and filters, without network requests."""

import base64
import io
from xml.etree import ElementTree

import matplotlib.image
import numpy as np
import pytest

import silvan
from browser import browser
from conftest import SMALL
from silvan import report

#: A small fat tree with two hotspots.
FOREST = """
name = "forest"
duration = "2 ms"
warmup = "1 ms"

[topology]
kind = "two-level-fat-tree"
leaves = 4
spines = 2
hosts_per_leaf = 4

[measure]
interval = "20 us"

[[traffic]]
name = "forest"
message = "4096 B"
pattern = { kind = "forest", hotspots = 2, contributors = 60, victims = 40 }
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    scenario = silvan.Scenario.from_toml(SMALL)
    results = [silvan.run(scenario), silvan.run(scenario, congestion__mechanism="ib-cc")]
    return report.write(results, tmp_path_factory.mktemp("report") / "compared.html", titles=["off", "on"])


@pytest.fixture(scope="module")
def forest(tmp_path_factory):
    result = silvan.run(silvan.Scenario.from_toml(FOREST))
    return report.write([result], tmp_path_factory.mktemp("report") / "forest.html")


@pytest.fixture(autouse=True)
def quiet(request, page, compared, forest):
    """Check in all tests that the page reports no error and requests nothing but itself."""
    page.complaints.clear()
    page.requests.clear()
    yield
    page.run("0")
    assert page.complaints == []
    assert set(page.requests) <= {file.as_uri() for file in (compared, forest)}


def pixels(png):
    return matplotlib.image.imread(io.BytesIO(png), format="png")[..., :3]


def differ(one, other):
    """Return the share of pixels that differ between two images of the same size."""
    return float((np.abs(pixels(one) - pixels(other)).max(axis=2) > 0.05).mean())


def slide(page, part):
    page.run(
        "(() => { const slider = document.getElementById('slider');"
        f"slider.value = Math.round(slider.max * {part});"
        "slider.dispatchEvent(new Event('input')); })()"
    )
    page.settle()


def middle(page, script):
    """Scroll to an element and return its center."""
    return page.run(
        f"(() => {{ const it = {script}; it.scrollIntoView({{block: 'center'}});"
        "const box = it.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
    )


def test_the_slider_moves_the_picture_and_the_charts(page, compared):
    page.open(compared)
    slide(page, 0)
    before, chart = page.picture(".stage"), page.picture(".chart canvas")
    slide(page, 0.95)
    assert differ(before, page.picture(".stage")) > 0.005
    assert differ(chart, page.picture(".chart canvas")) > 0.001
    assert page.run("document.querySelector('figcaption output').textContent").startswith(
        "1 tree, 5 links (mean "
    )
    assert page.run("document.getElementById('now').textContent") == "2.9 ms"


def test_a_click_selects_a_link_and_tells_who_waits_for_whom(page, compared):
    page.open(compared)
    slide(page, 0.95)
    # A point on the link between the switches.
    x, y = page.run(
        "(() => { const network = Page.networks[0], run = network.run;"
        "network.stage.scrollIntoView({block: 'center'});"
        "const link = run.links.indexOf('S1:4->S2:5'), [a, b, c, d] = network.transform();"
        "const box = network.stage.getBoundingClientRect();"
        "const at = (one) => (one[run.source[link]] + one[run.target[link]]) / 2;"
        "return [box.x + at(run.x) * a + c, box.y + at(run.y) * b + d]; })()"
    )
    before = page.picture(".stage")
    page.click(x, y)
    told = page.run("document.getElementById('details').innerText")
    assert "S1:4->S2:5" in told
    assert "waits for S2:2->H5" in told
    assert "wait for it: H1->S1:1" in told
    assert page.run("document.querySelectorAll('tr.picked').length") > 0
    assert differ(before, page.picture(".stage")) > 0.0005
    page.press("Escape")
    assert page.run("document.getElementById('details').hidden")


def test_a_row_selects_its_tree_and_heads_sort(page, forest):
    page.open(forest)
    page.run("document.querySelector('#victims-0 tbody tr').click()")
    page.settle()
    assert "Tree" in page.run("document.getElementById('details').innerText")
    head = "document.querySelector('#trees-0 th')"
    column = (
        "[...document.querySelectorAll('#trees-0 tbody tr')].map((row) => Number(row.cells[0].dataset.v))"
    )
    page.run(f"{head}.click()")
    down = page.run(column)
    page.run(f"{head}.click()")
    assert page.run(column) == sorted(down)
    assert down == sorted(down, reverse=True)
    assert len(down) > 1


def test_tables_filter_by_words_and_by_the_span(page, compared):
    page.open(compared)
    shown = "[...document.querySelectorAll('section.run tbody tr')].filter((row) => !row.hidden).length"
    everything = page.run(shown)
    words = "document.getElementById('words')"
    page.run(f"{words}.value = 'f1 victim'; {words}.dispatchEvent(new Event('input'))")
    assert page.run(shown) == 0
    page.run(f"{words}.value = 'f1'; {words}.dispatchEvent(new Event('input'))")
    assert 0 < page.run(shown) < everything
    page.run(f"{words}.value = ''; {words}.dispatchEvent(new Event('input'))")
    # The tree exists from 1 ms, so the table shows no row of it for earlier times.
    x, y = middle(page, "document.querySelector('.chart canvas')")
    wide = page.run("document.querySelector('.chart canvas').clientWidth")
    page.drag((x - wide * 0.3, y), (x - wide * 0.25, y))
    assert page.run("Page.span !== null && Page.span[1] < 1000")
    page.run("document.getElementById('in-span').click()")
    trees = "[...document.querySelectorAll('#trees-0 tbody tr')].filter((row) => !row.hidden).length"
    assert page.run(trees) == 0
    page.run("document.getElementById('whole').click()")
    assert page.run(trees) == 1


def test_keys_play_step_and_zoom(page, forest):
    page.open(forest)
    slide(page, 0)
    page.press("ArrowRight")
    assert page.run("document.getElementById('slider').value") == "1"
    page.press(" ")
    page.wait("Number(document.getElementById('slider').value) > 3")
    page.press(" ")
    stopped = page.run("Page.time")
    page.settle()
    assert page.run("Page.time") == stopped
    before = page.picture(".stage")
    page.press("+")
    assert differ(before, page.picture(".stage")) > 0.01
    page.press("0")
    assert differ(before, page.picture(".stage")) < 0.001


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 2560])
def test_both_themes_at_any_width(page, compared, theme, width):
    page.open(compared, width, 800, theme=theme)
    assert page.run("document.documentElement.scrollWidth") <= width, "it must not scroll sideways"
    dark = pixels(page.picture(".first")).mean() < 0.5
    assert dark == (theme == "dark")
    # Content of canvases also follows the button.
    before = page.picture(".chart canvas")
    page.run("document.getElementById('theme').click()")
    page.settle()
    assert differ(before, page.picture(".chart canvas")) > 0.3
    assert (pixels(page.picture(".first")).mean() < 0.5) != dark


def test_without_webgl_lines_are_drawn_all_the_same(page, compared):
    page.call(
        "Page.addScriptToEvaluateOnNewDocument",
        source="const get = HTMLCanvasElement.prototype.getContext; HTMLCanvasElement.prototype.getContext ="
        " function (kind, ...more) { return kind === 'webgl2' && window.name === 'plain' ? null :"
        " get.call(this, kind, ...more); };",
    )
    page.open(compared)
    slide(page, 0.95)
    fast = page.picture(".stage")
    page.run("window.name = 'plain'")
    page.open(compared)
    slide(page, 0.95)
    assert page.run("Page.networks[0].gl") is None
    plain = page.picture(".stage")
    page.run("window.name = ''")
    slide(page, 0)
    assert differ(plain, fast) < 0.05
    assert differ(plain, page.picture(".stage")) > 0.005


def test_without_scripts_there_are_a_picture_and_the_tables(page, compared):
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.call("Page.navigate", url=compared.as_uri())
        page.size(1200, 900)
        page.wait("document.readyState === 'complete'")
        assert "F1" in page.run("document.querySelector('#victims-0').innerText")
        assert page.run("document.querySelector('.stage svg .root') !== null")
        assert page.run("document.querySelector('.stage svg').getBoundingClientRect().height") > 100
        assert page.run("document.getElementById('player').hidden")
    finally:
        page.call("Emulation.setScriptExecutionDisabled", value=False)


def test_keys_jump_without_the_slider_in_focus(page, forest):
    page.open(forest)
    slider = "Number(document.getElementById('slider').value)"
    last = page.run("Number(document.getElementById('slider').max)")
    page.press("End")
    assert page.run(slider) == last
    page.press("Home")
    assert page.run(slider) == 0
    page.press("PageDown")
    assert page.run(slider) == max(1, round((last + 1) / 10))
    page.press("PageUp")
    assert page.run(slider) == 0


def test_the_first_picture_shows_a_typical_time(page, compared):
    page.open(compared)
    sizes = "Page.data.runs[0].sizes[Data.frameAt(Page.data.runs[0], Page.time)]"
    mean = page.run("Page.meanSize(Page.data.runs[0], Page.data.runs[0].from)")
    assert abs(page.run(sizes) - mean) < 1
    assert page.run("Page.time > Page.data.runs[0].from")


def test_keys_zoom_at_the_pointer_and_alike_networks_move_together(page, compared):
    page.open(compared)
    x, y = page.run(
        "(() => { const box = document.querySelector('.stage').getBoundingClientRect();"
        "return [box.x + 40, box.y + 60]; })()"
    )
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    move = "const [a, b, c, d] = Page.networks[0].transform();"
    place = f"(() => {{ {move} return [(40 - c) / a, (60 - d) / b]; }})()"
    before = page.run(place)
    page.press("+")
    assert page.run("Page.networks[0].view.scale") == pytest.approx(1.4)
    assert page.run(place) == pytest.approx(before, abs=0.01)
    assert page.run("Page.networks[0].view === Page.networks[1].view")
    # If the pointer is outside, the page zooms around the root of the largest tree, which keeps its position.
    page.press("0")
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
    slide(page, 0.95)
    root = page.run("Page.networks[0].focus()")
    page.press("+")
    assert page.run("Page.networks[0].focus()") == pytest.approx(root, abs=0.5)
    # H5 is behind the root.
    at = page.run("Page.data.runs[0].nodes.indexOf('H5')")
    assert page.run(f"Page.networks[0].spots.find(([node]) => node === {at}).slice(1)") == pytest.approx(
        root, abs=0.5
    )


def test_a_root_has_one_letter_and_one_color_everywhere(page, forest, compared):
    page.open(compared)
    assert page.run("Page.data.runs[0].trees.every((tree) => tree[5] === 'A' && tree[4] === 0)")
    assert page.run("document.querySelector('#trees-0 tbody td:nth-child(2)').textContent") == "A S2:2->H5"
    page.open(forest)
    seen = page.run(
        "Page.data.runs.flatMap((run) => run.trees.map((tree) => [tree[0], tree[5], tree[4]].join(' ')))"
    )
    assert len({one.split()[0] for one in seen}) == len(set(seen))
    # Charts list roots in order and in their colors; other lines have different colors.
    names = page.run(
        "Page.charts.find((one) => one.series.id === 'held').series.lines.map((line) => line.name)"
    )
    roots = [name for name in names if name != "other roots"]
    assert roots == sorted(roots)
    others = page.run(
        "Page.charts.filter((one) => one.series.id !== 'held').flatMap((one) => one.series.lines.map("
        "(line, at) => one.hue(line, at)))"
    )
    assert not set(others) & set(page.run("Data.hues"))


def test_the_difference_of_two_runs_is_a_panel(page, compared):
    page.open(compared)
    slide(page, 0.95)
    button = "document.getElementById('difference')"
    assert page.run(f"{button}.hidden") is False
    page.run(f"{button}.click()")
    page.settle()
    told = page.run("document.querySelector('.difference output').textContent")
    one, other = (
        page.run(
            f"[...Data.spansAt(Page.data.runs[{at}], Page.networks[{at}].frame)].map((span) => span >= 0)"
        )
        for at in (0, 1)
    )
    only = sum(a and not b for a, b in zip(one, other, strict=True))
    both = sum(a and b for a, b in zip(one, other, strict=True))
    assert only > 0
    assert f"{only} links only in “" in told
    assert f"{both} links in both" in told
    page.run(f"{button}.click()")
    assert page.run("document.querySelector('.difference').hidden")


def test_pictures_and_data_are_saved(page, compared):
    page.open(compared)
    slide(page, 0.95)
    background = "Page.style('--sheet')"
    for drawn in ("Page.networks[0]", "Page.charts[0]"):
        size = page.run(f"{drawn}.size")
        svg = page.run(f"Save.svg({drawn}.size, (to, ratio) => {drawn}.paint(to, ratio), {background})")
        root = ElementTree.fromstring(svg)
        assert root.get("viewBox") == f"0 0 {size[0]} {size[1]}"
        assert len(root.findall("{*}path")) > 5
        assert root.findall("{*}text")
        shown = page.run(
            f"new Promise((done) => Save.png({drawn}.size, (to, ratio) => {drawn}.paint(to, ratio),"
            f"{background}, (blob) => {{ const reader = new FileReader();"
            "reader.onload = () => done(reader.result); reader.readAsDataURL(blob); }))"
        )
        picture = pixels(base64.b64decode(shown.partition(",")[2]))
        assert picture.shape[:2] == (2 * size[1], 2 * size[0])
        assert picture.std() > 0.01
    rows = page.run("Save.ofChart(Page.charts[0])").splitlines()
    assert rows[0] == "time_us,F1 (Gbit/s),F2 (Gbit/s),F3 (Gbit/s)"
    assert len(rows) == 1 + page.run("Page.data.runs[0].frames.length")
    links = page.run("Save.ofNetwork(Page.networks[0])").splitlines()
    assert len(links) == 1 + 5
    assert ",S2:2->H5,1,S2:2->H5,0,S2:2->H5," in links[-1] or any(",S2:2->H5,0," in line for line in links)
    assert page.run("document.querySelectorAll('.save button').length") >= 6


def test_words_are_explained_where_they_stand(page, compared):
    page.open(compared)
    x, y = middle(page, "document.querySelector('.key.victim')")
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    page.settle()
    assert "although it does not send through that root" in page.run(
        "document.getElementById('tip').textContent"
    )
    assert page.run("document.querySelectorAll('.term').length") > 12


#: A victim behind an incast, whose root is three links away.
INCAST = """
name = "incast"
duration = "2 ms"
warmup = "0 s"
[topology]
kind = "two-level-fat-tree"
leaves = 2
spines = 1
hosts_per_leaf = 8
[switch]
buffer = "64 KiB"
[measure]
interval = "10 us"
[[flow]]
name = "victim"
from = "H6"
to = "H10"
message = "100 kB"
total = "100 kB"
start = "200 us"
[[traffic]]
name = "incast"
hosts = ["H[1-2]", "H[11-14]"]
pattern = { kind = "hotspots", to = ["H9"] }
message = "100 kB"
"""


def test_a_row_of_a_cause_shows_its_links_while_it_acts(page, tmp_path):
    result = silvan.run(silvan.Scenario.from_toml(INCAST))
    found = silvan.why(result, flow="victim")
    file = report.write([result], tmp_path / "incast.html", explained=[found])
    page.open(file)
    before = page.picture(".stage")
    page.run("document.querySelector('#causes-0 tbody tr').click()")
    page.settle()
    told = page.run("document.getElementById('details').innerText")
    assert "victim (H6->H10), 100 kB" in told
    assert "L1.2:1->H9 was busy with other packets" in told
    assert "acts now" in told
    assert differ(before, page.picture(".stage")) > 0.002
    chain = list(found[0].explanation.causes[0].chain)
    assert chain[-1] == "L1.2:1->H9"
    assert page.run("[...Page.cause.links].map((link) => Page.cause.run.links[link])") == chain
    slide(page, 0.05)
    assert "does not act now" in page.run("document.getElementById('details').innerText")
    page.press("Escape")
    assert page.run("document.getElementById('details').hidden")
    page.requests.clear()
