"""Tests of the adapter for ASTRA-sim, against a stand-in for ASTRA-sim's network interface."""

import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import astra_race
import build_astra
import silvan
from astra_race import COLLECTIVES, Workload
from conftest import ROOT

ADAPTER = ROOT / "crates" / "silvan-capi" / "astra"
STAND_IN = ROOT / "tests" / "astra"
#: The folder of the built library.
BUILT = Path(os.environ.get("SILVAN_LIBRARY", ROOT / "target" / "release"))
HEADER_BYTES, MTU, PS_PER_BYTE = 64, 4096, 20
#: Two links and the switch, ps.
LATENCY_PS = 2 * 20_000 + 100_000
MIB = 1 << 20
STAR = f"""\
[topology]
kind = "star"
hosts = 8
link_rate = "400 Gbit/s"
link_delay = "20 ns"

[packet]
mtu = "{MTU} B"
header = "{HEADER_BYTES} B"
"""


def link_ps(size):
    """Return the time of a message on a link, ps."""
    return (size + -(-size // MTU) * HEADER_BYTES) * PS_PER_BYTE


def delivery_ns(size):
    """Return the time at which ASTRA-sim sees a message that is sent at 0, ns."""
    return math.ceil((link_ps(size) + LATENCY_PS) / 1000)


def compiled(folder, main):
    """Compile a program with the adapter; return its path."""
    folders = [STAND_IN, ADAPTER, ROOT / "crates" / "silvan-capi" / "include"]
    strict = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    links = [BUILT / "libsilvan.a", "-lgcc_s", "-lpthread", "-ldl", "-lm"]
    sources = [main, ADAPTER / "network.cc"]
    command = ["g++", *strict, *(f"-I{one}" for one in folders), "-o", folder / main.stem, *sources, *links]
    subprocess.run(command, check=True)
    return folder / main.stem


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """Compile the program that uses the adapter; return a function that runs it."""
    folder = tmp_path_factory.mktemp("astra")
    (folder / "star.toml").write_text(STAR)
    program = compiled(folder, STAND_IN / "driver.cc")

    def run(*words, before=()):
        command = [*before, program, "star.toml", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)

    run.folder = folder
    return run


def calls(driver, *words):
    """Return the calls that the program prints: name and time in ns."""
    done = driver(*words)
    assert done.returncode == 0, done.stderr
    return [(name, int(time)) for name, time in map(str.split, done.stdout.splitlines())]


@pytest.mark.library
def test_two_receives_share_a_message(driver):
    sent = math.ceil(link_ps(2 * MIB) / 1000)
    whole = delivery_ns(2 * MIB)
    assert calls(driver, "two-receives") == [("sent", sent), ("first", whole), ("second", whole)]


@pytest.mark.library
def test_one_receive_needs_two_messages(driver):
    times = [("sent", math.ceil(count * link_ps(MIB) / 1000)) for count in (1, 2)]
    assert calls(driver, "two-sends") == [*times, ("both", delivery_ns(2 * MIB))]


@pytest.mark.library
@pytest.mark.parametrize("size", [3 << 30, 1, 0])
def test_one_message_is_received_once(driver, size):
    """A message without bytes counts as one byte."""
    assert calls(driver, "one-message", size) == [("whole", delivery_ns(max(size, 1)))]


@pytest.mark.library
def test_late_receives_are_complete_in_the_order_of_posting(driver):
    at = 1_000_000
    assert calls(driver, "late") == [("first", at), ("second", at), ("third", at + delivery_ns(MIB))]


@pytest.mark.library
def test_other_messages_do_not_match(driver):
    (name, time), *more = calls(driver, "others")
    assert name == "match"
    assert not more
    # The messages to two ranks take turns on the link, those to one rank follow each other.
    assert delivery_ns(4 * MIB) < time <= delivery_ns(5 * MIB)


@pytest.mark.library
def test_times_are_rounded_up_and_alarms_are_relative_to_them(driver):
    """A message of 1,001 bytes arrives at 161.3 ns."""
    arrival = 162
    assert delivery_ns(1001) == arrival
    assert calls(driver, "alarms", 1001) == [
        ("early", 10),
        ("arrived", arrival),
        ("now", arrival),
        ("later", arrival + 5),
        ("fraction", arrival + 5),
    ]


@pytest.mark.library
def test_rounding_does_not_accumulate(driver):
    one = link_ps(1001) + LATENCY_PS
    assert one % 1000
    assert calls(driver, "pingpong", 1001) == [("end", math.ceil(100 * one / 1000))]


@pytest.mark.library
@pytest.mark.parametrize("size", [MIB, 8 * 5_000, 8])
def test_a_ring_exceeds_its_closed_form_by_headers(driver, size):
    """The closed form has links without headers, and the latency of the network per step."""
    steps, part = 14, size // 8
    closed_ps = steps * (part * PS_PER_BYTE + LATENCY_PS)
    headers_ps = steps * -(-part // MTU) * HEADER_BYTES * PS_PER_BYTE
    assert calls(driver, "ring", size) == [("end", math.ceil((closed_ps + headers_ps) / 1000))]


@pytest.mark.library
def test_the_bandwidth_is_in_gigabytes_per_second(driver):
    assert calls(driver, "bandwidth") == [("bandwidth", 50)]


@pytest.mark.library
def test_the_dimensions_must_have_as_many_npus_as_the_network_has_hosts(driver):
    assert driver("dimensions", 4).stdout == "fine\n"
    for last, product in ((5, "10"), (3, "6"), (1 << 30, str(1 << 31))):
        said = driver("dimensions", last).stderr
        assert f"the dimensions 2 x {last} have {product} NPUs" in said
        assert "the network of the scenario has 8 hosts" in said
    assert "a dimension has 0 NPUs; it needs at least one" in driver("dimensions", 0).stderr


@pytest.mark.library
@pytest.mark.parametrize(
    ("case", "printed", "said"),
    [
        (
            ["waits"],
            [f"first {delivery_ns(100)}"],
            f"nothing is left to simulate; at {delivery_ns(100)} ns, 7 of 8 ranks have not finished, "
            "the first of them rank 1; receives that wait for bytes: 1",
        ),
        (["stranger", 8], ["returns -1"], "rank 0 sends 1 bytes to rank 8: host 8 does not exist"),
        (["throws"], [], "no such node"),
        (["delay"], [], "a delay is at least 0 and below 1e15 ns"),
        (["unit"], [], "only NS is supported"),
    ],
)
def test_errors_end_the_run_and_say_why(driver, case, printed, said):
    done = driver(*case)
    assert (done.returncode, done.stdout.splitlines()) == (1, printed)
    assert said in done.stderr


@pytest.mark.library
def test_an_invalid_scenario_is_an_error(driver):
    (driver.folder / "star.toml").write_text(STAR.replace("star", "tsar"))
    done = driver("bandwidth")
    (driver.folder / "star.toml").write_text(STAR)
    assert done.returncode == 1
    assert "tsar" in done.stderr


@pytest.mark.library
def test_the_run_ends_with_the_last_rank_and_writes_results(driver):
    assert driver("results").returncode == 0
    result = silvan.load(driver.folder / "results")
    assert result.summary["packet_hops"] < 100 * MIB // MTU


@pytest.mark.library
def test_the_program_reads_options_and_dimensions(tmp_path):
    program = compiled(tmp_path, ADAPTER / "main.cc")
    (tmp_path / "star.toml").write_text(STAR)
    (tmp_path / "two.json").write_text('{"logical-dims": ["4", 2]}')
    (tmp_path / "wrong.json").write_text('{"logical-dims": ["4", "3"]}')
    (tmp_path / "empty.json").write_text("{}")

    def run(*words):
        words = [f"--{word}" for word in ("network-configuration=star.toml", *words)]
        return subprocess.run([program, *words], capture_output=True, text=True, cwd=tmp_path, check=False)

    ends = [f"sys[{rank}] finished, {delivery_ns(1000)} cycles" for rank in range(8)]
    done = run("silvan-results=out")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["1 dimensions, 1 with queues", *ends]
    assert silvan.load(tmp_path / "out").summary["packet_hops"] == 16
    done = run("logical-topology-configuration=two.json")
    assert sorted(done.stdout.splitlines()) == ["2 dimensions, 2 with queues", *ends]
    for words, said in (
        (["logical-topology-configuration=wrong.json"], "the dimensions 4 x 3 have 12 NPUs"),
        (["logical-topology-configuration=empty.json"], 'it should contain {"logical-dims": ["8", "2"]}'),
        (["logical-topology-configuration=none.json"], "none.json cannot be read"),
        (["network-configuration=none.toml"], "none.toml: cannot be read"),
        (["silvan-result=out"], "no option --silvan-result; there are --"),
        (["silvan-results=/dev/null/out"], "the results cannot be written to /dev/null/out"),
        (["workload-configuration=quiet"], "1 of 8 ranks have not finished, the first of them rank 2"),
    ):
        done = run(*words)
        assert done.returncode == 1
        assert said in done.stderr


@pytest.mark.library
@pytest.mark.skipif(not shutil.which("valgrind"), reason="Valgrind is not installed")
@pytest.mark.parametrize("case", [["ring", 65536], ["stranger", 8]])
def test_valgrind_finds_no_error_and_no_leak(driver, case):
    kinds = "--errors-for-leak-kinds=definite,indirect"
    done = driver(*case, before=["valgrind", "-q", "--leak-check=full", kinds, "--error-exitcode=9"])
    assert done.returncode in {0, 1}, done.stderr


#: A program with the name of CMake, which writes down its arguments and creates what a build would create.
CMAKE = """\
#!/bin/sh
echo "$@" >> {log}
test "$1" = -S && mkdir -p "$4" && echo "${{5#-D}}" | sed s/=/:PATH=/ > "$4/CMakeCache.txt"
test "$1" = --build && touch "$2/AstraSim_Silvan"
exit {status}
"""


def test_the_build_starts_again_for_another_checkout(tmp_path, capsys, monkeypatch):
    def build(checkout, status=0):
        (tmp_path / "cmake").write_text(CMAKE.format(log=tmp_path / "log", status=status))
        (tmp_path / "cmake").chmod(0o755)
        for name in (
            build_astra.INTERFACE,
            *(f"{one}/{file}" for one, file in build_astra.SUBMODULES.items()),
        ):
            (tmp_path / checkout / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / checkout / name).touch()
        return build_astra.main([str(tmp_path / checkout), "--out", str(out)])

    out = tmp_path / "out"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(build_astra, "PROGRAMS", {"cmake": "cmake"})
    assert build("one") == 0
    assert capsys.readouterr().out == f"built {out / 'AstraSim_Silvan'}\n"
    configure, make = (tmp_path / "log").read_text().splitlines()
    assert f"-S {ADAPTER} -B {out}/build -DASTRA={tmp_path}/one -DCMAKE_PREFIX_PATH={out}/silvan" in configure
    assert make.startswith(f"--build {out}/build")
    (out / "build" / "object").touch()
    assert build("one") == 0
    assert (out / "build" / "object").exists()
    assert build("two") == 0
    assert not (out / "build" / "object").exists()
    assert build("two", status=1) == 1
    assert "the build failed: cmake -S" in capsys.readouterr().err


def test_the_build_says_what_it_needs(tmp_path, capsys, monkeypatch):
    def problems(*words):
        assert build_astra.main([*words, "--check"]) == 2
        return capsys.readouterr().err

    assert "make astra ASTRA=CHECKOUT" in problems("")
    assert f"{tmp_path} is not a checkout of ASTRA-sim" in problems(str(tmp_path))
    for name in (build_astra.INTERFACE, *(f"{one}/{file}" for one, file in build_astra.SUBMODULES.items())):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    (tmp_path / "extern/helper/fmt/CMakeLists.txt").unlink()
    assert f"git -C {tmp_path} submodule update --init extern/helper/fmt\n" in problems(str(tmp_path))
    (tmp_path / "extern/helper/fmt/CMakeLists.txt").touch()
    monkeypatch.setenv("PATH", "")
    assert "apt install cmake g++ protobuf-compiler libprotobuf-dev" in problems(str(tmp_path))
    for program in build_astra.PROGRAMS:
        (tmp_path / program).write_text(f"#!{sys.executable}\n")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build_astra.main([str(tmp_path), "--check"]) == 0


def stated():
    """Return the rows of the first table of the comparison of the page."""
    page = (ROOT / "docs" / "astra.md").read_text()
    rows = re.findall(r"^\| (all-\w+(?:-all)?) \| (\d+) \| (.*) \|$", page, re.MULTILINE)
    for collective, ranks, cells in rows:
        closed, *times = (float(cell.replace(",", "")) for cell in cells.split(" | "))
        yield Workload(collective.replace("-", "_"), int(ranks), MIB, MTU), closed, times


def test_the_page_states_closed_forms_and_what_silvan_adds():
    """A step of the analytical network takes whole nanoseconds, and the delay of a rank."""
    rows = list(stated())
    assert [(row.collective, row.ranks) for row, *_ in rows] == [
        (collective, ranks) for collective in COLLECTIVES for ranks in (4, 8, 16, 32, 64)
    ]
    for workload, closed, (analytical, _, of_silvan) in rows:
        assert closed == pytest.approx(workload.closed_form_ns(), abs=0.05)
        assert of_silvan == workload.silvan_ns()
        if workload.collective == "all_reduce":
            steps = 2 * (workload.ranks - 1)
            assert analytical == steps * (math.floor(closed / steps) + 1) + 1
    large = Workload("all_reduce", 4, 16 << 30, MTU).silvan_ns()
    page = " ".join((ROOT / "docs" / "astra.md").read_text().split())
    assert f"(16 GiB of each of 4 ranks: {large:,} ns)" in page


#: A program with the options of ASTRA-sim, which states the time that Silvan should have.
ASTRA_SIM = """\
#!{python}
import sys
sys.path.insert(0, {tools!r})
import re
from pathlib import Path
import astra_race
options = dict(word[2:].split("=") for word in sys.argv[1:] if "=" in word)
folder = Path(options["network-configuration"]).parent
collective, ranks = folder.name.rsplit("-", 1)
assert all((folder / f"trace.{{rank}}.et").stat().st_size > 50 for rank in range(int(ranks)))
end = astra_race.Workload(collective, int(ranks), 2**20, 4096).silvan_ns() + {more}
for rank in range(int(ranks)):
    print(f"[workload] [info] sys[{{rank}}] finished, {{end - rank}} cycles, exposed communication 0 cycles.")
"""


def test_the_comparison_fails_unless_silvan_has_the_expected_time(tmp_path, capsys):
    program = tmp_path / "program"

    def race(more, *words):
        program.write_text(ASTRA_SIM.format(python=sys.executable, tools=str(ROOT / "tools"), more=more))
        program.chmod(0o755)
        words = [*words, "--ranks", "4", "8", "--rounds", "2", "--out", str(tmp_path / "out")]
        return astra_race.main(list(words)), capsys.readouterr()

    status, said = race(0, "--silvan", str(program), "--analytical", str(program))
    assert status == 0
    assert "| all-reduce | 8 | 43,700.2 | 44,297 | " in said.out
    status, said = race(1, "--silvan", str(program))
    assert status == 1
    assert "takes 34958 ns with Silvan instead of 34957 ns" in said.err
    assert race(1, "--htsim", str(program), "--ns3", str(program))[0] == 0
    assert "--silvan, --analytical, --htsim or --ns3" in race(0)[1].err
    program.write_text("#!/bin/sh\necho no network\nexit 3\n")
    assert astra_race.main(["--htsim", str(program), "--out", str(tmp_path / "out")]) == 1
    assert "0 of 4 ranks have finished" in capsys.readouterr().err


def test_traces_are_read_as_chakra(tmp_path):
    astra_race.write(Workload("all_reduce", 4, MIB, MTU), tmp_path)
    text = subprocess.run(
        [sys.executable, "-m", "silvan.cli", "trace", "check", str(tmp_path / "trace.0.et")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert text.returncode == 0, text.stderr
    # A ring of 4 ranks has 2 (4 - 1) steps with a message of each rank.
    assert re.search(r"trace.0.et +chakra +4 .* 24 ", text.stdout), text.stdout
