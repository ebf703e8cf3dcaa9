//! Small blocks that parity over a run replaces.

use proptest::prelude::*;

use super::*;
use crate::{
    parity,
    wire::{Member, RunParity},
};

/// Small blocks, with the parity over all of them.
struct Small {
    headers: Vec<Data>,
    run: RunParity,
    symbols: Vec<u8>,
}

impl Small {
    fn new(headers: Vec<Data>) -> Self {
        let symbol = |header: &Data| Member::write(header, &payload(header));
        let mut data: Vec<_> = headers.iter().map(symbol).collect();
        let size = data.iter().map(Vec::len).max().expect("has members").next_multiple_of(2);
        data.iter_mut().for_each(|symbol| symbol.resize(size, 0));
        let symbols = parity::encode(&data.concat(), size as u32).expect("has parity");
        let members = headers.iter().map(|header| Member { block: header.block, left: header.left });
        let run = RunParity {
            members: members.collect(),
            sent: Stamp::at(at_us(0)),
            symbol_size: size as u32,
            index: 0,
        };
        Self { headers, run, symbols }
    }

    fn parity(&self, case: &mut Case, index: u32) -> Result<(), InboxError> {
        let symbol = self.symbols.chunks(self.run.symbol_size as usize).nth(index as usize);
        let run = RunParity { index, ..self.run.clone() };
        case.inbox.on_run_parity(case.now, PATH, us(0), &run, symbol.expect("exists"))
    }
}

fn payload(header: &Data) -> Vec<u8> {
    (0..header.total.expect("is announced")).map(|at| content(header.block, at)).collect()
}

fn roomy() -> Case {
    case_with(Limits { reassembly: 1 << 20, open_blocks: 4096, ..limits() })
}

/// A case that has seen parity of a run, and therefore keeps small blocks.
fn warm() -> Case {
    let mut case = roomy();
    let first = Small::new(vec![block(0, 5)]);
    assert_eq!(first.parity(&mut case, 0), Ok(()));
    assert_eq!(case.outcomes(), [(0, Here)]);
    assert_eq!(case.inbox.take_rebuilt(), Some(BlockId(0)));
    case
}

#[test]
fn parity_of_a_run_replaces_small_blocks() {
    let mut case = warm();
    let run = Small::new(vec![block(1, 100), ordered(2, 0, 7), block(4, 60)]);
    assert_eq!(case.all(&run.headers[2]), Ok(()));
    assert_eq!(run.parity(&mut case, 6), Ok(()));
    assert_eq!(case.outcomes(), [(4, Here)], "two are missing, and there is one symbol");
    assert_eq!(run.parity(&mut case, 6), Ok(()), "the same again");
    assert_eq!(case.outcomes(), []);
    assert_eq!(run.parity(&mut case, 1), Ok(()));
    assert_eq!(case.outcomes(), [(1, Here), (2, Here)]);
    assert_eq!([case.inbox.take_rebuilt(), case.inbox.take_rebuilt()], [Some(BlockId(1)), Some(BlockId(2))]);
    assert_eq!(
        (case.inbox.take_rebuilt(), case.inbox.rebuilt_blocks(), case.inbox.held_bytes()),
        (None, 3, 0)
    );
    assert_eq!(case.all(&run.headers[0]), Ok(()));
    assert_eq!((case.outcomes().len(), case.inbox.duplicate_bytes()), (0, 100), "late");
}

#[test]
fn a_block_that_arrives_lets_parity_replace_the_other() {
    let mut case = warm();
    let run = Small::new(vec![block(1, 100), block(2, 100), block(3, 100)]);
    let chain = Small::new(vec![block(3, 100), block(4, 100)]);
    assert_eq!(run.parity(&mut case, 0), Ok(()));
    assert_eq!(chain.parity(&mut case, 0), Ok(()));
    assert_eq!(case.all(&run.headers[0]), Ok(()));
    assert_eq!(case.outcomes(), [(1, Here)]);
    assert_eq!(case.all(&run.headers[1]), Ok(()));
    assert_eq!(case.outcomes(), [(2, Here), (3, Here), (4, Here)], "the third completes another run");
}

#[test]
fn before_the_first_parity_nothing_is_kept() {
    let mut case = roomy();
    let run = Small::new(vec![block(0, 100), block(1, 100)]);
    assert_eq!(case.all(&run.headers[0]), Ok(()));
    assert_eq!(run.parity(&mut case, 0), Ok(()));
    assert_eq!(case.outcomes(), [(0, Here)]);
    assert_eq!(run.parity(&mut case, 1), Ok(()), "of two missing ones only the second has not ended");
    assert_eq!(case.outcomes(), [(1, Here)]);
}

#[test]
fn what_has_ended_is_not_rebuilt() {
    let mut case = warm();
    let run = Small::new(vec![Data { left: Some(1_000), ..block(1, 100) }, block(2, 100)]);
    assert_eq!(case.cancel(2, None), Ok(()));
    assert_eq!(run.parity(&mut case, 0), Ok(()));
    assert_eq!(run.parity(&mut case, 1), Ok(()));
    let arrived = case.outcomes();
    assert_eq!(arrived.last(), Some(&(1, Here)));
    assert_eq!(case.inbox.rebuilt_blocks(), 2);
    assert_eq!(run.parity(&mut case, 2), Ok(()));
    assert_eq!(case.inbox.duplicate_bytes(), u64::from(run.run.symbol_size), "all have ended");
}

#[test]
fn what_is_no_block_ends_the_session() {
    let mut case = warm();
    let run = RunParity { symbol_size: 20, ..Small::new(vec![block(1, 9)]).run };
    let parity =
        |case: &mut Case, symbol: &[u8]| case.inbox.on_run_parity(at_us(0), PATH, us(0), &run, symbol);
    assert_eq!(parity(&mut case, &[0; 20]), Err(InboxError::Contradiction(1)));
    let mut other = Member::write(&block(2, 9), &[7; 9]);
    other.resize(20, 0);
    assert_eq!(parity(&mut case, &other), Err(InboxError::Contradiction(1)));
    let far = Small::new(vec![block(1, 9), block(1 << 21, 9)]);
    assert_eq!(far.parity(&mut case, 0), Err(InboxError::TooFarAhead { id: 1 << 21, oldest: 1 }));
}

#[test]
fn what_is_kept_has_a_bound() {
    let mut case = warm();
    let kept = |case: &Case| case.inbox.runs.bytes();
    for id in 1..2_000 {
        assert_eq!(case.all(&block(id, 1_000)), Ok(()));
        let pair = Small::new(vec![block(10_000 + 2 * id, 1_000), block(10_001 + 2 * id, 1_000)]);
        assert_eq!(pair.parity(&mut case, 0), Ok(()));
        let room = case.inbox.room_for_runs();
        assert!(kept(&case).into_iter().all(|bytes| bytes <= room), "{:?} of {room}", kept(&case));
    }
    case.outcomes();
    assert!(kept(&case).into_iter().all(|bytes| bytes > 10_000), "the bound was reached: {:?}", kept(&case));
}

#[test]
fn what_is_refused_is_not_reported_as_rebuilt() {
    let mut case = warm();
    let large = Small::new(vec![block(1, 1_001)]);
    assert_eq!(large.parity(&mut case, 0), Ok(()));
    assert_eq!((case.inbox.take_rebuilt(), case.inbox.rebuilt_blocks()), (None, 1), "the first one alone");
    assert_eq!(case.inbox.take_refusal(), Some((BlockId(1), RefuseReason::TooLarge)));
}

proptest! {
    /// For any losses and any order of the rest, a block is received if it arrived, or if no more
    /// are missing than symbols arrived.
    #[test]
    fn enough_symbols_bring_all(
        sizes in prop::collection::vec(1..200u32, 1..=32),
        arrives in any::<u64>(),
        order in any::<u64>(),
    ) {
        let mut case = warm();
        let run = Small::new((1..).zip(&sizes).map(|(id, len)| block(id, *len)).collect());
        let count = sizes.len();
        let mut events: Vec<_> = (0..count + 8).filter(|event| arrives >> event & 1 == 1).collect();
        events.sort_by_key(|n| (*n as u64 ^ order).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
        for event in &events {
            match run.headers.get(*event) {
                Some(header) => prop_assert_eq!(case.all(header), Ok(())),
                None => prop_assert_eq!(run.parity(&mut case, (event - count) as u32), Ok(())),
            }
        }
        let there = events.iter().filter(|event| **event < count).count();
        let symbols = events.len() - there;
        let expected = if there + symbols >= count { count } else { there };
        prop_assert_eq!(case.outcomes().len(), expected);
    }

    /// Any symbol is accepted, or ends the session.
    #[test]
    fn any_symbol_is_taken_or_refused(
        ids in prop::collection::btree_set(0..40u64, 1..6),
        symbols in prop::collection::vec(prop::collection::vec(any::<u8>(), 30), 0..8),
        blocks in prop::collection::vec(0..40u64, 0..40),
    ) {
        let mut case = warm();
        for id in blocks {
            prop_assert_eq!(case.all(&block(id, 1 + id as u32 % 30)), Ok(()));
        }
        let members: Vec<_> = ids.into_iter().map(|block| Member { block, left: None }).collect();
        for (index, symbol) in (0..).zip(&symbols) {
            let run = RunParity { members: members.clone(), sent: Stamp::at(at_us(0)), symbol_size: 30, index };
            match case.inbox.on_run_parity(at_us(0), PATH, us(0), &run, symbol) {
                Ok(()) | Err(InboxError::Contradiction(_)) => {}
                Err(error) => prop_assert!(false, "{}", error),
            }
        }
        case.outcomes();
    }
}
