//! Watches the interfaces of this machine: the kernel's notices of changes, and a poll as a safety net.

use std::{
    future::Future as _,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::{Instant, Interval, interval_at},
};

use crate::interfaces::{self, Found};

/// Time between two looks where the kernel announces changes.
const SAFETY_NET: Duration = Duration::from_secs(5);

/// Time between two looks where it does not, and while a path is missing.
const POLL: Duration = Duration::from_secs(1);

/// The addresses of interfaces, read whenever they may have changed.
pub(crate) struct InterfaceWatch {
    notices: Notices,
    tick: Interval,
    /// A look that is under way, on a thread that may block.
    look: Option<JoinHandle<io::Result<Vec<Found>>>>,
    /// Whether another look is due.
    is_due: bool,
    found: Vec<Found>,
}

/// The addresses that a look has found.
pub(crate) struct Look {
    pub(crate) found: Vec<Found>,
    /// Those that are gone since the last look, or whose interface has gone down.
    pub(crate) lost: Vec<Found>,
}

impl InterfaceWatch {
    /// Must be called within a runtime.
    pub(crate) fn new() -> Self {
        let tick = interval_at(Instant::now() + POLL, POLL);
        Self { notices: Notices::new(), tick, look: None, is_due: true, found: Vec::new() }
    }

    /// Requests a look.
    pub(crate) fn refresh(&mut self) {
        self.is_due = true;
    }

    /// The outcome of a look, empty without `listing`; wakes the task when there is another. The next look is
    /// sooner if a path `is_missing`.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, listing: bool, is_missing: bool) -> Poll<Look> {
        loop {
            self.is_due |= self.notices.poll(cx);
            self.is_due |= self.tick.poll_tick(cx).is_ready();
            let found = match &mut self.look {
                Some(look) => match Pin::new(look).poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(found) => found.unwrap_or_else(|error| Err(io::Error::other(error))),
                },
                None if !self.is_due => return Poll::Pending,
                None => {
                    self.is_due = false;
                    if listing {
                        self.look = Some(spawn_blocking(interfaces::list));
                        continue;
                    }
                    Ok(Vec::new())
                }
            };
            self.look = None;
            let is_quiet = self.notices.are_announced() && !is_missing;
            self.tick.reset_after(if is_quiet { SAFETY_NET } else { POLL });
            match found {
                Ok(found) => {
                    let mut lost = std::mem::replace(&mut self.found, found.clone());
                    lost.retain(|before| before.is_running && !found.contains(before));
                    return Poll::Ready(Look { found, lost });
                }
                Err(error) => tracing::debug!(%error, "interfaces cannot be listed"),
            }
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
use kernel::Notices;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod kernel {
    use std::{
        io,
        os::fd::OwnedFd,
        task::{Context, Poll},
    };

    use rustix::{
        io::Errno,
        net::{
            AddressFamily, RecvFlags, SocketFlags, SocketType, bind, netlink::SocketAddrNetlink, recv,
            socket_with,
        },
    };
    use tokio::io::unix::AsyncFd;

    /// Links, and addresses of either family (`RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR`, `RTMGRP_IPV6_IFADDR` of rtnetlink(7)).
    const GROUPS: u32 = 0x1 | 0x10 | 0x100;

    /// Notices of the kernel, where this process may receive them; Android does not permit it since version 11.
    pub(super) struct Notices(Option<AsyncFd<OwnedFd>>);

    impl Notices {
        pub(super) fn new() -> Self {
            let subscribed = subscribe().inspect_err(|error| {
                tracing::debug!(%error, "no notices of interfaces, they are polled");
            });
            Self(subscribed.ok())
        }

        /// Whether the kernel announces changes.
        pub(super) fn are_announced(&self) -> bool {
            self.0.is_some()
        }

        /// Whether there are new ones; wakes the task when there are.
        pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> bool {
            let Some(file) = &self.0 else { return false };
            let mut changed = false;
            while let Poll::Ready(Ok(mut ready)) = file.poll_read_ready(cx) {
                // The change is looked up, so the beginning of a notice is enough.
                let mut notice = [0; 16];
                match ready.try_io(|file| Ok(recv(file, &mut notice[..], RecvFlags::TRUNC)?)) {
                    Ok(Ok(_)) => changed = true,
                    // More of them than the kernel keeps.
                    Ok(Err(error)) if Errno::from_io_error(&error) == Some(Errno::NOBUFS) => changed = true,
                    Ok(Err(error)) => {
                        tracing::debug!(%error, "no notices of interfaces, they are polled");
                        self.0 = None;
                        return true;
                    }
                    Err(_would_block) => {}
                }
            }
            changed
        }
    }

    fn subscribe() -> io::Result<AsyncFd<OwnedFd>> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        // The protocol of interfaces and routes is the first one, so none is named.
        let file = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&file, &SocketAddrNetlink::new(0, GROUPS))?;
        #[expect(deprecated, reason = "the file is owned here and never swapped; `register` is unsafe")]
        AsyncFd::new(file)
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
struct Notices;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl Notices {
    fn new() -> Self {
        Self
    }

    fn are_announced(&self) -> bool {
        false
    }

    fn poll(&mut self, _: &mut Context<'_>) -> bool {
        false
    }
}
