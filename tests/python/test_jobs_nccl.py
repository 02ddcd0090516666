"""Jobs whose algorithms and protocols NCCL's cost model chooses: what is sent, and by which algorithm."""

from __future__ import annotations

from collections import Counter

import pytest

import silvan
from conftest import on_rails

#: Bytes per second of a port of 100 Gbit/s, and of a link within a host.
PORT, INNER = 12.5e9, 450e9


def run(program: str, more: str = "nccl = {}", ranks: int = 8) -> tuple[set[str], int, float]:
    """Return the algorithms of a job on a star, the bytes that its hosts send, and its time in seconds."""
    result = silvan.run(
        silvan.Scenario.from_toml(f"""
            duration = "1 s"
            topology = {{ kind = "star", hosts = {ranks}, link_rate = "100 Gbit/s", link_delay = "1 ns" }}
            packet = {{ mtu = "4096 B" }}
            [[job]]
            {more}
            program = {program}
        """)
    )
    (found,) = result.summary["jobs"]
    sent = int(sum(result.numpy("hosts")["sent_bytes"]))
    return set(result.numpy("collectives")["algorithm"]), sent, float(found["span_ns"]) * 1e-9


def operation(name: str, size: int) -> str:
    """Return a collective operation of eight ranks."""
    return f'{{ kind = "collective", operation = "{name}", ranks = 8, bytes = "{size} B" }}'


@pytest.mark.parametrize(
    ("name", "size", "algorithm", "sent"),
    [
        # Trees send the vector 2 (n - 1) times, and LL doubles it.
        ("all-reduce", 1024, "double-tree/ll", 2 * 7 * 1024 * 2),
        ("all-reduce", 64 << 20, "ring/simple", 2 * 7 * (64 << 20)),
        ("all-gather", 64, "ring/ll", 8 * 7 * 64 * 2),
        ("all-gather", 32 << 10, "pat/simple", 8 * 7 * (32 << 10)),
        ("reduce-scatter", 32 << 20, "ring/simple", 8 * 7 * (32 << 20)),
    ],
)
def test_sizes_choose_algorithm_and_protocol(name, size, algorithm, sent):
    found, bytes_, _ = run(operation(name, size))
    assert found == {algorithm}
    assert bytes_ == sent


def test_choices_are_those_of_a_job_that_states_them():
    _, sent, span = run(operation("all-reduce", 64 << 20))
    assert span == pytest.approx(2 * 7 / 8 * (64 << 20) / PORT, rel=2e-3)
    told = run(operation("all-reduce", 64 << 20), 'algorithms.all_reduce = "ring"')
    assert told == ({"ring"}, sent, span)
    _, sent, span = run(operation("all-reduce", 1024))
    told = run(operation("all-reduce", 1024), 'algorithms.all_reduce = "double-tree"\nprotocol = "ll"')
    assert told == ({"double-tree"}, sent, span)


def test_given_algorithms_and_protocols_limit_the_choice():
    found, sent, _ = run(operation("all-reduce", 960), 'algorithms.all_reduce = "ring"\nnccl = {}')
    assert (found, sent) == ({"ring/ll"}, 2 * 7 * 960 * 2)
    found, sent, _ = run(operation("all-reduce", 960), 'nccl.protocols = ["ll128"]')
    assert (found, sent) == ({"double-tree/ll128"}, 2 * 7 * 960 // 120 * 128)


@pytest.mark.parametrize("told", ["algorithms.channels = 4", "nccl.protocols = ['simple']"])
def test_rings_of_several_channels_use_all_ports_of_a_host(told):
    hosts, gpus, size = 4, 4, 96 << 20
    program = f'{{ kind = "collective", operation = "all-reduce", ranks = 16, bytes = "{size} B" }}'
    ports = 'inner_rate = "3600 Gbit/s"\narrival = "same"'
    more = f'algorithms.all_reduce = "ring"\n{told}'
    result = silvan.run(silvan.Scenario.from_toml(on_rails(program, more, ports)))
    (found,) = result.summary["jobs"]
    # Each channel leaves a host by another GPU, and stays on its rail.
    table = result.numpy("hosts")
    sums = Counter[str]()
    for port, sent in zip(table["host"], table["sent_bytes"], strict=True):
        sums[str(port)] += int(sent)
    ranks = hosts * gpus
    each = 2 * (ranks - 1) * size // ranks // gpus
    assert set(sums.values()) == {each}
    assert each * (gpus - 1) / INNER < each / PORT
    assert float(found["span_ns"]) * 1e-9 == pytest.approx(each / PORT, rel=5e-3)
    spines = result.numpy("links")
    assert not any(str(link).startswith("L2.") for link in spines["link"][spines["sent_bytes"] > 0])


def test_groups_within_hosts_and_between_them_differ():
    # Each tensor group reduces 4 MiB eight times within its host, and each data group 13 MB once.
    program = """{ kind = "transformer", layers = 2, hidden = 1024, sequence = 2048, tensor = 4, pipeline = 1,
        data = 4, micro_batches = 1, vocabulary = 1024 }"""
    ports = 'inner_rate = "3600 Gbit/s"'
    result = silvan.run(silvan.Scenario.from_toml(on_rails(program, "nccl = {}", ports)))
    calls = Counter(str(name) for name in result.numpy("collectives")["algorithm"])
    assert calls == {"nvls/simple": 4 * 8, "ring/simple": 4}
    result = silvan.run(silvan.Scenario.from_toml(on_rails(program, "nccl.nvls = false", ports)))
    calls = Counter(str(name) for name in result.numpy("collectives")["algorithm"])
    assert calls == {"ring/ll128": 4 * 8, "ring/simple": 4}
