"""Tests default routes of fabrics that Silvan did not generate, and the output of commands about routes."""

from __future__ import annotations

import importlib.util
import json

import pytest

import silvan
from conftest import FABRICS, ROOT, command

FT2 = FABRICS / "ft2-36p-h648" / "input.topo.gz"


def tool():
    """Load `tools/routes_table.py`."""
    spec = importlib.util.spec_from_file_location("routes_table", ROOT / "tools" / "routes_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLE = tool()
FOLDERS = {folder.parent: folder for folder in TABLE.folders()}


def test_the_table_has_the_flows_that_the_guide_states():
    table = TABLE.table()
    assert "| `4ary3tree-h64` | Silvan | 48 to 60 | 54.0 | 0 | impossible |" in table
    assert "|  | OpenSM, minhop | 0 to 192 | 54.0 | 96 | impossible |" in table
    assert "| `torus-5x5` | Silvan | 1 to 38 |" in table
    assert "|  | OpenSM, torus-2QoS | 15 to 15 | 15.0 | 0 | impossible on its lanes |" in table
    assert len(FOLDERS) == 11


@pytest.mark.parametrize("fabric", FOLDERS, ids=lambda fabric: fabric.name)
def test_routes_are_at_most_a_tenth_less_even_than_those_of_opensm(fabric):
    ours = TABLE.routed(FOLDERS[fabric])
    assert ours["pairs_unroutable"] == 0
    assert ours["deadlock"] is None
    assert ours["unused_links"] == 0
    for engine in ("updn", "ftree"):
        folder = fabric / engine
        if folder.is_dir() and any(folder.glob("opensm-lfts.dump*")):
            theirs = silvan.fabric.check(folder)
            assert ours["all_to_all"]["max"] <= 1.1 * theirs["all_to_all"]["max"]


def custom(leaves=6, spines=4, hosts=4):
    """Return a leaf-spine network as a custom network, with uniform traffic."""
    links = [(f"l{leaf}", f"s{spine}") for leaf in range(leaves) for spine in range(spines)]
    links += [(f"h{leaf}-{n}", f"l{leaf}") for leaf in range(leaves) for n in range(hosts)]
    names = ", ".join(f'"h{leaf}-{n}"' for leaf in range(leaves) for n in range(hosts))
    switches = [f"l{leaf}" for leaf in range(leaves)] + [f"s{spine}" for spine in range(spines)]
    wired = ", ".join(f'{{ from = "{one}", to = "{other}" }}' for one, other in links)
    made = ", ".join(f'{{ name = "{name}" }}' for name in switches)
    return (
        'duration = "200 us"\nwarmup = "50 us"\n[topology]\nkind = "custom"\nlink_rate = "100 Gbit/s"\n'
        f"hosts = [{names}]\nswitches = [{made}]\nlinks = [{wired}]\n"
        '[[traffic]]\npattern = { kind = "uniform" }\n'
    )


def test_uniform_traffic_uses_all_spines_of_a_custom_network():
    scenario = silvan.Scenario.from_toml(custom())
    load = scenario.check()["all_to_all"]
    assert (load["min"], load["max"]) == (20, 20)
    assert silvan.run(scenario).summary["throughput_gbit_s"] > 0.95 * 24 * 100 * 0.97
    one = scenario.with_overrides({"routing": {"kind": "up-down", "root": "s0"}})
    run = silvan.run(one)
    assert run.summary["throughput_gbit_s"] < 800
    found = [warning for warning in run.warnings if warning.startswith("the routes ")]
    assert found == [warning for warning in one.check()["warnings"] if warning.startswith("the routes ")]
    assert found[0].startswith("the routes leave 36 of 48 directed links between switches unused")
    assert "carries 80 flows, 4.0 times as many" in found[1]


def test_uniform_traffic_uses_all_spines_of_a_fabric():
    scenario = silvan.Scenario.from_toml(
        'duration = "60 us"\nwarmup = "30 us"\n'
        f'[topology]\nkind = "file"\nfile = "{FT2}"\ndefault_rate = "32 Gbit/s"\n'
        '[[traffic]]\npattern = { kind = "uniform" }\n[measure]\nforest = false\n'
    )
    assert silvan.run(scenario).summary["throughput_gbit_s"] > 19_500


def test_roots_can_be_named(tmp_path):
    tree = FABRICS / "4ary3tree-h64" / "ftree" / "ibnetdiscover.topo.gz"
    dump = tmp_path / "a.lft"
    done = command("fabric", "route", tree, "--out", dump)
    assert (done.returncode, done.stderr) == (0, "")
    done = command("fabric", "route", tree, "--out", dump, "--root", "sw-l2-000")
    assert done.returncode == 0
    assert "the routes leave 216 of 256 directed links between switches unused" in " ".join(
        done.stderr.split()
    )
    wiring = tmp_path / "network.topo"
    wiring.write_text(silvan.fabric.route(tree).network)
    checked = command("fabric", "check", wiring, "--lft", dump)
    assert "Warning: the routes leave 216 of 256" in checked.stdout
    found = json.loads(command("fabric", "check", wiring, "--lft", dump, "--json").stdout)
    assert (found["unused_links"], found["even_flows"]) == (216, 60.0)
    assert len(found["findings"]) == 2
    wrong = command("fabric", "route", tree, "--out", dump, "--root", "no-switch")
    assert (wrong.returncode, "is not a switch of this network" in wrong.stderr) == (1, True)
    wrong = command(
        "fabric", "route", tree, "--out", dump, "--root", "sw-l2-000", "--routing", "shortest-path"
    )
    assert (wrong.returncode, "has no roots" in wrong.stderr) == (1, True)


MESH = (
    'duration = "10 us"\n[topology]\nkind = "mesh"\nsizes = [4, 4]\nhosts_per_switch = 4\n'
    '[routing]\nkind = "shortest-path"\n[[traffic]]\npattern = { kind = "uniform" }\n'
)


def test_check_and_run_agree_on_deadlock(tmp_path):
    file = tmp_path / "mesh.toml"
    file.write_text(MESH)
    checked, ran = command("check", file), command("run", file, "--out", tmp_path / "out")
    assert (checked.returncode, ran.returncode) == (3, 1)
    assert "mesh: can deadlock" in checked.stdout
    message = [line for line in ran.stderr.splitlines() if "can deadlock: packets may wait" in line]
    assert message
    assert message[0] in checked.stderr
    allowed = command("check", file, "--set", "routing.allow_deadlock=true")
    assert allowed.returncode == 0
    assert "mesh: fine" in allowed.stdout
    assert "possible (allowed)" in allowed.stdout
    # A ring of five switches or more can deadlock on one lane.
    torus = command(
        *("check", file, "--set", "topology.kind=torus", "--set", "topology.sizes=[8, 8]"),
        *("--set", "routing.kind=dimension-order"),
    )
    assert torus.returncode == 3
    assert silvan.Scenario.from_toml(MESH).check()["refusal"].endswith("routing.allow_deadlock = true")
    collided = command("fabric", "collide", file, "--pattern", "ring", "--tries", "0")
    cycle = silvan.Scenario.from_toml(MESH).check()["deadlock"]
    assert collided.stdout.startswith(f"Deadlock: these routes can deadlock: {cycle}")


def test_collide_takes_the_name_of_a_scenario():
    told = silvan.fabric.collide(
        "job-collective", pattern="all-reduce=ring", ranks=16, placement="round-robin", tries=0
    )
    assert (told["now"]["worst_demand"], told["now"]["links_above_one"]) == (2.0, 16)


def test_check_and_collide_use_the_routes_of_the_scenario(tmp_path):
    file = tmp_path / "ecmp.toml"
    text = (
        'duration = "10 us"\n[topology]\nkind = "two-level-fat-tree"\nleaves = 8\nspines = 8\n'
        'hosts_per_leaf = 8\n[[traffic]]\npattern = { kind = "uniform" }\n'
    )
    file.write_text(text)
    plain = silvan.fabric.collide(file, pattern="shift", distance=8, tries=0)
    assert plain["now"]["worst_demand"] == 1.0
    file.write_text(text + "[ecmp]\n")
    hashed = silvan.fabric.collide(file, pattern="shift", distance=8, tries=0)
    assert hashed["now"]["worst_demand"] >= 2.0
    assert hashed["job"]["routes"] == "each flow hashed onto one of the shortest paths ([ecmp])"
    assert f"d-mod-k; {hashed['job']['routes']}" in " ".join(command("check", file).stdout.split())
    # A run hashes the flows of the first source of each host in the same way.
    flows = [{"from": f"H{n}", "to": f"H{(n + 7) % 64 + 1}"} for n in range(1, 65)]
    keys = {"flow": flows, "traffic": [], "duration": "100 us", "warmup": "50 us", "measure.links": True}
    run = silvan.run(silvan.Scenario.load(file, keys))
    links = run.numpy("links")
    used = set(links["link"][links["utilisation"] > 0].tolist())
    told = silvan.fabric.collide(file, pattern="shift", distance=8, tries=0, top=999)
    inner = {name for name in used if name.count(":") == 2}
    assert {row["link"] for row in told["now"]["links"]} == inner
    file.write_text(text + '[ecmp]\nspraying = "oblivious"\n')
    sprayed = silvan.fabric.collide(file, pattern="shift", distance=8, tries=0)
    assert sprayed["now"]["worst_demand"] == pytest.approx(1.0)
    assert "routes: packets sprayed" in command("fabric", "collide", file, "--pattern", "ring").stdout
    file.write_text(text + '[adaptive_routing]\nper = "flow"\n')
    with pytest.raises(silvan.FabricError, match="the routes depend on the load"):
        silvan.fabric.collide(file, pattern="ring")


def test_tables_that_need_lanes_are_written_with_a_warning(tmp_path):
    dragonfly = silvan.fabric.route("dragonfly-72")
    assert any(
        "these tables can deadlock unless virtual lanes exclude it" in one for one in dragonfly.findings
    )
    (tmp_path / "own.topo").write_text(dragonfly.network)
    (tmp_path / "own.lft").write_text(dragonfly.tables)
    cycle = silvan.fabric.check(tmp_path)["deadlock"]
    assert cycle is not None
    assert dragonfly.findings[-1].endswith(cycle)
    assert silvan.fabric.route("torus-64").findings == []
    done = command("fabric", "route", "dragonfly-72", "--out", tmp_path / "lft")
    assert done.stderr.startswith("Warning: ")
    assert cycle in done.stderr
