//! Tenants from a web server with a bearer token, over TLS.

#![cfg(unix)]

mod common;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Child, ChildStderr, Stdio},
    sync::Arc,
};

use common::{Scratch, squall};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

const LIST: &str = r#"{"tenant": [{"name": "acme", "flow": [{"name": "cam", "out": "udp://127.0.0.1:9"}],
    "token_sha256": "9028ea0d15decaa35b2da21c0290af3b1a5ba0a30a591906f89b5074e209ea72"}]}"#;

const SECRET: &str = "word.of-the~day+1/2=";

/// An exit, and its log.
struct Exit {
    child: Child,
    log: BufReader<ChildStderr>,
}

impl Exit {
    /// Starts an exit with the tenants of `https://localhost:PORT/list`, which trusts only the
    /// certificates of a file.
    fn start(scratch: &Scratch, name: &str, port: u16, trusted: &Path) -> Self {
        let text = format!(
            "tenants_url = \"https://localhost:{port}/list\"\ntenants_token_file = \"secret\"\n\
             tenants_interval = \"1s\"\ntenants_state = \"state-{name}\"\n[listen]\naddress = \"127.0.0.1:0\"\n"
        );
        let file = scratch.write(&format!("{name}.toml"), text.as_bytes());
        let mut command = squall();
        command.arg("tunnel").arg(file).env("SSL_CERT_FILE", trusted).env_remove("SSL_CERT_DIR");
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the program starts");
        let log = BufReader::new(child.stderr.take().expect("is piped"));
        Self { child, log }
    }

    /// Reads the log up to a line with these words, and returns the line.
    fn says(&mut self, words: &str) -> String {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            assert!(self.log.read_line(&mut line).expect("is text") > 0, "it ended before: {words}");
            print!("{line}");
        }
        line
    }
}

impl Drop for Exit {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a web server for `localhost` that returns the list to clients with the bearer token, and
/// 401 to others.
fn web_server(pem: &Path) -> SocketAddr {
    let chain = CertificateDer::pem_file_iter(pem).expect("is there").collect::<Result<_, _>>();
    let key = PrivateKeyDer::from_pem_file(pem).expect("is there");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("is complete").with_no_client_auth();
    let config = Arc::new(config.with_single_cert(chain.expect("is PEM"), key).expect("is a pair"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(config.clone()).expect("is valid");
            let mut stream = BufReader::new(StreamOwned::new(connection, stream.expect("connects")));
            let head: Vec<String> =
                stream.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            let answer = if head.contains(&format!("authorization: Bearer {SECRET}")) {
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{LIST}", LIST.len())
            } else {
                "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".to_owned()
            };
            // A client that does not trust the certificate has disconnected.
            let _ = stream.get_mut().write_all(answer.as_bytes());
        }
    });
    address
}

#[test]
fn a_list_is_given_to_who_presents_the_secret_and_believed_from_who_has_the_certificate() {
    let scratch = Scratch::new("lists");
    let identity = |name: &str| {
        let file = scratch.path(name);
        squall::Identity::self_signed("localhost").expect("is made").save(&file).expect("is written");
        file
    };
    let (trusted, other) = (identity("trusted.pem"), identity("other.pem"));
    let port = web_server(&trusted).port();
    scratch.write("secret", b"yesterday\n");

    let mut exit = Exit::start(&scratch, "a", port, &trusted);
    exit.says("it answers with status 401");
    fs::write(scratch.path("secret"), "").expect("is written");
    exit.says("secret: expected one word of printable ASCII characters");
    fs::write(scratch.path("secret"), format!("{SECRET}\n")).expect("is written");
    exit.says("tenants added: acme");
    exit.says("answers again");

    let mut exit = Exit::start(&scratch, "b", port, &other);
    let line = exit.says("the tenants stay as they are");
    assert!(line.contains("certificate"), "{line}");
}
