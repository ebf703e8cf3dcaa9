//! Properties of every scheduler of the crate.

use proptest::{collection::vec, prelude::*};
use squall_sched::{Block, BlockId, Segment, SegmentState, Sharing, WeightedRoundRobin, WorkKind};
use squall_units::short::us;

use crate::stage::{CHUNK, Packet, Stage, Wanted, block};

/// DAMS in the form with which STORM compares.
const DAMS_OF_STORM: &str = "dams(unreliable=minrtt,cancel=false)";

/// Returns every scheduler with its defaults, and one whose options make it another.
pub(crate) fn names() -> Vec<&'static str> {
    crate::registry().entries().map(|entry| entry.name).chain([DAMS_OF_STORM]).collect()
}

/// Schedulers with their own order. The others send blocks in order of submission, and repairs
/// before anything else.
const OWN_ORDER: [&str; 7] = ["dams", DAMS_OF_STORM, "dams-c", "dams-robust", "ras", "srpt-ecf", "storm"];

/// Returns `true` if a scheduler sends on more than one path by its own choice.
fn spreads(name: &str) -> bool {
    let scheduler = crate::registry().build(name).expect("it exists");
    !matches!(scheduler.profile().sharing, Sharing::Only(_))
}

/// Returns every scheduler but these, which must exist.
pub(crate) fn names_but(these: &[&str]) -> Vec<&'static str> {
    let (left_out, names): (Vec<_>, Vec<_>) = names().into_iter().partition(|name| these.contains(name));
    assert_eq!(left_out.len(), these.len(), "{these:?}");
    names
}

#[test]
fn idle_without_blocks_without_paths_and_without_room() {
    for name in names() {
        let mut empty = Stage::new(name, &[(10, 10)]);
        assert_eq!(empty.send(), None, "{name} without blocks");

        let mut pathless = Stage::new(name, &[]);
        pathless.reliable(CHUNK);
        assert_eq!(pathless.send(), None, "{name} without paths");

        let mut full = Stage::new(name, &[(10, 0)]);
        full.reliable(CHUNK);
        assert_eq!(full.send(), None, "{name} without room");
    }
}

#[test]
fn unusable_and_exhausted_paths_carry_nothing() {
    for name in names() {
        let mut stage = Stage::new(name, &[(10, 10)]);
        stage.reliable(3 * CHUNK);
        stage.path(0).usable = false;
        assert_eq!(stage.send(), None, "{name} on an unusable path");
        stage.path(0).usable = true;
        stage.path(0).budget = Some(u64::from(CHUNK) - 1);
        assert_eq!(stage.send(), None, "{name} beyond the budget");
        stage.path(0).budget = Some(u64::from(CHUNK));
        assert!(stage.send().is_some(), "{name} within the budget");
    }
}

/// Holds for any of the paths, metered or not, used before or not; except for schedulers that send
/// everything on one path.
#[test]
fn the_only_usable_path_carries_everything() {
    for name in names().into_iter().filter(|name| spreads(name)) {
        for case in 0..8 * 3 * 2 {
            let (metered, only, used_before) = (case % 8, case / 8 % 3, case / 24 == 1);
            let mut stage = Stage::new(name, &[(10, 100), (20, 100), (30, 100)]);
            (0..3).for_each(|id| stage.path(id).metered = metered & 1 << id != 0);
            if used_before {
                stage.reliable(3 * CHUNK);
                stage.send_all().iter().for_each(|packet| stage.arrive(packet));
            }
            (0..3).for_each(|id| stage.path(id).usable = id == only);
            for reliable in [true, false] {
                let block = if reliable { stage.reliable(CHUNK) } else { stage.unreliable(CHUNK) };
                let path = stage.send().filter(|packet| packet.block == block).map(|packet| packet.path);
                assert_eq!(path, Some(only), "{name}, metered {metered:03b}, used before: {used_before}");
            }
        }
    }
}

#[test]
fn repairs_go_before_new_data() {
    for name in names_but(&OWN_ORDER) {
        let mut stage = Stage::new(name, &[(10, 3)]);
        let first = stage.reliable(2 * CHUNK);
        stage.reliable(5 * CHUNK);
        let sent = stage.send_all();
        stage.lose(&sent[1]);
        let repair = stage.send().expect("room for one");
        assert_eq!((repair.block, repair.kind), (first, WorkKind::Repair), "{name}");
        assert_eq!(repair.range, CHUNK..2 * CHUNK);
        assert_eq!(stage.send(), None, "{name}");
    }
}

#[test]
fn unreliable_data_is_never_sent_again() {
    for name in names() {
        let mut stage = Stage::new(name, &[(10, 100)]);
        let block = stage.unreliable(4 * CHUNK);
        for packet in stage.send_all() {
            stage.lose(&packet);
        }
        assert_eq!(stage.send(), None, "{name}");
        assert!(stage.queue.get(block).is_some_and(|b| b.is_spent() && !b.is_complete()));
    }
}

#[test]
fn what_arrived_late_is_not_repaired() {
    for name in names() {
        let mut stage = Stage::new(name, &[(10, 100)]);
        let block = stage.reliable(CHUNK);
        let packet = stage.send().expect("room");
        stage.queue.mark_lost(block, packet.range.clone(), squall_sched::PathId(0));
        assert!(stage.queue.next_repair().is_some());
        stage.arrive(&packet);
        assert_eq!(stage.send(), None, "{name}");
        assert!(stage.queue.get(block).is_some_and(squall_sched::Block::is_complete));
    }
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    Lost,
    TakenBack,
}

fn play(stage: &mut Stage, packet: &Packet, fate: Fate) {
    match fate {
        Fate::Arrives => stage.arrive(packet),
        Fate::Lost => stage.lose(packet),
        Fate::TakenBack => stage.take_back(packet),
    }
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![3 => Just(Fate::Arrives), 2 => Just(Fate::Lost), 1 => Just(Fate::TakenBack)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Packets are delivered or lost in any order, and paths fall silent and return. Once the
    /// network only delivers, on the remaining paths, every reliable block completes and every
    /// unreliable one is spent, and each packet kept the contract.
    #[test]
    fn every_block_comes_to_an_end(
        name in prop::sample::select(names()),
        paths in vec((1..100u64, 1..6u64, any::<bool>()), 1..=8),
        blocks in vec((1..6 * CHUNK, any::<bool>()), 1..6),
        fates in vec((any::<prop::sample::Index>(), fate(), prop::option::of(0..8u8)), 0..80),
    ) {
        let (paths, metered): (Vec<_>, Vec<_>) =
            paths.into_iter().map(|(rtt, packets, metered)| ((rtt, packets), metered)).unzip();
        let mut stage = Stage::new(name, &paths);
        stage.paths.iter_mut().zip(metered).for_each(|(path, metered)| path.metered = metered);
        for (len, reliable) in blocks {
            if reliable { stage.reliable(len) } else { stage.unreliable(len) };
        }
        let mut flying = stage.send_all();
        for (which, fate, changes) in fates {
            if let Some(id) = changes.filter(|id| usize::from(*id) < paths.len()) {
                if stage.path(id).usable { stage.suspect(id) } else { stage.readmit(id) }
            } else if !flying.is_empty() {
                let packet = flying.swap_remove(which.index(flying.len()));
                play(&mut stage, &packet, fate);
            }
            flying.extend(stage.send_all());
        }
        if stage.paths.iter().all(|path| !path.usable) || !spreads(name) {
            stage.readmit(0);
            flying.extend(stage.send_all());
        }
        // Some schedulers wait for a time of their own.
        let mut waits = 0;
        while !flying.is_empty() || stage.wake.is_some() && waits < 1000 {
            if flying.is_empty() {
                stage.now = stage.wake.map_or(stage.now, |wake| wake.max(stage.now + us(1)));
                waits += 1;
            }
            for packet in std::mem::take(&mut flying) {
                stage.arrive(&packet);
            }
            flying = stage.send_all();
        }
        for block in stage.queue.iter() {
            prop_assert!(block.is_spent(), "{:?}", block);
            prop_assert!(!block.meta().reliable || block.is_complete());
        }
    }

    /// As above with growing blocks: all written data is sent, and no block ends before its length
    /// is final.
    #[test]
    fn every_block_that_grows_comes_to_an_end(
        name in prop::sample::select(names()),
        paths in vec((1..100u64, 1..6u64), 1..=4),
        blocks in vec((0..2 * CHUNK, any::<bool>()), 1..5),
        steps in vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..2 * CHUNK, fate()), 0..60),
    ) {
        let mut stage = Stage::new(name, &paths);
        let ids: Vec<_> =
            blocks.iter().map(|&(len, reliable)| stage.open(Wanted { reliable, ..block(len) })).collect();
        let mut flying = stage.send_all();
        for (which, grown, bytes, fate) in steps {
            stage.grow(ids[grown.index(ids.len())], bytes);
            flying.extend(stage.send_all());
            if !flying.is_empty() {
                let packet = flying.swap_remove(which.index(flying.len()));
                play(&mut stage, &packet, fate);
                flying.extend(stage.send_all());
            }
            prop_assert!(stage.queue.iter().all(|b| !b.is_spent() && !b.is_complete()));
        }
        ids.iter().for_each(|id| stage.finish(*id));
        flying.extend(stage.send_all());
        let mut waits = 0;
        while !flying.is_empty() || stage.wake.is_some() && waits < 1000 {
            if flying.is_empty() {
                stage.now = stage.wake.map_or(stage.now, |wake| wake.max(stage.now + us(1)));
                waits += 1;
            }
            for packet in std::mem::take(&mut flying) {
                stage.arrive(&packet);
            }
            flying = stage.send_all();
        }
        for block in stage.queue.iter() {
            prop_assert!(block.is_spent(), "{:?}", block);
            prop_assert!(!block.meta().reliable || block.is_complete());
        }
    }

    /// A cancelled or ended block is never sent again, whatever happens to its packets.
    #[test]
    fn what_has_ended_is_never_sent_again(
        blocks in vec((1..40_000u32, 1..200u64, 0..8u8, any::<bool>()), 1..10),
        steps in vec((any::<prop::sample::Index>(), 0..3u8, 0..20_000u64), 1..60),
        scheduler in prop::sample::select(names()),
    ) {
        let mut stage = Stage::paced(scheduler, &[(8_000, 10), (3_000, 40)]);
        for view in &mut stage.paths {
            view.window = 12_000;
        }
        for (len, ms, priority, reliable) in blocks {
            stage.hand_over(Wanted { deadline: Some(ms), priority, reliable, ..block(len) });
        }
        let mut flying: Vec<Packet> = Vec::new();
        for (which, fate, time) in steps {
            // `send` fails on a block that is not in the queue.
            flying.extend(stage.send_all());
            stage.elapse(us(time));
            let expired = stage.queue.iter().filter(|b| b.meta().deadline.is_some_and(|d| d <= stage.now));
            let expired: Vec<_> = expired.map(|b| b.meta().id).collect();
            for id in expired {
                stage.remove(id);
            }
            if !flying.is_empty() {
                let packet = flying.swap_remove(which.index(flying.len()));
                match fate {
                    0 => stage.arrive(&packet),
                    1 => stage.lose(&packet),
                    _ => stage.take_back(&packet),
                }
            }
        }
    }
}

/// Schedulers that, given room, repeat everything in flight before they send anything new.
const REPEAT_ALL: [&str; 2] = ["redundant", "raven(deviations=10)"];

/// A path with room, and bytes in flight that it never carried.
fn lacking(stage: &Stage) -> Option<(u8, BlockId, u32)> {
    stage.paths.iter().filter(|path| path.has_room()).find_map(|path| {
        let lacks = |s: &&Segment| s.state == SegmentState::Sent && !s.sent_on.contains(path.id);
        let of =
            |block: &Block| Some((path.id.0, block.meta().id, block.segments().iter().find(lacks)?.start));
        stage.queue.iter().find_map(of)
    })
}

/// Sends all there is. Asserts that no new data is sent, and nothing else ends it, while a path
/// with room lacks bytes in flight.
fn send_all_repeated(stage: &mut Stage) -> Vec<Packet> {
    let mut sent = Vec::new();
    loop {
        let lacks = lacking(stage);
        let packet = stage.send();
        let fresh = packet.as_ref().is_none_or(|packet| packet.kind == WorkKind::Fresh);
        assert!(!fresh || lacks.is_none(), "path, block and byte {lacks:?} before {packet:?}");
        let Some(packet) = packet else { return sent };
        sent.push(packet);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// For any order in which channels alternate, a path with room repeats everything in flight.
    #[test]
    fn every_byte_in_flight_is_repeated_on_every_path_with_room(
        name in prop::sample::select(&REPEAT_ALL[..]),
        paths in vec((20..40u64, 2..8u64), 2..=4),
        weights in vec(1..8u16, 4),
        blocks in vec((1..8 * CHUNK, 0..4u16), 1..12),
        fates in vec((any::<prop::sample::Index>(), fate()), 0..60),
    ) {
        let mut stage = Stage::new(name, &paths);
        stage.queue.set_streams(Box::<WeightedRoundRobin>::default());
        (0..).zip(weights).for_each(|(channel, weight)| stage.queue.set_channel_weight(channel, weight));
        for (len, channel) in blocks {
            stage.hand_over_on(channel, block(len));
        }
        let mut flying = send_all_repeated(&mut stage);
        for (which, fate) in fates {
            if flying.is_empty() {
                break;
            }
            let packet = flying.swap_remove(which.index(flying.len()));
            play(&mut stage, &packet, fate);
            flying.extend(send_all_repeated(&mut stage));
        }
    }
}
