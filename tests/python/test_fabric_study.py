"""`silvan fabric study`: routes, the load, what is written, and what a new user meets."""

import json
import re

import numpy as np
import pytest
import tomllib

import silvan
from conftest import FABRICS, ROOT, command
from silvan import _opensm
from silvan.fabric.studies import files, load, routes

TESTBED = FABRICS / "sw2-h7" / "minhop"


def routed(*names):
    return routes.read(silvan.fabric.ibdmchk(FABRICS.joinpath(*names)))


@pytest.mark.parametrize(
    "names",
    [("sw2-h7", "minhop"), ("4ary3tree-h64", "updn"), ("4ary3tree-h64", "ftree"), ("ft2-36p-h648", "updn")],
)
def test_all_to_all_loads_links_as_the_check_of_the_fabric_says(names):
    """Two ways to the same numbers: tables walked here, and in the simulator."""
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
        "Congestion trees without control", "What control changes", "Recommended settings", "Figures",
    ):  # fmt: skip
        assert f"# {heading}\n" in account
    assert "without control" in said
    assert "Recommended settings" in said
    assert "Margin: ccti_timer" in said
    margins = json.loads((out / "study.json").read_text())["margins"]
    assert set(margins) == {"cct_longest", "ccti_increase", "ccti_timer"}
    for margin in margins.values():
        assert len(margin["one_step_away"]) == 2 or margin["end"], "two sides, or why there is one alone"
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
