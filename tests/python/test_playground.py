"""The playground in a browser: its results equal those of the native simulator, and its controls work."""

import json
import math

import numpy as np
import pytest

import playground
import silvan
from browser import browser
from conftest import ROOT
from silvan.report._layout import Wiring, place

pytestmark = pytest.mark.playground

#: Short scenarios whose results must be equal: networks, switches, mechanisms, patterns and jobs.
SHIPPED = {
    "testbed": {"duration": "1 ms", "warmup": "0 s", "flow.1.start": "0 s", "congestion.mechanism": "ib-cc"},
    "ecocc-trees": {"duration": "300 us", "warmup": "0 s"},
    "torus-8x8": {"duration": "200 us", "warmup": "0 s", "measure.interval": "10 us"},
    "dragonfly-72": {"duration": "200 us", "warmup": "0 s", "measure.interval": "10 us"},
    "silent-forest": {"duration": "40 us", "warmup": "0 s", "measure.interval": "10 us"},
    "packets-64": {"duration": "200 us", "warmup": "0 s", "measure.interval": "20 us"},
    "mvcm-hot-phase": {"duration": "50 us", "warmup": "0 s", "measure.interval": "10 us"},
    "mesh-64": {"duration": "200 us", "warmup": "0 s", "congestion.mechanism": "qcn"},
    "job-collective": {"duration": "300 us", "measure.interval": "20 us"},
    "hotspot-648": {"duration": "40 us", "warmup": "0 s", "measure.interval": "10 us", "threads": 2},
}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    try:
        module = playground.build_module()
    except playground.MissingError as missing:
        pytest.skip(str(missing))
    file = tmp_path_factory.mktemp("playground") / "playground.html"
    file.write_text(playground.page(module), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def page(tmp_path_factory, file):
    with browser(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture(autouse=True)
def quiet(page, file):
    """Check in all tests that the page reports no error and requests nothing but itself."""
    page.complaints.clear()
    page.requests.clear()
    yield
    page.run("0")
    assert page.complaints == []
    assert {url.split("#")[0] for url in page.requests if not url.startswith("blob:")} <= {file.as_uri()}


def start(page, file, fragment="", **size):
    """Open the page with settings, without any earlier state."""
    page.call("Page.navigate", url="about:blank")
    page.open(file, fragment=fragment, **size)


def show(page, time_us):
    """Let the page simulate up to a time, and show that time."""
    page.run("Playground.play(false)")
    page.run(f"Playground.sides.forEach((side) => side.live.grant({time_us} / Playground.interval + 1))")
    page.wait(f"!Playground.isWaiting && Playground.known() * Playground.interval >= {time_us}")
    page.run(f"Playground.go({time_us})")
    page.settle()


def compare(results, native):
    """Compare all results of a run with those of the native simulator, value by value."""
    results = json.loads(results)
    assert results["account"] == native.account
    assert results["warnings"] == native.warnings
    assert results["summary"] == json.loads(json.dumps(native.summary))
    assert set(results["tables"]) == set(native.tables)
    for name, found in results["tables"].items():
        columns = native.numpy(name)
        assert list(found) == list(columns), name
        for key, values in columns.items():
            expected = values.tolist()
            if values.dtype.kind == "f":
                # JSON contains null instead of NaN.
                expected = [None if math.isnan(value) else value for value in expected]
            assert found[key] == expected, f"{name}.{key}"


@pytest.mark.parametrize("name", SHIPPED)
def test_results_equal_those_of_the_native_simulator(page, file, name):
    if page.run("typeof Live") != "function":
        start(page, file)
    scenario = silvan.scenarios.load(name, SHIPPED[name])
    text = json.dumps(scenario.to_toml())
    results = page.run(f"Live.whole({text}).then((one) => one.results)")
    compare(results, silvan.run(scenario))


def test_every_story_is_tested(page, file):
    start(page, file)
    assert page.run("STORIES.length") == 7


@pytest.mark.parametrize("story", range(7))
def test_a_copied_scenario_repeats_the_run_of_its_story(page, file, story):
    start(page, file)
    page.run(f"Playground.open(STORIES[{story}])")
    page.wait("!Playground.isWaiting")
    # The run is short, and contains every hotspot of the story.
    page.run("Playground.settings.length = 900; Playground.begin(Playground.settings, null)")
    page.wait("!Playground.isWaiting")
    page.run("document.getElementById('scenario').click()")
    sides = page.run("Playground.sides.length")
    for side in range(sides):
        page.run(
            f"(() => {{ const which = document.getElementById('which'); which.value = '{side}';"
            "which.dispatchEvent(new Event('change')); })()"
        )
        text = page.run("document.getElementById('toml').value")
        results = page.run(f"Playground.sides[{side}].live.results()")
        compare(results, silvan.run(silvan.Scenario.from_toml(text)))
    page.run("document.getElementById('dialog').close()")


@pytest.mark.parametrize("net", ["testbed", "fat-tree", "torus", "dragonfly", "ethernet", "fat-tree-648"])
def test_networks_are_laid_out_as_in_reports(page, file, net):
    start(page, file, f"net={net}&load=0&length=100")
    found = page.run(
        "(() => { const { nodes, hosts, links, source, target, x, y } = Playground.sides[0].run;"
        "return { nodes, hosts, links, source, target, x: [...x], y: [...y] }; })()"
    )
    assert found["hosts"] == page.run(f"Scenario.NETWORKS['{net}'].hosts")
    assert found["nodes"][: found["hosts"]] == [f"H{number + 1}" for number in range(found["hosts"])]
    ends = (np.array(found[key], np.uint32) for key in ("source", "target"))
    expected = place(Wiring(found["nodes"], found["hosts"], found["links"], *ends))
    np.testing.assert_allclose(np.stack([found["x"], found["y"]], axis=1), expected, atol=2e-3)


def test_every_mechanism_and_every_end_of_its_parameters_can_run(page, file):
    start(page, file)
    scenarios = page.run(
        """(() => {
          const found = [];
          for (const net of ["fat-tree", "torus", "dragonfly", "ethernet"]) {
            const hotspots = [{ host: "H9", senders: 8, from: 10, to: null }];
            const settings = { ...Scenario.blank(net), length: 60, hotspots };
            for (const mechanism of Scenario.mechanisms(net)) {
              const { values } = Scenario.MECHANISMS[mechanism];
              const ends = [{}];
              for (const { id, least, most } of values) ends.push({ [id]: least }, { [id]: most });
              for (const given of net === "fat-tree" ? ends : [{}]) {
                found.push(Scenario.toml(settings, { mechanism, values: given, spread: false }));
              }
            }
          }
          return found;
        })()"""
    )
    assert len(scenarios) > 60
    for text in scenarios:
        assert silvan.run(silvan.Scenario.from_toml(text)).summary["packets_delivered"] > 0


def test_a_click_makes_a_hotspot_whose_tree_grows_and_drains(page, file):
    start(page, file, "net=fat-tree&load=10&length=3000&a=none")
    show(page, 100)
    assert page.run("Sentence.summary(Playground.sides[0].live.now.samples[Playground.at]).trees") == 0
    assert "Traffic flows freely" in page.run("document.getElementById('sentence').textContent")
    page.click(*place_of(page, "H22"))
    assert page.run("Playground.settings.hotspots")[0] | {"senders": 0} == {
        "host": "H22", "senders": 0, "from": 100, "to": None,
    }  # fmt: skip
    show(page, 400)
    assert links_in_trees(page) > 5
    text = page.run("document.getElementById('sentence').textContent")
    assert text.startswith("More packets arrive for H22 than it can receive")
    # A second click ends the hotspot.
    page.click(*place_of(page, "H22"))
    assert page.run("Playground.settings.hotspots[0].to") == 400
    show(page, 2000)
    assert links_in_trees(page) == 0
    # Results before the second click are unchanged.
    show(page, 400)
    assert links_in_trees(page) > 5


def test_a_dragged_hotspot_moves(page, file):
    start(page, file, "net=fat-tree&load=10&length=3000&hot=H22~12@0&a=none")
    show(page, 200)
    page.drag(place_of(page, "H22"), place_of(page, "H50"))
    assert [one["host"] for one in page.run("Playground.settings.hotspots")] == ["H22", "H50"]
    assert page.run("Playground.settings.hotspots[0].to") == 200
    show(page, 2000)
    trees = page.run("Playground.sides[0].live.now.samples[Playground.at].trees")
    links = page.run("Playground.sides[0].run.links")
    roots = [links[tree["root"]] for tree in trees]
    assert roots
    assert all(root.endswith("->H50") for root in roots)


def test_two_mechanisms_are_compared_on_the_same_traffic(page, file):
    start(page, file, "net=fat-tree&load=10&length=1500&hot=H22~12@0&victims=H1:H23&a=none")
    page.run("document.getElementById('compare').click()")
    page.wait("Playground.sides.length === 2 && !Playground.isWaiting")
    show(page, 1000)
    texts = page.run("Playground.settings.sides.map((side) => Scenario.toml(Playground.settings, side))")
    traffic = [text.split("[measure]")[1] for text in texts]
    assert traffic[0] == traffic[1]
    assert 'mechanism = "ib-cc"' in texts[1]
    assert "With InfiniBand CC" in page.run("document.getElementById('sentence').textContent")
    assert page.run("document.querySelectorAll('.chart').length") == 8


def test_a_parameter_changes_the_run_from_its_start(page, file):
    start(page, file, "net=fat-tree&load=10&length=900&hot=H22~12@0&a=ib-cc")
    show(page, 800)
    before = page.run("JSON.stringify(Playground.sides[0].live.now.samples[60])")
    page.run(
        "(() => { const slider = document.querySelector('[aria-label=CCTI_Increase]'); slider.value = 8;"
        "slider.dispatchEvent(new Event('change')); })()"
    )
    show(page, 800)
    assert "reaction.ccti_increase = 8" in page.run("Playground.sides[0].live.now.text")
    assert page.run("JSON.stringify(Playground.sides[0].live.now.samples[60])") != before


def test_a_link_restores_the_settings(page, file):
    fragment = (
        "net=torus&load=25&length=1200&seed=7&hot=H5~9@30-200,H9~H1+H2@0&victims=H3:H40"
        "&a=none&b=ccfit,queues:4,timer:20"
    )
    start(page, file, fragment)
    assert page.run("Scenario.fragment(Playground.settings)") == fragment
    assert page.run("location.hash") == f"#{fragment}"
    # Invalid values are replaced by defaults.
    wrong = "net=fat-tree&load=x&length=1e99&hot=H999~1@0,H1~@,&victims=H1:H1&a=what&b=ib-cc,timer:9999"
    start(page, file, wrong)
    settings = page.run("Playground.settings")
    assert (settings["load"], settings["length"]) == (30, 50_000)
    assert (settings["hotspots"], settings["victims"]) == ([], [])
    assert settings["sides"][0]["mechanism"] == "none"
    assert settings["sides"][1]["values"] == {"timer": 600}


def test_an_opened_scenario_runs_and_is_compared(page, file):
    start(page, file)
    text = (ROOT / "scenarios" / "torus-64.toml").read_text().replace('"100 us"', '"20 us"')
    page.run(f"Controls.open({json.dumps(text)})")
    page.wait("!Playground.isWaiting")
    show(page, 300)
    assert links_in_trees(page) > 0
    assert page.run("Playground.sides[0].live.now.text") == text
    # The components change with the mechanism.
    side = "{mechanism: 'fbicm', values: {}, spread: false}"
    other = page.run(f"Scenario.toml(Playground.settings, {side})")
    assert silvan.Scenario.from_toml(other).to_toml().count('kind = "special-queues"') == 1
    shared = page.run("Scenario.fragment(Playground.settings)")
    start(page, file, shared)
    assert page.run("Playground.settings.text") == text


def test_errors_of_a_scenario_are_shown(page, file):
    start(page, file)
    page.run('Controls.open(\'duration = "1 ms"\\n[topology]\\nkind = "star"\\nhost = 3\\n\')')
    page.wait("!document.getElementById('wrong').hidden")
    assert "scenario:4: topology.host" in page.run("document.getElementById('wrong').textContent")


@pytest.mark.parametrize("width", [375, 1400])
def test_nothing_is_wider_than_the_window(page, file, width):
    start(page, file, "net=fat-tree-648&load=10&length=200&a=none&b=ib-cc", width=width, height=800)
    assert page.run("document.documentElement.scrollWidth") <= width


def test_the_page_is_small(file):
    assert file.stat().st_size < 4e6


def links_in_trees(page):
    return page.run("Playground.sides[0].live.now.samples[Playground.at].tree_links.length")


def place_of(page, host):
    """Return the position of a host in the window."""
    return page.run(
        "(() => { const network = Playground.networks[0]; network.stage.scrollIntoView({block: 'center'});"
        f"const node = network.run.nodes.indexOf('{host}'), box = network.stage.getBoundingClientRect();"
        "const [a, b, c, d] = network.transform();"
        "return [box.x + network.run.x[node] * a + c, box.y + network.run.y[node] * b + d]; })()"
    )
