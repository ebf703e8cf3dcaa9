//! Listening on addresses that may still be in use.

use std::{
    io::ErrorKind,
    net::ToSocketAddrs,
    thread,
    time::{Duration, Instant},
};

use squall::{Config, Endpoint, ListenError, ServerTls};
use tokio::runtime::Handle;

/// Time for which an address in use is retried. A freed endpoint occupies its address for up to 0.3
/// s, until late packets of its sessions are answered.
const WAIT: Duration = Duration::from_millis(500);

const PAUSE: Duration = Duration::from_millis(5);

/// Listens, with the tasks of a runtime; waits for up to half a second for an address in use. Must
/// not be called by a task.
///
/// # Errors
/// Errors of [`Endpoint::listen`].
pub fn listen(
    runtime: &Handle,
    addresses: impl ToSocketAddrs + Copy,
    tls: &ServerTls,
    config: &Config,
) -> Result<Endpoint, ListenError> {
    let _entered = runtime.enter();
    let begun = Instant::now();
    loop {
        match Endpoint::listen(addresses, tls, config.clone()) {
            Err(ListenError::Bind { source, .. })
                if source.kind() == ErrorKind::AddrInUse && begun.elapsed() < WAIT =>
            {
                thread::sleep(PAUSE);
            }
            listened => return listened,
        }
    }
}
