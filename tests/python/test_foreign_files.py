"""Files of other tools: their fields have an effect, or a note or an error names them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import silvan
from conftest import command

STAR = "4 1 3\n0\n0 1 100Gbps 1us 0\n0 2 100Gbps 1us 0\n0 3 100Gbps 1us 0\n"
TREE = """Nodes 4
Tiers 2
Podsize 4
Tier 0
Downlink_speed_Gbps 100
Radix_Down 2
Radix_Up 2
Queue_Up 1000000
Downlink_Latency_ns 1000
Switch_Latency_ns 5000
Tier 1
Downlink_speed_Gbps 100
Radix_Down 2
Downlink_Latency_ns 1000
Switch_Latency_ns 5000
"""
#: Two switches with two cables between them, and one host at each.
TWO = """Switch 4 "S-a0" # "A"
[1] "S-b0"[1]
[2] "S-b0"[2]
[3] "H-10"[1]

Switch 4 "S-b0" # "B"
[1] "S-a0"[1]
[2] "S-a0"[2]
[3] "H-20"[1]

Hca 1 "H-10" # "n1"
[1] "S-a0"[3]

Hca 1 "H-20" # "n2"
[1] "S-b0"[3]
"""


def chakra(folder: Path) -> Path:
    """Write a trace of two ranks: a computation of 1e12 operations, then an all-reduce of 1 MB."""
    nodes = [
        {"Id": 1, "Name": "k", "NodeType": 4, "num_ops": 10**12, "tensor_size": 10**6, "data_deps": []},
        {"Id": 2, "Name": "c", "NodeType": 7, "comm_type": 0, "comm_size": 10**6, "data_deps": [1]},
    ]
    for rank in range(2):
        (folder / f"t.{rank}.json").write_text(json.dumps({"workload_graph": nodes}))
    return folder / "t.0.json"


def test_computations_of_chakra_traces_take_the_time_of_their_operations(tmp_path):
    trace = chakra(tmp_path)
    done = command("trace", "check", trace, "--bandwidth", "400 Gbit/s")
    assert done.returncode == 1
    assert "2 computations state operations (num_ops), but no duration" in " ".join(done.stderr.split())
    found = silvan.traces.check(trace, bandwidth="400 Gbit/s", host_flops=1e12)
    assert found["run"]["span_ps"] == 10**12 + 20 * 10**6
    # At 500 kB/s, the memory takes 2 s.
    slow = silvan.traces.check(trace, bandwidth="400 Gbit/s", host_flops=1e12, host_bandwidth="500 kB/s")
    assert slow["run"]["span_ps"] == 2 * 10**12 + 20 * 10**6
    with pytest.raises(silvan.TraceError, match="host_bandwidth: must be more than 0"):
        silvan.traces.check(trace, host_flops=1e12, host_bandwidth="0 B/s")


#: Two layers on 2 x 2 ranks: tensor parallelism forward and backward, data parallelism at the end.
WORKLOAD = """HYBRID_TRANSFORMER model_parallel_NPU_group: 2 ep: 1 pp: 1 vpp: 2 ga: 1{ranks}
2
attention -1 5000 ALLREDUCE 4096 4000 ALLREDUCE 4096 3000 NONE 0 10
mlp -1 7000 NONE 0 6000 NONE 0 2000 ALLREDUCE 65536 20
"""


def test_workloads_of_simai_run_in_the_order_of_the_original(tmp_path):
    trace = tmp_path / "workload.txt"
    trace.write_text(WORKLOAD.format(ranks=" all_gpus: 4"))
    found = silvan.traces.check(trace)
    assert (found["format"], found["contents"]["ranks"]) == ("workload", 4)
    assert found["contents"]["bytes"] == 4 * (2 * 4096 + 65536)
    # All computations, and the updates after the two operations of the tensor-parallel group.
    assert found["run"]["span_ps"] == 1000 * (27_000 + 2 * 10)
    trace.write_text(WORKLOAD.format(ranks=""))
    with pytest.raises(silvan.TraceError, match=r":1: the number of ranks \(all_gpus\) is not in the file"):
        silvan.traces.check(trace)
    assert silvan.traces.check(trace, ranks=4)["run"] == found["run"]
    done = command("trace", "check", trace, "--ranks", "4")
    assert (done.returncode, "workload" in done.stdout) == (0, True)


def test_the_latency_of_switches_of_htsim_is_used(tmp_path):
    (tmp_path / "tree.topo").write_text(TREE)
    text = """duration = "100 us"
topology = { kind = "file", file = "tree.topo" }
packet = { mtu = "1000 B", header = "48 B" }
[[flow]]
from = "H1"
to = "H4"
total = "1000 B"
"""
    (tmp_path / "s.toml").write_text(text)
    result = silvan.run(tmp_path / "s.toml")
    # Four links of 1 us, three switches of 5 us, and 1,048 bytes at 100 Gbit/s.
    latencies = {row["since"]: row["max_ns"] for row in result.summary["latency"]}
    assert latencies["injection"] == pytest.approx(4_000 + 15_000 + 83.84, abs=1)
    assert any("not used: queue_up" in warning for warning in result.warnings)


@pytest.mark.parametrize(("name", "text", "hosts"), [("t.txt", STAR, 3), ("t.topo", TREE, 4)])
def test_topologies_of_simulators_are_routed(tmp_path, name, text, hosts):
    (tmp_path / name).write_text(text)
    done = command(
        "fabric", "route", tmp_path / name, "-o", tmp_path / "x.lft", "--network", tmp_path / "x.topo"
    )
    assert done.returncode == 0, done.stderr
    assert ("Note: not used: queue_up" in done.stderr) == (text is TREE)
    found = silvan.fabric.check([tmp_path / "x.lft", tmp_path / "x.topo"])
    assert (found["hosts"], found["pairs_routed"]) == (hosts, hosts * (hosts - 1))


def test_a_switch_with_more_cables_than_destinations_is_no_fault(tmp_path):
    (tmp_path / "two.net").write_text(TWO)
    routes = silvan.fabric.route(tmp_path / "two.net", default_rate="32 Gbit/s")
    assert routes.findings == []


def test_adapters_keep_their_guids(tmp_path):
    rows = [(16, "n1", 1), (17, "n2", 2)]
    lines = ["switchguid=0xa0(a0)", 'Switch 8 "S-a0" # "A" base port 0 lid 9 lmc 0']
    lines += [
        f'[{port}] "H-{guid:016x}"[1]({guid:x}) # "{name}" lid {port} 4xNDR' for guid, name, port in rows
    ]
    for guid, name, port in rows:
        lines += ["", f"caguid=0x{guid:x}", f'Ca 1 "H-{guid:016x}" # "{name}"']
        lines += [f'[1]({guid:x}) "S-a0"[{port}] # lid {port} lmc 0 "A" lid 9 4xNDR']
    (tmp_path / "x.topo").write_text("\n".join([*lines, ""]))
    network = silvan.fabric.route(tmp_path / "x.topo").network
    for guid, name, _ in rows:
        assert f'caguid=0x{guid:x}\nCa\t1 "H-{guid:016x}"\t\t# "{name}"' in network
