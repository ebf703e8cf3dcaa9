//! The radios behind interfaces, read at a steady pace for the sessions that go by them.

use std::time::{Duration, Instant};

use squall_proto::{SessionId, signal::Subscriber};

use crate::shared::Core;

/// How often the radios are read (STORM §4).
const PERIOD: Duration = Duration::from_millis(100);

/// Radios that sessions go by.
#[derive(Default)]
pub(crate) struct Radios {
    followed: Vec<Followed>,
    due: Option<Instant>,
}

struct Followed {
    session: SessionId,
    /// By name or by local address, as the application knows it.
    interface: String,
    signal: Subscriber,
}

impl Radios {
    /// Has a session go by the radio behind an interface, or no more.
    pub(crate) fn follow(&mut self, session: SessionId, interface: &str, signal: Option<Subscriber>) {
        self.followed.retain(|f| (f.session, f.interface.as_str()) != (session, interface));
        let interface = interface.to_owned();
        self.followed.extend(signal.map(|signal| Followed { session, interface, signal }));
        self.due = (!self.followed.is_empty()).then(Instant::now);
    }

    /// When they are to be read.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }
}

impl Core {
    /// Reads the radios if it is time to. What a radio said last holds until it says something else: most say
    /// something only when it changes.
    pub(crate) fn read_radios(&mut self, now: Instant) {
        if self.radios.due.is_none_or(|due| due > now) {
            return;
        }
        let mut followed = std::mem::take(&mut self.radios.followed);
        followed.retain(|radio| self.read(now, radio));
        self.radios.due = (!followed.is_empty()).then(|| now + PERIOD);
        self.radios.followed = followed;
    }

    /// Returns whether there is still a session that goes by the radio.
    fn read(&mut self, now: Instant, radio: &Followed) -> bool {
        let Some(session) = self.proto.session(radio.session) else { return false };
        if session.is_closed() {
            return false;
        }
        if let Some(reading) = radio.signal.latest() {
            for name in self.routes.matching(&radio.interface) {
                session.on_signal(now, name, &reading);
            }
        }
        true
    }
}
