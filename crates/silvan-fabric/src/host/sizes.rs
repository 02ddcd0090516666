//! Packet and buffer sizes that all hosts share.

/// Sizes in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub mtu: u32,
    pub header: u32,
    pub control: u32,
    pub credit_block: u32,
}

impl Sizes {
    /// Bytes that a packet of this size occupies in a buffer.
    #[inline]
    pub fn space(self, size: u32) -> u32 {
        let block = self.credit_block;
        // A predictable branch is faster than a division.
        if block.is_power_of_two() { (size + block - 1) & !(block - 1) } else { size.div_ceil(block) * block }
    }
}
