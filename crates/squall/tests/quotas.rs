//! A quota over real sockets, several sessions and a restart, also counted by a relay.

mod common;

use std::{fs, path::Path, time::Duration};

use common::{ip, relay::Relay, server, within};
use squall::{
    Block, Config, Connect, ConnectError, Endpoint, Identity, Period, Quota, Quotas, Session, Trust,
};
use squall_testkit::in_real_time;

const METERED: &str = "127.0.0.2";
const FREE: &str = "127.0.0.3";
const BYTES: u64 = 3_000_000;

/// Bytes that may be used before the interface becomes a backup: a bucket, and packets that leave
/// until the session notices.
const BEFORE_IT_IS_HELD: u64 = 64_000 + 600_000;

struct Stage {
    endpoint: Endpoint,
    identity: Identity,
    relay: Relay,
}

impl Stage {
    async fn new() -> Self {
        let (endpoint, identity) = server(Config::default());
        let relay = Relay::start(endpoint.local_addrs()[0]).await;
        Self { endpoint, identity, relay }
    }

    /// Connects a session that spends from the quotas, and starts a task that reads the blocks at
    /// the server.
    async fn connect<const N: usize>(
        &self,
        quotas: &Quotas,
        over: [&str; N],
    ) -> Result<Session, ConnectError> {
        let request = Connect::to(self.relay.addr)
            .trust(Trust::Pinned(self.identity.fingerprint()))
            .over(over.map(ip))
            .quotas(quotas.clone());
        let session = squall::connect(request).await?;
        let accepted = self.endpoint.accept().await.expect("listens");
        tokio::spawn(async move { while let Ok(Some(_)) = accepted.recv().await {} });
        Ok(session)
    }
}

fn open(file: &Path) -> Quotas {
    let quota = Quota { bytes: BYTES, period: Period::Month(1) };
    Quotas::open(file, [(METERED.to_owned(), quota)])
}

/// Returns the bytes used according to the file.
fn recorded(file: &Path) -> u64 {
    let text = fs::read_to_string(file).expect("is there");
    let used = text.split_whitespace().find_map(|word| word.strip_prefix("used="));
    used.expect("a record").parse().expect("a number")
}

/// Sends 16 Mbps until the session ends or this many bytes were taken, and finishes it.
async fn send(session: &Session, total: usize) {
    for _ in 0..total / 10_000 {
        if session.send(Block::new(vec![1; 10_000])).await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    session.finish(Duration::from_secs(10)).await.expect("everything arrives");
}

#[test]
fn a_quota_lasts_over_sessions_and_a_restart_and_counts_what_passes() {
    in_real_time(|| {
        within(async || {
            let file = std::env::temp_dir().join(format!("squall-quota-{}", std::process::id()));
            // A record of an earlier month: this one has begun, and nothing was used.
            fs::write(&file, format!("{METERED} start=0 used=0 earned=0\n")).expect("can be written");
            let stage = Stage::new().await;
            let passed = || stage.relay.passed(ip(METERED));

            // With another path, the interface is soon ahead of an even use over the month, and is
            // spared.
            let quotas = open(&file);
            let session = stage.connect(&quotas, [METERED, FREE]).await.expect("connects");
            send(&session, 5_000_000).await;
            drop(session);
            let state = &quotas.state()[0];
            println!("with another path: {} counted, {} passed", state.used, passed());
            assert!(state.used <= BEFORE_IT_IS_HELD, "{state:?}");
            assert!(stage.relay.passed(ip(FREE)) > 4_000_000);
            drop(quotas);
            // The session sends its close first, and then writes the record.
            while recorded(&file).abs_diff(passed()) > 3_000 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }

            // Alone it is used to the end, which closes the session.
            let quotas = open(&file);
            let session = stage.connect(&quotas, [METERED]).await.expect("connects");
            send(&session, 2 * BYTES as usize).await;
            let end = session.closed().await;
            println!("{end:?} after {} bytes of {BYTES}", passed());
            // All but the last 16 kB, which are reserved from data.
            assert!((BYTES - 18_000..=BYTES).contains(&passed()), "{} passed", passed());
            drop(session);

            // A session begins without the interface, or not at all.
            let used = passed();
            let session = stage.connect(&quotas, [METERED, FREE]).await.expect("connects");
            send(&session, 100_000).await;
            let refused = stage.connect(&quotas, [METERED]).await.expect_err("nothing is left");
            assert_eq!(
                refused.to_string(),
                format!(
                    "no usable interface towards {}: the quotas of all interfaces are used up",
                    stage.relay.addr
                )
            );
            // The last packets of the previous session were still in flight.
            assert!(passed() - used <= 1_000, "{} more", passed() - used);
            let _ = fs::remove_file(file);
        });
    });
}
