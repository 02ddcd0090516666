"""Jobs of inference: closed forms of whole runs."""

from __future__ import annotations

import pytest

import silvan
from conftest import on_rails

#: Bytes per second of a port of 100 Gbit/s, and of a link within a host.
PORT, INNER = 12.5e9, 450e9


def serving(**keys: object) -> str:
    """Return a program with two groups of four ranks and the given keys."""
    given = {
        "kind": "inference",
        "prefill_tensor": 4,
        "decode_tensor": 4,
        "layers": 4,
        "hidden": 4096,
        **keys,
    }
    return "{ " + ", ".join(f"{key} = {value!r}".replace("'", '"') for key, value in given.items()) + " }"


def run(program: str, arrival: str = "own") -> tuple[float, silvan.Result]:
    """Run a program whose groups are hosts. Return the time of the job in seconds, and the result."""
    ports = f'inner_rate = "3600 Gbit/s"\narrival = "{arrival}"'
    text = on_rails(program, 'algorithms = { all_reduce = "ring" }', ports)
    result = silvan.run(silvan.Scenario.from_toml(text))
    (found,) = result.summary["jobs"]
    assert found["finished_ns"] is not None
    return float(found["span_ns"]) * 1e-9, result


def reduced(tokens: int) -> float:
    """Return the time of an all-reduce of the activations of tokens, by a ring within a host."""
    return 2 * 3 / 4 * tokens * 4096 * 2 / INNER


def prefills(result: silvan.Result) -> list[tuple[float, float]]:
    """Return the starts and ends in seconds of requests until their keys have arrived."""
    calls = result.numpy("collectives")
    rows = zip(calls["operation"], calls["start_ns"], calls["end_ns"], strict=True)
    return sorted((float(start) * 1e-9, float(end) * 1e-9) for name, start, end in rows if name == "prefill")


def test_a_request_takes_the_times_of_its_stages():
    prompt, kv, output = 2048, 64 << 10, 33
    given = {"prompt": prompt, "kv_bytes": f"{kv} B", "output": output}
    times = {"prefill_compute": "4 ms", "decode_compute": "200 us"}
    span, result = run(serving(**given, **times))
    prefill = 4e-3 + 8 * reduced(prompt)
    transfer = kv * prompt / 4 / PORT
    step = 200e-6 + 8 * reduced(1)
    assert span == pytest.approx(prefill + transfer + (output - 1) * step, rel=2e-3)
    ((start, end),) = prefills(result)
    assert start == 0
    assert end == pytest.approx(prefill + transfer, rel=2e-3)
    # Each rank sends its quarter once, and only between hosts.
    table = result.numpy("hosts")
    sums = {str(port): 0 for port in table["host"]}
    for port, sent in zip(table["host"], table["sent_bytes"], strict=True):
        sums[str(port)] += int(sent)
    assert sorted(sums.values())[-4:] == [kv * prompt // 4] * 4
    assert sum(sums.values()) == kv * prompt


def test_keys_of_each_layer_hide_behind_the_next_one():
    prompt, kv = 2048, 16 << 10
    given = {"prompt": prompt, "kv_bytes": f"{kv} B", "output": 1, "prefill_compute": "4 ms"}
    span, _ = run(serving(**given, transfer="layers"))
    whole, _ = run(serving(**given))
    prefill, transfer = 4e-3 + 8 * reduced(prompt), kv * prompt / 4 / PORT
    assert transfer / 4 < prefill / 4
    assert whole == pytest.approx(prefill + transfer, rel=2e-3)
    assert span == pytest.approx(prefill + transfer / 4, rel=2e-3)


def test_requests_wait_for_their_instance_and_their_batch():
    prompt, kv, output, requests = 1024, 64 << 10, 21, 6
    given = {"prompt": prompt, "kv_bytes": f"{kv} B", "output": output, "requests": requests, "batch": 3}
    times = {"prefill_compute": "3 ms", "decode_compute": "500 us", "interval": "1 ms"}
    span, result = run(serving(**given, **times))
    prefill, transfer = 3e-3 + 8 * reduced(prompt), kv * prompt / 4 / PORT
    assert transfer < prefill
    for number, (start, end) in enumerate(prefills(result)):
        assert start == pytest.approx(number * 1e-3, abs=1e-9)
        assert end == pytest.approx((number + 1) * prefill + transfer, rel=2e-3)
    step = 500e-6 + 8 * reduced(3)
    first = 3 * prefill + transfer + (output - 1) * step
    second = max(first, 6 * prefill + transfer) + (output - 1) * step
    assert span == pytest.approx(second, rel=2e-3)
