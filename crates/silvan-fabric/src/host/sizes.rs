//! Packet and buffer sizes that all hosts share.

use silvan_engine::saved::Saved;

/// Sizes in bytes.
#[derive(Debug, Clone, Copy, Saved)]
pub(crate) struct PacketSizes {
    pub mtu: u32,
    pub header: u32,
    pub control: u32,
    pub credit_block: u32,
}

impl PacketSizes {
    /// Bytes that a packet of this size occupies in a buffer.
    #[inline]
    pub fn space(self, size: u32) -> u32 {
        let block = self.credit_block;
        let last = block.wrapping_sub(1);
        // A predictable branch is faster than a division.
        if block & last == 0 { (size + last) & !last } else { size.div_ceil(block) * block }
    }
}
