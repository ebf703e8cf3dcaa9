mod model;
mod parity;
mod runs;

use std::collections::HashMap;

use squall_units::short::{at_ms, at_us, ms, us};

use super::*;
use crate::wire::{CancelReason, Stamp};

const PATH: PathId = PathId(1);

fn limits() -> Limits {
    Limits { max_block: 1000, reassembly: 2500, open_blocks: 8, ..Limits::default() }
}

/// An inbox with short ways to describe arrivals.
struct Case {
    inbox: Inbox,
    now: Time,
    /// Bytes of each block that were handed over in parts.
    parts: HashMap<u64, u32>,
    /// Ranges that are missing from blocks that were handed over.
    missing: HashMap<u64, Vec<Range<u32>>>,
}

fn case() -> Case {
    case_with(limits())
}

fn case_with(limits: Limits) -> Case {
    Case { inbox: Inbox::new(limits), now: at_us(0), parts: HashMap::new(), missing: HashMap::new() }
}

/// A growing block.
fn growing(id: u64) -> Data {
    Data { total: None, ..block(id, 1) }
}

/// A reliable, unordered block without deadline.
fn block(id: u64, total: u32) -> Data {
    Data {
        block: id,
        reliable: true,
        partial: false,
        previous: None,
        priority: 3,
        offset: 0,
        total: Some(total),
        channel: 0,
        left: None,
        sent: Stamp::at(at_us(0)),
    }
}

fn ordered(id: u64, back: u64, total: u32) -> Data {
    Data { previous: Some(back), ..block(id, total) }
}

fn cancelled(id: u64, previous: Option<u64>) -> Cancel {
    Cancel { block: id, reason: CancelReason::Lost, priority: 3, channel: 0, previous }
}

fn content(id: u64, at: u32) -> u8 {
    (id * 31 + u64::from(at)) as u8
}

impl Case {
    fn chunk(&mut self, header: &Data, start: u32, end: u32) -> Result<(), InboxError> {
        let payload: Vec<_> = (start..end).map(|at| content(header.block, at)).collect();
        let header = Data { offset: start, ..header.clone() };
        self.inbox.on_data(self.now, PATH, us(0), &header, &payload)
    }

    fn all(&mut self, header: &Data) -> Result<(), InboxError> {
        self.chunk(header, 0, header.total.expect("is announced"))
    }

    fn cancel(&mut self, id: u64, previous: Option<u64>) -> Result<(), InboxError> {
        self.inbox.on_cancel(self.now, &cancelled(id, previous))
    }

    fn outcomes(&mut self) -> Vec<(u64, Fate)> {
        let mut fates = Vec::new();
        while let Some(event) = self.inbox.poll() {
            match event {
                InboxEvent::Part(part) => fates.extend(self.part(&part)),
                event => {
                    if let InboxEvent::Arrived(arrived) = &event {
                        self.missing.insert(arrived.id.0, arrived.missing.clone());
                    }
                    fates.push(fate(&event));
                }
            }
        }
        fates
    }

    /// A part follows the one before it.
    fn part(&mut self, part: &Part) -> Option<(u64, Fate)> {
        let id = part.label.id.0;
        let reported = self.parts.entry(id).or_default();
        assert_eq!(part.offset, *reported, "block {id}");
        assert_bytes(id, &part.data, *reported, &part.missing);
        assert!(part.is_last || !part.data.is_empty());
        assert!(part.is_last || part.missing.is_empty());
        *reported += part.data.len() as u32;
        self.missing.insert(id, part.missing.clone());
        part.is_last.then_some((id, Here))
    }

    /// Delivers the end of a block that grew.
    fn end(&mut self, header: &Data, len: u32) -> Result<(), InboxError> {
        self.chunk(&Data { total: Some(len), ..header.clone() }, len, len)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Arrived,
    Expired,
    Cancelled,
    TooLarge,
    NoMemory,
    TooManyBlocks,
    SessionClosed,
}

use Fate::{Arrived as Here, Cancelled, Expired};

/// Asserts that the bytes of a block from `start` on are those that were sent, and zeros where they
/// are missing.
fn assert_bytes(id: u64, data: &[u8], start: u32, missing: &[Range<u32>]) {
    for (byte, at) in data.iter().zip(start..) {
        let is_missing = missing.iter().any(|range| range.contains(&at));
        assert_eq!(*byte, if is_missing { 0 } else { content(id, at) }, "byte {at} of block {id}");
    }
}

fn fate(event: &InboxEvent) -> (u64, Fate) {
    match event {
        InboxEvent::Arrived(arrived) => {
            let id = arrived.id.0;
            assert_bytes(id, &arrived.data, 0, &arrived.missing);
            (id, Here)
        }
        InboxEvent::Part(part) => panic!("{part:?}"),
        InboxEvent::Expired(label) => (label.id.0, Expired),
        InboxEvent::Cancelled(label, _) => (label.id.0, Cancelled),
        InboxEvent::Refused(label, RefuseReason::TooLarge) => (label.id.0, Fate::TooLarge),
        InboxEvent::Refused(label, RefuseReason::NoMemory) => (label.id.0, Fate::NoMemory),
        InboxEvent::Refused(label, RefuseReason::TooManyBlocks) => (label.id.0, Fate::TooManyBlocks),
    }
}

#[test]
fn a_block_in_one_chunk_arrives() {
    let mut case = case();
    case.now = at_us(7);
    let header = Data { channel: 5, priority: 1, reliable: false, ..block(0, 100) };
    assert_eq!(case.all(&header), Ok(()));
    assert_eq!(case.inbox.held_bytes(), 100);
    assert_eq!(case.inbox.credit(), limits().reassembly - 100);
    let Some(InboxEvent::Arrived(arrived)) = case.inbox.poll() else { panic!("it is whole") };
    let mut over = [0; MAX_PATHS];
    over[usize::from(PATH.0)] = 100;
    assert_eq!((arrived.id, arrived.channel, arrived.priority), (BlockId(0), 5, 1));
    assert_eq!((arrived.reliable, arrived.first_at, arrived.whole_at), (false, at_us(7), at_us(7)));
    assert_eq!((arrived.data.len(), arrived.over), (100, over));
    assert_eq!((case.inbox.held_bytes(), case.inbox.credit()), (0, limits().reassembly));
    assert!(!case.inbox.has_events());
}

#[test]
fn a_block_that_grows_is_whole_when_its_end_is_known() {
    let mut case = case();
    let header = growing(0);
    assert_eq!(case.chunk(&header, 50, 90), Ok(()));
    assert_eq!(case.inbox.held_bytes(), 90, "charged as it grows");
    assert_eq!(case.chunk(&header, 0, 50), Ok(()));
    assert_eq!(case.outcomes(), []);
    assert_eq!(case.end(&header, 90), Ok(()));
    assert_eq!(case.outcomes(), [(0, Here)]);
    assert_eq!((case.end(&header, 90), case.inbox.held_bytes()), (Ok(()), 0), "known, once more");

    let header = growing(1);
    assert_eq!(case.end(&header, 40), Ok(()), "the end overtakes the rest");
    assert_eq!(case.inbox.held_bytes(), 40);
    assert_eq!(case.chunk(&header, 0, 30), Ok(()));
    assert_eq!(case.chunk(&Data { total: Some(40), ..header }, 30, 40), Ok(()));
    assert_eq!(case.outcomes(), [(1, Here)]);
}

#[test]
fn what_is_said_of_the_end_agrees() {
    let contradiction = Err(InboxError::Contradiction(0));
    let begun = || {
        let mut case = case();
        assert_eq!(case.chunk(&growing(0), 10, 60), Ok(()));
        case
    };
    assert_eq!(begun().end(&growing(0), 59), contradiction, "more has come");
    let mut ended = begun();
    assert_eq!(ended.end(&growing(0), 70), Ok(()));
    assert_eq!(ended.chunk(&growing(0), 60, 71), contradiction, "beyond the end");
    assert_eq!(ended.end(&growing(0), 80), contradiction);
}

#[test]
fn a_block_is_refused_when_it_grows_too_large() {
    let mut case = case();
    assert_eq!(case.chunk(&growing(0), 0, 1000), Ok(()));
    assert_eq!(case.chunk(&growing(0), 1000, 1001), Ok(()));
    assert_eq!(case.inbox.take_refusal(), Some((BlockId(0), RefuseReason::TooLarge)));
    for id in 1..=3 {
        assert_eq!(case.chunk(&growing(id), 0, 800), Ok(()));
    }
    assert_eq!(case.chunk(&growing(1), 800, 901), Ok(()));
    assert_eq!(case.inbox.take_refusal(), Some((BlockId(1), RefuseReason::NoMemory)));
    assert_eq!(case.outcomes(), [(0, Fate::TooLarge), (1, Fate::NoMemory)]);
    assert_eq!(case.inbox.held_bytes(), 1600);
}

#[test]
fn parts_follow_one_another_and_the_last_one_says_so() {
    let mut case = case();
    case.inbox.set_in_parts(0, true);
    let header = Data { left: Some(1000), ..growing(0) };
    assert_eq!(case.chunk(&header, 20, 40), Ok(()));
    assert_eq!(case.inbox.poll(), None, "a gap");
    assert_eq!(case.chunk(&header, 0, 20), Ok(()));
    assert!(case.inbox.has_events());
    let Some(InboxEvent::Part(part)) = case.inbox.poll() else { panic!("forty bytes are there") };
    assert_eq!((part.offset, part.data.len(), part.is_last, part.deadline), (0, 40, false, Some(at_ms(1))));
    assert_eq!((case.part(&part), case.inbox.poll()), (None, None));
    assert_eq!(case.end(&header, 40), Ok(()));
    let Some(InboxEvent::Part(part)) = case.inbox.poll() else { panic!("it has ended") };
    assert_eq!((part.offset, part.data.len(), part.is_last), (40, 0, true));
    assert_eq!((case.inbox.held_bytes(), case.inbox.has_events()), (0, false));

    let other = Data { channel: 1, ..growing(1) };
    assert_eq!(case.chunk(&other, 0, 10), Ok(()));
    assert_eq!(case.outcomes(), [], "another channel's blocks come whole");
    case.inbox.set_in_parts(1, true);
    assert_eq!(case.outcomes(), []);
    assert_eq!(case.parts[&1], 10, "from now on in parts");
    case.inbox.set_in_parts(1, false);
    assert_eq!(case.end(&other, 10), Ok(()));
    assert_eq!(case.outcomes(), [(1, Here)], "and to its end");
}

#[test]
fn a_block_ends_once_though_parts_were_handed_over() {
    for cancelled in [false, true] {
        let mut case = case();
        case.inbox.set_in_parts(0, true);
        let header = Data { left: Some(1000), ..growing(0) };
        assert_eq!(case.chunk(&header, 0, 20), Ok(()));
        assert_eq!(case.outcomes(), []);
        assert_eq!(case.chunk(&header, 20, 30), Ok(()));
        if cancelled {
            assert_eq!(case.cancel(0, None), Ok(()));
        } else {
            case.inbox.on_time(at_ms(1));
        }
        assert_eq!(case.outcomes(), [(0, if cancelled { Cancelled } else { Expired })]);
        assert_eq!((case.parts[&0], case.inbox.held_bytes()), (20, 0), "nothing follows");
    }
}

#[test]
fn parts_of_an_ordered_block_wait_for_the_block_before() {
    let mut case = case();
    case.inbox.set_in_parts(0, true);
    let second = Data { previous: Some(1), ..growing(1) };
    assert_eq!(case.chunk(&second, 0, 30), Ok(()));
    assert_eq!((case.outcomes(), case.parts.get(&1)), (vec![], None));
    assert_eq!(case.all(&ordered(0, 0, 10)), Ok(()));
    assert_eq!(case.outcomes(), [(0, Here)]);
    assert_eq!(case.parts[&1], 30, "its turn has come");
}

#[test]
fn chunks_overlap_repeat_and_come_in_any_order() {
    let mut case = case();
    let header = block(0, 100);
    for (start, end) in [(60, 100), (0, 10), (60, 80), (5, 70)] {
        assert_eq!(case.outcomes(), []);
        assert_eq!(case.chunk(&header, start, end), Ok(()));
    }
    assert_eq!(case.outcomes(), [(0, Here)]);
    // 20 of the third and 5 + 10 of the fourth chunk.
    assert_eq!(case.inbox.duplicate_bytes(), 35);
    assert_eq!(case.all(&header), Ok(()));
    assert_eq!(case.inbox.duplicate_bytes(), 135, "what comes for a block that has ended is in vain");
    assert_eq!(case.outcomes(), []);
}

#[test]
fn an_incomplete_block_expires_once() {
    let mut case = case();
    let header = Data { left: Some(5000), ..block(0, 100) };
    assert_eq!(case.inbox.on_data(at_ms(10), PATH, ms(2), &header, &[0; 10]), Ok(()));
    assert_eq!(case.inbox.timeout(), Some(at_ms(13)), "it was under way for 2 ms");
    case.inbox.on_time(at_us(12_999));
    assert_eq!(case.outcomes(), []);
    case.inbox.on_time(at_ms(13));
    assert_eq!(case.outcomes(), [(0, Expired)]);
    assert_eq!((case.inbox.timeout(), case.inbox.held_bytes(), case.inbox.expired_blocks()), (None, 0, 1));
    assert_eq!(case.cancel(0, None), Ok(()));
    assert_eq!(case.all(&header), Ok(()));
    assert_eq!(case.outcomes(), []);
}

/// An unreliable block that may arrive in part, with 5 ms left.
fn partial(id: u64, total: u32) -> Data {
    Data { partial: true, reliable: false, left: Some(5_120), ..block(id, total) }
}

#[test]
fn a_partial_block_is_handed_over_at_its_end_with_its_gaps() {
    let mut case = case();
    assert_eq!(case.chunk(&partial(0, 100), 10, 30), Ok(()));
    assert_eq!(case.chunk(&partial(0, 100), 50, 90), Ok(()));
    assert_eq!(case.outcomes(), [], "more may come");
    case.inbox.on_time(at_ms(6));
    assert_eq!(case.outcomes(), [(0, Here)]);
    assert_eq!(case.missing[&0], [0..10, 30..50, 90..100]);
    assert_eq!((case.inbox.timeout(), case.inbox.held_bytes(), case.inbox.expired_blocks()), (None, 0, 1));
    assert_eq!(case.all(&partial(1, 100)), Ok(()));
    assert_eq!((case.outcomes(), &case.missing[&1]), (vec![(1, Here)], &vec![]), "whole");
}

#[test]
fn a_partial_block_ends_with_what_is_there_when_its_sender_cancels_it() {
    for reason in [CancelReason::Lost, CancelReason::Expired, CancelReason::Cancelled] {
        let mut case = case();
        let cancel = |id| Cancel { reason, ..cancelled(id, None) };
        assert_eq!(case.chunk(&partial(0, 100), 0, 60), Ok(()));
        assert_eq!(case.inbox.on_cancel(at_ms(1), &cancel(0)), Ok(()));
        assert_eq!(case.inbox.on_cancel(at_ms(1), &cancel(1)), Ok(()));
        assert_eq!(case.outcomes(), [(0, Here), (1, Cancelled)], "nothing of the second came");
        assert_eq!(case.inbox.held_bytes(), 0);
    }
}

#[test]
fn a_partial_block_of_unknown_length_ends_with_the_last_byte_that_came() {
    let mut case = case();
    let open = Data { total: None, ..partial(0, 100) };
    assert_eq!(case.chunk(&open, 10, 30), Ok(()));
    case.inbox.on_time(at_ms(6));
    let Some(InboxEvent::Arrived(arrived)) = case.inbox.poll() else { panic!("is handed over") };
    assert_eq!((arrived.data.len(), arrived.missing), (30, vec![0..10, 30..MAX_BLOCK]));
}

#[test]
fn an_ordered_partial_block_waits_for_its_turn() {
    let mut case = case();
    assert_eq!(case.chunk(&ordered(0, 0, 20), 0, 10), Ok(()));
    assert_eq!(case.chunk(&Data { previous: Some(1), ..partial(1, 100) }, 50, 60), Ok(()));
    case.inbox.on_time(at_ms(6));
    assert_eq!((case.outcomes(), case.inbox.held_bytes()), (vec![], 120));
    assert_eq!(case.chunk(&ordered(0, 0, 20), 10, 20), Ok(()));
    assert_eq!(case.outcomes(), [(0, Here), (1, Here)]);
}

#[test]
fn a_partial_block_in_parts_ends_with_all_that_follows_its_first_gap() {
    let mut case = case();
    case.inbox.set_in_parts(0, true);
    assert_eq!(case.chunk(&partial(0, 100), 0, 30), Ok(()));
    assert_eq!((case.outcomes(), case.parts[&0]), (vec![], 30));
    assert_eq!(case.chunk(&partial(0, 100), 50, 90), Ok(()));
    assert_eq!((case.outcomes(), case.parts[&0]), (vec![], 30), "a gap");
    case.inbox.on_time(at_ms(6));
    assert_eq!((case.outcomes(), case.parts[&0]), (vec![(0, Here)], 100));
    assert_eq!(case.missing[&0], [30..50, 90..100]);
}

#[test]
fn a_block_whole_on_arrival_does_not_expire() {
    let mut case = case();
    let header = Data { left: Some(0), ..block(0, 100) };
    assert_eq!(case.all(&header), Ok(()));
    case.inbox.on_time(at_ms(1_000));
    assert_eq!(case.outcomes(), [(0, Here)]);
}

#[test]
fn a_deadline_beyond_all_time_does_not_overflow() {
    let mut case = case();
    case.now = at_us(1 << 40);
    let header = Data { left: Some(u64::MAX - 255), ..block(0, 100) };
    assert_eq!(case.chunk(&header, 0, 10), Ok(()));
    case.inbox.on_time(at_us(1 << 50));
    assert_eq!(case.outcomes(), []);
    assert_eq!(case.inbox.timeout(), Some(Time::MAX));
}

#[test]
fn a_cancelled_block_ends_once() {
    let mut case = case();
    assert_eq!(case.chunk(&block(0, 100), 0, 50), Ok(()));
    for id in [0, 1, 0, 1] {
        assert_eq!(case.cancel(id, None), Ok(()));
    }
    assert_eq!(case.outcomes(), [(0, Cancelled), (1, Cancelled)]);
    assert_eq!(case.inbox.held_bytes(), 0);
}

#[test]
fn ordered_blocks_wait_for_the_one_before() {
    let mut case = case();
    assert_eq!(case.all(&ordered(2, 1, 10)), Ok(()));
    assert_eq!(case.all(&block(3, 10)), Ok(()));
    assert_eq!(case.chunk(&ordered(1, 1, 10), 0, 5), Ok(()));
    assert_eq!(case.outcomes(), [(3, Here)], "unordered blocks do not");
    assert_eq!(case.all(&ordered(0, 0, 10)), Ok(()));
    assert_eq!(case.outcomes(), [(0, Here)]);
    assert_eq!(case.inbox.held_bytes(), 20, "one begun, one waits");
    assert_eq!(case.inbox.credit(), limits().reassembly - 10);
    assert_eq!(case.chunk(&ordered(1, 1, 10), 5, 10), Ok(()));
    assert_eq!(case.outcomes(), [(1, Here), (2, Here)]);
}

#[test]
fn a_block_that_expires_makes_way() {
    let mut case = case();
    let late = Data { left: Some(1000), ..ordered(0, 0, 10) };
    assert_eq!(case.chunk(&late, 0, 5), Ok(()));
    assert_eq!(case.all(&ordered(1, 1, 10)), Ok(()));
    assert_eq!(case.outcomes(), []);
    case.inbox.on_time(at_ms(1));
    assert_eq!(case.outcomes(), [(0, Expired), (1, Here)]);
}

#[test]
fn a_refused_block_makes_way() {
    let mut case = case();
    assert_eq!(case.all(&ordered(2, 1, 10)), Ok(()));
    assert_eq!(case.chunk(&ordered(1, 1, 1001), 0, 1), Ok(()));
    assert_eq!(case.outcomes(), [(1, Fate::TooLarge)], "block 2 still waits for block 0");
    assert_eq!(case.all(&ordered(0, 0, 10)), Ok(()));
    assert_eq!(case.outcomes(), [(0, Here), (2, Here)]);
}

#[test]
fn an_unordered_block_that_another_names_makes_way() {
    let mut case = case();
    assert_eq!(case.all(&ordered(1, 1, 10)), Ok(()));
    assert_eq!(case.outcomes(), []);
    assert_eq!(case.all(&block(0, 10)), Ok(()));
    assert_eq!(case.outcomes(), [(0, Here), (1, Here)]);
}

/// Calls `with` on every order of `0..n`.
fn permutations(n: u64, with: &mut impl FnMut(&[u64])) {
    fn go(taken: &mut Vec<u64>, n: u64, with: &mut impl FnMut(&[u64])) {
        if taken.len() as u64 == n {
            with(taken);
        }
        for id in 0..n {
            if !taken.contains(&id) {
                taken.push(id);
                go(taken, n, with);
                taken.pop();
            }
        }
    }
    go(&mut Vec::new(), n, with);
}

/// Any of five blocks cancelled and the others whole, in any order, any of them begun before.
#[test]
fn order_holds_whatever_is_cancelled_whenever() {
    let mut runs = 0;
    permutations(5, &mut |ids| {
        for pattern in 0..1u32 << 10 {
            let is_cancelled = |id: u64| pattern >> id & 1 == 1;
            let is_begun = |id: u64| pattern >> (5 + id) & 1 == 1;
            let header = |id| ordered(id, 1.min(id), 10);
            let mut case = case();
            for id in (0..5).filter(|id| is_begun(*id)) {
                assert_eq!(case.chunk(&header(id), 0, 5), Ok(()));
            }
            let mut reported = Vec::new();
            for id in ids {
                let done = if is_cancelled(*id) {
                    case.cancel(*id, header(*id).previous)
                } else {
                    case.chunk(&header(*id), 0, 10)
                };
                assert_eq!(done, Ok(()));
                let news = case.outcomes();
                reported.extend(news.into_iter().filter(|(_, fate)| *fate == Here).map(|(id, _)| id));
            }
            let all: Vec<_> = (0..5).filter(|id| !is_cancelled(*id)).collect();
            assert_eq!(reported, all, "order {ids:?}, pattern {pattern:#b}");
            assert_eq!((case.inbox.order.len(), case.inbox.held_bytes()), (0, 0), "nothing is left behind");
            runs += 1;
        }
    });
    assert_eq!(runs, 120 << 10);
}

#[test]
fn a_run_of_holes_takes_one_place() {
    let limits = Limits { open_blocks: 4, ..limits() };
    let mut case = case_with(limits);
    // Block 0 is late, and thousands after it are cancelled meanwhile.
    for id in 1..5000 {
        assert_eq!(case.cancel(id, Some(1)), Ok(()));
        assert!(case.inbox.order.len() <= 1);
        case.outcomes();
    }
    assert_eq!(case.all(&ordered(5000, 1, 10)), Ok(()));
    assert_eq!(case.outcomes(), []);
    assert_eq!(case.all(&ordered(0, 0, 10)), Ok(()));
    assert_eq!(case.outcomes(), [(0, Here), (5000, Here)]);
}

#[test]
fn holes_make_runs_in_any_direction() {
    let from_the_middle = [5, 4, 6, 3, 7, 2, 8, 1, 9];
    for ids in [from_the_middle.to_vec(), (1..10).rev().collect()] {
        let mut case = case();
        for id in ids {
            assert_eq!(case.cancel(id, Some(1)), Ok(()));
            assert_eq!(case.inbox.order.len(), 1);
        }
        assert_eq!(case.all(&ordered(0, 0, 10)), Ok(()));
        assert_eq!(case.inbox.order.len(), 0);
    }
}

#[test]
fn what_is_too_large_or_too_many_is_refused() {
    let mut case = case();
    assert_eq!(case.chunk(&block(0, 1001), 0, 1), Ok(()));
    for id in 1..=3 {
        assert_eq!(case.chunk(&block(id, 1000), 0, 1), Ok(()));
    }
    assert_eq!(case.outcomes(), [(0, Fate::TooLarge), (3, Fate::NoMemory)]);
    for id in 4..=10 {
        assert_eq!(case.chunk(&block(id, 10), 0, 1), Ok(()));
    }
    assert_eq!(case.outcomes(), [(10, Fate::TooManyBlocks)], "eight are open");
    assert_eq!(case.all(&block(10, 10)), Ok(()));
    assert_eq!(case.outcomes(), [], "reported once");
}

#[test]
fn blocks_not_taken_count_as_open_once() {
    let mut case = case();
    for id in 0..8 {
        assert_eq!(case.all(&block(id, 10)), Ok(()));
    }
    assert_eq!(case.all(&block(8, 10)), Ok(()));
    let reported = case.outcomes();
    assert_eq!(reported.len(), 9);
    assert_eq!(reported[8], (8, Fate::TooManyBlocks));
}

#[test]
fn a_block_in_dust_is_refused() {
    let mut case = case();
    let header = block(0, 1000);
    for piece in 0..500 {
        assert_eq!(case.chunk(&header, 2 * piece, 2 * piece + 1), Ok(()));
    }
    assert_eq!(case.outcomes(), [(0, Fate::NoMemory)]);
    assert_eq!(case.inbox.held_bytes(), 0);
}

#[test]
fn cancels_beyond_the_limit_are_counted_instead_of_reported() {
    let mut case = case();
    for id in 0..20 {
        assert_eq!(case.cancel(id, None), Ok(()));
    }
    assert_eq!(case.inbox.unreported(), 12);
    assert_eq!(case.outcomes().len(), 8);
}

#[test]
fn ids_far_ahead_are_an_error() {
    let mut case = case();
    for id in 0..63 {
        assert_eq!(case.cancel(id, None), Ok(()));
    }
    let far = 63 + ID_SPAN;
    assert_eq!(case.chunk(&block(far - 1, 10), 0, 1), Ok(()), "block 63 may be the sender's oldest");
    let error = InboxError::TooFarAhead { id: far, oldest: 63 };
    assert_eq!(case.all(&block(far, 10)), Err(error));
    assert_eq!(case.cancel(far, None), Err(error));
    assert_eq!(case.all(&block(63, 10)), Ok(()));
    assert_eq!(case.chunk(&block(far, 10), 0, 1), Ok(()));
}

#[test]
fn chunks_must_agree() {
    let begun = || {
        let mut case = case();
        assert_eq!(case.chunk(&ordered(1, 1, 10), 0, 1), Ok(()));
        case
    };
    let error = Err(InboxError::Contradiction(1));
    assert_eq!(begun().all(&ordered(1, 1, 11)), error);
    assert_eq!(begun().all(&ordered(1, 0, 10)), error);
    assert_eq!(begun().all(&block(1, 10)), error);
    assert_eq!(begun().all(&Data { channel: 1, ..ordered(1, 1, 10) }), error);
    assert_eq!(begun().all(&Data { priority: 0, reliable: false, ..ordered(1, 1, 10) }), Ok(()));
}

#[test]
fn two_blocks_cannot_have_the_same_place() {
    let begun = || {
        let mut case = case();
        assert_eq!(case.chunk(&ordered(1, 1, 10), 0, 1), Ok(()));
        case
    };
    let error = Err(InboxError::Contradiction(2));
    assert_eq!(begun().all(&ordered(2, 2, 10)), error);
    assert_eq!(begun().all(&ordered(2, 2, 2000)), error);
    assert_eq!(begun().cancel(2, Some(2)), error);
}

#[test]
fn refusals_that_are_not_fetched_are_a_flood() {
    let mut case = case();
    let answers: Vec<_> = (0..40).map(|id| case.all(&block(id, 1001))).collect();
    assert_eq!(answers.iter().filter(|a| a.is_ok()).count(), 16);
    assert_eq!(answers[16..], [Err(InboxError::Flood); 24]);
    assert_eq!(case.outcomes().len(), 16);
}

#[test]
fn scattered_holes_are_a_flood() {
    let mut case = case();
    // Every other block is missing, so no two holes make a run.
    let answers: Vec<_> = (0..40).map(|n| case.cancel(2 * n + 1, Some(1))).collect();
    assert_eq!(answers.iter().filter(|a| a.is_ok()).count(), 16);
    assert_eq!(answers[16], Err(InboxError::Flood));
}

#[test]
fn the_session_ends_what_has_not_ended() {
    let mut case = case();
    assert_eq!(case.all(&ordered(3, 1, 10)), Ok(()));
    assert_eq!(case.chunk(&ordered(2, 1, 10), 0, 5), Ok(()));
    assert_eq!(case.chunk(&Data { left: Some(9), ..block(0, 10) }, 0, 5), Ok(()));
    assert_eq!(case.all(&block(4, 10)), Ok(()));
    let ids: Vec<_> = case.inbox.end_all().into_iter().map(|label| label.id.0).collect();
    assert_eq!(ids, [0, 2, 3]);
    assert_eq!((case.inbox.held_bytes(), case.inbox.timeout()), (10, None));
    assert_eq!(case.outcomes(), [(4, Here)]);
    assert_eq!(case.inbox.held_bytes(), 0);
    assert_eq!(case.inbox.end_all(), []);
}
