"""Jobs that reduce data in switches within hosts, and latencies of messages: closed forms of whole runs."""

from __future__ import annotations

from collections import Counter

import pytest

import silvan
from conftest import on_rails

#: Bytes per second of a port of 100 Gbit/s, and of a link within a host.
PORT, INNER = 12.5e9, 450e9
NVLS = 'algorithms = { all_reduce = "nvls" }'


def all_reduce(ranks: int, size: int) -> str:
    """Return an all-reduce of a vector."""
    return f'{{ kind = "collective", operation = "all-reduce", ranks = {ranks}, bytes = "{size} B" }}'


def blocks(operation: str, ranks: int, size: int, more: str = "") -> str:
    """Return an all-gather or reduce-scatter of blocks."""
    return f'{{ kind = "collective", operation = "{operation}", ranks = {ranks}, bytes = "{size} B"{more} }}'


def run(
    program: str, more: str = NVLS, ports: str = 'inner_rate = "3600 Gbit/s"\narrival = "same"'
) -> tuple[float, silvan.Result]:
    """Run a program on hosts with four ranks. Return the time of the job in seconds, and the result."""
    result = silvan.run(silvan.Scenario.from_toml(on_rails(program, more, ports)))
    (found,) = result.summary["jobs"]
    assert found["finished_ns"] is not None
    return float(found["span_ns"]) * 1e-9, result


def sent(result: silvan.Result) -> dict[str, int]:
    """Return the bytes that each port has sent."""
    table = result.numpy("hosts")
    sums: Counter[str] = Counter()
    for port, count in zip(table["host"], table["sent_bytes"], strict=True):
        sums[str(port)] += int(count)
    return dict(sums)


def test_a_host_needs_the_time_of_the_vector_and_a_share():
    size = 64 << 20
    span, result = run(all_reduce(4, size))
    assert span == pytest.approx((1 + 1 / 4) * size / INNER, rel=1e-2)
    assert not any(sent(result).values())
    (job,) = result.summary["jobs"]
    assert (job["ranks"], job["hosts"], job["units"]) == (4, 1, 1)
    # A ring needs 2 (G - 1)/G of the time of the vector.
    ring, _ = run(all_reduce(4, size), 'algorithms = { all_reduce = "ring" }')
    assert ring == pytest.approx(2 * 3 / 4 * size / INNER, rel=5e-3)


@pytest.mark.parametrize(("hosts", "most"), [(2, 1.0), (4, 2.0)])
def test_trees_of_heads_use_all_ports_of_hosts(hosts, most):
    size = 64 << 20
    span, result = run(all_reduce(4 * hosts, size))
    share = size / 4
    # Two hosts exchange halves of the share. With four, a head sends a half to its parent in each tree, and
    # to two children.
    ports = sent(result)
    assert sum(ports.values()) == 2 * (hosts - 1) * size
    assert max(ports.values()) == pytest.approx(most * share, rel=1e-6)
    assert span == pytest.approx(most * share / PORT, rel=0.06)
    assert span > most * share / PORT
    assert not any(str(link).startswith("L2.") for link in _used(result))


def _used(result: silvan.Result) -> list[str]:
    links = result.numpy("links")
    return [str(link) for link in links["link"][links["sent_bytes"] > 0]]


def test_groups_on_parts_of_hosts_share_the_switch():
    size = 32 << 20
    program = (
        f'{{ kind = "collective", operation = "all-reduce", ranks = 8, groups = 4, bytes = "{size} B", '
        "iterations = 3 }"
    )
    span, result = run(program)
    assert span == pytest.approx(3 * (1 + 1 / 2) * size / INNER, rel=1e-2)
    assert len(result.numpy("collectives")["operation"]) == 4 * 3


@pytest.mark.parametrize("operation", ["all-gather", "reduce-scatter"])
def test_a_host_needs_the_time_of_all_blocks(operation):
    size = 16 << 20
    more = f'algorithms = {{ {operation.replace("-", "_")} = "ALGORITHM" }}'
    span, result = run(blocks(operation, 4, size), more.replace("ALGORITHM", "nvls"))
    assert span == pytest.approx(4 * size / INNER, rel=1e-2)
    assert span > 4 * size / INNER
    assert not any(sent(result).values())
    ring, _ = run(blocks(operation, 4, size), more.replace("ALGORITHM", "ring"))
    assert ring == pytest.approx(3 * size / INNER, rel=5e-3)
    # Two groups on each of two hosts.
    groups = blocks(operation, 8, size, ", groups = 4, iterations = 3")
    span, result = run(groups, more.replace("ALGORITHM", "nvls"))
    assert span == pytest.approx(3 * 2 * size / INNER, rel=1e-2)
    assert set(result.numpy("collectives")["algorithm"]) == {"nvls"}
    threads = silvan.run(
        silvan.Scenario.from_toml(
            on_rails(groups, more.replace("ALGORITHM", "nvls"), 'inner_rate = "3600 Gbit/s"')
        ).with_overrides({"threads": 2})
    )
    assert threads.summary["jobs"][0]["span_ns"] * 1e-9 == span


def test_blocks_cross_no_network():
    more = 'algorithms = { all_gather = "nvls" }'
    said = r"all-gather by `nvls` needs all participants on one host; use `ring`, or change ranks_per_host"
    with pytest.raises(silvan.ScenarioError, match=said):
        run(blocks("all-gather", 8, 1024), more)


def test_the_cost_model_chooses_switches_for_blocks():
    def chosen(operation: str, size: int, more: str) -> set[str]:
        _, result = run(blocks(operation, 4, size), more)
        return set(result.numpy("collectives")["algorithm"])

    for operation in ("all-gather", "reduce-scatter"):
        # Four ranks: 8.4 + 3 x 3.4 us by a ring, 25 us by the switch.
        assert chosen(operation, 64, "nccl.protocols = ['simple']") == {"ring/simple"}
        key = operation.replace("-", "_")
        assert chosen(operation, 64, f"nccl = {{}}\nalgorithms.{key} = 'nvls'") == {"nvls/simple"}


def test_the_cost_model_chooses_switches_within_hosts():
    def chosen(size: int, more: str = "nccl = {}", ports: str = 'inner_rate = "3600 Gbit/s"') -> set[str]:
        _, result = run(all_reduce(4, size), more, ports)
        return set(result.numpy("collectives")["algorithm"])

    assert chosen(64 << 20) == {"nvls/simple"}
    assert chosen(1024) == {"ring/ll"}
    for more in ("nccl.nvls = false", 'nccl.gpu = "ampere"', 'nccl = {}\noverhead = "1 us"'):
        assert chosen(64 << 20, more) == {"ring/simple"}
    assert chosen(64 << 20, "nccl = {}", "") == {"ring/simple"}
    # Told, it is used at any size.
    assert chosen(1024, f"nccl = {{}}\n{NVLS}") == {"nvls/simple"}


@pytest.mark.parametrize(
    ("more", "ports", "said"),
    [
        (
            NVLS,
            "",
            r'job\.0\.algorithms: "nvls" needs links between the ranks of a host; set ports\.inner_rate',
        ),
        (
            f'{NVLS}\noverhead = "1 us"',
            'inner_rate = "1 Gbit/s"',
            r'job\.0\.overhead.*: cannot be combined with the algorithm "nvls"',
        ),
        (
            f'{NVLS}\nprotocol = "ll"',
            'inner_rate = "1 Gbit/s"',
            r'job\.0\.protocol.*: must be "simple" with the algorithm "nvls"',
        ),
        (
            f'{NVLS}\nsharing = "cyclic"',
            'inner_rate = "1 Gbit/s"',
            r'job\.0\.sharing.*: must be "block" with the algorithms `hierarchical` and `nvls`',
        ),
        ("nccl.nvls = true", "", r'job\.0\.algorithms: "nvls" needs links'),
        ('algorithms.all_gather = "nvls"', "", r'job\.0\.algorithms: "nvls" needs links'),
        (
            'algorithms.reduce_scatter = "nvls"\nprotocol = "ll"',
            'inner_rate = "1 Gbit/s"',
            r'job\.0\.protocol.*: must be "simple" with the algorithm "nvls"',
        ),
        (
            'nccl.nvls = true\ncopy_rate = "1 Gbit/s"',
            'inner_rate = "1 Gbit/s"',
            r"job\.0\.nccl\.nvls.*: cannot be combined with job\.overhead and job\.copy_rate",
        ),
    ],
)
def test_settings_that_exclude_switches_are_named(more, ports, said):
    with pytest.raises(silvan.ScenarioError, match=said):
        silvan.Scenario.from_toml(on_rails(all_reduce(4, 1024), more, ports)).check()


def test_relays_of_other_operations_pass_on_next_to_switches():
    # A job with both: all-reduces of the data groups, and messages that cross rails.
    program = """{ kind = "transformer", layers = 2, hidden = 512, sequence = 512, tensor = 2, pipeline = 2,
        data = 4, micro_batches = 1, vocabulary = 512 }"""
    ports = 'inner_rate = "3600 Gbit/s"\ncross = "inner"'
    _, result = run(program, NVLS, ports)
    assert set(result.numpy("collectives")["algorithm"]) == {"nvls"}
    assert not any(link.startswith("L2.") for link in _used(result))


@pytest.mark.parametrize(
    ("constants", "protocol", "wanted"),
    [
        # A part passes 14 links of a ring of eight ranks, of which four are between the two hosts.
        ("nccl", "ll", 6.6 + 10 * 1.0 + 4 * 2.7),
        ("nccl", "simple", 8.4 + 10 * 3.4 + 4 * 14.0),
        ("simai-1.7", "ll128", 10 * 15.9 + 4 * 18.0),
    ],
)
def test_messages_wait_for_latencies_of_their_protocol(constants, protocol, wanted):
    more = f'algorithms.all_reduce = "ring"\nprotocol = "{protocol}"\n'
    span, _ = run(all_reduce(8, 64), f'{more}latencies = "{constants}"')
    without, _ = run(all_reduce(8, 64), more)
    assert (span - without) * 1e6 == pytest.approx(wanted, rel=0.02)


@pytest.mark.parametrize(("size", "base"), [(64, 6.6 + 6 * 0.6), (64 << 20, 25.0)])
def test_latencies_follow_the_choice_of_the_cost_model(size, base):
    span, result = run(all_reduce(4, size), 'nccl = {}\nlatencies = "nccl"')
    without, _ = run(all_reduce(4, size), "nccl = {}")
    (algorithm,) = set(result.numpy("collectives")["algorithm"])
    assert algorithm == ("ring/ll" if size == 64 else "nvls/simple")
    assert (span - without) * 1e6 == pytest.approx(base, rel=0.02)
