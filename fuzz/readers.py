"""Fuzzes the readers in Python, and through Python the readers of fabrics and traces.

The readers in Python read study and tuning files, folders of runs, overrides given as Python objects, and
options of OpenSM.

    python fuzz/readers.py study --count 100000 --first 1

Each reader must return a value or raise one of Silvan's errors. The first case of any other error is printed
with its seed; `--first SEED --count 1` repeats it.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import json
import random
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import silvan
from silvan import _folder, _opensm, report, traces
from silvan.sweeps.study import Study
from silvan.tuning.problem import Tuning

ROOT = Path(__file__).resolve().parent.parent
SMALL = """
duration = "2 us"
topology = { kind = "dumbbell" }
flow = [{ from = "H1", to = "H5" }]
"""
TUNE = """
name = "good"
scenario = "small.toml"
runs = 8
confirm = 2
mix = "weighted"
hotspots = ["H5"]
[set]
duration = "1 ms"
warmup = "500 us"
[[traffic]]
name = "one"
set = { "flow.0.rate" = "5 Gbit/s" }
[[axis]]
key = "congestion.reaction.ccti_increase"
values = [1, 2, 4, 8]
[[objective]]
of = "victims"
weight = 2.0
[[objective]]
name = "jain"
summary = "jain_flows"
goal = "max"
[[unseen]]
name = "two"
set = { "flow.0.start" = "100 us" }
"""
GOAL = """num_ranks 2
rank 0 {
l1: calc 1000
l2: send 500b to 1 tag 3 cpu 0
l2 requires l1
}
rank 1 {
l1: recv 500b from 0 tag 3
}
"""
GRAPH = """{"workload_graph": [
{"Id": 1, "NodeType": 4, "runtime": 3, "data_deps": []},
{"Id": 2, "NodeType": 7, "data_deps": [1], "comm_type": 0, "comm_size": 1000, "pg_name": "a"}
], "ngpus": 1}
"""
TRIED = """
    name description scenario seeds keep set axis measure key values range unit zip from to step count scale
    summary tables table column start end of over_time across statistic log linear seed run error nan inf
    duration flow.0.rate congestion.mechanism -inf 1e308 1e-320 -1 0 00 -0.0 9223372036854775807
    9223372036854775808 true false null [] {} "ib-cc" "" "\\u0000" [1,2] {a=1} 2026-01-01 07:32:00 ' " = . ,
    [[axis]] [set] ../ "format" "files"
"""
WORDS = tuple(TRIED.split())
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, 2**64, 10**400, 0.5, float("nan"), float("inf"), -0.0, "", "\0", "\ud800",
    "1 us", "16 Gbit/s", "ib-cc", "[", '"', "\n", "a = 1", b"x", [], {}, (), [[[]]], {"a": {"b": []}},
    {"": 1}, {1: 2}, [1, "x", None], {"kind": "fecn"}, {"kind": "none"}, object(), set(), 1 + 2j, "é" * 100,
)  # fmt: skip


NET_DUMP_TITLES = (
    "# : IB# : Sta : PhysSta : MTU : LWA : LSA : FEC mode : Retran : Neighbor Guid : N# : NLID : "
    "Neighbor Description"
)
#: A line about a port in the output of ibnetdiscover.
PORT = re.compile(
    r'\[(\d+)\](?:\((\w+)\))?\s+"([SH])-(\w+)"\[(\d+)\](?:\((\w+)\))?\s+#'
    r'(?: lid (\d+) lmc \d+)? "([^"]*)" lid (\d+)'
)
LINK_TITLES = "NodeGuid1,PortNum1,NodeGuid2,PortNum2"


def edited(text: str, draw: random.Random) -> str:
    """Edit lines and words of a text at random."""
    lines = text.split("\n")
    for _ in range(draw.randint(1, 4)):
        one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
        match draw.randrange(8):
            case 0 if len(lines) > 1:
                del lines[one]
            case 1:
                lines.insert(other, lines[one])
            case 2:
                lines[one], lines[other] = lines[other], lines[one]
            case 3:
                at = draw.randint(0, len(lines[one]))
                lines[one] = lines[one][:at] + draw.choice(WORDS) + lines[one][at:]
            case 4:
                at = draw.randint(0, len(lines[one]))
                lines[one] = lines[one][:at] + chr(draw.choice((0, 9, 34, 39, 92, 0xE9, 0x2028, 0x1F600, 46)))
            case 5:
                digits = [n for n, c in enumerate(lines[one]) if c.isdigit()]
                if digits:
                    at = draw.choice(digits)
                    lines[one] = lines[one][:at] + draw.choice(("0", "9", "-1", "1e9")) + lines[one][at + 1 :]
            case _:
                words = lines[one].split(" ")
                words[draw.randrange(len(words))] = draw.choice((*WORDS, *lines[other].split(" ")))
                lines[one] = " ".join(words)
    return "\n".join(lines)


def study_case(folder: Path) -> Callable[[random.Random], bool]:
    """Return a reader of study files."""
    texts = []
    for path in sorted((ROOT / "studies").glob("*.toml")):
        study = Study.load(path)
        (folder / f"{path.stem}-scenario.toml").write_text(study.base.text, encoding="utf-8")
        lines = path.read_text(encoding="utf-8").split("\n")
        kept = [line for line in lines if not line.startswith(("#", "scenario"))]
        texts.append("\n".join([f'scenario = "{path.stem}-scenario.toml"', *kept]))

    def read(draw: random.Random) -> bool:
        text = edited(draw.choice(texts), draw)
        path = folder / "study.toml"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        overrides = {draw.choice(("seed", "duration", "a..b", "")): draw.choice((1, "3 us"))}
        try:
            study = Study.load(path, overrides if draw.random() < 0.2 else None)
            # An axis may set an invalid value, but this must be reported.
            study.base.at(draw.choice(study.points()).overrides)
        except silvan.SilvanError:
            return False
        return True

    return read


def tune_case(folder: Path) -> Callable[[random.Random], bool]:
    """Return a reader of tuning files."""
    (folder / "small.toml").write_text(SMALL, encoding="utf-8")

    def read(draw: random.Random) -> bool:
        path = folder / "tune.toml"
        path.write_bytes(edited(TUNE, draw).encode("utf-8", "surrogatepass"))
        overrides = {draw.choice(("seed", "duration", "a..b", "")): draw.choice((1, "3 us"))}
        try:
            tuning = Tuning.load(path, overrides if draw.random() < 0.2 else None)
            keys = {key: values[0] for axis in tuning.search for key, values in axis.settings}
            tuning.base.at(tuning.overrides(keys, tuning.kinds[0], 1))
        except silvan.SilvanError:
            return False
        return True

    return read


def trace_case(folder: Path) -> Callable[[random.Random], bool]:
    """Return a reader of traces in all text formats, and of binary ones with changed bytes."""
    samples = ROOT / "tests" / "data" / "traces"
    recording = gzip.decompress((samples / "hpcc-8" / "mpifft-8ranks.txt.gz").read_bytes())
    whole = {
        "job.goal": GOAL.encode(),
        "job.txt": b"0 init\n0 compute 1e6\n0 send 1 0 500\n0 finalize\n1 init\n1 recv 0 0 500\n1 finalize\n",
        "job.vef": b"VEF 2 2 0 0 0 0 0\n0 0 1 100 0 0 -1\n1 1 0 200 0 0 -1\n",
        "graph.json": GRAPH.encode(),
        "recording.txt": b"\n".join(recording.splitlines()[:60]) + b"\n",
    }
    (folder / "whole.goal").write_text(GOAL, encoding="utf-8")
    traces.convert(folder / "whole.goal", folder / "whole.bin")
    whole["job.bin"] = (folder / "whole.bin").read_bytes()
    whole["step.et"] = b"\x09\x0a\x070.0.4-a\x08\x08\x01\x18\x04\x38\x05\x28\x02\x04\x08\x02\x18\x04"
    binary = {"job.bin", "step.et"}

    def read(draw: random.Random) -> bool:
        name = draw.choice(list(whole))
        if name in binary:
            data = bytearray(whole[name])
            for _ in range(draw.randint(1, 6)):
                data[draw.randrange(len(data))] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
            content = bytes(data[: draw.randrange(len(data) + 1)]) if draw.random() < 0.2 else bytes(data)
        else:
            content = edited(whole[name].decode(), draw).encode("utf-8", "surrogatepass")
        path = folder / name
        path.write_bytes(gzip.compress(content) if draw.random() < 0.1 else content)
        try:
            traces.check(path, limit=1 << 20)
        except silvan.SilvanError:
            return False
        return True

    return read


def run_case(folder: Path) -> Callable[[random.Random], bool]:
    """Return a reader of a run's folder, whose texts are damaged."""
    run = folder / "run"
    silvan.run(silvan.Scenario.from_toml(SMALL)).save(run)
    whole = {name: (run / name).read_text(encoding="utf-8") for name in ("summary.json", "scenario.toml")}
    provenance = (run / "provenance.json").read_text(encoding="utf-8")

    def read(draw: random.Random) -> bool:
        for name, text in whole.items():
            damaged = edited(text, draw) if draw.random() < 0.5 else text
            (run / name).write_bytes(damaged.encode("utf-8", "surrogatepass"))
        facts = json.loads(provenance)
        # The reader continues only if the hash matches.
        if draw.random() < 0.7:
            for name in whole:
                content = (run / name).read_bytes()
                facts["files"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        if draw.random() < 0.1:
            facts.pop(draw.choice(list(facts)))
        if draw.random() < 0.1:
            strange = (None, 1, [], {}, "x", [1], {"a": 1}, [[]], ["flows", 1])
            facts[draw.choice(list(facts))] = draw.choice(strange)
        text = json.dumps(facts, indent=2)
        (run / "provenance.json").write_bytes((edited(text, draw) if draw.random() < 0.5 else text).encode())
        with contextlib.suppress(_folder.NotARunError, _folder.DamagedError):
            _folder.read_summary(run)
        try:
            result = silvan.load(run)
            _ = result.name, repr(result), result._repr_html_(), result.scenario
            silvan.compare(result, result)
            report.html([result])
        except silvan.SilvanError:
            return False
        return True

    return read


def override_case(folder: Path) -> Callable[[random.Random], bool]:
    """Return a reader of overrides."""
    del folder
    keys = (
        "seed", "duration", "congestion", "congestion.mechanism", "congestion.marking.kind", "flow", "flow.0",
        "flow.0.rate", "flow.1", "topology", "topology.kind", "", ".", "a.b", "a" * 500, "é", "name", "\0",
        ".".join("a" * 20), "packet.mtu", "lanes.sl_to_vl", "routing.allow_deadlock",
    )  # fmt: skip

    def value(draw: random.Random, depth: int = 0) -> Any:
        if depth < 3 and draw.random() < 0.3:
            inner = [value(draw, depth + 1) for _ in range(draw.randrange(4))]
            return inner if draw.random() < 0.5 else {draw.choice(keys): one for one in inner}
        return draw.choice((*VALUES, *WORDS))

    def read(draw: random.Random) -> bool:
        overrides = {draw.choice(keys): value(draw) for _ in range(draw.randint(1, 3))}
        try:
            scenario = silvan.Scenario.from_toml(SMALL, overrides=overrides)
        except (silvan.SilvanError, TypeError, UnicodeEncodeError):
            return False
        resolved = scenario.to_toml()
        if silvan.Scenario.from_toml(resolved).to_toml() != resolved:
            raise AssertionError(f"not read again as the same: {overrides}")
        return True

    return read


def fabric_case(folder: Path) -> Callable[[random.Random], bool]:
    """Return a reader of the files of a fabric, one of which is damaged."""
    ring = ROOT / "tests" / "data" / "lanes" / "ring-6" / "dfsssp"
    texts = {path.stem: gzip.decompress(path.read_bytes()).decode() for path in sorted(ring.glob("*.gz"))}
    # Without the ports that have no link, the files are short enough for many cases.
    texts["opensm-sl2vl.dump"] = re.sub(r"(?m)^(\d\d|[4-9]) +.*\n", "", texts["opensm-sl2vl.dump"])
    texts["iblinkinfo.txt"] = re.sub(r"(?m)^.*Down/.*\n", "", texts["iblinkinfo.txt"])
    nodes = [
        f'"{kind}-{n}",4,{1 + (kind == "sw")},0x{n + 1}{kind == "sw":d}'
        for kind in ("sw", "h")
        for n in (0, 1)
    ]
    links = ["0x11,1,0x10,1", "0x21,1,0x20,1", "0x11,2,0x21,2"]
    titles = ("START_NODES", "NodeDesc,NumPorts,NodeType,NodeGUID"), ("START_LINKS", LINK_TITLES)
    rows = [*titles[0], *nodes, "END_NODES", *titles[1], *links, "END_LINKS", ""]
    texts["db_csv"] = "\n".join(rows)
    head = "Switch 0x0200000200000000\nGroups Definition:\n----\n1 0 0 2,3\nLFT Definition:\n----\n"
    texts["far"] = head + "".join(f"{lid} 1 {'Free 1' if lid % 2 else 'Static'}\n" for lid in range(1, 13))
    others = {
        "opensm-subnet.lst": ["opensm.fdbs"], "iblinkinfo.txt": ["opensm.fdbs"], "db_csv": ["opensm.fdbs"],
        "opensm.fdbs": ["ibnetdiscover.topo"], "far": ["ibnetdiscover.topo"],
        "opensm-sl2vl.dump": ["ibnetdiscover.topo", "opensm.fdbs"],
        "path-sl.txt": ["ibnetdiscover.topo", "opensm.fdbs"],
    }  # fmt: skip
    for name, text in texts.items():
        (folder / f"whole-{name}").write_text(text, encoding="utf-8")
    # The same network in formats that have no file among the test data.
    texts |= other_formats(texts["ibnetdiscover.topo"])
    others |= {"ports.txt": ["opensm.fdbs"], "net_dump": ["opensm.fdbs"], "discovered": ["opensm.fdbs"]}

    def read(draw: random.Random) -> bool:
        name = draw.choice(list(others))
        path = folder / name
        path.write_bytes(edited(texts[name], draw).encode("utf-8", "surrogatepass"))
        files = [path, *(folder / f"whole-{other}" for other in others[name])]
        rate = draw.choice((None, "32 Gbit/s"))
        try:
            report = silvan.fabric.check(files, default_rate=rate)
            written = silvan.fabric.ibdmchk(files, default_rate=rate)
        except silvan.SilvanError:
            return False
        again = folder / "again"
        again.mkdir(exist_ok=True)
        for file, text in written.items():
            (again / file).write_text(text, encoding="utf-8")
        back = silvan.fabric.check([again / file for file in written if written[file]])
        for key in ("hosts", "switches", "links", "pairs_routed"):
            if back[key] != report[key]:
                raise AssertionError(f"{key} was {report[key]}, and {back[key]} when written and read again")
        return True

    return read


def other_formats(wiring: str) -> dict[str, str]:
    """Convert a network from the format of ibnetdiscover to other formats. Return the texts by file name."""
    lids = {}
    for name, own in re.findall(r'(?m)^Switch\s.*# "([^"]*)".* lid (\d+)', wiring):
        lids[name] = own
    ports, tables = [], []
    kind, guid, description = "", "", ""
    for line in wiring.split("\n"):
        if found := re.match(r'(Switch|Ca)\s+\d+ "[SH]-(\w+)"\s+# "([^"]*)"', line):
            kind, guid, description = found[1], found[2], found[3].strip()
            if kind == "Switch":
                tables.append(f'"{description}", Mellanox, 0x{guid}, LID {lids[found[3]]}')
                tables.append(NET_DUMP_TITLES)
            continue
        if not (found := PORT.match(line)):
            continue
        port, own, far_kind, far, far_port, far_own, lid, name, far_lid = found.groups()
        here = ("SW", lids.get(description, "0"), guid) if kind == "Switch" else ("CA", lid, own)
        there = ("SW" if far_kind == "S" else "CA", far_lid, far_own or far)
        ports.append(
            f"{here[0]} {here[1]} {port} 0x{here[2]} 4x QDR - {there[0]} {there[1]} {far_port} 0x{there[2]} "
            f"( '{description}' - '{name.strip()}' )"
        )
        if kind == "Switch":
            tables.append(
                f"{port} : {port} : ACT : LINK UP : 5 : 4x : 10 : x : y : 0x{there[2]} : {far_port} : "
                f'{far_lid} : "{name.strip()}"'
            )
    around = "[root@node ~]# ibnetdiscover\nibwarn: [1] x\n"
    return {
        "ports.txt": "\n".join(ports) + "\n",
        "net_dump": "\n".join(tables) + "\n",
        "discovered": f"{around}{wiring}",
    }


def options_case(folder: Path) -> Callable[[random.Random], bool]:
    """Return a reader of OpenSM's options."""
    del folder
    text = (ROOT / "tests" / "data" / "opensm" / "cc.conf").read_text(encoding="utf-8")

    def read(draw: random.Random) -> bool:
        try:
            options = _opensm.parse(edited(text, draw), "opensm.conf")
            silvan.Scenario.from_toml(SMALL, overrides=options.keys)
        except silvan.SilvanError:
            return False
        return True

    return read


CASES = {
    "study": study_case,
    "tune": tune_case,
    "trace": trace_case,
    "run": run_case,
    "override": override_case,
    "fabric": fabric_case,
    "options": options_case,
}


def main() -> int:
    """Read the cases; return 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first case")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    options = parser.parse_args()
    started, failures, accepted, done = time.monotonic(), Counter[str](), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        read = CASES[options.case](Path(folder))
        for seed in range(options.first, options.first + options.count):
            if time.monotonic() - started > options.seconds:
                break
            done += 1
            try:
                accepted += read(random.Random(seed))
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # a panic is no Exception
                where = traceback.extract_tb(error.__traceback__)[-1]
                fault = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}"
                failures[fault] += 1
                if failures[fault] == 1:
                    print(f"seed {seed}: {fault}: {str(error)[:300]}", flush=True)
    wall = time.monotonic() - started
    print(f"{options.case}: {done} cases, {accepted} accepted, {sum(failures.values())} failed, {wall:.0f} s")
    for fault, count in failures.most_common():
        print(f"  {count} times {fault}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
