//! Received byte ranges of a block.

use std::ops::Range;

/// Returns the largest number of separate spans of a block; more count as an attack on memory. An
/// honest sender cuts blocks into chunks of about a packet each.
pub(super) fn spans_allowed(total: u32) -> usize {
    16 + total as usize / 1024
}

/// Received byte ranges, merged.
#[derive(Debug, Default)]
pub(super) struct Spans(Vec<(u32, u32)>);

impl Spans {
    /// Adds a range; returns the number of its bytes that are new.
    pub(super) fn insert(&mut self, start: u32, end: u32) -> u32 {
        let first = self.0.partition_point(|s| s.1 < start);
        let last = self.0.partition_point(|s| s.0 <= end);
        let touched = &self.0[first..last];
        let overlap: u32 = touched.iter().map(|s| s.1.min(end).saturating_sub(s.0.max(start))).sum();
        let merged = touched.iter().fold((start, end), |m, s| (m.0.min(s.0), m.1.max(s.1)));
        self.0.splice(first..last, [merged]);
        end - start - overlap
    }

    /// Returns the number of contiguous bytes from the first one on.
    pub(super) fn contiguous(&self) -> u32 {
        self.0.first().filter(|first| first.0 == 0).map_or(0, |first| first.1)
    }

    pub(super) fn covers(&self, total: u32) -> bool {
        self.0.first() == Some(&(0, total))
    }

    /// Returns `true` if all bytes of a range have been received.
    pub(super) fn has(&self, start: u32, end: u32) -> bool {
        let at = self.0.partition_point(|s| s.1 < end);
        self.0.get(at).is_some_and(|s| s.0 <= start)
    }

    /// Returns the number of symbols of `size` bytes that are complete, for a block of `total`
    /// bytes, whose last symbol may be shorter.
    pub(super) fn symbols(&self, size: u32, total: u32) -> u32 {
        let whole = |&(start, end): &(u32, u32)| {
            let end = if end == total { total.div_ceil(size) } else { end / size };
            end.saturating_sub(start.div_ceil(size))
        };
        self.0.iter().map(whole).sum()
    }

    /// Returns the missing ranges of `0..end`.
    pub(super) fn gaps(&self, end: u32) -> Vec<Range<u32>> {
        let starts = std::iter::once(0).chain(self.0.iter().map(|span| span.1));
        let ends = self.0.iter().map(|span| span.0).chain([end]);
        starts.zip(ends).filter(|(start, end)| start < end).map(|(start, end)| start..end).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOTAL: u32 = 64;

    proptest! {
        #[test]
        fn spans_are_a_set_of_bytes(
            ranges in prop::collection::vec((0..TOTAL, 1..=TOTAL), 0..40),
            size in 1..=TOTAL,
        ) {
            let mut spans = Spans::default();
            let mut there = [false; TOTAL as usize];
            for (start, len) in ranges {
                let end = (start + len).min(TOTAL);
                let bytes = &mut there[start as usize..end as usize];
                let news = bytes.iter().filter(|b| !**b).count() as u32;
                bytes.fill(true);
                prop_assert_eq!(spans.insert(start, end), news);
                prop_assert_eq!(spans.covers(TOTAL), there.iter().all(|b| *b));
                let gaps = spans.gaps(TOTAL);
                let is_gap = |at: u32| gaps.iter().any(|gap| gap.contains(&at));
                prop_assert!((0..TOTAL).all(|at| is_gap(at) != there[at as usize]));
                prop_assert!(gaps.windows(2).all(|two| two[0].end < two[1].start), "ascending and apart");
                let first = there.iter().position(|b| !b).unwrap_or(there.len());
                prop_assert_eq!(spans.contiguous() as usize, first);
                let runs = there.chunk_by(|a, b| a == b).filter(|run| run[0]).count();
                prop_assert_eq!(spans.len(), runs, "spans that touch are one");
                let is_whole = |symbol: &[bool]| symbol.iter().all(|b| *b);
                let symbols = there.chunks(size as usize);
                prop_assert_eq!(spans.symbols(size, TOTAL) as usize, symbols.clone().filter(|s| is_whole(s)).count());
                for (index, symbol) in (0..).zip(symbols) {
                    let start = index * size;
                    prop_assert_eq!(spans.has(start, TOTAL.min(start + size)), is_whole(symbol));
                }
            }
        }
    }
}
