//! Every scheduler over links with a rate, a queue and a delay.

use squall_sched::Span;
use squall_units::short::{at_ms, ms};

use crate::{
    every::names,
    stage::{CHUNK, Stage, Wanted, block},
};

/// (kbps, one-way delay in ms, queue in packets).
const TWO: [(u64, u64, u64); 2] = [(10_000, 15, 20), (6_000, 30, 20)];
const THREE: [(u64, u64, u64); 3] = [TWO[0], TWO[1], (8_000, 20, 20)];

#[test]
fn what_is_sent_moves_what_a_scheduler_sees() {
    let mut stage = Stage::linked("minrtt", &TWO[..1]);
    stage.reliable(200 * CHUNK);
    stage.run_until(at_ms(5));
    let view = stage.path(0).clone();
    // The pacer releases a packet each 0.48 ms.
    assert_eq!((view.in_flight - view.waiting) / u64::from(CHUNK), 11, "{view:?}");
    stage.run_until(at_ms(100));
    let view = stage.path(0).clone();
    // 31 packets on the link and 20 in its queue, which take 19.2 ms.
    assert!(view.in_flight > view.window - u64::from(2 * CHUNK), "{view:?}");
    assert!((ms(30)..=ms(40)).contains(&view.owd), "{view:?}");
    assert!((ms(45)..=ms(55)).contains(&view.srtt), "{view:?}");
    stage.run_until(at_ms(1_000));
    assert!(stage.queue.is_empty() && stage.flying.is_empty());
}

#[test]
fn a_light_load_meets_every_deadline() {
    for name in names() {
        let mut stage = Stage::linked(name, &TWO);
        let mut missed = 0;
        for frame in 0..60 {
            // 2 Mbps, half of it reliable.
            for reliable in [true, false] {
                let deadline = Some(150);
                stage.hand_over(Wanted { deadline, priority: 2, reliable, ..block(4_000) });
            }
            stage.run_until(at_ms((frame + 1) * 33));
            missed += stage.queue.iter().filter(|b| b.meta().submitted + ms(140) < stage.now).count();
        }
        assert_eq!((missed, stage.expired + stage.cancelled.len()), (0, 0), "{name}");
    }
}

#[test]
fn blocks_that_grow_arrive_whole_and_in_time() {
    const STEP: Span = ms(2);
    for name in names() {
        let mut stage = Stage::linked(name, &TWO);
        let mut missed = 0;
        for frame in 0..60 {
            // 4 Mbps, half of it reliable; each frame is written in ten parts over 20 ms.
            let begun = at_ms(frame * 33);
            let open = |reliable| Wanted { deadline: Some(150), priority: 2, reliable, ..block(0) };
            let blocks = [true, false].map(|reliable| stage.open(open(reliable)));
            for part in 1..=10 {
                blocks.iter().for_each(|block| stage.grow(*block, 830));
                stage.run_until(begun + STEP * part);
            }
            blocks.iter().for_each(|block| stage.finish(*block));
            stage.run_until(begun + ms(33));
            missed += stage.queue.iter().filter(|b| b.meta().submitted + ms(140) < stage.now).count();
        }
        assert_eq!((missed, stage.expired + stage.cancelled.len()), (0, 0), "{name}");
        stage.run_until(at_ms(60 * 33 + 200));
        assert!(stage.queue.is_empty(), "{name}");
    }
}

/// Sends frames of 10 kB each 20 ms for a second, while one of the links is dead from 300 ms to
/// 1800 ms.
fn survives(name: &str, links: &[(u64, u64, u64)], dead: usize) {
    let mut stage = Stage::linked(name, links);
    stage.links[dead].dead = at_ms(300)..at_ms(1_800);
    for frame in 0..50 {
        stage.hand_over(block(10_000));
        stage.run_until(at_ms((frame + 1) * 20));
    }
    stage.run_until(at_ms(5_000));
    let left: Vec<_> = stage.queue.iter().map(|b| (b.meta().id, b.lost_bytes(), b.fresh_bytes())).collect();
    assert!(left.is_empty(), "{name}, link {dead} of {} dead: {left:?}", links.len());
}

#[test]
fn every_reliable_block_outlives_a_dead_link() {
    for name in names() {
        for links in [&TWO[..], &THREE[..]] {
            (0..links.len()).for_each(|dead| survives(name, links, dead));
        }
    }
}
