"""Tests traces of applications, in Python and on the command line."""

import json
import shutil
import zipfile
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import silvan
from conftest import ROOT
from conftest import command as run_command
from silvan import _otf2, traces
from silvan.cli import application

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
    done = CliRunner().invoke(application(), ["trace", *words])
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
    # Each direction takes o + O, L + G, and o + O.
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


def test_a_trace_may_be_in_a_temporary_file(tmp_path: Path, ping_pong: Path) -> None:
    costs = {"latency": "1 us", "bandwidth": "100 Gbit/s", "rendezvous_above": "1 KiB"}
    for path in (ping_pong, HPCC.with_name("exchange.goal"), HPCC.with_name("chakra") / "graph.0.json"):
        assert traces.check(path, in_memory=0, **costs) == traces.check(path, **costs), path
        for ending in ("goal", "bin"):
            outs = [tmp_path / f"{name}.{ending}" for name in ("memory", "stored")]
            for out, in_memory in zip(outs, (1 << 20, 0), strict=True):
                traces.convert(path, out, in_memory=in_memory)
            assert outs[0].read_bytes() == outs[1].read_bytes()


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
    for kind in (*traces.KERNELS, *traces.COLLECTIVES):
        given = {"n": 256} if kind in traces.KERNELS else {"groups": 2, "iterations": 3}
        traces.generate(kind, tmp_path / "one.bin", ranks=4, **given)
        assert traces.check(tmp_path / "one.bin", rendezvous_above="0 B")["run"]["complete"], kind


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, ping_pong: Path) -> None:
    out = tmp_path / "none" / "out.goal"
    for call in (
        lambda: traces.convert(ping_pong, out),
        lambda: traces.generate("ping-pong", out),
    ):
        with pytest.raises(FileNotFoundError) as raised:
            call()
        assert str(raised.value) == f"[Errno 2] No such file or directory: '{out}'"
    done = run_command("trace", "convert", ping_pong, out)
    assert done.returncode == 1
    assert (str(out) in done.stderr, "partial" in done.stderr) == (True, False)


def test_wrong_arguments_are_told(tmp_path: Path, ping_pong: Path) -> None:
    goal = tmp_path / "out.goal"
    (tmp_path / "other.goal").touch()
    for call, message in (
        (lambda: traces.check(tmp_path / "none"), "cannot be read: No such file"),
        (lambda: traces.check(tmp_path), "is a folder without files that are numbered by rank"),
        (lambda: traces.check(ping_pong, format="ti"), ":1: `num_ranks` is neither a rank nor a file"),
        (lambda: traces.check(ping_pong, latency="1"), "the unit is missing"),
        (lambda: traces.check(ping_pong, compute_scale=-1), "compute_scale = -1: must be 0 to 1e12"),
        (lambda: traces.check(ping_pong, host_flops=0), "host_flops = 0: must be 1 or more"),
        (lambda: traces.check(ping_pong, speed=5), "unknown field `speed`"),
        (
            lambda: traces.check(ping_pong, algorithms={"barrier": "ring"}),
            "algorithm `ring` of barrier is not one of",
        ),
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
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"ping_pong.goal", "other.goal"}, "nothing is left of what failed"


def test_the_command_checks_several_and_says_what_waits(tmp_path: Path, ping_pong: Path) -> None:
    stuck = tmp_path / "stuck.goal"
    both = "a: recv 8b from {0}\nb: send 8b to {0}\nb requires a\n"
    stuck.write_text(f"num_ranks 2\nrank 0 {{\n{both.format(1)}}}\nrank 1 {{\n{both.format(0)}}}\n")
    fine = command("check", str(ping_pong), str(HPCC / "mpifft-8ranks.txt.gz"))
    assert "all-to-all by pairwise" in fine
    assert "7 calls at the ends were left out" in fine
    told = command("check", str(ping_pong), str(stuck), status=1)
    assert "rank 0, operation 0: receive 8 bytes from rank 1, tag 0: rank 1 never reaches its send" in told
    assert "ranks wait for each other in a cycle: 0 -> 1 -> 0" in told
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
    assert "is not a number" in command("generate", "fft", str(out), "--set", "ranks=many", status=2)


def event(kind: str, time: int, **fields: Any) -> Any:
    """Create an event as the package otf2 does, where the name of the class is the kind of the event."""
    return type(kind, (SimpleNamespace,), {})(time=time, **fields)


def calls_of(events: list[tuple[str, Any]], ranks: int = 2) -> list[str]:
    group = SimpleNamespace(members=[f"at {rank}" for rank in range(ranks)])
    world = SimpleNamespace(name="MPI_COMM_WORLD", group=group)
    pair = SimpleNamespace(name="pair", group=SimpleNamespace(members=["at 1", "at 0"]))
    alone = SimpleNamespace(name="MPI_COMM_SELF", group=SimpleNamespace(members=()))
    calls = _otf2.Calls(_otf2.Communicators([world, pair, alone]), start=1000, ticks=500_000_000)
    known = {"world": world, "pair": pair, "self": alone}
    for location, one in events:
        if hasattr(one, "communicator"):
            one.communicator = known[one.communicator]
        calls.add(location, one)
    return list(calls.lines())


def within(name: str, begin: int, end: int, *events: Any) -> list[tuple[str, Any]]:
    region = SimpleNamespace(name=name)
    inside = [event("Enter", begin, region=region), *events, event("Leave", end, region=region)]
    return [("at 0", one) for one in inside]


def test_otf2_events_become_calls() -> None:
    sent = {"communicator": "world", "msg_length": 80, "msg_tag": 5}
    told = calls_of(
        [
            *within("MPI_Init", 1000, 1500),
            *within("main", 1500, 1600),
            *within("MPI_Irecv", 1600, 1610, event("MpiIrecvRequest", 1605, request_id=7)),
            *within("MPI_Isend", 1620, 1630, event("MpiIsend", 1625, receiver=1, request_id=8, **sent)),
            *within(
                "MPI_Waitall", 1640, 1650,
                event("MpiIrecv", 1645, sender=0, request_id=7, **(sent | {"communicator": "pair"})),
                event("MpiIsendComplete", 1645, request_id=8),
            ),
            *within(
                "MPI_Sendrecv", 1660, 1670,
                event("MpiSend", 1665, receiver=1, **sent), event("MpiRecv", 1666, sender=1, **sent),
            ),
            *within(
                "MPI_Allreduce", 1680, 1690,
                event("MpiCollectiveEnd", 1685, collective_op="CollectiveOp.ALLREDUCE", communicator="pair",
                      root=0, size_sent=16, size_received=16),
            ),
            *within("MPI_Irecv", 1700, 1710, event("MpiIrecvRequest", 1705, request_id=9)),
        ]
    )  # fmt: skip
    assert told == [
        "# Recorded with OTF2, 2 ranks",
        "COMM 1 members 1 0",
        "0 0 1000 Waitall n 0",
        "0 1200 1210 Irecv src 1 maxbytes 80 tag 5 comm 1 req 7",
        "0 1200 1220 Waitall n 0",
        "0 1240 1260 Isend dst 1 bytes 80 tag 5 comm 0 req 8",
        "0 1280 1300 Waitall n 2 7 8",
        "0 1320 1340 Sendrecv dst 1 bytes 80 tag 5 comm 0 src 1 rbytes 80 rtag 5",
        "0 1360 1380 Allreduce bytes 8 comm 1 size 2",
        "0 1400 1420 Waitall n 0",
    ]


@pytest.mark.parametrize(
    ("name", "sent", "received", "size"),
    [
        ("BARRIER", 0, 0, 0),
        ("BCAST", 0, 400, 400),
        ("GATHER", 400, 1600, 400),
        ("GATHER", 0, 1200, 400),
        ("SCATTER", 1600, 400, 400),
        ("REDUCE", 400, 0, 400),
        ("REDUCE", 0, 1200, 400),
        ("ALLREDUCE", 1600, 1600, 400),
        ("ALLREDUCE", 2997, 2997, 999),
        ("ALLTOALL", 1600, 1600, 400),
        ("ALLGATHER", 400, 1600, 400),
        ("SCAN", 1200, 800, 400),
    ],
)
def test_sizes_are_as_score_p_writes_them(name: str, sent: int, received: int, size: int) -> None:
    assert _otf2._size(name, sent, received, ranks=4, me=1) == size


def test_what_otf2_has_and_is_not_read_is_told(tmp_path: Path) -> None:
    done = {"communicator": "world", "root": 0, "size_sent": 1, "size_received": 1}
    for what, message in (
        (
            event("MpiCollectiveEnd", 1, collective_op="CollectiveOp.ALLTOALLV", **done),
            "ALLTOALLV is not supported",
        ),
        (
            event("MpiSend", 1, receiver=0, communicator="self", msg_length=1, msg_tag=1),
            "ranks are not recorded",
        ),
    ):
        with pytest.raises(silvan.TraceError, match=message):
            calls_of([("at 0", what)])
    with pytest.raises(silvan.TraceError, match="which is not a rank, communicates"):
        calls_of([(type("Location", (), {"name": "GPU"})(), event("MpiRecv", 1))])
    with pytest.raises(silvan.TraceError, match=r"pip install 'silvan\[otf2\]'|no such file"):
        _otf2.write(tmp_path / "none.otf2", StringIO())


def test_an_otf2_trace_is_read_whole(tmp_path: Path) -> None:
    otf2 = pytest.importorskip("otf2")
    with otf2.writer.open(str(tmp_path / "run"), timer_resolution=10**9) as trace:
        tree = trace.definitions.system_tree_node("node")
        processes = [
            trace.definitions.location_group(f"rank {rank}", system_tree_parent=tree) for rank in range(2)
        ]
        places = [trace.definitions.location("main", group=process) for process in processes]
        trace.definitions.group(
            "ranks", group_type=otf2.GroupType.COMM_LOCATIONS, paradigm=otf2.Paradigm.MPI, members=places
        )
        group = trace.definitions.group(
            "world", group_type=otf2.GroupType.COMM_GROUP, paradigm=otf2.Paradigm.MPI, members=places
        )
        world = trace.definitions.comm("MPI_COMM_WORLD", group)
        region = trace.definitions.region("MPI_Send")
        sender, receiver = (trace.event_writer_from_location(place) for place in places)
        sender.enter(1000, region)
        sender.mpi_send(1100, 1, world, 5, 64)
        sender.leave(1200, region)
        receiver.enter(1500, region)
        receiver.mpi_recv(1600, 0, world, 5, 64)
        receiver.leave(1700, region)
    checked = traces.check(tmp_path / "run" / "traces.otf2")
    assert (checked["format"], checked["run"]["complete"]) == ("otf2", True)
    assert checked["contents"]["bytes"] == 64
    assert checked["run"]["span_ps"] == 500 * 1000, "the clock begins with the first event"
    done = traces.convert(tmp_path / "run" / "traces.otf2", tmp_path / "run.goal")
    assert done["contents"] == checked["contents"]


@pytest.mark.parametrize("kind", ["tar", "gztar", "zip", "zip64"])
def test_an_archive_stands_for_the_trace_in_it(tmp_path, kind, monkeypatch):
    if kind == "zip64":
        # The module states larger numbers with 64 bits.
        kind = "zip"
        monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 10)
    folder = tmp_path / "in" / "set"
    folder.mkdir(parents=True)
    for rank in range(3):
        (folder / f"job{rank}.txt").write_text(f"{rank} init\n{rank} barrier\n{rank} finalize\n")
    made = shutil.make_archive(str(tmp_path / "trace"), kind, tmp_path / "in")
    whole, packed = traces.check(folder), traces.check(made)
    assert packed["files"] == [made]
    assert packed | {"files": []} == whole | {"files": []}
    program = f'{{ kind = "trace", file = "{made}" }}'
    result = silvan.run(
        silvan.Scenario.from_toml(f"""
        duration = "1 ms"
        topology = {{ kind = "star", hosts = 3, link_rate = "100 Gbit/s" }}
        [[job]]
        program = {program}
    """)
    )
    assert result.summary["jobs"][0]["finished_ns"] is not None
    (folder / "job1.txt").unlink()
    made = shutil.make_archive(str(tmp_path / "gap"), kind, tmp_path / "in")
    with pytest.raises(silvan.TraceError, match=r"gap\.[a-z.]+/set/job1\.txt is missing"):
        traces.check(made)


@pytest.mark.parametrize("gap", [0, 1, 2])
def test_a_missing_file_of_a_rank_is_named(tmp_path: Path, gap: int) -> None:
    for rank in range(4):
        (tmp_path / f"job{rank}.txt").write_text(f"{rank} init\n{rank} compute 1e6\n{rank} finalize\n")
    assert traces.check(tmp_path / "job2.txt")["contents"]["ranks"] == 4
    (tmp_path / f"job{gap}.txt").unlink()
    for rank in {0, 1, 2, 3} - {gap}:
        with pytest.raises(
            silvan.TraceError, match=rf"job{gap}\.txt is missing: the trace has a file for each"
        ):
            traces.check(tmp_path / f"job{rank}.txt")
