//! Every scheduler of the registry, with its defaults, through outages in virtual time.

use std::sync::Arc;

use squall_lab::world::Side;
use squall_proto::{Block, Config};

use crate::stage::{Stage, TWO_PATHS};

/// A third path: 8 Mbps with 25 ms.
const THIRD: &str = "name='5g'\nrate='8mbps'\ndelay='25ms'\nqueue='60kB'";

/// Number of blocks of 30 kB, submitted over two seconds; the outage begins after the first.
const BLOCKS: usize = 50;

fn config(scheduler: &'static str) -> Config {
    let build = move || squall_papers::registry().build(scheduler).expect("is registered");
    Config::default().scheduler(Arc::new(build))
}

/// Sends reliable blocks without deadlines while one path is dead for three seconds. Returns the
/// number that arrived by four seconds after its recovery.
fn arrivals(scheduler: &'static str, paths: &[&str], dead: usize) -> usize {
    let mut paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
    paths[dead].push_str("\nevents=[{at='2s', outage='3s'}]");
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let mut stage = Stage::with(&paths, 31, config(scheduler), config(scheduler));
    for _ in 0..BLOCKS {
        stage.send(Side::Server, Block::new(vec![1; 30_000]));
        stage.run_for(40_000);
    }
    stage.run_until(9_000_000);
    stage.received(Side::Client).count()
}

fn nothing_is_left_behind(paths: &[&str]) {
    let mut short = Vec::new();
    for entry in squall_papers::registry().entries() {
        for dead in 0..paths.len() {
            let arrived = arrivals(entry.name, paths, dead);
            println!("{} of {BLOCKS}: {}, path {dead} of {} dead", arrived, entry.name, paths.len());
            if arrived < BLOCKS {
                short.push((entry.name, dead, arrived));
            }
        }
    }
    assert!(short.is_empty(), "scheduler, dead path, blocks that arrived: {short:?}");
}

#[test]
fn every_reliable_block_survives_an_outage_of_either_of_two_paths() {
    nothing_is_left_behind(TWO_PATHS);
}

#[test]
fn every_reliable_block_survives_an_outage_of_any_of_three_paths() {
    nothing_is_left_behind(&[TWO_PATHS[0], TWO_PATHS[1], THIRD]);
}
