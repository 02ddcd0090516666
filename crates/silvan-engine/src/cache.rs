//! Prefetching: loads data into the processor cache before it is needed.
//!
//! The state of a network of hundreds of switches does not fit into the cache of a core, and consecutive
//! events access unrelated parts of it. Without prefetching, a simulation would mostly wait for memory. On
//! processors other than x86-64, nothing is prefetched.

/// Prefetches the first cache line of an item. An index out of range does nothing.
#[inline]
pub fn prefetch<T>(items: &[T], index: usize) {
    prefetch_lines::<T, 1>(items, index);
}

/// Prefetches the first `LINES` cache lines (64 bytes each) of an item, or all of them if it has fewer. An
/// index out of range does nothing.
#[inline]
pub fn prefetch_lines<T, const LINES: usize>(items: &[T], index: usize) {
    if let Some(item) = items.get(index) {
        let start = std::ptr::from_ref(item).cast::<i8>();
        for line in 0..LINES.min(size_of::<T>().div_ceil(64)) {
            prefetch_line(start.wrapping_add(line * 64));
        }
    }
}

/// Prefetches all items.
#[inline]
pub fn prefetch_all<T>(items: &[T]) {
    for start in (0..size_of_val(items)).step_by(64) {
        prefetch_line(items.as_ptr().cast::<i8>().wrapping_add(start));
    }
}

/// Prefetches the memory to which the next item of a list will be written, if the list has room for it.
#[inline]
#[allow(clippy::ptr_arg)]
pub fn prefetch_end<T>(items: &Vec<T>) {
    if items.len() < items.capacity() {
        prefetch_line(items.as_ptr().wrapping_add(items.len()).cast());
    }
}

/// Prefetches the cache line of an address.
#[inline(always)]
#[allow(unsafe_code)]
fn prefetch_line(address: *const i8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect that the program can observe, and an invalid address causes no
        // fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
