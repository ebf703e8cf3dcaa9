//! Blocks that are completed with parity.

use proptest::prelude::*;

use super::*;
use crate::{parity, wire::Repair};

impl Case {
    fn repair(&mut self, header: &Data, size: u32, index: u32) -> Result<(), InboxError> {
        let total = header.total.expect("is announced");
        let data: Vec<_> = (0..total).map(|at| content(header.block, at)).collect();
        let symbols = parity::encode(&data, size).expect("has parity");
        self.symbol(header, size, index, symbols.chunks(size as usize).nth(index as usize).expect("exists"))
    }

    fn symbol(&mut self, header: &Data, size: u32, index: u32, symbol: &[u8]) -> Result<(), InboxError> {
        let repair = Repair { block: header.clone(), symbol_size: size, index };
        self.inbox.on_repair(self.now, PATH, us(0), &repair, symbol)
    }
}

#[test]
fn parity_replaces_symbols_of_which_bytes_are_missing() {
    let mut case = case();
    let header = block(0, 450);
    assert_eq!(case.chunk(&header, 0, 150), Ok(()));
    assert_eq!(case.chunk(&header, 160, 320), Ok(()));
    assert_eq!(case.repair(&header, 100, 7), Ok(()));
    assert_eq!(case.inbox.held_bytes(), 550, "parity takes memory");
    assert_eq!(case.repair(&header, 100, 7), Ok(()));
    assert_eq!((case.inbox.held_bytes(), case.inbox.duplicate_bytes()), (550, 100), "the same again");
    assert_eq!(case.repair(&header, 100, 0), Ok(()));
    assert_eq!(case.outcomes(), [], "of five symbols two are there, and two of parity");
    assert_eq!(case.repair(&header, 100, 3), Ok(()));
    assert_eq!(case.outcomes(), [(0, Here)]);
    assert_eq!((case.inbox.held_bytes(), case.inbox.rebuilt_blocks()), (0, 1));
    assert_eq!(case.repair(&header, 100, 1), Ok(()));
    assert_eq!(case.inbox.duplicate_bytes(), 200, "too late");
}

#[test]
fn parity_alone_makes_a_block_and_data_can_complete_it() {
    let mut case = case();
    assert_eq!(case.repair(&block(0, 5), 6, 4), Ok(()));
    let header = block(1, 500);
    for index in 0..4 {
        assert_eq!(case.repair(&header, 100, index), Ok(()));
    }
    assert_eq!(case.chunk(&header, 401, 500), Ok(()));
    assert_eq!(case.outcomes(), [(0, Here)]);
    assert_eq!(case.chunk(&header, 400, 401), Ok(()));
    assert_eq!(case.outcomes(), [(1, Here)]);
    let header = block(2, 100);
    assert_eq!(case.repair(&header, 50, 0), Ok(()));
    assert_eq!(case.all(&header), Ok(()));
    assert_eq!((case.outcomes().len(), case.inbox.held_bytes(), case.inbox.rebuilt_blocks()), (1, 0, 2));
}

#[test]
fn what_is_rebuilt_keeps_its_order_and_its_parts() {
    let mut case = case();
    case.inbox.set_in_parts(0, true);
    let (first, second) = (ordered(0, 0, 300), ordered(1, 1, 300));
    let open = Data { total: None, ..first.clone() };
    assert_eq!(case.chunk(&open, 0, 250), Ok(()));
    for index in 0..3 {
        assert_eq!(case.repair(&second, 100, index), Ok(()));
    }
    assert_eq!(case.outcomes(), [], "250 bytes, as a part");
    assert_eq!(case.parts[&0], 250);
    assert_eq!(case.repair(&first, 100, 5), Ok(()), "the length comes with it");
    assert_eq!(case.outcomes(), [(0, Here), (1, Here)]);
}

#[test]
fn parity_must_agree() {
    let begun = || {
        let mut case = case();
        assert_eq!(case.repair(&ordered(1, 1, 500), 100, 0), Ok(()));
        case
    };
    let error = Err(InboxError::Contradiction(1));
    assert_eq!(begun().repair(&ordered(1, 1, 500), 102, 1), error);
    assert_eq!(begun().repair(&ordered(1, 1, 501), 100, 1), error);
    assert_eq!(begun().repair(&block(1, 500), 100, 1), error);
    assert_eq!(begun().chunk(&ordered(1, 1, 501), 0, 1), error);
    let mut grown = case();
    assert_eq!(grown.chunk(&growing(1), 0, 600), Ok(()));
    assert_eq!(grown.repair(&block(1, 500), 100, 0), error, "bytes are beyond the end");
}

#[test]
fn parity_is_refused_as_data_is() {
    let mut case = case();
    assert_eq!(case.repair(&block(0, 1001), 100, 0), Ok(()));
    for id in 1..3 {
        for index in 0..2 {
            assert_eq!(case.repair(&block(id, 1000), 100, index), Ok(()));
        }
    }
    assert_eq!(case.inbox.held_bytes(), 2400);
    assert_eq!(case.repair(&block(1, 1000), 100, 2), Ok(()));
    assert_eq!(case.inbox.held_bytes(), 2500);
    assert_eq!(case.repair(&block(2, 1000), 100, 2), Ok(()));
    assert_eq!(case.outcomes(), [(0, Fate::TooLarge), (2, Fate::NoMemory)]);
    assert_eq!(case.inbox.held_bytes(), 1300);
    assert_eq!(case.inbox.end_all().len(), 1);
    assert_eq!(case.inbox.held_bytes(), 0);
}

/// Returns a number that depends on all bits of two.
fn hash(a: u64, b: u64) -> u64 {
    let mixed = (a ^ b.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 8
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Chunks that are cut anywhere and symbols of parity, in any order, some of them twice: the
    /// block is complete as soon as there are enough whole symbols of both kinds, and no earlier.
    #[test]
    fn enough_symbols_complete_a_block(
        total in prop_oneof![1..3_000u32, 1..300_000u32],
        size in 300..700u32,
        grows in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let size = 2 * size;
        let mut case = case_with(Limits { max_block: 1 << 20, reassembly: 1 << 20, ..limits() });
        let header = block(1, total);
        let data: Vec<_> = (0..total).map(|at| content(1, at)).collect();
        let symbols = parity::encode(&data, size).expect("has parity");
        let mut items = Vec::new();
        let mut start = 0;
        while start < total {
            let end = total.min(start + 1 + (hash(seed, start.into()) % 2_000) as u32);
            items.push(Ok((start, end)));
            start = end;
        }
        items.extend(symbols.chunks(size as usize).zip(0..).map(Err));
        let mut order: Vec<_> = (0..2 * items.len() as u64).filter(|n| n % 2 == 0 || n % 6 == 1).collect();
        order.sort_by_key(|n| hash(seed, *n));
        let (mut have, mut parity, mut known) = (vec![false; total as usize], Vec::new(), !grows);
        for item in order.iter().map(|n| &items[*n as usize / 2]) {
            match item {
                Ok((start, end)) => {
                    have[*start as usize..*end as usize].fill(true);
                    let header = Data { total: header.total.filter(|_| known), ..header.clone() };
                    prop_assert_eq!(case.chunk(&header, *start, *end), Ok(()));
                }
                Err((symbol, index)) => {
                    known = true;
                    if !parity.contains(index) {
                        parity.push(*index);
                    }
                    prop_assert_eq!(case.symbol(&header, size, *index, symbol), Ok(()));
                }
            }
            let whole = have.chunks(size as usize).filter(|symbol| symbol.iter().all(|b| *b)).count();
            if known && whole + parity.len() >= total.div_ceil(size) as usize {
                prop_assert_eq!(case.outcomes(), [(1, Here)]);
                prop_assert_eq!(case.inbox.held_bytes(), 0);
                return Ok(());
            }
            prop_assert_eq!(case.outcomes(), []);
        }
        prop_assert!(false, "the block is not complete with everything");
    }
}
