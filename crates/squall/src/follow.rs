//! The radios of the interfaces that a session runs over, found and read by themselves.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use squall_signal::{Clock, Monitor};
use tokio::task::spawn_blocking;

use crate::Session;

/// How often a radio is read (STORM §4).
const PERIOD: Duration = Duration::from_millis(100);

/// Has a session go by the radios of its interfaces, Wi-Fi and modems, for as long as it lasts; interfaces may come and go.
/// Whether that changes anything is up to [`Config::signal`](crate::Config::signal). Of a radio that cannot be read `note` is
/// told once, in one line. Needs the feature `radios`; see [`Session::set_signal`] for radios of another kind.
pub async fn follow_radios(session: Session, note: impl Fn(&str)) {
    let clock = Clock::new(Instant::now());
    let (mut tried, mut monitors) = (HashSet::new(), Vec::new());
    while session.close_reason().is_none() {
        for path in session.path_stats() {
            let Some(name) = path.interface.filter(|name| tried.insert(name.clone())) else { continue };
            let interface = name.clone();
            // Asking the system may take a while.
            let opened = spawn_blocking(move || {
                let source = squall_signal::radio(&interface).map_err(|error| error.to_string())?;
                Monitor::start(source, clock, PERIOD).map_err(|error| error.to_string())
            });
            match opened.await {
                Ok(Ok(monitor)) => {
                    session.set_signal(&name, Some(monitor.subscriber()));
                    monitors.push(monitor);
                }
                Ok(Err(problem)) => note(&problem),
                Err(error) => note(&format!("{name}: {error}")),
            }
        }
        tokio::time::sleep(PERIOD).await;
    }
}
