//! Modems, with a ModemManager that the tests emulate.

#![cfg(target_os = "linux")]

#[path = "common/modem_manager.rs"]
mod modem_manager;

use std::time::{Duration, Instant};

use modem_manager::{BEARER, FIRST, MODEM, ModemManager, NETWORK, SIGNAL, Setup};
use squall_signal::{Clock, ModemSource, Monitor, Reading, SignalSource as _, SourceError, Technology};
use zbus::zvariant::{ObjectPath, Value};

const LEVELS: &[(&str, f64)] = &[("rsrp", -97.0), ("rsrq", -11.0), ("snr", 12.5), ("rssi", -66.0)];

/// Longer than any wait of the tests.
const LONG: Duration = Duration::from_secs(20);

fn clock() -> Clock {
    Clock::new(Instant::now())
}

fn open(manager: &ModemManager) -> ModemSource {
    ModemSource::open_at(&manager.address(), "wwan0").expect("the modem is there")
}

fn refused(manager: &ModemManager) -> SourceError {
    match ModemSource::open_at(&manager.address(), "wwan0") {
        Ok(_) => panic!("it cannot be read"),
        Err(error) => error,
    }
}

fn read(source: &mut ModemSource) -> Reading {
    source.next(clock(), LONG).expect("ModemManager answers").expect("is new")
}

#[test]
fn levels_are_read_and_then_awaited() {
    let manager = ModemManager::with_lte("wwan0", LEVELS);
    let mut source = open(&manager);
    assert_eq!((source.label().as_str(), source.note()), ("wwan0", None));
    assert_eq!(manager.rates(), [1], "a measurement each second is asked for");
    let first = read(&mut source);
    let rest = (first.rsrp, first.rsrq, first.sinr, first.rssi);
    assert_eq!(
        (first.technology, rest),
        (Technology::Lte, (Some(-97.0), Some(-11.0), Some(12.5), Some(-66.0)))
    );

    let begin = Instant::now();
    manager.levels(FIRST, "Lte", &[("rsrp", -110.0)]);
    let second = read(&mut source);
    assert!(begin.elapsed() < Duration::from_millis(500), "{:?}", begin.elapsed());
    assert_eq!(
        (second.rsrp, second.rsrq, second.sinr),
        (Some(-110.0), None, None),
        "missing ones are left out"
    );

    manager.levels(FIRST, "Nr5g", &[("rsrp", -101.0), ("snr", 3.0)]);
    let third = read(&mut source);
    assert_eq!((third.technology, third.rsrp, third.sinr), (Technology::NrNsa, Some(-101.0), Some(3.0)));
}

#[test]
fn silence_is_ended_by_a_question_once_a_second() {
    let manager = ModemManager::with_lte("wwan0", LEVELS);
    let mut source = open(&manager);
    let first = read(&mut source);
    let nothing = source.next(clock(), Duration::from_millis(50)).expect("ModemManager answers");
    assert_eq!(nothing, None);
    // A change without a signal.
    manager.put(
        FIRST,
        SIGNAL,
        vec![("Lte", Value::from(std::collections::HashMap::from([("rsrp", Value::from(-99.0))])))],
    );
    let begin = Instant::now();
    let second = read(&mut source);
    let waited = begin.elapsed();
    assert_eq!((first.rsrp, second.rsrp), (Some(-97.0), Some(-99.0)));
    assert!((Duration::from_millis(500)..Duration::from_secs(3)).contains(&waited), "{waited:?}");
}

#[test]
fn changed_values_that_are_not_included_are_queried() {
    let manager = ModemManager::with_lte("wwan0", LEVELS);
    let mut source = open(&manager);
    read(&mut source);
    let lte = std::collections::HashMap::from([("rsrp", Value::from(-88.0))]);
    manager.change(FIRST, SIGNAL, vec![("Lte", Value::from(lte))], &["Lte"]);
    assert_eq!(read(&mut source).rsrp, Some(-88.0));
}

#[test]
fn leaving_the_network_is_reported_at_once_and_so_is_coming_back() {
    let manager = ModemManager::with_lte("wwan0", LEVELS);
    let mut source = open(&manager);
    read(&mut source);
    for (interface, property, out, back) in [
        (NETWORK, "RegistrationState", Value::from(2u32), Value::from(5u32)),
        (MODEM, "State", Value::from(7i32), Value::from(8i32)),
    ] {
        // An irrelevant change ends no wait.
        manager.change(FIRST, MODEM, vec![("SignalQuality", Value::from(40u32))], &[]);
        let begin = Instant::now();
        manager.change(FIRST, interface, vec![(property, out)], &[]);
        let seen = read(&mut source);
        assert_eq!(seen, Reading::disconnected(seen.at, Technology::Lte));
        manager.change(FIRST, interface, vec![(property, back)], &[]);
        let seen = read(&mut source);
        assert_eq!((seen.disconnected, seen.rsrp), (false, Some(-97.0)));
        assert!(begin.elapsed() < Duration::from_millis(800), "{:?}", begin.elapsed());
    }
}

#[test]
fn who_may_not_set_the_rate_reads_what_is_there_and_says_so() {
    let manager = ModemManager::with_lte("wwan0", LEVELS);
    manager.set_setup(Setup::Denied);
    let mut source = open(&manager);
    let note = source.note().expect("is reported");
    let expected = "not permitted to have ModemManager measure each second, it measures nothing now; ";
    assert!(note.starts_with(expected) && note.ends_with("mmcli -m 0 --signal-setup=1"), "{note}");
    assert_eq!(read(&mut source).rsrp, Some(-97.0));
    manager.put(FIRST, SIGNAL, vec![("Rate", Value::from(10u32))]);
    assert!(open(&manager).note().expect("is reported").contains("it measures every 10 s"));
    // Another program has set the rate: there is nothing to request or to report.
    manager.put(FIRST, SIGNAL, vec![("Rate", Value::from(1u32))]);
    let asked = manager.rates().len();
    assert_eq!((open(&manager).note(), manager.rates().len()), (None, asked));
}

#[test]
fn a_modem_that_is_not_ready_is_asked_again_when_its_state_changes() {
    let manager = ModemManager::with_lte("wwan0", LEVELS);
    manager.set_setup(Setup::WrongState);
    manager.put(FIRST, MODEM, vec![("State", Value::from(3i32))]);
    let mut source = open(&manager);
    assert!(source.note().expect("is reported").starts_with("ModemManager does not measure each second yet"));
    assert!(read(&mut source).disconnected);
    manager.set_setup(Setup::Granted);
    manager.change(FIRST, MODEM, vec![("State", Value::from(8i32))], &[]);
    assert!(!read(&mut source).disconnected);
    assert_eq!(manager.rates(), [1, 1]);
    manager.change(FIRST, MODEM, vec![("State", Value::from(7i32))], &[]);
    assert!(read(&mut source).disconnected);
    assert_eq!(manager.rates(), [1, 1], "once it is granted it stays");
}

#[test]
fn a_modem_without_levels_reports_whether_it_is_registered() {
    let manager = ModemManager::with_lte("wwan0", LEVELS);
    manager.take(FIRST, SIGNAL);
    let mut source = open(&manager);
    assert!(source.note().expect("is reported").starts_with("ModemManager reports no levels of this modem"));
    let seen = read(&mut source);
    assert_eq!((seen.technology, seen.rsrp, seen.disconnected), (Technology::Lte, None, false));
    manager.change(FIRST, MODEM, vec![("State", Value::from(7i32))], &[]);
    assert!(read(&mut source).disconnected);
}

#[test]
fn a_modem_that_disappears_is_found_when_it_comes_back_elsewhere() {
    let manager = ModemManager::with_lte("wwan0", LEVELS);
    let monitor = Monitor::start(Box::new(open(&manager)), clock(), Duration::from_millis(20));
    let monitor = monitor.expect("there are threads");
    let eventually = |what: &dyn Fn() -> bool| {
        let end = Instant::now() + LONG;
        while !what() {
            assert!(Instant::now() < end, "{monitor:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    eventually(&|| monitor.reading().is_some());
    manager.remove(FIRST);
    eventually(&|| monitor.error().is_some());
    let before = monitor.reading().expect("is there");
    assert!(!before.disconnected && before.rsrp.is_none_or(|rsrp| rsrp == -97.0), "made up: {before:?}");
    let words = monitor.error().expect("is there").to_string();
    assert!(words.starts_with("wwan0: ModemManager "), "{words}");
    let second = "/org/freedesktop/ModemManager1/Modem/1";
    manager.add(second, "wwan0");
    manager.levels(second, "Lte", &[("rsrp", -120.0)]);
    eventually(&|| monitor.error().is_none());
    eventually(&|| monitor.reading().is_some_and(|seen| seen.rsrp == Some(-120.0)));
}

#[test]
fn a_modem_is_read_inside_a_runtime() {
    let manager = ModemManager::with_lte("wwan0", LEVELS);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("is made");
    let seen = runtime.block_on(async {
        let mut source = open(&manager);
        read(&mut source)
    });
    assert_eq!(seen.rsrp, Some(-97.0));
}

#[test]
fn losing_modem_manager_or_the_bus_passes() {
    let manager = ModemManager::with_lte("wwan0", LEVELS);
    let mut source = open(&manager);
    read(&mut source);
    manager.set_runs(false);
    let error = source.next(clock(), LONG).expect_err("is gone");
    assert_eq!(error.to_string(), "wwan0: ModemManager ended");
    let error = source.next(clock(), LONG).expect_err("is still gone");
    assert!(!error.is_lasting() && error.to_string().contains("ModemManager is not there"), "{error}");
    manager.set_runs(true);
    assert_eq!(read(&mut source).rsrp, Some(-97.0));
    manager.cut();
    let error = source.next(clock(), LONG).expect_err("is gone");
    assert!(!error.is_lasting(), "{error}");
    assert_eq!(read(&mut source).rsrp, Some(-97.0));
}

#[test]
fn a_modem_is_known_by_its_ports_and_by_its_connections() {
    let manager = ModemManager::with_lte("wwan9", LEVELS);
    let error = refused(&manager);
    assert_eq!(error.to_string(), "wwan0: no modem has this interface; there are: Acme M1 (wwan9)");
    let bearer = "/org/freedesktop/ModemManager1/Bearer/4";
    let gone = "/org/freedesktop/ModemManager1/Bearer/5";
    let paths = [gone, bearer].map(|path| ObjectPath::try_from(path).expect("is a path"));
    manager.put(FIRST, MODEM, vec![("Bearers", Value::from(paths.to_vec()))]);
    manager.put(bearer, BEARER, vec![("Interface", Value::from("wwan0"))]);
    assert_eq!(read(&mut open(&manager)).rsrp, Some(-97.0));
}

#[test]
fn a_failure_is_reported_in_a_line() {
    let manager = ModemManager::start();
    let mut said = vec![(refused(&manager), "wwan0: ModemManager has no modem")];
    manager.set_runs(false);
    said.push((refused(&manager), "wwan0: ModemManager is not there; "));
    manager.set_closed(true);
    said.push((refused(&manager), "wwan0: not permitted: "));
    let nowhere = ModemSource::open_at("unix:path=/no/such/bus", "wwan0").expect_err("there is no bus");
    said.push((nowhere, "wwan0: there is no system bus"));
    for (error, expected) in said {
        let words = error.to_string();
        assert!(words.starts_with(expected) && !words.contains('\n'), "{words}");
        assert!(error.is_lasting());
    }
}
