"""Tests the comparison with uet-htsim with a stand-in for its program, on 16 hosts."""

import stat
import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import htsim_race
import ns3_race

#: Reads the connections, and writes that each takes 200 us, and the one of host 0 400 us.
STAND_IN = """#!{python}
import sys
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert sys.argv[-3:] == ["mixed", "-paths", "128"], sys.argv
lines = open(words["-tm"]).read().splitlines()
assert lines[:2] == ["Nodes 16", "Connections 16"], lines
for line in lines[2:]:
    source, to = line.split()[0].split("->")
    time = 400 if source == "0" else 200
    print(f"Flow Uec_{{source}}_{{to}} flowId 1 uecSrc 0 finished at {{time}}.5 total messages 1")
"""


@pytest.fixture
def options(tmp_path, monkeypatch):
    monkeypatch.setattr(htsim_race, "HOSTS", 16)
    monkeypatch.setattr(htsim_race, "SCENARIO", htsim_race.SCENARIO.replace("radix = 16", "radix = 4"))
    program = tmp_path / "stand-in"
    program.write_text(STAND_IN.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return htsim_race.arguments(["--htsim", str(program), "--out", str(tmp_path), "--pairs", "1"])


def test_both_run_the_same_transfers(options, capsys):
    htsim_race.race(options)
    said = capsys.readouterr().out
    assert "16 transfers of 2000000 bytes" in said
    assert "ratio: " in said
    last, median = (
        next(line.split() for line in said.splitlines() if line.split()[:1] == [name])
        for name in ("100", "50")
    )
    assert (last[1], median[1]) == ("400.50", "200.50")
    # 2 MB with headers take 162.6 us at 100 Gbit/s.
    assert 163 < float(median[2]) < 250
    listed = (options.out / "flows.csv").read_text().splitlines()
    assert len(listed) == 17
    assert htsim_race.read_matrix((options.out / "flows.cm").read_text()) == htsim_race.permutation(1)


def test_transfers_that_do_not_end_are_an_error(options):
    options.duration = 100
    with pytest.raises(ns3_race.RaceError, match="Silvan: 0 of 16 transfers ended"):
        htsim_race.race(options)


def test_pairs_are_a_permutation_without_fixed_points():
    pairs = htsim_race.permutation(7)
    assert [source for source, _ in pairs] == sorted(to for _, to in pairs) == list(range(htsim_race.HOSTS))
    assert all(source != to for source, to in pairs)
    assert htsim_race.permutation(7) != htsim_race.permutation(8)


def test_other_matrices_are_refused(options):
    text = htsim_race.matrix(htsim_race.permutation(1))
    for wrong in (text.replace("start 0", "start 5", 1), text.replace("15->", "14->", 1), "Nodes 16\n"):
        with pytest.raises(ns3_race.RaceError, match="not a permutation of 16 hosts"):
            htsim_race.read_matrix(wrong)


def test_missing_files_are_an_error(tmp_path, capsys):
    with pytest.raises(SystemExit):
        htsim_race.arguments(["--matrix", str(tmp_path / "none")])
    assert "no such file" in capsys.readouterr().err
