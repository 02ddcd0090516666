"""Tests flows on trees without packets, from Python."""

import numpy as np
import pytest

import silvan

TREE = {"kind": "modified-k-ary-n-tree", "k": 4, "n": 3, "horizontal_width": 2}


def test_adaptive_routing_relieves_the_worst_links() -> None:
    fixed = silvan.contention(TREE, "default", permutations=30)
    adaptive = silvan.contention(TREE, permutations=30)
    assert adaptive.maximum.shape == (30,)
    np.testing.assert_array_equal(fixed.flows, adaptive.flows)
    assert adaptive.maximum.mean() < 0.9 * fixed.maximum.mean()
    assert adaptive.mean.mean() < 0.9 * fixed.mean.mean()
    assert np.all((adaptive.mean >= 1) & (adaptive.mean <= adaptive.maximum))
    # Default routes of this tree cross 1, 3 or 5 switches, and horizontal hops add switches.
    assert np.all(fixed.mean_switches < 5)
    assert np.all(adaptive.mean_switches > fixed.mean_switches)


def test_work_can_be_split_and_seeds_matter() -> None:
    whole = silvan.contention(TREE, permutations=6, seed=3)
    parts = [silvan.contention(TREE, permutations=3, seed=3, first=first) for first in (0, 3)]
    np.testing.assert_array_equal(whole.mean, np.concatenate([part.mean for part in parts]))
    assert not np.array_equal(whole.mean, silvan.contention(TREE, permutations=6, seed=4).mean)


def test_an_empty_cache_is_default_routing() -> None:
    fixed = silvan.contention(TREE, "default", permutations=3)
    none = silvan.contention(TREE, "flow-count", permutations=3, cache_entries=0)
    np.testing.assert_array_equal(fixed.mean, none.mean)
    plain = silvan.contention({"kind": "k-ary-n-tree", "k": 4, "n": 3}, "default", permutations=3)
    np.testing.assert_array_equal(fixed.mean, plain.mean)


def test_progress_ends_with_all() -> None:
    calls: list[tuple[int, int]] = []
    silvan.contention(TREE, permutations=4, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (4, 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"routing": "shortest"}, "routing = `shortest`: must be default or a heuristic: flow-count, bytes"),
        ({"permutations": 0}, "permutations = 0: must be 1 to"),
        ({"cache_entries": -1}, "cache_entries = -1: must be 0 to 4294967295"),
        ({"topology": {"kind": "dumbbell"}}, "dumbbell 3 \\+ 4 is not a generated fat tree"),
        (
            {"topology": TREE | {"k": 1}},
            "modified-k-ary-n-tree: `k` = 1 is out of range; it must be",
        ),
        ({"topology": TREE | {"width": 1}}, "unknown field `width`"),
    ],
)
def test_what_is_wrong_is_named(arguments, message) -> None:
    with pytest.raises(silvan.SilvanError, match=message):
        silvan.contention(**({"topology": TREE, "permutations": 1} | arguments))
