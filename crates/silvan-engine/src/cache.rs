//! Asking the processor to bring state into its cache before it is needed.
//!
//! A network of hundreds of switches does not fit the cache that is close to a core, and events
//! jump all over it: without this, a simulation waits for memory most of the time.

/// Has the cache line where an item begins brought in. An index out of range does nothing.
#[inline]
pub fn prefetch<T>(items: &[T], index: usize) {
    prefetch_lines::<T, 1>(items, index);
}

/// Has the first `LINES` cache lines (64 bytes) of an item brought in, or all it has. An index out
/// of range does nothing.
#[inline]
#[allow(unsafe_code)]
pub fn prefetch_lines<T, const LINES: usize>(items: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(item) = items.get(index) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = std::ptr::from_ref(item).cast::<i8>();
        for line in 0..LINES.min(size_of::<T>().div_ceil(64)) {
            // SAFETY: a prefetch neither reads nor writes as far as the program can tell, and the
            // address is within a live item.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.add(line * 64)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, index);
}
