"""Tests `silvan fabric study`: routes, load, output files, and messages for users."""

import json
import re

import numpy as np
import pytest
import tomllib

import silvan
from conftest import FABRICS, ROOT, command
from silvan import _opensm
from silvan.fabric.studies import files, load, routes, verdict
from silvan.tuning.outcome import Candidate, Contrast, Interval
from silvan.tuning.runs import Setting

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
        "Congestion trees without control", "What control changes", "Recommendation", "Recommended settings",
        "Figures",
    ):  # fmt: skip
        assert f"# {heading}\n" in account
    assert "without control" in said
    assert "Recommended settings" in said
    assert "Margin: ccti_timer" in said
    # The output starts with the recommendation and its harm.
    first, second = said.splitlines()[:2]
    assert first.startswith("Harm: with these settings, the links to hotspots carry ")
    assert second.startswith("Recommended: the settings below. Compared with no control: ")
    assert (out / "opensm.conf").read_text().startswith(f"# {first}\n# {second}\n")
    assert not (out / "not-recommended.conf").exists()
    margins = json.loads((out / "study.json").read_text())["margins"]
    assert set(margins) == {"cct_longest", "ccti_increase", "ccti_timer"}
    for margin in margins.values():
        assert len(margin["one_step_away"]) == 2 or margin["end"], "two sides, or why there is one alone"
    assert "(figures/tradeoff.png)" in account
    for figure in re.findall(r"\]\((figures/[\w.]+)\)", account):
        assert (out / figure).stat().st_size > 5000
    assert (out / "report.html").stat().st_size > 100_000
    for name in ("without-control", "defaults", "opensm-conf", "recommended"):
        assert silvan.load(out / name).summary["packets_delivered"] > 0


def test_what_is_recommended_can_be_pasted_and_run_again(studied):
    out, _ = studied
    scenario, _ = _opensm.load(out / "site.toml", out / "opensm.conf", {})
    shown = silvan.load(out / "recommended")
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
    assert numbers["links_in_trees"]["without control"] > numbers["links_in_trees"]["recommended"]
    assert max(link["offered_share"] for link in numbers["links"].values()) > 2


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


def harms(ratios, *protect):
    """Return the harm of settings with these ratios to no control; other ratios are 1."""
    same = Interval(1.0, 0.9, 1.1)
    by_name = {one.name: ratios.get(one.name, same) for one in OBJECTIVES}
    against = Contrast("no control", same, by_name, {})
    return verdict.harms(OBJECTIVES, against, verdict.Care(protect))


def test_harm_is_what_an_interval_proves_or_what_is_large():
    assert [one.name for one in OBJECTIVES] == [
        "victims", "hotspots", "hotspots: received", "storage: received", "storage: p99 latency",
    ]  # fmt: skip
    assert harms({}) == []
    (large,) = harms({"storage: received": Interval(0.69, 0.6, 0.8)})
    assert large.rules_out
    assert str(large) == "traffic `storage` receives 31 % less than without control (20 to 40 %)"
    (small,) = harms({"storage: received": Interval(0.97, 0.96, 0.98)})
    assert not small.rules_out
    assert harms({"storage: received": Interval(0.97, 0.96, 0.98)}, "storage")[0].rules_out
    (unproven,) = harms({"storage: received": Interval(0.8, 0.5, 1.2)})
    assert unproven.rules_out
    assert str(unproven).endswith("(-20 to 50 %); the interval contains no difference")
    (slow,) = harms({"storage: p99 latency": Interval(0.5, 0.4, 0.8)})
    assert slow.rules_out
    assert "is 2.00 times that without control (1.25 to 2.50)" in str(slow)
    # Contributors always wait for the hotspot, so the traffic on its link counts.
    assert harms({"hotspots: received": Interval(0.5, 0.4, 0.6)}) == []
    (idle,) = harms({"hotspots": Interval(0.9, 0.85, 0.95)})
    assert str(idle) == "the links to hotspots carry 10 % less than without control (5 to 15 %)"


def test_settings_that_harm_are_not_recommended():
    gain, same = Interval(2.0, 1.8, 2.2), Interval(1.02, 0.95, 1.1)
    candidate = Candidate("setting 1", Setting({}), {})
    loss = harms({"storage: received": Interval(0.69, 0.6, 0.8)})

    def option(score, *bad):
        return verdict.Option(candidate, Contrast("no control", score, {}, {}), tuple(bad))

    costly, kind, useless = option(gain, *loss), option(Interval(1.4, 1.3, 1.5)), option(same)
    assert verdict.choose((costly, kind)) is kind
    assert verdict.choose((costly, useless)) is None
    off = verdict.Verdict((costly, useless), None)
    assert off.sentence().startswith("Recommended: leave congestion control off, unless the gain is worth")
    assert off.warnings()[0].startswith("Harm: with these settings, traffic `storage` receives 31 % less")
    nothing = verdict.Verdict((useless,), None)
    assert nothing.sentence().endswith(
        "those with the best score make no difference: 1.020 (0.950 to 1.100)."
    )


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
    assert command("fabric", "study", TESTBED, "--weights", "victims").returncode == 2


def test_weights_make_the_score():
    drawn = load.draw([f"h{n}" for n in range(64)], 32.0, load.Shape(), 1)
    found = verdict.Care(weights=(("victims", 2.0), ("storage", 1.0))).objectives(drawn)
    assert {one.name: one.weight for one in found if one.weight} == {"victims": 2.0, "storage: received": 1.0}
