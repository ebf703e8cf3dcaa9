//! Information about the other side that a server's scheduler receives.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use squall_lab::world::Side;
use squall_proto::{
    Block, Config,
    sched::{BlockId, Context, Decision, Profile, SchedEvent, Scheduler},
};

use crate::stage::Stage;

/// Configuration of a server with minRTT inside another scheduler that records its inputs.
fn server(wrap: impl Fn(Box<dyn Scheduler>) -> Box<dyn Scheduler> + Send + Sync + 'static) -> Config {
    let build = move || wrap(squall_papers::registry().build("minrtt").unwrap());
    Config::default().scheduler(Arc::new(build))
}

/// Records which of its paths are metered.
struct Watcher {
    inner: Box<dyn Scheduler>,
    seen: Arc<Mutex<Vec<Vec<bool>>>>,
}

impl Scheduler for Watcher {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        let metered = cx.paths.iter().map(|p| p.metered).collect();
        let mut seen = self.seen.lock().unwrap();
        if seen.last() != Some(&metered) {
            seen.push(metered);
        }
        self.inner.next(cx)
    }
}

/// Records the blocks that the peer reports as stalled.
struct Listener {
    inner: Box<dyn Scheduler>,
    stalled: Arc<Mutex<Vec<BlockId>>>,
}

impl Scheduler for Listener {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        self.inner.next(cx)
    }

    fn on_event(&mut self, event: &SchedEvent, _: &Context<'_>) {
        if let SchedEvent::Stalled(block) = event {
            self.stalled.lock().unwrap().push(*block);
        }
    }

    fn profile(&self) -> Profile {
        Profile { wants_stalls: true, ..Profile::default() }
    }
}

#[test]
fn a_servers_scheduler_learns_of_stalls_and_not_of_its_own_pauses() {
    for (seed, loss) in [(40, 0), (41, 0), (42, 10), (43, 10), (44, 10)] {
        let stalled = Arc::new(Mutex::new(Vec::new()));
        let noted = stalled.clone();
        let server = server(move |inner| Box::new(Listener { inner, stalled: noted.clone() }));
        // Reports are lost and repeated.
        let path = format!(
            "name='a'\nrate='8mbps'\ndelay='20ms'\noutage='hold'\nup={{loss='{loss}%'}}\n\
             events=[{{at='3s', outage='500ms'}}]"
        );
        let mut stage = Stage::with(&[&path], seed, Config::default(), server);
        let send = |stage: &mut Stage, blocks: usize| {
            let send = |_| {
                let at = stage.world.now();
                let id = stage.send(Side::Server, Block::new(vec![1; 1_000]));
                stage.run_for(20_000);
                (id, at)
            };
            (0..blocks).map(send).collect::<Vec<_>>()
        };
        let sent = send(&mut stage, 200);
        stage.run_for(1_000_000);
        send(&mut stage, 100);
        stage.run_for(1_000_000);
        let mut stalled = stalled.lock().unwrap().clone();
        stalled.sort();
        stalled.dedup();
        let held = sent.iter().filter(|(_, at)| (2_960_000..3_450_000).contains(at)).map(|(id, _)| *id);
        let held: BTreeSet<_> = held.collect();
        assert!(stalled.iter().all(|id| held.contains(id)), "seed {seed}: {stalled:?} of {held:?}");
        assert!(stalled.windows(2).all(|two| two[1].0 == two[0].0 + 1), "seed {seed}: {stalled:?}");
        assert!((12..=24).contains(&stalled.len()), "seed {seed}: {stalled:?} of {held:?}");
    }
}

#[test]
fn a_servers_scheduler_sees_which_paths_are_metered_at_the_client() {
    for seed in 30..36 {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let watched = seen.clone();
        let server = server(move |inner| Box::new(Watcher { inner, seen: watched.clone() }));
        // The change must survive losses, and an outage of the path that carries it first.
        let lossy =
            "name='a'\nrate='8mbps'\ndelay='20ms'\nevents=[{at='1s', loss='20%'}, {at='4s', outage='400ms'}]";
        let other = "name='b'\nrate='8mbps'\ndelay='40ms'\nevents=[{at='1s', loss='5%'}]";
        let mut stage = Stage::with(&[lossy, other], seed, Config::default(), server);
        let now_seen = |stage: &mut Stage, time| {
            stage.run_for(time);
            stage.send(Side::Server, Block::new(vec![1; 3_000]));
            stage.run_for(1);
            seen.lock().unwrap().last().cloned().unwrap()
        };
        assert_eq!(now_seen(&mut stage, 2_990_000), [false, false], "seed {seed}");
        stage.world.set_metered(1, true);
        assert_eq!(now_seen(&mut stage, 2_000_000), is_second(&mut stage), "seed {seed}");
        // Repeated changes.
        for metered in [false, true, false, true, false] {
            stage.world.set_metered(1, metered);
        }
        assert_eq!(now_seen(&mut stage, 2_000_000), [false, false], "seed {seed}");
        // A path that is opened later, on an interface that was declared metered before.
        stage.world.remove_interface(1);
        stage.run_for(1_000_000);
        stage.world.set_metered(1, true);
        stage.world.add_interface(1);
        // With one seed in a hundred, the challenge is lost twice and the path takes more than 2 s.
        assert_eq!(now_seen(&mut stage, 5_000_000), is_second(&mut stage), "seed {seed}");
        let metered: Vec<bool> = stage.path_stats(Side::Server).iter().map(|s| s.metered).collect();
        assert_eq!(metered, is_second(&mut stage));
    }
}

/// `true` for the server's path that is the second of the network; path ids depend on the race.
fn is_second(stage: &mut Stage) -> [bool; 2] {
    let stats = stage.world.session(Side::Server).unwrap().path_stats();
    let all: Vec<bool> =
        stats.iter().map(|(_, net, _)| stage.world.path_of(Side::Server, *net) == Some(1)).collect();
    all.try_into().expect("two paths")
}
