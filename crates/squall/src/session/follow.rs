//! Finds and reads the radios of a session's interfaces.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use squall_signal::{Clock, Monitor};
use tokio::task::spawn_blocking;

use crate::Session;

/// Period of reading a radio (STORM §4).
const PERIOD: Duration = Duration::from_millis(100);

/// Delay before a radio that cannot be read is tried again: a modem may not be ready when its
/// interface is.
const RETRY: Duration = Duration::from_secs(5);

/// Interfaces whose radio cannot be read, with the time of the next try.
#[derive(Default)]
struct Unread(HashMap<String, Instant>);

impl Unread {
    /// `true` if the radio should be tried now.
    fn is_due(&self, interface: &str, now: Instant) -> bool {
        self.0.get(interface).is_none_or(|due| *due <= now)
    }

    /// Records a failed try; returns `true` if it is the first.
    fn failed(&mut self, interface: &str, now: Instant) -> bool {
        // Drop entries of interfaces that are gone, or whose radio was read later.
        self.0.retain(|_, due| now < *due + 2 * RETRY);
        self.0.insert(interface.to_owned(), now + RETRY).is_none()
    }
}

/// Feeds a session with readings of the radios of its interfaces, Wi-Fi and modems, until the
/// session ends; interfaces may appear and disappear. [`Config::signal`](crate::Config::signal)
/// sets the effect of the readings. A radio that cannot be read is tried again every 5 s; `note`
/// receives the reason once, in one line. Without the feature `radios` no radio can be read; see
/// [`Session::set_signal`] for radios of another kind.
pub async fn follow_radios(session: Session, note: impl Fn(&str)) {
    let clock = Clock::new(Instant::now());
    let (mut monitors, mut unread) = (HashMap::new(), Unread::default());
    while session.close_reason().is_none() {
        for path in session.paths() {
            let Some(name) = path.interface else { continue };
            if monitors.contains_key(&name) || !unread.is_due(&name, Instant::now()) {
                continue;
            }
            let interface = name.clone();
            // Queries to the system may block.
            let opened = spawn_blocking(move || {
                let source = squall_signal::radio(&interface).map_err(|error| error.to_string())?;
                Monitor::start(source, clock, PERIOD).map_err(|error| error.to_string())
            });
            let problem = match opened.await {
                Ok(Ok(monitor)) => {
                    // The interface may have disappeared while its radio was opened.
                    if session.interface(&name).is_ok() {
                        session.set_signal(&name, Some(monitor.subscriber()));
                        monitors.insert(name, monitor);
                    }
                    continue;
                }
                Ok(Err(problem)) => problem,
                Err(error) => format!("{name}: {error}"),
            };
            if unread.failed(&name, Instant::now()) {
                note(&problem);
            }
        }
        tokio::time::sleep(PERIOD).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_radio_that_cannot_be_read_is_tried_again_and_noted_once() {
        let (mut unread, start) = (Unread::default(), Instant::now());
        let mut tries = Vec::new();
        for second in 0..=20 {
            let now = start + Duration::from_secs(second);
            if unread.is_due("wwan0", now) {
                tries.push((second, unread.failed("wwan0", now)));
            }
        }
        assert_eq!(tries, [(0, true), (5, false), (10, false), (15, false), (20, false)]);
        // An interface that disappeared is forgotten.
        let later = start + Duration::from_secs(60);
        unread.failed("wlan0", later);
        assert_eq!(unread.0.len(), 1);
        assert!(unread.failed("wwan0", later));
    }
}
