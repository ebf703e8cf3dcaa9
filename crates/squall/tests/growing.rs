//! Blocks that grow, over real sockets.

mod common;

use std::time::Duration;

use common::{next_block, pair, within};
use squall::{Block, BlockOptions, Channel, Config, Growth, Missed, Outcome, Part, Receiver, WriteError};
use squall_testkit::pattern;

/// Returns the next part of a block.
async fn next_part(receiver: &Receiver) -> Part {
    match receiver.recv().await {
        Ok(Some(Growth::Part(part))) => part,
        other => panic!("no part: {other:?}"),
    }
}

#[test]
fn what_is_written_arrives_before_the_block_is_finished() {
    within(async || {
        let (_endpoint, client, server) = pair(Config::default()).await;
        let receiver = server.receiver([Channel::new(1)]);
        let data = pattern(300_000, 1);
        let mut writer =
            client.open(BlockOptions::new().channel(Channel::new(1))).await.expect("the session lasts");
        let mut got = Vec::new();
        for piece in data.chunks(30_000) {
            writer.append(piece.to_vec()).await.expect("is open");
            let written = got.len() + piece.len();
            while got.len() < written {
                let part = next_part(&receiver).await;
                assert_eq!((part.id, part.offset as usize, part.is_last), (writer.id(), got.len(), false));
                got.extend_from_slice(&part.data);
            }
        }
        let handle = writer.finish().expect("has bytes");
        let last = next_part(&receiver).await;
        assert!(last.is_last && last.data.is_empty() && got == data);
        assert!(matches!(handle.await, Outcome::Delivered { .. }));
        let stats = server.stats();
        assert_eq!((stats.blocks_received, stats.bytes_received), (1, 300_000));
    });
}

#[test]
fn a_block_that_grew_comes_whole_to_those_who_take_it_so() {
    within(async || {
        let (_endpoint, client, server) = pair(Config::default()).await;
        let data = pattern(50_000, 2);
        let options =
            BlockOptions::new().ordered(true).expected_len(50_000).deadline(Duration::from_secs(20));
        let mut writer = client.open(options).await.expect("the session lasts");
        client.send(Block::with("after it", BlockOptions::new().ordered(true))).await.expect("is taken");
        for piece in data.chunks(1_300) {
            writer.append(piece.to_vec()).await.expect("is open");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        writer.finish().expect("has bytes");
        let block = next_block(&server).await;
        assert!(block.data == data && block.deadline.is_some());
        assert_eq!(next_block(&server).await.data, "after it");
    });
}

#[test]
fn bytes_appended_in_quick_succession_share_packets() {
    within(async || {
        let (_endpoint, client, server) = pair(Config::default()).await;
        let receiver = server.receiver([Channel::default()]);
        let sent = || client.paths()[0].stats.sent_packets;
        let mut least = u64::MAX;
        // On a busy machine, pieces may be further apart than they wait for each other.
        for _ in 0..20 {
            let mut writer = client.open(BlockOptions::new()).await.expect("the session lasts");
            tokio::time::sleep(Duration::from_millis(20)).await;
            let before = sent();
            for _ in 0..10 {
                writer.append(pattern(100, 4)).await.expect("is open");
                tokio::task::yield_now().await;
            }
            let mut got = 0;
            while got < 1_000 {
                got += next_part(&receiver).await.data.len();
            }
            least = least.min(sent() - before);
            writer.finish().expect("has bytes");
            while !next_part(&receiver).await.is_last {}
        }
        assert!(least <= 3, "{least} packets for ten pieces of 100 bytes");
    });
}

#[test]
fn a_writer_that_is_dropped_cancels_its_block() {
    within(async || {
        let (_endpoint, client, server) = pair(Config::default()).await;
        let receiver = server.receiver([Channel::default()]);
        let mut writer = client.open(BlockOptions::new()).await.expect("the session lasts");
        writer.append(pattern(2_000, 3)).await.expect("is open");
        assert_eq!(next_part(&receiver).await.offset, 0);
        let id = writer.id();
        drop(writer);
        loop {
            match receiver.recv().await {
                Ok(Some(Growth::Part(part))) => assert!(!part.is_last),
                Ok(Some(Growth::Missed(missed))) => {
                    assert!(missed.id == id && matches!(missed.why, Missed::Cancelled(_)));
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        let writer = client.open(BlockOptions::new()).await.expect("the session lasts");
        assert!(matches!(writer.finish(), Err(WriteError::Empty)));
        let writer = client.open(BlockOptions::new()).await.expect("the session lasts");
        assert!(matches!(writer.cancel().await, Outcome::Cancelled { .. }));
        assert_eq!(client.stats().open_blocks, 0);
    });
}

#[test]
fn the_last_bytes_end_a_block() {
    within(async || {
        let (_endpoint, client, server) = pair(Config::default()).await;
        for finishes in [true, false] {
            let mut writer = client.try_open(&BlockOptions::new()).expect("there is room");
            writer.try_append(pattern(2_000, 1)).expect("there is room");
            writer.try_append_last(pattern(500, 2)).expect("there is room");
            assert_eq!(writer.try_append("more"), Err(WriteError::Ended));
            if finishes {
                assert!(matches!(writer.finish().expect("has ended").await, Outcome::Delivered { .. }));
            } else {
                drop(writer);
            }
            let whole = [pattern(2_000, 1), pattern(500, 2)].concat();
            assert_eq!(next_block(&server).await.data, whole);
        }
    });
}

#[test]
fn a_writer_waits_for_room_and_notices_that_its_block_ended() {
    within(async || {
        let (_endpoint, client, server) = pair(Config::default().queued_bytes(40_000)).await;
        let reader = tokio::spawn(async move { while let Ok(Some(_)) = server.recv_any().await {} });
        let mut first = client.open(BlockOptions::new()).await.expect("the session lasts");
        let too_large = WriteError::TooLarge { len: 40_001, limit: 40_000 };
        assert_eq!(first.append(pattern(40_001, 0)).await, Err(too_large));
        first.append(pattern(30_000, 1)).await.expect("is open");
        let options = BlockOptions::new().deadline(Duration::from_millis(200));
        let mut second = client.open(options).await.expect("the session lasts");
        assert!(matches!(second.try_append(pattern(20_000, 2)), Err(WriteError::Full(_))));
        // Room appears when the first block ends.
        let mut third = client.open(BlockOptions::new()).await.expect("the session lasts");
        let append = async { third.append(pattern(20_000, 3)).await };
        let finish = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            first.finish().expect("has bytes").await
        };
        let (appended, outcome) = tokio::join!(append, finish);
        assert!(appended.is_ok() && matches!(outcome, Outcome::Delivered { .. }));
        // No room appears before the deadline of the second block.
        assert_eq!(second.append(pattern(30_000, 4)).await, Err(WriteError::Ended));
        assert!(matches!(second.cancel().await, Outcome::Expired { .. }));
        third.finish().expect("has bytes").await;
        client.close(0, "");
        reader.await.expect("reads");
    });
}
