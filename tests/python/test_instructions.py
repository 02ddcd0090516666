"""The count of instructions: reading a profile, comparing with the record."""

import json
from collections import Counter

import pytest

import instructions
from conftest import script
from instructions import Count

PROFILE = """\
version: 1
creator: callgrind
events: Ir Bcm
fl=(1) a.rs
fn=(1) bench::counted
10 5 1
cfn=(2) model::hop::h0123456789abcdef
calls=3 20
11 600 6
12 2

fn=(2)
20 500 4
+1 100 2
fe=(1)
-3 7
fn=(3) model::hop'2
20 50
"""


def test_a_profile_counts_a_function_without_its_callees():
    found = instructions.read_profile(PROFILE).functions
    assert found == {
        "bench::counted": Counter(Ir=7, Bcm=1),
        "model::hop": Counter(Ir=657, Bcm=6),
    }
    assert Count(10, found, {}).per_hop("Ir") == pytest.approx(66.4)


def test_hot_code_is_the_smallest_set_of_lines_with_99_percent_of_the_instructions():
    profile = instructions.read_profile(
        """\
positions: instr line
events: Ir Bc Bcm
ob=(1) bench
fn=(1) bench::counted
0x100 10 900 5 1
0x13f 11 60
cob=(2) libc
cfn=(2) memcpy
calls=1 0x100 0
0x13c 11 500
0x140 12 6
0x1000 13 4
ob=(2)
fn=(2)
0x100 0 30
"""
    )
    assert profile.code == {("bench", 4): 960, ("bench", 5): 6, ("bench", 64): 4, ("libc", 4): 30}
    # 990 of 1,000 instructions lie in two of the four lines.
    assert Count(10, profile.functions, profile.code).hot_code_kib() == 2 * 64 / 1024
    assert Count(10, profile.functions, profile.code).per_hop("Bcm") == 0.1


def test_names_do_not_depend_on_the_build_or_the_processor():
    assert instructions.plain("__memcpy_avx_unaligned_erms") == instructions.plain(
        "__memcpy_evex_unaligned_erms"
    )
    assert instructions.plain("a::b::h0123456789abcdef'2") == "a::b"


def count(**functions):
    return Count(100, {name: Counter(Ir=number) for name, number in functions.items()}, {})


def test_small_functions_are_recorded_together():
    entry = instructions.recorded({"case": count(large=5_000, small=60, tiny=30)})["case"]
    assert entry == {
        "instructions_per_hop": 50.9,
        "mispredicted_per_hop": 0.0,
        "hot_code_kib": 0.0,
        "packet_hops": 100,
        "functions": {"large": 50.0, "all others": 0.9},
    }


def test_an_increase_names_the_functions_responsible(capsys):
    record = instructions.recorded({"case": count(same=50_000, slower=10_000, faster=3_000)})
    assert not instructions.compare(record, {"case": count(same=50_000, slower=11_800, faster=3_000)})
    assert "slower" not in capsys.readouterr().out
    assert instructions.compare(record, {"case": count(same=50_000, slower=13_000, faster=2_000, new=900)})
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[3] == "+4.6%"
    assert [line.split()[-1] for line in lines[2:]] == ["slower", "new"]


def test_small_increases_since_a_release_add_up(capsys):
    record = instructions.recorded({"case": count(one=10_400)})
    assert not instructions.compare(record, {"case": count(one=10_490)}, {"case": 100.0})
    assert instructions.compare(record, {"case": count(one=10_510)}, {"case": 100.0}), "over 5 %"
    assert capsys.readouterr().out.splitlines()[-1].split()[3:5] == ["+1.1%", "+5.1%"]
    assert not instructions.compare(record, {"case": count(one=10_700)}, {"other": 1.0})


def fake(tmp_path, monkeypatch, record=None):
    """Replace valgrind by a program that writes `PROFILE`, and the benchmark by one with a single case."""
    bench = script(
        tmp_path / "bench",
        """echo '[{"name": "uniform", "is_counted": true}, {"name": "large", "is_counted": false}]'""",
    )
    profile = tmp_path / "profile"
    profile.write_text(PROFILE)
    script(
        tmp_path / "valgrind",
        'for word in "$@"; do case $word in',
        f'--callgrind-out-file=*) cp {profile} "${{word#*=}}" ;; esac; done',
        """echo '{"packet_hops": 10}'""",
    )
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(instructions, "RECORDED", ("uniform",))
    file = tmp_path / "record.json"
    if record is not None:
        file.write_text(json.dumps(record))
    return file, ["--bench", str(bench), "--record", str(file)]


def test_a_record_is_written_and_compared(tmp_path, monkeypatch, capsys):
    file, words = fake(tmp_path, monkeypatch)
    assert instructions.main([*words, "--update"]) == 0
    record = json.loads(file.read_text())
    assert record["cases"]["uniform"]["instructions_per_hop"] == 66.4
    assert instructions.main(words) == 0
    record["cases"]["uniform"]["instructions_per_hop"] = 60.0
    file.write_text(json.dumps(record))
    assert instructions.main(words) == 1
    assert "+10.7%" in capsys.readouterr().out


def test_the_counts_of_a_release_are_kept(tmp_path, monkeypatch, capsys):
    file, words = fake(tmp_path, monkeypatch)
    assert instructions.main([*words, "--update"]) == 0
    assert instructions.main([*words, "--released", "1.2.0"]) == 0
    released = {"version": "1.2.0", "instructions_per_hop": {"uniform": 66.4}}
    assert json.loads(file.read_text())["released"] == released
    assert instructions.main([*words, "--update"]) == 0
    assert json.loads(file.read_text())["released"] == released
    record = json.loads(file.read_text())
    record["released"]["instructions_per_hop"]["uniform"] = 63.0
    file.write_text(json.dumps(record))
    capsys.readouterr()
    assert instructions.main(words) == 1, "5.4 % more than the release, and as many as on record"
    assert "+5.4%" in capsys.readouterr().out


def test_counts_of_another_compiler_are_not_compared(tmp_path, monkeypatch, capsys):
    record = {"environment": {"rustc": "rustc 1.0.0"}, "cases": {"uniform": {"instructions_per_hop": 1.0}}}
    _, words = fake(tmp_path, monkeypatch, record)
    assert instructions.main(words) == 0
    assert "not compared: the record was made with rustc 'rustc 1.0.0', here" in capsys.readouterr().out


def test_without_valgrind_nothing_fails(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert instructions.main([]) == 0
    assert "valgrind is not installed" in capsys.readouterr().out


def test_events_are_added_to_the_results_of_the_benchmark(tmp_path, monkeypatch, capsys):
    _, words = fake(tmp_path, monkeypatch)
    results = tmp_path / "bench.json"
    results.write_text('{"uniform": {"wall_s": 1.0}}')
    assert instructions.main([*words, "--caches", "--json", str(results)]) == 0
    assert "large" not in capsys.readouterr().out
    assert instructions.main([*words, "--caches", "large"]) == 0
    assert instructions.main([*words, "--caches", "uniform"]) == 0
    per_hop = json.loads(results.read_text())["uniform"]["per_hop"]
    assert per_hop == {"instructions": 66.4, "branch_misses": 0.7, "l1_misses": 0, "last_level_misses": 0}
    assert "66" in capsys.readouterr().out


def test_unknown_cases_are_an_error(tmp_path, monkeypatch, capsys):
    _, words = fake(tmp_path, monkeypatch)
    assert instructions.main([*words, "uniformly"]) == 2
    assert "no case `uniformly`; there are uniform, large" in capsys.readouterr().err
