//! Roles, rate limits and quotas of paths, and hints of blocks, with every scheduler, compared with
//! the packets that the emulator recorded.

use std::{sync::Arc, time::Duration};

use squall_lab::world::{Side, UDP_OVERHEAD};
use squall_net::{Direction, log};
use squall_proto::{
    Block, BlockOptions, CloseReason, Config, Event, Outcome, PathHint, PathStats, QuotaShare, RateLimit,
    Role, Session,
    quota::{Account, Period, Quota, Record},
    sched::Sharing,
};
use squall_trace::Micros;
use squall_units::{Span, Time};

use crate::stage::{Stage, TWO_PATHS};

/// A third path: 12 Mbps with 25 ms.
const THIRD: &str = "name='5g'\nrate='12mbps'\ndelay='25ms'\nqueue='60kB'";

/// A path with less capacity than is offered: 4 Mbps with 15 ms.
const SLOW: &str = "name='dsl'\nrate='4mbps'\ndelay='15ms'\nqueue='30kB'";

/// A path of 2 Mbps with 40 ms in each direction, of which a quota permits less than half.
const NARROW: &str = "name='lte'\nrate='2mbps'\ndelay='40ms'\nqueue='20kB'";

/// Blocks of 6 kB each 20 ms: 2.4 Mbps.
const BLOCK: usize = 6_000;
const INTERVAL: Micros = 20_000;

fn config(scheduler: &str) -> Config {
    let scheduler = scheduler.to_owned();
    Config::default()
        .scheduler(Arc::new(move || squall_papers::registry().build(&scheduler).expect("is registered")))
}

fn schedulers() -> Vec<&'static str> {
    squall_papers::registry().entries().map(|entry| entry.name).collect()
}

/// `true` if a scheduler sends on one path only, under all conditions.
fn is_pinned(scheduler: &str) -> bool {
    matches!((config(scheduler).scheduler)().profile().sharing, Sharing::Only(_))
}

/// Connects both sides, and sets the roles of the paths.
fn stage(paths: &[&str], roles: &[Role], scheduler: &str, seed: u64) -> Stage {
    let mut stage = Stage::with(paths, seed, config(scheduler), config(scheduler));
    for (path, role) in roles.iter().enumerate() {
        stage.world.set_role(path, *role);
    }
    // A round trip, for the peer to receive the roles.
    stage.run_for(200_000);
    stage
}

/// Sends reliable blocks with deadlines from both sides.
fn offer(stage: &mut Stage, end: Micros) {
    while stage.world.now() < end {
        for side in [Side::Client, Side::Server] {
            stage.send(
                side,
                Block::with(vec![1; BLOCK], BlockOptions::new().deadline(Duration::from_millis(400))),
            );
        }
        stage.run_for(INTERVAL);
    }
}

/// Counters of a path at both sides, by the index of the path.
fn stats(stage: &mut Stage, path: usize) -> [Option<PathStats>; 2] {
    [Side::Client, Side::Server].map(|side| {
        let all = stage.world.session(side).map(Session::path_stats).unwrap_or_default();
        let of_path = all.into_iter().find(|(_, net, _)| stage.world.path_of(side, *net) == Some(path));
        of_path.map(|(_, _, stats)| stats)
    })
}

fn fresh(stage: &mut Stage, path: usize) -> [u64; 2] {
    stats(stage, path).map(|stats| stats.map_or(0, |stats| stats.fresh_bytes))
}

#[test]
fn a_backup_carries_no_data_while_a_primary_path_lives_takes_over_and_returns() {
    for (seed, scheduler) in (1..).zip(schedulers()).filter(|(_, scheduler)| !is_pinned(scheduler)) {
        let primary = format!("{}\nevents=[{{at='3s', outage='2s'}}]", TWO_PATHS[0]);
        let mut stage = stage(&[&primary, TWO_PATHS[1]], &[Role::Primary, Role::Backup], scheduler, seed);
        assert_eq!(stats(&mut stage, 1).map(|s| s.map(|s| s.role)), [Some(Role::Backup); 2], "{scheduler}");
        let before = fresh(&mut stage, 1);
        offer(&mut stage, 2_950_000);
        assert_eq!(fresh(&mut stage, 1), before, "{scheduler}: the primary path lives");
        // The path fails at 3 s, in both directions.
        offer(&mut stage, 3_600_000);
        let after = fresh(&mut stage, 1);
        println!("{scheduler}: {before:?} then {after:?}");
        assert!(after.iter().zip(before).all(|(after, before)| *after > before), "{scheduler}: it took over");
        // It recovers at 5 s and is readmitted within half a second.
        offer(&mut stage, 5_600_000);
        let settled = fresh(&mut stage, 1);
        let primary = fresh(&mut stage, 0);
        offer(&mut stage, 7_000_000);
        assert_eq!(fresh(&mut stage, 1), settled, "{scheduler}: the primary path is back");
        let gained =
            fresh(&mut stage, 0).iter().zip(primary).all(|(after, before)| *after > before + 100_000);
        assert!(gained, "{scheduler}: and carries the data");
        let during = |at: Micros| (3_600_000..5_000_000).contains(&at);
        let arrived = stage.events.iter().filter(|(at, side, event)| {
            during(*at) && *side == Side::Server && matches!(event, Event::Received(_))
        });
        assert!(arrived.count() >= 60, "{scheduler}: while the primary path was dead");
    }
}

#[test]
fn a_repair_path_carries_repairs_only_and_everything_when_nothing_else_is_left() {
    for (seed, scheduler) in (1..).zip(schedulers()).filter(|(_, scheduler)| !is_pinned(scheduler)) {
        let lossy = format!("{}\nloss='3%'\nevents=[{{at='4s', outage='2s'}}]", TWO_PATHS[0]);
        let third = format!("{THIRD}\nloss='3%'\nevents=[{{at='4s', outage='2s'}}]");
        let roles = [Role::Primary, Role::Repair, Role::Primary];
        let mut stage = stage(&[&lossy, TWO_PATHS[1], &third], &roles, scheduler, 100 + seed);
        let before = fresh(&mut stage, 1);
        offer(&mut stage, 3_950_000);
        let [client, server] = stats(&mut stage, 1).map(Option::unwrap_or_default);
        println!("{scheduler}: {} {} {}", server.repair_bytes, server.copy_bytes, server.parity_bytes);
        assert_eq!([client.fresh_bytes, server.fresh_bytes], before, "{scheduler}: others live");
        let spare = |stats: &PathStats| stats.repair_bytes + stats.copy_bytes + stats.parity_bytes;
        assert!(spare(&client) > 0 && spare(&server) > 0, "{scheduler}: what was lost took it");
        let repaired_elsewhere: u64 =
            [0, 2].iter().flat_map(|path| stats(&mut stage, *path)).flatten().map(|s| s.repair_bytes).sum();
        let repaired = client.repair_bytes + server.repair_bytes;
        assert!(
            repaired + client.parity_bytes + server.parity_bytes >= 4 * repaired_elsewhere,
            "{scheduler}: {repaired_elsewhere} of repairs on primary paths, {repaired} here"
        );
        offer(&mut stage, 5_000_000);
        let after = fresh(&mut stage, 1);
        assert!(after.iter().zip(before).all(|(after, before)| *after > before), "{scheduler}: rescue");
    }
}

/// Departure time and UDP payload of each packet on a path.
fn departures(stage: &mut Stage, path: usize, direction: Direction) -> Vec<(Micros, u64)> {
    let records = stage.world.network.drain_records(path, direction);
    let sent = |record: &log::Record| match record.event {
        log::Event::Push { size, .. } => Some((record.at, u64::from(size) - UDP_OVERHEAD as u64)),
        _ => None,
    };
    records.iter().filter_map(sent).collect()
}

#[test]
fn a_rate_limit_is_kept_and_used_in_both_directions_with_every_scheduler() {
    const LIMIT: RateLimit = RateLimit { bits_per_second: 3_000_000, burst: 20_000 };
    for (seed, scheduler) in (1..).zip(schedulers()) {
        let mut stage = Stage::with(TWO_PATHS, 200 + seed, config(scheduler), config(scheduler));
        for direction in [Direction::Up, Direction::Down] {
            stage.world.network.keep_records(0, direction, true);
        }
        stage.world.set_rate_limit(0, Some(LIMIT));
        stage.run_for(200_000);
        let _ = [Direction::Up, Direction::Down].map(|direction| departures(&mut stage, 0, direction));
        let start = stage.world.now();
        while stage.world.now() < start + 10_000_000 {
            for side in [Side::Client, Side::Server] {
                // Exceeds the capacity of both paths.
                stage.send(
                    side,
                    Block::with(vec![1; 40_000], BlockOptions::new().deadline(Duration::from_millis(500))),
                );
            }
            stage.run_for(INTERVAL);
        }
        for direction in [Direction::Up, Direction::Down] {
            let left = departures(&mut stage, 0, direction);
            let total: u64 = left.iter().map(|(_, size)| size).sum();
            let rate = total as f64 * 8.0 / 10.0;
            println!("{scheduler}, {direction:?}: {rate:.0} bit/s");
            let limit = LIMIT.bits_per_second as f64;
            assert!(rate <= limit * 1.02, "{scheduler}: {rate} bit/s");
            // Schedulers that spare paths or copy everything need not use up the limit.
            assert!(rate >= limit * 0.9, "{scheduler}: {rate} bit/s is too little");
            // Token bucket, per packet: packets without data may exceed it by a few
            // acknowledgements.
            let (mut tokens, mut last) = (LIMIT.burst as f64, start);
            for (at, size) in left {
                tokens = (tokens + (at - last) as f64 * limit / 8e6).min(LIMIT.burst as f64) - size as f64;
                last = at;
                assert!(tokens >= -1_500.0, "{scheduler}: {tokens} tokens at {at}");
            }
        }
    }
}

/// `true` if a block ended because of its hint.
fn is_unsent(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Cancelled { reason } if reason.contains("only path"))
}

#[test]
fn hints_are_obeyed_by_every_scheduler_and_an_only_block_never_takes_another_path() {
    for (seed, scheduler) in (1..).zip(schedulers()) {
        let paths = [TWO_PATHS[0], TWO_PATHS[1], THIRD];
        for (kind, hint) in [
            ("prefer", PathHint::prefer("#1")),
            ("avoid", PathHint::avoid("#1")),
            ("only", PathHint::only("#1")),
        ] {
            let mut stage = Stage::with(&paths, 300 + seed, config(scheduler), config(scheduler));
            let sent = |stage: &mut Stage, path| {
                stats(stage, path).map(|s| s.map_or(0, |s| s.fresh_bytes + s.repair_bytes + s.copy_bytes))
            };
            let before = [0, 1, 2].map(|path| sent(&mut stage, path));
            let end = stage.world.now() + 1_000_000;
            while stage.world.now() < end {
                for side in [Side::Client, Side::Server] {
                    stage.send(
                        side,
                        Block::with(
                            vec![1; BLOCK],
                            BlockOptions::new().deadline(Duration::from_secs(1)).hint(hint.clone()),
                        ),
                    );
                }
                stage.run_for(INTERVAL);
            }
            stage.run_for(500_000);
            let gained = [0, 1, 2].map(|path| {
                let now = sent(&mut stage, path);
                [now[0] - before[path][0], now[1] - before[path][1]]
            });
            println!("{scheduler}, {kind}: {gained:?}");
            let named = gained[1];
            let others = [gained[0][0] + gained[2][0], gained[0][1] + gained[2][1]];
            match kind {
                "avoid" => assert!(named == [0, 0] && others.iter().all(|b| *b >= 290_000), "{scheduler}"),
                _ => assert!(others == [0, 0] && named.iter().all(|b| *b >= 290_000), "{scheduler}, {kind}"),
            }
            let delivered = |(_, outcome): &(_, Outcome)| matches!(outcome, Outcome::Delivered { .. });
            assert!(
                stage.outcomes(Side::Server).iter().filter(|outcome| delivered(outcome)).count() >= 48,
                "{scheduler}"
            );
        }
    }
}

#[test]
fn blocks_with_a_hint_survive_the_end_of_their_path_or_end_with_a_reason() {
    for (seed, scheduler) in (1..).zip(schedulers()) {
        let dying = format!("{}\nevents=[{{at='2s', outage='20s'}}]", TWO_PATHS[1]);
        let mut stage =
            Stage::with(&[TWO_PATHS[0], &dying], 400 + seed, config(scheduler), config(scheduler));
        stage.run_until(2_500_000);
        let ordered = |hint: Option<PathHint>| {
            Block::with(vec![1; BLOCK], BlockOptions::new().ordered(true).hint(hint))
        };
        let only = stage.send(Side::Client, ordered(Some(PathHint::only("#1"))));
        let prefers = stage.send(Side::Client, ordered(Some(PathHint::prefer("#1"))));
        let plain = stage.send(Side::Client, ordered(None));
        let dated = BlockOptions::new().deadline(Duration::from_millis(300)).hint(PathHint::only("#1"));
        let expires = stage.send(Side::Client, Block::with(vec![1; BLOCK], dated));
        stage.run_for(8_000_000);
        let outcomes = stage.outcomes(Side::Client);
        let outcome = |id| outcomes.iter().find(|(of, _)| *of == id).map(|(_, outcome)| outcome);
        assert!(outcome(only).is_some_and(is_unsent), "{scheduler}: {:?}", outcome(only));
        assert!(
            matches!(outcome(expires), Some(Outcome::Expired { .. })),
            "{scheduler}: {:?}",
            outcome(expires)
        );
        for id in [prefers, plain] {
            assert!(matches!(outcome(id), Some(Outcome::Delivered { .. })), "{scheduler}: {:?}", outcome(id));
        }
        assert_eq!(
            stage.received(Side::Server).count(),
            2,
            "{scheduler}: in order, without the one that ended"
        );
    }
}

#[test]
fn blocks_may_have_any_number_of_hints_and_a_name_that_no_path_has_is_no_obstacle() {
    let mut stage = Stage::plain(TWO_PATHS, 5);
    for _ in 0..2 {
        for n in 0..50 {
            let hint = PathHint::prefer(format!("path{n}"));
            stage.send(Side::Client, Block::with(vec![1; 100], BlockOptions::new().hint(hint)));
        }
        stage.run_for(1_000_000);
    }
    assert_eq!(stage.received(Side::Server).count(), 100);
}

/// Bytes of IP packets that passed the client's interface since the last call, in both directions.
fn passed(stage: &mut Stage, path: usize) -> u64 {
    let up = stage.world.network.drain_records(path, Direction::Up);
    let down = stage.world.network.drain_records(path, Direction::Down);
    let left = up.iter().map(|record| match record.event {
        log::Event::Push { size, .. } => u64::from(size),
        _ => 0,
    });
    let arrived = down.iter().map(|record| match record.event {
        log::Event::Deliver { size, .. } => u64::from(size),
        _ => 0,
    });
    left.chain(arrived).sum()
}

fn keep_records(stage: &mut Stage, path: usize) {
    for direction in [Direction::Up, Direction::Down] {
        stage.world.network.keep_records(path, direction, true);
    }
}

/// A period of 60 s with 12 MB, which is less than the path could carry and the streams could use;
/// 30 consecutive sessions.
#[test]
fn a_quota_is_never_exceeded_and_evenly_used_over_thirty_sessions_with_every_scheduler() {
    const PERIOD: Micros = 60_000_000;
    const BYTES: u64 = 12_000_000;
    for (seed, scheduler) in (1..).zip(schedulers()) {
        let quota = Quota { bytes: BYTES, period: Period::Every(Span::from_micros(PERIOD)) };
        let mut record = Record { start: Time::EPOCH, used: 0, earned: i64::MAX };
        let mut all = 0;
        for round in 0..30u64 {
            let begun = round * PERIOD / 30;
            let mut account = Account::new(quota, Time::from_micros(begun), Some(record));
            let seed = 1_000 * seed + round;
            let mut stage = Stage::unconnected(&[SLOW, NARROW], seed, config(scheduler), config(scheduler));
            keep_records(&mut stage, 1);
            let (mut lease, mut used, mut next) = (0, 0, 0);
            let start = stage.world.now();
            while stage.world.now() < start + PERIOD / 30 {
                let at = stage.world.now();
                if at >= next {
                    let total = stage.world.usage(1);
                    lease = account.settle(Time::from_micros(begun + at - start), lease, total - used);
                    used = total;
                    stage.world.set_quota(1, Some(account.share(lease)));
                    next = at + 50_000;
                }
                if stage.world.is_connected() {
                    for side in [Side::Client, Side::Server] {
                        stage.send(
                            side,
                            Block::with(
                                vec![1; 8_000],
                                BlockOptions::new().deadline(Duration::from_millis(300)),
                            ),
                        );
                    }
                }
                stage.run_for(10_000);
            }
            let total = stage.world.usage(1);
            account.end_lease(Time::from_micros(begun + PERIOD / 30), lease, total - used);
            record = account.record();
            let passed = passed(&mut stage, 1);
            assert_eq!(total, passed, "{scheduler}: round {round} is counted as the interface counts it");
            all += passed;
            let (even, spare) = (BYTES * (round + 1) / 30, BYTES / 10);
            assert!(all <= BYTES, "{scheduler}: {all} in round {round}");
            assert!(all <= even + spare, "{scheduler}: {all} in round {round}, evenly {even}");
            // Schedulers that use one path, or spare the second, have no demand.
            let has_demand = ["minrtt", "rr", "redundant"].contains(&scheduler);
            assert!(!has_demand || all + spare >= even, "{scheduler}: {all}, evenly {even}");
        }
        println!("{scheduler}: {all} of {BYTES}");
    }
}

/// The only path, filled by both sides: data of the peer that is in flight when the quota ends
/// still arrives.
#[test]
fn at_the_end_of_a_quota_no_more_arrives_than_was_under_way_with_every_scheduler() {
    const BYTES: u64 = 400_000;
    // A round trip of 2 Mbps and 80 ms, the queue of the link, and the data that a peer sends on
    // its only path without reports.
    const UNDER_WAY: u64 = 20_000 + 20_000 + 10_000;
    for (seed, scheduler) in (1..).zip(schedulers()) {
        let mut stage = Stage::with(&[NARROW], 500 + seed, config(scheduler), config(scheduler));
        keep_records(&mut stage, 0);
        stage.world.set_quota(0, Some(QuotaShare { left: BYTES, is_held: false, is_last: true }));
        let end = stage.world.now() + 10_000_000;
        while stage.closings().is_empty() && stage.world.now() < end {
            for side in [Side::Client, Side::Server] {
                stage.send(
                    side,
                    Block::with(vec![1; 8_000], BlockOptions::new().deadline(Duration::from_millis(300))),
                );
            }
            stage.run_for(10_000);
        }
        stage.run_for(3_000_000);
        let (reasons, passed) = (stage.closings(), passed(&mut stage, 0));
        println!("{scheduler}: {passed} of {BYTES}");
        let is_over = |(_, side, reason): &(Micros, Side, CloseReason)| {
            *side == Side::Client && *reason == CloseReason::OverBudget
        };
        assert!(reasons.iter().any(is_over), "{scheduler}: {reasons:?}");
        assert!((BYTES - 20_000..=BYTES + UNDER_WAY).contains(&passed), "{scheduler}: {passed}");
    }
}
