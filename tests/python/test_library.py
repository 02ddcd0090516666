"""Tests that programs in C, C++ and Python get the same times from the library, and those of closed forms."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import silvan
from conftest import ROOT

SOURCES = ROOT / "crates" / "silvan-capi"
HEADER = SOURCES / "include" / "silvan.h"
#: The folder of the built library.
BUILT = Path(os.environ.get("SILVAN_LIBRARY", ROOT / "target" / "release"))
STAR = """\
[topology]
kind = "star"
hosts = {hosts}
link_rate = "400 Gbit/s"
link_delay = "20 ns"

[packet]
mtu = "4 KiB"
header = "64 B"
"""
PS_PER_BYTE = 20
#: Two links and the switch, ps.
LATENCY_PS = 2 * 20_000 + 100_000
HEADER_BYTES, MTU = 64, 4096


def on_the_link(size):
    """Return the time of a message on a link, ps."""
    return (size + -(-size // MTU) * HEADER_BYTES) * PS_PER_BYTE


def ring_ps(hosts, size):
    """Return the time of a ring all-reduce: the last packet follows the others without a gap."""
    return 2 * (hosts - 1) * (on_the_link(size // hosts) + LATENCY_PS)


def ring(network, size):
    """Perform a ring all-reduce; return its time in ps."""
    hosts = network.hosts
    part, left = size // hosts, [2 * (hosts - 1)] * hosts

    def step(me):
        if left[me]:
            left[me] -= 1
            network.recv(me, (me - 1) % hosts, part, lambda: step(me))
            network.send(me, (me + 1) % hosts, part)

    for me in range(hosts):
        step(me)
    network.run()
    assert left == [0] * hosts
    return network.now_ps


@pytest.fixture
def star(tmp_path):
    file = tmp_path / "star.toml"
    file.write_text(STAR.format(hosts=8))
    return file


@pytest.mark.parametrize("size", [1 << 20, 8 * 5_000, 8])
def test_a_ring_takes_its_steps(star, size):
    assert ring(silvan.ControlledRun(star), size) == ring_ps(8, size)


def test_all_to_all_takes_the_bytes_of_one_host_and_one_latency(star):
    """A host's messages follow each other on its link, and those for one host come from different hosts."""
    network = silvan.ControlledRun(star)
    part = (1 << 20) // 8
    for shift in range(1, 8):
        for me in range(8):
            network.send(me, (me + shift) % 8, part)
    network.run()
    least = 7 * on_the_link(part) + LATENCY_PS
    # Flows of a host take turns, so messages of different hosts meet at outputs for at most a few packets.
    assert least <= network.now_ps <= least + 8 * on_the_link(MTU)


def test_receives_match_bytes(star):
    network = silvan.ControlledRun(star)
    mib, called = 1 << 20, []
    for name in "ab":
        network.recv(1, 0, mib, lambda name=name: called.append((name, network.now_ps)), tag=3)
    network.send(0, 1, 2 * mib, tag=3)
    network.recv(2, 3, 2 * mib, lambda: called.append(("c", network.now_ps)))
    network.send(3, 2, mib)
    network.send(3, 2, mib)
    network.run()
    both = on_the_link(2 * mib) + LATENCY_PS
    assert called == [("a", both), ("b", both), ("c", both)]


def test_results_are_those_of_a_run(star, tmp_path):
    network = silvan.ControlledRun(star, seed=5, external__name="ring")
    ring(network, 1 << 20)
    result = network.finish()
    result.save(tmp_path / "out")
    loaded = silvan.load(tmp_path / "out")
    assert loaded.provenance["seed"] == 5
    assert [one["class"] for one in loaded.summary["classes"]] == ["ring"]
    assert sum(loaded.numpy("hosts")["received_bytes"]) == 14 * (1 << 20)
    with pytest.raises(ValueError, match="finished"):
        network.run()


def test_a_program_sends_among_other_traffic(tmp_path):
    file = tmp_path / "busy.toml"
    text = STAR.format(hosts=8)
    file.write_text(f'duration = "1 ms"\n{text}\n[external]\n[[flow]]\nfrom = "H1"\nto = "H2"\n')
    alone, busy = silvan.ControlledRun, silvan.ControlledRun(file)
    busy.send(2, 1, 1 << 20)
    busy.run()
    assert 1.9 < busy.now_ps / on_the_link(1 << 20) < 2.1
    file.write_text(f'duration = "50 us"\n{text}[[flow]]\nfrom = "H1"\nto = "H2"\n')
    closed = alone(file)
    with pytest.raises(ValueError, match=r"\[external\]"):
        closed.send(0, 1, 1)
    closed.run()
    assert closed.finish().summary == silvan.run(silvan.Scenario.load(file)).summary


def test_errors_name_what_is_wrong(star, tmp_path):
    network = silvan.ControlledRun(star)
    with pytest.raises(ValueError, match="host 8 does not exist: hosts have the numbers 0 to 7"):
        network.send(0, 8, 1)
    with pytest.raises(ValueError, match="at least one byte"):
        network.recv(0, 1, 0, print)
    network.at(10, network.run)
    with pytest.raises(ValueError, match=r"must not call run\(\)"):
        network.run()
    with pytest.raises(silvan.ScenarioError, match=r"docs/library\.md"):
        silvan.run(silvan.Scenario.load(star, {"external": {}}))
    with pytest.raises(silvan.ScenarioError, match="no host sends"):
        silvan.Scenario.load(star, {"duration": "1 ms"})
    file = tmp_path / "lossy.toml"
    lossy = '[[event]]\nkind = "down"\nlinks = ["H1"]\nstart = "1 us"\nlasts = "1 us"\n'
    file.write_text(STAR.format(hosts=8) + lossy)
    with pytest.raises(silvan.ScenarioError, match=r"\[recovery\]"):
        silvan.ControlledRun(file)


#: Types of Rust, and those of C.
TYPES = {
    "u32": "uint32_t",
    "u64": "uint64_t",
    "f64": "double",
    "usize": "size_t",
    "c_int": "int",
    "*mut Silvan": "silvan *",
    "*const Silvan": "const silvan *",
    "*const c_char": "const char *",
    "*const *const c_char": "const char *const *",
    "*mut c_char": "char *",
    "*mut c_void": "void *",
    "*mut f64": "double *",
    "Option<Function>": "silvan_fn",
    "": "void",
}


def declarations(header):
    """Return the result and the types of arguments of each function of a header."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    found = {}
    for result, name, arguments in re.findall(r"^([\w* ]+?)(silvan_\w+)\(([^)]*)\);", text, re.MULTILINE):
        types = [re.sub(r"\w+$", "", one.strip()).strip() for one in arguments.replace("\n", " ").split(",")]
        found[name] = (result.strip(), [] if arguments == "void" else types)
    return found


def definitions(source):
    """Return the same of the functions of a file in Rust."""
    found = {}
    pattern = r'extern "C" fn (silvan_\w+)\((.*?)\)(?: -> ([^{]+?))? \{'
    for name, arguments, result in re.findall(pattern, source, re.DOTALL):
        types = [one.split(":", 1)[1].strip() for one in arguments.split(",") if ":" in one]
        found[name] = (TYPES[result], [TYPES[one] for one in types])
    return found


def test_the_header_declares_the_functions_of_the_library():
    declared = declarations(HEADER.read_text())
    assert declared == definitions((SOURCES / "src" / "lib.rs").read_text())
    assert len(declared) == 15


def test_the_header_has_the_codes_of_the_library():
    in_header = dict(re.findall(r"SILVAN_(\w+) = (\d)", HEADER.read_text()))
    source = (SOURCES / "src" / "lib.rs").read_text()
    assert in_header == dict(re.findall(r"^const (\w+): c_int = (\d);", source, re.MULTILINE))
    major, minor = re.findall(r"#define SILVAN_ABI_\w+ (\d+)", HEADER.read_text())
    assert minor == "0", "state the minor number in ABI"
    assert f"const ABI: u32 = {major} << 16;" in source


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Install the library in a folder."""
    if not shutil.which("gcc"):
        pytest.fail("there is no C compiler")
    prefix = tmp_path_factory.mktemp("prefix")
    command = ["python3", ROOT / "tools" / "install_library.py", prefix, "--built", BUILT]
    subprocess.run(command, check=True)
    return prefix


def compiled(installed, folder, source, compiler="gcc", static=False):
    """Compile a program, and return its path."""
    program = folder / source.name.replace(".", "_")
    environment = {**os.environ, "PKG_CONFIG_PATH": str(installed / "lib" / "pkgconfig")}
    words = ["pkg-config", "--cflags", "--libs", *(["--static"] if static else []), "silvan"]
    flags = subprocess.run(words, capture_output=True, text=True, check=True, env=environment).stdout.split()
    if static:
        flags = [str(installed / "lib" / "libsilvan.a") if one == "-lsilvan" else one for one in flags]
    else:
        flags.append(f"-Wl,-rpath,{installed / 'lib'}")
    strict = [
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pedantic",
        *(["-std=c11"] if compiler == "gcc" else ["-std=c++17"]),
    ]
    subprocess.run([compiler, *strict, "-o", program, source, *flags], check=True)
    return program


def output(*command, cwd=None):
    """Run a program, and return what it prints."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.library
@pytest.mark.parametrize(
    ("name", "compiler", "static"),
    [("ring.c", "gcc", False), ("ring.c", "gcc", True), ("ring.cpp", "g++", False)],
)
def test_programs_in_c_and_python_get_the_same_times(installed, tmp_path, star, name, compiler, static):
    program = compiled(installed, tmp_path, SOURCES / "examples" / name, compiler, static)
    assert output(program, star, str(1 << 20), tmp_path / "out") == f"{ring_ps(8, 1 << 20) / 1000:.3f} ns\n"
    network = silvan.ControlledRun(star)
    ring(network, 1 << 20)
    written = silvan.load(tmp_path / "out")
    assert written.summary == network.finish().summary
    assert written.account


@pytest.mark.library
def test_the_program_of_the_page_prints_what_the_page_states(installed, tmp_path):
    page = (ROOT / "docs" / "library.md").read_text()
    for language, name in (("toml", "star.toml"), ("c", "ring.c")):
        (tmp_path / name).write_text(re.search(rf"```{language}\n(.*?)```", page, re.DOTALL)[1])
    program = compiled(installed, tmp_path, tmp_path / "ring.c")
    printed = output(program, cwd=tmp_path).strip()
    assert f"The program prints `{printed}`." in page
    assert f"\n{printed}\n```" in page
    assert printed == f"all-reduce: {ring_ps(8, 1 << 20) / 1e3:.1f} ns"
    step = round(ring_ps(8, 1 << 20) / 14e3)
    assert f"Each of the 14 steps takes {step:,} ns." in page


#: A program in C that runs a scenario: `whole SCENARIO FOLDER SETTING...`.
WHOLE = """\
#include <silvan.h>
#include <stdio.h>

int main(int count, char **words) {
    char error[5000];
    const char *const *settings = (const char *const *)(words + 3);
    silvan *network = silvan_open(words[1], settings, (size_t)(count - 3), error, sizeof error);
    if (network == NULL) {
        puts(error);
        return 1;
    }
    int code = silvan_run(network, SILVAN_NEVER);
    if (code != SILVAN_OK) {
        puts(silvan_error(network));
        return code;
    }
    return silvan_close(network, words[2]);
}
"""
#: The durations of the packaged scenarios that would take longer than a second. The others run to their ends.
SHORTENED = {
    "fabric-648": "2 ms",
    "gpt-13b": "1 ms",
    "job-trace": "200 ms",
    "routes-512": "500 us",
    "silent-forest": "2 ms",
    "star": "50 ms",
    "step-and-trees": "4 ms",
    "testbed": "50 ms",
    "trees-1024": "100 us",
    "uec-permutation-1024": "10 us",
    "web-search-128": "300 us",
    "web-search-320": "200 us",
}
#: Beginnings of the sentences of the account that the Python package adds (`add_notes`).
OF_PYTHON = (
    "The averages contain a change",
    "Not in steady state",
    "No congestion tree explains ",
    "The mechanism ",
    "The scenario is calibrated ",
)
PACKAGED = sorted(path.stem for path in (ROOT / "scenarios").glob("*.toml"))


@pytest.fixture(scope="module")
def whole(installed, tmp_path_factory):
    """Compile the program that runs a scenario."""
    source = tmp_path_factory.mktemp("whole") / "whole.c"
    source.write_text(WHOLE)
    return compiled(installed, source.parent, source)


def files(folder):
    """Return the bytes of the results in a folder. The provenance has the time of the run."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "provenance.json"}


@pytest.mark.library
@pytest.mark.parametrize("name", [name for name in PACKAGED if name != "ring-deadlock"])
def test_a_packaged_scenario_has_the_same_bytes_from_all_interfaces(whole, tmp_path, name):
    """The bytes are those of `silvan run`, except what only the Python package adds."""
    scenario = silvan.scenarios.locate(name)
    settings = {}
    if name in SHORTENED:
        settings = {"duration": SHORTENED[name], "warmup": "0 s"}
    words = [f"{key}={value}" for key, value in settings.items()]
    output(whole, scenario, tmp_path / "c", *words)
    command = [sys.executable, "-m", "silvan.cli", "run", name, "--out", tmp_path / "run"]
    output(*command, *(word for one in words for word in ("--set", one)))
    network = silvan.ControlledRun(scenario, **settings)
    network.run()
    network.finish().save(tmp_path / "python")
    expected = files(tmp_path / "run")
    assert files(tmp_path / "python") == expected
    summary = json.loads(expected["summary.json"])
    summary.pop("steadiness", None)
    expected["summary.json"] = json.dumps(summary, indent=2).encode() + b"\n"
    of_c = files(tmp_path / "c")
    lines = expected["account.txt"].decode().splitlines(keepends=True)
    lines = [line for line in lines if not line.removeprefix("Warning: ").startswith(OF_PYTHON)]
    expected["account.txt"] = "".join(lines).encode()
    assert set(of_c) == {"scenario.toml", "summary.json", "account.txt"}
    assert of_c == {name: expected[name] for name in of_c}


@pytest.mark.library
def test_all_interfaces_refuse_a_scenario_for_the_same_reason(whole, tmp_path):
    scenario = silvan.scenarios.locate("ring-deadlock")
    of_c = subprocess.run([whole, scenario, tmp_path / "c"], capture_output=True, text=True, check=False)
    assert of_c.returncode == 1
    assert "can deadlock" in of_c.stdout
    command = [sys.executable, "-m", "silvan.cli", "run", scenario, "--out", tmp_path / "run"]
    of_run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert of_run.returncode != 0
    assert of_c.stdout.strip() in of_run.stderr
    with pytest.raises(silvan.ScenarioError) as error:
        silvan.ControlledRun(scenario)
    assert str(error.value) == of_c.stdout.strip()


@pytest.mark.library
def test_the_library_exports_only_its_functions_and_needs_only_the_c_library():
    library = BUILT / "libsilvan.so"
    symbols = output("nm", "-D", "--defined-only", library)
    assert {line.split()[-1] for line in symbols.splitlines()} == set(declarations(HEADER.read_text()))
    needed = set(re.findall(r"NEEDED\s+Shared library: \[([\w.-]+?)\.so", output("readelf", "-d", library)))
    assert needed <= {"libc", "libgcc_s", "libm", "ld-linux-x86-64", "ld-linux-aarch64"}
    assert "[libsilvan.so.1]" in output("readelf", "-d", library)


@pytest.mark.library
@pytest.mark.skipif(not shutil.which("cmake"), reason="CMake is not installed")
def test_cmake_finds_the_package(installed, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(ring C)\nfind_package(silvan 1.0 REQUIRED)\n"
        f"add_executable(shared {SOURCES}/examples/ring.c)\ntarget_link_libraries(shared silvan::silvan)\n"
        f"add_executable(static {SOURCES}/examples/ring.c)\ntarget_link_libraries(static silvan::static)\n"
    )
    (tmp_path / "star.toml").write_text(STAR.format(hosts=4))
    output("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={installed}")
    output("cmake", "--build", tmp_path / "build")
    for name in ("shared", "static"):
        printed = output(tmp_path / "build" / name, tmp_path / "star.toml", "65536")
        assert printed == f"{ring_ps(4, 65536) / 1000:.3f} ns\n"


@pytest.mark.library
@pytest.mark.skipif(not shutil.which("valgrind"), reason="Valgrind is not installed")
def test_valgrind_finds_no_error_and_no_leak(installed, tmp_path, star):
    program = compiled(installed, tmp_path, SOURCES / "examples" / "ring.c")
    valgrind = [
        "valgrind",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite,indirect",
        "--error-exitcode=9",
    ]
    output(*valgrind, program, star, "65536", tmp_path / "out")
