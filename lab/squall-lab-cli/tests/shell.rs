//! `squall-lab shell` with real programs behind it, on systems that allow namespaces.

#![cfg(target_os = "linux")]

mod common;

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use common::{Scratch, failure, lab, shell_is_possible, squall};

/// Runs a shell to its end.
fn shell(args: &[&str]) -> Output {
    lab().arg("shell").args(args).output().expect("the program starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Process ids of all processes with this word in their command line.
fn processes_with(word: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").expect("there is a /proc").flatten();
    all.filter(|entry| {
        let line = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        line.split('\0').any(|part| part == word)
    })
    .map(|entry| entry.file_name().to_string_lossy().into_owned())
    .collect()
}

/// Number of threads of a program with this name.
fn threads_of(child: &Child, name: &str) -> usize {
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten().flatten();
    threads
        .filter(|thread| fs::read_to_string(thread.path().join("comm")).is_ok_and(|comm| comm.trim() == name))
        .count()
}

/// Waits until a condition holds, at most for a minute.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status();
    assert!(sent.expect("there is kill").success());
}

#[test]
fn the_program_sees_the_links_and_its_code_is_the_shells() {
    if !shell_is_possible() {
        return;
    }
    let links = ["-q", "--link", "name=wifi,delay=1ms", "--link", "name=lte,delay=1ms", "--client"];
    let output = shell(&[&links[..], &["echo $SQUALL_SERVER $SQUALL_LINKS $SQUALL_CLIENT; exit 7"]].concat());
    assert_eq!(said(&output), "10.77.0.1 wifi,lte 10.77.1.2,10.77.2.2");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(failure(&output).0, "", "quiet is quiet");
    let by_signal = shell(&[&links[..], &["kill -9 $$"]].concat());
    assert_eq!(by_signal.status.code(), Some(137));
    let devices = shell(&[&links[..], &["cat /proc/net/dev"]].concat());
    let names: Vec<String> = said(&devices)
        .lines()
        .filter_map(|line| line.split_once(':').map(|(name, _)| name.trim().to_owned()))
        .collect();
    assert_eq!(names, ["lo", "wifi", "lte"]);
}

#[test]
fn the_input_is_the_clients() {
    if !shell_is_possible() {
        return;
    }
    let mut child = lab()
        .args(["shell", "-q", "--link", "delay=1ms", "--server", "sed s/^/server:/"])
        .args(["--client", "sleep 0.5; sed s/^/client:/"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut input = child.stdin.take().expect("it is a pipe");
    input.write_all(b"abc\n").expect("it has room");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(said(&output), "client:abc", "{}", failure(&output).0);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let wrong = |args: &[&str]| failure(&shell(args));
    let (said, code) = wrong(&["--link", "dealy=3ms", "--", "true"]);
    assert!(said.starts_with("squall-lab: --link dealy=3ms: unknown key \"dealy\""), "{said}");
    assert_eq!((said.lines().count(), code), (1, Some(2)));
    let (said, code) = wrong(&["--link", "trace:/nowhere", "--", "true"]);
    assert!(said.contains("/nowhere"), "{said}");
    assert_eq!(code, Some(2));
    let (said, code) = wrong(&["--scenario", "/nowhere.toml"]);
    assert!(said.contains("/nowhere.toml"), "{said}");
    assert_eq!(code, Some(2));
    assert_eq!(wrong(&["--", "true"]).1, Some(2), "a link is needed");
    if shell_is_possible() {
        let (said, code) = wrong(&["-q", "--link", "name=a", "--link", "name=a", "--", "true"]);
        assert!(said.contains("two paths are called \"a\""), "{said}");
        assert_eq!(code, Some(2));
        let (said, code) = wrong(&["-q", "--link", "name=a,mtu=1", "--", "true"]);
        assert_eq!(said, "squall-lab: link a: mtu 1: an interface carries packets of 68 to 65535 bytes");
        assert_eq!(code, Some(2));
        let (said, code) = wrong(&["-q", "--link", "delay=1ms", "--", "no-such-program"]);
        assert!(said.starts_with("squall-lab: no-such-program: No such file"), "{said}");
        assert_eq!(code, Some(127));
        let (said, code) = wrong(&["-q", "--link", "delay=1ms", "--log", "/proc/nowhere", "--", "true"]);
        assert!(said.starts_with("squall-lab: /proc/nowhere: "), "{said}");
        assert_eq!(code, Some(1));
    }
}

#[test]
fn processors_are_kept_awake_by_a_thread_on_each_if_that_is_asked_for() {
    if !shell_is_possible() {
        return;
    }
    let keep_awake = |also: &[&str]| {
        let mut shell = lab();
        shell
            .args(["shell", "-q", "--link", "delay=1ms", "--time", "60s"])
            .args(also)
            .args(["--", "sleep", "60"]);
        let child = shell.spawn().expect("the program starts");
        eventually("the links are there", || threads_of(&child, "squall-links") == 1);
        let threads = threads_of(&child, "squall-awake");
        signal(&child, "TERM");
        assert_eq!(child.wait_with_output().expect("the shell ends").status.code(), Some(130));
        threads
    };
    let processors = std::thread::available_parallelism().expect("Linux reports it").get();
    assert!(keep_awake(&["--keep-awake"]) >= processors, "a control group may allow less than there are");
    assert_eq!(keep_awake(&[]), 0);
}

#[test]
fn nothing_survives_the_shell_not_even_when_it_is_killed() {
    if !shell_is_possible() {
        return;
    }
    for how in ["KILL", "TERM", "INT"] {
        // A number that no other test uses.
        let word = format!("4{}7{}", std::process::id(), how.len() + usize::from(how.as_bytes()[0]));
        let script = format!("(setsid sleep {word} &); sleep {word}");
        let mut child = lab()
            .args([
                "shell",
                "-q",
                "--link",
                "delay=1ms",
                "--server",
                &format!("sleep {word}"),
                "--client",
                &script,
            ])
            .stdin(Stdio::null())
            .spawn()
            .expect("the program starts");
        eventually("three sleepers", || processes_with(&word).len() == 3);
        signal(&child, how);
        let status = child.wait().expect("it ends");
        eventually("no sleeper", || processes_with(&word).is_empty());
        assert_eq!(status.code(), if how == "KILL" { None } else { Some(130) }, "after SIG{how}");
    }
}

#[test]
fn a_program_that_leaves_others_behind_leaves_nothing() {
    if !shell_is_possible() {
        return;
    }
    let word = format!("4{}1", std::process::id());
    let script = format!("setsid sleep {word} & sleep 0.2; exit 3");
    let output = shell(&["-q", "--link", "delay=1ms", "--client", &script]);
    assert_eq!(output.status.code(), Some(3));
    eventually("no sleeper", || processes_with(&word).is_empty());
}

/// Two links, the first of which fails after a second.
const FAILING: &[u8] = br#"
    name = "failing"
    duration = "10s"
    schedulers = ["minrtt"]
    [[path]]
    name = "wifi"
    rate = "10mbps"
    delay = "10ms"
    events = [{ at = "1s", outage = "30s" }]
    [[path]]
    name = "lte"
    rate = "10mbps"
    delay = "30ms"
    [[flow]]
    name = "bulk"
    kind = "bulk"
"#;

/// Sends a file of 3 MB over two links, the first of which fails, after a command that prepares the
/// client's side.
fn assert_a_file_crosses(scratch: &Scratch, prepare: &str, [listen, to]: [&str; 2], more: &[&str]) {
    let bytes: Vec<u8> = (0..3_000_000u32).map(|number| (number % 251) as u8).collect();
    let file = scratch.write("data.bin", &bytes);
    let scenario = scratch.write("failing.toml", FAILING);
    let (out, logs, json) = (scratch.path("received"), scratch.path("logs"), scratch.path("shell.json"));
    let program = squall();
    let program = program.display();
    let server = format!("{program} recv --listen {listen}:4433 --out {} --once", out.display());
    let client = format!("{prepare} && {program} send {} --to {to}:4433 --insecure", file.display());
    let output = lab()
        .env("SQUALL_TOKEN", "a token for tests")
        .args(["shell", "--max-slip", "10s", "--server", &server, "--client", &client])
        .args(["--scenario".as_ref(), scenario.as_os_str()])
        .args(["--log".as_ref(), logs.as_os_str(), "--json".as_ref(), json.as_os_str()])
        .args(more)
        .output()
        .expect("the program starts");
    let (words, code) = failure(&output);
    assert_eq!(code, Some(0), "{words}");
    assert!(fs::read(&out).expect("it has arrived") == bytes, "other bytes have arrived");
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(&json).expect("a report")).expect("JSON");
    assert_eq!(report["valid"], true, "{report}");
    let path = |index: usize| report["report"]["paths"][index]["up"].clone();
    assert!(path(0)["delivered"]["bytes"].as_u64() > Some(100_000), "{report}");
    assert!(path(0)["dropped"]["outage"]["packets"].as_u64() > Some(0), "{report}");
    assert!(path(1)["delivered"]["bytes"].as_u64() > Some(1_000_000), "{report}");
    assert!(words.contains("wifi up") && words.contains("lte down"), "{words}");
    for name in ["wifi-up.log", "wifi-up.jsonl", "lte-down.log", "lte-down.jsonl"] {
        assert!(fs::metadata(logs.join(name)).is_ok_and(|log| log.len() > 1_000), "{name}");
    }
}

#[test]
fn a_file_crosses_a_link_that_fails() {
    if shell_is_possible() {
        assert_a_file_crosses(&Scratch::new("shell"), "true", ["10.77.0.1", "10.77.0.1"], &[]);
    }
}

#[test]
fn a_file_crosses_a_link_that_fails_over_ipv6() {
    if shell_is_possible() && has_ipv6() {
        assert_a_file_crosses(&Scratch::new("shell-ipv6"), "true", ["[fd77::1]", "[fd77::1]"], &["--ipv6"]);
    }
}

#[test]
fn a_session_has_paths_of_both_versions_of_ip() {
    if !(shell_is_possible() && has_ipv6() && have("ip", "-V")) {
        return;
    }
    let scratch = Scratch::new("shell-mixed");
    let hosts = scratch.write("hosts", b"fd77::1 server\n10.77.0.1 server\n");
    // Each link keeps the addresses of one IP version, and the server's name has one of each.
    let prepare = format!(
        "mount --bind {} /etc/hosts && ip -4 addr flush dev wifi && ip -6 addr flush dev lte",
        hosts.display()
    );
    assert_a_file_crosses(&scratch, &prepare, ["[::]", "server"], &[]);
}

/// `true` if this system has IPv6; otherwise the test is skipped.
fn has_ipv6() -> bool {
    let is_there = Path::new("/proc/net/if_inet6").exists();
    if !is_there {
        squall_testkit::skipped("this system has no IPv6");
    }
    is_there
}

/// `true` if a program is installed; otherwise the test is skipped.
fn have(program: &str, option: &str) -> bool {
    let run = Command::new(program).arg(option).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let works = run.is_ok_and(|status| status.success());
    if !works {
        squall_testkit::skipped(&format!("{program} {option} does not work"));
    }
    works
}

#[test]
fn each_link_has_its_round_trip_over_ipv6() {
    if !(shell_is_possible() && has_ipv6() && have("ping", "-V")) {
        return;
    }
    let links = ["-q", "--link", "name=wifi,delay=1ms", "--link", "name=lte,delay=20ms", "--client"];
    let ping = |to: &str| {
        // Queueing behind other packets would add to its time.
        let output = shell(&[&links[..], &[&format!("ping -6 -c 3 -i 0.2 {to}")]].concat());
        let words = said(&output);
        assert_eq!(output.status.code(), Some(0), "{words}");
        let times =
            words.lines().filter_map(|line| line.split_once("time=")?.1.split(' ').next()?.parse().ok());
        times.collect::<Vec<f64>>()
    };
    for (to, least) in
        [("fd77::1", 2.0), ("-I lte fd77::1", 40.0), ("-I fd77:2::2 fd77::1", 40.0), ("fd77:2::1", 40.0)]
    {
        let times = ping(to);
        assert!(times.len() == 3 && times.iter().all(|time| *time >= least), "{to}: {times:?}");
    }
}

#[test]
fn links_can_have_ipv6_alone() {
    if !(shell_is_possible() && has_ipv6()) {
        return;
    }
    let links = ["-q", "--link", "name=wifi,delay=1ms", "--link", "name=lte,delay=1ms"];
    let variables = "echo $SQUALL_SERVER $SQUALL_CLIENT, $SQUALL_SERVER6 $SQUALL_CLIENT6";
    let of_v6 = "fd77::1 fd77:1::2,fd77:2::2";
    let both = shell(&[&links[..], &["--client", variables]].concat());
    assert_eq!(said(&both), format!("10.77.0.1 10.77.1.2,10.77.2.2, {of_v6}"));
    let connect = "python3 -c 'import socket; socket.create_connection((\"10.77.0.1\", 1))' 2>&1 | tail -n 1";
    let only = shell(&[&links[..], &["--ipv6", "--client", &format!("{variables}; {connect}")]].concat());
    let words = said(&only);
    assert!(
        words.starts_with(&format!("{of_v6}, {of_v6}\n")) && words.ends_with("Network is unreachable"),
        "{words}"
    );
    let (narrow, code) = failure(&shell(&["-q", "--ipv6", "--link", "name=a,mtu=1279", "--", "true"]));
    assert_eq!(narrow, "squall-lab: link a: mtu 1279: IPv6 needs packets of 1280 bytes (RFC 8200)");
    assert_eq!(code, Some(2));
    let none = shell(&["-q", "--link", "mtu=1279", "--client", "echo $SQUALL_SERVER$SQUALL_SERVER6"]);
    assert_eq!(said(&none), "10.77.0.1");
}

#[test]
fn radios_of_the_links_are_found_by_programs_behind_them() {
    if !shell_is_possible() {
        return;
    }
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/walking.toml");
    let client = format!("{} signal watch --interface Wi-Fi --for 2s --json", squall().display());
    let output = lab()
        .args(["shell", "-q", "--client", &client, "--scenario"])
        .arg(scenario)
        .output()
        .expect("the program starts");
    let lines = said(&output);
    let (words, code) = failure(&output);
    assert_eq!(code, Some(0), "{words}");
    assert!(lines.lines().filter(|line| line.contains("rssi")).count() >= 5, "{lines}\n{words}");
}

#[test]
fn programs_of_another_user_read_the_radios_but_cannot_list_or_write() {
    if !shell_is_possible() {
        return;
    }
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/walking.toml");
    // Without root the shell has no other user available.
    let other_user = "setpriv --reuid=65534 --regid=65534 --clear-groups";
    let client = format!(
        "{other_user} true 2>/dev/null && as='{other_user}'; sleep 1; echo $as; \
         $as cat $SQUALL_RADIOS/Wi-Fi.jsonl | head -n 1; \
         test -z \"$as\" || $as ls $SQUALL_RADIOS || $as touch $SQUALL_RADIOS/Wi-Fi.jsonl $SQUALL_RADIOS/more || echo refused"
    );
    let output = lab()
        .args(["shell", "-q", "--client", &client, "--scenario"])
        .arg(scenario)
        .output()
        .expect("the program starts");
    let said = said(&output);
    let lines: Vec<&str> = said.lines().collect();
    let is_other = lines.first().is_some_and(|line| line.starts_with("setpriv"));
    assert!(lines.get(1).is_some_and(|line| line.contains("rssi")), "{said}\n{}", failure(&output).0);
    assert_eq!(lines.len(), if is_other { 3 } else { 2 }, "{said}");
}

/// Starts a shell whose client program waits for the end of its input.
fn waiting_shell() -> Child {
    let child = lab()
        .args(["shell", "-q", "--link", "name=wifi,delay=1ms", "--client", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts");
    eventually("the links are there", || threads_of(&child, "squall-links") == 1);
    child
}

/// Runs a command on a side of a shell.
fn join(side: &str, shell: &Child, command: &str) -> Command {
    let mut join = lab();
    join.args(["shell", "--join", side, "--pid", &shell.id().to_string(), "--", "/bin/sh", "-c", command]);
    join
}

#[test]
fn both_sides_of_a_running_shell_can_be_entered() {
    if !shell_is_possible() {
        return;
    }
    let mut shell = waiting_shell();
    // A datagram socket can only be bound to an address of its own side.
    let bind = |address: &str| {
        format!(
            "echo $SQUALL_LINKS; exec python3 -c 'import socket; socket.socket(type=2).bind((\"{address}\", 0))'"
        )
    };
    for (side, own, other) in [("far", "10.77.0.1", "10.77.1.2"), ("near", "10.77.1.2", "10.77.0.1")] {
        let output = join(side, &shell, &bind(own)).output().expect("it starts");
        assert_eq!(
            (said(&output).as_str(), output.status.code()),
            ("wifi", Some(0)),
            "{}",
            failure(&output).0
        );
        assert_eq!(join(side, &shell, &bind(other)).output().expect("it starts").status.code(), Some(1));
    }
    assert_eq!(join("far", &shell, "exit 5").status().expect("it starts").code(), Some(5));
    drop(shell.stdin.take());
    assert_eq!(shell.wait().expect("it ends").code(), Some(0));
}

#[test]
fn a_join_does_not_survive_its_shell() {
    if !shell_is_possible() {
        return;
    }
    for kill in [false, true] {
        let mut shell = waiting_shell();
        let word = format!("98{}.25", shell.id());
        let script = format!("sleep {word} & setsid sleep {word} & wait");
        let mut joined = join("far", &shell, &script).spawn().expect("it starts");
        eventually("both run", || processes_with(&word).len() == 2);
        if kill {
            signal(&shell, "KILL");
        } else {
            drop(shell.stdin.take());
        }
        shell.wait().expect("it ends");
        assert_eq!(joined.wait().expect("it ends").code(), Some(137));
        eventually("nothing is left", || processes_with(&word).is_empty());
    }
}

#[test]
fn a_shell_that_is_not_there_cannot_be_joined() {
    let (said, code) = failure(&shell(&["--join", "far", "--pid", "1", "--", "true"]));
    assert!(said.starts_with("squall-lab: --join: process 1 is no shell of this user"), "{said}");
    assert_eq!((said.lines().count(), code), (1, Some(2)));
}

#[test]
fn a_shell_without_time_ends_at_once() {
    if !shell_is_possible() {
        return;
    }
    for _ in 0..5 {
        let start = Instant::now();
        let output = shell(&["-q", "--time", "0s", "--link", "delay=1ms", "--", "sleep", "5"]);
        assert_eq!(output.status.code(), Some(0), "{}", failure(&output).0);
        // Programs that do not end on request are killed after three seconds.
        assert!(start.elapsed() < Duration::from_millis(2500), "{:?}", start.elapsed());
    }
}

#[test]
fn the_servers_program_has_time_for_its_last_words() {
    if !shell_is_possible() {
        return;
    }
    let args =
        ["-q", "--link", "delay=1ms", "--server", "sleep 0.6; echo last words", "--client", "sleep 0.2"];
    assert_eq!(said(&shell(&args)), "last words");
}
