//! Blocks with deadlines: delivery, expiry, and the component that decides.

use std::{sync::Arc, time::Duration};

use squall_lab::world::Side;
use squall_proto::{
    Block, BlockOptions, Config, CongestionControl, Event, LabConfig, Missed, Outcome,
    sched::{BlockId, Context, Decision, Profile, Scheduler, schedulers::minrtt::MinRtt},
};

use crate::stage::{Stage, TWO_PATHS};

#[test]
fn a_block_that_cannot_arrive_in_time_expires_at_both_ends() {
    let mut stage = Stage::plain(&["name='a'\nrate='1mbps'\ndelay='20ms'\nqueue='20kB'"], 8);
    // 0.8 s of transmission with a deadline of 0.3 s.
    let id = stage.send(
        Side::Server,
        Block::with(vec![1; 100_000], BlockOptions::new().deadline(Duration::from_millis(300))),
    );
    let next = stage.send(Side::Server, Block::new(vec![2; 10_000]));
    stage.run_for(2_000_000);
    let outcomes = stage.outcomes(Side::Server);
    assert!(
        matches!(outcomes[0], (i, Outcome::Expired { acked }) if i == id && acked > 10_000 && acked < 60_000)
    );
    assert!(matches!(outcomes[1], (i, Outcome::Delivered { .. }) if i == next));
    assert_eq!(stage.missed(Side::Client), [(id, Missed::Expired)]);
    let at = stage.events.iter().find(|(_, s, e)| *s == Side::Server && matches!(e, Event::Ended { .. }));
    // With 20 ms of delay and a queue ahead, data sent later than this would be late.
    assert!((1_200_000..1_280_000).contains(&at.unwrap().0), "{at:?}");
}

#[test]
fn a_block_arrives_with_its_deadline() {
    let mut stage = Stage::connected(&[TWO_PATHS[0]], 42);
    let sent = stage.world.now();
    stage.send(
        Side::Server,
        Block::with(vec![1; 20_000], BlockOptions::new().deadline(Duration::from_millis(300))),
    );
    stage.send(Side::Server, Block::new(vec![2; 20_000]));
    stage.run_for(500_000);
    let deadlines: Vec<_> = stage.received(Side::Client).map(|block| block.deadline).collect();
    assert_eq!(deadlines.len(), 2);
    let deadline = stage.world.micros(deadlines[0].expect("has one"));
    assert!(deadline.abs_diff(sent + 300_000) < 5_000, "{deadline} for {}", sent + 300_000);
    assert_eq!(deadlines[1], None);
}

/// Returns the data received of two blocks that take 0.8 s each, 2.5 s after their submission, and
/// the number that ended otherwise.
fn late_blocks(expire: bool, congestion: &CongestionControl) -> (Vec<u8>, usize) {
    let narrow = "name='a'\nrate='1mbps'\ndelay='10ms'\nqueue='100kB'";
    let config =
        || Config::default().lab(LabConfig { expire, ..LabConfig::default() }).congestion(congestion.clone());
    let mut stage = Stage::with(&[narrow], 44, config(), config());
    for kind in [1, 2] {
        let block =
            Block::with(vec![kind; 100_000], BlockOptions::new().deadline(Duration::from_millis(300)));
        stage.send(Side::Server, block);
    }
    stage.run_for(2_500_000);
    let received = stage.received(Side::Client).inspect(|block| assert_eq!(block.deadline, None));
    let received = received.map(|block| block.data[0]).collect();
    let missed = stage.missed(Side::Client).len();
    let is_missed = |(_, outcome): &&(BlockId, Outcome)| !matches!(outcome, Outcome::Delivered { .. });
    (received, missed + stage.outcomes(Side::Server).iter().filter(is_missed).count())
}

#[test]
fn late_blocks_arrive_where_deadlines_are_for_the_scheduler_alone() {
    for congestion in [CongestionControl::default(), CongestionControl::CUBIC] {
        assert_eq!(late_blocks(false, &congestion), (vec![1, 2], 0), "{congestion}");
        let (received, missed) = late_blocks(true, &congestion);
        assert!(received.is_empty() && missed > 0, "{congestion}: {received:?}, {missed} missed");
    }
}

/// MinRTT that judges deadlines itself or leaves that to the session.
struct Judge(bool);

impl Scheduler for Judge {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        MinRtt.next(cx)
    }

    fn profile(&self) -> Profile {
        Profile { judges_deadlines: self.0, ..Profile::default() }
    }
}

#[test]
fn what_cannot_be_in_time_stays_where_the_scheduler_judges_deadlines() {
    let narrow = "name='a'\nrate='1mbps'\ndelay='10ms'\nqueue='100kB'";
    // End times of blocks of which only a third can arrive before the deadline.
    let ends = |judges: bool| {
        let scheduler = Arc::new(move || Box::new(Judge(judges)) as Box<dyn Scheduler>);
        let config =
            || Config::default().scheduler(scheduler.clone()).congestion(CongestionControl::default());
        let mut stage = Stage::with(&[narrow], 44, config(), config());
        for _ in 0..30 {
            stage.send(Side::Server, Block::new(vec![0; 3_000]));
            stage.run_for(33_333);
        }
        stage.run_for(500_000);
        stage.events.clear();
        let offered = stage.world.now();
        for _ in 0..3 {
            stage.send(
                Side::Server,
                Block::with(vec![1; 100_000], BlockOptions::new().deadline(Duration::from_millis(300))),
            );
        }
        stage.run_for(1_000_000);
        let is_end = |(_, side, event): &&(u64, Side, Event)| {
            *side == Side::Server && matches!(event, Event::Ended { outcome: Outcome::Expired { .. }, .. })
        };
        stage.events.iter().filter(is_end).map(|(at, ..)| (at - offered) / 1_000).collect::<Vec<_>>()
    };
    assert_eq!(ends(true), [300; 3]);
    let early = ends(false);
    assert!(early[..2].iter().all(|at| *at < 200) && early[2..] == [300], "the last one stays: {early:?}");
}
