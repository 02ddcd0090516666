//! A global allocator that requests huge pages for large blocks.
//!
//! The state of a large network consists of a few blocks of many megabytes with random access. With pages of 4 KiB,
//! most accesses miss the translation lookaside buffer. Many Linux systems provide 2 MiB pages only to programs that
//! request them.

use std::alloc::{GlobalAlloc, Layout, System};

/// Minimum size in bytes of a block that gets separate pages, which may be huge.
const LARGE: usize = 2 << 20;

/// The allocator that this module describes. On systems other than Linux, it is identical to [`System`].
#[derive(Debug)]
pub struct HugePages;

/// Whether a block has separate pages.
fn is_large(layout: Layout) -> bool {
    cfg!(target_os = "linux") && layout.size() >= LARGE && layout.align() <= LARGE
}

// SAFETY: a large block has a separate mapping, and all other blocks belong to `System`. The layout alone selects
// between the two, so each block is freed by the allocator that created it.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            return map(layout.size());
        }
        // SAFETY: the caller's obligations are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            // New pages contain zeros.
            return map(layout.size());
        }
        // SAFETY: the caller's obligations are the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_large(layout) {
            return unmap(block, layout.size());
        }
        // SAFETY: the caller's obligations are the same, and the block belongs to `System`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let Ok(new_layout) = Layout::from_size_align(new_size, layout.align()) else {
            return std::ptr::null_mut();
        };
        if !is_large(layout) && !is_large(new_layout) {
            // SAFETY: the caller's obligations are the same, and the block belongs to `System`.
            return unsafe { System.realloc(block, layout, new_size) };
        }
        if is_large(layout) && is_large(new_layout) && mapped(layout.size()) == mapped(new_size) {
            return block;
        }
        // SAFETY: the new block does not overlap the old one, and both have at least the copied size.
        unsafe {
            let new = self.alloc(new_layout);
            if !new.is_null() {
                std::ptr::copy_nonoverlapping(block, new, layout.size().min(new_size));
                self.dealloc(block, layout);
            }
            new
        }
    }
}

/// The size of the mapping of a large block, in bytes.
fn mapped(size: usize) -> usize {
    size.next_multiple_of(LARGE)
}

/// Maps new memory that starts at a multiple of [`LARGE`], and requests huge pages for it. Returns null if there is no
/// memory.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn map(size: usize) -> *mut u8 {
    let length = mapped(size);
    let Some(reserved) = length.checked_add(LARGE) else { return std::ptr::null_mut() };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping affects no existing memory. Only the parts of it before and after the block are unmapped,
    // and both consist of whole pages. If the kernel rejects `madvise`, the pages stay small.
    unsafe {
        let start = libc::mmap(std::ptr::null_mut(), reserved, protection, flags, -1, 0);
        if start == libc::MAP_FAILED {
            return std::ptr::null_mut();
        }
        let before = start.cast::<u8>().align_offset(LARGE);
        let block = start.cast::<u8>().add(before);
        if before > 0 {
            libc::munmap(start, before);
        }
        if before < LARGE {
            libc::munmap(block.add(length).cast(), LARGE - before);
        }
        libc::madvise(block.cast(), length, libc::MADV_HUGEPAGE);
        block
    }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn unmap(block: *mut u8, size: usize) {
    // SAFETY: `map` returned the block for this size.
    unsafe { libc::munmap(block.cast(), mapped(size)) };
}

/// Never called, because on this system [`is_large`] returns false.
#[cfg(not(target_os = "linux"))]
fn map(_size: usize) -> *mut u8 {
    std::ptr::null_mut()
}

#[cfg(not(target_os = "linux"))]
fn unmap(_block: *mut u8, _size: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: HugePages = HugePages;

    #[test]
    fn blocks_grow_and_shrink_across_the_limit() {
        let mut bytes: Vec<u8> = Vec::new();
        for at in 0..3 * LARGE {
            bytes.push(at as u8);
        }
        assert!((0..3 * LARGE).all(|at| bytes[at] == at as u8));
        assert!(!cfg!(target_os = "linux") || bytes.as_ptr().align_offset(LARGE) == 0);
        bytes.truncate(LARGE / 2);
        bytes.shrink_to_fit();
        assert!((0..LARGE / 2).all(|at| bytes[at] == at as u8));
    }

    #[test]
    fn new_large_blocks_contain_zeros() {
        for _ in 0..3 {
            let mut block = vec![0u8; 2 * LARGE + 1];
            assert!(block.iter().all(|&byte| byte == 0));
            block.fill(7);
        }
    }
}
