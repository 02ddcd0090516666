"""Tests arbitration: no link is idle while a packet could leave, and equal queues get equal shares."""

import pytest

import silvan

#: Three flows to H5. The first shares a link between switches with a flow to H6.
SEVEN = """
duration = "6 ms"
warmup = "3 ms"
topology = { kind = "dumbbell", left = 2, right = 4, link_rate = "16 Gbit/s", trunk_rate = "16 Gbit/s" }
measure = { interval = "100 us" }
flow = [
    { name = "hot1", from = "H1", to = "H5" },
    { name = "hot2", from = "H3", to = "H5" },
    { name = "hot3", from = "H4", to = "H5" },
    { name = "victim", from = "H2", to = "H6" },
]
"""
#: Eight hosts that send to each other at full rate.
SATURATED = """
duration = "4 ms"
warmup = "1 ms"
topology = { kind = "star", hosts = 8, link_rate = "16 Gbit/s" }
switch = { architecture = "iq", queues = "per-output" }
measure = { interval = "100 us" }
traffic = [{ name = "all", pattern = { kind = "uniform" } }]
"""


def rates(mechanism, longest_wait):
    scenario = silvan.Scenario.from_toml(SEVEN)
    strict = {
        "congestion__mechanism": mechanism,
        "congestion__isolation__arbitration": "strict",
        "congestion__isolation__longest_wait": longest_wait,
    }
    return {flow["flow"]: flow["received_gbit_s"] for flow in silvan.run(scenario, **strict).summary["flows"]}


@pytest.mark.parametrize("longest_wait", ["10 us", "100 us"])
@pytest.mark.parametrize("mechanism", ["fbicm", "hfdi"])
def test_strict_arbitration_leaves_no_root_idle(mechanism, longest_wait):
    rate = rates(mechanism, longest_wait)
    assert rate["hot1"] + rate["hot2"] + rate["hot3"] == pytest.approx(16, rel=0.01), rate
    assert rate["hot2"] == pytest.approx(rate["hot3"], rel=0.05), rate
    # Yielding queues do not starve: they send a packet of 2 KiB after at most twice the longest wait.
    least = 2048 * 8 / (2 * 1000 * float(longest_wait.split()[0]))
    assert rate["hot1"] > least, rate


def test_an_unmatched_pair_waits_for_a_cell():
    def throughput(**switch):
        overrides = {f"switch__{key}": value for key, value in switch.items()}
        result = silvan.run(silvan.Scenario.from_toml(SATURATED), **overrides)
        return sum(host["received_gbit_s"] for host in result.summary["hosts"]) / (8 * 16)

    assert throughput(islip_cell="0 B") < 0.9
    one, four = throughput(), throughput(islip_iterations=4)
    assert 0.95 < one < four + 0.01
    # A switch that repeats the matching only after half a packet loses more throughput.
    assert throughput(islip_cell="1 KiB") < one - 0.02
