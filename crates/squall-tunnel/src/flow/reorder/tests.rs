use std::ops::Range;

use proptest::prelude::*;
use squall_units::short::{at_ms, at_us, ms, us};

use super::*;
use crate::{
    config::{End, FlowConfig},
    flow::gather::Gatherer,
    media::{Class, Media},
    wire::frame::{Frame, tests::listed},
};

const LATENCY: Span = ms(300);
/// Offset by which the receiver's clock is ahead.
const AHEAD: Time = at_ms(5_000);
const FRAME: Span = ms(33);

fn rule(playout: Playout) -> Rule {
    Rule { playout, ordered: true, latency: LATENCY, delay: LATENCY, max_pending: 1024 }
}

fn block(number: u64) -> Bytes {
    block_of(number, 1)
}

/// Returns a block of datagrams of ten bytes, each with the number of the block and its index.
fn block_of(number: u64, datagrams: u16) -> Bytes {
    let stamp = Time::EPOCH + FRAME * number;
    let mut frame = Frame::new(stamp, 0);
    frame.class = Class::Reference;
    for n in 0..datagrams {
        frame.push(stamp, &[&number.to_be_bytes()[..], &n.to_be_bytes()].concat());
    }
    frame.seal(stamp, number, if number == 0 { ms(0) } else { FRAME })
}

/// Length of a datagram of [`block_of`] on the wire.
const DATAGRAM: usize = 14;

/// Block ids are twice the numbers.
fn part(number: u64, block: &Bytes, range: Range<usize>) -> Part {
    let is_last = range.end == block.len();
    Part { block_id: number * 2, offset: range.start as u32, data: block.slice(range), is_last }
}

fn take(buffer: &mut ReorderBuffer, now: Time, part: Part) {
    buffer.receive(now, part).expect("is a frame");
}

fn take_whole(buffer: &mut ReorderBuffer, now: Time, number: u64, block: &Bytes) {
    take(buffer, now, part(number, block, 0..block.len()));
}

/// Returns a frame with a false stamp, sent at once.
fn lie(number: u64, stamp: Time) -> Bytes {
    let mut frame = Frame::new(stamp, 0);
    frame.push(stamp, b"x");
    frame.seal(stamp, number, ms(0))
}

/// The frame from the far future is held until the estimate of the offset that it caused expires.
#[test]
fn no_stamp_of_a_peer_holds_a_frame_for_longer_than_the_latency() {
    const MINUTE: Span = ms(60_000);
    const FUTURE: Time = at_us(1 << 47);
    for playout in [Playout::Steady, Playout::Soon] {
        let rule = Rule { latency: MINUTE, delay: MINUTE, ..rule(playout) };
        let mut buffer = ReorderBuffer::new(rule);
        let mut at = Time::EPOCH + MINUTE;
        take_whole(&mut buffer, at, 9, &lie(9, at_us(0)));
        at += ms(29_000);
        take_whole(&mut buffer, at, 2, &lie(2, FUTURE));
        for number in [5, 6] {
            at += ms(30_000);
            take_whole(&mut buffer, at, number, &lie(number, at_us(0)));
        }
        let due = buffer.poll_timeout().expect("frames are held");
        assert!(due <= at + MINUTE, "the first leaves {} later", due - at);
        buffer.close();
        let due = buffer.poll_timeout().expect("frames are held");
        assert!(due <= at + MINUTE, "the first leaves {} after the end", due - at);
    }
}

/// Delivers a block this time after its departure, by the receiver's clock.
fn arrive(buffer: &mut ReorderBuffer, number: u64, after: Span) -> Time {
    let now = AHEAD + FRAME * number + after;
    take_whole(buffer, now, number, &block(number));
    now
}

fn numbers(buffer: &mut ReorderBuffer, now: Time) -> Vec<u64> {
    std::iter::from_fn(|| buffer.poll(now)).map(|ready| ready.header.number).collect()
}

#[test]
fn what_comes_in_order_leaves_at_once() {
    let mut buffer = ReorderBuffer::new(rule(Playout::Soon));
    for number in 0..5 {
        let now = arrive(&mut buffer, number, ms(20));
        assert_eq!(numbers(&mut buffer, now), [number]);
    }
    assert_eq!(buffer.poll_timeout(), None);
}

#[test]
fn what_is_missing_is_waited_for_until_its_deadline() {
    let mut buffer = ReorderBuffer::new(rule(Playout::Soon));
    arrive(&mut buffer, 0, ms(0));
    let now = arrive(&mut buffer, 2, ms(0));
    assert_eq!(numbers(&mut buffer, now), [0]);
    // Number 1 entered at 33 ms and is worthless 300 ms later.
    let deadline = AHEAD + FRAME + LATENCY;
    assert_eq!(buffer.poll_timeout(), Some(deadline));
    assert!(numbers(&mut buffer, deadline - us(1)).is_empty());
    assert_eq!(numbers(&mut buffer, deadline), [2]);
    take_whole(&mut buffer, deadline + us(1), 1, &block(1));
    assert!(numbers(&mut buffer, deadline + us(1)).is_empty(), "it is too late");
    assert_eq!(buffer.take_count(), Count { late: 1, missing: 1 });
    let absences = buffer.take_absences();
    assert!(
        matches!(
            &absences[..],
            [Absence { why: Absent::TimedOut, .. }, Absence { why: Absent::Late { .. }, .. }]
        ),
        "{absences:?}"
    );
}

#[test]
fn strands_do_not_wait_for_each_other() {
    let of = |strand: u16, number: u64| {
        let stamp = Time::EPOCH + FRAME * number;
        let mut frame = Frame::new(stamp, 0);
        frame.push(stamp, b"x");
        frame.seal(stamp, frame::number(strand, number), if number == 0 { ms(0) } else { FRAME })
    };
    let mut buffer = ReorderBuffer::new(rule(Playout::Soon));
    let (mut id, mut latest) = (0, 0);
    let mut take = |buffer: &mut ReorderBuffer, strand, number: u64| {
        (id, latest) = (id + 1, number.max(latest));
        let now = AHEAD + FRAME * latest;
        let part = Part { block_id: id, offset: 0, data: of(strand, number), is_last: true };
        super::tests::take(buffer, now, part);
        numbers(buffer, now).into_iter().map(frame::strand).collect::<Vec<_>>()
    };
    assert_eq!(take(&mut buffer, 7, 0), [(7, 0)]);
    assert_eq!(take(&mut buffer, 7, 2), [], "its number 1 is missing");
    assert_eq!(take(&mut buffer, 1_023, 0), [(1_023, 0)]);
    assert_eq!(take(&mut buffer, 1_023, 1), [(1_023, 1)]);
    assert_eq!(take(&mut buffer, 7, 1), [(7, 1), (7, 2)]);
    assert_eq!(take(&mut buffer, 7, 4), []);
    // Of which strand is unknown.
    buffer.missed(99);
    assert_eq!(buffer.poll_timeout(), Some(AHEAD + FRAME * 3 + LATENCY));
    assert_eq!(buffer.take_count(), Count::default());
    assert_eq!(numbers(&mut buffer, AHEAD + FRAME * 3 + LATENCY).len(), 1);
    assert_eq!(buffer.take_count(), Count { late: 0, missing: 1 });
    assert_eq!(buffer.take_absences()[0].number, frame::number(7, 3));
}

#[test]
fn what_is_known_not_to_come_is_not_waited_for() {
    let mut buffer = ReorderBuffer::new(rule(Playout::Soon));
    arrive(&mut buffer, 0, ms(0));
    let now = arrive(&mut buffer, 3, ms(0));
    assert_eq!(numbers(&mut buffer, now), [0]);
    buffer.missed(2);
    assert!(numbers(&mut buffer, now).is_empty(), "one of two may come");
    buffer.missed(4);
    assert_eq!(numbers(&mut buffer, now), [3]);
}

#[test]
fn a_late_one_that_is_waited_for_releases_the_others() {
    let mut buffer = ReorderBuffer::new(rule(Playout::Soon));
    arrive(&mut buffer, 0, ms(0));
    arrive(&mut buffer, 2, ms(0));
    arrive(&mut buffer, 3, ms(0));
    let now = arrive(&mut buffer, 1, ms(150));
    let ready: Vec<_> = std::iter::from_fn(|| buffer.poll(now)).collect();
    assert_eq!(ready.iter().map(|one| one.header.number).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(ready[1].came_in, Some(now - ms(150)));
    assert_eq!(ready[2].waited, ms(150) - FRAME);
}

#[test]
fn steady_playout_has_one_delay() {
    let mut buffer = ReorderBuffer::new(rule(Playout::Steady));
    buffer.set_one_way(ms(10));
    for (number, after) in [(0, 10), (1, 90), (2, 60), (3, 11)] {
        arrive(&mut buffer, number, ms(after));
    }
    for number in 0..4 {
        // The fastest path takes 10 ms, which the clocks cannot separate from their offset.
        let due = AHEAD + FRAME * number + LATENCY;
        assert_eq!(buffer.poll_timeout(), Some(due));
        assert_eq!(numbers(&mut buffer, due), [number]);
    }
}

#[test]
fn a_closed_order_waits_for_nothing() {
    let mut buffer = ReorderBuffer::new(rule(Playout::Soon));
    let now = arrive(&mut buffer, 4, ms(0));
    assert!(numbers(&mut buffer, now).is_empty());
    buffer.close();
    assert_eq!(numbers(&mut buffer, now), [4]);
}

#[test]
fn an_order_that_begins_late_waits_for_nothing_before_it() {
    let mut buffer = ReorderBuffer::new(Rule { ordered: false, ..rule(Playout::Soon) });
    for number in [0, 2, 1] {
        let now = arrive(&mut buffer, number, ms(0));
        assert_eq!(numbers(&mut buffer, now), [number]);
    }
    buffer.set_rule(rule(Playout::Soon));
    let now = arrive(&mut buffer, 3, ms(0));
    assert_eq!(numbers(&mut buffer, now), [3]);
    assert_eq!(buffer.take_count(), Count::default());
}

#[test]
fn what_waits_is_bounded() {
    let mut buffer = ReorderBuffer::new(Rule { max_pending: 10, ..rule(Playout::Soon) });
    let mut now = at_us(0);
    for number in 1..=11 {
        now = arrive(&mut buffer, number, ms(0));
    }
    assert_eq!(numbers(&mut buffer, now), (1..=11).collect::<Vec<_>>());
    assert_eq!(buffer.take_count().missing, 1);
}

#[test]
fn bytes_that_wait_for_their_time_are_bounded() {
    let mut buffer = ReorderBuffer::new(rule(Playout::Steady));
    let large = |number: u64| {
        let mut frame = Frame::new(at_us(0), 0);
        (0..100).for_each(|_| frame.push(at_us(0), &[0; 60_000]));
        frame.seal(at_us(0), number, ms(0))
    };
    for number in 0..3 {
        take_whole(&mut buffer, AHEAD, number, &large(number));
    }
    assert_eq!(numbers(&mut buffer, AHEAD), [0], "the others are below the bound");
}

/// Returns the datagrams that leave now: the frame and the index of each.
fn left(buffer: &mut ReorderBuffer, now: Time) -> Vec<(u64, u16)> {
    let ready = std::iter::from_fn(|| buffer.poll(now));
    let datagrams = ready.flat_map(|ready| listed(&ready.datagrams));
    let read = |(_, datagram): (Span, Vec<u8>)| {
        let (number, n) = datagram.split_first_chunk().expect("has ten bytes");
        (u64::from_be_bytes(*number), u16::from_be_bytes([n[0], n[1]]))
    };
    datagrams.map(read).collect()
}

/// Ends of three datagrams.
const THREE: [usize; 3] = [HEADER + DATAGRAM, HEADER + 2 * DATAGRAM, HEADER + 3 * DATAGRAM];

#[test]
fn what_is_there_of_a_frame_leaves_and_the_next_one_waits_for_its_end() {
    let mut buffer = ReorderBuffer::new(rule(Playout::Soon));
    let block = block_of(0, 3);
    take(&mut buffer, AHEAD, part(0, &block, 0..HEADER + 5));
    assert_eq!((buffer.poll_timeout(), left(&mut buffer, AHEAD)), (None, vec![]));
    take(&mut buffer, AHEAD + ms(1), part(0, &block, HEADER + 5..THREE[1] + 1));
    assert_eq!(left(&mut buffer, AHEAD + ms(1)), [(0, 0), (0, 1)]);
    let now = arrive(&mut buffer, 1, ms(0));
    assert_eq!((left(&mut buffer, now), buffer.poll_timeout()), (vec![], Some(AHEAD + LATENCY)));
    take(&mut buffer, now + us(5), part(0, &block, THREE[1] + 1..THREE[2]));
    let ready: Vec<_> = std::iter::from_fn(|| buffer.poll(now + us(5))).collect();
    let shape = |ready: &Ready| (ready.header.number, ready.is_first, ready.bytes(), ready.waited);
    let shapes: Vec<_> = ready.iter().map(shape).collect();
    assert_eq!(shapes, [(0, false, DATAGRAM, us(0)), (1, true, HEADER + DATAGRAM, us(5))]);
    assert_eq!(buffer.take_count(), Count::default());
}

#[test]
fn an_end_without_datagrams_releases_the_next() {
    let mut buffer = ReorderBuffer::new(rule(Playout::Soon));
    let block = block_of(0, 1);
    let whole = part(0, &block, 0..block.len());
    take(&mut buffer, AHEAD, Part { is_last: false, ..whole });
    let now = arrive(&mut buffer, 1, ms(0));
    assert_eq!(left(&mut buffer, now), [(0, 0)]);
    take(&mut buffer, now, Part { offset: block.len() as u32, ..part(0, &block, block.len()..block.len()) });
    assert_eq!(left(&mut buffer, now), [(1, 0)]);
}

#[test]
fn the_rest_of_a_frame_is_waited_for_until_its_deadline_or_until_it_is_known_not_to_come() {
    for reported in [false, true] {
        let mut buffer = ReorderBuffer::new(rule(Playout::Soon));
        let block = block_of(0, 3);
        take(&mut buffer, AHEAD, part(0, &block, 0..THREE[0]));
        arrive(&mut buffer, 1, ms(0));
        let mut now = arrive(&mut buffer, 2, ms(0));
        assert_eq!(left(&mut buffer, now), [(0, 0)]);
        if reported {
            buffer.missed(0);
        } else {
            now = AHEAD + LATENCY;
            assert!(left(&mut buffer, now - us(1)).is_empty());
        }
        assert_eq!(left(&mut buffer, now), [(1, 0), (2, 0)]);
        if !reported {
            take(&mut buffer, now, part(0, &block, THREE[0]..THREE[1]));
            take(&mut buffer, now, part(0, &block, THREE[1]..THREE[2]));
            assert!(left(&mut buffer, now).is_empty(), "it is too late");
        }
        assert_eq!(buffer.take_count(), Count { late: u64::from(!reported), missing: 1 });
        assert!(buffer.open.is_empty() && buffer.bytes == 0);
    }
}

#[test]
fn without_an_order_no_frame_waits_for_the_end_of_another() {
    let mut buffer = ReorderBuffer::new(Rule { ordered: false, ..rule(Playout::Soon) });
    let blocks = [0, 1].map(|number| block_of(number, 3));
    for (n, end) in THREE.into_iter().enumerate() {
        let begin = if n == 0 { 0 } else { THREE[n - 1] };
        for number in [1, 0] {
            take(&mut buffer, AHEAD, part(number, &blocks[number as usize], begin..end));
            assert_eq!(left(&mut buffer, AHEAD), [(number, n as u16)]);
        }
    }
    assert_eq!(buffer.take_count(), Count::default());
}

#[test]
fn the_rest_of_a_block_of_another_flow_is_none_of_this_one() {
    let mut buffer = ReorderBuffer::new(rule(Playout::Soon));
    take(&mut buffer, AHEAD, part(0, &block_of(0, 3), 5..THREE[2]));
    assert!(buffer.open.is_empty() && buffer.held == 0);
}

#[test]
fn steady_playout_is_the_same_however_a_frame_comes() {
    let mut buffer = ReorderBuffer::new(rule(Playout::Steady));
    let block = block_of(0, 3);
    for (n, range) in [0..THREE[0], THREE[0]..THREE[1], THREE[1]..THREE[2]].into_iter().enumerate() {
        take(&mut buffer, AHEAD + ms(n as u64 * 10), part(0, &block, range));
    }
    assert_eq!(buffer.poll_timeout(), Some(AHEAD + LATENCY));
    let ready = buffer.poll(AHEAD + LATENCY).expect("is due");
    assert_eq!((ready.due, ready.steady, listed(&ready.datagrams).len()), (AHEAD + LATENCY, true, 3));
}

/// A picture whose packets take 133 ms to enter, over a path of 20 ms: none waits for the others.
#[test]
fn a_datagram_leaves_before_the_last_of_its_picture_has_come_in() {
    const WAY: Span = ms(20);
    const PACE: Span = us(1_316);
    let end = End::In("127.0.0.1:1".parse().expect("is an address"));
    let flow = FlowConfig { media: Media::Rtp, ..FlowConfig::new("f", end) };
    let (mut gatherer, mut buffer) = (Gatherer::new(&flow), ReorderBuffer::new(rule(Playout::Soon)));
    let mut offset = 0;
    for n in 0..101_u16 {
        let now = Time::EPOCH + PACE * n.into();
        // RTP: one timestamp, and a marker at the end.
        let head = [0x80, 96 | u8::from(n == 100) << 7];
        let datagram = [&head[..], &n.to_be_bytes(), &[0; 8], &[7; 1_200]].concat();
        let mut send = |frame: Frame| {
            let is_last = frame.ends;
            let data = if frame.begins { frame.seal(now, 0, ms(0)) } else { frame.into_rest() };
            let length = data.len() as u32;
            take(&mut buffer, now + WAY, Part { block_id: 0, offset, data, is_last });
            offset += length;
        };
        gatherer.handle_timeout(now, &mut |_| panic!("the picture has not ended"));
        gatherer.push(now, &datagram, &mut send);
        gatherer.flush(&mut send);
        let ready = buffer.poll(now + WAY).expect("leaves when it has come");
        assert_eq!(listed(&ready.datagrams), [(us(now.micros() / 16 * 16), datagram)]);
        assert!(buffer.poll(now + WAY).is_none());
    }
    assert_eq!((buffer.strands[&0].next, buffer.open.len()), (1, 0), "the picture has ended");
}

proptest! {
    /// With arbitrary losses and delays, frames leave in order and once, and none is held beyond
    /// the deadline of a missing one.
    #[test]
    fn frames_leave_in_order_and_in_time(
        delays in prop::collection::vec(prop::option::of(0..400_000u64), 1..60),
        reported in any::<bool>(),
    ) {
        let mut buffer = ReorderBuffer::new(rule(Playout::Soon));
        let mut events: Vec<(Time, u64, bool)> = Vec::new();
        for (number, delay) in delays.iter().enumerate() {
            let sent = AHEAD + FRAME * number as u64;
            match delay {
                Some(delay) => events.push((sent + us(*delay), number as u64, true)),
                None if reported => events.push((sent + ms(100), number as u64, false)),
                None => {}
            }
        }
        events.sort_unstable();
        let mut left: Vec<u64> = Vec::new();
        for (now, number, came) in events {
            while let Some(at) = buffer.poll_timeout().filter(|at| *at <= now) {
                left.extend(numbers(&mut buffer, at));
            }
            if came {
                take_whole(&mut buffer, now, number, &block(number));
            } else {
                buffer.missed(number * 2);
            }
            left.extend(numbers(&mut buffer, now));
            let latest = now + LATENCY;
            prop_assert!(buffer.poll_timeout().is_none_or(|at| at <= latest));
        }
        left.extend(numbers(&mut buffer, at_us(u64::MAX / 2)));
        prop_assert!(left.windows(2).all(|pair| pair[0] < pair[1]), "{left:?}");
        let late = buffer.take_count().late as usize;
        prop_assert_eq!(left.len() + late, delays.iter().flatten().count());
    }

    /// With arbitrary cuts, delays, losses and aborts, datagrams leave in order, without a gap
    /// within a frame, and each frame that is not reported as lost leaves completely unless it is
    /// late.
    #[test]
    fn datagrams_of_growing_frames_leave_in_order(
        blocks in prop::collection::vec(
            (1..6u16, prop::collection::vec((any::<prop::sample::Index>(), 0..200_000u64), 0..4), any::<bool>()),
            1..30,
        ),
        ordered in any::<bool>(),
    ) {
        let mut buffer = ReorderBuffer::new(Rule { ordered, ..rule(Playout::Soon) });
        let mut events: Vec<(Time, u64, Option<Range<usize>>)> = Vec::new();
        for (number, (datagrams, cuts, breaks_off)) in blocks.iter().enumerate() {
            let len = block_of(number as u64, *datagrams).len();
            let (mut at, mut now) = (0, AHEAD + FRAME * number as u64);
            let mut cuts: Vec<_> = cuts.iter().map(|(cut, after)| (cut.index(len), *after)).collect();
            cuts.sort_unstable();
            for (cut, after) in cuts {
                now += us(after);
                events.push((now, number as u64, Some(at..cut)));
                at = cut;
            }
            events.push((now, number as u64, (!breaks_off).then_some(at..len)));
        }
        events.sort_by_key(|(now, ..)| *now);
        let mut all: Vec<(u64, u16)> = Vec::new();
        for (now, number, range) in events {
            while let Some(at) = buffer.poll_timeout().filter(|at| *at <= now) {
                all.extend(left(&mut buffer, at));
            }
            match range {
                Some(range) => {
                    let block = block_of(number, blocks[number as usize].0);
                    take(&mut buffer, now, part(number, &block, range));
                }
                None => buffer.missed(number * 2),
            }
            all.extend(left(&mut buffer, now));
            let latest = now + LATENCY;
            prop_assert!(buffer.poll_timeout().is_none_or(|at| at <= latest));
        }
        all.extend(left(&mut buffer, at_us(u64::MAX / 2)));
        prop_assert!(buffer.open.is_empty() && buffer.held == 0 && buffer.bytes == 0);
        prop_assert!(!ordered || all.is_sorted(), "{:?}", all);
        let late = buffer.take_count().late;
        let mut short = 0;
        for (number, (datagrams, _, breaks_off)) in blocks.iter().enumerate() {
            let of: Vec<u16> = all.iter().filter(|(of, _)| *of == number as u64).map(|(_, n)| *n).collect();
            prop_assert!(of.iter().copied().eq(0..of.len() as u16), "{number}: {of:?}");
            short += u64::from(!breaks_off && of.len() < usize::from(*datagrams));
        }
        prop_assert!(short <= late, "{short} frames are cut short, {late} were late");
    }
}
