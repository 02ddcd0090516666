//! Generates the LU factorization of HPL, panel by panel, on a grid of ranks.

use super::hpcc::{Work, grid};
use super::{Group, text, within};
use crate::collective::Collective;
use crate::trace::Operation;

/// Number of rows or columns at position `place` of `count` positions, in blocks of `nb`, starting
/// with block `from`.
fn local(n: u64, nb: u64, from: u64, place: u64, count: u64) -> u64 {
    let blocks = n.div_ceil(nb);
    let own = |block: u64| block % count == place;
    let whole = (from..blocks).filter(|&block| own(block)).count() as u64 * nb;
    let missing = if blocks > from && own(blocks - 1) { blocks * nb - n } else { 0 };
    whole - missing
}

impl Work<'_> {
    pub(super) fn factorize(&mut self) -> Result<(), String> {
        let (n, nb, ranks) = (self.sizes.n, self.sizes.nb, self.sizes.ranks);
        within("nb", nb, 1, 1 << 12)?;
        within("n", n, nb, 1 << 20)?;
        let (rows, columns) = grid(ranks);
        let rank = |row: u32, column: u32| row * columns + column;
        let of_column: Vec<Group> = (0..columns)
            .map(|column| {
                let members = (0..rows).map(|row| rank(row, column)).collect();
                Group { number: 1 + column, members }
            })
            .collect();
        for block in 0..n.div_ceil(nb) {
            let owner = (block % u64::from(columns)) as u32;
            self.panel(&of_column[owner as usize], block)?;
            for row in 0..rows {
                let in_row: Vec<u32> = (0..columns).map(|step| rank(row, (owner + step) % columns)).collect();
                let height = local(n, nb, block, u64::from(row), u64::from(rows));
                self.along(&in_row, 8 * (height * nb + nb * nb))?;
            }
            for column in 0..columns {
                let width = local(n, nb, block + 1, u64::from(column), u64::from(columns));
                self.trailing(&of_column[column as usize], block, width)?;
            }
        }
        Ok(())
    }

    /// Factorizes a panel: for each column, all ranks agree on the pivot and receive its row.
    fn panel(&mut self, column: &Group, block: u64) -> Result<(), String> {
        let (n, nb) = (self.sizes.n, self.sizes.nb);
        let width = nb.min(n - block * nb);
        for step in 0..width {
            // The message contains two rows of the panel and their positions.
            self.collective(column, Collective::AllReduce, 8 * (4 + 2 * nb))?;
            for (place, &rank) in column.members.iter().enumerate() {
                let height = local(n, nb, block, place as u64, column.members.len() as u64);
                self.compute(rank, (2 * height * (width - step)) as f64)?;
            }
        }
        Ok(())
    }

    /// Sends the panel along a row of the grid, from one rank to the next.
    fn along(&mut self, ranks: &[u32], bytes: u64) -> Result<(), String> {
        for pair in ranks.windows(2) {
            let send = Operation::send(pair[1], bytes, 2001);
            self.ranks[pair[0] as usize].blocking(&mut self.build, send).map_err(text)?;
            let recv = Operation::recv(pair[0], bytes, 2001);
            self.ranks[pair[1] as usize].blocking(&mut self.build, recv).map_err(text)?;
        }
        Ok(())
    }

    /// Swaps rows within a column of the grid, and updates the remaining matrix there.
    fn trailing(&mut self, column: &Group, block: u64, width: u64) -> Result<(), String> {
        let (n, nb) = (self.sizes.n, self.sizes.nb);
        if width == 0 {
            return Ok(());
        }
        let rows = column.members.len() as u64;
        self.collective(column, Collective::AllGather, 8 * (nb * width).div_ceil(rows))?;
        for (place, &rank) in column.members.iter().enumerate() {
            let height = local(n, nb, block + 1, place as u64, rows);
            self.compute(rank, 2.0 * nb as f64 * height as f64 * width as f64)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_spread_in_blocks() {
        // 10 rows form the blocks 0-3, 4-7 and 8-9, of which the first and the third belong to
        // position 0.
        assert_eq!(local(10, 4, 0, 0, 2), 6);
        assert_eq!(local(10, 4, 0, 1, 2), 4);
        assert_eq!(local(10, 4, 1, 0, 2), 2);
        assert_eq!(local(10, 4, 3, 0, 2), 0);
    }
}
