"""Files of clusters whose hosts have several ports: closed forms of jobs over the ports and links in them."""

from __future__ import annotations

from pathlib import Path

import pytest

import silvan
from conftest import command
from test_ports import sent_bytes, span_s

#: Bytes per second of a port of 200 Gbit/s.
PORT = 25e9

#: Two servers of two GPUs on two rails with a spine, as SimAI describes them.
RAILS = """\
9 2 2 3 10 A100
4 5 6 7 8
0 4 NVLINK 0.00002ms 0
1 4 NVLINK 0.00002ms 0
2 5 NVLINK 0.00002ms 0
3 5 NVLINK 0.00002ms 0
0 6 200Gbps 0.0005ms 0
1 7 200Gbps 0.0005ms 0
2 6 200Gbps 0.0005ms 0
3 7 200Gbps 0.0005ms 0
6 8 200Gbps 0.0005ms 0
7 8 200Gbps 0.0005ms 0
"""


def simai(servers: int, gpus: int, inner: str) -> str:
    """Return a topology of SimAI: rail r connects the r-th GPUs of servers, and a spine the rails."""
    count = servers * gpus
    leaves = [count + servers + rail for rail in range(gpus)]
    spine = count + servers + gpus
    links = [f"{gpu} {count + gpu // gpus} {inner} 0.00002ms 0" for gpu in range(count)]
    links += [f"{gpu} {leaves[gpu % gpus]} 200Gbps 0.0005ms 0" for gpu in range(count)]
    links += [f"{leaf} {spine} 200Gbps 0.0005ms 0" for leaf in leaves for _ in range(servers)]
    head = f"{spine + 1} {gpus} {servers} {gpus + 1} {len(links)} A100"
    listed = " ".join(str(node) for node in range(count, spine + 1))
    return "\n".join([head, listed, *links]) + "\n"


def scenario(folder: Path, topology: str, program: str, keys: str = "") -> silvan.Scenario:
    """Return a scenario with a job in the network of a file."""
    (folder / "cluster.txt").write_text(topology)
    path = folder / "cluster.toml"
    path.write_text(f"""
        duration = "100 ms"
        topology = {{ kind = "file", file = "cluster.txt" }}
        packet.mtu = "4096 B"
        {keys}
        [[job]]
        start = "1 us"
        algorithms = {{ all_reduce = "ring" }}
        {program}
    """)
    return silvan.Scenario.load(path)


def all_reduce(ranks: int, per_host: int, size: int) -> str:
    return (
        f"ranks_per_host = {per_host}\nprogram = {{ kind = 'collective', operation = 'all-reduce', "
        f"ranks = {ranks}, bytes = '{size} B' }}"
    )


@pytest.mark.parametrize(
    ("inner", "arrival", "slowest"),
    [
        ("2400Gbps", "same", PORT),
        # The messages of both servers cross the link from the leaf switch of the second rail to the spine.
        ("2400Gbps", "own", PORT / 2),
        ("40Gbps", "same", 5e9),
    ],
)
def test_a_ring_uses_ports_and_inner_links_of_a_simai_file(tmp_path, inner, arrival, slowest):
    size, ranks = 64 << 20, 4
    text, keys = RAILS.replace("NVLINK", inner), f"ports.arrival = '{arrival}'"
    result = silvan.run(scenario(tmp_path, text, all_reduce(ranks, 2, size), keys))
    # In each of 2 (n - 1) steps, each rank sends an n-th of the vector: ranks 0 and 2 to the other GPU of
    # their server, ranks 1 and 3 to the other server. The slower links determine the time.
    carried = 2 * (ranks - 1) * size // ranks
    assert span_s(result) == pytest.approx(carried / slowest, rel=5e-3)
    assert sent_bytes(result) == {"H1.1": 0, "H1.2": carried, "H2.1": 0, "H2.2": carried}


def test_a_workload_of_aicb_runs_on_a_topology_of_simai(tmp_path):
    sizes = [6 << 20, 40 << 20]
    layers = [f"layer{at} -1 1 NONE 0 1 NONE 0 1 ALLREDUCE {size} 1" for at, size in enumerate(sizes)]
    head = "MICRO model_parallel_NPU_group: 8 ep: 1 pp: 1 vpp: 1 ga: 1 all_gpus: 8 checkpoints: 0"
    (tmp_path / "work.txt").write_text(
        "\n".join([f"{head} checkpoint_initiates: 0", str(len(layers)), *layers]) + "\n"
    )
    program = "ranks_per_host = 4\nprogram = { kind = 'trace', file = 'work.txt' }"
    described = scenario(tmp_path, simai(2, 4, "2400Gbps"), program)
    result = silvan.run(described)
    carried = 2 * 7 * sum(sizes) // 8
    sent = sent_bytes(result)
    assert {port: count for port, count in sent.items() if count} == {"H1.4": carried, "H2.4": carried}
    assert span_s(result) == pytest.approx(carried / PORT, rel=5e-3)
    threads = silvan.run(described.with_overrides({"threads": 2}))
    assert (span_s(threads), sent_bytes(threads)) == (span_s(result), sent)


def test_commands_read_the_file(tmp_path):
    text = RAILS.replace("NVLINK", "2400Gbps")
    (tmp_path / "cluster.txt").write_text(text)
    done = command("fabric", "route", "cluster.txt", "--out", "lfts.dump", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    scenario(tmp_path, text, all_reduce(4, 2, 1 << 20))
    done = command("check", "cluster.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "4 ranks on 2 hosts" in done.stdout


#: Two servers of two GPUs on two rails, as InfraGraph describes them.
BOXES = """\
name: boxes
devices:
- name: box
  components: [{name: gpu, count: 2, choice: xpu}, {name: nic, count: 2, choice: nic}]
  links: [{name: bus, physical: {bandwidth: {choice: gigabytes_per_second, gigabytes_per_second: INNER}}}]
  edges: [{ep1: {component: gpu}, ep2: {component: nic}, scheme: one2one, link: bus}]
- name: leaf
  components: [{name: port, count: 2, choice: port}, {name: asic, count: 1, choice: switch}]
links: [{name: cable, physical: {bandwidth: {choice: gigabits_per_second, gigabits_per_second: 200}}}]
instances: [{name: host, device: box, count: 2}, {name: rail, device: leaf, count: 2}]
edges:
- ep1: {instance: host, component: "nic[0]"}
  ep2: {instance: "rail[0]", component: port}
  scheme: one2one
  link: cable
- ep1: {instance: host, component: "nic[1]"}
  ep2: {instance: "rail[1]", component: port}
  scheme: one2one
  link: cable
"""


#: The same in the older dialect of InfraGraph. The numbers of adapters, ports, hosts and rails are those of
#: the connections.
OLDER_BOXES = """\
infrastructure:
  name: boxes
  devices:
  - name: box
    components: [{name: gpu, type: xpu}, {name: nic, type: nic, external: true}]
    links: [{name: bus, bandwidth: {giga_bytes_per_second: INNER}}]
    connections: [gpu.0.bus.nic.0, gpu.1.bus.nic.1]
  - name: leaf
    components: [{name: asic, type: custom}, {name: port, type: nic, external: true}]
  links: [{name: cable, bandwidth: {giga_bits_per_second: 200}}]
  instances: [{name: host, device: box}, {name: rail, device: leaf}]
  connections:
  - host.0.nic.0.cable.rail.0.port.0
  - host.1.nic.0.cable.rail.0.port.1
  - host.0.nic.1.cable.rail.1.port.0
  - host.1.nic.1.cable.rail.1.port.1
"""


@pytest.mark.parametrize("text", [BOXES, OLDER_BOXES], ids=["current", "older"])
@pytest.mark.parametrize(("inner", "slowest"), [("64", PORT), ("10", 10e9)])
def test_a_ring_uses_ports_and_inner_links_of_an_infragraph_file(tmp_path, inner, slowest, text):
    size, ranks = 64 << 20, 4
    result = silvan.run(scenario(tmp_path, text.replace("INNER", inner), all_reduce(ranks, 2, size)))
    # The rails are not connected, so messages stay on them.
    carried = 2 * (ranks - 1) * size // ranks
    assert span_s(result) == pytest.approx(carried / slowest, rel=5e-3)
    assert sent_bytes(result) == {
        "host.0.nic.0": 0,
        "host.0.nic.1": carried,
        "host.1.nic.0": 0,
        "host.1.nic.1": carried,
    }
