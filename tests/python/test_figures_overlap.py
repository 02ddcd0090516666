"""Tests that overlapping lines of figures alternate, so that all of them are visible."""

import numpy as np

from silvan import plot

NOTHING = np.nan


def test_lines_with_nearly_the_same_value_know_each_other():
    values = np.array([[10.0, 10.0, 10.0], [10.05, 5.0, NOTHING], [0.0, 5.0, 10.0]])
    rank, number = plot._overlaps(values, logarithmic=False)
    assert number.tolist() == [[2, 1, 2], [2, 2, 1], [1, 2, 2]]
    assert rank.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 1]]


def test_each_of_two_equal_flows_has_stripes(result):
    axes = plot.throughput(result)
    dashed = [patch for patch in axes.patches if patch.get_linestyle() not in ("-", "solid")]
    # F2 and F3 share the congested host from 1 ms.
    assert dashed
    assert {tuple(patch.get_edgecolor()) for patch in dashed} <= {
        tuple(patch.get_edgecolor()) for patch in axes.patches if patch not in dashed
    }
    assert len({patch.get_linewidth() for patch in axes.patches}) == 1
