"""Traces of applications, from Python and from the command."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import silvan
from conftest import ROOT
from silvan import traces
from silvan.cli import app

HPCC = ROOT / "tests" / "data" / "traces" / "hpcc-8"

PING_PONG = """num_ranks 2
rank 0 {
a: send 1000b to 1
b: recv 1000b from 1
b requires a
}
rank 1 {
a: recv 1000b from 0
b: send 1000b to 0
b requires a
}
"""


def command(*words: str, status: int = 0) -> str:
    done = CliRunner().invoke(app, ["trace", *words])
    assert done.exit_code == status, done.output
    return done.output


@pytest.fixture
def ping_pong(tmp_path: Path) -> Path:
    path = tmp_path / "ping_pong.goal"
    path.write_text(PING_PONG)
    return path


def test_a_check_runs_the_trace(ping_pong: Path) -> None:
    checked = traces.check(
        ping_pong, latency="1 us", overhead="500 ns", bandwidth="8 Gbit/s", copy="80 Gbit/s"
    )
    assert (checked["format"], checked["files"]) == ("goal", [str(ping_pong)])
    assert checked["contents"]["bytes"] == 2000
    # Each way: o + O, L + G, o + O.
    assert checked["run"]["span_ps"] == 2 * 1000 * (2 * (500 + 100) + 1000 + 1000)
    slow = traces.check(ping_pong, latency="1 us", rendezvous_above="999 B")
    assert slow["run"]["span_ps"] == 2 * 1000 * 3000


def test_a_trace_is_the_same_in_every_form(tmp_path: Path) -> None:
    request = {
        "latency": "1.234 us",
        "overhead": "70 ns",
        "bandwidth": "13.6 Gbit/s",
        "rendezvous_above": "4 KiB",
    }
    source = HPCC / "ptrans-8ranks.txt.gz"
    algorithms = {"all-reduce": "ring", "barrier": "binomial"}
    first = traces.check(source, algorithms=algorithms, **request)
    assert {use["operation"]: use["algorithm"] for use in first["collectives"]}["all-reduce"] == "ring"
    for name in ("t.goal", "t.bin"):
        done = traces.convert(source, tmp_path / name, algorithms=algorithms)
        assert done["contents"] == first["contents"]
        assert traces.check(tmp_path / name, **request)["run"] == first["run"]
    again = traces.convert(tmp_path / "t.goal", tmp_path / "u.bin")
    assert again["contents"] == first["contents"]
    assert (tmp_path / "u.bin").read_bytes() == (tmp_path / "t.bin").read_bytes()


def test_large_files_are_read_through(tmp_path: Path) -> None:
    traces.generate("natural-ring", tmp_path / "ring.bin", ranks=16, bytes=8, iterations=5)
    streamed = traces.check(tmp_path / "ring.bin", stream=True)
    assert streamed["run"] is None
    assert streamed["contents"] == traces.check(tmp_path / "ring.bin")["contents"]


def test_generators_take_sizes(tmp_path: Path) -> None:
    step = tmp_path / "step.goal"
    sizes = {"tensor": 2, "pipeline": 2, "data": 4, "micro_batches": 4, "layers": 4, "flops": 1e14}
    done = traces.generate("transformer", step, algorithms={"all-reduce": "ring"}, **sizes)
    assert done["contents"]["ranks"] == 16
    assert done["collectives"] == [
        {"operation": "all-reduce", "algorithm": "ring", "calls": 16 * (2 * 4 * 4 + 1)}
    ]
    assert traces.check(step)["run"]["complete"]
    same = tmp_path / "same.goal"
    traces.generate("transformer", same, algorithms={"all-reduce": "ring"}, **sizes)
    assert same.read_bytes() == step.read_bytes()
    for kernel in traces.KERNELS:
        traces.generate(kernel, tmp_path / "kernel.bin", ranks=4, n=256)
        assert traces.check(tmp_path / "kernel.bin", rendezvous_above="0 B")["run"]["complete"], kernel


def test_wrong_arguments_are_told(tmp_path: Path, ping_pong: Path) -> None:
    goal = tmp_path / "out.goal"
    for call, message in (
        (lambda: traces.check(tmp_path / "none"), "cannot be read: No such file"),
        (lambda: traces.check(tmp_path), "is a folder; a plain file is wanted"),
        (lambda: traces.check(ping_pong, format="ti"), ":1: `num_ranks` is neither a rank nor a file"),
        (lambda: traces.check(ping_pong, latency="1"), "the unit is missing"),
        (lambda: traces.check(ping_pong, compute_scale=-1), "compute_scale = -1: must be 0 to 1e12"),
        (lambda: traces.check(ping_pong, host_flops=0), "host_flops = 0: must be 1 or more"),
        (lambda: traces.check(ping_pong, speed=5), "unknown field `speed`"),
        (lambda: traces.check(ping_pong, algorithms={"barrier": "ring"}), "barrier by `ring` is not one of"),
        (lambda: traces.check(ping_pong, limit=3), "more than 3 operations and dependencies"),
        (lambda: traces.convert(ping_pong, tmp_path / "out.txt"), "a trace is written as GOAL"),
        (lambda: traces.convert(ping_pong, ping_pong), "is the trace itself; choose another file"),
        (lambda: traces.generate("lu", goal), "`lu` is not one of ping-pong,"),
        (lambda: traces.generate("fft", goal, size=3), "unknown field `size`"),
        (lambda: traces.generate("fft", goal, ranks=1), "ranks = 1: must be 2 to 1048576"),
    ):
        with pytest.raises(silvan.TraceError) as raised:
            call()
        assert message in str(raised.value)
    assert list(tmp_path.iterdir()) == [ping_pong], "nothing is left of what failed"


def test_otf2_is_refused_by_name(tmp_path: Path) -> None:
    anchor = tmp_path / "traces.otf2"
    anchor.write_bytes(b"OTF2\0\0\0")
    with pytest.raises(silvan.TraceError, match="this is OTF2"):
        traces.check(anchor)


def test_the_command_checks_several_and_says_what_waits(tmp_path: Path, ping_pong: Path) -> None:
    stuck = tmp_path / "stuck.goal"
    both = "a: recv 8b from {0}\nb: send 8b to {0}\nb requires a\n"
    stuck.write_text(f"num_ranks 2\nrank 0 {{\n{both.format(1)}}}\nrank 1 {{\n{both.format(0)}}}\n")
    fine = command("check", str(ping_pong), str(HPCC / "mpifft-8ranks.txt.gz"))
    assert "all-to-all by pairwise" in fine
    assert "7 calls at the ends are left out" in fine
    told = command("check", str(ping_pong), str(stuck), status=1)
    assert "rank 0, operation 0: receive 8 bytes from rank 1, tag 0: rank 1 never comes to its send" in told
    assert "ranks wait for each other in a circle: 0 -> 1 -> 0" in told
    listed = json.loads(command("check", "--json", str(ping_pong), "--latency", "1 us"))
    assert [one["run"]["span_ps"] for one in listed] == [2_000_000]
    bad = tmp_path / "bad.goal"
    bad.write_text("num_ranks 1\nrank 0 {\nput 8b to 0\n}\n")
    told = command("check", str(bad), str(ping_pong), status=1)
    assert "bad.goal:3: `put` belongs to the Portals dialect" in told.replace("\n", "")
    assert "ping_pong.goal" in told, "the others are checked all the same"


def test_files_of_ranks_are_one_trace(tmp_path: Path) -> None:
    (tmp_path / "job0.txt").write_text("0 init\n0 send 1 0 1e3\n")
    (tmp_path / "job1.txt").write_text("1 init\n1 recv 0 0 1e3\n")
    listed = json.loads(command("check", "--json", str(tmp_path / "job0.txt"), str(tmp_path / "job1.txt")))
    assert [len(one["files"]) for one in listed] == [2]


def test_the_command_converts_and_generates(tmp_path: Path, ping_pong: Path) -> None:
    out = tmp_path / "out.bin"
    assert "2 ranks, 2 messages of 2,000 bytes in all" in command("convert", str(ping_pong), str(out))
    told = command("generate", "fft", str(out), "--set", "ranks=8", "--set", "points=65536",
                   "--algorithm", "all-to-all=bruck")  # fmt: skip
    assert "all-to-all by bruck" in told
    assert "is not NAME=VALUE" in command("generate", "fft", str(out), "--set", "ranks", status=2)
    assert "is no number" in command("generate", "fft", str(out), "--set", "ranks=many", status=2)
