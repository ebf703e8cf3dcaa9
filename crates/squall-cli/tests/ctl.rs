//! `squall ctl` and `squall token`, as an operator would run them.

#![cfg(unix)]

mod common;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::{
        fs::PermissionsExt as _,
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    process::{Child, Output, Stdio},
    time::{Duration, Instant},
};

use common::{Scratch, failure, run, signal, squall};
use serde_json::Value;

/// Limit of anything that hangs. Far more than any step takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running exit with a control socket, and one tenant in its file.
struct Exit {
    child: Child,
    folder: PathBuf,
}

impl Exit {
    /// Starts it, and waits until it answers.
    fn start(folder: &Path) -> Self {
        let text = format!(
            "control = \"c.sock\"\ntenants_state = \"state\"\n[listen]\naddress = \"127.0.0.1:0\"\n\
             [[tenant]]\nname = \"acme\"\ntoken_sha256 = \"{}\"\nflow = [{{ name = \"cam\", out = \"udp://127.0.0.1:9\" }}]\n",
            hash_of("the token of acme")
        );
        fs::write(folder.join("exit.toml"), text).expect("is written");
        let mut command = squall();
        command.arg("tunnel").arg(folder.join("exit.toml")).stderr(Stdio::piped());
        let mut child = command.spawn().expect("starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("is piped"));
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            assert!(stderr.read_line(&mut line).expect("is text") > 0, "it ended");
        }
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Self { child, folder: folder.to_owned() }
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("c.sock")
    }

    fn ctl(&self, args: &[&str]) -> Output {
        squall().arg("ctl").arg("--socket").arg(self.socket()).args(args).output().expect("starts")
    }

    /// Returns the standard output of a command that must succeed.
    fn succeeds(&self, args: &[&str]) -> String {
        let output = self.ctl(args);
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?}: {err}");
        String::from_utf8(output.stdout).expect("is text")
    }

    /// Sends a line of the protocol, and returns its answer.
    fn ask(&self, line: &str) -> Option<Value> {
        let mut stream = UnixStream::connect(self.socket()).expect("connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("is set");
        stream.write_all(line.as_bytes()).expect("is sent");
        stream.shutdown(std::net::Shutdown::Write).expect("is shut");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("is text");
        (!answer.is_empty()).then(|| serde_json::from_str(&answer).expect("is one line of JSON"))
    }
}

impl Drop for Exit {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the single line of a command that must fail with this code.
fn fails(output: &Output, code: i32) -> String {
    let (said, is) = failure(output);
    assert_eq!(is, Some(code), "{said}");
    // A tunnel that does not start may have logged before.
    said.lines().last().expect("says why").to_owned()
}

fn hash_of(token: &str) -> String {
    let output = run(["token", "hash", "--token", token]);
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("is text").trim_end().to_owned()
}

fn tenant_file(folder: &Path, name: &str) -> String {
    let file = folder.join(format!("{name}.toml"));
    let port = squall_testkit::reserve_port();
    let text = format!(
        "name = \"{name}\"\ntoken_sha256 = \"{}\"\nflow = [{{ name = \"cam\", in = \"udp://127.0.0.1:{port}\" }}]\n",
        hash_of(&format!("the token of {name}"))
    );
    fs::write(&file, text).expect("is written");
    file.to_str().expect("is text").to_owned()
}

#[test]
fn tokens_are_made_and_hashed() {
    let output = run(["token", "new"]);
    let token = String::from_utf8(output.stdout).expect("is text");
    assert_eq!((token.trim_end().len(), output.status.code()), (32, Some(0)));
    // `printf 'correct horse battery' | sha256sum`
    let hash = "9028ea0d15decaa35b2da21c0290af3b1a5ba0a30a591906f89b5074e209ea72";
    assert_eq!(hash_of("correct horse battery"), hash);
    let output = squall().args(["token", "hash"]).env("SQUALL_TOKEN", "correct horse battery").output();
    assert_eq!(String::from_utf8_lossy(&output.expect("starts").stdout).trim_end(), hash);
    assert!(fails(&run(["token", "hash", "--token", "short"]), 2).contains("12 to 256 bytes"));
    let help = run(["token", "hash", "--help"]);
    let help = String::from_utf8(help.stdout).expect("is text");
    assert!(help.contains("SQUALL_TOKEN") && !help.contains("listening end"), "{help}");
}

#[test]
fn a_tenant_is_added_limited_explained_and_removed() {
    let scratch = Scratch::new("ctl-tenant");
    let folder = scratch.path("exit");
    fs::create_dir(&folder).expect("is made");
    let exit = Exit::start(&folder);
    let file = tenant_file(&folder, "other");
    assert_eq!(exit.succeeds(&["add", &file]), "added tenant other\n");
    let list = exit.succeeds(&["list"]);
    assert!(list.contains("acme/cam") && list.contains("other/cam"), "{list}");
    let json: Value = serde_json::from_str(&exit.succeeds(&["--json", "list"])).expect("is JSON");
    assert_eq!(json["tenants"].as_array().map(Vec::len), Some(2));

    let limits =
        exit.succeeds(&["limits", "acme", "--rate-in", "20Mbps", "--bytes", "1GB", "--max-sessions", "2"]);
    assert!(limits.contains("rate_in       20mbps") && limits.contains("bytes         1GB"), "{limits}");
    let limits = exit.succeeds(&["limits", "acme", "--bytes", "none"]);
    assert!(limits.contains("rate_in       20mbps") && limits.contains("bytes         none"), "{limits}");
    let limits = exit.succeeds(&["limits", "acme", "--max-sessions", "none"]);
    assert!(limits.contains("max_sessions  that of the exit (0 now)"), "{limits}");
    assert!(exit.succeeds(&["why", "acme/cam"]).starts_with("acme/cam, out 127.0.0.1:9"));

    for (args, code, words) in [
        (&["add", &file][..], 1, "there is a tenant 'other' already"),
        (&["remove", "acme"], 1, "tenant 'acme' is listed in the configuration or its folder"),
        (&["remove", "none"], 2, "no tenant is named 'none'"),
        (&["limits", "none"], 2, "no tenant is named 'none'"),
        (&["limits", "acme", "--rate-in", "fast"], 2, "squall: rate_in: \"fast\" is not a rate"),
        (&["limits", "acme", "--bytes", "0"], 2, "squall: bytes: 0B is not between 1kB and 1000000GB"),
        (&["limits", "acme", "--max-sessions", "many"], 2, "--max-sessions"),
        (&["why", "nothing"], 2, "no flow is named 'nothing': acme/cam, other/cam"),
        (&["add", "/nowhere.toml"], 2, "/nowhere.toml: No such file"),
    ] {
        let error = fails(&exit.ctl(args), code);
        assert!(error.contains(words), "{args:?}: {error}");
    }
    let third = format!("name = \"third\"\ntoken_sha256 = \"{}\"\n", hash_of("the token of third"));
    for (more, problem) in [
        ("control = \"x\"", "3:1: unknown key 'control'; there are name, token_sha256, flow, limits"),
        ("limits = { bytes = \"5XB\" }", "3:20: limits.bytes: \"5XB\" is not a size: "),
    ] {
        fs::write(&file, format!("{third}{more}\n")).expect("is written");
        let error = fails(&exit.ctl(&["add", &file]), 2);
        assert!(error.starts_with(&format!("squall: {file}:{problem}")), "{error}");
    }

    // Both changes outlive a crash, and the socket that it leaves is replaced.
    signal(&exit.child, "KILL");
    drop(exit);
    assert!(folder.join("c.sock").exists());
    let exit = Exit::start(&folder);
    assert!(exit.succeeds(&["list"]).contains("other/cam"));
    assert!(exit.succeeds(&["limits", "acme"]).contains("rate_in       20mbps"));
    assert!(exit.succeeds(&["limits", "acme", "--reset"]).contains("rate_in       none"));
    assert_eq!(exit.succeeds(&["remove", "other"]), "removed tenant other\n");
    assert!(!exit.succeeds(&["list"]).contains("other"));
}

#[test]
fn limits_of_a_tenant_that_has_left_can_be_removed() {
    let scratch = Scratch::new("ctl-left");
    let folder = scratch.path("exit");
    fs::create_dir(&folder).expect("is made");
    let exit = Exit::start(&folder);
    exit.succeeds(&["limits", "acme", "--rate-in", "20Mbps", "--period", "day"]);
    let line = r#"{"jsonrpc":"2.0","id":1,"method":"limits","params":{"name":"acme","set":{"period":null}}}"#;
    let limits = &exit.ask(line).expect("answers")["result"]["limits"];
    assert_eq!((&limits["period"], &limits["rate_in"]), (&Value::from("month"), &Value::from("20mbps")));

    let file = folder.join("exit.toml");
    let text = fs::read_to_string(&file).expect("is there");
    let without = text.split("[[tenant]]").next().expect("is text");
    fs::write(&file, format!("token = \"a token for the exit\"\n{without}")).expect("is written");
    let reload = |is_there: bool| {
        signal(&exit.child, "HUP");
        let deadline = std::time::Instant::now() + PATIENCE;
        while exit.succeeds(&["list"]).contains("acme") != is_there {
            assert!(std::time::Instant::now() < deadline, "it was not reloaded");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    reload(false);
    assert!(fails(&exit.ctl(&["limits", "acme"]), 2).contains("no tenant is named 'acme'"));
    let removed = exit.succeeds(&["limits", "acme", "--reset"]);
    assert_eq!(removed, "removed the limits of acme, a tenant that no source lists\n");
    assert!(fails(&exit.ctl(&["limits", "acme", "--reset"]), 2).contains("no tenant is named 'acme'"));
    fs::write(&file, text).expect("is written");
    reload(true);
    assert!(exit.succeeds(&["limits", "acme"]).contains("rate_in       none"));
}

#[test]
fn a_tenant_is_added_whole_or_not_at_all() {
    let scratch = Scratch::new("ctl-input");
    let folder = scratch.path("exit");
    fs::create_dir(&folder).expect("is made");
    let exit = Exit::start(&folder);
    let add = |text: &str| {
        let mut command = squall();
        command.arg("ctl").arg("--socket").arg(exit.socket()).args(["add", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("starts");
        let mut stdin = child.stdin.take().expect("is piped");
        // Fails if the program has read enough.
        let _ = stdin.write_all(text.as_bytes());
        drop(stdin);
        child.wait_with_output().expect("ends")
    };
    let hash = hash_of("the token of other");
    let text = format!("name = \"other\"\ntoken_sha256 = \"{hash}\"\n# {}\n", "x".repeat(60 << 10));
    let more = "[[flow]]\nname = \"cam\"\nout = \"udp://127.0.0.1:9\"\n";
    let error = fails(&add(&format!("{text}{more}")), 2);
    assert_eq!(error, "squall: standard input: more than 61440 bytes");
    assert!(!exit.succeeds(&["list"]).contains("other"));
    let added = add(&text.replace("xx", ""));
    assert_eq!(String::from_utf8_lossy(&added.stdout), "added tenant other\n");
}

#[test]
fn the_socket_is_private_bounded_and_strict() {
    let scratch = Scratch::new("ctl-socket");
    let folder = scratch.path("exit");
    fs::create_dir(&folder).expect("is made");
    let exit = Exit::start(&folder);
    let mode = fs::metadata(exit.socket()).expect("is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let code = |line: &str| exit.ask(line).map(|answer| answer["error"]["code"].as_i64());
    assert_eq!(code("{\n"), Some(Some(-32_700)));
    assert_eq!(code("[]\n"), Some(Some(-32_600)));
    assert_eq!(code(&"x".repeat(100_000)), Some(Some(-32_600)), "too long");
    assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"method":"halt"}"#), Some(Some(-32_601)));
    assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"method":"why"}"#), Some(Some(-32_602)));
    assert_eq!(exit.ask("{\"jsonrpc\":\"2.0\",\"method\":\"list\"}\n"), None, "a notification");
    // Idle connections do not lock others out: newer ones displace them.
    let idle: Vec<_> = (0..40).map(|_| UnixStream::connect(exit.socket()).expect("connects")).collect();
    let begin = Instant::now();
    assert!(exit.succeeds(&["list"]).contains("acme"));
    assert!(begin.elapsed() < PATIENCE / 2, "answered after {:?}", begin.elapsed());
    drop(idle);

    // A second process replaces neither the socket of the first, nor a file that is not a socket.
    let second = run([Path::new("tunnel"), &folder.join("exit.toml")]);
    assert!(fails(&second, 1).contains("another process answers there"));
    assert!(exit.succeeds(&["list"]).contains("acme"));
    let socket = exit.socket();
    drop(exit);
    fs::remove_file(&socket).expect("is removed");
    fs::write(&socket, "precious").expect("is written");
    let refused = run([Path::new("tunnel"), &folder.join("exit.toml")]);
    assert!(fails(&refused, 1).contains("a file that is no socket is there"));
    assert_eq!(fs::read_to_string(&socket).expect("is there"), "precious");
}

#[test]
fn without_a_tunnel_there_is_one_clear_line() {
    let scratch = Scratch::new("ctl-none");
    let socket = scratch.path("c.sock");
    let ctl =
        |args: &[&str]| squall().arg("ctl").arg("--socket").arg(&socket).args(args).output().expect("starts");
    assert!(fails(&ctl(&["list"]), 1).contains("no tunnel answers on"));
    let listener = UnixListener::bind(&socket).expect("is bound");
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("connects");
        let mut request = String::new();
        BufReader::new(&stream).read_line(&mut request).expect("is text");
        stream.write_all(b"220 mail.example.org ESMTP\r\n").expect("is sent");
    });
    assert!(fails(&ctl(&["list"]), 1).contains("is no tunnel"));
    other.join().expect("ends");
}

#[test]
fn an_exit_that_drains_ends() {
    let scratch = Scratch::new("ctl-drain");
    let folder = scratch.path("exit");
    fs::create_dir(&folder).expect("is made");
    let mut exit = Exit::start(&folder);
    assert_eq!(exit.succeeds(&["drain"]), "draining: there is no session to move\n");
    let deadline = std::time::Instant::now() + PATIENCE;
    let ended = loop {
        if let Some(ended) = exit.child.try_wait().expect("is a child") {
            break ended;
        }
        assert!(std::time::Instant::now() < deadline, "it goes on");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(ended.code(), Some(0));
}
