//! An honest sender's blocks against a naive model of what the inbox should do.

use proptest::prelude::*;

use super::*;

struct Model {
    blocks: Vec<ModelBlock>,
}

struct ModelBlock {
    header: Data,
    have: Vec<bool>,
    deadline: Option<Micros>,
    ended: Option<Fate>,
    told: bool,
}

impl Model {
    fn new(shapes: &[(u32, u16, bool, Option<u64>)]) -> Self {
        let mut last = [None; 2];
        let blocks = shapes.iter().zip(0..).map(|(&(total, channel, ordered, left), id)| {
            let last = &mut last[usize::from(channel)];
            let previous = ordered.then(|| last.replace(id).map_or(0, |last| id - last));
            let header = Data { channel, previous, left, ..block(id, total) };
            ModelBlock { header, have: vec![false; total as usize], deadline: None, ended: None, told: false }
        });
        Self { blocks: blocks.collect() }
    }

    fn chunk(&mut self, now: Micros, id: usize, start: u32, end: u32) -> u64 {
        let block = &mut self.blocks[id];
        if block.ended.is_some() {
            return (end - start).into();
        }
        if !block.have.contains(&true) {
            block.deadline = block.header.left.map(|left| now + left);
        }
        let bytes = &mut block.have[start as usize..end as usize];
        let duplicates = bytes.iter().filter(|there| **there).count();
        bytes.fill(true);
        if !block.have.contains(&false) {
            block.ended = Some(Here);
        }
        duplicates as u64
    }

    fn end_if(&mut self, fate: Fate, is: impl Fn(usize, &ModelBlock) -> bool) {
        for (id, block) in self.blocks.iter_mut().enumerate() {
            if block.ended.is_none() && is(id, block) {
                block.ended = Some(fate);
            }
        }
    }

    /// What is to be told now: missed blocks at once, whole ones when every ordered block before them
    /// on their channel was told.
    fn told(&mut self) -> Vec<(u64, Fate)> {
        let mut told = Vec::new();
        for id in 0..self.blocks.len() {
            let block = &self.blocks[id];
            let (Some(fate), false) = (block.ended, block.told) else { continue };
            let mut before = self.blocks[..id].iter().filter(|b| b.header.channel == block.header.channel);
            let waits =
                block.header.previous.is_some() && before.any(|b| b.header.previous.is_some() && !b.told);
            if fate != Here || !waits {
                self.blocks[id].told = true;
                told.push((id as u64, fate));
            }
        }
        told
    }

    fn held(&self) -> u64 {
        let holds = |b: &&ModelBlock| match b.ended {
            None => b.have.contains(&true),
            Some(fate) => fate == Here && !b.told,
        };
        self.blocks.iter().filter(holds).map(|b| u64::from(b.header.total)).sum()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Chunk(prop::sample::Index, prop::sample::Index, prop::sample::Index),
    Cancel(prop::sample::Index),
    Wait(Micros),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => any::<(prop::sample::Index, prop::sample::Index, prop::sample::Index)>()
            .prop_map(|(id, start, len)| Step::Chunk(id, start, len)),
        1 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        1 => (0..2000u64).prop_map(Step::Wait),
    ]
}

fn any_shape() -> impl Strategy<Value = (u32, u16, bool, Option<u64>)> {
    (1..20u32, 0..2u16, prop::bool::weighted(0.8), prop::option::weighted(0.3, 0..5000u64))
}

proptest! {
    #[test]
    fn an_honest_sender_gets_what_the_model_says(
        shapes in prop::collection::vec(any_shape(), 1..12),
        steps in prop::collection::vec(any_step(), 0..150),
    ) {
        let limits = Limits { open_blocks: 100, ..limits() };
        let mut case = Case { inbox: Inbox::new(limits), now: 0 };
        let mut model = Model::new(&shapes);
        let mut duplicates = 0;
        let mut fates = Vec::new();
        for step in steps {
            match step {
                Step::Chunk(id, start, len) => {
                    let id = id.index(shapes.len());
                    let header = model.blocks[id].header.clone();
                    let start = start.index(header.total as usize) as u32;
                    let end = start + 1 + len.index((header.total - start) as usize) as u32;
                    duplicates += model.chunk(case.now, id, start, end);
                    prop_assert_eq!(case.chunk(&header, start, end), Ok(()));
                }
                Step::Cancel(id) => {
                    let id = id.index(shapes.len());
                    model.end_if(GivenUp, |i, _| i == id);
                    prop_assert_eq!(case.cancel(id as u64, model.blocks[id].header.previous), Ok(()));
                }
                Step::Wait(time) => {
                    case.now += time;
                    model.end_if(Expired, |_, block| block.deadline.is_some_and(|at| at <= case.now));
                    case.inbox.on_time(case.now);
                }
            }
            let mut told = case.told();
            told.sort_unstable();
            // The model tells in one pass what a missed block let through.
            prop_assert_eq!(&told, &model.told());
            fates.extend(told);
            prop_assert_eq!(case.inbox.held_bytes(), model.held());
            prop_assert_eq!(case.inbox.duplicate_bytes(), duplicates);
            let next = model.blocks.iter().filter(|b| b.ended.is_none()).filter_map(|b| b.deadline).min();
            prop_assert_eq!(case.inbox.timeout(), next);
        }
        fates.extend(case.inbox.end_all().into_iter().map(|label| (label.id.0, Fate::SessionClosed)));
        fates.sort_unstable();
        let begun = |b: &&ModelBlock| b.ended.is_some() || b.have.contains(&true);
        let fated: Vec<_> = fates.iter().map(|(id, _)| *id).collect();
        let noticed: Vec<_> = model.blocks.iter().filter(begun).map(|b| b.header.block).collect();
        prop_assert_eq!(fated, noticed, "one fate for each block that was heard of");
    }
}
