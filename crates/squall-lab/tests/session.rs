//! Sessions in virtual time: what an application and the networks do, and what must come of it.

mod stage;

use std::time::Duration;

use squall_lab::world::Side;
use squall_proto::{Block, BlockFate, Event};

use stage::{Stage, TWO_PATHS};

#[test]
fn both_paths_come_up_and_a_block_arrives() {
    let mut stage = Stage::connected(TWO_PATHS, 1);
    let data: Vec<u8> = (0..100_000u32).map(|i| i as u8).collect();
    stage.send(Side::Server, Block::new(data.clone()).deadline(Duration::from_secs(1)));
    stage.run_for(1_000_000);
    let received: Vec<_> = stage.received(Side::Client).collect();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].data, data);
    assert!(matches!(stage.fates(Side::Server)[..], [(_, BlockFate::Delivered { .. })]));
    assert_eq!(stage.world.session(Side::Client).unwrap().path_stats().len(), 2);
    assert!(stage.events.iter().all(|(_, _, e)| !matches!(e, Event::Closed(_))));
}

/// Rates of both paths in windows of 100 ms, saturated, with one path dead from 5 s to 8 s.
fn outage(dead: usize, seed: u64) -> Vec<[f64; 2]> {
    let mut paths = [TWO_PATHS[0].to_owned(), TWO_PATHS[1].to_owned()];
    paths[dead].push_str("\nevents=[{at='5s', outage='3s'}]");
    let mut stage = Stage::connected(&[&paths[0], &paths[1]], seed);
    stage.saturate(Side::Server, 12_000_000, 100_000)
}

#[test]
fn an_outage_of_one_path_leaves_the_other_its_rate() {
    for dead in [0, 1] {
        let rates = outage(dead, 1);
        let alive = 1 - dead;
        let mean = |path: usize, windows: std::ops::Range<usize>| {
            let n = windows.len() as f64;
            windows.map(|w| rates[w][path]).sum::<f64>() / n
        };
        let before = [mean(0, 30..50), mean(1, 30..50)];
        let during = mean(alive, 50..80);
        let after = mean(dead, 83..85);
        println!("path {dead} dead: the other keeps {:.3}, {dead} is back at {:.3}",
            during / before[alive], after / before[dead]);
        assert!(during >= 0.95 * before[alive], "{during} of {}", before[alive]);
        assert!(after >= 0.90 * before[dead], "{after} of {}", before[dead]);
    }
}
