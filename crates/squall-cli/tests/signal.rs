//! `squall signal watch` as its users run it: with a recording, a modem, and without radios.

mod common;
#[cfg(target_os = "linux")]
#[path = "../../squall-signal/tests/common/modem_manager.rs"]
mod modem_manager;

use std::process::Output;

use common::{Scratch, failure, run};
use serde_json::Value;

/// Wi-Fi that fades, is lost, and comes back.
const WALK: &str = "time_s,rssi_dbm,tech,event\n\
                    0.0,-50,wifi,\n0.1,-77,wifi,\n0.2,-86,wifi,\n0.3,,wifi,disassoc\n0.4,-52,wifi,\n0.5,-51,wifi,\n";

fn walk(scratch: &Scratch) -> String {
    scratch.write("walk.csv", WALK.as_bytes()).display().to_string()
}

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).expect("is text");
    text.lines().map(|line| serde_json::from_str(line).expect("is JSON")).collect()
}

#[test]
fn a_recording_gives_a_line_for_each_reading_and_alert() {
    let scratch = Scratch::new("watch-json");
    let file = walk(&scratch);
    let output = run(["signal", "watch", "--trace", &file, "--json"]);
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), b"".as_slice()));
    let lines = lines(&output);
    let readings: Vec<_> = lines.iter().filter(|line| line["type"] == "reading").collect();
    assert_eq!(readings.len(), 6, "{lines:?}");
    for reading in &readings {
        assert_eq!(
            (reading["radio"].as_str(), reading["technology"].as_str()),
            (Some(file.as_str()), Some("wifi"))
        );
    }
    assert_eq!(
        (&readings[0]["rssi_dbm"], &readings[0]["state"]),
        (&Value::from(-50.0), &Value::from("clear"))
    );
    assert!((readings[0]["quality"].as_f64().expect("is present") - 0.928).abs() < 0.001);
    assert_eq!((readings[3]["disconnected"].as_bool(), readings[3].get("rssi_dbm")), (Some(true), None));
    assert_eq!(readings[3]["quality"], 0.0);
    let times: Vec<f64> =
        readings.iter().map(|reading| reading["time_s"].as_f64().expect("is present")).collect();
    assert!((times[5] - times[0] - 0.5).abs() < 0.15, "{times:?}");
    let alerts: Vec<_> = lines.iter().filter(|line| line["type"] == "alert").collect();
    let kinds: Vec<_> = alerts.iter().map(|alert| alert["kind"].as_str().expect("is present")).collect();
    assert_eq!(kinds, ["warning", "outage", "recovery"], "{alerts:?}");
    assert_eq!((&alerts[0]["silent"], &alerts[2]["factor"]), (&Value::from(false), &Value::from(1.0)));
    let factor = alerts[0]["factor"].as_f64().expect("is present");
    assert!(factor > 0.5 && factor < 1.0, "{factor}");
}

#[test]
fn without_a_terminal_there_are_lines_to_read() {
    let scratch = Scratch::new("watch-text");
    let file = walk(&scratch);
    let output = run(["signal", "watch", "--trace", &file]);
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), b"".as_slice()));
    let text = String::from_utf8(output.stdout).expect("is text");
    // The number of lines depends on the load of the machine.
    let state = text.lines().find(|line| line.contains("  wifi ")).expect("is present");
    assert!(state.contains("RSSI -") && state.contains("quality 0."), "{text}");
    for alert in ["warning at 0.28", "outage at 0.07", "recovery at 0.88"] {
        assert_eq!(text.matches(alert).count(), 1, "{text}");
    }
}

#[test]
fn it_ends_after_the_given_time() {
    let scratch = Scratch::new("watch-for");
    let file = scratch.write("long.csv", b"time_s,rssi_dbm\n0,-50\n1,-51\n3600,-52\n");
    let begin = std::time::Instant::now();
    let output = run(["signal", "watch", "--json", "--for", "300ms", "--trace", &file.display().to_string()]);
    assert_eq!(output.status.code(), Some(0));
    assert!(begin.elapsed() < std::time::Duration::from_secs(20));
    assert_eq!(lines(&output).len(), 1);
}

#[test]
fn mistakes_are_reported_in_a_line() {
    let scratch = Scratch::new("watch-wrong");
    let bad = scratch.write("bad.csv", b"time_s,rssi_dbm\n0,-50\n1,loud\n").display().to_string();
    let mute = scratch.write("mute.csv", b"time_s,down_mbps\n0,5\n").display().to_string();
    let calls: [(&[&str], i32, &str); 4] = [
        (&["--period", "0ms"], 2, "squall: --period: 1ms to 60s"),
        (&["--trace", "no-such.csv"], 2, "squall: no-such.csv: "),
        (&["--trace", &bad], 2, "bad.csv:3: "),
        (&["--trace", &mute], 1, "mute.csv: the recording has no reading of a radio"),
    ];
    for (args, code, expected) in calls {
        let (said, ended) = failure(&run([&["signal", "watch"], args].concat()));
        assert!(said.contains(expected), "{said}");
        assert_eq!((said.lines().count(), ended), (1, Some(code)), "{said}");
    }
    let (said, code) = failure(&run(["signal", "watch", "--trace", "a.csv", "--interface", "wlan0"]));
    assert!(said.contains("cannot be used with") && code == Some(2), "{said}");
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        io::{BufRead as _, BufReader, Read as _},
        process::{Child, Command, Stdio},
        sync::mpsc::{Receiver, channel},
        thread,
        time::Duration,
    };

    use serde_json::Value;

    use crate::{
        common::{failure, squall},
        modem_manager::{FIRST, ModemManager, Setup},
    };

    const NOWHERE: &str = "unix:path=/no/such/bus";

    /// Maximum wait for a line, so that a program without output fails the test instead of blocking
    /// it.
    const LIMIT: Duration = Duration::from_secs(30);

    fn watch(bus: &str, args: &[&str]) -> Command {
        let mut command = squall();
        command.env("DBUS_SYSTEM_BUS_ADDRESS", bus).args(["signal", "watch"]).args(args);
        command
    }

    struct Watch {
        child: Child,
        lines: Receiver<String>,
    }

    impl Watch {
        fn start(bus: &str, args: &[&str]) -> Self {
            let mut command = watch(bus, args);
            let mut child =
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
            let output = BufReader::new(child.stdout.take().expect("is piped"));
            let (send, lines) = channel();
            thread::spawn(move || {
                // Ends with the program, or with the test.
                output.lines().map_while(Result::ok).try_for_each(|line| send.send(line))
            });
            Self { child, lines }
        }

        /// Returns the next line that meets a condition.
        fn until(&self, what: impl Fn(&Value) -> bool) -> Value {
            loop {
                let line = self.lines.recv_timeout(LIMIT).expect("a line in time");
                let line = serde_json::from_str(&line).expect("is JSON");
                if what(&line) {
                    return line;
                }
            }
        }

        /// Interrupts it; returns its code and standard error.
        fn interrupt(mut self) -> (Option<i32>, String) {
            let kill = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
            assert!(kill.expect("there is kill").success());
            let mut said = String::new();
            self.child.stderr.take().expect("is piped").read_to_string(&mut said).expect("is text");
            (self.child.wait().expect("it ends").code(), said)
        }
    }

    impl Drop for Watch {
        fn drop(&mut self) {
            // It may have ended by itself.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    #[test]
    fn a_modem_is_watched_until_it_is_interrupted() {
        let manager = ModemManager::with_lte("wwan0", &[("rsrp", -85.0), ("snr", 15.0)]);
        manager.set_setup(Setup::Denied);
        let watch = Watch::start(&manager.address(), &["--interface", "wwan0", "--json"]);
        let first = watch.until(|line| line["type"] == "reading");
        assert_eq!((&first["radio"], &first["technology"]), (&Value::from("wwan0"), &Value::from("lte")));
        assert_eq!((&first["rsrp_dbm"], &first["sinr_db"]), (&Value::from(-85.0), &Value::from(15.0)));
        assert_eq!((first.get("rssi_dbm"), &first["state"]), (None, &Value::from("clear")));
        manager.levels(FIRST, "Lte", &[("rsrp", -128.0), ("snr", -9.0)]);
        assert_eq!(watch.until(|line| line["type"] == "alert")["kind"], "outage");
        manager.remove(FIRST);
        manager.add("/org/freedesktop/ModemManager1/Modem/1", "wwan0");
        manager.levels("/org/freedesktop/ModemManager1/Modem/1", "Lte", &[("rsrp", -80.0), ("snr", 20.0)]);
        assert_eq!(watch.until(|line| line["type"] == "alert")["kind"], "recovery");
        let (code, said) = watch.interrupt();
        assert_eq!(code, Some(0), "{said}");
        assert!(
            said.contains("note: wwan0: not permitted to have ModemManager measure each second"),
            "{said}"
        );
        assert!(said.contains("note: wwan0: ModemManager "), "{said}");
    }

    #[test]
    fn all_radios_are_watched_without_being_named() {
        let manager = ModemManager::with_lte("wwan0", &[("rsrp", -85.0), ("snr", 15.0)]);
        let watch = Watch::start(&manager.address(), &["--json"]);
        watch.until(|line| line["radio"] == "wwan0" && line["rsrp_dbm"] == -85.0);
        assert_eq!(watch.interrupt(), (Some(0), String::new()));
    }

    #[test]
    fn an_interface_without_a_radio_is_reported_with_every_reason() {
        let output = watch(NOWHERE, &["--interface", "lo"]).output().expect("the program starts");
        let (said, code) = failure(&output);
        assert_eq!((said.lines().count(), code), (1, Some(1)), "{said}");
        assert!(said.starts_with("squall: lo: ") && said.contains("; there is no system bus"), "{said}");
    }

    #[test]
    fn where_there_is_no_radio_it_is_said_what_was_looked_for() {
        // A machine with Wi-Fi has a radio to watch.
        let wifi = squall_signal::wifi_interfaces();
        let output = watch(NOWHERE, &["--for", "50ms"]).output().expect("the program starts");
        let (said, code) = failure(&output);
        match wifi {
            Ok(_) => assert_eq!((said.as_str(), code), ("", Some(0))),
            Err(reason) => {
                assert_eq!((said.lines().count(), code), (1, Some(1)), "{said}");
                assert!(
                    said.starts_with(&format!("squall: no radio to watch: {reason}; modems: ")),
                    "{said}"
                );
            }
        }
    }
}
