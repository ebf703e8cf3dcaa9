//! Watches the interfaces of this machine: by notices of the kernel, with a poll as fallback.

use std::{
    future::Future as _,
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::{Instant, Interval, interval_at},
};

use super::view::{Found, View};

/// Time between two views where the kernel announces changes.
const SAFETY_NET: Duration = Duration::from_secs(5);

/// Time between two views where it does not, and while a path is missing.
const POLL: Duration = Duration::from_secs(1);

/// Shortest time between two views. Routing tables of routers change all the time, and an address
/// and its route appear one after the other.
const SETTLE: Duration = Duration::from_millis(50);

/// Interfaces and ways to servers, read again whenever they may have changed.
pub(crate) struct InterfaceWatch {
    notices: Notices,
    tick: Interval,
    /// A view in progress, on a thread that may block.
    look: Option<JoinHandle<io::Result<View>>>,
    /// Another view is due.
    is_due: bool,
    /// Earliest time of the next view.
    not_before: Instant,
    found: Vec<Found>,
}

/// Result of a view.
pub(crate) struct Look {
    pub(crate) view: View,
    /// Addresses that have disappeared since the last view, or whose interface went down.
    pub(crate) lost: Vec<Found>,
}

impl InterfaceWatch {
    /// Creates a watch. Must be called within a runtime.
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        let (notices, tick) = (Notices::new(), interval_at(now + POLL, POLL));
        Self { notices, tick, look: None, is_due: true, not_before: now, found: Vec::new() }
    }

    /// Requests a view.
    pub(crate) fn refresh(&mut self) {
        self.is_due = true;
    }

    /// Returns the next view of the ways `to` servers, empty if there are no servers; wakes the
    /// task when there is another. The next view comes sooner if a path `is_missing`.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        to: impl Fn() -> Vec<SocketAddr>,
        is_missing: bool,
    ) -> Poll<Look> {
        loop {
            self.is_due |= self.notices.poll(cx);
            self.is_due |= self.tick.poll_tick(cx).is_ready();
            let view = match &mut self.look {
                Some(look) => match Pin::new(look).poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(view) => view.unwrap_or_else(|error| Err(io::Error::other(error))),
                },
                None if !self.is_due => return Poll::Pending,
                None if Instant::now() < self.not_before => {
                    self.tick.reset_at(self.not_before);
                    match self.tick.poll_tick(cx) {
                        Poll::Ready(_) => continue,
                        Poll::Pending => return Poll::Pending,
                    }
                }
                None => {
                    self.is_due = false;
                    let to = to();
                    if !to.is_empty() {
                        self.look = Some(spawn_blocking(move || View::of_system(&to)));
                        continue;
                    }
                    Ok(View::default())
                }
            };
            self.look = None;
            self.not_before = Instant::now() + SETTLE;
            let is_quiet = self.notices.are_announced() && !is_missing;
            self.tick.reset_after(if is_quiet { SAFETY_NET } else { POLL });
            match view {
                Ok(view) => {
                    let mut lost = std::mem::replace(&mut self.found, view.found.clone());
                    lost.retain(|before| before.is_running && !view.found.contains(before));
                    return Poll::Ready(Look { view, lost });
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

    /// Links; addresses and routes of both families; rules (`RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR`,
    /// `RTMGRP_IPV6_IFADDR`, `RTMGRP_IPV4_ROUTE`, `RTMGRP_IPV6_ROUTE`, `RTMGRP_IPV4_RULE` of
    /// rtnetlink(7), and `RTNLGRP_IPV6_RULE` as a bit).
    const GROUPS: u32 = 0x1 | 0x10 | 0x100 | 0x40 | 0x400 | 0x80 | 0x4_0000;

    /// Notices of the kernel, if this process may receive them. Android has not permitted it since
    /// version 11.
    pub(super) struct Notices(Option<AsyncFd<OwnedFd>>);

    impl Notices {
        pub(super) fn new() -> Self {
            let subscribed = subscribe().inspect_err(|error| {
                tracing::debug!(%error, "no notices of interfaces, they are polled");
            });
            Self(subscribed.ok())
        }

        /// `true` if the kernel announces changes.
        pub(super) fn are_announced(&self) -> bool {
            self.0.is_some()
        }

        /// Returns `true` if there are new notices; wakes the task when there are.
        pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> bool {
            let Some(file) = &self.0 else { return false };
            let mut changed = false;
            while let Poll::Ready(Ok(mut ready)) = file.poll_read_ready(cx) {
                // The change is looked up afterwards, so the beginning of a notice is enough.
                let mut notice = [0; 16];
                match ready.try_io(|file| Ok(recv(file, &mut notice[..], RecvFlags::TRUNC)?)) {
                    Ok(Ok(_)) => changed = true,
                    // The kernel dropped notices for lack of buffer space.
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
        // The protocol of interfaces and routes (`NETLINK_ROUTE`) is number 0, the default.
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
