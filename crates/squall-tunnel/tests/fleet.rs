//! Several exits: entries move to another exit when theirs drains.

mod common;

use std::{
    net::UdpSocket,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use common::*;
use squall::{Block, BlockOptions, CloseReason, Connect, Trust};
use squall_testkit::program::Scratch;
use squall_tunnel::{
    Config, FlowConfig, Tunnel,
    config::{ConnectConfig, Side, TrustConfig},
};

/// Starts an exit with a certificate in a file and a drain timeout.
async fn exit(state: &Path, flows: &[FlowConfig], redirect: &[String], drain: Duration) -> Tunnel {
    let mut config = exit_config(0, Some(state), flows.to_vec());
    let Side::Listen(listen) = &mut config.side else { panic!("it is an exit") };
    (listen.redirect, listen.drain_timeout) = (redirect.to_vec(), drain);
    Tunnel::start(config).await.expect("starts")
}

/// Returns an entry to these exits, each with its own fingerprint.
fn entry(exits: &[&Tunnel], flows: Vec<FlowConfig>) -> Config {
    let to = exits.iter().map(|exit| exit.listening().expect("it listens").into()).collect();
    let pins = exits.iter().map(|exit| exit.fingerprint().expect("it listens")).collect();
    let connect = ConnectConfig {
        interfaces: vec!["127.0.0.1".to_owned()],
        ..ConnectConfig::new(to, TrustConfig::pinned(pins))
    };
    Config { flows, ..Config::new(Side::Connect(connect), token()) }
}

fn address(exit: &Tunnel) -> String {
    exit.listening().expect("it listens").to_string()
}

/// Waits until an entry uses an exit, and no other.
async fn uses(entry: &Tunnel, exit: &Tunnel) {
    let wanted = Some(address(exit));
    let holds = |status: &squall_tunnel::Status| {
        let one = matches!(&status.sessions[..], [one] if one.agreed && one.exit == wanted);
        one && status.flows.iter().all(|flow| flow.attached)
    };
    until(entry, "at that exit", holds).await;
}

/// Sends numbered datagrams from a thread, one per millisecond, until it is stopped.
struct Source {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU32>,
    thread: Option<JoinHandle<()>>,
}

impl Source {
    fn start(mut target: impl FnMut(&[u8]) -> bool + Send + 'static) -> Self {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (stopped, count) = (stop.clone(), sent.clone());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Relaxed) {
                if target(&count.load(Relaxed).to_be_bytes()) {
                    count.fetch_add(1, Relaxed);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Self { stop, sent, thread: Some(thread) }
    }

    fn to(port: u16) -> Self {
        let source = socket();
        Self::start(move |datagram| source.send_to(datagram, ("127.0.0.1", port)).is_ok())
    }

    /// Stops; returns the number of datagrams sent.
    fn stop(mut self) -> u32 {
        self.stop.store(true, Relaxed);
        self.thread.take().expect("runs").join().expect("does not panic");
        self.sent.load(Relaxed)
    }
}

/// Collects the numbers that arrive at a socket, in a thread, as the kernel's buffer holds few.
struct Sink {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<u32>>,
}

impl Sink {
    fn start(target: &UdpSocket) -> Self {
        let (target, over) = (target.try_clone().expect("is cloned"), Arc::new(AtomicBool::new(false)));
        target.set_read_timeout(Some(Duration::from_secs(2))).expect("is set");
        let is_over = over.clone();
        let thread = std::thread::spawn(move || {
            let (mut buffer, mut numbers) = ([0; 100], Vec::new());
            loop {
                let last = is_over.load(Relaxed);
                match target.recv(&mut buffer) {
                    Ok(length) => {
                        numbers.push(u32::from_be_bytes(buffer[..length].try_into().expect("four bytes")));
                    }
                    Err(_) if last => return numbers,
                    Err(_) => {}
                }
            }
        });
        Self { over, thread }
    }

    /// Returns the numbers, once no more arrive.
    fn finish(self) -> Vec<u32> {
        self.over.store(true, Relaxed);
        self.thread.join().expect("does not panic")
    }
}

#[test]
fn a_draining_exit_hands_its_flows_over_without_loss() {
    within(async || {
        let scratch = Scratch::new("fleet-drain");
        let (target, port) = (socket(), reserve_port());
        let out = [flow_out(&format!("x=udp://{}", target.local_addr().expect("is bound")))];
        let limit = Duration::from_secs(60);
        let mut exits = [
            exit(&scratch.path("a.pem"), &out, &[], limit).await,
            exit(&scratch.path("b.pem"), &out, &[], limit).await,
        ];
        let entry = entry(&[&exits[0], &exits[1]], vec![flow_in(&format!("x=udp://127.0.0.1:{port}"))]);
        let entry = Tunnel::start(entry).await.expect("starts");
        attached(&entry).await;
        if entry.status().sessions[0].exit == Some(address(&exits[1])) {
            exits.reverse();
        }
        let [first, second] = exits;
        uses(&entry, &first).await;

        let (sink, source) = (Sink::start(&target), Source::to(port));
        while source.sent.load(Relaxed) < 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let begin = Instant::now();
        first.drain();
        assert!(first.status().draining);
        first.drained().await;
        assert!(begin.elapsed() < limit / 2, "it waited for {:?}", begin.elapsed());
        uses(&entry, &second).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let sent = source.stop();
        assert_eq!(sink.finish(), (0..sent).collect::<Vec<_>>());
        let (status, of_first) = (entry.status(), first.status());
        assert_eq!((status.redirects, of_first.redirects), (1, 1));
        assert_eq!((status.sessions_opened, status.sessions_failed), (2, 0));
        assert!(words(&entry).contains(&format!(
            "{} drains; {} takes over",
            address(&first),
            address(&second)
        )));
        first.stop().await;
        entry.stop().await;
        second.stop().await;
    });
}

#[test]
fn flows_from_the_exits_move_too() {
    within(async || {
        let scratch = Scratch::new("fleet-back");
        let (answers, sink, from) = (socket(), socket(), reserve_port());
        // Commands and their answers; and a source that sends to both exits.
        let ports = [reserve_port(), reserve_port()];
        let flows = |port: u16| {
            let to = answers.local_addr().expect("is bound");
            [flow_out(&format!("x=udp://{to}")), flow_in(&format!("y=udp://127.0.0.1:{port}"))]
        };
        let limit = Duration::from_secs(60);
        let mut exits = [
            exit(&scratch.path("a.pem"), &flows(ports[0]), &[], limit).await,
            exit(&scratch.path("b.pem"), &flows(ports[1]), &[], limit).await,
        ];
        let here = vec![
            flow_in(&format!("x=udp://127.0.0.1:{from}")),
            flow_out(&format!("y=udp://{}", sink.local_addr().expect("is bound"))),
        ];
        let entry = Tunnel::start(entry(&[&exits[0], &exits[1]], here)).await.expect("starts");
        attached(&entry).await;
        if entry.status().sessions[0].exit == Some(address(&exits[1])) {
            exits.reverse();
        }
        let [first, second] = exits;
        uses(&entry, &first).await;
        attached(&first).await;

        let fed_to = Sink::start(&sink);
        // Every answer is sent to the source of the latest command.
        let player = socket();
        let answered_to = Sink::start(&player);
        let commands = {
            let player = player.try_clone().expect("is cloned");
            Source::start(move |_| player.send_to(b"command", ("127.0.0.1", from)).is_ok())
        };
        answers.set_read_timeout(Some(PATIENCE)).expect("is set");
        let (_, mut latest) = answers.recv_from(&mut [0; 100]).expect("arrives");
        answers.set_nonblocking(true).expect("is set");
        let answering = Source::start(move |datagram| {
            while let Ok((_, from)) = answers.recv_from(&mut [0; 100]) {
                latest = from;
            }
            answers.send_to(datagram, latest).is_ok()
        });
        let source = socket();
        let feeding = Source::start(move |datagram| {
            let sent = ports.map(|port| source.send_to(datagram, ("127.0.0.1", port)).is_ok());
            sent == [true, true]
        });
        tokio::time::sleep(Duration::from_millis(500)).await;
        first.drain();
        first.drained().await;
        uses(&entry, &second).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let (answered, fed) = (answering.stop(), feeding.stop());
        commands.stop();
        let mut got = answered_to.finish();
        // On a busy machine, datagrams in flight for more than 100 ms at the move are overtaken by
        // those of the other exit.
        let mut latest_of_exits = [None; 2];
        for number in &got {
            let latest = latest_of_exits.iter_mut().find(|latest| **latest < Some(number));
            *latest.expect("in order from each exit") = Some(number);
        }
        got.sort_unstable();
        assert_eq!(got, (0..answered).collect::<Vec<_>>(), "each once");
        // Both exits had the datagrams around the move, so some arrive twice.
        let mut got = fed_to.finish();
        got.sort_unstable();
        got.dedup();
        assert_eq!(got, (0..fed).collect::<Vec<_>>());
        entry.stop().await;
        first.stop().await;
        second.stop().await;
    });
}

#[test]
fn an_entry_without_another_exit_reconnects_as_before() {
    within(async || {
        let scratch = Scratch::new("fleet-alone");
        let exit = exit(&scratch.path("a.pem"), &[], &[], PATIENCE).await;
        let entry = Tunnel::start(entry(&[&exit], Vec::new())).await.expect("starts");
        until(&entry, "up", |status| status.sessions_opened == 1).await;
        let begin = Instant::now();
        exit.drain();
        exit.drained().await;
        assert!(begin.elapsed() < PATIENCE / 2, "it waited for {:?}", begin.elapsed());
        until(&entry, "refused", |status| status.sessions_failed > 0).await;
        assert!(words(&entry).contains("refused: the exit drains"), "{}", words(&entry));
        exit.stop().await;
        entry.stop().await;
    });
}

#[test]
fn an_entry_does_not_move_between_draining_exits() {
    within(async || {
        let scratch = Scratch::new("fleet-both");
        let (target, port) = (socket(), reserve_port());
        let out = [flow_out(&format!("x=udp://{}", target.local_addr().expect("is bound")))];
        let limit = Duration::from_secs(6);
        let mut exits = [
            exit(&scratch.path("a.pem"), &out, &[], limit).await,
            exit(&scratch.path("b.pem"), &out, &[], limit).await,
        ];
        let entry = entry(&[&exits[0], &exits[1]], vec![flow_in(&format!("x=udp://127.0.0.1:{port}"))]);
        let entry = Tunnel::start(entry).await.expect("starts");
        attached(&entry).await;
        if entry.status().sessions[0].exit == Some(address(&exits[1])) {
            exits.reverse();
        }
        let [first, second] = exits;
        uses(&entry, &first).await;
        second.drain();
        first.drain();
        let (sink, source) = (Sink::start(&target), Source::to(port));
        let mut drained = Box::pin(first.drained());
        // The session stays as long as that exit permits.
        let early = tokio::time::timeout(Duration::from_secs(2), &mut drained).await;
        assert!(early.is_err(), "it was left: {}", words(&entry));
        let sent = source.stop();
        uses(&entry, &first).await;
        assert_eq!(sink.finish(), (0..sent).collect::<Vec<_>>());
        drained.await;
        assert!(words(&first).contains("draining has taken too long"), "{}", words(&first));
        assert_eq!((second.status().sessions_opened, entry.status().sessions_opened), (0, 1));
        first.stop().await;
        second.stop().await;
        entry.stop().await;
    });
}

#[test]
fn redirects_lead_to_exits_that_the_entry_trusts() {
    within(async || {
        let scratch = Scratch::new("fleet-redirect");
        let limit = Duration::from_secs(3);
        // Exits outside of the entry's list: one with the pinned certificate, and one with another.
        let other = exit(&scratch.path("b.pem"), &[], &[], limit).await;
        let same = exit(&scratch.path("a.pem"), &[], &[], limit).await;
        let names = [address(&other), address(&same)];
        let first = exit(&scratch.path("a.pem"), &[], &names, limit).await;
        let entry_to_first = Tunnel::start(entry(&[&first], Vec::new())).await.expect("starts");
        uses(&entry_to_first, &first).await;
        first.drain();
        uses(&entry_to_first, &same).await;
        assert_eq!(other.status().sessions_opened, 0);
        entry_to_first.stop().await;
        first.stop().await;
        // Without one fingerprint for all exits, only those of the list count.
        let second = exit(&scratch.path("a.pem"), &[], &names, limit).await;
        let mut config = entry(&[&second], Vec::new());
        let Side::Connect(connect) = &mut config.side else { panic!("it is an entry") };
        connect.trust = TrustConfig::Insecure;
        let unpinned = Tunnel::start(config).await.expect("starts");
        uses(&unpinned, &second).await;
        let before = (other.status().sessions_opened, same.status().sessions_opened);
        second.drain();
        second.drained().await;
        until(&unpinned, "refused", |status| status.sessions_failed > 0).await;
        assert!(
            words(&unpinned).contains("names an exit that is not in this configuration"),
            "{}",
            words(&unpinned)
        );
        assert_eq!((other.status().sessions_opened, same.status().sessions_opened), before);
        unpinned.stop().await;
        for exit in [second, other, same] {
            exit.stop().await;
        }
    });
}

#[test]
fn an_exit_that_does_not_answer_is_passed_over() {
    within(async || {
        let scratch = Scratch::new("fleet-dead");
        let exits = [
            exit(&scratch.path("a.pem"), &[], &[], PATIENCE).await,
            exit(&scratch.path("b.pem"), &[], &[], PATIENCE).await,
        ];
        let mut config = entry(&[&exits[0], &exits[1]], Vec::new());
        // Ports without an answer; in any order, one of the four is first.
        let silent = [socket(), socket()];
        let Side::Connect(connect) = &mut config.side else { panic!("it is an entry") };
        let TrustConfig::Pins(pins) = &mut connect.trust else { panic!("each has its own") };
        for socket in &silent {
            connect.to.push(socket.local_addr().expect("is bound").into());
            pins.push(pins[0]);
        }
        for identity in ["a", "b", "c", "d"] {
            let Side::Connect(connect) = &mut config.side else { panic!("it is an entry") };
            connect.identity = Some(identity.to_owned());
            let entry = Tunnel::start(config.clone()).await.expect("starts");
            until(&entry, "up", |status| status.sessions_opened == 1).await;
            entry.stop().await;
        }
        for exit in exits {
            exit.stop().await;
        }
    });
}

/// An entry of a version before GOAWAY sends a HELLO without features.
#[test]
fn an_earlier_entry_is_closed_as_it_was() {
    within(async || {
        let scratch = Scratch::new("fleet-old");
        let exit = exit(&scratch.path("a.pem"), &[], &[], PATIENCE).await;
        let request = Connect::to(address(&exit)).trust(Trust::InsecureAnyone);
        let session = squall::connect(request).await.expect("connects");
        let secret = token();
        let hello = [&[1, b'S', b'q', b'T', b'u', 1, 0, 17], secret.reveal().as_bytes()].concat();
        session.send(Block::with(hello, BlockOptions::new().ordered(true))).await.expect("is sent");
        let first = session.recv().await.expect("lasts").expect("is answered");
        // It ignores bytes after the fields that it supports: here a feature.
        assert_eq!((first.data[0], &first.data[5..]), (1, &[1, 0, 0, 2][..]), "as it was");
        exit.drain();
        while let Ok(Some(block)) = session.recv().await {
            assert!(block.data[0] != 4, "it would not understand that");
        }
        let CloseReason::ByPeer { code, reason } = session.closed().await else { panic!("it is closed") };
        assert_eq!((code, reason.as_str()), (0, "the exit ends"));
        exit.drained().await;
        exit.stop().await;
    });
}
