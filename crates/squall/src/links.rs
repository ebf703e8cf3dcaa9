//! Addresses that go: a cable is pulled, an access point is lost, an interface is shut down.

use std::task::Context;

use crate::interfaces::{self, Found};

/// The addresses of interfaces that pass packets, and the system's notices of changes.
pub(crate) struct Links {
    notices: Notices,
    known: Vec<Found>,
}

impl Links {
    /// From now on. The task is woken when something changes.
    pub(crate) fn new(cx: &mut Context<'_>) -> Self {
        let mut links = Self { notices: Notices::new(), known: Vec::new() };
        links.notices.poll(cx);
        links.known = interfaces::list_running().unwrap_or_default();
        links
    }

    /// The addresses that have gone since the last time, or whose interface has gone down.
    pub(crate) fn poll_lost(&mut self, cx: &mut Context<'_>) -> Vec<Found> {
        if !self.notices.poll(cx) {
            return Vec::new();
        }
        let Ok(found) = interfaces::list_running() else { return Vec::new() };
        let mut known = std::mem::replace(&mut self.known, found);
        known.retain(|before| !self.known.contains(before));
        known
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

    /// Notices of the kernel, where it lets this process have them; Android does not since version 11.
    pub(super) struct Notices(Option<AsyncFd<OwnedFd>>);

    impl Notices {
        pub(super) fn new() -> Self {
            let subscribed = subscribe().inspect_err(|error| {
                tracing::debug!(%error, "interfaces are looked over each second only");
            });
            Self(subscribed.ok())
        }

        /// Whether there are new ones; wakes the task when there are.
        pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> bool {
            let Some(file) = &self.0 else { return false };
            let mut changed = false;
            while let Poll::Ready(Ok(mut ready)) = file.poll_read_ready(cx) {
                // What has changed is looked up, so the beginning of a notice is enough.
                let mut notice = [0; 16];
                match ready.try_io(|file| Ok(recv(file, &mut notice[..], RecvFlags::TRUNC)?)) {
                    Ok(Ok(_)) => changed = true,
                    // More of them than the kernel keeps.
                    Ok(Err(error)) if Errno::from_io_error(&error) == Some(Errno::NOBUFS) => changed = true,
                    Ok(Err(error)) => {
                        tracing::debug!(%error, "interfaces are looked over each second only");
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

    fn poll(&mut self, _: &mut Context<'_>) -> bool {
        false
    }
}
