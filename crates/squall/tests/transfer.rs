//! Blocks over real sockets.

mod common;

use std::time::Duration;

use common::{LIMIT, next_block, pair, request, server, within};
use squall::{Block, CloseReason, Config, Outcome, PathChange};
use squall_testkit::pattern;

#[test]
fn both_paths_come_up() {
    within(async || {
        let (_endpoint, client, _server) = pair(Config::default()).await;
        let mut up = Vec::new();
        while up.len() < 2 {
            let event = client.path_event().await.expect("the session lasts");
            if let PathChange::Up(net) = event.change {
                up.push(net.local);
            }
        }
        up.sort();
        assert_eq!(up, [common::ip("127.0.0.2"), common::ip("127.0.0.3")]);
        let mut locals: Vec<_> = client.paths().iter().map(|p| p.local.ip()).collect();
        locals.sort();
        assert_eq!(locals, up);
    });
}

#[test]
fn twenty_megabytes_arrive_as_they_were_sent() {
    within(async || {
        let (_endpoint, client, server) = pair(Config::default()).await;
        let sender = tokio::spawn(async move {
            let mut handles = Vec::new();
            for n in 0..20 {
                handles.push(client.send(Block::new(pattern(1 << 20, n))).await.expect("is taken"));
            }
            client.finish(LIMIT).await.expect("all arrive");
            (client, handles)
        });
        let mut seen = 0u32;
        for _ in 0..20 {
            let block = next_block(&server).await;
            seen |= 1 << block.id.0;
            assert!(block.data == pattern(1 << 20, block.id.0), "block {:?} differs", block.id);
        }
        assert_eq!(seen, (1 << 20) - 1);
        let (client, handles) = sender.await.expect("sends");
        for handle in handles {
            let outcome = handle.await;
            assert!(matches!(outcome, Outcome::Delivered { .. }), "{outcome:?}");
        }
        assert_eq!(client.stats().bytes_delivered, 20 << 20);
        assert_eq!(server.recv().await, Ok(None));
        let reason = server.closed().await;
        assert!(reason.is_normal(), "{reason}");
    });
}

#[test]
fn an_application_that_takes_no_outcome_keeps_sending() {
    within(async || {
        // Many times the number of blocks that may be open at a time.
        let (endpoint, identity) = server(Config::default());
        let request = request(&endpoint, &identity);
        let client =
            squall::connect(request.config(Config::default().open_blocks(50))).await.expect("connects");
        let accepted = endpoint.accept().await.expect("listens");
        let reader = tokio::spawn(async move { while let Ok(Some(_)) = accepted.recv().await {} });
        for n in 0..2_000 {
            client.send(Block::new(pattern(100, n))).await.expect("is taken");
        }
        client.finish(LIMIT).await.expect("all arrive");
        assert_eq!((client.stats().blocks_delivered, client.stats().outcomes_dropped), (2_000, 0));
        reader.await.expect("reads");
    });
}

#[test]
fn each_task_gets_what_it_asks_for() {
    within(async || {
        let (_endpoint, client, server) = pair(Config::default()).await;
        let paths = client.clone();
        let ups = tokio::spawn(async move {
            let mut ups = 0;
            while let Some(event) = paths.path_event().await {
                ups += usize::from(matches!(event.change, PathChange::Up(_)));
            }
            ups
        });
        let (one, other) = (client.clone(), client.clone());
        let ends = tokio::spawn(async move { tokio::join!(one.closed(), other.closed()) });
        let blocks = client.clone();
        let arrived = tokio::spawn(async move {
            let mut arrived = 0;
            while let Ok(Some(_)) = blocks.recv().await {
                arrived += 1;
            }
            arrived
        });
        let mut kept = client.send(Block::new("watched")).await.expect("is taken");
        drop(client.send(Block::new("not watched")).await.expect("is taken"));
        for n in 0..50 {
            server.send(Block::new(pattern(1_000, n))).await.expect("is taken");
        }
        next_block(&server).await;
        next_block(&server).await;
        assert!(matches!((&mut kept).await, Outcome::Delivered { .. }));
        while client.paths().len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        server.finish(LIMIT).await.expect("all arrive");
        assert_eq!(arrived.await.expect("reads"), 50);
        assert_eq!(ups.await.expect("reads"), 2);
        let by_peer = CloseReason::ByPeer { code: 0, reason: String::new() };
        assert_eq!(ends.await.expect("waits"), (by_peer.clone(), by_peer));
    });
}
