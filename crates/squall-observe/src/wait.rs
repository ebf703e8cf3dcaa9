//! Resources that this machine lacks: addresses, interfaces and routes that may appear, and IPv6.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use crate::journal::{Journal, Kind};

/// Interval between two checks for a missing resource.
pub const POLL: Duration = Duration::from_secs(1);

/// Interval between two reports of the same missing resource.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// `true` if an address, an interface or a route does not exist, but may appear.
pub fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, HostUnreachable, NetworkDown, NetworkUnreachable};
    /// `ENODEV`, which has no [`io::ErrorKind`]: no interface, or no route to a group.
    const NO_DEVICE: i32 = 19;
    let no_device = cfg!(unix) && error.raw_os_error() == Some(NO_DEVICE);
    no_device || matches!(error.kind(), AddrNotAvailable | HostUnreachable | NetworkDown | NetworkUnreachable)
}

/// `true` if the system has no IPv6.
fn is_without_ipv6(address: SocketAddr, error: &io::Error) -> bool {
    #[cfg(unix)]
    let no_family = rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::AFNOSUPPORT);
    #[cfg(not(unix))]
    let no_family = false;
    address.is_ipv6() && no_family
}

/// Returns the address to use instead of `[::]`, which means all addresses, where the system has no
/// IPv6.
pub fn instead(address: SocketAddr, error: &io::Error) -> Option<SocketAddr> {
    let all = address.ip().is_unspecified() && is_without_ipv6(address, error);
    all.then(|| SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())))
}

/// Describes for messages why an address cannot be used.
pub fn problem(address: SocketAddr, error: &io::Error) -> String {
    if is_without_ipv6(address, error) {
        return "this machine has no IPv6: write an IPv4 address".to_owned();
    }
    match error.kind() {
        io::ErrorKind::AddrInUse => "address in use".to_owned(),
        io::ErrorKind::AddrNotAvailable => "no interface has this address".to_owned(),
        io::ErrorKind::NetworkUnreachable => "network unreachable".to_owned(),
        _ => error.to_string(),
    }
}

/// Reports of a missing resource: at once, and every minute.
#[derive(Debug, Default)]
pub struct Waiting(Option<(String, Instant)>);

impl Waiting {
    /// Reports a missing resource, unless the same one was reported within a minute.
    pub fn report(&mut self, journal: &Journal, kind: Kind, words: String) {
        let is_known = |(last, at): &(String, Instant)| *last == words && at.elapsed() < REPORT_INTERVAL;
        if !self.0.as_ref().is_some_and(is_known) {
            journal.warn(kind, words.clone());
            self.0 = Some((words, Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[cfg(unix)]
    #[test]
    fn all_addresses_of_a_machine_without_ipv6_are_those_of_ipv4() {
        let no_family = io::Error::from(rustix::io::Errno::AFNOSUPPORT);
        let at = |address: &str| address.parse::<SocketAddr>().expect("is an address");
        assert_eq!(instead(at("[::]:4433"), &no_family), Some(at("0.0.0.0:4433")));
        assert_eq!(instead(at("[::1]:4433"), &no_family), None);
        assert_eq!(problem(at("[::1]:4433"), &no_family), "this machine has no IPv6: write an IPv4 address");
        let in_use = io::Error::from(io::ErrorKind::AddrInUse);
        assert_eq!(instead(at("[::]:4433"), &in_use), None);
        assert_eq!(instead(at("0.0.0.0:4433"), &no_family), None);
    }

    #[test]
    fn what_is_waited_for_is_one_line() {
        let (journal, mut waiting) = (Journal::new(Clock::start()), Waiting::default());
        for words in ["no route", "no route", "no address", "no address"] {
            waiting.report(&journal, Kind::Flow, words.to_owned());
        }
        let lines: Vec<String> = journal.events().into_iter().map(|event| event.words).collect();
        assert_eq!(lines, ["no route", "no address"]);
        if let Some((_, at)) = &mut waiting.0 {
            *at -= REPORT_INTERVAL;
        }
        waiting.report(&journal, Kind::Flow, "no address".to_owned());
        assert_eq!(journal.events().len(), 3, "a minute later");
    }

    #[test]
    fn a_port_in_use_is_not_waited_for() {
        assert!(is_absent(&io::ErrorKind::AddrNotAvailable.into()));
        assert!(!is_absent(&io::ErrorKind::AddrInUse.into()));
        assert!(!is_absent(&io::ErrorKind::PermissionDenied.into()));
    }
}
