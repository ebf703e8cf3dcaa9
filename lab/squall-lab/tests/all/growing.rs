//! Growing blocks in virtual time: opened before their bytes are available, received as a whole or
//! in parts.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use squall_lab::{RunResult, Scenario, result::Tally, run, world::Side};
use squall_proto::{
    BlockOptions, CancelReason, Channel, Config, Event, Missed, Outcome, WriteError, sched::BlockId,
};

use crate::stage::{Stage, TWO_PATHS};

const MS: u64 = 1_000;

/// Contents of a block, to detect misplaced bytes.
fn content(id: BlockId, at: u32) -> u8 {
    (id.0 * 31 + u64::from(at) % 251) as u8
}

impl Stage {
    fn open(&mut self, options: &BlockOptions) -> BlockId {
        let now = self.world.instant();
        self.world.session(Side::Server).expect("session").open(now, options).expect("room")
    }

    fn append(&mut self, id: BlockId, offset: u32, len: u32) -> Result<(), WriteError> {
        let data: Vec<u8> = (offset..offset + len).map(|at| content(id, at)).collect();
        self.world.session(Side::Server).expect("session").append(id, data.into())
    }

    fn finish(&mut self, id: BlockId) -> Result<(), WriteError> {
        let now = self.world.instant();
        self.world.session(Side::Server).expect("session").finish(now, id)
    }

    fn in_parts(&mut self, channel: u16) {
        let session = self.world.session(Side::Client).expect("session");
        session.set_in_parts(Channel::new(channel), true);
    }

    /// Writes a block in pieces over a time.
    fn write(&mut self, id: BlockId, pieces: u32, len: u32, step: u64) {
        for piece in 0..pieces {
            self.append(id, piece * len, len).expect("is open");
            self.run_for(step);
        }
    }

    /// Checks the parts that arrived. Returns the bytes of each block, the arrival of the first,
    /// and `true` if the last has arrived.
    fn parts(&self) -> BTreeMap<BlockId, (u32, u64, bool)> {
        let mut blocks = BTreeMap::new();
        for (at, side, event) in &self.events {
            let Event::Part(part) = event else { continue };
            assert_eq!(*side, Side::Client);
            let (received, _, is_last) = blocks.entry(part.id).or_insert((0, *at, false));
            assert_eq!(
                (part.offset, *is_last),
                (*received, false),
                "without a gap, and nothing after the last"
            );
            assert!(part.data.iter().zip(*received..).all(|(byte, at)| *byte == content(part.id, at)));
            *received += part.data.len() as u32;
            *is_last = part.is_last;
        }
        blocks
    }
}

#[test]
fn bytes_leave_before_the_length_is_known() {
    let mut stage = Stage::connected(TWO_PATHS, 1);
    stage.in_parts(1);
    let parts = stage.open(&BlockOptions::new().channel(Channel::new(1)));
    let whole = stage.open(&BlockOptions::new());
    let begun = stage.world.now();
    for id in [parts, whole] {
        stage.append(id, 0, 20_000).expect("is open");
    }
    stage.run_for(100 * MS);
    assert_eq!(stage.received(Side::Client).count(), 0, "it may become longer");
    let (bytes, first_at, is_last) = stage.parts()[&parts];
    assert_eq!((bytes, is_last), (20_000, false));
    assert!((15 * MS..=20 * MS).contains(&(first_at - begun)), "one way: {}", first_at - begun);
    assert!(stage.outcomes(Side::Server).is_empty());

    for id in [whole, parts] {
        stage.append(id, 20_000, 5_000).expect("is open");
        stage.finish(id).expect("has bytes");
        assert_eq!(stage.append(id, 25_000, 1), Err(WriteError::Ended));
    }
    stage.run_for(100 * MS);
    let received: Vec<_> = stage.received(Side::Client).collect();
    assert_eq!((received.len(), received[0].id, received[0].data.len()), (1, whole, 25_000));
    assert!(received[0].data.iter().zip(0..).all(|(byte, at)| *byte == content(whole, at)));
    assert_eq!((stage.parts()[&parts].0, stage.parts()[&parts].2), (25_000, true));
    let outcomes = stage.outcomes(Side::Server);
    assert!(
        outcomes.iter().all(|(_, outcome)| matches!(outcome, Outcome::Delivered { .. }))
            && outcomes.len() == 2
    );
}

#[test]
fn every_scheduler_delivers_blocks_that_grow_whole_and_in_time() {
    for entry in squall_papers::registry().entries() {
        let name = entry.name;
        let scheduler = Arc::new(move || squall_papers::registry().build(name).expect("has defaults"));
        let config = Config::default().scheduler(scheduler);
        let mut stage = Stage::with(TWO_PATHS, 2, config.clone(), config);
        for frame in 0..60 {
            // 6.6 Mbps, written over 20 ms each; an unreliable block after two reliable ones.
            let options = BlockOptions::new().deadline(Duration::from_millis(200)).reliable(frame % 3 != 2);
            let id = stage.open(&options);
            stage.write(id, 20, 1_370, MS);
            stage.finish(id).expect("is open");
            stage.run_for(13 * MS);
        }
        stage.run_for(500 * MS);
        let received: Vec<_> = stage.received(Side::Client).collect();
        assert_eq!((received.len(), stage.missed(Side::Client).len()), (60, 0), "{name}");
        for block in received {
            assert_eq!(block.data.len(), 20 * 1_370);
            assert!(block.data.iter().zip(0..).all(|(byte, at)| *byte == content(block.id, at)), "{name}");
        }
        let outcomes = stage.outcomes(Side::Server);
        let delivered = |outcome: &Outcome| matches!(outcome, Outcome::Delivered { .. });
        assert!(
            outcomes.len() == 60 && outcomes.iter().all(|(_, outcome)| delivered(outcome)),
            "{name}: {outcomes:?}"
        );
    }
}

#[test]
fn the_end_arrives_though_packets_are_lost() {
    let lossy = "name='a'\nrate='20mbps'\ndelay='15ms'\nloss='20%'";
    let mut stage = Stage::connected(&[lossy], 3);
    stage.in_parts(1);
    for frame in 0..100u16 {
        let id = stage.open(&BlockOptions::new().channel(Channel::new(frame % 2)).ordered(true));
        stage.write(id, 3, 1_000, MS);
        // Sometimes long after the last byte, so that the end is sent alone.
        stage.run_for(u64::from(frame % 5) * 10 * MS);
        stage.finish(id).expect("is open");
    }
    stage.run_for(5_000 * MS);
    let parts = stage.parts();
    assert_eq!(stage.received(Side::Client).count(), 50);
    assert!(parts.len() == 50 && parts.values().all(|(bytes, _, is_last)| *bytes == 3_000 && *is_last));
    let outcomes = stage.outcomes(Side::Server);
    assert_eq!(outcomes.iter().filter(|(_, f)| matches!(f, Outcome::Delivered { .. })).count(), 100);
}

#[test]
fn a_block_that_is_not_finished_ends_by_its_deadline_or_when_it_is_cancelled() {
    let mut stage = Stage::connected(TWO_PATHS, 4);
    stage.in_parts(0);
    let deadline = Duration::from_millis(300);
    let [late, taken_back] = [0; 2].map(|_| stage.open(&BlockOptions::new().deadline(deadline)));
    let opened = stage.world.now();
    for id in [late, taken_back] {
        stage.append(id, 0, 10_000).expect("is open");
    }
    stage.run_for(100 * MS);
    let now = stage.world.instant();
    stage.world.session(Side::Server).expect("session").cancel(now, taken_back);
    stage.run_for(400 * MS);
    let parts = stage.parts();
    assert!([late, taken_back].iter().all(|id| parts[id].0 == 10_000 && !parts[id].2));
    assert_eq!(
        stage.missed(Side::Client),
        [(taken_back, Missed::Cancelled(CancelReason::Cancelled)), (late, Missed::Expired)]
    );
    let ended =
        |e: &&(u64, Side, Event)| matches!(e.2, Event::Ended { outcome: Outcome::Expired { .. }, .. });
    assert_eq!(stage.events.iter().find(ended).expect("it expires").0, opened + 300 * MS);
    assert_eq!(stage.append(late, 10_000, 1), Err(WriteError::Ended));
    assert_eq!(stage.finish(late), Err(WriteError::Ended));
    let stats = stage.world.session(Side::Client).expect("session").stats();
    assert_eq!(stats.held_bytes, 0);
}

#[test]
fn an_open_block_ends_with_the_session_and_one_without_bytes_is_cancelled() {
    let mut stage = Stage::connected(TWO_PATHS, 5);
    let [open, empty] = [0; 2].map(|_| stage.open(&BlockOptions::new().ordered(true)));
    assert_eq!(stage.finish(empty), Err(WriteError::Empty));
    let after = stage.open(&BlockOptions::new().ordered(true));
    stage.append(open, 0, 5_000).expect("is open");
    stage.run_for(200 * MS);
    assert!(matches!(stage.outcomes(Side::Server)[..], [(id, Outcome::Cancelled { .. })] if id == empty));
    let now = stage.world.instant();
    stage.world.session(Side::Server).expect("session").close(now, 0, "");
    stage.run_for(200 * MS);
    let missed = stage.missed(Side::Client);
    assert!(missed.contains(&(empty, Missed::Cancelled(CancelReason::Cancelled))), "{missed:?}");
    assert!(missed.contains(&(open, Missed::SessionClosed)), "{missed:?}");
    assert_eq!(stage.append(after, 0, 1), Err(WriteError::Ended));
}

#[test]
fn an_open_block_grows_no_larger_than_the_peer_takes() {
    let small = Config::default().max_block(30_000).reassembly(50_000);
    let mut stage = Stage::with(TWO_PATHS, 6, small, Config::default());
    let [first, second] = [0; 2].map(|_| stage.open(&BlockOptions::new()));
    let too_large = WriteError::TooLarge { len: 30_001, limit: 30_000 };
    assert_eq!(stage.append(first, 0, 30_001), Err(too_large));
    for id in [first, second] {
        stage.append(id, 0, 30_000).expect("is open");
    }
    stage.run_for(500 * MS);
    let held = stage.world.session(Side::Client).expect("session").stats().held_bytes;
    assert!((48_000..=50_000).contains(&held), "up to the credit: {held}");
    for id in [first, second] {
        stage.finish(id).expect("is open");
    }
    stage.run_for(500 * MS);
    assert_eq!(stage.received(Side::Client).count(), 2, "nothing is refused");
}

#[test]
fn a_path_that_dies_takes_nothing_of_a_growing_block_with_it() {
    let dead = format!("{}\nevents=[{{at='2s', outage='10s'}}]", TWO_PATHS[0]);
    let mut stage = Stage::connected(&[&dead, TWO_PATHS[1]], 7);
    for _ in 0..90 {
        let id = stage.open(&BlockOptions::new());
        stage.write(id, 10, 1_200, 2 * MS);
        stage.finish(id).expect("is open");
        stage.run_for(13 * MS);
    }
    stage.run_for(1_000 * MS);
    assert_eq!(stage.received(Side::Client).count(), 90);
}

/// Frames of 30 Mbps over two links of 20 Mbps, whose bytes are written over 20 ms.
fn frames(scheduler: &str, growing: bool) -> RunResult {
    let text = format!(
        r#"
name = "frames"
duration = "10s"
schedulers = ["{scheduler}"]
congestion = "salsify"

[[path]]
name = "near"
rate = "20mbps"
delay = "20ms"
queue = "250kB"

[[path]]
name = "far"
rate = "20mbps"
delay = "40ms"
queue = "250kB"

[[flow]]
name = "camera"
kind = "video"
fps = 30
bitrate = "30mbps"
key_ratio = 4
jitter = "10%"
deadline = "500ms"
production = "20ms"
growing = {growing}
"#
    );
    let scenario = Scenario::parse(&text, "frames.toml").expect("is right");
    run(&scenario, scheduler, 1, &Arc::new(squall_papers::registry()), &mut |_| {}).expect("runs")
}

#[test]
fn frames_that_are_sent_as_they_grow_arrive_earlier() {
    // Under Salsify, minRTT is limited by the queues that it fills.
    for (scheduler, gain) in [("minrtt", 0.0), ("dams", 5.0), ("storm", 5.0)] {
        let [stored, grown] = [false, true].map(|growing| {
            let flow = frames(scheduler, growing).flows.remove(0);
            let Tally { offered_blocks, in_time_blocks, .. } = flow.total;
            // The last frame may be incomplete when the run ends.
            assert!(offered_blocks >= 299 && in_time_blocks >= 290, "{scheduler}: {in_time_blocks}");
            flow.latency.expect("frames arrive")
        });
        let ms = |us: u64| us as f64 / 1e3;
        let [before, after] = [stored, grown].map(|all| (ms(all.p50_us), ms(all.p99_us)));
        println!("{scheduler}: p50 and p99 {before:?} ms stored, {after:?} ms growing");
        assert!(after.0 + gain < before.0, "{scheduler}");
    }
}
