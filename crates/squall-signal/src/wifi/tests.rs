//! The source on a fake kernel that consists of byte strings, built here by the format of
//! `nl80211.h`.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use proptest::prelude::*;

use super::{nl80211::command, *};

const NL80211: u16 = 28;
const CONTROL: u16 = 16;
const PORT: u32 = 7;
const MLME: u32 = 9;

/// Builds an attribute: length, kind, value, padding.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((value.len() + 4) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Builds a message of a family: header of 16 bytes, command and version, attributes.
fn message(family: u16, sequence: u32, command: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
    let mut payload = vec![command, 1, 0, 0];
    payload.extend(attributes.concat());
    raw(family, sequence, &payload)
}

fn raw(kind: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = ((16 + payload.len()) as u32).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(2u16.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(PORT.to_ne_bytes());
    bytes.extend(payload);
    bytes
}

/// Builds an NLMSG_ERROR with a number that is 0 or negative.
fn end(sequence: u32, code: i32) -> Vec<u8> {
    raw(2, sequence, &[code.to_ne_bytes().to_vec(), vec![0; 16]].concat())
}

fn interface(index: u32, name: &str, kind: u32) -> Vec<Vec<u8>> {
    let name = [name.as_bytes(), b"\0"].concat();
    vec![attribute(3, &index.to_ne_bytes()), attribute(4, &name), attribute(5, &kind.to_ne_bytes())]
}

/// Builds a station with those attributes in its NL80211_ATTR_STA_INFO, a nested one.
fn station(index: u32, info: &[Vec<u8>]) -> Vec<Vec<u8>> {
    vec![
        attribute(3, &index.to_ne_bytes()),
        attribute(6, &[2, 0, 0, 0, 0, 1]),
        attribute(21 | 0x8000, &info.concat()),
    ]
}

fn signal(dbm: i8) -> Vec<u8> {
    attribute(7, &dbm.to_ne_bytes())
}

fn flags(mask: u32, set: u32) -> Vec<u8> {
    attribute(17, &[mask.to_ne_bytes(), set.to_ne_bytes()].concat())
}

/// State of the kernel, and its messages in flight.
#[derive(Default)]
struct World {
    /// The kernel has nl80211.
    wifi: bool,
    interfaces: Vec<Vec<Vec<u8>>>,
    stations: Vec<Vec<Vec<u8>>>,
    /// Error number in the answer to each query for stations.
    error: i32,
    answers: VecDeque<Vec<u8>>,
    events: VecDeque<Vec<u8>>,
    joined: Vec<u32>,
    queries: usize,
}

impl World {
    fn answer(&mut self, sequence: u32, family: u16, command: u8) {
        let mut groups = Vec::new();
        for (place, (name, number)) in [("scan", 5u32), ("mlme", MLME)].into_iter().enumerate() {
            let name = attribute(1, &[name.as_bytes(), b"\0"].concat());
            let group = [name, attribute(2, &number.to_ne_bytes())].concat();
            groups.extend(attribute(place as u16 + 1, &group));
        }
        let (things, answer) = match (family, command) {
            (CONTROL, 3) if self.wifi => {
                let family = vec![attribute(1, &NL80211.to_ne_bytes()), attribute(7, &groups)];
                self.answers.push_back(message(CONTROL, sequence, 1, &family));
                return self.answers.push_back(end(sequence, 0));
            }
            (NL80211, command::GET_INTERFACE) => (&self.interfaces, 7),
            (NL80211, command::GET_STATION) if self.error == 0 => (&self.stations, 19),
            (NL80211, command::GET_STATION) => return self.answers.push_back(end(sequence, self.error)),
            _ => return self.answers.push_back(end(sequence, -2)),
        };
        let all = things.iter().map(|one| message(NL80211, sequence, answer, one));
        let mut datagram: Vec<u8> = all.collect::<Vec<_>>().concat();
        // NLMSG_DONE.
        datagram.extend(raw(3, sequence, &[0; 4]));
        self.answers.push_back(datagram);
    }

    fn emit(&mut self, command: u8, index: u32) {
        self.events.push_back(message(NL80211, 0, command, &[attribute(3, &index.to_ne_bytes())]));
    }
}

#[derive(Clone, Default)]
struct Fake(Arc<Mutex<World>>);

impl Fake {
    /// Creates `wlan0`, number 3, connected at −58 dBm; and an access point, `ap0`.
    fn new() -> Self {
        let fake = Self::default();
        fake.with(|world| {
            world.wifi = true;
            world.interfaces = vec![interface(3, "wlan0", 2), interface(4, "ap0", 3)];
            world.stations = vec![station(3, &[signal(-58)])];
        });
        fake
    }

    fn with<T>(&self, f: impl FnOnce(&mut World) -> T) -> T {
        f(&mut self.0.lock().expect("no test panicked in it"))
    }

    fn open(&self, interface: &str) -> Result<Source<Connected>, SourceError> {
        Source::open(interface, Connected(self.clone(), false), Connected(self.clone(), true))
    }
}

/// One of the two sockets: for events or for answers.
struct Connected(Fake, bool);

impl Wire for Connected {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let number = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let sequence = u32::from_ne_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        assert_eq!(usize::from(number(0)), bytes.len());
        self.0.with(|world| {
            world.queries += 1;
            world.answer(sequence, number(4), bytes[16]);
        });
        Ok(())
    }

    fn receive(&mut self, into: &mut Vec<u8>, timeout: Duration) -> io::Result<()> {
        let next =
            self.0.with(|world| if self.1 { world.events.pop_front() } else { world.answers.pop_front() });
        match next {
            Some(datagram) => *into = datagram,
            None => {
                std::thread::sleep(timeout);
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        Ok(())
    }

    fn join(&mut self, group: u32) -> io::Result<()> {
        self.0.with(|world| world.joined.push(group));
        Ok(())
    }
}

const WAIT: Duration = Duration::from_millis(20);

fn clock() -> Clock {
    Clock::new(Instant::now())
}

fn read(source: &mut Source<Connected>) -> Reading {
    source.next(clock(), WAIT).expect("the kernel answers").expect("each poll is a reading")
}

#[test]
fn the_signal_of_the_access_point_is_read() {
    let fake = Fake::new();
    let mut source = fake.open("wlan0").expect("is there");
    assert_eq!(fake.with(|world| world.joined.clone()), [MLME]);
    let begin = Instant::now();
    let first = read(&mut source);
    assert!(begin.elapsed() < WAIT, "nothing is waited for at first");
    assert_eq!(first, Reading::wifi(first.at, -58.0));
    fake.with(|world| world.stations = vec![station(3, &[signal(-71)])]);
    let second = read(&mut source);
    assert!(begin.elapsed() >= WAIT, "then once a period");
    assert_eq!(second.rssi, Some(-71.0));
}

#[test]
fn a_level_that_a_driver_lacks_is_taken_from_averages_or_left_out() {
    let average = |kind: u16, dbm: i8| attribute(kind, &dbm.to_ne_bytes());
    let cases: [(Vec<Vec<u8>>, Option<f64>); 5] = [
        (vec![average(13, -60), signal(-58), average(30, -62)], Some(-58.0)),
        (vec![average(13, -60), average(30, -62)], Some(-62.0)),
        (vec![average(13, -60)], Some(-60.0)),
        (vec![signal(0), average(13, -60)], Some(-60.0)),
        (vec![attribute(18, &4u32.to_ne_bytes())], None),
    ];
    for (info, rssi) in cases {
        let fake = Fake::new();
        fake.with(|world| world.stations = vec![station(3, &info)]);
        let mut source = fake.open("wlan0").expect("is there");
        let seen = read(&mut source);
        assert_eq!((seen.rssi, seen.disconnected), (rssi, false));
        let losses = source.station.expect("is associated").beacon_loss;
        assert_eq!(losses, rssi.is_none().then_some(4));
    }
}

#[test]
fn only_the_access_point_counts() {
    let peer = station(3, &[signal(-40), flags(1 << 6, 1 << 6)]);
    let other = station(3, &[signal(-45), flags(1 << 7, 0)]);
    let ours = station(3, &[signal(-66), flags(0xff, 1 << 1 | 1 << 7)]);
    let fake = Fake::new();
    fake.with(|world| world.stations = vec![peer.clone(), other.clone(), ours]);
    let mut source = fake.open("wlan0").expect("is there");
    assert_eq!(read(&mut source).rssi, Some(-66.0));
    fake.with(|world| world.stations = vec![peer, other]);
    assert!(read(&mut source).disconnected);
    assert_eq!(source.station, None);
}

#[test]
fn not_associated_is_a_reading_and_no_error() {
    let fake = Fake::new();
    fake.with(|world| world.stations.clear());
    let seen = read(&mut fake.open("wlan0").expect("is there"));
    assert_eq!(seen, Reading::disconnected(seen.at, Technology::Wifi));
}

#[test]
fn a_disconnection_is_reported_at_once_and_without_a_query() {
    let fake = Fake::new();
    let mut source = fake.open("wlan0").expect("is there");
    read(&mut source);
    let queries = fake.with(|world| {
        world.emit(command::DISCONNECT, 4);
        world.emit(command::DISCONNECT, 3);
        world.queries
    });
    let begin = Instant::now();
    let seen = source.next(clock(), Duration::from_secs(60)).expect("is reported").expect("is new");
    assert_eq!(seen, Reading::disconnected(seen.at, Technology::Wifi));
    assert!(begin.elapsed() < Duration::from_secs(1));
    assert_eq!(fake.with(|world| world.queries), queries);
    // Connected again, by another access point.
    fake.with(|world| world.emit(command::CONNECT, 3));
    let seen = source.next(clock(), Duration::from_secs(60)).expect("is reported").expect("is new");
    assert_eq!((seen.rssi, seen.disconnected), (Some(-58.0), false));
}

#[test]
fn moving_to_another_access_point_is_read_at_once() {
    for command in [command::ROAM, command::DEAUTHENTICATE, command::DISASSOCIATE] {
        let fake = Fake::new();
        let mut source = fake.open("wlan0").expect("is there");
        read(&mut source);
        fake.with(|world| {
            world.stations = vec![station(3, &[signal(-49)])];
            world.emit(command, 3);
        });
        let seen = source.next(clock(), Duration::from_secs(60)).expect("is reported").expect("is new");
        assert_eq!((seen.rssi, seen.disconnected), (Some(-49.0), false));
    }
}

#[test]
fn an_interface_that_goes_and_comes_back_is_found_by_its_name() {
    let fake = Fake::new();
    let mut source = fake.open("wlan0").expect("is there");
    read(&mut source);
    let there = fake.with(|world| {
        world.error = -NO_DEVICE;
        std::mem::take(&mut world.interfaces)
    });
    let error = source.next(clock(), WAIT).expect_err("is gone");
    assert_eq!(error.to_string(), "wlan0: the interface is gone");
    for _ in 0..2 {
        let error = source.next(clock(), WAIT).expect_err("is still gone");
        assert!(!error.is_lasting(), "{error}");
    }
    fake.with(|world| {
        world.error = 0;
        world.interfaces = vec![there[1].clone(), interface(12, "wlan0", 2)];
        world.emit(command::DISCONNECT, 3);
    });
    assert_eq!(read(&mut source).rssi, Some(-58.0), "events of its former number mean nothing");
}

#[test]
fn a_failure_is_reported_in_a_line() {
    let no_wifi = Fake::default();
    let cases = [
        (no_wifi.open("wlan0"), "wlan0: the kernel has no nl80211: "),
        (Fake::new().open("eth0"), "eth0: is no Wi-Fi interface"),
        (Fake::new().open("ap0"), "ap0: is itself an access point"),
    ];
    for (outcome, expected) in cases {
        let error = outcome.expect_err("cannot be read");
        assert!(error.is_lasting() && matches!(error, SourceError::Missing { .. }));
        let text = error.to_string();
        assert!(text.starts_with(expected) && !text.contains('\n'), "{text}");
    }
    // EPERM and EOPNOTSUPP are lasting; EIO may pass.
    for (code, lasting, expected) in [
        (-1, true, "wlan0: not permitted: "),
        (-95, true, "wlan0: its driver reports nothing"),
        (-5, false, "wlan0: the kernel does not answer: "),
    ] {
        let fake = Fake::new();
        let mut source = fake.open("wlan0").expect("is there");
        fake.with(|world| world.error = code);
        let error = source.next(clock(), WAIT).expect_err("cannot be read");
        assert!(error.to_string().starts_with(expected), "{error}");
        assert_eq!(error.is_lasting(), lasting);
    }
}

proptest! {
    #[test]
    fn whatever_the_kernel_says_there_is_no_panic(
        info in prop::collection::vec((any::<u16>(), prop::collection::vec(any::<u8>(), 0..12)), 0..6),
        junk in prop::collection::vec(any::<u8>(), 0..40),
        cut in 0usize..80,
    ) {
        let info: Vec<_> = info.iter().map(|(kind, value)| attribute(*kind, value)).collect();
        let mut body = station(3, &info).concat();
        body.extend(&junk);
        body.truncate(body.len().saturating_sub(cut));
        Station::parse(&body);
        Station::parse(&junk);
        let whole = message(NL80211, 0, command::DISCONNECT, &[body]);
        let family = Family { id: NL80211, mlme: None };
        for message in messages(&whole).chain(messages(&junk)) {
            Event::parse(&family, &message, 3);
        }
    }
}
