//! Attacks and failures of others: outages, floods, and false identities.

mod common;

use std::{
    net::{SocketAddr, UdpSocket},
    time::{Duration, Instant},
};

use common::*;
use squall::{Block, BlockOptions, CloseReason, Connect, Interfaces, Session, Trust};
use squall_testkit::network::Network;
use squall_tunnel::{Config, Tunnel, config::Side};

/// Returns a configuration that connects through a network.
fn through(network: &Network, mut config: Config) -> Config {
    let Side::Connect(connect) = &mut config.side else { panic!("it is an entry") };
    connect.to = vec![network.address().parse().expect("is an address")];
    config
}

/// Sends until the datagram arrives, as a deadline may drop it on a busy machine; returns the
/// source.
async fn arrives(source: &UdpSocket, port: u16, target: &UdpSocket, datagram: &[u8]) -> SocketAddr {
    target.set_read_timeout(Some(Duration::from_millis(100))).expect("is set");
    let (begin, mut buffer) = (Instant::now(), [0; 100]);
    loop {
        assert!(begin.elapsed() < PATIENCE, "it never arrives");
        source.send_to(datagram, ("127.0.0.1", port)).expect("is sent");
        // Other tasks use this thread too.
        tokio::time::sleep(Duration::from_millis(1)).await;
        while let Ok((length, from)) = target.recv_from(&mut buffer) {
            if &buffer[..length] == datagram {
                return from;
            }
        }
    }
}

#[test]
fn a_network_that_is_wholly_gone_comes_back_alone() {
    within(async || {
        let (source, target, port) = (socket(), socket(), reserve_port());
        let flow = flow_out(&format!("x=udp://{}", target.local_addr().expect("is bound")));
        let exit = Tunnel::start(exit_config(0, None, vec![flow])).await.expect("starts");
        let network = Network::before(exit.listening().expect("it listens"));
        let flow = flow_in(&format!("x=udp://127.0.0.1:{port},latency=500ms"));
        let entry = through(&network, entry_config(&exit, vec![flow]));
        let entry = Tunnel::start(entry).await.expect("starts");
        attached(&entry).await;
        let from = arrives(&source, port, &target, b"before").await;

        network.set_gone(true);
        // Until the session ends for lack of an answer.
        let lost = until(&entry, "noticed", |status| {
            source.send_to(b"lost", ("127.0.0.1", port)).expect("is sent");
            !status.flows[0].attached && status.flows[0].sent["data"].outcomes.contains_key("unsent")
        });
        let lost = lost.await;
        assert!(lost.flows[0].sent["data"].outcomes.contains_key("unsent"), "{:?}", lost.flows[0].sent);
        network.set_gone(false);
        let back = Instant::now();
        attached(&entry).await;
        eprintln!("carried again {:?} after the network was back", back.elapsed());
        // The exit keeps its port.
        assert_eq!(arrives(&source, port, &target, b"after").await, from);
        entry.stop().await;
        exit.stop().await;
    });
}

#[test]
fn a_disposable_picture_is_repaired() {
    within(async || {
        let (source, target, port) = (socket(), socket(), reserve_port());
        let flow = flow_out(&format!("x=udp://{}", target.local_addr().expect("is bound")));
        let exit = Tunnel::start(exit_config(0, None, vec![flow])).await.expect("starts");
        let network = Network::before(exit.listening().expect("it listens"));
        let flow = flow_in(&format!("x=udp://127.0.0.1:{port},media=h264,latency=30s,gap=1s"));
        let entry = Tunnel::start(through(&network, entry_config(&exit, vec![flow]))).await.expect("starts");
        attached(&entry).await;
        let pair = Pair { exit, entry, source, target, port };
        // Slices of a picture that is not referenced.
        let packet = |n: u8| [0x80, 96 | u8::from(n == 2) << 7, 0, n, 0, 0, 0, 0, 0, 0, 0, 7, 0x01, n, n];
        pair.send(&packet(0));
        assert_eq!(pair.recv().await.0, packet(0));
        network.set_gone(true);
        pair.send(&packet(1));
        tokio::time::sleep(Duration::from_millis(50)).await;
        network.set_gone(false);
        pair.send(&packet(2));
        for n in [1, 2] {
            assert_eq!(pair.recv().await.0, packet(n));
        }
        // A picture that enters at once.
        network.set_gone(true);
        let next = [0x80, 96 | 0x80, 0, 3, 0, 0, 0, 1, 0, 0, 0, 7, 0x01, 3, 3];
        pair.send(&next);
        tokio::time::sleep(Duration::from_millis(50)).await;
        network.set_gone(false);
        assert_eq!(pair.recv().await.0, next);
        let status = until(&pair.entry, "acknowledged", |status| status.flows[0].pending == 0).await;
        assert_eq!(status.flows[0].sent.keys().collect::<Vec<_>>(), ["disposable"]);
        pair.stop().await;
    });
}

#[test]
fn what_waits_for_a_session_is_bounded() {
    within(async || {
        let exit =
            Tunnel::start(exit_config(0, None, vec![flow_out("x=udp://127.0.0.1:9")])).await.expect("starts");
        let network = Network::before(exit.listening().expect("it listens"));
        network.set_gone(true);
        let port = reserve_port();
        let flow = flow_in(&format!("x=udp://127.0.0.1:{port},latency=60s,max_pending=65536"));
        let entry = Tunnel::start(through(&network, entry_config(&exit, vec![flow]))).await.expect("starts");
        let source = socket();
        let before = entry.status().memory_bytes;
        for n in 0..60_000 {
            source.send_to(&[0; 1400], ("127.0.0.1", port)).expect("is sent");
            if n % 100 == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        let status = until(&entry, "full", |status| {
            status.flows[0].sent.get("data").is_some_and(|sent| sent.outcomes.contains_key("overflow"))
        });
        let grown = status.await.memory_bytes.saturating_sub(before);
        assert!(grown < 48 << 20, "{grown} bytes more for 16 MiB");
        entry.stop().await;
        exit.stop().await;
    });
}

/// Opens a session with an exit, without being a tunnel.
async fn stranger(exit: &Tunnel) -> Session {
    let request = Connect::to(exit.listening().expect("it listens"))
        .trust(Trust::Pinned(exit.fingerprint().expect("it listens")))
        .interfaces(Interfaces::Local(vec!["127.0.0.1".parse().expect("is an address")]));
    squall::connect(request).await.expect("connects")
}

#[test]
fn clients_are_rejected_with_a_reason() {
    within(async || {
        let exit =
            Tunnel::start(exit_config(0, None, vec![flow_out("x=udp://127.0.0.1:9")])).await.expect("starts");
        let cases: [(&[u8], u64, &str); 4] = [
            (b"GET / HTTP/1.1", 16, "unknown message 71"),
            (&[1, b'S', b'q', b'T', b'u', 0, 0, 0], 19, "tunnel protocol version 0 is not supported"),
            (&[2, 0, 0, 0, 1, 0], 16, "unexpected message"),
            (&[1, b'S', b'q', b'T', b'u', 1, 0, 0], 17, "wrong token"),
        ];
        for (words, code, reason) in cases {
            let session = stranger(&exit).await;
            session
                .send(Block::with(words.to_vec(), BlockOptions::new().ordered(true)))
                .await
                .expect("is sent");
            match session.closed().await {
                CloseReason::ByPeer { code: closed_with, reason: why } => {
                    assert_eq!(closed_with, code);
                    assert!(why.starts_with(reason), "{why}");
                }
                other => panic!("{other}"),
            }
        }
        // A host that continues guessing has to wait; the right token is accepted.
        let guess = squall_tunnel::config::Token::new("a token that is wrong").expect("is long enough");
        let hello = [&[1, b'S', b'q', b'T', b'u', 1, 0, 21], guess.reveal().as_bytes()].concat();
        let mut codes = Vec::new();
        for _ in 0..11 {
            let session = stranger(&exit).await;
            session
                .send(Block::with(hello.clone(), BlockOptions::new().ordered(true)))
                .await
                .expect("is sent");
            let CloseReason::ByPeer { code, .. } = session.closed().await else { panic!("it is closed") };
            codes.push(code);
        }
        assert_eq!(codes.last(), Some(&18), "{codes:?}");
        let flow = flow_in(&format!("x=udp://127.0.0.1:{}", reserve_port()));
        let entry = Tunnel::start(entry_config(&exit, vec![flow])).await.expect("starts");
        attached(&entry).await;
        entry.stop().await;
        // The log has one line for all of these, and the counters have the rest.
        let status = exit.status();
        let lines: Vec<_> = status.events.iter().filter(|event| event.words.contains("rejected")).collect();
        assert_eq!((lines.len(), status.sessions_failed), (1, 15), "{lines:#?}");
        let early =
            |event: &&squall_observe::status::EventStatus| event.kind == "path" && event.at_s < lines[0].at_s;
        assert_eq!(status.events.iter().filter(early).count(), 0, "{:#?}", status.events);
        // Also from the host that guesses.
        let token = exit_config(0, None, Vec::new()).token.expect("is given").reveal().as_bytes().to_vec();
        let hello =
            [&[1, b'S', b'q', b'T', b'u', 1], &(token.len() as u16).to_be_bytes()[..], &token].concat();
        let session = stranger(&exit).await;
        session.send(Block::with(hello, BlockOptions::new().ordered(true))).await.expect("is sent");
        assert!(session.recv().await.expect("lasts").expect("is accepted").data.starts_with(b"\x01SqTu"));
        exit.stop().await;
    });
}

/// A peer with the token violates the protocol: its session ends with a reason, and the others
/// continue.
#[test]
fn a_peer_with_the_token_leaves_nothing_behind() {
    within(async || {
        let mut config = exit_config(0, None, vec![flow_out("x=udp://127.0.0.1:9")]);
        // Fewer than the consecutive sessions, so that a leaked place is detected.
        config.max_sessions = 4;
        let exit = Tunnel::start(config).await.expect("starts");
        let token = exit_config(0, None, Vec::new()).token.expect("is given").reveal().as_bytes().to_vec();
        let length = (token.len() as u16).to_be_bytes();
        let hello = [&[1, b'S', b'q', b'T', b'u', 1], &length[..], &token].concat();
        // The flow x on channel 2.
        let offer = b"\x02\0\0\0\x01\x01\0\x02\0\x04\x93\xe0\x01x";
        // A datagram that ends within the description of its null packets.
        let nulls = [&[0x81][..], &[0; 20], &[0, 1, 0, 0, 1]].concat();
        let cases: [(&[u8], u16, &str); 8] = [
            (&nulls, 2, "a datagram whose null packets cannot be restored"),
            (&hello, 0, "unexpected message"),
            (&offer[..9], 0, "a message of a wrong length"),
            (b"\x02\0\0\0\x02\x01\0\0\0\x04\x93\xe0\x01x", 0, "channel 0 cannot carry a flow"),
            (b"\x02\0\0\0\x02\x41", 0, "more than 64 flows"),
            (b"\x02\0\0\0\x02\x01\0\x03\0\x04\x93\xe0\0", 0, "a flow name that is empty"),
            (&[0xff; 100], 2, "unknown class"),
            (&[0], 2, "a block ends within its header"),
        ];
        for (words, channel, reason) in cases {
            let session = stranger(&exit).await;
            let say = async |channel, words: &[u8]| {
                let options = BlockOptions::new()
                    .priority(squall::Priority::FIRST)
                    .ordered(true)
                    .channel(squall::Channel::new(channel));
                session.send(Block::with(words.to_vec(), options)).await.expect("is sent");
            };
            say(0, &hello).await;
            say(0, offer).await;
            until(&exit, "the flow is carried", |status| status.flows[0].attached).await;
            say(channel, words).await;
            match session.closed().await {
                CloseReason::ByPeer { code: 16, reason: why } => assert!(why.starts_with(reason), "{why}"),
                other => panic!("{reason}: {other}"),
            }
            let is_gone =
                |status: &squall_tunnel::Status| status.sessions.is_empty() && !status.flows[0].attached;
            until(&exit, "nothing is left", is_gone).await;
        }
        let flow = flow_in(&format!("x=udp://127.0.0.1:{}", reserve_port()));
        let entry = Tunnel::start(entry_config(&exit, vec![flow])).await.expect("starts");
        attached(&entry).await;
        assert_eq!(exit.status().task_failures, 0);
        entry.stop().await;
        exit.stop().await;
    });
}

#[test]
fn an_entry_cannot_drain_or_redirect_an_exit() {
    within(async || {
        let exit =
            Tunnel::start(exit_config(0, None, vec![flow_out("x=udp://127.0.0.1:9")])).await.expect("starts");
        let flow = flow_in(&format!("x=udp://127.0.0.1:{}", reserve_port()));
        let entry = Tunnel::start(entry_config(&exit, vec![flow])).await.expect("starts");
        attached(&entry).await;
        let token = exit_config(0, None, Vec::new()).token.expect("is given").reveal().as_bytes().to_vec();
        let session = stranger(&exit).await;
        let length = (token.len() as u16).to_be_bytes();
        let hello = [&[1, b'S', b'q', b'T', b'u', 1], &length[..], &token].concat();
        // A redirect from a peer with the token, in the wrong direction.
        for message in [hello, b"\x04\0\0\0\0\x01\x06evil:1".to_vec()] {
            session
                .send(Block::with(
                    message,
                    BlockOptions::new().priority(squall::Priority::FIRST).ordered(true),
                ))
                .await
                .expect("is sent");
        }
        match session.closed().await {
            CloseReason::ByPeer { code: 16, reason } => assert_eq!(reason, "an entry does not drain"),
            other => panic!("{other}"),
        }
        until(&exit, "one session", |status| status.sessions.len() == 1).await;
        assert_eq!(entry.status().sessions_opened, 1);
        entry.stop().await;
        exit.stop().await;
    });
}

/// An entry of a later release: a higher version, and unknown fields, messages and verdicts.
#[test]
fn an_entry_of_a_later_release_is_carried() {
    within(async || {
        let target = socket();
        let flow = flow_out(&format!("x=udp://{}", target.local_addr().expect("is bound")));
        let exit = Tunnel::start(exit_config(0, None, vec![flow])).await.expect("starts");
        let token = exit_config(0, None, Vec::new()).token.expect("is given").reveal().as_bytes().to_vec();
        let session = stranger(&exit).await;
        let say = async |message: &[u8]| {
            session
                .send(Block::with(
                    message.to_vec(),
                    BlockOptions::new().priority(squall::Priority::FIRST).ordered(true),
                ))
                .await
                .expect("is sent");
        };
        let length = (token.len() as u16).to_be_bytes();
        say(&[&[1, b'S', b'q', b'T', b'u', 2], &length[..], &token, b"more"].concat()).await;
        say(b"\x63 a message of a later version").await;
        say(b"\x02\0\0\0\x01\x01\0\x02\0\x04\x93\xe0\x01x more").await;
        say(b"\x03\0\0\0\0\x01\0\x01\x09 more").await;
        let mut answers = Vec::new();
        while answers.len() < 3 {
            answers.push(session.recv().await.expect("lasts").expect("goes on").data);
        }
        assert_eq!(answers[0][..6], *b"\x01SqTu\x01", "the exit says which version it has");
        assert!(answers.iter().any(|answer| answer[..] == *b"\x03\0\0\0\x01\x01\0\x02\0"), "{answers:?}");
        assert_eq!(session.close_reason(), None);
        exit.stop().await;
    });
}

/// Entries of releases with and without null packets in the features of their hello.
#[test]
fn an_entry_that_does_not_restore_null_packets_gets_them() {
    within(async || {
        let port = reserve_port();
        let flow = flow_in(&format!("x=udp://127.0.0.1:{port},media=ts"));
        let exit = Tunnel::start(exit_config(0, None, vec![flow])).await.expect("starts");
        let token = exit_config(0, None, Vec::new()).token.expect("is given").reveal().as_bytes().to_vec();
        let length = (token.len() as u16).to_be_bytes();
        let datagram = [&[0x47, 0x1f, 0xff, 0x10][..], &[0xff; 184]].concat().repeat(7);
        let (short, whole) =
            (b"\0\x09\0\0\x01\0\0\x05\x24\0\x1f\x10\xff".to_vec(), [b"\x05\x24\0\0", &datagram[..]].concat());
        let cases: [(&[u8], u8, &[u8]); 4] =
            [(&[], 0, &whole), (&[1], 0, &whole), (&[2], 0x80, &short), (&[3], 0x80, &short)];
        for (features, flag, record) in cases {
            let session = stranger(&exit).await;
            let say = async |message: &[u8]| {
                let block = Block::with(
                    message.to_vec(),
                    BlockOptions::new().priority(squall::Priority::FIRST).ordered(true),
                );
                session.send(block).await.expect("is sent");
            };
            say(&[&[1, b'S', b'q', b'T', b'u', 1], &length[..], &token, features].concat()).await;
            // Independent of the exit's offer: the flow is on channel 1.
            say(b"\x03\0\0\0\x01\x01\0\x01\0").await;
            until(&exit, "the flow is carried", |status| status.flows[0].attached).await;
            socket().send_to(&datagram, ("127.0.0.1", port)).expect("is sent");
            let block = loop {
                let block = session.recv().await.expect("lasts").expect("goes on");
                if block.channel.get() == 1 {
                    break block.data;
                }
            };
            assert_eq!((block[0] & 0x80, &block[21..]), (flag, record), "features {features:?}");
            session.close(0, "");
            until(&exit, "over", |status| status.sessions.is_empty() && !status.flows[0].attached).await;
        }
        assert_eq!(exit.status().flows[0].null_bytes_deleted, 2 * 1_316);
        exit.stop().await;
    });
}

#[test]
fn tunnels_are_bounded() {
    within(async || {
        let mut config = exit_config(0, None, vec![flow_out("x=udp://127.0.0.1:9")]);
        config.max_sessions = 1;
        let exit = Tunnel::start(config).await.expect("starts");
        // Sessions without a token occupy no permit, and one host has at most eight: the oldest is
        // displaced.
        let mut strangers = Vec::new();
        for _ in 0..9 {
            strangers.push(stranger(&exit).await);
        }
        let CloseReason::ByPeer { code, reason } = strangers.remove(0).closed().await else {
            panic!("it is closed")
        };
        assert_eq!((code, reason.as_str()), (20, "too many connections without a token"));
        let flow = || vec![flow_in(&format!("x=udp://127.0.0.1:{}", reserve_port()))];
        let first = Tunnel::start(entry_config(&exit, flow())).await.expect("starts");
        attached(&first).await;
        let second = Tunnel::start(entry_config(&exit, flow())).await.expect("starts");
        until(&second, "rejected", |status| {
            status.events.iter().any(|event| event.words.contains("as many tunnels as max_sessions"))
        })
        .await;
        assert!(attached(&first).await.flows[0].attached);
        // A silent session is closed.
        let CloseReason::ByPeer { code, .. } = strangers[0].closed().await else { panic!("it is closed") };
        assert_eq!(code, 21);
        // The permit of a session that ends is free.
        first.stop().await;
        attached(&second).await;
        second.stop().await;
        exit.stop().await;
    });
}

/// Sending a message fails while the session's queue is full.
#[test]
fn a_flow_that_is_added_while_the_queue_is_full_is_carried() {
    within(async || {
        let flows = vec![flow_out("x=udp://127.0.0.1:9"), flow_out("y=udp://127.0.0.1:9")];
        let exit = Tunnel::start(exit_config(0, None, flows)).await.expect("starts");
        let network = Network::before(exit.listening().expect("it listens"));
        let port = reserve_port();
        let first = flow_in(&format!("x=udp://127.0.0.1:{port},latency=60s,max_pending=65536"));
        let config = through(&network, entry_config(&exit, vec![first.clone()]));
        let entry = Tunnel::start(config.clone()).await.expect("starts");
        attached(&entry).await;
        network.set_gone(true);
        let source = socket();
        until(&entry, "full", |status| {
            for _ in 0..20 {
                source.send_to(&[0; 60_000], ("127.0.0.1", port)).expect("is sent");
            }
            status.flows[0].sent.get("data").is_some_and(|sent| sent.outcomes.contains_key("overflow"))
        })
        .await;
        let second = flow_in(&format!("y=udp://127.0.0.1:{}", reserve_port()));
        entry.reload(Config { flows: vec![first, second], ..config }).expect("is taken");
        tokio::time::sleep(Duration::from_millis(100)).await;
        network.set_gone(false);
        let status = attached(&entry).await;
        assert_eq!(status.sessions_opened, 1, "the session is the same");
        entry.stop().await;
        exit.stop().await;
    });
}
