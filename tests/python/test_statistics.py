"""Tests the statistics of comparisons: intervals, corrections, and the rate of false claims."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import silvan
from silvan import _statistics, comparison
from silvan._statistics import Interval

SCENARIO = """
name = "synthetic"
description = "{group}"
seed = {seed}
duration = "4 ms"
[measure]
interval = "50 us"
[topology]
kind = "star"
"""
#: Quantiles of Student's t for 95 % and 99.9 %, from tables.
STUDENT = {
    1: (12.706, 636.62),
    2: (4.303, 31.599),
    5: (2.571, 6.869),
    13: (2.160, 4.221),
    1000: (1.962, 3.300),
}


@pytest.mark.parametrize("freedom", STUDENT)
def test_quantiles_are_those_of_student(freedom):
    for confidence, expected in zip((0.95, 0.999), STUDENT[freedom], strict=True):
        found = _statistics.quantile(freedom, confidence)
        assert found == pytest.approx(expected, rel=2e-4)
        assert _statistics.two_sided_p(found, freedom) == pytest.approx(1 - confidence)
    assert _statistics.two_sided_p(0.0, freedom) == 1.0


def test_means_of_latencies_have_no_negative_limits():
    spread = _statistics.mean([10.0, 60.0, 2000.0])
    assert 0 < spread.low < spread.value < spread.high
    # Values that differ little have the usual interval.
    narrow = _statistics.mean([99.0, 100.0, 101.0])
    assert narrow.high - narrow.value == pytest.approx(_statistics.half_width([99.0, 100.0, 101.0]), rel=0.02)
    assert _statistics.mean([0.0, 0.0]) == Interval(0.0, 0.0, 0.0)
    assert _statistics.mean([7.0]) == Interval(7.0, None, None)
    assert _statistics.mean([-1.0, 1.0]).low < 0


@pytest.mark.parametrize("paired", [True, False])
def test_no_change_is_below_minus_one_hundred_percent(paired):
    random = np.random.default_rng(3)
    for _ in range(200):
        first, other = random.lognormal(0, 2, (2, 3)).tolist()
        ratio = _statistics.change(first, other, paired=paired).ratio
        assert 0 < ratio.low <= ratio.value <= ratio.high


def test_means_of_zero_have_a_test_of_the_difference():
    gone = _statistics.change([100.0, 110.0, 95.0], [0.0, 0.0, 0.0], paired=False)
    assert gone.ratio == Interval(0.0, 0.0, 0.0)
    assert gone.p < 0.01
    unknown = _statistics.change([1.0, 300.0, 9.0], [0.0, 0.0, 0.0], paired=False)
    assert unknown.ratio == Interval(0.0, 0.0, math.inf)
    new = _statistics.change([0.0, 0.0, 0.0], [5.0, 6.0, 5.5], paired=True)
    assert (new.ratio, new.difference) == (None, 5.5)
    assert _statistics.change([2.0, 2.0], [2.0, 2.0], paired=True).p == 1.0


def test_rounded_values_are_not_exact():
    """If all seeds have the same small number, chance is a possible cause of a difference of one."""
    counts = _statistics.change([1.0] * 3, [2.0] * 3, paired=True, resolutions=(1.0, 1.0))
    assert counts.p > 0.01
    assert _statistics.change([1.0] * 3, [2.0] * 3, paired=True).p == 0.0
    assert _statistics.change([0.0] * 3, [49124.0] * 3, paired=True, resolutions=(1.0, 1.0)).p < 1e-6
    # The rounding of large values does not widen the interval of small ones.
    large = _statistics.change([12e3, 13e3, 11e3], [4.0, 4.2, 4.1], paired=True, resolutions=(96.0, 0.03))
    assert large.ratio.high < 2 * large.ratio.value


def test_holm_rejects_step_by_step():
    assert _statistics.holm([0.01, 0.04, 0.03, 0.005], 0.05) == [True, False, False, True]
    assert _statistics.holm([0.04, 0.03]) == [False, False]
    assert _statistics.holm([]) == []


def test_intervals_cover_the_ratio_of_means():
    """The true ratio is outside the interval in about 5 % of the samples, also if values spread widely."""
    random = np.random.default_rng(5)
    for paired in (True, False):
        for spread in (0.05, 0.5):
            outside = 0
            for _ in range(1000):
                first, other = random.lognormal(0, spread, (2, 4)).tolist()
                ratio = _statistics.change(first, [2 * one for one in other], paired=paired).ratio
                outside += not ratio.low <= 2 <= ratio.high
            assert 10 <= outside <= 70, (paired, spread)


def test_stages_share_the_probability_of_an_error():
    shares = _statistics.spending([3, 6, 12, 16])
    assert sum(shares) == pytest.approx(0.05)
    assert shares == pytest.approx([0.05 * part / 16 for part in (3, 3, 6, 4)])
    assert _statistics.spending([5]) == pytest.approx([0.05])


def test_repeated_tests_find_no_more_than_one_fixed_test():
    """Data without an effect are tested after 3, 6, 12 and 16 values, until a test rejects."""
    random = np.random.default_rng(6)
    stages = (3, 6, 12, 16)
    naive = corrected = 0
    for _ in range(1000):
        ratios = random.lognormal(0, 0.1, 16).tolist()
        found = [
            [_statistics.geometric_mean(ratios[:stage], confidence) for confidence in (0.95, 1 - share)]
            for stage, share in zip(stages, _statistics.spending(stages), strict=True)
        ]
        naive += any(one.low > 1 or one.high < 1 for one, _ in found)
        corrected += any(one.low > 1 or one.high < 1 for _, one in found)
    assert 0.01 <= corrected / 1000 <= 0.05
    assert naive / 1000 >= 0.1


def synthetic(random, seed, group, scale=1.0):
    """Return a run with 20 random results: rates, heavy-tailed latencies, and small counts."""
    classes = [f"c{n}" for n in range(6)]
    rate, wide = random.normal(100, 3, 7), random.lognormal(0, 0.6, 12) * scale
    return SimpleNamespace(
        name="synthetic",
        scenario_toml=SCENARIO.format(group=group, seed=seed),
        provenance={"seed": seed},
        tables={},
        summary={
            "simulated_ns": 4_000_000, "averages_from_ns": 2_000_000, "throughput_gbit_s": rate[6],
            "flows": [], "hosts": [{"received_gbit_s": 1.0}] * 2, "jain_hosts": random.uniform(0.5, 1),
            "fecn_marks": int(random.poisson(1.5)),
            "classes": [
                {"class": name, "received_gbit_s": rate[n], "last_delivery_ns": 4_000_000}
                for n, name in enumerate(classes)
            ],
            "latency": [
                {"class": name, "since": "generation", "count": 500, "p50_ns": int(1e5 * wide[n]),
                 "p99_ns": int(1e6 * wide[6 + n])}
                for n, name in enumerate(classes)
            ],
            "transfers": {"unfinished": int(random.poisson(0.7)), "sizes": []},
        },
    )  # fmt: skip


@pytest.mark.parametrize("same_seeds", [True, False])
def test_equal_groups_differ_in_at_most_five_percent_of_the_comparisons(same_seeds):
    random = np.random.default_rng(7)
    claims, pairs = 0, 200
    for n in range(pairs):
        number = 3 + n % 3
        seeds = [range(number), range(number) if same_seeds else range(number, 2 * number)]
        runs = [
            synthetic(random, seed, group) for group, own in zip("AB", seeds, strict=True) for seed in own
        ]
        found = comparison.compare(*runs)
        assert len(found.groups) == 2
        assert found.tests >= 19
        claims += any(change.is_proven for row in found.rows for change in row.changes)
    assert claims <= 0.05 * pairs
    # A difference is found: all latencies are ten times as large.
    runs = [
        synthetic(random, seed, group, scale)
        for group, scale in (("A", 1.0), ("B", 10.0))
        for seed in range(8)
    ]
    assert len(comparison.compare(*runs).losses) >= 8


def test_equal_groups_of_real_runs_do_not_differ():
    scenario = silvan.Scenario.from_toml(
        """
        duration = "200 us"
        warmup = "50 us"
        measure.interval = "10 us"
        topology = { kind = "star", hosts = 5 }
        [[traffic]]
        name = "all"
        pattern = { kind = "uniform" }
        rate = "8 Gbit/s"
        arrivals = "poisson"
        """
    )
    claims = 0
    for pair in range(24):
        seeds = range(1 + 6 * pair, 7 + 6 * pair)
        runs = [silvan.run(scenario, seed=seed, description=f"{seed % 2} of 2") for seed in seeds]
        found = comparison.compare(*runs)
        assert [len(group.runs) for group in found.groups] == [3, 3]
        claims += any(change.is_proven for row in found.rows for change in row.changes)
    assert claims <= 1
