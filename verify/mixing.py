"""Pseudorandom numbers that depend only on given integers."""

from __future__ import annotations

MASK = 2**64 - 1


def drawn(words: tuple[int, ...]) -> int:
    """Return a pseudorandom number of 64 bits that depends only on the given integers, as in SplitMix64."""
    state = 0x9E3779B97F4A7C15
    for word in words:
        z = ((state ^ word) + 0x9E3779B97F4A7C15) & MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        state = z ^ (z >> 31)
    return state
