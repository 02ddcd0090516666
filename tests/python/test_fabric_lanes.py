"""Tests the deadlock check per lane on fabrics routed by OpenSM, compared with ibdmchk."""

import re
import shutil
import subprocess

import pytest

import silvan
from conftest import ROOT, command

LANES = ROOT / "tests" / "data" / "lanes"
ROW = re.compile(r"^\| (\S+) \| (\S+) \| (loop|free) \| (loop|free) \|$", re.MULTILINE)
#: Verdicts of ibdmchk when the fabrics were created: fabric, engine, verdict on one lane, and with lanes.
SAID = ROW.findall((LANES / "README.md").read_text())


def verdict(report):
    return "free" if report["deadlock"] is None else "loop"


def test_there_are_enough_of_them():
    assert len(SAID) == 15
    assert {f"{name}/{engine}" for name, engine, *_ in SAID} == {
        str(path.relative_to(LANES)) for path in LANES.glob("*/*")
    }


@pytest.mark.parametrize(("name", "engine", "one", "many"), SAID)
def test_verdicts_are_those_of_ibdmchk(name, engine, one, many):
    folder = LANES / name / engine
    files = [folder / "ibnetdiscover.topo.gz", folder / "opensm-lfts.dump.gz"]
    alone = silvan.fabric.check(files)
    assert (verdict(alone), alone["lanes"]) == (one, None)
    report = silvan.fabric.check(folder)
    assert verdict(report) == many
    assert report["pairs_unroutable"] == report["lanes"]["discarded"] == 0
    assert any(lane["in_circles"] for lane in report["lanes"]["lanes"]) == (many == "loop")


@pytest.mark.parametrize(("name", "engine", "one", "many"), SAID)
@pytest.mark.skipif(shutil.which("ibdmchk") is None, reason="ibdmchk (Debian: ibutils) is not installed")
def test_ibdmchk_reads_what_is_written_and_agrees(name, engine, one, many, tmp_path):
    def run(*options):
        flags = ("-s", "opensm-subnet.lst", "-f", "opensm.fdbs", "-m", "opensm.mcfdbs")
        done = subprocess.run(
            ["ibdmchk", *flags, *options],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        # ibdmchk may crash after its verdict if the fabric has no multicast groups.
        assert ("Found credit loop" in done.stdout) != ("no credit loops found" in done.stdout), done.stdout
        return "loop" if "Found credit loop" in done.stdout else "free"

    files = silvan.fabric.ibdmchk(LANES / name / engine)
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    assert (run(), run("-c", "path-sl.txt", "-d", "sl2vl.txt")) == (one, many)
    again = silvan.fabric.check(tmp_path)
    ours = silvan.fabric.check(LANES / name / engine)
    for key in ("hops", "all_to_all", "deadlock", "lanes"):
        assert again[key] == ours[key], key


def test_all_kinds_of_files_say_the_same_of_a_fabric():
    folder = LANES / "ring-6" / "dfsssp"
    lanes = [folder / "opensm-sl2vl.dump.gz", folder / "path-sl.txt.gz"]
    told = ("used", "ignored", "topology")
    reports = [
        silvan.fabric.check([folder / wiring, folder / tables, *lanes])
        for wiring in ("ibnetdiscover.topo.gz", "opensm-subnet.lst.gz", "iblinkinfo.txt.gz")
        for tables in ("opensm-lfts.dump.gz", "opensm.fdbs.gz", "dump_fts.lft.gz")
    ]
    first, *others = [{k: v for k, v in report.items() if k not in told} for report in reports]
    assert all(report == first for report in others)
    assert [lane["lane"] for lane in first["lanes"]["lanes"]] == list(range(8))


def test_the_command_says_lanes_and_files(tmp_path):
    done = command("fabric", "check", LANES / "torus-5x5" / "torus-2QoS", "--ibdmchk", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "virtual lane 1" in done.stdout
    assert "80 directed links, free of deadlock" in done.stdout
    assert "SL-to-VL tables: " in done.stdout
    assert done.stderr.startswith("ibdmchk -s ")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "opensm-subnet.lst", "opensm.fdbs", "opensm.mcfdbs", "path-sl.txt", "sl2vl.txt",
    }  # fmt: skip
    again = command("fabric", "check", LANES / "ring-6" / "lash", "--ibdmchk", tmp_path / "out")
    assert again.returncode == 2
    assert "already exists" in again.stderr


def test_a_cycle_over_lanes_is_reported_with_them():
    done = command("fabric", "check", LANES / "mesh-4x4" / "minhop")
    assert done.returncode == 3
    assert "(VL 0)" in done.stdout
    assert "of them in cycles" in done.stdout
