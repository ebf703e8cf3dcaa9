//! Budgets of metered paths, compared with the packets that the emulator recorded.

use std::{sync::Arc, time::Duration};

use squall_lab::world::{Side, UDP_OVERHEAD};
use squall_net::{Direction, log};
use squall_proto::{Block, BlockOptions, CloseReason, Config, Event, Outcome, PathChange, Priority};

use crate::stage::Stage;

/// The first path is unmetered; the second is metered, lossy, and fails for a while.
const FREE: &str = "name='wifi'\nrate='8mbps'\ndelay='15ms'\nevents=[{at='3s', outage='300ms'}]";
const METERED: &str =
    "name='lte'\nrate='12mbps'\ndelay='25ms'\nevents=[{at='1s', loss='2%'}, {at='2s', outage='500ms'}]";

fn config(scheduler: &str) -> Config {
    let scheduler = scheduler.to_owned();
    Config::default()
        .scheduler(Arc::new(move || squall_papers::registry().build(&scheduler).expect("is known")))
}

/// Both paths up, with every packet recorded.
fn stage(paths: &[&str], seed: u64, scheduler: &str) -> Stage {
    let mut stage = Stage::unconnected(paths, seed, config(scheduler), config(scheduler));
    for path in 0..paths.len() {
        for direction in [Direction::Up, Direction::Down] {
            stage.world.network.keep_records(path, direction, true);
        }
    }
    stage.run_until(800_000);
    assert!(stage.world.is_connected());
    stage
}

/// Bytes of UDP payload that the emulator accepted from one side on a path since the start.
fn on_the_wire(stage: &mut Stage, path: usize, direction: Direction) -> u64 {
    let records = stage.world.network.drain_records(path, direction);
    let size = |record: &log::Record| match record.event {
        log::Event::Push { size, .. } => u64::from(size) - UDP_OVERHEAD as u64,
        _ => 0,
    };
    records.iter().map(size).sum()
}

/// Sends more than the unmetered path can carry, mostly downlink, until `end`.
fn offer(stage: &mut Stage, end: u64) {
    for frame in 0.. {
        if stage.world.now() >= end || !stage.closings().is_empty() {
            break;
        }
        let block = Block::with(
            vec![1; 30_000],
            BlockOptions::new()
                .priority(Priority::new(frame % 4))
                .deadline(Duration::from_millis(400))
                .reliable(frame % 3 == 0),
        );
        stage.send(Side::Server, block);
        stage.send(Side::Client, Block::new(vec![1; 4_000]));
        stage.run_for(20_000);
    }
}

#[test]
fn no_scheduler_exceeds_the_cap_and_the_other_path_goes_on() {
    for (seed, entry) in (1..).zip(squall_papers::registry().entries()) {
        for cap in [20_000, 100_000, 1_000_000, 5_000_000] {
            let scheduler = format!("{}(cap={cap})", entry.name);
            println!("{scheduler}");
            let mut stage = stage(&[FREE, METERED], seed + cap, &scheduler);
            stage.world.set_metered(1, true);
            stage.run_until(1_000_000);
            offer(&mut stage, 4_500_000);
            // Some schedulers put everything on the metered path while its budget lasts.
            let metered = stage.path_stats(Side::Server).into_iter().find(|path| path.metered);
            let is_spent = metered.is_none_or(|path| path.budget.is_some_and(|left| left < 1500));
            let before = stage.path_stats(Side::Client)[0].data_received;
            offer(&mut stage, 5_500_000);
            let [up, down] =
                [Direction::Up, Direction::Down].map(|direction| on_the_wire(&mut stage, 1, direction));
            println!("  {up} up, {down} down");
            assert!(up <= cap && down <= cap, "{scheduler}: {up} up, {down} down");
            // Other schedulers may choose to spare it.
            let uses_both = ["minrtt", "rr", "redundant"].contains(&entry.name) && cap <= 1_000_000;
            assert!(!uses_both || down >= cap * 7 / 10, "{scheduler}: only {down} of the budget used");
            let after = stage.path_stats(Side::Client)[0].data_received;
            assert!(after - before > 500_000 || !is_spent, "{scheduler}: {} in a second", after - before);
            assert_eq!(stage.closings(), []);
        }
    }
}

#[test]
fn every_byte_of_a_path_counts_over_seeds_losses_and_lives() {
    for seed in 1..=12 {
        let cap = 30_000 * seed;
        let mut stage = stage(&[FREE, METERED], seed, &format!("redundant(cap={cap})"));
        stage.world.set_metered(1, true);
        stage.run_until(1_000_000);
        for round in 1..=4 {
            offer(&mut stage, 1_000_000 * round + 500_000);
            // The interface disappears and returns: its usage still counts.
            stage.world.remove_interface(1);
            stage.run_for(200_000);
            stage.world.add_interface(1);
            stage.run_for(300_000);
        }
        // An idle period: keep-alives and packets that noq sends on its own.
        stage.run_for(30_000_000);
        let [up, down] =
            [Direction::Up, Direction::Down].map(|direction| on_the_wire(&mut stage, 1, direction));
        println!("cap {cap}: {up} up, {down} down");
        assert!(up <= cap && down <= cap, "seed {seed}, cap {cap}: {up} up, {down} down");
        assert_eq!(stage.closings(), []);
        stage.send(Side::Server, Block::new(vec![1; 10_000]));
        stage.run_for(500_000);
        assert!(matches!(stage.outcomes(Side::Server).last(), Some((_, Outcome::Delivered { .. }))));
    }
}

#[test]
fn a_budget_of_its_own_holds_without_the_scheduler_and_can_grow() {
    let mut stage = stage(&[FREE, METERED], 7, "rr");
    stage.world.set_budget(1, Some(200_000));
    for _ in 0..150 {
        stage.send(Side::Client, Block::new(vec![1; 20_000]));
    }
    stage.run_until(2_000_000);
    let sent = on_the_wire(&mut stage, 1, Direction::Up);
    assert!((170_000..=200_000).contains(&sent), "{sent}");
    // Data has stopped; the path persists on the small reserve.
    let budget = stage.path_stats(Side::Client)[1].budget;
    assert!(budget.is_some_and(|left| left < 1500), "{budget:?}");
    stage.world.set_budget(1, Some(400_000));
    stage.run_until(6_000_000);
    let sent = sent + on_the_wire(&mut stage, 1, Direction::Up);
    assert!((340_000..=400_000).contains(&sent), "{sent}");
    assert_eq!(stage.received(Side::Server).count(), 150, "everything arrives over the other path");
}

#[test]
fn a_path_is_closed_before_its_reserve_is_used_and_opened_when_there_is_more() {
    let mut stage = stage(&[FREE, METERED], 8, "minrtt");
    let sent = stage.path_stats(Side::Client)[1].sent_bytes;
    stage.world.set_budget(1, Some(sent + 100));
    stage.run_for(10_000_000);
    assert_eq!(stage.path_stats(Side::Client).len(), 1);
    assert_eq!(stage.path_stats(Side::Server).len(), 1);
    let downs = stage.events.iter().filter(|(_, _, e)| matches!(e, Event::Path(_, PathChange::Down))).count();
    assert_eq!(downs, 2, "once at each side, and not opened again");
    stage.world.set_budget(1, None);
    stage.run_for(3_000_000);
    assert_eq!(stage.path_stats(Side::Client).len(), 2);
}

#[test]
fn without_another_path_the_session_ends_within_the_budget() {
    for seed in 1..=4 {
        let mut stage = stage(&[METERED], seed, "minrtt(cap=300kB)");
        stage.world.set_metered(0, true);
        offer(&mut stage, 5_000_000);
        stage.run_for(60_000_000);
        let reasons: Vec<_> = stage.closings().into_iter().map(|(_, _, reason)| reason).collect();
        assert!(reasons.contains(&CloseReason::OverBudget), "{reasons:?}");
        let down = on_the_wire(&mut stage, 0, Direction::Down);
        // The emulator charges handshake packets with 1,200 bytes, whatever their size.
        assert!(down <= 300_000 + 3_000, "{down}");
    }
}
