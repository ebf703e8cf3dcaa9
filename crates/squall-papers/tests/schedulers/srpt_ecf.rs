//! SRPT-ECF.

use squall_sched::WorkKind;

use crate::stage::{CHUNK, Packet, Stage, paths_of};

/// The slower path is earlier from 100 packets on: (1 + 100/10)·10 = 110 = 100 + δ, δ being 10 ms.
const UNEQUAL: [(u64, u64); 2] = [(10, 10), (100, 50)];

fn blocks_of(packets: &[Packet]) -> Vec<u64> {
    packets.iter().map(|p| p.block.0).collect()
}

#[test]
fn the_block_with_the_fewest_bytes_left_goes_first() {
    let mut stage = Stage::new("srpt-ecf", &[(10, 4)]);
    stage.reliable(5 * CHUNK);
    stage.reliable(2 * CHUNK);
    stage.reliable(3 * CHUNK);
    let sent = stage.send_all();
    assert_eq!(blocks_of(&sent), [1, 1, 2, 2]);
    // A new block of two packets is behind the one that has one left.
    stage.reliable(2 * CHUNK);
    sent.iter().for_each(|packet| stage.arrive(packet));
    assert_eq!(blocks_of(&stage.send_all()), [2, 3, 3, 0]);
}

#[test]
fn by_size_a_block_that_was_nearly_sent_waits_for_a_shorter_one() {
    let mut stage = Stage::new("srpt-ecf(by=size)", &[(10, 4)]);
    stage.reliable(5 * CHUNK);
    let sent = stage.send_all();
    stage.reliable(2 * CHUNK);
    sent.iter().for_each(|packet| stage.arrive(packet));
    assert_eq!(blocks_of(&stage.send_all()), [1, 1, 0]);
}

#[test]
fn an_older_block_of_the_same_size_goes_first() {
    let mut stage = Stage::new("srpt-ecf", &[(10, 10)]);
    stage.reliable(2 * CHUNK);
    stage.unreliable(2 * CHUNK);
    assert_eq!(blocks_of(&stage.send_all()), [0, 0, 1, 1]);
}

#[test]
fn a_short_block_waits_and_a_longer_one_takes_the_slow_path() {
    let mut stage = Stage::new("srpt-ecf", &UNEQUAL);
    stage.reliable(15 * CHUNK);
    stage.reliable(100 * CHUNK);
    // Ten of the short one fill the fast path, five are left: (1 + 1)·10 < 110, so they wait. The
    // long one has 5 + k before its end: from k = 100 down to 95 it is earlier on the slow path,
    // six packets.
    let sent = stage.send_all();
    assert_eq!(paths_of(&sent[..10]), [0; 10]);
    assert_eq!(blocks_of(&sent[..10]), [0; 10]);
    assert_eq!(paths_of(&sent[10..]), [1; 6]);
    assert_eq!(blocks_of(&sent[10..]), [1; 6]);

    // ECF does not distinguish blocks: it sends the end of the short one on the slow path first.
    let mut ecf = Stage::new("ecf", &UNEQUAL);
    ecf.reliable(15 * CHUNK);
    ecf.reliable(100 * CHUNK);
    let sent = ecf.send_all();
    assert_eq!((blocks_of(&sent[10..]), paths_of(&sent[10..])), (vec![0, 0, 0, 0, 0, 1], vec![1; 6]));
}

#[test]
fn shorter_blocks_before_it_count_for_a_block() {
    // The first block fills the fast path. Eleven of ten packets wait, with sums of 10, 20 and so
    // on: 100 is reached at block 10. Its rest of nine is then first in line, the sums are 9, 19, …
    // 99, 109, and block 11 is the next.
    let mut stage = Stage::new("srpt-ecf", &UNEQUAL);
    (0..12).for_each(|_| _ = stage.reliable(10 * CHUNK));
    let sent = stage.send_all();
    assert_eq!(blocks_of(&sent[..10]), [0; 10]);
    assert_eq!(sent[10].block.0, 10);
    assert_eq!(sent[11].block.0, 11);
    assert!(sent[10..].iter().all(|p| p.path == 1));
    let left: u32 = stage.queue.iter().map(squall_sched::Block::unsent_bytes).sum();
    assert_eq!(left, 99 * CHUNK, "waiting pays for the last 99");
}

#[test]
fn lost_bytes_count_for_their_block() {
    let mut stage = Stage::new("srpt-ecf", &[(10, 4)]);
    stage.reliable(4 * CHUNK);
    let sent = stage.send_all();
    stage.reliable(2 * CHUNK);
    // Three lost: more than the two of the new one, which goes first.
    sent[..3].iter().for_each(|packet| stage.lose(packet));
    let next = stage.send_all();
    assert_eq!(blocks_of(&next), [1, 1, 0]);
    assert_eq!((next[2].kind, next[2].range.clone()), (WorkKind::Repair, 0..CHUNK));
}

#[test]
fn what_comes_back_counts_again() {
    let mut stage = Stage::new("srpt-ecf", &[(10, 3)]);
    stage.reliable(3 * CHUNK);
    let sent = stage.send_all();
    stage.reliable(2 * CHUNK);
    stage.take_back(&sent[1]);
    stage.arrive(&sent[0]);
    assert_eq!(blocks_of(&stage.send_all()), [0, 1]);
    stage.remove(squall_sched::BlockId(1));
    stage.arrive(&sent[2]);
    assert_eq!(stage.send(), None, "what is gone is not sent");
}

#[test]
fn a_block_that_vanished_untold_holds_up_nothing() {
    let mut stage = Stage::new("srpt-ecf", &[(10, 3)]);
    stage.reliable(CHUNK);
    let gone = stage.reliable(2 * CHUNK);
    stage.reliable(3 * CHUNK);
    assert_eq!(blocks_of(&[stage.send().expect("room")]), [0]);
    stage.queue.remove(gone);
    assert_eq!(blocks_of(&stage.send_all()), [2, 2]);
}

#[test]
fn behind_very_many_small_blocks_the_slow_path_works_at_the_far_end() {
    let mut stage = Stage::new("srpt-ecf(look=4)", &UNEQUAL);
    (0..150).for_each(|_| _ = stage.reliable(CHUNK));
    let large = stage.reliable(5 * CHUNK);
    let sent = stage.send_all();
    assert_eq!(blocks_of(&sent[..10]), (0..10).collect::<Vec<_>>());
    assert!(sent[10..].iter().all(|p| p.path == 1));
    assert_eq!(sent[10].block, large, "four packets before the fourth, 145 before the last");
    assert_eq!(sent.len() - 10, 46, "145 down to 100");
}

#[test]
fn a_full_path_that_fails_is_not_waited_for() {
    let mut stage = Stage::new("srpt-ecf", &UNEQUAL);
    stage.reliable(12 * CHUNK);
    assert_eq!(stage.send_all().len(), 10);
    stage.paths.remove(0);
    assert_eq!(paths_of(&stage.send_all()), [1, 1]);
}
