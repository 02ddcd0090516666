"""Jobs of mixtures of experts, trees and hierarchical reductions: closed forms of whole runs."""

from __future__ import annotations

import math

import pytest

import silvan
from conftest import on_rails, sent_bytes

#: Bytes per second of a port of 100 Gbit/s, and of a link within a host.
PORT, INNER = 12.5e9, 450e9
INSIDE = 'inner_rate = "3600 Gbit/s"'


def job(text: str, **changes: object) -> tuple[float, silvan.Result]:
    """Return the time of the only job of a scenario in seconds, and the result."""
    result = silvan.run(silvan.Scenario.from_toml(text, overrides=changes))
    (found,) = result.summary["jobs"]
    assert found["finished_ns"] is not None
    assert found["slowdown"] >= 0.999
    return float(found["span_ns"]) * 1e-9, result


def on_a_star(program: str, hosts: int = 8, more: str = "") -> str:
    """Return a job on a star without delays."""
    return f"""
        duration = "1 s"
        topology = {{ kind = "star", hosts = {hosts}, link_rate = "100 Gbit/s", link_delay = "1 ns" }}
        packet = {{ mtu = "4096 B" }}
        [[job]]
        {more}
        program = {program}
    """


LINEAR = 'algorithms = { all_to_all = "linear" }'


def moe(**keys: object) -> str:
    """Return a program with the given keys."""
    given = {"kind": "moe", **keys}
    return "{ " + ", ".join(f"{key} = {value!r}".replace("'", '"') for key, value in given.items()) + " }"


@pytest.mark.parametrize("algorithm", ["linear", "pairwise"])
def test_equal_experts_exchange_equal_blocks(algorithm):
    ranks, tokens, away, back = 8, 4096, 7392, 14_336
    program = moe(ranks=ranks, experts=64, top_k=1, tokens=tokens, layers=2)
    span, result = job(on_a_star(program, more=f'algorithms = {{ all_to_all = "{algorithm}" }}'))
    block = tokens // ranks * (away + back)
    assert span == pytest.approx(2 * (ranks - 1) * block / PORT, rel=2e-3)
    assert set(sent_bytes(result).values()) == {2 * (ranks - 1) * block}


@pytest.mark.parametrize(("placement", "busiest"), [("contiguous", 5.3015), ("round-robin", 1.9337)])
def test_the_port_of_popular_experts_determines_the_time(placement, busiest):
    ranks, tokens, size = 8, 8192, 4096
    given = {"ranks": ranks, "top_k": 1, "tokens": tokens, "zipf": 1.0, "placement": placement}
    program = moe(**given, dispatch_bytes="4 KiB", combine_bytes="4 KiB")
    span, _ = job(on_a_star(program, more=LINEAR))
    # The busiest rank receives the tokens of all others, computes, and sends as much back.
    block = busiest * tokens / ranks * size
    assert span == pytest.approx(2 * (ranks - 1) * block / PORT, rel=5e-3)


def test_two_micro_batches_hide_their_exchanges():
    ranks, tokens, size, layers = 8, 4096, 8192, 3
    given = {"ranks": ranks, "experts": 8, "top_k": 1, "tokens": tokens, "layers": layers}
    sizes = {"dispatch_bytes": f"{size} B", "combine_bytes": f"{size} B"}
    times = {"expert_compute": "3 ms", "other_compute": "3 ms"}
    exchange = (ranks - 1) * tokens / ranks * size / PORT
    assert exchange < 3e-3
    serial, _ = job(on_a_star(moe(**given, **sizes, **times), more=LINEAR))
    assert serial == pytest.approx(layers * (6e-3 + 2 * exchange), rel=2e-3)
    # Half of the tokens compute for 1.5 ms while the other half communicates. Nothing hides the last one.
    halves = moe(**given, **sizes, **times).replace(" }", ", overlap = true }")
    hidden, _ = job(on_a_star(halves, more=LINEAR))
    assert hidden == pytest.approx(layers * 6e-3 + exchange / 2, rel=2e-3)


def test_a_training_step_sends_gradients_back_and_reduces_shared_ones():
    ranks, tokens, away, back, gradient, layers, shared = 8, 4096, 4096, 8192, 16_384, 2, 64 << 20
    given = {"ranks": ranks, "experts": 64, "top_k": 1, "tokens": tokens, "layers": layers}
    sizes = {"dispatch_bytes": f"{away} B", "combine_bytes": f"{back} B", "gradient_bytes": f"{gradient} B"}
    times = {"expert_compute": "2 ms", "other_compute": "1 ms", "shared_gradients": f"{shared} B"}
    program = moe(**given, **sizes, **times).replace(" }", ", backward = true }")
    more = 'algorithms = { all_to_all = "linear", all_reduce = "ring" }'
    span, result = job(on_a_star(program, more=more))
    exchanged = layers * (ranks - 1) * tokens // ranks * (away + back + 2 * gradient)
    reduced = 2 * (ranks - 1) * shared // ranks
    assert set(sent_bytes(result).values()) == {exchanged + reduced}
    assert span == pytest.approx(layers * 3 * 3e-3 + (exchanged + reduced) / PORT, rel=2e-3)


def test_hosts_receive_each_token_once_and_spread_it_over_inner_links():
    hosts, gpus, tokens, size, drawn, experts = 4, 4, 4096, 8192, 8, 64
    sizes = {"dispatch_bytes": f"{size} B", "combine_bytes": "0 B"}
    given = {"ranks": hosts * gpus, "experts": experts, "top_k": drawn, "tokens": tokens}
    span, result = job(on_rails(moe(**given, **sizes, dispatch="host"), LINEAR, INSIDE))

    def reached(groups: int) -> float:
        """Return the share of tokens that use at least one expert of a group of equal experts."""
        return 1 - math.comb(experts - experts // groups, drawn) / math.comb(experts, drawn)

    between = (hosts - 1) * tokens * reached(hosts) * size
    within = hosts * (gpus - 1) * tokens * reached(hosts * gpus) * size
    assert span == pytest.approx(between / PORT + within / INNER, rel=5e-3)
    shares = sent_bytes(result)
    assert len(shares) == hosts * gpus
    assert all(sent == pytest.approx(between, abs=3 * size) for sent in shares.values())
    spines = result.numpy("links")
    assert not any(str(link).startswith("L2.") for link in spines["link"][spines["sent_bytes"] > 0])
    # Without the inner links, a token goes to each rank with one of its experts.
    _, result = job(on_rails(moe(**given, **sizes), LINEAR, INSIDE))
    away = (hosts - 1) * gpus * tokens * reached(hosts * gpus) * size
    assert all(sent == pytest.approx(away, abs=12 * size) for sent in sent_bytes(result).values())
    assert away > 1.5 * between


def test_a_hierarchical_all_reduce_takes_the_times_of_its_phases():
    hosts, gpus, size = 4, 4, 32 << 20
    program = f'{{ kind = "collective", operation = "all-reduce", ranks = 16, bytes = "{size} B" }}'
    span, result = job(on_rails(program, 'algorithms = { all_reduce = "hierarchical" }', INSIDE))
    within = 2 * (gpus - 1) / gpus * size / INNER
    between = 2 * (hosts - 1) / hosts * (size / gpus) / PORT
    assert span == pytest.approx(within + between, rel=5e-3)
    assert set(sent_bytes(result).values()) == {2 * (hosts - 1) * (size // gpus // hosts)}


def test_two_trees_send_as_much_as_a_ring_in_logarithmic_time():
    ranks, size = 16, 32 << 20
    program = f'{{ kind = "collective", operation = "all-reduce", ranks = {ranks}, bytes = "SIZE B" }}'

    def run(algorithm: str, size: int, delay: str) -> tuple[float, silvan.Result]:
        text = on_a_star(program.replace("SIZE", str(size)), ranks, f"algorithms.all_reduce = {algorithm!r}")
        return job(text.replace("1 ns", delay))

    span, result = run("double-tree", size, "1 ns")
    assert sum(sent_bytes(result).values()) == 2 * (ranks - 1) * size
    assert 1 - 2 / ranks < span / (2 * size / PORT) < 1.1
    # With 8 bytes, data crosses two links of 5 us up four levels and down again.
    short, _ = run("double-tree", 8, "5 us")
    ring, _ = run("ring", 8, "5 us")
    assert short == pytest.approx(2 * 4 * 10e-6, rel=0.02)
    assert ring == pytest.approx(2 * (ranks - 1) * 10e-6, rel=0.02)


@pytest.mark.parametrize(("protocol", "factor"), [("simple", 1), ("ll", 2), ("ll128", 128 / 120)])
def test_protocols_with_flags_send_more_bytes(protocol, factor):
    size = 15 << 20
    program = f'{{ kind = "collective", operation = "all-reduce", ranks = 4, bytes = "{size} B" }}'
    more = f'algorithms.all_reduce = "ring"\nprotocol = "{protocol}"'
    span, result = job(on_a_star(program, 4, more))
    assert set(sent_bytes(result).values()) == {round(factor * 2 * 3 * size // 4)}
    assert span == pytest.approx(factor * 2 * 3 / 4 * size / PORT, rel=2e-3)
