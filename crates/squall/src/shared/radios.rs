//! Radios of interfaces, read periodically for the sessions that follow them.

use std::time::{Duration, Instant};

use squall_proto::{Endpoint, SessionId, signal::Subscriber};

use crate::net::routes::Routes;

/// Period of reading the radios (STORM §4).
const PERIOD: Duration = Duration::from_millis(100);

/// Radios that sessions follow.
#[derive(Default)]
pub(crate) struct Radios {
    followed: Vec<Followed>,
    due: Option<Instant>,
}

struct Followed {
    session: SessionId,
    /// Name or local address of the interface, as the application gave it.
    interface: String,
    signal: Subscriber,
}

impl Radios {
    /// Sets the radio that a session follows for an interface; `None` removes it.
    pub(crate) fn follow(&mut self, session: SessionId, interface: &str, signal: Option<Subscriber>) {
        self.followed.retain(|f| (f.session, f.interface.as_str()) != (session, interface));
        let interface = interface.to_owned();
        self.followed.extend(signal.map(|signal| Followed { session, interface, signal }));
        self.due = (!self.followed.is_empty()).then(Instant::now);
    }

    /// Returns the time of the next reading.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Reads the radios if they are due. The latest reading holds until the next, because most
    /// radios report only changes.
    pub(crate) fn read(&mut self, now: Instant, proto: &mut Endpoint, routes: &Routes) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.followed.retain(|radio| {
            let Some(session) = proto.session(radio.session).filter(|session| !session.is_closed()) else {
                return false;
            };
            if let Some(reading) = radio.signal.latest() {
                for interface in routes.matching(&radio.interface) {
                    session.on_signal(now, interface, &reading);
                }
            }
            true
        });
        self.due = (!self.followed.is_empty()).then(|| now + PERIOD);
    }
}
