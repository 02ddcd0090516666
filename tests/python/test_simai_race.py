"""Tests the comparison with SimAI with a stand-in for its program."""

import re
import sys

import pytest

import silvan
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import simai_race

#: Reads the files as SimAI does, and finishes after the time of the closed form.
STAND_IN = """#!{python}
import os
import sys
sys.path.insert(0, {tools!r})
import simai_race
assert os.environ["AS_SEND_LAT"] == "0"
words = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
assert words["-t"] == "1"
(case,) = (case for case in simai_race.CASES if case.name == os.path.basename(os.getcwd()))
keys = dict(line.split(" ", 1) for line in open(words["-c"]).read().splitlines())
assert keys["PACKET_PAYLOAD_SIZE"] == str(case.mtu) and os.path.isfile(keys["FLOW_FILE"])
first, numbers, *links = open(words["-n"]).read().splitlines()
nodes, per_server, nvswitches, switches, count = map(int, first.split()[:5])
assert nodes == case.gpus + nvswitches + switches and count == len(links)
assert per_server * nvswitches == case.gpus and len(numbers.split()) == nvswitches + switches
for name in ("KMIN_MAP", "KMAX_MAP", "PMAX_MAP"):
    number, *values = keys[name].split()
    assert int(number) * 2 == len(values)
    assert {{link.split()[2] for link in links}} == {{f"{{int(rate) // 10**9}}Gbps" for rate in values[::2]}}
for gpu in range(case.gpus):
    print("all passes finished at time:", round(case.closed_form_ns()) - gpu, ", id of first layer: layer")
"""


def cases():
    return pytest.mark.parametrize("case", simai_race.CASES, ids=lambda case: case.name)


@cases()
def test_silvan_sends_the_messages_of_rings(case, tmp_path):
    """Each rank of a ring sends 2 (n - 1) parts."""
    simai_race.write(case, tmp_path)
    report = silvan.Scenario.load(tmp_path / "silvan.toml").check()
    (job,) = report["jobs"]
    steps = 2 * (case.ranks - 1)
    assert job["ranks"] == case.gpus
    assert (job["messages"], job["bytes"]) == (case.gpus * steps, case.gpus * steps * case.size // case.ranks)


def test_both_run_in_turns(tmp_path, capsys):
    program = tmp_path / "stand-in"
    program.write_text(STAND_IN.format(python=sys.executable, tools=str(ROOT / "tools")))
    program.chmod(0o755)
    words = ["--out", str(tmp_path / "out"), "--case", "server-8", "--pairs", "2"]
    assert simai_race.main([*words, "--simai", str(program)]) == 0
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    (row,) = (row for row in rows if row[0] == "server-8")
    assert len(row) == len(rows[0]) == 10
    # 14 steps of 2 MiB at 360 bytes per nanosecond, and two links of 25 ns.
    closed = 14 * (2**21 / 360 + 50)
    assert row[1] == row[2] == f"{closed:,.0f}"
    took = float(row[5].replace(",", ""))
    # Headers are 48 of 9,048 bytes. An acknowledgement of 60 bytes answers each packet and shares the link.
    packets = -(-(2**21) // 9000)
    least, most = (closed + 14 * packets * extra / 360 for extra in (48, 48 + 60))
    assert least - 14 <= took <= most + 14
    assert row[8] == f"{100 * (took / round(closed) - 1):+.2f} %"
    program.write_text("#!/bin/sh\necho no network\n")
    assert simai_race.main([*words, "--simai", str(program)]) == 1
    assert "SimAI has not finished" in capsys.readouterr().err


def test_the_page_states_closed_forms_and_differences():
    page = (ROOT / "docs" / "astra.md").read_text()
    cases = {case.name: case for case in simai_race.CASES}
    rows = re.findall(r"^\| `([\w-]+-\d+)` \| (.*) \|$", page, re.MULTILINE)
    assert len(rows) >= 6
    for name, text in rows:
        _, closed, ns3, of_silvan, difference, *_ = text.split(" | ")
        assert closed == f"{cases[name].closed_form_ns():,.0f}"
        ratio = float(of_silvan.replace(",", "")) / float(ns3.replace(",", ""))
        assert difference == f"{100 * (ratio - 1):+.2f} %"


def test_the_page_explains_the_rings():
    """Packets and latencies of a step add up to the times of both programs, within 0.1 %."""
    page = (ROOT / "docs" / "astra.md").read_text()
    for ranks in (16, 32, 64):
        _, _, ns3, of_silvan = re.search(rf"^\| `ring-{ranks}` \| (.*?) \| [+-]", page, re.MULTILINE)[
            1
        ].split(" | ")
        packets, steps = -(-(2**26) // ranks // 1000), 2 * (ranks - 1)
        for took, packet_ns, rest_ns in ((ns3, 22.00, 2006), (of_silvan, 22.16, 936)):
            assert f"{packet_ns:.2f} ns per packet" in page
            expected = steps * (packets * packet_ns + rest_ns)
            assert float(took.replace(",", "")) == pytest.approx(expected, rel=1e-3)
