//! Numbers by destination, in pages that come into being when they are needed: found without hashing, at the cost
//! of memory for the destinations that anybody sends to only.

/// Destinations of a page.
const PAGE: usize = 64;

/// A row has no such page.
const NO_PAGE: u32 = u32::MAX;

/// A number per row and destination, 0 unless another was set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pages {
    /// Per row: the pages of its destinations.
    rows: Vec<Vec<u32>>,
    pages: Vec<[u32; PAGE]>,
}

impl Pages {
    #[inline]
    pub fn get(&self, row: usize, dst: u32) -> u32 {
        let of_row = self.rows.get(row).map_or(&[][..], Vec::as_slice);
        let page = of_row.get(dst as usize / PAGE).and_then(|&page| self.pages.get(page as usize));
        page.map_or(0, |page| page[dst as usize % PAGE])
    }

    #[inline]
    pub fn get_mut(&mut self, row: usize, dst: u32) -> &mut u32 {
        let known = self.rows.get(row).and_then(|of_row| of_row.get(dst as usize / PAGE));
        let page = match known {
            Some(&page) if page != NO_PAGE => page as usize,
            _ => self.grow(row, dst),
        };
        &mut self.pages[page][dst as usize % PAGE]
    }

    /// Makes the page of a destination.
    #[cold]
    fn grow(&mut self, row: usize, dst: u32) -> usize {
        if self.rows.len() <= row {
            self.rows.resize(row + 1, Vec::new());
        }
        let (of_row, at) = (&mut self.rows[row], dst as usize / PAGE);
        if of_row.len() <= at {
            of_row.resize(at + 1, NO_PAGE);
        }
        of_row[at] = self.pages.len() as u32;
        self.pages.push([0; PAGE]);
        self.pages.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_are_a_map(steps in prop::collection::vec((0usize..5, 0u32..300, 0u32..9), 0..200)) {
            let mut pages = Pages::default();
            let mut map = HashMap::new();
            for (row, dst, number) in steps {
                prop_assert_eq!(pages.get(row, dst), map.get(&(row, dst)).copied().unwrap_or(0));
                *pages.get_mut(row, dst) = number;
                map.insert((row, dst), number);
            }
            for row in 0..6 {
                for dst in 0..400 {
                    prop_assert_eq!(pages.get(row, dst), map.get(&(row, dst)).copied().unwrap_or(0));
                }
            }
        }
    }
}
