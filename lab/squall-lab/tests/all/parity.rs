//! Parity, in virtual time: blocks that are completed without a retransmission.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use squall_lab::world::Side;
use squall_proto::{
    Block, BlockOptions, Config, CongestionControl, Outcome, PathStats,
    sched::{
        self, Assignment, Context, Decision, ParityFate, PathId, Profile, SchedEvent, Scheduler, WorkKind,
    },
};

use crate::stage::Stage;

/// 20 ms and 40 ms one way, each with 1 % of random loss.
const LOSSY: &[&str; 2] = &[
    "name='near'\nrate='60mbps'\ndelay='20ms'\nloss='1%'\nqueue='500kB'",
    "name='far'\nrate='60mbps'\ndelay='40ms'\nloss='1%'\nqueue='500kB'",
];

/// 30 Mbps at 30 blocks a second.
const FRAME: usize = 125_000;
const INTERVAL: u64 = 33_333;
/// Number of blocks that do not count, until the paths are measured.
const WARM_UP: u32 = 60;

/// Sends data on the path with the lower round trip, and some symbols of parity after each block on
/// the other.
struct WithParity {
    symbols: u32,
}

impl Scheduler for WithParity {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        // Path 0 has the lower round trip without a queue.
        let Some(near) = cx.path(PathId(0)) else { return Decision::idle() };
        // Losses that parity can replace are not repaired.
        let repair = cx.queue.with_lost().find(|block| !block.is_covered()).and_then(sched::Block::next_work);
        let work = repair.or_else(|| cx.queue.next_fresh());
        if let Some(work) = work.filter(|_| near.has_room()) {
            return Decision::Send(Assignment::new(work, near.id, "data"));
        }
        let Some(far) = cx.paths.iter().find(|path| path.id != near.id && path.has_room()) else {
            return Decision::idle();
        };
        for block in cx.queue.iter().filter(|block| block.fresh_bytes() == 0) {
            let wanted = block.parity().map_or(0, |parity| self.symbols.saturating_sub(parity.sent()));
            if let Some(work) = cx.queue.next_parity(block.meta().id).filter(|_| wanted > 0) {
                return Decision::Send(Assignment::new(work, far.id, "parity").at_most(wanted));
            }
        }
        Decision::idle()
    }

    fn on_event(&mut self, event: &SchedEvent, cx: &Context<'_>) {
        if let SchedEvent::Parity { block, symbols, fate, .. } = event
            && let Some(parity) = cx.queue.get(*block).and_then(sched::Block::parity)
        {
            assert!(symbols.end <= parity.symbols() && (*fate != ParityFate::Acked || parity.acked() > 0));
        }
    }

    fn profile(&self) -> Profile {
        Profile { may_hedge: false, wants_parity: true, ..Profile::default() }
    }
}

/// Results of the blocks of ten seconds.
struct Measured {
    /// Times from submission to completion in milliseconds, ascending.
    latencies: Vec<f64>,
    delivered: usize,
    /// Number of blocks with retransmissions.
    repaired: usize,
    rebuilt: u64,
    near: PathStats,
    far: PathStats,
}

impl Measured {
    fn of(symbols: u32, reliable: bool) -> Self {
        let scheduler = Arc::new(move || Box::new(WithParity { symbols }) as Box<dyn Scheduler>);
        // Does not mistake random loss for congestion.
        let congestion = CongestionControl::CUBIC_TOLERANT;
        let server = Config::default().scheduler(scheduler).congestion(congestion);
        let mut stage = Stage::with(LOSSY, 7, Config::default(), server);
        stage.world.session(Side::Server).expect("session").keep_reasons(true);
        stage.world.session(Side::Server).expect("session").report_outcomes(true);
        let mut sent = Vec::new();
        let mut repaired = BTreeSet::new();
        for frame in 0..WARM_UP + 300 {
            let data: Vec<u8> = (0..FRAME as u32).map(|at| (at.wrapping_mul(frame + 1) >> 3) as u8).collect();
            let block = Block::with(data, BlockOptions::new().reliable(reliable));
            let at = stage.world.instant();
            sent.push((at, stage.send(Side::Server, block)));
            stage.run_for(INTERVAL);
            for entry in stage.world.session(Side::Server).expect("session").take_reasons().decisions {
                if let Decision::Send(Assignment { block, kind: WorkKind::Repair, .. }) = entry.decision
                    && sent.iter().skip(WARM_UP as usize).any(|(_, id)| *id == block)
                {
                    repaired.insert(block);
                }
            }
        }
        stage.run_for(1_000_000);
        let mut latencies = Vec::new();
        for received in stage.received(Side::Client) {
            let (frame, (at, _)) =
                sent.iter().enumerate().find(|(_, (_, id))| *id == received.id).expect("sent");
            let right = |at: usize| (at as u32).wrapping_mul(frame as u32 + 1) >> 3;
            assert!(received.data.iter().enumerate().all(|(at, byte)| *byte == right(at) as u8));
            if frame >= WARM_UP as usize {
                latencies.push((received.whole_at - *at).as_secs_f64() * 1e3);
            }
        }
        latencies.sort_by(f64::total_cmp);
        let outcomes = stage.outcomes(Side::Server);
        let delivered =
            outcomes.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Delivered { .. })).count();
        assert_eq!(stage.received(Side::Client).count(), delivered, "both ends agree");
        let delivered = latencies.len();
        let [near, far] = stage.path_stats(Side::Server).try_into().expect("two paths");
        let rebuilt = stage.world.session(Side::Client).expect("session").stats().blocks_rebuilt;
        Self { latencies, delivered, repaired: repaired.len(), rebuilt, near, far }
    }

    fn latency(&self, share: f64) -> f64 {
        self.latencies[((self.latencies.len() - 1) as f64 * share) as usize]
    }
}

#[test]
fn blocks_with_parity_seldom_wait_for_a_retransmission() {
    let outcomes = [0, 1, 3, 6].map(|symbols| Measured::of(symbols, true));
    for outcome in &outcomes {
        println!(
            "{} repaired, {} rebuilt, latency {:.1} {:.1} {:.1} ms, {} bytes of parity, {} repaired",
            outcome.repaired,
            outcome.rebuilt,
            outcome.latency(0.5),
            outcome.latency(0.95),
            outcome.latency(0.99),
            outcome.far.parity_bytes,
            outcome.near.repair_bytes,
        );
        assert_eq!((outcome.delivered, outcome.near.parity_bytes, outcome.far.fresh_bytes), (300, 0, 0));
    }
    let [none, one, three, six] = &outcomes;
    assert!(none.repaired > 150, "six of ten blocks lose a packet");
    assert!(one.repaired < none.repaired && three.repaired * 4 < none.repaired && six.repaired < 6);
    assert_eq!((none.rebuilt, none.far.parity_bytes), (0, 0));
    assert!(one.rebuilt > 50 && six.rebuilt > 150);
    assert!(six.latency(0.95) < none.latency(0.95) - 20.0, "no round trip more");
}

#[test]
fn unreliable_blocks_arrive_with_parity_that_would_be_lost() {
    let [none, six] = [0, 6].map(|symbols| Measured::of(symbols, false));
    println!("{} and {} of 300 delivered", none.delivered, six.delivered);
    assert!(none.delivered < 150 && six.delivered > 285);
    assert_eq!((none.repaired, six.repaired), (0, 0));
}

/// Sends four thousand unreliable blocks of one packet, 4 Mbps, with a deadline of 80 ms. Returns
/// the number that arrived, and bytes of parity per byte of data.
fn small_blocks(scheduler: &'static str) -> (usize, f64) {
    let build = move || squall_papers::registry().build(scheduler).expect("exists");
    let congestion = CongestionControl::default();
    let server = Config::default().scheduler(Arc::new(build)).congestion(congestion);
    let mut stage = Stage::with(LOSSY, 7, Config::default(), server);
    stage.world.session(Side::Server).expect("session").report_outcomes(true);
    for number in 0..4_500_u32 {
        let data: Vec<u8> = (0..1_000).map(|at| ((at * (number + 1)) >> 3) as u8).collect();
        stage.send(
            Side::Server,
            Block::with(data, BlockOptions::new().reliable(false).deadline(Duration::from_millis(80))),
        );
        stage.run_for(2_000);
    }
    stage.run_for(1_000_000);
    let arrived: Vec<_> = stage.received(Side::Client).cloned().collect();
    for received in &arrived {
        let number = received.id.0 as u32;
        assert!((0..1_000).zip(&received.data).all(|(at, byte)| *byte == ((at * (number + 1)) >> 3) as u8));
    }
    let delivered = stage
        .outcomes(Side::Server)
        .iter()
        .filter(|(_, outcome)| matches!(outcome, Outcome::Delivered { .. }))
        .count();
    println!("{scheduler}: {} arrived, {delivered} known to have", arrived.len());
    assert!(delivered + 20 > arrived.len(), "an acknowledgement may come after the deadline");
    let counted = arrived.iter().filter(|received| received.id.0 >= 500).count();
    let paths = stage.path_stats(Side::Server);
    let sum = |count: fn(&PathStats) -> u64| paths.iter().map(count).sum::<u64>();
    let parity = sum(|path| path.parity_bytes) as f64 / sum(|path| path.fresh_bytes) as f64;
    (counted, parity)
}

#[test]
fn small_blocks_share_their_parity() {
    let (without, none) = small_blocks("squall(without=parity)");
    let (with, parity) = small_blocks("squall");
    println!("{without} and {with} of 4000, {parity:.3} bytes of parity for each of data");
    assert_eq!(none, 0.0);
    assert!(without < 3_975 && with >= 3_995, "nearly every loss is replaced");
    assert!((0.02..0.25).contains(&parity), "a copy of each would be 1");
}
