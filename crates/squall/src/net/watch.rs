//! Watches the interfaces of this machine: the kernel's notices of changes, and a poll as a safety net.

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

/// Time between two looks where the kernel announces changes.
const SAFETY_NET: Duration = Duration::from_secs(5);

/// Time between two looks where it does not, and while a path is missing.
const POLL: Duration = Duration::from_secs(1);

/// Least time between two looks: a router's table may change all the time, and an address and its route come one after the other.
const SETTLE: Duration = Duration::from_millis(50);

/// Interfaces and ways to servers, looked up whenever they may have changed.
pub(crate) struct InterfaceWatch {
    notices: Notices,
    tick: Interval,
    /// A look that is under way, on a thread that may block.
    look: Option<JoinHandle<io::Result<View>>>,
    /// Whether another look is due.
    is_due: bool,
    /// When it may begin.
    not_before: Instant,
    found: Vec<Found>,
}

/// What a look has found.
pub(crate) struct Look {
    pub(crate) view: View,
    /// The addresses that are gone since the last look, or whose interface has gone down.
    pub(crate) lost: Vec<Found>,
}

impl InterfaceWatch {
    /// Must be called within a runtime.
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        let (notices, tick) = (Notices::new(), interval_at(now + POLL, POLL));
        Self { notices, tick, look: None, is_due: true, not_before: now, found: Vec::new() }
    }

    /// Requests a look.
    pub(crate) fn refresh(&mut self) {
        self.is_due = true;
    }

    /// The outcome of a look for the ways `to` servers, empty without any; wakes the task when there is another. The next look
    /// is sooner if a path `is_missing`.
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

    /// Links, and of either family addresses, routes and rules (`RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR`, `RTMGRP_IPV6_IFADDR`,
    /// `RTMGRP_IPV4_ROUTE`, `RTMGRP_IPV6_ROUTE`, `RTMGRP_IPV4_RULE` of rtnetlink(7), and `RTNLGRP_IPV6_RULE` as a bit).
    const GROUPS: u32 = 0x1 | 0x10 | 0x100 | 0x40 | 0x400 | 0x80 | 0x4_0000;

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
