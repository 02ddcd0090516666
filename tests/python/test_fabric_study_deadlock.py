"""Tests studies of fabrics whose routes can deadlock, and of networks that tables cannot describe."""

import json
from dataclasses import replace

import pytest

import silvan
from conftest import ROOT, command
from silvan.fabric.studies import files
from silvan.fabric.studies.study import Simulated, Studied, Unfinished

LANES = ROOT / "tests" / "data" / "lanes"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """Study a torus with shortest paths, on which the runs without control deadlock."""
    folder = tmp_path_factory.mktemp("torus")
    (folder / "torus.toml").write_text(
        'duration = "1 us"\n[topology]\nkind = "torus"\nsizes = [4, 4, 4]\nhosts_per_switch = 1\n'
        'link_rate = "32 Gbit/s"\n[routing]\nkind = "shortest-path"\nallow_deadlock = true\n'
        '[[traffic]]\npattern = { kind = "uniform" }\n'
    )
    routes = silvan.fabric.route(folder / "torus.toml")
    (folder / "wiring.topo").write_text(routes.network)
    (folder / "routes.lft").write_text(routes.tables)
    files = (folder / "wiring.topo", "--lft", folder / "routes.lft")
    return command("fabric", "study", *files, "--out", folder / "out"), folder / "out"


def test_a_study_without_verdict_starts_with_the_deadlock_everywhere(stopped):
    done, out = stopped
    assert done.returncode == 3
    first, second, third = done.stdout.splitlines()[:3]
    assert first.startswith("Deadlock: the routes of this fabric can deadlock: S")
    assert second.startswith("Deadlock: 2 runs did not finish: defaults, as drawn, seed 1 (deadlock at ")
    assert third == "No settings are recommended, because runs that a comparison needs deadlocked."
    # Nothing to paste follows the comments.
    assert (out / "opensm.conf").read_text() == f"# {first}\n# {second}\n# {third}\n"
    account = (out / "account.md").read_text().splitlines()
    assert account[2:5] == [f"- {first}", f"- {second}", f"- {third}"]
    assert "| without control | as drawn, seed 1 | deadlock at " in "\n".join(account)
    numbers = json.loads((out / "study.json").read_text())
    assert numbers["deadlock"] in first
    assert [one["settings"] for one in numbers["unfinished"]] == ["defaults", "without control"]


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    """Study a ring whose routes need lanes that the runs of a study do not use."""
    return silvan.fabric.study(LANES / "ring-6" / "lash", out=tmp_path_factory.mktemp("ring") / "out")


def test_a_study_with_a_verdict_still_starts_with_the_deadlock(ring, tmp_path):
    """One run of the survey deadlocks; the others are compared."""
    stopped = Unfinished("marking_rate 0", "drawn again 1, seed 1", "deadlock at 5.88 ms: each of these")
    site = replace(ring.site, report={**ring.site.report, "deadlock": "A:1 -> B:1 (VL 0), B:1 -> A:1 (VL 0)"})
    files.write(replace(ring, site=site, unfinished=(stopped,)), tmp_path)
    first = "Deadlock: the routes of this fabric can deadlock: A:1 -> B:1 (VL 0), B:1 -> A:1 (VL 0). "
    first += "No settings of congestion control exclude that; correct the routes first."
    second = "Deadlock: 1 run did not finish: marking_rate 0, drawn again 1, seed 1 (deadlock at 5.88 ms)."
    options = (tmp_path / "opensm.conf").read_text()
    assert options.startswith(f"# {first}\n# {second}\n# ")
    report = (tmp_path / "report.html").read_text()
    lead = report.index("<strong>Deadlock:</strong> the routes of this fabric can deadlock")
    verdict = ring.verdict.sentence().partition(":")[0]
    assert lead < report.index(f"<strong>{verdict}:</strong>") < report.index("All hosts receive")
    assert ("cc_sw_cong_setting" in options) == (ring.verdict.recommended is not None)


def test_lanes_that_the_runs_do_not_use_are_stated(ring):
    assert isinstance(ring, Studied)
    assert ring.lead()[0].startswith("Lanes: the routes cannot deadlock on the lanes of the fabric, but")
    # The status is that of the check.
    assert not ring.can_deadlock
    assert silvan.fabric.check(LANES / "ring-6" / "lash")["deadlock"] is None
    assert issubclass(Studied, Simulated)


def test_a_scenario_is_refused_with_its_routing(tmp_path):
    plain = command("fabric", "study", "job-collective", "--out", tmp_path / "out")
    hashed = command("fabric", "study", ROOT / "scenarios" / "roce-all-to-all-64.toml")
    assert plain.returncode == hashed.returncode == 1
    assert "job-collective: is a scenario, not a fabric" in plain.stderr
    assert "its forwarding tables, as files of a fabric: silvan fabric route job-collective " in plain.stderr
    assert "without `each flow hashed onto one of the shortest paths ([ecmp])`" in hashed.stderr
