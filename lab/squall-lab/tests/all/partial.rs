//! Partial blocks over lossy networks, in virtual time: they lose only the bytes that the network
//! lost.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use squall_lab::{Batch, RunResult, Scenario, world::Side};
use squall_proto::{Block, BlockOptions, sched::BlockId};

use crate::stage::{Stage, TWO_PATHS};

/// Unreliable blocks of 37.5 kB at a third of the link's 30 Mbps, with random packet loss, for 30
/// s.
fn run(scheduler: &str, loss: f64, partial: bool) -> RunResult {
    let text = format!(
        "name = \"partial\"\nduration = \"30s\"\nschedulers = [\"{scheduler}\"]\n\
         [[path]]\nname = \"link\"\nrate = \"30mbps\"\ndelay = \"20ms\"\nloss = \"{loss}%\"\n\
         [[flow]]\nname = \"blocks\"\nkind = \"blocks\"\nsize = \"37.5kB\"\ninterval = \"30ms\"\ndeadline = \"300ms\"\n\
         reliable = false\npartial = {partial}\n"
    );
    let scenario = Scenario::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    let mut runs = Batch::of(&scenario, Arc::new(squall_papers::registry())).run(&|_| {}).expect("runs");
    runs.remove(0)
}

/// STORM (§3.3) sends unreliable data as a stream, which loses only the lost bytes. Otherwise, the
/// first lost packet ends its block.
#[test]
fn a_partial_block_loses_what_is_lost_and_a_whole_one_all() {
    let lost_bytes =
        |loss| 100.0 * (1.0 - run("minrtt", loss, true).flows[0].in_time_bytes_ratio.expect("has blocks"));
    for loss in [0.3, 1.0, 3.0] {
        let (whole, bytes) = (run("minrtt", loss, false).flows.remove(0), lost_bytes(loss));
        let lost = 100.0 * (1.0 - whole.total.delivered_ratio().expect("has blocks"));
        let chunks = 37_500.0 / 1_400.0;
        let expected = 100.0 * (1.0 - (1.0 - loss / 100.0_f64).powf(chunks));
        println!("{loss} %: {lost:.1} % of blocks, {expected:.1} % expected; {bytes:.2} % of bytes");
        assert!((0.75..1.45).contains(&(lost / expected)), "{lost:.1} % of blocks, {expected:.1} % expected");
        // A loss at the beginning ends slow start, and the blocks of a third of a second are late:
        // 1 % of all.
        assert!((0.6 * loss..1.4 * loss + 1.2).contains(&bytes), "{bytes:.2} % of bytes at {loss} %");
    }
}

/// Two lossy paths, one of which fails for a second in the middle: each block ends once at each
/// side, the sender's count of delivered bytes is at most the receiver's, and their contents are
/// right.
#[test]
fn every_partial_block_ends_once_with_the_bytes_that_arrived() {
    const LEN: usize = 20_000;
    for seed in 1..=3 {
        let lossy = "name='a'\nrate='20mbps'\ndelay='15ms'\nloss='3%'\nevents=[{at='3s', outage='1s'}]";
        let mut stage = Stage::plain(&[lossy, TWO_PATHS[1]], seed);
        let mut sent = BTreeMap::new();
        for index in 0..100 {
            let data: Vec<u8> = (0..LEN).map(|at| 1 + ((at + index) % 255) as u8).collect();
            let options = BlockOptions::new().reliable(index % 3 == 0).partial(true);
            let options = options.ordered(index % 2 == 0).deadline(Duration::from_millis(120));
            let id = stage.send(Side::Server, Block::with(data.clone(), options));
            sent.insert(id, data);
            stage.run_for(30_000);
        }
        stage.run_for(1_000_000);
        let mut arrived: BTreeMap<BlockId, usize> = BTreeMap::new();
        for block in stage.received(Side::Client) {
            let is_missing = |at: usize| block.missing.iter().any(|range| range.contains(&(at as u32)));
            let bytes = block.data.iter().zip(&sent[&block.id]).enumerate();
            let right = bytes.clone().all(|(at, (got, sent))| got == if is_missing(at) { &0 } else { sent });
            assert!(right && block.data.len() == LEN, "{:?}", block.id);
            let missing: u32 = block.missing.iter().map(|range| range.end - range.start).sum();
            assert!(
                arrived.insert(block.id, LEN - missing as usize).is_none(),
                "{:?} arrived twice",
                block.id
            );
        }
        let incomplete = arrived.values().filter(|bytes| **bytes < LEN).count();
        assert!(incomplete > 0, "some lose bytes");
        assert_eq!(arrived.len() + stage.missed(Side::Client).len(), 100);
        assert_eq!(stage.outcomes(Side::Server).len(), 100);
        for (id, outcome) in stage.outcomes(Side::Server) {
            use squall_proto::Outcome::{Delivered, Expired, Lost};
            let here = arrived.get(&id).copied().unwrap_or(0);
            match outcome {
                Delivered { .. } => assert_eq!(here, LEN, "{id:?}"),
                Expired { acked } | Lost { acked } => assert!(acked as usize <= here, "{id:?}"),
                other => panic!("{other:?}"),
            }
        }
    }
}
