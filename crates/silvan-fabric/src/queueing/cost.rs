//! The cost of special queues in memory cells (Paper VI, supplement 8). A cell stores one bit.

/// Cells of content-addressable memory that each line needs: 6 for the output of the root (up to 64 ports), 6 for the
/// number of hops to the root (up to 64), and 4 for the number of the line downstream (up to 16).
const FIXED_CAM_CELLS: u64 = 6 + 6 + 4;

/// Cells of ordinary memory per line: stop, sentStop and propagated, and 32 cells for the timer.
pub const SRAM_CELLS_PER_LINE: u64 = 3 + 32;

/// Number of content-addressable cells in one CAM line that can list up to `destinations` of `hosts` hosts.
///
/// ```
/// use silvan_fabric::queueing::cost::cam_cells_per_line;
/// assert_eq!([(64, 8), (256, 16), (1024, 32)].map(|(n, d)| cam_cells_per_line(n, d)), [64, 144, 336]);
/// ```
#[must_use]
pub fn cam_cells_per_line(hosts: u64, destinations: u64) -> u64 {
    FIXED_CAM_CELLS + destinations * u64::from(hosts.max(1).next_power_of_two().ilog2())
}

/// Control memory of an input port with the given number of CAM lines, as content-addressable cells and ordinary
/// cells.
///
/// ```
/// use silvan_fabric::queueing::cost::cells_per_port;
/// assert_eq!(cells_per_port(9, 1024, 32), (3024, 315));
/// ```
#[must_use]
pub fn cells_per_port(lines: u64, hosts: u64, destinations: u64) -> (u64, u64) {
    (lines * cam_cells_per_line(hosts, destinations), lines * SRAM_CELLS_PER_LINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_those_of_paper_vi() {
        // 16 fixed cells, and 6 bits for each of 8 destinations among 64 hosts; with 65 hosts, 7 bits each.
        assert_eq!([64, 65].map(|hosts| cam_cells_per_line(hosts, 8)), [16 + 48, 16 + 56]);
        assert_eq!(cam_cells_per_line(1, 8), 16, "one host needs no bits");
        // 9 lines with 32 of 1024 hosts need 9 (16 + 320) content-addressable cells, and 35 ordinary cells per line.
        assert_eq!(cells_per_port(9, 1_024, 32), (3_024, 315));
    }
}
