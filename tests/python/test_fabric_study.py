"""Tests `silvan fabric study`: routes, load, output files, and messages for users."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import tomllib

import silvan
from conftest import FABRICS, ROOT, command
from silvan import _opensm
from silvan.fabric.studies import failure, files, load, routes, site, verdict
from silvan.sweeps.study import of_file
from silvan.tuning import outcome
from silvan.tuning.outcome import Candidate, Contrast, Interval
from silvan.tuning.presets import NONE
from silvan.tuning.problem import Kind, Tuning
from silvan.tuning.racing import Found
from silvan.tuning.runs import Instance, Setting

TESTBED = FABRICS / "sw2-h7" / "minhop"


def routed(*names):
    return routes.read(silvan.fabric.ibdmchk(FABRICS.joinpath(*names)))


@pytest.mark.parametrize(
    "names",
    [("sw2-h7", "minhop"), ("4ary3tree-h64", "updn"), ("4ary3tree-h64", "ftree"), ("ft2-36p-h648", "updn")],
)
def test_all_to_all_loads_links_as_the_check_of_the_fabric_says(names):
    """Computes the same numbers in two ways: from tables followed here, and in the simulator."""
    found = routed(*names)
    demand = np.ones((len(found.hosts),) * 2)
    np.fill_diagonal(demand, 0.0)
    flows = found.load(demand)
    checked = silvan.fabric.check(FABRICS.joinpath(*names))["all_to_all"]
    inner = flows[found.inner]
    assert (len(inner), inner.min(), inner.max()) == (checked["links"], checked["min"], checked["max"])
    assert inner.mean() == pytest.approx(checked["mean"])
    to_host = np.ones(len(flows), dtype=bool)
    to_host[found.first_link] = False
    assert set(flows[to_host & ~found.inner]) == {len(found.hosts) - 1.0}


def test_links_are_called_as_in_a_run():
    text = (
        'duration = "1 us"\n[topology]\nkind = "file"\n'
        f'file = "{TESTBED / "ibnetdiscover.topo"}"\n[routing]\nkind = "table"\n'
        f'file = "{TESTBED / "opensm-lfts.dump"}"\n[[traffic]]\npattern = {{ kind = "uniform" }}\n'
    )
    wiring = silvan.run(silvan.Scenario.from_toml(text)).numpy("wiring")
    assert routed("sw2-h7", "minhop").links == tuple(wiring["link"])


def test_the_pairs_over_a_link_are_named_the_largest_first():
    found = routed("sw2-h7", "minhop")
    demand = np.zeros((7, 7))
    demand[1, 0], demand[2, 0], demand[3, 1] = 1.0, 2.0, 4.0
    last = int(np.argmax(found.load(demand * (np.arange(7) == 0))))
    assert found.links[last].endswith(f"->{found.hosts[0]}")
    assert found.pairs_over(demand, last) == [
        (found.hosts[2], found.hosts[0], 2.0),
        (found.hosts[1], found.hosts[0], 1.0),
    ]


def test_tables_with_a_cycle_are_reported():
    found = routed("4ary3tree-h64", "updn")
    lid = found.lids[0]
    one = int(found.first_switch[1])
    other = next(int(found.behind[one, port]) for port in range(1, 9) if found.behind[one, port] >= 0)
    towards = {a: int(np.flatnonzero(found.behind[a] == b)[0]) for a, b in ((one, other), (other, one))}
    for switch, port in towards.items():
        found.port[switch, lid] = port
    with pytest.raises(silvan.FabricError, match="the tables have a cycle on the way to"):
        found.walk(np.arange(64), 0)


def row_of_switches(count):
    """Return the routes between two hosts at the ends of a row of switches."""
    right, left = 2 * np.arange(count), 2 * np.arange(count) + 1
    behind = np.full((count, 2), -1)
    behind[:, 0] = [*range(1, count), -1 - 1]
    behind[:, 1] = [-1 - 0, *range(count - 1)]
    port = np.zeros((count, 3), dtype=np.int64)
    port[:, 1], port[:, 2] = 1, 0
    return routes.Routes(
        hosts=("a", "b"),
        links=tuple(f"link {n}" for n in range(2 * count + 2)),
        inner=np.ones(2 * count + 2, dtype=bool),
        lids=np.array([1, 2]),
        first_link=np.array([2 * count, 2 * count + 1]),
        first_switch=np.array([0, count - 1]),
        port=port,
        link_at=np.stack([right, left], axis=1),
        behind=behind,
    )


@pytest.mark.parametrize("switches", [1, 63, 64, 65, 200])
def test_a_route_over_many_switches_is_no_cycle(switches):
    steps = row_of_switches(switches).walk(np.arange(2), 1)
    assert [list(link) for _, link in steps[1:]] == [[2 * n] for n in range(switches)]


@pytest.mark.parametrize("hosts", [4, 7, 64, 648])
def test_every_host_has_one_role_and_hotspots_send_nothing(hosts):
    names = [f"h{n}" for n in range(hosts)]
    drawn = load.draw(names, 32.0, load.Shape(), 1)
    assert drawn == load.draw(names, 32.0, load.Shape(), 1)
    assert any(drawn != load.draw(names, 32.0, load.Shape(), seed) for seed in range(2, 12))
    senders = [host for group in drawn.groups for host in group.hosts]
    assert len(senders) == len(set(senders))
    assert set(senders) | set(drawn.hotspots) == set(names)
    assert not set(senders) & set(drawn.hotspots)
    storage = [group for group in drawn.groups if group.name == "storage"]
    assert bool(storage) == (not drawn.notes) == (hosts >= 64)
    demand = drawn.demand()
    assert demand.diagonal().sum() == 0
    for group in storage:
        offered = demand[:, names.index(group.targets[0])].sum()
        assert offered >= load.STORAGE_LOAD * 32.0


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    out = tmp_path_factory.mktemp("study") / "out"
    conf = ROOT / "tests" / "data" / "opensm" / "cc.conf"
    done = command("fabric", "study", TESTBED, "--out", out, "--opensm-conf", conf)
    assert done.returncode == 0, done.stderr
    return out, done.stdout


def test_a_study_writes_all_that_it_promises(studied):
    out, said = studied
    account = (out / "account.md").read_text()
    for heading in (
        "What hotspots do to this fabric", "The fabric", "The load", "The worst links",
        "Congestion trees without control", "What control changes", "Recommendation",
        "Settings with the best score", "Figures",
    ):  # fmt: skip
        assert f"# {heading}\n" in account
    assert "without control" in said
    assert "Settings with the best score" in said
    assert "Margin: ccti_timer" in said
    # The output starts with the harm and the verdict. In the steady state, no settings help the background,
    # because the messages that wait for the hotspot fill the memory of its hosts.
    first = said.splitlines()[:3]
    assert first[0].startswith("Harm: with these settings, traffic hotspots receives ")
    assert first[1].startswith("Harm: with these settings, the links to hotspots carry ")
    found = re.match(
        r"Leave it: leave congestion control off\. No settings that were tried are shown to be better\. "
        r"Those with the best score, compared with no control: no difference shown, [\d.]+ times as good ",
        first[2],
    )
    assert found is not None, first[2]
    text = (out / "opensm.conf").read_text()
    lines = "".join(f"# {line}\n" for line in first)
    assert text.startswith(lines)
    assert text.endswith("\ncongestion_control FALSE\n")
    # The settings in use are a row next to no control and the defaults.
    beside = {one["beside"] for one in json.loads((out / "study.json").read_text())["survey"]["contrasts"]}
    assert beside == {"no control", "defaults", "longer delays", "ccmgr", "opensm.conf"}
    for name in ("no control", "defaults", "opensm.conf"):
        assert len(re.findall(rf"^\| {name} \| \d", account, re.M)) == 1
    assert re.search(
        r"^Present settings: compared with those of opensm.conf, .* are: (better|worse|no )", said, re.M
    )
    margins = json.loads((out / "study.json").read_text())["margins"]
    assert set(margins) == {"cct_longest", "ccti_increase", "ccti_timer"}
    for margin in margins.values():
        assert len(margin["one_step_away"]) == 2 or margin["end"], "two sides, or why there is one alone"
    assert "(figures/tradeoff.png)" in account
    for figure in re.findall(r"\]\((figures/[\w.]+)\)", account):
        assert (out / figure).stat().st_size > 5000
    assert (out / "report.html").stat().st_size > 100_000
    for name in ("without-control", "defaults", "opensm-conf", "best-score,-not-recommended"):
        assert silvan.load(out / name).summary["packets_delivered"] > 0


def test_the_lines_of_a_study_can_be_pasted_and_run_again(studied):
    out, _ = studied
    scenario, _ = _opensm.load(out / "site.toml", out / "not-recommended.conf", {})
    shown = silvan.load(out / "best-score,-not-recommended")
    again = silvan.run(scenario)
    assert again.summary["classes"] == shown.summary["classes"]


def test_what_the_account_says_is_what_the_runs_gave(studied):
    out, _ = studied
    numbers = json.loads((out / "study.json").read_text())
    off = silvan.load(out / "without-control")
    by_class = {row["class"]: row["received_gbit_s"] for row in off.summary["classes"]}
    told = {name: one["received_gbit_s"] for name, one in numbers["classes"]["without control"].items()}
    assert told == by_class
    assert f"{by_class['background']:.4g}" in (out / "account.md").read_text()
    trees = numbers["links_in_trees"]
    assert trees["without control"] > trees["best score, not recommended"]
    assert max(link["offered_share"] for link in numbers["links"].values()) > 2


def test_a_study_names_the_links_that_are_nearly_always_used(studied):
    out, said = studied
    off = silvan.load(out / "without-control")
    table, start = off.numpy("links"), off.summary["averages_from_ns"]
    hosts = {host["host"] for host in off.summary["hosts"]}
    used = {}
    for link, time, share in zip(table["link"], table["time_ns"], table["utilisation"], strict=True):
        if time > start and link.split("->")[0] not in hosts:
            used.setdefault(link, []).append(share)
    wanted = {link: np.mean(shares) for link, shares in used.items() if np.mean(shares) > 0.9}
    assert wanted
    assert set(json.loads((out / "study.json").read_text())["busy_links"]) == set(wanted)
    found = re.search(
        r"^Without control, (\d+) of \d+ links between switches and (\d+) of \d+ links to hosts are used "
        r"more than 90 % on average after the warm-up: (.*)\.$",
        said, re.M,
    )  # fmt: skip
    assert found, said
    assert int(found[1]) + int(found[2]) == len(wanted)
    busiest = max(wanted, key=lambda link: (wanted[link], link))
    assert f"{busiest} {100 * wanted[busiest]:.0f} %" in found[3]


def test_the_study_can_be_tuned_further(studied):
    out, _ = studied
    tuning = silvan.Tuning.load(out / "tune.toml")
    assert tuning.runs == 64
    site = tomllib.loads((out / "site.toml").read_text())
    assert site["traffic"][0]["name"] == "hotspots"


def test_a_second_study_takes_the_place_of_the_first_and_is_the_same(studied, tmp_path):
    out, said = studied
    before = (out / "study.json").read_bytes()
    conf = ROOT / "tests" / "data" / "opensm" / "cc.conf"
    again = command("fabric", "study", TESTBED, "--out", out, "--opensm-conf", conf)
    assert again.stdout == said
    assert (out / "study.json").read_bytes() == before


def test_named_hosts_are_the_hotspots(tmp_path):
    drawn = load.draw([f"h{n}" for n in range(16)], 10.0, load.Shape(names=("h3", "h5")), 1)
    assert drawn.hotspots == ("h3", "h5")
    assert drawn.groups[0].targets == ("h3", "h5")


def test_nothing_that_no_study_wrote_is_overwritten(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(silvan.SilvanError, match="not the folder of a fabric study"):
        files.refuse_foreign(tmp_path)
    (tmp_path / "site.toml").write_text("# mine too\n")
    with pytest.raises(silvan.SilvanError, match="not the folder of a fabric study"):
        files.refuse_foreign(tmp_path)
    with pytest.raises(silvan.SilvanError, match="exists and is not a folder"):
        files.refuse_foreign(tmp_path / "notes.txt")


# Tests of the verdict.

OBJECTIVES = verdict.Care().objectives(
    load.Load(("a",), ("a",), (load.Group("hotspots", ("a",)), load.Group("storage", ("a",))), 10.0)
)


def effects(ratios, *protect):
    """Return what settings with these ratios to no control do; other ratios are exactly 1."""
    same = Interval(1.0, 1.0, 1.0)
    by_name = {one.name: ratios.get(one.name, same) for one in OBJECTIVES}
    return verdict.effects(OBJECTIVES, Contrast("no control", same, by_name, {}), verdict.Care(protect))


def option(score, ratios, *protect, seeds=3):
    """Return settings with a score and other ratios to no control, which ran on some seeds."""
    values = {Instance(Kind("as drawn"), seed): () for seed in range(2, 2 + seeds)}
    against = Contrast("no control", score, {}, {})
    return verdict.Option(Candidate("setting 1", Setting({}), values), against, effects(ratios, *protect))


GAIN, SAME = Interval(2.0, 1.8, 2.2), Interval(1.02, 0.99, 1.04)


def test_harm_is_what_an_interval_proves():
    assert [one.name for one in OBJECTIVES] == [
        "victims", "hotspots", "hotspots: received", "storage: received", "storage: p99 latency",
    ]  # fmt: skip

    def harms(ratios, *protect):
        return [one for one in effects(ratios, *protect) if one.is_harm]

    assert harms({}) == []
    (large,) = harms({"storage: received": Interval(0.69, 0.6, 0.8)})
    assert large.rules_out
    assert str(large) == "traffic `storage` receives 31 % less than without control (20 to 40 %)"
    (small,) = harms({"storage: received": Interval(0.97, 0.966, 0.98)})
    assert not small.rules_out
    assert str(small).endswith("3 % less than without control (2 to 3.4 %)")
    assert harms({"storage: received": Interval(0.97, 0.96, 0.98)}, "storage")[0].rules_out
    (slow,) = harms({"storage: p99 latency": Interval(0.5, 0.4, 0.8)})
    assert slow.rules_out
    assert "is 2.00 times that without control (1.25 to 2.50)" in str(slow)
    # A proven loss of contributors is a harm, but only the traffic on the links to hotspots rules out.
    (hot,) = harms({"hotspots: received": Interval(0.628, 0.619, 0.637)})
    assert str(hot) == "traffic `hotspots` receives 37 % less than without control (36 to 38 %)"
    assert not hot.rules_out
    (idle,) = harms({"hotspots": Interval(0.9, 0.85, 0.95)})
    assert str(idle) == "the links to hotspots carry 10 % less than without control (5 to 15 %)"
    assert idle.rules_out


def test_what_is_not_proven_is_undecided_and_no_harm():
    open_ = option(GAIN, {"storage: received": Interval(0.6, 0.25, 1.75)})
    assert not open_.harms
    (effect,) = open_.undecided
    assert str(effect) == "traffic `storage` may receive from 75 % less to 75 % more than without control"
    assert open_.in_words() == f"none proven; undecided: {effect}"
    assert open_.is_open
    found = verdict.Verdict((open_,))
    assert found.recommended is None
    assert found.is_undecided
    assert found.warnings() == []
    assert found.sentence() == (
        "Undecided: leave congestion control off. For the settings with the best score, after 3 seeds: "
        f"{effect}. `--seeds` allows more."
    )
    # A narrow interval around 1 excludes a harm that matters.
    assert option(GAIN, {"storage: received": Interval(0.98, 0.96, 1.01)}).is_fine
    # A protected class needs a narrower one.
    assert not option(GAIN, {"storage: received": Interval(0.98, 0.96, 1.01)}, "storage").is_fine
    # A gain that is not proven is undecided, unless it cannot be large.
    assert option(Interval(1.5, 0.8, 2.8), {}).is_open
    assert option(SAME, {}).is_out


def test_intervals_over_orders_of_magnitude_are_no_results():
    wide = Interval(192.5, 2.1, 17322.3)
    assert (str(wide), wide.in_words) == ("above 2.1", "better, at least 2.1 times as good")
    assert str(Interval(3.0, 0.1, 90.0)) == "seeds differ too much"
    assert Interval(0.05, 0.001, 0.4).in_words == "worse, at most 0.4 times as good"
    (open_,) = option(GAIN, {"storage: p99 latency": Interval(3.0, 0.1, 90.0)}).undecided
    assert (
        str(open_) == "the 99th percentile of the latency of traffic `storage` differs too much between seeds"
    )
    (harm,) = option(GAIN, {"storage: received": Interval(0.05, 0.001, 0.4)}).harms
    assert str(harm) == "traffic `storage` receives at least 60 % less than without control"


def test_settings_that_harm_are_not_recommended():
    costly = option(GAIN, {"storage: received": Interval(0.69, 0.6, 0.8)})
    kind, useless = option(Interval(1.4, 1.3, 1.5), {}), option(SAME, {})
    assert verdict.Verdict((costly, kind)).recommended is kind
    off = verdict.Verdict((costly, useless))
    assert off.recommended is None
    assert not off.is_undecided
    assert off.sentence().startswith("Leave it: leave congestion control off. All settings on fresh")
    assert off.warnings()[0].startswith("Harm: with these settings, traffic `storage` receives 31 % less")
    nothing = verdict.Verdict((useless,))
    assert nothing.sentence().endswith(
        "compared with no control: no difference shown, 1.020 times as good (0.990 to 1.040)."
    )


def test_settings_with_any_harm_are_a_choice_and_small_gains_are_left():
    """A small harm does not rule settings out, but it is never part of a recommendation."""
    harm = {"storage: received": Interval(0.97, 0.966, 0.98)}
    costly = option(GAIN, harm)
    assert (costly.is_fine, costly.is_choice, costly.is_open) == (False, True, False)
    found = verdict.Verdict((costly,))
    assert found.recommended is None
    assert found.choice is found.shown is costly
    assert (
        "The price: traffic `storage` receives 3 % less than without control (2 to 3.4 %)."
        in found.sentence()
    )
    assert f"score {GAIN.in_words}" in found.sentence()
    # Settings without harm are preferred, even if they gain less.
    assert verdict.Verdict((costly, option(Interval(1.4, 1.3, 1.5), {}))).choice is None
    # A protected class rules the settings out.
    assert option(GAIN, harm, "storage").is_out
    small = option(Interval(1.039, 1.008, 1.071), {})
    assert small.is_out
    assert verdict.Verdict((small,)).sentence().startswith("Leave it: ")
    assert "gain less than 5 %" in verdict.Verdict((small,)).sentence()


def test_settings_that_are_not_in_steady_state_are_not_recommended():
    steady = option(GAIN, {})
    assert steady.is_fine
    trends = ("class storage: received",)
    drifting = replace(steady, against_off=replace(steady.against_off, trends=trends))
    found = verdict.Verdict((drifting,))
    assert found.recommended is None
    assert found.sentence().endswith("after 3 seeds: not in steady state: class storage: received.")
    short = replace(steady, against_off=replace(steady.against_off, untested=trends))
    found = verdict.Verdict((short,))
    assert found.recommended is None
    assert found.sentence().endswith("after 3 seeds: steady state not tested: class storage: received.")


def test_repeated_tests_share_the_probability_of_a_false_recommendation():
    stages = verdict.Stages(3, 16, 4)
    assert stages.seeds == [3, 6, 12, 16]
    assert [stages.after(seeds) for seeds in (3, 6, 12, 16)] == [6, 12, 16, 16]
    errors = [1 - stages.confidence(seeds) for seeds in stages.seeds]
    assert 4 * sum(errors) == pytest.approx(0.05)


def test_trends_in_few_runs_or_in_other_quantities_do_not_count():
    tuning = Tuning("survey", of_file(ROOT / "scenarios" / "testbed.toml"), objectives=OBJECTIVES, confirm=10)
    fresh, mine = outcome.fresh_instances(tuning), Setting({"seed": 1})
    runs = FakeRuns(0.1)
    received, other = "class storage: received", "storage: latency since generation"
    for number, expected in ((2, ()), (3, (received,))):
        runs.trends = {(mine, at): [received, other] for at in fresh[:number]}
        found, _ = outcome.tried(runs, [("setting 1", mine)], fresh)
        assert found["setting 1"].trends == expected
        runs.trends, runs.untested = (
            {},
            {(mine, at): ([received, other], 80_000_000) for at in fresh[:number]},
        )
        found, _ = outcome.tried(runs, [("setting 1", mine)], fresh)
        assert found["setting 1"].untested == expected
        assert found["setting 1"].testable_at_ns == (80_000_000 if expected else None)


class FakeRuns:
    """Returns values in which storage receives 1.2 or 0.9 times as much as without control, by the seed."""

    def __init__(self, spread):
        self.known, self.expected, self.spread, self.seeds = {}, 0, spread, set()
        self.tuning, self.trends, self.untested = SimpleNamespace(objectives=OBJECTIVES), {}, {}

    def values(self, wanted, _what):
        self.seeds |= {at.seed for _, at in wanted}
        return [self.value(setting, at.seed) for setting, at in wanted]

    def value(self, setting, seed):
        if setting.keys == NONE:
            return (1.0, 1.0, 1.0, 1.0, 1.0)
        return (2.0, 1.0, 1.0, 1.03 + self.spread * (-1) ** seed, 1.0)


@pytest.mark.parametrize(("spread", "seeds", "fine"), [(0.001, 3, True), (0.08, 12, True), (0.5, 16, False)])
def test_undecided_settings_get_more_seeds(spread, seeds, fine):
    runs = FakeRuns(spread)
    tuning = Tuning("survey", of_file(ROOT / "scenarios" / "testbed.toml"), objectives=OBJECTIVES, confirm=3)
    fresh = outcome.fresh_instances(tuning)
    mine, off = Setting({"seed": 1}), Setting(NONE)
    tried, _ = outcome.tried(runs, [("setting 1", mine), ("no control", off)], fresh)
    known = (tried["no control"],)
    tuned = outcome.Tuned(tuning, Found({}, [], 0, {}), (tried["setting 1"],), (), (), 0, 0, known=known)
    after, found = verdict.judge(tuned, runs, verdict.Care(), 16)
    assert len(runs.seeds) == found.options[0].seeds == seeds
    assert (found.recommended is not None) == fine
    assert found.is_undecided != fine
    # The comparison with no control that is printed is the one that decided.
    assert after.contrasts[0] == found.options[0].against_off


def test_aggregation_nodes_neither_send_nor_receive(tmp_path):
    lines = (TESTBED / "ibnetdiscover.topo").read_text()
    named = lines.replace('"node-3 HCA-1"', '"Mellanox Technologies Aggregation Node"')
    named = re.sub(r'"(node-3)"', '"Mellanox Technologies Aggregation Node"', named)
    assert named.count("Aggregation Node") >= 2
    (tmp_path / "fabric.topo").write_text(named)
    files = [tmp_path / "fabric.topo", TESTBED / "opensm-lfts.dump"]
    kept = site.keep(site.read_site(files, None, None), tmp_path / "kept")
    drawn = load.draw(kept.routes.hosts, kept.host_gbit_s, load.Shape(), 1)
    assert len(kept.routes.hosts) == 6
    assert any(
        note.startswith("1 aggregation node (SHARP), a unit inside a switch, neither") for note in kept.notes
    )
    (tmp_path / "site.toml").write_text(
        site.scenario_text(kept, drawn, 100_000, 1).replace('"fabric/', f'"{tmp_path}/kept/')
    )
    hosts = silvan.run(tmp_path / "site.toml").summary["hosts"]
    assert sorted(host["host"] for host in hosts) == sorted(kept.routes.hosts)
    assert "Mellanox Technologies Aggregation Node" not in kept.routes.hosts
    whole = site.read_site(files, None, None, whole=True)
    assert len(whole.routes.hosts) == 7
    assert not any("SHARP" in note for note in whole.notes)


def test_a_weight_needs_a_number():
    assert command("fabric", "study", TESTBED, "--weights", "victims").returncode == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--protect", "mail"), "--protect mail: no class of this load; there are hotspots, background"),
        (("--weights", "mail=2"), "--weights mail: not one of victims, hotspots, background"),
        (("--weights", "victims=0"), "--weights: at least one weight must be above 0"),
        (("--weights", "victims=-1"), "--weights victims=-1: must be 0 to 1000"),
    ],
)
def test_unknown_classes_are_refused_before_any_run(tmp_path, options, message):
    done = command("fabric", "study", TESTBED, "--out", tmp_path / "out", *options)
    assert done.returncode == 1
    assert message in done.stderr
    assert not (tmp_path / "out" / "runs").exists()


def test_weights_make_the_score():
    drawn = load.draw([f"h{n}" for n in range(64)], 32.0, load.Shape(), 1)
    found = verdict.Care(weights=(("victims", 2.0), ("storage", 1.0))).objectives(drawn)
    assert {one.name: one.weight for one in found if one.weight} == {"victims": 2.0, "storage: received": 1.0}


def test_a_failure_names_the_hosts_that_lose(studied, tmp_path):
    """The hosts behind a switch that is down receive nothing, also with new tables."""
    out, _ = studied
    off = silvan.load(out / "without-control")

    def simulate(scenario, _title):
        return silvan.run(scenario)

    whole, one = failure.sentences(out / "site.toml", off, ["swB", "node-1"], simulate)
    assert re.fullmatch(
        r"Down: `swB` fails, .* Until new tables \([\d.]+ ms later\): \d hosts receive less \(node-3 100 %, "
        r"node-4 100 %, .* Gbit/s in all, -\d\d %\)\. After that: \d hosts .*\(node-3 100 %, .*\)\.",
        whole,
    )
    assert "node-1 100 %" in one.partition("After that")[0]
    assert "node-1 100 %" in one.partition("After that")[2]


def test_an_unknown_name_of_a_failure_is_refused_before_the_runs(tmp_path):
    done = command("fabric", "study", TESTBED, "--down", "SWA", "--out", tmp_path / "out")
    assert done.returncode == 1
    assert "--down SWA: no switch, host or port with a link has this name; did you mean `swA`?" in done.stderr
    assert not (tmp_path / "out" / "runs").exists()
