//! An honest sender's blocks against a naive model of the inbox.

use proptest::prelude::*;

use super::*;

struct Model {
    blocks: Vec<ModelBlock>,
}

struct ModelBlock {
    /// Header while the length is known.
    header: Data,
    have: Vec<bool>,
    /// A receiver was given the length.
    known: bool,
    /// Its end was announced before any of its bytes.
    begun: bool,
    deadline: Option<Time>,
    ended: Option<Fate>,
    reported: bool,
}

impl Model {
    fn new(shapes: &[Shape]) -> Self {
        let mut last = [None; 2];
        let blocks =
            shapes.iter().zip(0..).map(|(&(total, channel, ordered, left, [grows, partial]), id)| {
                let last = &mut last[usize::from(channel)];
                let previous = ordered.then(|| last.replace(id).map_or(0, |last| id - last));
                let header = Data { channel, previous, left, partial, ..block(id, total) };
                let (have, known) = (vec![false; total as usize], !grows);
                ModelBlock { header, have, known, begun: false, deadline: None, ended: None, reported: false }
            });
        Self { blocks: blocks.collect() }
    }

    fn chunk(&mut self, now: Time, id: usize, start: u32, end: u32) -> u64 {
        let block = &mut self.blocks[id];
        if block.ended.is_some() {
            return (end - start).into();
        }
        if !block.is_begun() {
            block.deadline = block.header.left.map(|left| now + us(left));
        }
        let bytes = &mut block.have[start as usize..end as usize];
        let duplicates = bytes.iter().filter(|there| **there).count();
        bytes.fill(true);
        block.end_if_whole();
        duplicates as u64
    }

    /// Announces the length.
    fn end(&mut self, now: Time, id: usize) {
        let block = &mut self.blocks[id];
        if block.ended.is_none() {
            if !block.is_begun() {
                block.deadline = block.header.left.map(|left| now + us(left));
            }
            block.known = true;
            block.begun = true;
            block.end_if_whole();
        }
    }

    fn end_if(&mut self, fate: Fate, is: impl Fn(usize, &ModelBlock) -> bool) {
        for (id, block) in self.blocks.iter_mut().enumerate() {
            if block.ended.is_none() && is(id, block) {
                let has_use = block.header.partial && block.have.contains(&true);
                block.ended = Some(if has_use { Here } else { fate });
            }
        }
    }

    /// Returns the events to be reported now: missed blocks at once, whole ones when every ordered
    /// block before them on their channel was reported.
    fn outcomes(&mut self) -> Vec<(u64, Fate)> {
        let mut reported = Vec::new();
        for id in 0..self.blocks.len() {
            let block = &self.blocks[id];
            let (Some(fate), false) = (block.ended, block.reported) else { continue };
            let mut before = self.blocks[..id].iter().filter(|b| b.header.channel == block.header.channel);
            let waits =
                block.header.previous.is_some() && before.any(|b| b.header.previous.is_some() && !b.reported);
            if fate != Here || !waits {
                self.blocks[id].reported = true;
                reported.push((id as u64, fate));
            }
        }
        reported
    }

    fn held(&self) -> u64 {
        let holds = |b: &&ModelBlock| match b.ended {
            None => b.is_begun(),
            Some(fate) => fate == Here && !b.reported,
        };
        self.blocks.iter().filter(holds).map(|b| b.reach() as u64).sum()
    }
}

impl ModelBlock {
    fn is_begun(&self) -> bool {
        self.begun || self.have.contains(&true)
    }

    fn end_if_whole(&mut self) {
        if self.known && !self.have.contains(&false) {
            self.ended = Some(Here);
        }
    }

    /// Returns the missing ranges, found byte by byte.
    fn gaps(&self) -> Vec<Range<u32>> {
        let end = if self.known { self.have.len() as u32 } else { MAX_BLOCK };
        let is_there = |at: u32| self.have.get(at as usize).is_some_and(|there| *there);
        let mut gaps: Vec<Range<u32>> = Vec::new();
        for at in (0..self.have.len() as u32).filter(|at| *at < end && !is_there(*at)) {
            match gaps.last_mut().filter(|gap| gap.end == at) {
                Some(gap) => gap.end += 1,
                None => gaps.push(at..at + 1),
            }
        }
        match gaps.last_mut().filter(|gap| gap.end == self.have.len() as u32) {
            Some(gap) => gap.end = end,
            None if !self.known => gaps.push(self.have.len() as u32..end),
            None => {}
        }
        gaps
    }

    /// Returns its known length.
    fn reach(&self) -> usize {
        let seen = self.have.iter().rposition(|there| *there).map_or(0, |last| last + 1);
        if self.known { self.have.len() } else { seen }
    }
}

/// Length, channel, ordered, deadline, and flags for growing and partial.
type Shape = (u32, u16, bool, Option<u64>, [bool; 2]);

#[derive(Clone, Debug)]
enum Step {
    Chunk(prop::sample::Index, prop::sample::Index, prop::sample::Index),
    End(prop::sample::Index),
    Cancel(prop::sample::Index),
    Wait(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => any::<(prop::sample::Index, prop::sample::Index, prop::sample::Index)>()
            .prop_map(|(id, start, len)| Step::Chunk(id, start, len)),
        2 => any::<prop::sample::Index>().prop_map(Step::End),
        1 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        1 => (0..2000u64).prop_map(Step::Wait),
    ]
}

fn any_shape() -> impl Strategy<Value = Shape> {
    let left = prop::option::weighted(0.3, 0..5000u64);
    (1..20u32, 0..2u16, prop::bool::weighted(0.8), left, any::<[bool; 2]>())
}

proptest! {
    #[test]
    fn an_honest_sender_gets_what_the_model_says(
        shapes in prop::collection::vec(any_shape(), 1..12),
        steps in prop::collection::vec(any_step(), 0..150),
        in_parts in any::<[bool; 2]>(),
    ) {
        let limits = Limits { open_blocks: 100, ..limits() };
        let mut case = case_with(limits);
        (0..).zip(in_parts).for_each(|(channel, on)| case.inbox.set_in_parts(channel, on));
        let mut model = Model::new(&shapes);
        let mut duplicates = 0;
        let mut fates = Vec::new();
        for step in steps {
            match step {
                Step::Chunk(id, start, len) => {
                    let id = id.index(shapes.len());
                    let header = model.blocks[id].header.clone();
                    let total = header.total.expect("is announced");
                    let start = start.index(total as usize) as u32;
                    let end = start + 1 + len.index((total - start) as usize) as u32;
                    let header = Data { total: header.total.filter(|_| model.blocks[id].known), ..header };
                    duplicates += model.chunk(case.now, id, start, end);
                    prop_assert_eq!(case.chunk(&header, start, end), Ok(()));
                }
                Step::End(id) => {
                    let id = id.index(shapes.len());
                    let header = model.blocks[id].header.clone();
                    model.end(case.now, id);
                    prop_assert_eq!(case.end(&header, header.total.expect("is announced")), Ok(()));
                }
                Step::Cancel(id) => {
                    let id = id.index(shapes.len());
                    model.end_if(Cancelled, |i, _| i == id);
                    prop_assert_eq!(case.cancel(id as u64, model.blocks[id].header.previous), Ok(()));
                }
                Step::Wait(time) => {
                    case.now += us(time);
                    model.end_if(Expired, |_, block| block.deadline.is_some_and(|at| at <= case.now));
                    case.inbox.on_time(case.now);
                }
            }
            let mut reported = case.outcomes();
            reported.sort_unstable();
            // The model reports in one pass the blocks that a missed one delayed.
            prop_assert_eq!(&reported, &model.outcomes());
            for (id, _) in reported.iter().filter(|(_, fate)| *fate == Here) {
                prop_assert_eq!(&case.missing[id], &model.blocks[*id as usize].gaps());
            }
            fates.extend(reported);
            prop_assert_eq!(case.inbox.held_bytes(), model.held());
            prop_assert_eq!(case.inbox.duplicate_bytes(), duplicates);
            let next = model.blocks.iter().filter(|b| b.ended.is_none()).filter_map(|b| b.deadline).min();
            prop_assert_eq!(case.inbox.timeout(), next);
        }
        fates.extend(case.inbox.end_all().into_iter().map(|label| (label.id.0, Fate::SessionClosed)));
        fates.sort_unstable();
        let begun = |b: &&ModelBlock| b.ended.is_some() || b.is_begun();
        let fated: Vec<_> = fates.iter().map(|(id, _)| *id).collect();
        let noticed: Vec<_> = model.blocks.iter().filter(begun).map(|b| b.header.block).collect();
        prop_assert_eq!(fated, noticed, "one fate for each block of which anything arrived");
    }
}
