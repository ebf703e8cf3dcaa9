//! Requests to end from outside: Ctrl-C, and the signal that ends services.

use std::{
    io,
    sync::{Mutex, PoisonError},
};

use tokio::sync::watch;

/// Number of requests to this process. After the first [`Interrupts::listen`] no signal ends the
/// process by itself, and none is lost: one thread receives all of them, whatever the program does
/// between two waits.
static COUNTED: Mutex<Option<watch::Receiver<u64>>> = Mutex::new(None);

/// The user interrupted the program during its work.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Requests to end since this process began to listen.
pub struct Interrupts(watch::Receiver<u64>);

impl Interrupts {
    /// Starts to listen, if the process does not already.
    ///
    /// # Errors
    /// If the system cannot report signals.
    pub fn listen() -> io::Result<Self> {
        let mut counted = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = match &mut *counted {
            Some(counted) => counted,
            none => none.insert(count()?),
        };
        Ok(Self(counted.clone()))
    }

    /// Waits for the next request after the one that was returned last. Cancel safe.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // The thread has ended: no more requests are possible.
            std::future::pending::<()>().await;
        }
    }
}

/// Waits until the program has been requested to end, including requests before this call.
///
/// # Errors
/// If the system cannot report signals.
pub async fn interrupted() -> io::Result<()> {
    Interrupts::listen()?.next().await;
    Ok(())
}

/// Counts signals in a separate thread, which outlives any runtime of the caller.
fn count() -> io::Result<watch::Receiver<u64>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _context = runtime.enter();
        Signals::new()?
    };
    let (counter, counted) = watch::channel(0);
    std::thread::Builder::new().name("squall-signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            while signals.next().await.is_some() {
                counter.send_modify(|count| *count += 1);
            }
        });
    })?;
    Ok(counted)
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) -> Option<()> {
        tokio::select! {
            asked = self.interrupt.recv() => asked,
            asked = self.terminate.recv() => asked,
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> Option<()> {
        tokio::signal::ctrl_c().await.ok()
    }
}
