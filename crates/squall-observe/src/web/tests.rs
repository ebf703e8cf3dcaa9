use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::{clock::Clock, status::EventStatus};

struct Exit;

impl Source for Exit {
    fn status(&self) -> Status {
        Status { role: "exit".to_owned(), ..Status::default() }
    }

    fn why(&self, flow: &str) -> Result<WhyStatus, String> {
        Err(format!("no flow is named '{flow}'"))
    }
}

fn server() -> Arc<Server> {
    Arc::new(Server { source: Arc::new(Exit), feed: Feed::default() })
}

/// A listener that does not read must cost no more than its queue and the kernel's buffer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_does_not_read_is_disconnected() {
    let server = server();
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.expect("is bound"));
    let address = listener.local_addr().expect("is bound");
    let accepting = tokio::spawn({
        let (listener, server) = (listener, server.clone());
        async move { accept(&listener, server, &Arc::new(Journal::new(Clock::start()))).await }
    });
    let mut stream = TcpStream::connect(address).await.expect("connects");
    let _ = socket2::SockRef::from(&stream).set_recv_buffer_size(4096);
    stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("is sent");
    let mut head = [0; 15];
    stream.read_exact(&mut head).await.expect("is answered");
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    let event = EventStatus { words: "x".repeat(1_000), ..EventStatus::default() };
    let status = Status { events: vec![event; 200], ..Status::default() };
    let published = async {
        while server.feed.has_listeners() {
            server.feed.publish(&status);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), published).await.expect("it is dropped");
    // Only the bytes in the kernel's buffer arrive.
    let mut rest = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut rest)).await;
    let _ = read.expect("the connection ends");
    assert!(rest.len() < 8 << 20, "{} bytes", rest.len());
    accepting.abort();
}

/// Independent of the listening address: there are browsers in a local network too.
#[test]
fn names_that_a_web_site_can_have_are_refused() {
    let server = server();
    let answer = |host: &str| {
        let request = Request::builder().uri("/metrics").header("host", host).body(());
        server.answer(&request.expect("is a request"), &Arc::default()).status()
    };
    let own = format!("{}:9464", host_name());
    for host in [
        "192.168.1.7",
        "[fd98::1]:9464",
        "localhost",
        "LOCALHOST:9464",
        "exit",
        "exit.local",
        "a.b.internal",
        &own,
    ] {
        assert_eq!(answer(host), StatusCode::OK, "{host}");
    }
    for host in [
        "evil.example",
        "evil.example:9464",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.",
        "local.com",
    ] {
        assert_eq!(answer(host), StatusCode::FORBIDDEN, "{host}");
    }
}

#[test]
fn pages_of_other_sites_do_not_listen() {
    let server = server();
    let request = |site: &str| {
        let request = Request::builder().uri("/events").header("sec-fetch-site", site).body(());
        server.answer(&request.expect("is a request"), &Arc::default()).status()
    };
    assert_eq!(request("cross-site"), StatusCode::FORBIDDEN);
    assert_eq!(request("same-origin"), StatusCode::OK);
}
