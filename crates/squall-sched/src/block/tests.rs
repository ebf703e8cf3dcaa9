use squall_units::short::at_us;

use super::*;

const A: PathId = PathId(0);
const B: PathId = PathId(1);

fn block(len: u32, reliable: bool) -> Block {
    with_symbols(len, reliable, None)
}

fn with_symbols(len: u32, reliable: bool, largest: Option<u32>) -> Block {
    Block::new(BlockMeta { reliable, ..BlockMeta::new(BlockId(0), len) }, largest)
}

/// A block of ten symbols of 100 bytes, whose first six left on A in chunks of 60 bytes and the
/// others whole.
fn sent_in_symbols(reliable: bool) -> Block {
    let mut block = with_symbols(995, reliable, Some(100));
    (0..10).for_each(|at| block.sent(60 * at..60 * at + 60, A, at_us(1)));
    block.sent(600..995, A, at_us(1));
    block
}

#[test]
fn each_priority_is_worth_four_of_the_next() {
    let values = [0, 1, 6, 7, 8, u8::MAX].map(BlockMeta::usual_value);
    assert_eq!(values, [16_384, 4_096, 4, 1, 1, 1]);
}

#[test]
fn a_byte_on_two_paths_is_lost_only_when_both_copies_are() {
    let mut block = block(100, true);
    block.sent(0..100, A, at_us(1));
    block.sent(20..60, B, at_us(2));
    assert_eq!(block.lost(0..100, A), 60);
    assert_eq!(block.next_lost(), Some(0..20));
    assert_eq!(block.in_flight_bytes(), 40);
    assert_eq!(block.lost(20..60, B), 40);
    assert_eq!(block.lost_bytes(), 100);
    assert_eq!(block.lost(20..60, B), 0, "reported twice, counted once");
}

#[test]
fn what_arrived_stays_arrived() {
    let mut block = block(100, true);
    block.sent(0..100, A, at_us(1));
    assert_eq!(block.lost(0..100, A), 100);
    assert_eq!(block.acked(10..30), 20, "late acknowledgement of what was thought lost");
    block.sent(0..100, B, at_us(2));
    block.lost(0..100, B);
    block.unsent(0..100, B);
    assert_eq!((block.acked_bytes(), block.lost_bytes()), (20, 80));
    assert_eq!(block.acked(0..100), 80);
    assert!(block.is_complete());
}

#[test]
fn taking_back_every_copy_leaves_fresh_bytes_whatever_the_order() {
    for order in [[A, B], [B, A]] {
        let mut block = block(100, false);
        block.sent(0..100, A, at_us(1));
        block.sent(0..100, B, at_us(2));
        for path in order {
            block.unsent(0..100, path);
        }
        assert_eq!(block.fresh_bytes(), 100, "an unreliable block must not lose what never left");
        assert_eq!((block.segments()[0].sent_on, block.first_sent()), (PathSet::EMPTY, None));
    }
}

#[test]
fn taking_back_a_repair_leaves_lost_bytes() {
    let mut block = block(100, true);
    block.sent(0..100, A, at_us(1));
    block.lost(0..100, A);
    for path in [A, B] {
        block.sent(0..100, path, at_us(2));
        block.unsent(0..100, path);
        assert_eq!(block.lost_bytes(), 100);
        assert_eq!(block.segments()[0].sent_on, A.into());
    }
}

#[test]
fn a_path_that_is_gone_leaves_no_trace_but_that_bytes_were_lost() {
    let mut block = block(100, true);
    block.sent(0..100, A, at_us(1));
    block.sent(0..50, B, at_us(1));
    block.lost(0..100, A);
    block.forget_path(A);
    assert_eq!(
        block.segments().iter().map(|s| (s.sent_on, s.lost_on)).collect::<Vec<_>>(),
        [(B.into(), PathSet::EMPTY), (PathSet::EMPTY, PathSet::EMPTY)]
    );
    block.sent(50..100, A, at_us(2));
    block.unsent(50..100, A);
    assert_eq!((block.lost_bytes(), block.fresh_bytes()), (50, 0), "to be repaired, not new");
}

#[test]
fn times_of_the_first_and_the_last_first_transmission() {
    let mut block = block(100, true);
    assert_eq!((block.first_sent(), block.fully_sent()), (None, None));
    block.sent(0..60, A, at_us(3));
    assert_eq!((block.first_sent(), block.fully_sent()), (Some(at_us(3)), None));
    block.sent(60..100, A, at_us(5));
    block.lost(0..10, A);
    block.sent(0..10, B, at_us(9));
    assert_eq!(
        (block.first_sent(), block.fully_sent()),
        (Some(at_us(3)), Some(at_us(5))),
        "a repair changes neither"
    );
    block.unsent(60..100, A);
    assert_eq!(block.fully_sent(), None);
}

#[test]
fn a_late_departure_moves_the_sending_times() {
    let mut block = block(100, true);
    block.sent(0..50, A, at_us(1));
    block.sent(50..100, B, at_us(2));
    block.departed(0..50, WorkKind::Fresh, at_us(7));
    assert_eq!(block.fully_sent(), Some(at_us(7)));
    assert_eq!(
        block.segments().iter().map(|s| s.sent_at).collect::<Vec<_>>(),
        [Some(at_us(7)), Some(at_us(2))]
    );
    block.unsent(50..100, B);
    block.departed(50..100, WorkKind::Fresh, at_us(9));
    assert_eq!((block.segments()[1].sent_at, block.fully_sent()), (None, None), "taken back before");
}

#[test]
fn a_block_that_grows_ends_only_when_its_length_is_final() {
    let mut block = block(0, true);
    block.open(150);
    assert!(!block.is_complete() && !block.is_spent() && block.next_work().is_none());
    block.grow(100);
    assert_eq!((block.fresh_bytes(), block.expected_bytes()), (100, 50));
    block.sent(0..60, A, at_us(1));
    block.grow(20);
    assert_eq!(block.next_fresh(), Some(60..120), "what was fresh and what came are one range");
    block.sent(60..120, B, at_us(2));
    block.acked(0..120);
    assert!(!block.is_complete() && !block.is_spent());
    assert_eq!((block.fully_sent(), block.expected_bytes()), (None, 30));
    block.grow(80);
    assert_eq!((block.next_fresh(), block.expected_bytes()), (Some(120..200), 0), "more than expected");
    block.finish();
    block.sent(120..200, A, at_us(3));
    block.acked(120..200);
    assert!(block.is_complete() && block.is_spent());
    assert_eq!(block.fully_sent(), Some(at_us(3)));
}

#[test]
fn a_symbol_is_there_when_all_its_bytes_are() {
    let mut block = sent_in_symbols(true);
    assert_eq!((block.missing_symbols(), block.lost_symbols()), (Some(10), Some(0)));
    block.acked(0..60);
    assert_eq!(block.missing_symbols(), Some(10), "40 bytes are missing");
    block.acked(60..120);
    assert_eq!(block.missing_symbols(), Some(9));
    block.lost(180..240, A);
    assert_eq!((block.missing_symbols(), block.lost_symbols()), (Some(9), Some(2)), "a chunk in two symbols");
    block.acked(600..995);
    assert_eq!(block.missing_symbols(), Some(5), "the last one is short");
    let ends = [0, 99, 100, 994].map(|at| block.symbol_end(at));
    assert_eq!(ends, [Some(100), Some(100), Some(200), Some(1000)]);
}

#[test]
fn a_block_is_complete_with_enough_symbols_of_either_kind() {
    for (reliable, acked) in [(true, 1), (true, 2), (false, 1), (false, 2)] {
        let mut block = sent_in_symbols(reliable);
        let parity = block.parity_mut().expect("has parity");
        parity.mark_sent(0..2);
        block.lost(180..240, A);
        block.acked(0..180);
        block.acked(240..995);
        assert!(!block.is_complete() && block.is_covered(), "two symbols are missing");
        assert_eq!((block.is_spent(), block.unsent_bytes() > 0), (false, reliable));
        block.parity_mut().expect("has parity").mark_acked(0..acked);
        assert_eq!((block.missing_symbols(), block.is_complete()), (Some(2 - acked), acked == 2));
    }
}

#[test]
fn an_unreliable_block_waits_for_parity_that_can_complete_it() {
    let mut block = sent_in_symbols(false);
    block.parity_mut().expect("has parity").mark_sent(0..2);
    block.acked(0..180);
    block.lost(180..240, A);
    block.acked(240..995);
    assert!(!block.is_spent());
    block.parity_mut().expect("has parity").mark_lost(0..1);
    assert!(block.is_spent() && !block.is_covered(), "one symbol cannot replace two");

    let mut block = sent_in_symbols(false);
    block.acked(60..995);
    block.lost(0..60, A);
    assert!(block.is_spent(), "there is no parity");
}

#[test]
fn a_block_that_grows_has_parity_once_its_length_is_final() {
    let mut block = with_symbols(150, true, Some(101));
    block.open(500);
    assert!(block.parity().is_none() && block.missing_symbols().is_none());
    assert_eq!(block.symbol_end(120), Some(200), "what leaves before is cut as what leaves later");
    block.grow(100);
    block.finish();
    assert_eq!(block.parity().map(|p| (p.symbol_size(), p.data_symbols())), Some((100, 3)));
    assert_eq!(with_symbols(10, true, None).symbol_end(0), None);
}

#[test]
fn an_empty_block_is_complete_from_the_start() {
    let block = block(0, true);
    assert!(block.segments().is_empty() && block.is_complete() && block.is_spent());
    assert_eq!((block.next_fresh(), block.next_lost()), (None, None));
}
