//! The radios of the interfaces that a session runs over.

use std::{collections::HashSet, time::Duration};

use squall::{
    Session,
    signal::{Clock, Monitor},
};
use tokio::task::spawn_blocking;

/// How often a radio is read (STORM §4).
const PERIOD: Duration = Duration::from_millis(100);

/// Has a session go by the radios of its interfaces, for as long as it lasts; interfaces may come and go. A radio
/// that cannot be read is told of once.
pub(super) async fn follow(session: Session) {
    let clock = Clock::new(std::time::Instant::now());
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
                Ok(Err(problem)) => eprintln!("note: no radio: {problem}"),
                Err(error) => eprintln!("note: no radio: {name}: {error}"),
            }
        }
        tokio::time::sleep(PERIOD).await;
    }
}
