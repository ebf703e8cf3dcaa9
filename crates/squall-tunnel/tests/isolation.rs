//! A tenant attacks another tenant of its exit by all means that its token permits.

mod common;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use common::{tenants::*, *};
use squall::{Block, BlockOptions, Channel, Connect, Interfaces, Session, Trust};
use squall_testkit::{assert_duration, in_real_time};
use squall_tunnel::Tunnel;

/// Number of datagrams of the attacked tenant in one measurement, 5 ms apart.
const DATAGRAMS: u32 = 400;

/// Permitted increase of the delay during an attack, at the 99th percentile.
const LATER: Duration = Duration::from_millis(20);

/// Returns the number of lost datagrams of the attacked tenant, and the 99th percentile of their
/// delay.
async fn measure(site: &Site) -> (u32, Duration) {
    let target = site.target.try_clone().expect("is cloned");
    let begin = Instant::now();
    let receiver = tokio::task::spawn_blocking(move || {
        target.set_read_timeout(Some(Duration::from_secs(1))).expect("is set");
        let (mut buffer, mut delays) = ([0; 64], Vec::new());
        while let Ok(length) = target.recv(&mut buffer) {
            let sent: [u8; 8] = buffer[..length].try_into().expect("is one of ours");
            delays.push(begin.elapsed().saturating_sub(Duration::from_micros(u64::from_be_bytes(sent))));
        }
        delays
    });
    for _ in 0..DATAGRAMS {
        site.send(&(begin.elapsed().as_micros() as u64).to_be_bytes());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut delays = receiver.await.expect("ends");
    delays.sort_unstable();
    (DATAGRAMS - delays.len() as u32, delays[delays.len() * 99 / 100])
}

/// Opens a session of the attacking tenant, with its flow on channel 2.
async fn session(exit: &Tunnel) -> Option<Session> {
    let request = Connect::to(exit.listening().expect("it listens"))
        .trust(Trust::Pinned(exit.fingerprint().expect("it listens")))
        .interfaces(Interfaces::Local(vec!["127.0.0.1".parse().expect("is an address")]));
    let session = squall::connect(request).await.ok()?;
    let token = b"the token of evil";
    say(&session, [b"\x01SqTu\x01\x00", &[token.len() as u8][..], token].concat()).await;
    while *session.recv().await.ok().flatten()?.data.first()? != 1 {}
    Some(session)
}

async fn say(session: &Session, message: Vec<u8>) {
    // Errors mean that the session is over, which does not matter here.
    let _ = session.send(Block::with(message, BlockOptions::new().ordered(true))).await;
}

/// Returns FLOWS with these names.
fn flows(names: &[String]) -> Vec<u8> {
    let mut flows = [b"\x02\0\0\0\x01", &[names.len() as u8][..]].concat();
    for (name, channel) in names.iter().zip((2_u16..).step_by(2)) {
        flows.extend(
            [&channel.to_be_bytes()[..], &[0, 4, 0x93, 0xe0, name.len() as u8], name.as_bytes()].concat(),
        );
    }
    flows
}

/// Returns the block of the flow with this number, with datagrams of this size.
fn block(number: u64, datagrams: usize, bytes: usize) -> Block {
    let mut frame = vec![4];
    frame.extend(&number.to_be_bytes()[2..]);
    frame.extend([0; 14]);
    let record = [&(bytes as u16).to_be_bytes()[..], &[0, 0], &vec![7; bytes]].concat();
    frame.extend(record.repeat(datagrams));
    Block::with(frame, BlockOptions::new().channel(Channel::new(2)))
}

/// Sends such blocks, `per_second`, until it is stopped.
async fn blocks(exit: &Tunnel, stop: &AtomicBool, per_second: u32, datagrams: usize, bytes: usize) {
    let session = session(exit).await.expect("is accepted");
    say(&session, flows(&["cam".to_owned()])).await;
    for number in 0.. {
        if stop.load(Relaxed) {
            return;
        }
        // The queue is full, or the session is over.
        let _ = session.try_send(block(number, datagrams, bytes));
        tokio::time::sleep(Duration::from_secs(1) / per_second).await;
    }
}

/// Opens successive sessions, each of which offers flows that do not exist.
async fn lines(exit: &Tunnel, stop: &AtomicBool) {
    let names: Vec<String> = (0..64).map(|n| format!("unknown-{n}")).collect();
    while !stop.load(Relaxed) {
        let Some(session) = session(exit).await else { continue };
        say(&session, flows(&names)).await;
        say(&session, flows(&names)).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        session.close(0, "enough");
    }
}

/// Opens more sessions than permitted.
async fn sessions(exit: &Tunnel, stop: &AtomicBool) {
    let mut all = Vec::new();
    while !stop.load(Relaxed) {
        all.extend(session(exit).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn a_tenant_does_not_disturb_another_by_anything_that_its_token_gives() {
    in_real_time(|| {
        within(async || {
            let folder = tempfile::tempdir().expect("is made");
            let (evil, good, late) = (socket(), socket(), socket());
            let limits = "rate_in = \"2Mbps\", bytes = \"1GB\"";
            let tenants = format!(
                "{}{}{}",
                table("evil", limits, &evil),
                table("good", "", &good),
                table("late", "", &late)
            );
            // In addition to the tenants, an entry with the token of the exit.
            let top = format!("token = \"{}\"", token().reveal());
            let own = "[[flow]]\nname = \"own\"\nout = \"udp://127.0.0.1:9\"\n";
            let config = exit_of(folder.path(), &top, &format!("{tenants}{own}"));
            let exit = Arc::new(Tunnel::start(config).await.expect("starts"));
            let site = Site::start(&exit, "good", &good).await;
            let (lost, calm) = measure(&site).await;
            assert_eq!(lost, 0, "without an attack");
            for means in ["empty datagrams", "a large block of them", "full ones", "lines", "sessions"] {
                let stop = Arc::new(AtomicBool::new(false));
                let (at, stopped) = (exit.clone(), stop.clone());
                let attack = tokio::spawn(async move {
                    match means {
                        "empty datagrams" => blocks(&at, &stopped, 1_000, 274, 0).await,
                        "a large block of them" => blocks(&at, &stopped, 4, 250_000, 0).await,
                        "full ones" => blocks(&at, &stopped, 2_000, 1, 1_100).await,
                        "lines" => lines(&at, &stopped).await,
                        _ => sessions(&at, &stopped).await,
                    }
                });
                tokio::time::sleep(Duration::from_millis(500)).await;
                let (lost, delay) = measure(&site).await;
                println!("{means}: {lost} of {DATAGRAMS} lost, {delay:?} instead of {calm:?}");
                if means == "empty datagrams" {
                    let status = exit.status();
                    let evil = status.tenants.iter().find(|tenant| tenant.name == "evil").expect("is listed");
                    assert!(evil.dropped_in_bytes > evil.received_bytes, "the limit counts them");
                }
                if means == "sessions" {
                    let late = Site::start(&exit, "late", &late).await;
                    late.send(b"there is room");
                    assert_eq!(late.recv().await, b"there is room");
                    let flows = vec![flow_in(&format!("own=udp://127.0.0.1:{}", reserve_port()))];
                    let own = Tunnel::start(entry_config(&exit, flows)).await.expect("starts");
                    attached(&own).await;
                    own.stop().await;
                    late.entry.stop().await;
                }
                stop.store(true, Relaxed);
                attack.await.expect("ends");
                assert_duration!(lost <= DATAGRAMS / 200, "{means}: {lost} lost");
                assert_duration!(delay <= calm + LATER, "{means}: {delay:?} instead of {calm:?}");
            }
            let status = exit.status();
            let words = |part: &str| status.events.iter().any(|event| event.words.contains(part));
            assert!(words("flow 'good/cam'") || words("is up"), "the events of others are there");
            site.entry.stop().await;
            Arc::into_inner(exit).expect("no attack runs").stop().await;
        });
    });
}
