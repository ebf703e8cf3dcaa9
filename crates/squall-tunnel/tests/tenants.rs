//! Tenants of an exit, with real sessions: their flows, their limits, and changes while others run.

mod common;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, UdpSocket},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use common::*;
use squall::{Block, Connect, Interfaces, Session, Trust};
use squall_tunnel::{
    Config, Status, Tunnel,
    config::{Side, Token},
    status::TenantStatus,
};

/// The token of a tenant.
fn token_of(name: &str) -> Token {
    Token::new(&format!("the token of {name}")).expect("is long enough")
}

/// `[[tenant]]` in TOML, without its header.
fn keys(name: &str, limits: &str, target: &UdpSocket) -> String {
    let (hash, to) = (token_of(name).hash(), target.local_addr().expect("is bound"));
    let flow = format!("flow = [{{ name = \"cam\", out = \"udp://{to}\", latency = \"30s\" }}]");
    format!("name = \"{name}\"\ntoken_sha256 = \"{hash}\"\nlimits = {{ {limits} }}\n{flow}\n")
}

fn table(name: &str, limits: &str, target: &UdpSocket) -> String {
    format!("[[tenant]]\n{}", keys(name, limits, target))
}

/// An exit of a file with these tenants. Its folder is for the state.
fn exit_of(folder: &Path, top: &str, tenants: &str) -> Config {
    let text = format!(
        "tenants_state = \"state\"\n{top}\n[listen]\naddress = \"127.0.0.1:0\"\nstate = \"exit.pem\"\n{tenants}"
    );
    Config::parse("exit.toml", &text, folder).unwrap_or_else(|error| panic!("{error}:\n{text}"))
}

/// An entry of a tenant, with the flow `cam` from a port.
fn entry_of(exit: &Tunnel, tenant: &str, port: u16) -> Config {
    let flow = flow_in(&format!("cam=udp://127.0.0.1:{port}"));
    Config { token: Some(token_of(tenant)), ..entry_config(exit, vec![flow]) }
}

fn tenant<'a>(status: &'a Status, name: &str) -> &'a TenantStatus {
    status.tenants.iter().find(|tenant| tenant.name == name).expect("is listed")
}

/// A tenant with a running entry, and the sockets outside.
struct Site {
    entry: Tunnel,
    source: UdpSocket,
    target: UdpSocket,
    port: u16,
}

impl Site {
    async fn start(exit: &Tunnel, name: &str, target: &UdpSocket) -> Self {
        let port = free_port();
        let entry = Tunnel::start(entry_of(exit, name, port)).await.expect("starts");
        attached(&entry).await;
        Self { entry, source: socket(), target: target.try_clone().expect("is cloned"), port }
    }

    fn send(&self, datagram: &[u8]) {
        self.source.send_to(datagram, ("127.0.0.1", self.port)).expect("is sent");
    }

    /// The next datagram; fails the test if there is none.
    async fn recv(&self) -> Vec<u8> {
        self.recv_within(PATIENCE).await.expect("arrives")
    }

    async fn recv_within(&self, limit: Duration) -> Option<Vec<u8>> {
        let socket = self.target.try_clone().expect("is cloned");
        let received = tokio::task::spawn_blocking(move || {
            let mut buffer = [0; 2048];
            socket.set_read_timeout(Some(limit)).expect("is set");
            socket.recv(&mut buffer).ok().map(|length| buffer[..length].to_vec())
        });
        received.await.expect("ends")
    }
}

/// Waits for words in the events of a tunnel.
async fn reported(tunnel: &Tunnel, part: &str) {
    until(tunnel, part, |status| status.events.iter().any(|event| event.words.contains(part))).await;
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
        let status = until(&exit, "counted", |status| tenant(status, "b").received_bytes == 4).await;
        assert_eq!(
            status.flows.iter().map(|flow| flow.name.as_str()).collect::<Vec<_>>(),
            ["a/cam", "b/cam"]
        );
        assert_eq!(tenant(&status, "a").sessions, 1);
        // The name of the other's flow gives nothing, and neither does a token that is no tenant's.
        let thief = entry_of(&exit, "a", free_port());
        let flows = vec![flow_in(&format!("other=udp://127.0.0.1:{}", free_port()))];
        let thief = Tunnel::start(Config { flows, ..thief }).await.expect("starts");
        reported(&thief, "has no out end of that name").await;
        let stranger = Tunnel::start(entry_of(&exit, "c", free_port())).await.expect("starts");
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
        // Beside the sender: the buffer of the socket has no room for all.
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
        // Back again: the entry reconnects by itself.
        exit.reload(exit_of(folder.path(), "", &both)).expect("is applied");
        attached(&site_b.entry).await;
        // With another token it has to go as well.
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
        let second = Tunnel::start(entry_of(&exit, "a", free_port())).await.expect("starts");
        until(&exit, "two sessions", |status| tenant(status, "a").sessions == 2).await;
        let third = Tunnel::start(entry_of(&exit, "a", free_port())).await.expect("starts");
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
        // 400,000 bytes at once, of which a second's worth passes: 50,000 bytes, and what the time of the test is worth.
        let begin = std::time::Instant::now();
        for _ in 0..400 {
            site.send(&[7; 1000]);
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
            site.send(&[7; 1000]);
            assert_eq!(site.recv().await.len(), 1000);
        }
        reported(&exit, "tenant 'a' has used 80 % of its 10kB of this month").await;
        site.entry.stop().await;
        exit.stop().await;

        let exit = Tunnel::start(with("bytes = \"10kB\"")).await.expect("starts again");
        assert_eq!(tenant(&exit.status(), "a").period_bytes, 8_000);
        let site = Site::start(&exit, "a", &target).await;
        for _ in 0..3 {
            site.send(&[7; 1000]);
        }
        reported(&site.entry, "tenant 'a' has used its 10kB of this month").await;
        let status = until(&exit, "closed", |status| tenant(status, "a").sessions == 0).await;
        let of_a = tenant(&status, "a");
        assert_eq!((of_a.period_bytes, of_a.used_up), (10_000, true), "not a byte more");
        assert!(of_a.dropped_in_bytes >= 1_000);
        until(&exit, "refused", |status| tenant(status, "a").sessions_refused > 0).await;
        // A higher limit lets it in again.
        exit.reload(with("bytes = \"1MB\"")).expect("is applied");
        attached(&site.entry).await;
        site.entry.stop().await;
        exit.stop().await;
    });
}

/// A web server with a list of tenants that it gives away with an entity tag; 503 while it has none.
struct ListServer {
    address: SocketAddr,
    list: Arc<Mutex<Option<String>>>,
    full: Arc<AtomicU64>,
    unmodified: Arc<AtomicU64>,
}

impl ListServer {
    fn start(list: Option<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("is bound");
        let address = listener.local_addr().expect("is bound");
        let server = Self {
            address,
            list: Arc::new(Mutex::new(list)),
            full: Arc::default(),
            unmodified: Arc::default(),
        };
        let (list, full, unmodified) = (server.list.clone(), server.full.clone(), server.unmodified.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("connects");
                let mut lines = BufReader::new(stream.try_clone().expect("is cloned")).lines();
                let head: Vec<String> =
                    lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
                let head = head.join("\n").to_lowercase();
                let list = list.lock().expect("is free").clone();
                let tag = list.as_ref().map(|list| format!("\"{}\"", list.len()));
                let answer = match (list, tag) {
                    (None, _) | (_, None) => {
                        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_owned()
                    }
                    (Some(_), Some(tag)) if head.contains(&format!("if-none-match: {tag}")) => {
                        unmodified.fetch_add(1, Relaxed);
                        "HTTP/1.1 304 Not Modified\r\n\r\n".to_owned()
                    }
                    (Some(list), Some(tag)) => {
                        full.fetch_add(1, Relaxed);
                        format!(
                            "HTTP/1.1 200 OK\r\nETag: {tag}\r\nContent-Length: {}\r\n\r\n{list}",
                            list.len()
                        )
                    }
                };
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        server
    }

    fn set(&self, list: Option<String>) {
        *self.list.lock().expect("is free") = list;
    }
}

/// The list in JSON with one tenant.
fn json(name: &str, target: &UdpSocket) -> String {
    let (hash, to) = (token_of(name).hash(), target.local_addr().expect("is bound"));
    format!(
        r#"{{"tenant":[{{"name":"{name}","token_sha256":"{hash}","flow":[{{"name":"cam","out":"udp://{to}","latency":"30s"}}]}}]}}"#
    )
}

#[test]
fn tenants_come_from_the_file_a_folder_and_a_url() {
    within(async || {
        let folder = tempfile::tempdir().expect("is made");
        let (a, b, c) = (socket(), socket(), socket());
        fs::create_dir(folder.path().join("tenants.d")).expect("is made");
        fs::write(folder.path().join("tenants.d/b.toml"), keys("b", "", &b)).expect("is written");
        fs::write(folder.path().join("tenants.d/README"), "no tenant").expect("is written");
        let server = ListServer::start(Some(json("c", &c)));
        let top = format!(
            "tenants = \"tenants.d\"\ntenants_url = \"http://{}/list?word=of@the-list\"\ntenants_interval = \"1s\"",
            server.address
        );
        let config = || exit_of(folder.path(), &top, &table("a", "", &a));
        let exit = Tunnel::start(config()).await.expect("starts");
        until(&exit, "three tenants", |status| status.tenants.len() == 3).await;
        let mut sites = Vec::new();
        for (name, target) in [("a", &a), ("b", &b), ("c", &c)] {
            let site = Site::start(&exit, name, target).await;
            site.send(name.as_bytes());
            assert_eq!(site.recv().await, name.as_bytes());
            sites.push(site);
        }
        while server.unmodified.load(Relaxed) < 2 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(server.full.load(Relaxed), 1, "the list was sent once");

        // A list with a mistake, or none, changes nothing.
        server.set(Some(json("c", &c).replace("token_sha256", "token")));
        reported(&exit, "unknown field `token`").await;
        server.set(None);
        reported(&exit, "it answers with status 503").await;
        assert_eq!(exit.status().tenants.len(), 3);
        assert_eq!(exit.status().sessions.len(), 3);

        // So does a bad file in the folder: the reload is refused as a whole.
        fs::write(folder.path().join("tenants.d/d.toml"), "name = \"d\"\ntoken = \"x\"").expect("is written");
        let again = Config::parse(
            "exit.toml",
            &format!("{top}\ntenants_state = \"s\"\n[listen]\naddress = \"127.0.0.1:0\""),
            folder.path(),
        );
        let error = again.expect_err("has a mistake").to_string();
        assert!(error.contains("d.toml:2:1: unknown key 'token'") && !error.contains('\n'), "{error}");
        fs::remove_file(folder.path().join("tenants.d/d.toml")).expect("is removed");

        // The server is down at the next start: the kept list holds, until another one is there.
        for site in sites {
            site.entry.stop().await;
        }
        exit.stop().await;
        let exit = Tunnel::start(config()).await.expect("starts again");
        reported(&exit, "as of the last start").await;
        let site = Site::start(&exit, "c", &c).await;
        server.set(Some("{\"tenant\":[]}".to_owned()));
        reported(&site.entry, "tenant 'c' was removed").await;
        assert_eq!(exit.status().tenants.len(), 2);
        server.set(None);
        reported(&exit, "it answers with status 503").await;
        let words: Vec<_> = exit.status().events.into_iter().map(|event| event.words).collect();
        assert!(!words.iter().any(|words| words.contains("of@the-list")), "{words:?}");
        site.entry.stop().await;
        exit.stop().await;
    });
}

/// Waits until these tenants are there, and no others.
async fn only(exit: &Tunnel, names: &[&str]) {
    let has = |status: &Status| status.tenants.iter().map(|tenant| tenant.name.as_str()).eq(names.to_owned());
    until(exit, &names.join(", "), has).await;
}

#[test]
fn a_list_that_cannot_be_kept_is_in_use_and_can_be_withdrawn() {
    within(async || {
        let folder = tempfile::tempdir().expect("is made");
        let server = ListServer::start(Some(json("c", &socket())));
        let top = format!("tenants_url = \"http://{}/list\"\ntenants_interval = \"1s\"", server.address);
        let exit = Tunnel::start(exit_of(folder.path(), &top, "")).await.expect("starts");
        only(&exit, &["c"]).await;
        let state = folder.path().join("state");
        while !state.join("list.json").exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        fs::remove_dir_all(&state).expect("is removed");
        server.set(Some(json("dd", &socket())));
        only(&exit, &["dd"]).await;
        reported(&exit, "the list of tenants is in use, but it is not kept: ").await;
        // The list of before, which the folder had.
        server.set(Some(json("c", &socket())));
        only(&exit, &["c"]).await;
        fs::create_dir(&state).expect("is made");
        reported(&exit, "the list of tenants is kept again").await;
        let text = words(&exit);
        assert!(!text.contains("stay as they are") && text.matches("is in use, but").count() == 1, "{text}");
        let kept = fs::read_to_string(state.join("list.json")).expect("is kept");
        assert!(kept.contains(&token_of("c").hash().to_string()), "{kept}");
        exit.stop().await;
    });
}

#[test]
fn a_kept_list_that_does_not_fit_at_the_start_is_used_once_it_does() {
    within(async || {
        let folder = tempfile::tempdir().expect("is made");
        let server = ListServer::start(Some(json("c", &socket())));
        let top = format!("tenants_url = \"http://{}/list\"\ntenants_interval = \"1s\"", server.address);
        let exit = Tunnel::start(exit_of(folder.path(), &top, "")).await.expect("starts");
        while !folder.path().join("state/list.json").exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        exit.stop().await;
        // A tenant of the file with the token of one of the list.
        let right = table("x", "", &socket());
        let wrong = right.replace(&token_of("x").hash().to_string(), &token_of("c").hash().to_string());
        let exit = Tunnel::start(exit_of(folder.path(), &top, &wrong)).await.expect("starts again");
        reported(&exit, "the kept list of tenants is not used").await;
        exit.reload(exit_of(folder.path(), &top, &right)).expect("is applied");
        only(&exit, &["c", "x"]).await;
        exit.stop().await;
    });
}

#[cfg(unix)]
#[test]
fn a_list_without_an_entity_tag_is_written_once() {
    use std::os::unix::fs::MetadataExt as _;

    within(async || {
        let folder = tempfile::tempdir().expect("is made");
        let listener = TcpListener::bind("127.0.0.1:0").expect("is bound");
        let (address, list) = (listener.local_addr().expect("is bound"), json("a", &socket()));
        let answers = Arc::new(AtomicU64::new(0));
        let answered = answers.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("connects");
                let _ = stream.read(&mut [0; 4096]);
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", list.len());
                let _ = stream.write_all(format!("{head}{list}").as_bytes());
                answered.fetch_add(1, Relaxed);
            }
        });
        let top = format!("tenants_url = \"http://{address}/list\"\ntenants_interval = \"1s\"");
        let exit = Tunnel::start(exit_of(folder.path(), &top, "")).await.expect("starts");
        only(&exit, &["a"]).await;
        let after = async |count| {
            while answers.load(Relaxed) < count {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            fs::File::open(folder.path().join("state/list.json")).expect("is kept")
        };
        let number = |file: &fs::File| file.metadata().expect("is open").ino();
        // The file of the first answer is there before the second request. While it is open, no other has its number.
        let first = after(2).await;
        assert_eq!(number(&after(4).await), number(&first), "it was replaced");
        exit.stop().await;
    });
}

#[test]
fn a_list_from_elsewhere_or_without_an_end_is_not_used() {
    within(async || {
        let folder = tempfile::tempdir().expect("is made");
        let good = ListServer::start(Some(json("a", &socket())));
        let listener = TcpListener::bind("127.0.0.1:0").expect("is bound");
        let (address, elsewhere) = (listener.local_addr().expect("is bound"), good.address);
        std::thread::spawn(move || {
            for (count, stream) in listener.incoming().enumerate() {
                let mut stream = stream.expect("connects");
                let _ = stream.read(&mut [0; 4096]);
                let head = match count {
                    0 => format!("HTTP/1.1 302 Found\r\nLocation: http://{elsewhere}/list\r\n\r\n"),
                    _ => "HTTP/1.1 200 OK\r\n\r\n".to_owned(),
                };
                let body = "#".repeat(if count == 0 { 0 } else { 3 << 20 });
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
            }
        });
        let top = format!("tenants_url = \"http://{address}/list\"\ntenants_interval = \"1s\"");
        let exit = Tunnel::start(exit_of(folder.path(), &top, "")).await.expect("starts");
        reported(&exit, "it answers with status 302").await;
        reported(&exit, "length limit exceeded").await;
        assert_eq!((good.full.load(Relaxed), exit.status().tenants.len()), (0, 0));
        exit.stop().await;
    });
}

/// A flow of a tenant under its full name, offered with the token of the exit: HELLO, FLOWS, and the verdict of ANSWER.
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
    let session = stranger(exit).await;
    hello(&session, token).await.expect("is accepted");
    offer(&session, &[name]).await;
    let answer = message(&session, 3).await.expect("answers");
    session.close(0, "done");
    answer[answer.len() - 1]
}

/// A session with an exit, without being a tunnel.
async fn stranger(exit: &Tunnel) -> Session {
    let request = Connect::to(exit.listening().expect("it listens"))
        .trust(Trust::Pinned(exit.fingerprint().expect("it listens")))
        .interfaces(Interfaces::Local(vec!["127.0.0.1".parse().expect("is an address")]));
    squall::connect(request, squall::Config::default()).await.expect("connects")
}

async fn say(session: &Session, message: Vec<u8>) {
    session.send(Block::new(message).ordered()).await.expect("is sent");
}

/// The next message of a kind, by its first byte. `None` if the session is over.
async fn message(session: &Session, kind: u8) -> Option<Vec<u8>> {
    loop {
        let block = session.recv().await?;
        if block.data.first() == Some(&kind) {
            return Some(block.data.to_vec());
        }
    }
}

/// HELLO, and that of the exit if it accepts the token.
async fn hello(session: &Session, token: &str) -> Option<Vec<u8>> {
    say(session, [b"\x01SqTu\x01\x00", &[token.len() as u8][..], token.as_bytes()].concat()).await;
    message(session, 1).await
}

/// FLOWS with these flows, on the channels 2, 4, …
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
        let port = free_port();
        let with = |latency: &str| {
            let flow = format!("name = \"cam\", in = \"udp://127.0.0.1:{port}\", latency = \"{latency}\"");
            let hash = token_of("b").hash();
            let b = format!("[[tenant]]\nname = \"b\"\ntoken_sha256 = \"{hash}\"\nflow = [{{ {flow} }}]\n");
            exit_of(folder.path(), "", &format!("{}{b}", table("a", "", &socket())))
        };
        let exit = Tunnel::start(with("1s")).await.expect("starts");
        let (victim, first, second) = (stranger(&exit).await, stranger(&exit).await, stranger(&exit).await);
        for (session, token) in [(&victim, "b"), (&first, "a"), (&second, "a")] {
            hello(session, &format!("the token of {token}")).await.expect("is accepted");
        }
        let offered = message(&victim, 2).await.expect("offers");
        assert_eq!(offered, b"\x02\0\0\0\x01\x01\0\x01\0\x0f\x42\x40\x03cam");
        for _ in 0..20 {
            for (session, flows, answer) in [
                (&second, &[][..], &b"\x03\0\0\0\x01\0"[..]),
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
        let (source, port, hash) = (socket(), free_port(), token_of("a").hash());
        let flow =
            format!("flow = [{{ name = \"cam\", in = \"udp://127.0.0.1:{port}\", latency = \"30s\" }}]");
        let a =
            format!("[[tenant]]\nname = \"a\"\ntoken_sha256 = \"{hash}\"\nlimits = {{ bytes = \"10kB\" }}\n");
        let exit = Tunnel::start(exit_of(folder.path(), "", &format!("{a}{flow}"))).await.expect("starts");
        for _ in 0..20 {
            source.send_to(&[7; 1000], ("127.0.0.1", port)).expect("is sent");
        }
        let status = until(&exit, "read", |status| status.flows[0].datagrams_in == 20).await;
        assert_eq!((tenant(&status, "a").period_bytes, tenant(&status, "a").used_up), (0, false));
        // A session is accepted, and takes what has waited up to the limit.
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
        let (source, port, hash) = (socket(), free_port(), token_of("a").hash());
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
        // Two slices of a picture. The first one takes 48 s at this rate.
        let packet = |n: u8, length| {
            let head = [0x80, 96 | n << 7, 0, n, 0, 0, 0, 0, 0, 0, 0, 7, 0x01];
            [&head[..], &vec![n; length - head.len()]].concat()
        };
        let (first, last) = (packet(0, 60_000), packet(1, 100));
        source.send_to(&first, ("127.0.0.1", port)).expect("is sent");
        until(&exit, "taken", |status| tenant(status, "a").sent_bytes == 60_000).await;
        source.send_to(&last, ("127.0.0.1", port)).expect("is sent");
        until(&exit, "dropped", |status| tenant(status, "a").dropped_out_bytes == 100).await;
        let block = tokio::time::timeout(PATIENCE, session.recv()).await.expect("it ends").expect("arrives");
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
