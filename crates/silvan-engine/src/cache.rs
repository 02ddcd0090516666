//! Prefetching: loads data into the processor cache before it is needed.
//!
//! The state of a network of hundreds of switches does not fit into the cache of a core, and consecutive
//! events access unrelated parts of it. Without prefetching, a simulation would mostly wait for memory.

/// Prefetches the first cache line of an item. An index out of range does nothing.
#[inline]
pub fn prefetch<T>(items: &[T], index: usize) {
    prefetch_lines::<T, 1>(items, index);
}

/// Prefetches the first `LINES` cache lines (64 bytes each) of an item, or all of them if it has fewer. An
/// index out of range does nothing.
#[inline]
#[allow(unsafe_code)]
pub fn prefetch_lines<T, const LINES: usize>(items: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(item) = items.get(index) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = std::ptr::from_ref(item).cast::<i8>();
        for line in 0..LINES.min(size_of::<T>().div_ceil(64)) {
            // SAFETY: a prefetch has no effect that the program can observe, and the address is within a
            // live item.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.add(line * 64)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, index);
}
