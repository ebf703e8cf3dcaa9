//! Counters of wrong tokens, which lock a host out temporarily.

use std::{collections::HashMap, net::IpAddr, sync::Mutex};

use squall_observe::clock::lock;
use squall_units::{Span, Time};

/// Number of wrong tokens of a host within [`WINDOW`] after which it has to wait.
const TRIES: u32 = 10;

/// Time for which a wrong token counts.
const WINDOW: Span = Span::from_secs(60);

/// Maximum number of hosts with a count; beyond it, the host with the oldest window is dropped.
const MAX_HOSTS: usize = 1024;

/// Wrong tokens per host and minute.
#[derive(Debug, Default)]
pub(crate) struct TokenFailures {
    /// Start of the window of each host, and its wrong tokens since.
    hosts: Mutex<HashMap<IpAddr, (Time, u32)>>,
}

impl TokenFailures {
    /// Counts a wrong token of a host. Returns `true` if the host may present another one now.
    pub(crate) fn count(&self, address: IpAddr, now: Time) -> bool {
        let host = squall_proto::host_network(address);
        let mut hosts = lock(&self.hosts);
        hosts.retain(|_, (begun, _)| now - *begun < WINDOW);
        if hosts.len() >= MAX_HOSTS && !hosts.contains_key(&host) {
            let oldest = hosts.iter().min_by_key(|(_, (begun, _))| *begun).map(|(host, _)| *host);
            oldest.map(|oldest| hosts.remove(&oldest));
        }
        let (_, count) = hosts.entry(host).or_insert((now, 0));
        *count = count.saturating_add(1);
        *count <= TRIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(last: u32) -> IpAddr {
        IpAddr::from((0x0a00_0000 + last).to_be_bytes())
    }

    #[test]
    fn wrong_tokens_are_counted_by_host_and_minute() {
        let failures = TokenFailures::default();
        for _ in 0..TRIES {
            assert!(failures.count(host(1), Time::EPOCH));
        }
        assert!(!failures.count(host(1), Time::EPOCH + WINDOW - Span::TICK));
        assert!(failures.count(host(2), Time::EPOCH));
        assert!(failures.count(host(1), Time::EPOCH + WINDOW));
    }

    #[test]
    fn memory_is_bounded() {
        let failures = TokenFailures::default();
        for last in 0..3000 {
            failures.count(host(last), Time::from_micros(last.into()));
        }
        assert_eq!(lock(&failures.hosts).len(), MAX_HOSTS);
    }
}
