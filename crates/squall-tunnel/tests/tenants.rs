//! Tenants of an exit, with real sessions: their flows, their limits, and changes while others run.

mod common;

use std::time::Duration;

use common::{tenants::*, *};
use squall::{Block, BlockOptions, Connect, Interfaces, Session, Trust};
use squall_observe::{Status, status::TenantStatus};
use squall_tunnel::{Config, Tunnel, config::Side};

/// Bytes that each datagram counts in addition to its own.
const HEADERS: u64 = 28;

fn tenant<'a>(status: &'a Status, name: &str) -> &'a TenantStatus {
    status.tenants.iter().find(|tenant| tenant.name == name).expect("is listed")
}

#[test]
fn tenants_have_flows_of_the_same_name_and_no_others() {
    within(async || {
        let folder = tempfile::tempdir().expect("is made");
        let (a, b) = (socket(), socket());
        let tenants = format!("{}{}", table("a", "", &a), table("b", "", &b));
        let exit = Tunnel::start(exit_of(folder.path(), "", &tenants)).await.expect("starts");
        let (site_a, site_b) = (Site::start(&exit, "a", &a).await, Site::start(&exit, "b", &b).await);
        site_a.send(b"of a");
        site_b.send(b"of b");
        assert_eq!((site_a.recv().await, site_b.recv().await), (b"of a".to_vec(), b"of b".to_vec()));
        let status =
            until(&exit, "counted", |status| tenant(status, "b").received_bytes == 4 + HEADERS).await;
        assert_eq!(
            status.flows.iter().map(|flow| flow.name.as_str()).collect::<Vec<_>>(),
            ["a/cam", "b/cam"]
        );
        assert_eq!(tenant(&status, "a").sessions, 1);
        // The name of another tenant's flow is useless, and so is a token that belongs to no
        // tenant.
        let thief = entry_of(&exit, "a", reserve_port());
        let flows = vec![flow_in(&format!("other=udp://127.0.0.1:{}", reserve_port()))];
        let thief = Tunnel::start(Config { flows, ..thief }).await.expect("starts");
        reported(&thief, "has no out end of that name").await;
        let stranger = Tunnel::start(entry_of(&exit, "c", reserve_port())).await.expect("starts");
        reported(&stranger, "refused: wrong token").await;
        assert_eq!(exit.status().sessions_failed, 1);
        for tunnel in [site_a.entry, site_b.entry, thief, stranger, exit] {
            tunnel.stop().await;
        }
    });
}

#[test]
fn a_removed_tenant_ends_while_another_loses_no_datagram() {
    within(async || {
        let folder = tempfile::tempdir().expect("is made");
        let (a, b) = (socket(), socket());
        let both = format!("{}{}", table("a", "", &a), table("b", "", &b));
        let exit = Tunnel::start(exit_of(folder.path(), "", &both)).await.expect("starts");
        let (site_a, site_b) = (Site::start(&exit, "a", &a).await, Site::start(&exit, "b", &b).await);
        const DATAGRAMS: u32 = 400;
        let target = site_a.target.try_clone().expect("is cloned");
        // In parallel to the sender: the buffer of the socket has no room for all.
        let receiver = tokio::task::spawn_blocking(move || {
            target.set_read_timeout(Some(PATIENCE)).expect("is set");
            let mut number = [0; 4];
            let received = (0..DATAGRAMS).map(|_| {
                assert_eq!(target.recv(&mut number).expect("arrives"), 4);
                u32::from_be_bytes(number)
            });
            received.collect::<Vec<_>>()
        });
        for n in 0..DATAGRAMS {
            if n == DATAGRAMS / 2 {
                exit.reload(exit_of(folder.path(), "", &table("a", "", &a))).expect("is applied");
            }
            site_a.send(&n.to_be_bytes());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(receiver.await.expect("ends"), (0..DATAGRAMS).collect::<Vec<_>>());
        reported(&site_b.entry, "tenant 'b' was removed").await;
        let status = until(&exit, "removed", |status| status.sessions.len() == 1).await;
        assert_eq!(status.flows.len(), 1);
        assert_eq!(status.sessions_opened, 2, "the session of a went on");
        // Listed again: the entry reconnects by itself.
        exit.reload(exit_of(folder.path(), "", &both)).expect("is applied");
        attached(&site_b.entry).await;
        // A change of the token closes the session too.
        let (hash, other) = (token_of("b").hash().to_string(), token_of("c").hash().to_string());
        exit.reload(exit_of(folder.path(), "", &both.replace(&hash, &other))).expect("is applied");
        reported(&site_b.entry, "the token of tenant 'b' was changed").await;
        for tunnel in [site_a.entry, site_b.entry, exit] {
            tunnel.stop().await;
        }
    });
}

#[test]
fn sessions_are_limited_at_once() {
    within(async || {
        let folder = tempfile::tempdir().expect("is made");
        let target = socket();
        let with = |limits: &str| exit_of(folder.path(), "", &table("a", limits, &target));
        let exit = Tunnel::start(with("max_sessions = 2")).await.expect("starts");
        let first = Site::start(&exit, "a", &target).await;
        let second = Tunnel::start(entry_of(&exit, "a", reserve_port())).await.expect("starts");
        until(&exit, "two sessions", |status| tenant(status, "a").sessions == 2).await;
        let third = Tunnel::start(entry_of(&exit, "a", reserve_port())).await.expect("starts");
        reported(&third, "tenant 'a' has as many sessions as its max_sessions allows (2)").await;
        exit.reload(with("max_sessions = 1")).expect("is applied");
        reported(&second, "max_sessions allows (1)").await;
        let status = until(&exit, "one session", |status| tenant(status, "a").sessions == 1).await;
        assert!(tenant(&status, "a").sessions_refused >= 1);
        assert!(first.entry.status().sessions[0].agreed, "the earlier session stays");
        for tunnel in [first.entry, second, third, exit] {
            tunnel.stop().await;
        }
    });
}

#[test]
fn a_rate_is_limited() {
    within(async || {
        let folder = tempfile::tempdir().expect("is made");
        let target = socket();
        let with = |limits: &str| exit_of(folder.path(), "", &table("a", limits, &target));
        let exit = Tunnel::start(with("rate_in = \"400kbps\"")).await.expect("starts");
        let site = Site::start(&exit, "a", &target).await;
        // 400,000 bytes at once, of which those of a second pass: 50,000 bytes, and those of the
        // duration of the test.
        let begin = std::time::Instant::now();
        for _ in 0..400 {
            site.send(&[7; 1000 - HEADERS as usize]);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let all = |status: &Status| {
            let tenant = tenant(status, "a");
            tenant.received_bytes + tenant.dropped_in_bytes == 400_000
        };
        let status = until(&exit, "all arrived", all).await;
        let passed = tenant(&status, "a").received_bytes as f64;
        let most = 50_000.0 * (1.0 + begin.elapsed().as_secs_f64()) + 1000.0;
        assert!(passed >= 50_000.0 && passed <= most, "{passed} of at most {most} bytes");
        // Without the limit everything passes again.
        exit.reload(with("")).expect("is applied");
        while site.recv_within(Duration::from_millis(200)).await.is_some() {}
        site.send(b"after");
        assert_eq!(site.recv().await, b"after");
        site.entry.stop().await;
        exit.stop().await;
    });
}

#[test]
fn the_bytes_of_a_period_are_counted_across_a_restart() {
    within(async || {
        let folder = tempfile::tempdir().expect("is made");
        let target = socket();
        let with = |limits: &str| exit_of(folder.path(), "", &table("a", limits, &target));
        let exit = Tunnel::start(with("bytes = \"10kB\"")).await.expect("starts");
        let site = Site::start(&exit, "a", &target).await;
        for _ in 0..8 {
            site.send(&[7; 1000 - HEADERS as usize]);
            assert_eq!(site.recv().await.len(), 1000 - HEADERS as usize);
        }
        reported(&exit, "tenant 'a' has used 80 % of its 10kB of this month").await;
        site.entry.stop().await;
        exit.stop().await;

        let exit = Tunnel::start(with("bytes = \"10kB\"")).await.expect("starts again");
        assert_eq!(tenant(&exit.status(), "a").period_bytes, 8_000);
        let site = Site::start(&exit, "a", &target).await;
        for _ in 0..3 {
            site.send(&[7; 1000 - HEADERS as usize]);
        }
        reported(&site.entry, "tenant 'a' has used its 10kB of this month").await;
        let status = until(&exit, "closed", |status| tenant(status, "a").sessions == 0).await;
        let of_a = tenant(&status, "a");
        assert_eq!((of_a.period_bytes, of_a.used_up), (10_000, true), "not a byte more");
        assert!(of_a.dropped_in_bytes >= 1_000);
        until(&exit, "refused", |status| tenant(status, "a").sessions_refused > 0).await;
        // A higher limit admits it again.
        exit.reload(with("bytes = \"1MB\"")).expect("is applied");
        attached(&site.entry).await;
        site.entry.stop().await;
        exit.stop().await;
    });
}

/// Offers a flow of a tenant under its full name, with the token of the exit: HELLO, FLOWS, and the
/// verdict of ANSWER.
#[test]
fn the_name_of_a_tenant_gives_nothing_without_its_token() {
    within(async || {
        let folder = tempfile::tempdir().expect("is made");
        let tenants = table("a", "", &socket());
        let exit = exit_of(folder.path(), "token = \"a token for tests\"", &tenants);
        let exit = Tunnel::start(exit).await.expect("starts");
        for (token, name, verdict) in
            [("a token for tests", "a/cam", 1), ("the token of a", "a/cam", 1), ("the token of a", "cam", 0)]
        {
            assert_eq!(verdict_of(&exit, token, name).await, verdict, "{token}, {name}");
        }
        exit.stop().await;
    });
}

async fn verdict_of(exit: &Tunnel, token: &str, name: &str) -> u8 {
    let session = accepted(exit, token).await;
    offer(&session, &[name]).await;
    let answer = message(&session, 3).await.expect("answers");
    session.close(0, "done");
    answer[answer.len() - 1]
}

/// Opens a session with an exit, without being a tunnel.
async fn stranger(exit: &Tunnel) -> Session {
    let request = Connect::to(exit.listening().expect("it listens"))
        .trust(Trust::Pinned(exit.fingerprint().expect("it listens")))
        .interfaces(Interfaces::Local(vec!["127.0.0.1".parse().expect("is an address")]));
    squall::connect(request).await.expect("connects")
}

/// Opens a session that the exit accepts.
async fn accepted(exit: &Tunnel, token: &str) -> Session {
    let session = stranger(exit).await;
    hello(&session, token).await.expect("is accepted");
    session
}

async fn say(session: &Session, message: Vec<u8>) {
    session.send(Block::with(message, BlockOptions::new().ordered(true))).await.expect("is sent");
}

/// Returns the next message of a kind, by its first byte; `None` if the session is over.
async fn message(session: &Session, kind: u8) -> Option<Vec<u8>> {
    loop {
        let block = session.recv().await.ok().flatten()?;
        if block.data.first() == Some(&kind) {
            return Some(block.data.to_vec());
        }
    }
}

/// Sends HELLO, and returns that of the exit if it accepts the token.
async fn hello(session: &Session, token: &str) -> Option<Vec<u8>> {
    say(session, [b"\x01SqTu\x01\x00", &[token.len() as u8][..], token.as_bytes()].concat()).await;
    message(session, 1).await
}

/// Sends FLOWS with these flows, on the channels 2, 4, …
async fn offer(session: &Session, names: &[&str]) {
    let mut flows = [b"\x02\0\0\0\x01", &[names.len() as u8][..]].concat();
    for (name, channel) in names.iter().zip((2_u8..).step_by(2)) {
        flows.extend([&[0, channel, 0, 4, 0x93, 0xe0, name.len() as u8], name.as_bytes()].concat());
    }
    say(session, flows).await;
}

#[test]
fn a_flow_that_moves_between_sessions_of_a_tenant_disturbs_no_other() {
    within(async || {
        let folder = tempfile::tempdir().expect("is made");
        let port = reserve_port();
        let with = |latency: &str| {
            let flow = format!("name = \"cam\", in = \"udp://127.0.0.1:{port}\", latency = \"{latency}\"");
            let hash = token_of("b").hash();
            let b = format!("[[tenant]]\nname = \"b\"\ntoken_sha256 = \"{hash}\"\nflow = [{{ {flow} }}]\n");
            exit_of(folder.path(), "", &format!("{}{b}", table("a", "", &socket())))
        };
        let exit = Tunnel::start(with("1s")).await.expect("starts");
        // The later session of a tenant takes a flow, so each must be present before the next one
        // starts.
        let [victim, first, second] = [
            accepted(&exit, "the token of b").await,
            accepted(&exit, "the token of a").await,
            accepted(&exit, "the token of a").await,
        ];
        let offered = message(&victim, 2).await.expect("offers");
        assert_eq!(offered, b"\x02\0\0\0\x01\x01\0\x01\0\x0f\x42\x40\x03cam");
        for session in [&first, &second] {
            let offered = message(session, 2).await.expect("offers");
            assert_eq!(offered, b"\x02\0\0\0\x01\0", "nothing of the other tenant");
        }
        for _ in 0..20 {
            for (session, flows, answer) in [
                // The first session does not wait for the flow when the second one withdraws it.
                (&first, &[][..], &b"\x03\0\0\0\x01\0"[..]),
                (&second, &[], b"\x03\0\0\0\x01\0"),
                (&first, &["cam"], b"\x03\0\0\0\x01\x01\0\x02\0"),
                (&second, &["cam"], b"\x03\0\0\0\x01\x01\0\x02\0"),
            ] {
                offer(session, flows).await;
                assert_eq!(message(session, 3).await.expect("answers"), answer);
            }
            let taken = message(&first, 3).await.expect("withdraws");
            assert_eq!(taken, b"\x03\0\0\0\0\x01\0\x02\x02", "it is taken");
        }
        // The next message to the other tenant is the one about its own change.
        exit.reload(with("2s")).expect("is applied");
        let offered = message(&victim, 2).await.expect("offers");
        assert_eq!(offered, b"\x02\0\0\0\x02\x01\0\x01\0\x1e\x84\x80\x03cam");
        exit.stop().await;
    });
}

#[test]
fn sessions_are_limited_whichever_hello_comes_first() {
    within(async || {
        let folder = tempfile::tempdir().expect("is made");
        let tenants = table("a", "max_sessions = 1", &socket());
        let exit = Tunnel::start(exit_of(folder.path(), "", &tenants)).await.expect("starts");
        let mut sessions = Vec::new();
        for count in 1..=3 {
            sessions.push(stranger(&exit).await);
            until(&exit, "there", |status| status.sessions.len() == count).await;
        }
        let mut accepted = Vec::new();
        for session in sessions.iter().rev() {
            accepted.push(hello(session, "the token of a").await.is_some());
        }
        assert_eq!(accepted, [true, false, false]);
        exit.stop().await;
    });
}

#[test]
fn what_no_session_takes_does_not_count() {
    within(async || {
        let folder = tempfile::tempdir().expect("is made");
        let (source, port, hash) = (socket(), reserve_port(), token_of("a").hash());
        let flow =
            format!("flow = [{{ name = \"cam\", in = \"udp://127.0.0.1:{port}\", latency = \"30s\" }}]");
        let a =
            format!("[[tenant]]\nname = \"a\"\ntoken_sha256 = \"{hash}\"\nlimits = {{ bytes = \"10kB\" }}\n");
        let exit = Tunnel::start(exit_of(folder.path(), "", &format!("{a}{flow}"))).await.expect("starts");
        for _ in 0..20 {
            source.send_to(&[7; 1000 - HEADERS as usize], ("127.0.0.1", port)).expect("is sent");
        }
        let status = until(&exit, "read", |status| status.flows[0].datagrams_in == 20).await;
        assert_eq!((tenant(&status, "a").period_bytes, tenant(&status, "a").used_up), (0, false));
        // A session is accepted, and gets the waiting datagrams up to the limit.
        let session = stranger(&exit).await;
        hello(&session, "the token of a").await.expect("is accepted");
        message(&session, 2).await.expect("offers");
        say(&session, b"\x03\0\0\0\x01\x01\0\x01\0".to_vec()).await;
        let all = |status: &Status| {
            let tenant = tenant(status, "a");
            tenant.sent_bytes + tenant.dropped_out_bytes == 20_000
        };
        let status = until(&exit, "taken", all).await;
        let of_a = tenant(&status, "a");
        assert_eq!((of_a.sent_bytes, of_a.period_bytes, of_a.used_up), (10_000, 10_000, true));
        exit.stop().await;
    });
}

#[test]
fn a_block_ends_although_its_end_is_beyond_the_rate() {
    within(async || {
        let folder = tempfile::tempdir().expect("is made");
        let (source, port, hash) = (socket(), reserve_port(), token_of("a").hash());
        let end =
            format!("in = \"udp://127.0.0.1:{port}\", media = \"h264\", latency = \"60s\", gap = \"1s\"");
        let limits = "limits = { rate_out = \"10kbps\" }";
        let keys = format!("name = \"a\"\ntoken_sha256 = \"{hash}\"\n{limits}\n");
        let a = format!("[[tenant]]\n{keys}flow = [{{ name = \"cam\", {end} }}]");
        let exit = Tunnel::start(exit_of(folder.path(), "", &a)).await.expect("starts");
        let session = stranger(&exit).await;
        hello(&session, "the token of a").await.expect("is accepted");
        message(&session, 2).await.expect("offers");
        say(&session, b"\x03\0\0\0\x01\x01\0\x01\0".to_vec()).await;
        attached(&exit).await;
        // Two slices of a picture. The first takes 48 s at this rate.
        let packet = |n: u8, length| {
            let head = [0x80, 96 | n << 7, 0, n, 0, 0, 0, 0, 0, 0, 0, 7, 0x01];
            [&head[..], &vec![n; length - head.len()]].concat()
        };
        let (first, last) = (packet(0, 60_000), packet(1, 100));
        source.send_to(&first, ("127.0.0.1", port)).expect("is sent");
        until(&exit, "taken", |status| tenant(status, "a").sent_bytes == 60_000 + HEADERS).await;
        source.send_to(&last, ("127.0.0.1", port)).expect("is sent");
        until(&exit, "dropped", |status| tenant(status, "a").dropped_out_bytes == 100 + HEADERS).await;
        let block = tokio::time::timeout(PATIENCE, session.recv())
            .await
            .expect("it ends")
            .expect("lasts")
            .expect("arrives");
        assert!(block.channel.get() == 1 && block.data.ends_with(&first), "{} bytes", block.data.len());
        exit.stop().await;
    });
}

#[test]
fn a_folder_for_the_count_that_is_new_takes_a_restart() {
    within(async || {
        let folder = tempfile::tempdir().expect("is made");
        let with = |top: &str, tenants: &str| {
            let listen = "[listen]\naddress = \"127.0.0.1:0\"\nstate = \"exit.pem\"";
            let text = format!("token = \"a token for the exit\"\n{top}\n{listen}\n{tenants}");
            Config::parse("exit.toml", &text, folder.path()).expect("is right")
        };
        let exit = Tunnel::start(with("", "")).await.expect("starts");
        let new = with("tenants_state = \"state\"", &table("a", "bytes = \"1GB\"", &socket()));
        let error = exit.reload(new).expect_err("cannot be counted").to_string();
        let expected = "tenant 'a': limits.bytes needs tenants_state, which takes effect with the next start";
        assert_eq!(error, expected);
        exit.stop().await;
    });
}

#[test]
fn an_exit_with_tenants_needs_no_token_of_its_own() {
    let folder = tempfile::tempdir().expect("is made");
    let config = exit_of(folder.path(), "", &table("a", "", &socket()));
    assert!(config.token.is_none() && matches!(config.side, Side::Listen(_)));
}
