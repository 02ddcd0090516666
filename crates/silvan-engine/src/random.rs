//! Random streams, one per owner and purpose. The seed, the purpose and the owner determine a stream.
//!
//! Streams share no state, so the random numbers of one host depend neither on those of another host nor on
//! the number of threads. The generator is PCG32 (O'Neill 2014); SplitMix64 derives its state and stream
//! from (seed, purpose, owner).

use crate::saved::Saved;

/// A reproducible stream of random numbers.
// Checkpoints contain the state, so it must be accessible.
#[derive(Debug, Clone, Saved)]
pub struct Stream {
    state: u64,
    /// An odd number, which distinguishes streams.
    increment: u64,
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Stream {
    /// The stream of `owner` (a host or port number) for `purpose` (such as "destinations" or "marking").
    #[must_use]
    pub fn new(seed: u64, purpose: &str, owner: u64) -> Self {
        // FNV-1a over the name: unlike the hasher of the standard library, it never changes.
        let name = purpose.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let mut mix = seed;
        let mut mix = split_mix(&mut mix) ^ name;
        let mut mix = split_mix(&mut mix) ^ owner;
        let state = split_mix(&mut mix);
        Self::pcg32(state, split_mix(&mut mix))
    }

    /// The generator PCG32 (XSH RR 64/32) with its usual initialization.
    fn pcg32(state: u64, stream: u64) -> Self {
        let increment = stream << 1 | 1;
        let mut generator = Self { state: state.wrapping_add(increment), increment };
        generator.step();
        generator
    }

    #[inline]
    fn step(&mut self) {
        self.state = self.state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(self.increment);
    }

    /// 32 random bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        let state = self.state;
        self.step();
        ((((state >> 18) ^ state) >> 27) as u32).rotate_right((state >> 59) as u32)
    }

    /// A uniform number in `0..bound`, without bias (Lemire 2019). A bound of zero gives zero.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        let mut product = u64::from(self.next_u32()) * u64::from(bound);
        if (product as u32) < bound {
            let threshold = bound.wrapping_neg() % bound.max(1);
            while (product as u32) < threshold {
                product = u64::from(self.next_u32()) * u64::from(bound);
            }
        }
        (product >> 32) as u32
    }

    /// A uniform number in `0..bound` except `other`, which must be in this range.
    #[inline]
    pub fn below_except(&mut self, bound: u32, other: u32) -> u32 {
        let drawn = self.below(bound - 1);
        drawn + u32::from(drawn >= other)
    }

    /// True with probability `numerator / denominator`.
    #[inline]
    pub fn chance(&mut self, numerator: u32, denominator: u32) -> bool {
        self.below(denominator) < numerator
    }

    /// An exponentially distributed duration with the given mean, both in picoseconds.
    ///
    /// The logarithm has the bits of an integer computation (see [`ln_q32`]), because the last bits of a
    /// floating-point logarithm may differ between platforms.
    #[inline]
    pub fn exponential(&mut self, mean_ps: u64) -> u64 {
        let uniform = (u64::from(self.next_u32()) << 1) | 1; // odd 33-bit number, never 0
        let minus_ln = LN_2_33 - quick_ln_q32(uniform);
        ((u128::from(mean_ps) * u128::from(minus_ln)) >> 32) as u64
    }

    /// Shuffles the items (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let pick = self.below(u32::try_from(last + 1).unwrap_or(u32::MAX)) as usize;
            items.swap(last, pick);
        }
    }
}

/// The logarithm of the upper bound of the random numbers, 2^33.
const LN_2_33: u64 = ln_q32(1 << 33);

/// Natural logarithm of an integer of 1 or more, as a fixed-point number with 32 fraction bits.
///
/// The digits of the binary logarithm are computed one by one with integers (square the mantissa, read the
/// carry). The error is below 2^-28.
#[must_use]
pub const fn ln_q32(value: u64) -> u64 {
    ln_of_log2(log2_q32(value))
}

/// Same as [`ln_q32`], but faster, for integers below 2^53.
///
/// The floating-point logarithm gives the correct bits unless it is so close to a multiple of 2^-32 that
/// its error could change them.
#[inline]
fn quick_ln_q32(value: u64) -> u64 {
    let log2 = (value.max(1) as f64).log2() * TWO_32;
    let bits = log2 as u64;
    let beyond = log2 - bits as f64;
    // The error of the floating-point logarithm is below 2^-46, and that of the squares below 2^-57. In
    // units of the last bit, this is below 2^-14, far less than `NEAR`.
    let is_sure = beyond > NEAR && beyond < 1.0 - NEAR;
    ln_of_log2(if is_sure { bits } else { log2_q32(value) })
}

/// 2^32.
const TWO_32: f64 = 4_294_967_296.0;

/// The floating-point logarithm is used only if its distance from both adjacent multiples of 2^-32 exceeds
/// this value, in units of 2^-32. The value far exceeds the error of the logarithm.
const NEAR: f64 = 1.0 / 256.0;

const fn ln_of_log2(log2: u64) -> u64 {
    const LN_2_Q63: u128 = 0x58b9_0bfb_e8e7_bcd5;
    ((log2 as u128 * LN_2_Q63) >> 63) as u64
}

/// Binary logarithm of an integer of 1 or more, as a fixed-point number with 32 fraction bits, rounded
/// down.
const fn log2_q32(value: u64) -> u64 {
    let value = if value == 0 { 1 } else { value };
    let exponent = 63 - value.leading_zeros();
    let mut mantissa = value << (63 - exponent); // 1.63 fixed point, in [1, 2)
    let mut log2 = (exponent as u64) << 32;
    let mut bit = 1 << 31;
    while bit != 0 {
        let square = (mantissa as u128 * mantissa as u128) >> 63;
        if square >> 64 != 0 {
            log2 |= bit;
            mantissa = (square >> 1) as u64;
        } else {
            mantissa = square as u64;
        }
        bit >>= 1;
    }
    log2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_gives_the_numbers_of_its_reference_implementation() {
        // The demonstration program of PCG prints these numbers.
        let mut stream = Stream::pcg32(42, 54);
        let numbers = [0xa15c_02b7, 0x7b47_f409, 0xba1d_3330, 0x83d2_f293, 0xbfa4_784b, 0xcbed_606e];
        assert_eq!(numbers.map(|_| stream.next_u32()), numbers);
    }

    #[test]
    fn streams_depend_on_seed_purpose_and_owner() {
        let numbers = |seed, purpose, owner| {
            let mut stream = Stream::new(seed, purpose, owner);
            [stream.next_u32(), stream.next_u32(), stream.next_u32()]
        };
        assert_eq!(numbers(1, "destinations", 0), numbers(1, "destinations", 0));
        assert_ne!(numbers(1, "destinations", 0), numbers(1, "destinations", 1));
        assert_ne!(numbers(1, "destinations", 0), numbers(1, "arrivals", 0));
        assert_ne!(numbers(1, "destinations", 0), numbers(2, "destinations", 0));
    }

    #[test]
    fn a_number_is_left_out_and_all_others_are_drawn() {
        let mut stream = Stream::new(1, "destinations", 0);
        for other in 0..4 {
            let mut drawn: Vec<u32> = (0..100).map(|_| stream.below_except(4, other)).collect();
            drawn.sort_unstable();
            drawn.dedup();
            assert_eq!(drawn, (0..4).filter(|&number| number != other).collect::<Vec<_>>());
        }
    }

    #[test]
    fn logarithm_agrees_with_floating_point() {
        for value in [1, 2, 3, 10, 1_000, 1 << 33, u64::MAX] {
            let ours = ln_q32(value) as f64 / 2f64.powi(32);
            assert!((ours - (value as f64).ln()).abs() < 1e-8, "ln {value}: {ours}");
        }
    }

    #[test]
    fn the_quick_logarithm_has_the_same_bits() {
        let mut stream = Stream::new(3, "logarithms", 0);
        let random = (0..300_000).map(|_| u64::from(stream.next_u32()) << 1 | 1);
        // Includes values whose logarithm has fraction bits that are all zero, or nearly so.
        let powers = (0..34).flat_map(|at| [(1u64 << at).saturating_sub(1), 1 << at, (1 << at) + 1]);
        for value in random.chain(powers).chain(0..10_000) {
            assert_eq!(quick_ln_q32(value), ln_q32(value), "ln {value}");
        }
    }

    #[test]
    fn random_numbers_have_the_right_moments() {
        let mut stream = Stream::new(7, "test", 0);
        let n = 200_000;
        let mean = (0..n).map(|_| stream.exponential(1_000_000) as f64).sum::<f64>() / f64::from(n);
        assert!((mean / 1e6 - 1.0).abs() < 0.01, "exponential mean {mean}");
        let mut counts = [0u32; 7];
        (0..n).for_each(|_| counts[stream.below(7) as usize] += 1);
        assert!(counts.iter().all(|&c| (f64::from(c) * 7.0 / f64::from(n) - 1.0).abs() < 0.03), "{counts:?}");
        assert_eq!(stream.below(0), 0);
        let mut deck: Vec<u32> = (0..52).collect();
        stream.shuffle(&mut deck);
        let mut sorted = deck.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..52).collect::<Vec<_>>());
        assert_ne!(deck, sorted);
    }
}
