//! Sessions with the radios of their interfaces.

use std::{
    collections::HashMap,
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use squall::signal::{Publisher, Reading, Span, Time, board};
use squall_bindings::{Code, Failure, Session};

/// Maximum number of interfaces with readings, in the lifetime of a session.
const MAX_RADIOS: usize = 64;

/// Radios of a session by the name or address of their interface.
#[derive(Debug, Default)]
pub(crate) struct Radios(Mutex<HashMap<String, Publisher>>);

impl Radios {
    /// Publishes a reading of `age` as the latest of an interface's radio; `None` removes the
    /// radio.
    pub(crate) fn set(
        &self,
        session: &Session,
        interface: &str,
        reading: Option<(Duration, Reading)>,
    ) -> Result<(), Failure> {
        let session = session.up()?;
        let unknown = Failure::of(Code::ErrorInterface);
        let mut radios = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((age, reading)) = reading else {
            session.set_signal(interface, None);
            session.interface(interface).map_err(unknown)?;
            radios.remove(interface);
            return Ok(());
        };
        if !radios.contains_key(interface) {
            if radios.len() >= MAX_RADIOS {
                return Err(Failure::new(
                    Code::ErrorFull,
                    "too many interfaces have readings: remove one first",
                ));
            }
            let (publisher, subscriber) = board();
            session.set_signal(interface, Some(subscriber));
            session.interface(interface).map_err(unknown)?;
            radios.insert(interface.to_owned(), publisher);
        }
        if let Some(publisher) = radios.get_mut(interface) {
            let at = now() - Span::from(age);
            publisher.publish(&Reading { at, ..reading });
        }
        Ok(())
    }
}

/// Returns the time since an hour before the first reading, which leaves room for older readings.
fn now() -> Time {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    Time::EPOCH + (ORIGIN.get_or_init(Instant::now).elapsed() + Duration::from_secs(3600)).into()
}
