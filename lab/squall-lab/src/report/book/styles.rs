//! Who is drawn in which style, so that a scheduler looks the same on the whole page where that is possible.

use std::collections::BTreeMap;

use super::Chapter;
use crate::report::style::SERIES;

/// The style of each scheduler in each chapter.
pub(super) struct Styles(BTreeMap<(String, String), usize>);

impl Styles {
    /// In one chapter no two look alike as long as there are styles; each keeps that of the chapter where it was
    /// first, unless somebody else has it.
    pub(super) fn of(chapters: &[Chapter]) -> Self {
        let mut first: BTreeMap<&str, usize> = BTreeMap::new();
        let mut all = BTreeMap::new();
        for chapter in chapters {
            let schedulers = chapter.results().schedulers();
            let mut taken: Vec<usize> = Vec::new();
            let known = |name: &&str| first.contains_key(name);
            let (before, new): (Vec<&str>, Vec<&str>) = schedulers.into_iter().partition(known);
            for name in before.into_iter().chain(new) {
                let wish = first.get(name).copied().filter(|wish| !taken.contains(wish));
                let free = (0..SERIES).find(|style| !taken.contains(style)).unwrap_or(taken.len() % SERIES);
                let style = wish.unwrap_or(free);
                taken.push(style);
                first.entry(name).or_insert(style);
                all.insert((chapter.name.clone(), name.to_owned()), style);
            }
        }
        Self(all)
    }

    pub(super) fn number(&self, chapter: &Chapter, scheduler: &str) -> usize {
        self.0.get(&(chapter.name.clone(), scheduler.to_owned())).copied().unwrap_or(0)
    }
}
