//! What the system reports of a path that is gone: errors of sending, and interfaces that go down.

#![cfg(target_os = "linux")]

mod common;

use std::{
    process::Command,
    time::{Duration, Instant},
};

use common::{ip, next_block, request, server, within};
use squall::{Block, Config, Endpoint, PathChange, Session, sched::PathState};
use squall_testing::{assert_duration, in_real_time};

/// Without a report of the system a session suspects no path in less than 50 ms.
const AT_ONCE: Duration = Duration::from_millis(40);

/// Set in the process that runs a test in a network namespace of its own.
const INSIDE: &str = "SQUALL_TEST_NAMESPACE";

/// Runs the test of this name in a network namespace with 127.0.0.1 to 3 and 10.9.9.2 on an interface `radio9`.
fn in_namespace(name: &str, test: impl AsyncFn()) {
    if std::env::var_os(INSIDE).is_some() {
        run("ip link set lo up");
        run("ip link add radio9 type veth peer name mast9");
        run("ip link set mast9 up");
        run("ip addr add 10.9.9.2/24 dev radio9");
        run("ip link set radio9 up");
        // Rules for addresses of this machine are looked at first of all; ours are to come before them.
        run("ip rule add pref 100 lookup local");
        run("ip rule del pref 0");
        in_real_time(|| within(&test));
        return;
    }
    let this = std::env::current_exe().expect("is known");
    let mut inside = Command::new("unshare");
    inside.args(["-r", "-n"]).arg(this).args(["--exact", name, "--nocapture"]);
    let output = match inside.env(INSIDE, "1").output() {
        Ok(output) => output,
        Err(error) => return squall_testing::skipped(&format!("there is no unshare (util-linux): {error}")),
    };
    let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if told.contains("unshare failed") {
        return squall_testing::skipped("network namespaces are not permitted here");
    }
    println!("{told}");
    assert!(output.status.success() && told.contains("1 passed"), "{}", output.status);
}

fn run(command: &str) {
    let mut words = command.split(' ');
    let status =
        Command::new(words.next().expect("a program")).args(words).status().expect("it can be started");
    assert!(status.success(), "{command}");
}

/// A session over 127.0.0.2 and `other`, both up, with both ends. Everything leaves on both, so that none is idle.
async fn session(other: &str) -> (Endpoint, Session, Session) {
    let (endpoint, identity) = server(Config::default());
    let request = request(&endpoint, &identity).over([ip("127.0.0.2"), ip(other)]);
    let config = Config { scheduler: squall::scheduler("redundant").expect("is known"), ..Config::default() };
    let client = squall::connect(request, config).await.expect("connects");
    let accepted = endpoint.accept().await.expect("listens");
    while client.path_stats().iter().filter(|path| path.stats.state == PathState::Active).count() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (endpoint, client, accepted)
}

/// The next change of the client's path from this address other than that it is up.
async fn change(client: &Session, local: &str) -> PathChange {
    let path = client.path_stats().iter().find(|path| path.local.ip() == ip(local)).expect("is up").id;
    loop {
        let event = client.path_event().await.expect("the session lasts");
        if event.path == path && !matches!(event.change, PathChange::Up(_)) {
            return event.change;
        }
    }
}

#[test]
fn a_path_is_suspected_as_soon_as_the_system_refuses_its_packets() {
    in_namespace("a_path_is_suspected_as_soon_as_the_system_refuses_its_packets", async || {
        let (_endpoint, client, accepted) = session("127.0.0.3").await;
        let receiver = tokio::spawn(async move {
            loop {
                next_block(&accepted).await;
            }
        });
        let sender = client.clone();
        let sending = tokio::spawn(async move {
            loop {
                sender.send(Block::new(vec![1; 3_000])).await.expect("is taken");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        tokio::time::sleep(Duration::from_millis(200)).await;
        for local in ["127.0.0.2", "127.0.0.3"] {
            let rule = format!("pref 5 from {local} unreachable");
            run(&format!("ip rule add {rule}"));
            let at = Instant::now();
            let change = change(&client, local).await;
            let after = at.elapsed();
            println!("{local}: {change:?} after {after:?}");
            assert!(matches!(change, PathChange::Suspected { .. }), "{change:?}");
            run(&format!("ip rule del {rule}"));
            let change = self::change(&client, local).await;
            assert!(matches!(change, PathChange::Readmitted { .. }), "{change:?}");
            assert_duration!(after < AT_ONCE, "{after:?}");
        }
        sending.abort();
        receiver.abort();
    });
}

#[test]
fn an_idle_path_is_suspected_as_soon_as_its_interface_goes_down() {
    in_namespace("an_idle_path_is_suspected_as_soon_as_its_interface_goes_down", async || {
        let (_endpoint, client, _accepted) = session("10.9.9.2").await;
        let downs =
            ["ip link set radio9 down", "ip addr del 10.9.9.2/24 dev radio9", "ip link set mast9 down"];
        for down in downs {
            run(down);
            let at = Instant::now();
            let change = change(&client, "10.9.9.2").await;
            println!("{down}: {change:?} after {:?}", at.elapsed());
            assert!(matches!(change, PathChange::Suspected { .. }), "{change:?}");
            run("ip link set radio9 up");
            run("ip link set mast9 up");
            Command::new("ip")
                .args(["addr", "add", "10.9.9.2/24", "dev", "radio9"])
                .output()
                .expect("there is ip");
            // Over the loopback interface, where packets really run, they pass as before.
            let change = self::change(&client, "10.9.9.2").await;
            assert!(matches!(change, PathChange::Readmitted { .. }), "{change:?}");
        }
    });
}
