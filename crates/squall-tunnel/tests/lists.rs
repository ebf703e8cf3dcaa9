//! Lists of tenants from the file, a folder and a web server: used completely, kept, or not used at
//! all.

mod common;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, UdpSocket},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use common::{tenants::*, *};
use squall_tunnel::{Config, Status, Tunnel};

/// A web server that serves a list of tenants with an entity tag; 503 without a list.
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

/// Returns a list in JSON with one tenant.
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

        // An invalid or missing list changes nothing.
        server.set(Some(json("c", &c).replace("token_sha256", "token")));
        reported(&exit, "unknown field `token`").await;
        server.set(None);
        reported(&exit, "it answers with status 503").await;
        assert_eq!(exit.status().tenants.len(), 3);
        assert_eq!(exit.status().sessions.len(), 3);

        // Neither does an invalid file in the folder: the reload is refused completely.
        fs::write(folder.path().join("tenants.d/d.toml"), "name = \"d\"\ntoken = \"x\"").expect("is written");
        let again = Config::parse(
            "exit.toml",
            &format!("{top}\ntenants_state = \"s\"\n[listen]\naddress = \"127.0.0.1:0\""),
            folder.path(),
        );
        let error = again.expect_err("has a mistake").to_string();
        assert!(error.contains("d.toml:2:1: unknown key 'token'") && !error.contains('\n'), "{error}");
        fs::remove_file(folder.path().join("tenants.d/d.toml")).expect("is removed");

        // The server is down at the next start: the kept list applies until another one arrives.
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

/// Waits until the exit has exactly these tenants.
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
        // The earlier list, which the folder had.
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
        // A tenant of the file with the token of a tenant of the list.
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
        // The file of the first answer exists before the second request. While it is open, its
        // inode is not reused.
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
