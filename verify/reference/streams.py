"""Random numbers: a stream for each purpose and owner, which the scenario's seed determines.

The generator is PCG32 (O'Neill 2014, XSH RR). SplitMix64 derives its state and stream from the seed, the
FNV-1a hash of the purpose, and the owner.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import Any

MASK = 2**64 - 1
PCG_FACTOR = 6364136223846793005


def _split_mix(state: int) -> tuple[int, int]:
    """Return the next state of SplitMix64 and its output."""
    state = (state + 0x9E3779B97F4A7C15) & MASK
    z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return state, z ^ (z >> 31)


class Stream:
    """The numbers that an owner draws for a purpose."""

    def __init__(self, seed: int, purpose: str, owner: int) -> None:
        name = 0xCBF29CE484222325
        for byte in purpose.encode():
            name = ((name ^ byte) * 0x100000001B3) & MASK
        _, mixed = _split_mix(seed)
        _, mixed = _split_mix(mixed ^ name)
        mixed, state = _split_mix(mixed ^ owner)
        _, stream = _split_mix(mixed)
        self._step = (stream << 1 | 1) & MASK
        self._state = (state + self._step) & MASK
        self._advance()

    def _advance(self) -> None:
        self._state = (self._state * PCG_FACTOR + self._step) & MASK

    def bits(self) -> int:
        """Draw 32 bits."""
        old = self._state
        self._advance()
        shifted, turn = (((old >> 18) ^ old) >> 27) & 0xFFFFFFFF, old >> 59
        return (shifted >> turn | shifted << (-turn & 31)) & 0xFFFFFFFF

    def below(self, bound: int) -> int:
        """Draw a number from 0 to below a bound, all equally likely (Lemire 2019)."""
        product = self.bits() * bound
        while product % 2**32 < (2**32 - bound) % max(bound, 1):
            product = self.bits() * bound
        return product >> 32

    def chance(self, of: int, many: int) -> bool:
        """Draw whether an event with the probability `of` / `many` occurs."""
        return self.below(many) < of

    def exponential(self, mean: int) -> int:
        """Draw an exponentially distributed integer with a mean."""
        uniform = self.bits() << 1 | 1
        return mean * (log_q32(2**33) - log_q32(uniform)) >> 32

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Shuffle from the last item down (Fisher and Yates)."""
        for last in range(len(items) - 1, 0, -1):
            pick = self.below(last + 1)
            items[last], items[pick] = items[pick], items[last]


def log_q32(value: int) -> int:
    """Return the natural logarithm of a positive integer, in units of 2^-32.

    It follows from 32 bits of the binary logarithm, which are computed by squaring the mantissa.
    """
    exponent = value.bit_length() - 1
    mantissa, log2 = value << 63 - exponent, exponent << 32
    for bit in range(31, -1, -1):
        mantissa = mantissa * mantissa >> 63
        if mantissa >> 64:
            log2 |= 1 << bit
            mantissa >>= 1
    return log2 * 0x58B90BFBE8E7BCD5 >> 63
