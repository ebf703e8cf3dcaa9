//! Plain datagrams in both directions, through changes and failures.

mod common;

use std::{net::UdpSocket, time::Duration};

use common::*;
use squall_testkit::assert_duration;
use squall_tunnel::{Status, Tunnel, config::Token};

#[test]
fn datagrams_arrive_as_they_were_sent_and_replies_find_the_way_back() {
    within(async || {
        let pair = Pair::start("", "").await;
        let large = vec![7; 60_000];
        for datagram in [&b"hello"[..], b"", &large] {
            pair.send(datagram);
            assert_eq!(pair.recv().await.0, datagram);
        }
        let (_, from) = {
            pair.send(b"question");
            pair.recv().await
        };
        pair.target.send_to(b"answer", from).expect("is sent");
        let mut buffer = [0; 100];
        let (length, _) = pair.source.recv_from(&mut buffer).expect("arrives");
        assert_eq!(&buffer[..length], b"answer");
        // Paths have their cost, and blocks are counted once they are acknowledged.
        until(&pair.entry, "two paths", |status| {
            let paths = status.sessions.first().map_or(&[][..], |session| &session.paths);
            let metered: Vec<bool> = paths.iter().map(|path| path.metered).collect();
            let sent = status.flows[0].sent.get("data").and_then(|sent| sent.outcomes.get("delivered"));
            metered == [false, true] && sent.is_some_and(|sent| sent.blocks >= 4)
        })
        .await;
        pair.stop().await;
    });
}

#[test]
fn a_flow_whose_media_does_not_come_says_so_once() {
    within(async || {
        let pair = Pair::start(",media=auto", "").await;
        let lines = |status: &Status| {
            let is_line = |words: &str| words.starts_with("flow 'x': neither MPEG-TS nor RTP is found");
            status.events.iter().filter(|event| event.level == "warn" && is_line(&event.words)).count()
        };
        let send = async |datagrams: &dyn Fn(u8) -> Vec<u8>| {
            for n in 0..30 {
                pair.send(&datagrams(n));
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let text = |_| b"hello, world".to_vec();
        let rtp = |n: u8| [&[0x80, 96, 0, n, 0, 0, n, 0, 0, 0, 0, 7][..], &[1; 20]].concat();
        let has_problem = |status: &Status| status.flows[0].media_problem.is_some();
        assert!(!has_problem(&pair.entry.status()));
        send(&text).await;
        let status = until(&pair.entry, "a problem", has_problem).await;
        assert_eq!((status.flows[0].media.as_str(), lines(&status)), ("udp", 1));
        send(&rtp).await;
        let status = until(&pair.entry, "no problem", |status| !has_problem(status)).await;
        assert_eq!((status.flows[0].media.as_str(), lines(&status)), ("rtp", 1));
        pair.stop().await;
    });
}

#[test]
fn a_steady_flow_has_one_delay() {
    in_real_time(async || {
        let pair = Pair::start(",latency=100ms", ",latency=100ms,playout=steady").await;
        // The clocks are compared with the help of earlier datagrams.
        pair.send(b"first");
        pair.recv_in_time().await;
        for _ in 0..5 {
            let begin = std::time::Instant::now();
            pair.send(b"x");
            pair.recv_in_time().await;
            let took = begin.elapsed();
            assert_duration!((98..140).contains(&took.as_millis()), "{took:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        pair.stop().await;
    });
}

#[test]
fn a_steady_flow_keeps_datagrams_of_one_picture_apart() {
    in_real_time(async || {
        let pair = Pair::start(",latency=300ms,media=rtp,gap=100ms", ",latency=300ms,playout=steady").await;
        let packet = |last: bool| {
            let mut packet = [0; 20];
            packet[..2].copy_from_slice(&[0x80, if last { 0xe0 } else { 0x60 }]);
            packet
        };
        let mut sent = Vec::new();
        for n in 0..4 {
            sent.push(std::time::Instant::now());
            pair.send(&packet(n == 3));
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
        for at in sent {
            pair.recv_in_time().await;
            let took = at.elapsed().as_millis();
            assert!(took >= 295, "{took} ms");
            assert_duration!(took < 345, "{took} ms");
        }
        pair.stop().await;
    });
}

#[test]
fn addresses_change_while_a_flow_runs() {
    within(async || {
        let pair = Pair::start("", "").await;
        for _ in 0..5 {
            pair.send(b"before");
            let (_, from) = pair.recv().await;
            pair.target.send_to(b"reply", from).expect("is sent");
        }
        // Another target, which replies too; then another address to send to.
        let other = socket();
        let to = other.local_addr().expect("is bound");
        let mut exit = exit_config(0, None, vec![flow_out(&format!("x=udp://{to}"))]);
        exit.side = pair_side(&pair);
        pair.exit.reload(exit).expect("is taken");
        let port = reserve_port();
        pair.entry
            .reload(entry_config(&pair.exit, vec![flow_in(&format!("x=udp://127.0.0.1:{port}"))]))
            .expect("is taken");
        attached(&pair.entry).await;
        attached(&pair.exit).await;
        let source = socket();
        // The flow's new addresses take effect a moment later: until then datagrams go to the old
        // target, or are dropped.
        other.set_read_timeout(Some(Duration::from_millis(50))).expect("is set");
        let begin = std::time::Instant::now();
        loop {
            assert!(begin.elapsed() < PATIENCE, "the new addresses are never used");
            source.send_to(b"first", ("127.0.0.1", port)).expect("is sent");
            if other.recv(&mut [0; 100]).is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        while other.recv(&mut [0; 100]).is_ok() {}
        other.set_read_timeout(Some(PATIENCE)).expect("is set");
        let mut buffer = [0; 100];
        for _ in 0..5 {
            source.send_to(b"after", ("127.0.0.1", port)).expect("is sent");
            let (length, from) = other.recv_from(&mut buffer).expect("arrives");
            assert_eq!(&buffer[..length], b"after");
            other.send_to(b"another", from).expect("is sent");
            let (length, _) = source.recv_from(&mut buffer).expect("arrives");
            assert_eq!(&buffer[..length], b"another");
        }
        let status = pair.exit.status();
        assert_eq!((status.flows[0].received.late, status.sessions_opened), (0, 1));
        pair.stop().await;
    });
}

#[test]
fn a_wrong_token_is_reported_at_both_ends() {
    within(async || {
        let exit = exit_config(0, None, vec![flow_out("x=udp://127.0.0.1:9")]);
        let exit = Tunnel::start(exit).await.expect("starts");
        let mut config = entry_config(&exit, vec![flow_in(&format!("x=udp://127.0.0.1:{}", reserve_port()))]);
        config.token = Some(Token::new("quite another token").expect("is long enough"));
        let entry = Tunnel::start(config.clone()).await.expect("starts");
        until(&entry, "refused", |status| status.sessions_failed >= 2).await;
        assert!(
            words(&entry).contains("refused: wrong token (both ends need the same one)"),
            "{}",
            words(&entry)
        );
        assert_eq!(words(&entry).matches("wrong token").count(), 1, "the same is reported once");
        until(&exit, "refused", |status| status.sessions_failed >= 2).await;
        assert!(words(&exit).contains("was rejected: wrong token"), "{}", words(&exit));
        assert!(exit.status().flows.iter().all(|flow| !flow.attached));
        // With the right token it connects by itself.
        config.token = Some(token());
        entry.reload(config).expect("is taken");
        attached(&entry).await;
        entry.stop().await;
        exit.stop().await;
    });
}

#[test]
fn flows_come_and_go_without_the_others_noticing() {
    within(async || {
        let pair = Pair::start("", "").await;
        let (other_port, other_target) = (reserve_port(), socket());
        let to = other_target.local_addr().expect("is bound");
        let mut exit = exit_config(
            0,
            None,
            vec![flow_out(&format!("x=udp://{}", pair.target.local_addr().expect("is bound")))],
        );
        let mut entry = entry_config(&pair.exit, vec![flow_in(&format!("x=udp://127.0.0.1:{}", pair.port))]);
        pair.send(b"before");
        let (_, from) = pair.recv().await;

        // A flow that the other end does not have is refused by name.
        entry.flows.push(flow_in(&format!("y=udp://127.0.0.1:{other_port}")));
        pair.entry.reload(entry.clone()).expect("is taken");
        until(&pair.entry, "refused", |status| {
            status.events.iter().any(|event| event.words.contains("flow 'y': "))
        })
        .await;
        // Now the other end has it.
        exit.flows.push(flow_out(&format!("y=udp://{to}")));
        exit.side = pair_side(&pair);
        pair.exit.reload(exit.clone()).expect("is taken");
        attached(&pair.entry).await;
        pair.source.send_to(b"other", ("127.0.0.1", other_port)).expect("is sent");
        let mut buffer = [0; 100];
        let (length, _) = other_target.recv_from(&mut buffer).expect("arrives");
        assert_eq!(&buffer[..length], b"other");

        // The flow is removed. The first flow keeps its session and its port.
        entry.flows.pop();
        pair.entry.reload(entry.clone()).expect("is taken");
        until(&pair.exit, "gone", |status| !status.flows[1].attached).await;
        pair.send(b"after");
        assert_eq!(pair.recv().await, (b"after".to_vec(), from));
        assert_eq!(pair.entry.status().sessions_opened, 1);

        // An address in use: nothing changes.
        let taken = std::net::UdpSocket::bind("127.0.0.1:0").expect("is bound");
        let address = taken.local_addr().expect("has one");
        entry.flows.push(flow_in(&format!("z=udp://{address}")));
        let error = pair.entry.reload(entry).expect_err("another socket has it").to_string();
        assert!(error.starts_with(&format!("flow 'z': in udp://{address}: ")), "{error}");
        assert_eq!(pair.entry.status().flows.len(), 1);
        pair.stop().await;
    });
}

/// Returns the listening side of the exit.
fn pair_side(pair: &Pair) -> squall_tunnel::config::Side {
    let address = pair.exit.listening().expect("it listens");
    let identity = squall_tunnel::config::IdentityConfig::Fresh;
    squall_tunnel::config::Side::Listen(squall_tunnel::config::ListenConfig::new(address, identity))
}

#[test]
fn an_exit_that_starts_again_is_found_again() {
    within(async || {
        let folder = std::env::temp_dir().join(format!("squall-tunnel-again-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("is made");
        let state = folder.join("state.pem");
        let (source, target, port) = (socket(), socket(), reserve_port());
        let flow = flow_out(&format!("x=udp://{}", target.local_addr().expect("is bound")));
        let exit = Tunnel::start(exit_config(0, Some(&state), vec![flow.clone()])).await.expect("starts");
        let at = exit.listening().expect("it listens").port();
        let entry = entry_config(&exit, vec![flow_in(&format!("x=udp://127.0.0.1:{port},latency=10s"))]);
        let entry = Tunnel::start(entry).await.expect("starts");
        attached(&entry).await;
        exit.stop().await;
        until(&entry, "lost", |status| !status.flows[0].attached).await;
        // Datagrams in the meantime wait until their deadline, and no longer.
        source.send_to(b"meanwhile", ("127.0.0.1", port)).expect("is sent");
        let exit = loop {
            // The port is free once the last close has left.
            if let Ok(exit) = Tunnel::start(exit_config(at, Some(&state), vec![flow.clone()])).await {
                break exit;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        attached(&entry).await;
        let mut buffer = [0; 100];
        let (length, _) = target.recv_from(&mut buffer).expect("arrives");
        assert_eq!(&buffer[..length], b"meanwhile");
        assert!(words(&entry).contains("reconnecting"), "{}", words(&entry));
        entry.stop().await;
        exit.stop().await;
        std::fs::remove_dir_all(&folder).expect("is removed");
    });
}

#[test]
fn an_entry_that_starts_again_has_the_same_port_at_the_exit() {
    within(async || {
        let pair = Pair::start("", "").await;
        pair.send(b"one");
        let (_, from) = pair.recv().await;
        let entry = entry_config(&pair.exit, vec![flow_in(&format!("x=udp://127.0.0.1:{}", pair.port))]);
        // Two at a time: the later one has the flow, the other is notified.
        let Pair { exit, entry: old, source, target, port } = pair;
        let other_port = reserve_port();
        let mut later = entry;
        later.flows = vec![flow_in(&format!("x=udp://127.0.0.1:{other_port}"))];
        let later = Tunnel::start(later).await.expect("starts");
        attached(&later).await;
        until(&old, "notified", |status| {
            status.events.iter().any(|event| event.words.contains("from another tunnel"))
        })
        .await;
        source.send_to(b"two", ("127.0.0.1", other_port)).expect("is sent");
        let mut buffer = [0; 100];
        let (length, now) = target.recv_from(&mut buffer).expect("arrives");
        assert_eq!((&buffer[..length], now), (&b"two"[..], from));
        let _ = port;
        old.stop().await;
        later.stop().await;
        exit.stop().await;
    });
}

#[test]
fn an_earlier_entry_has_the_flow_back_when_a_later_one_ends() {
    within(async || {
        let (source, port) = (socket(), reserve_port());
        let exit = exit_config(0, None, vec![flow_in(&format!("x=udp://127.0.0.1:{port}"))]);
        let exit = Tunnel::start(exit).await.expect("starts");
        let entry = async || {
            let target = socket();
            target.set_read_timeout(Some(Duration::from_millis(50))).expect("is set");
            let flow = flow_out(&format!("x=udp://{}", target.local_addr().expect("is bound")));
            let entry = Tunnel::start(entry_config(&exit, vec![flow])).await.expect("starts");
            attached(&entry).await;
            (entry, target)
        };
        // Sends until a datagram arrives there; returns the number of attempts.
        let arrives = |target: &UdpSocket| {
            let sent = (1..=100).find(|_| {
                source.send_to(b"to all concerned", ("127.0.0.1", port)).expect("is sent");
                target.recv_from(&mut [0; 100]).is_ok()
            });
            sent.expect("arrives")
        };
        let (earlier, first) = entry().await;
        for _ in 0..100 {
            tokio::task::block_in_place(|| arrives(&first));
        }
        let (later, second) = entry().await;
        tokio::task::block_in_place(|| arrives(&second));
        later.stop().await;
        until(&exit, "left", |status| status.sessions.len() == 1).await;
        while first.recv_from(&mut [0; 100]).is_ok() {}
        // The earlier session is notified after a moment, which is less than the hundred datagrams
        // that it had before.
        let sent = tokio::task::block_in_place(|| arrives(&first));
        assert!(sent < 50, "{sent} datagrams until one arrived");
        earlier.stop().await;
        exit.stop().await;
    });
}

#[test]
fn an_earlier_entry_has_the_flow_back_when_a_later_one_withdraws_it() {
    within(async || {
        // From the entries to the exit, and in the opposite direction.
        for enters_at_the_exit in [false, true] {
            let end = |is_in: bool, port: u16| {
                let text = format!("x=udp://127.0.0.1:{port}");
                if is_in { flow_in(&text) } else { flow_out(&text) }
            };
            let exit = exit_config(0, None, vec![end(enters_at_the_exit, reserve_port())]);
            let exit = Tunnel::start(exit).await.expect("starts");
            let entry = async || {
                let flows = vec![end(!enters_at_the_exit, reserve_port())];
                let entry = Tunnel::start(entry_config(&exit, flows)).await.expect("starts");
                attached(&entry).await;
                entry
            };
            let count = |status: &Status, words| {
                status.events.iter().filter(|event| event.words.contains(words)).count()
            };
            let (earlier, later) = (entry().await, entry().await);
            if enters_at_the_exit {
                until(&exit, "moved", |status| count(status, "goes to") == 2).await;
            } else {
                until(&earlier, "without the flow", |status| !status.flows[0].attached).await;
            }
            later.reload(entry_config(&exit, Vec::new())).expect("is taken");
            until(&exit, "withdrawn", |status| !enters_at_the_exit || count(status, "has no out end") == 1)
                .await;
            attached(&earlier).await;
            attached(&exit).await;
            assert!(later.status().sessions.iter().any(|session| session.agreed), "it goes on without");
            earlier.stop().await;
            later.stop().await;
            exit.stop().await;
        }
    });
}

#[test]
fn a_flow_may_take_the_address_of_one_that_goes() {
    within(async || {
        let pair = Pair::start("", "").await;
        let to = pair.target.local_addr().expect("is bound");
        let mut exit = exit_config(0, None, vec![flow_out(&format!("y=udp://{to}"))]);
        exit.side = pair_side(&pair);
        pair.exit.reload(exit).expect("is taken");
        let renamed = flow_in(&format!("y=udp://127.0.0.1:{}", pair.port));
        pair.entry.reload(entry_config(&pair.exit, vec![renamed])).expect("is taken");
        attached(&pair.entry).await;
        pair.send(b"by another name");
        assert_eq!(pair.recv().await.0, b"by another name");
        pair.stop().await;
    });
}

#[test]
fn a_flow_takes_datagrams_of_its_source_only() {
    within(async || {
        let (target, port) = (socket(), reserve_port());
        let flow = flow_out(&format!("x=udp://{}", target.local_addr().expect("is bound")));
        let exit = Tunnel::start(exit_config(0, None, vec![flow])).await.expect("starts");
        let flow = flow_in(&format!("x=udp://127.0.0.1:{port},from=127.0.0.8/29"));
        let entry = Tunnel::start(entry_config(&exit, vec![flow])).await.expect("starts");
        attached(&entry).await;
        let bind = |address| std::net::UdpSocket::bind((address, 0)).expect("is bound");
        let (own, foreign) = (bind("127.0.0.9"), bind("127.0.0.16"));
        own.set_read_timeout(Some(PATIENCE)).expect("is set");
        let mut buffer = [0; 100];
        own.send_to(b"first", ("127.0.0.1", port)).expect("is sent");
        let (length, exit_end) = target.recv_from(&mut buffer).expect("arrives");
        assert_eq!(&buffer[..length], b"first");
        foreign.send_to(b"foreign", ("127.0.0.1", port)).expect("is sent");
        until(&entry, "counted", |status| status.flows[0].datagrams_foreign == 1).await;
        // Replies still go to the right one, and no other datagram was carried.
        target.send_to(b"reply", exit_end).expect("is sent");
        let length = own.recv(&mut buffer).expect("arrives");
        assert_eq!(&buffer[..length], b"reply");
        own.send_to(b"second", ("127.0.0.1", port)).expect("is sent");
        let length = target.recv(&mut buffer).expect("arrives");
        assert_eq!(&buffer[..length], b"second");
        assert_eq!(entry.status().flows[0].datagrams_in, 2);
        entry.stop().await;
        exit.stop().await;
    });
}

#[test]
fn what_a_session_can_carry_is_reported() {
    within(async || {
        let (source, target, port) = (socket(), socket(), reserve_port());
        let to = target.local_addr().expect("is bound");
        let exit = Tunnel::start(exit_config(0, None, vec![flow_out(&format!("x=udp://{to}"))])).await;
        let exit = exit.expect("starts");
        let flow = flow_in(&format!("x=udp://127.0.0.1:{port}"));
        let entry = Tunnel::start(entry_config(&exit, vec![flow])).await.expect("starts");
        let mut bitrates = entry.bitrates();
        attached(&entry).await;
        let pair = Pair { exit, entry, source, target, port };
        let rate = loop {
            pair.send(&[7; 1_000]);
            pair.recv().await;
            match bitrates.try_recv() {
                Ok(bitrate) if bitrate.safe_bps > 0 => break bitrate,
                _ => {}
            }
        };
        assert_eq!(rate.session, 1);
        let status = until(&pair.entry, "measured", |status| status.sessions[0].capacity.safe_bps > 0).await;
        let session = &status.sessions[0];
        assert!(session.capacity.now_bps >= session.capacity.safe_bps, "{session:?}");
        assert!(session.paths.iter().any(|path| path.capacity.now_bps > 0), "{session:?}");
        assert_eq!(session.capacity.limit, "application");
        pair.exit.stop().await;
        while bitrates.recv().await.expect("it runs").safe_bps > 0 {}
        pair.entry.stop().await;
    });
}
