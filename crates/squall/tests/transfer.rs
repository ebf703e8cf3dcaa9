//! Blocks over real sockets.

mod common;

use common::{LIMIT, next_block, pair, within};
use squall::{Block, BlockFate, Config, Event, PathChange};
use squall_testing::pattern;

#[test]
fn both_paths_come_up() {
    within(async || {
        let (_endpoint, client, _server) = pair(Config::default()).await;
        let mut up = Vec::new();
        while up.len() < 2 {
            if let Some(Event::Path(_, PathChange::Up(net))) = client.recv().await {
                up.push(net.local);
            }
        }
        up.sort();
        assert_eq!(up, [common::ip("127.0.0.2"), common::ip("127.0.0.3")]);
        let mut locals: Vec<_> = client.path_stats().iter().map(|p| p.local.ip()).collect();
        locals.sort();
        assert_eq!(locals, up);
    });
}

#[test]
fn twenty_megabytes_arrive_as_they_were_sent() {
    within(async || {
        let (_endpoint, client, server) = pair(Config::default()).await;
        let sender = tokio::spawn(async move {
            for n in 0..20 {
                client.send(Block::new(pattern(1 << 20, n))).await.expect("is taken");
            }
            client.finish(LIMIT).await.expect("all arrive");
            client
        });
        let mut seen = 0u32;
        for _ in 0..20 {
            let block = next_block(&server).await;
            seen |= 1 << block.id.0;
            assert!(block.data == pattern(1 << 20, block.id.0), "block {:?} differs", block.id);
        }
        assert_eq!(seen, (1 << 20) - 1);
        let client = sender.await.expect("sends");
        let mut delivered = 0;
        while let Some(event) = client.recv().await {
            if let Event::Finished { fate, .. } = event {
                assert!(matches!(fate, BlockFate::Delivered { .. }), "{fate:?}");
                delivered += 1;
            }
        }
        assert_eq!(delivered, 20);
        assert_eq!(client.stats().bytes_delivered, 20 << 20);
        while let Some(event) = server.recv().await {
            if let Event::Closed(reason) = event {
                assert!(reason.is_normal(), "{reason}");
            }
        }
    });
}
