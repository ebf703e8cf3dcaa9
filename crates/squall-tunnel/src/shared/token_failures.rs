//! Wrong tokens of peers, after a number of which their host has to wait.

use std::{collections::HashMap, net::IpAddr, sync::Mutex};

use squall_observe::clock::lock;
use squall_units::Micros;

/// Wrong tokens of a host within [`WINDOW`] before it has to wait.
const TRIES: u32 = 10;

/// Time for which a wrong token counts, in microseconds.
const WINDOW: Micros = 60_000_000;

/// Hosts with a count; beyond that, the host whose window is the oldest is dropped.
const MAX_HOSTS: usize = 1024;

/// Wrong tokens per host and minute.
#[derive(Debug, Default)]
pub(crate) struct TokenFailures {
    /// Start of the window of a host, and its wrong tokens since.
    hosts: Mutex<HashMap<IpAddr, (Micros, u32)>>,
}

impl TokenFailures {
    /// Counts a wrong token of a host. Returns whether the host may present another one now.
    pub(crate) fn count(&self, address: IpAddr, now: Micros) -> bool {
        let host = squall_proto::host_network(address);
        let mut hosts = lock(&self.hosts);
        hosts.retain(|_, (begun, _)| now.saturating_sub(*begun) < WINDOW);
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
            assert!(failures.count(host(1), 0));
        }
        assert!(!failures.count(host(1), WINDOW - 1));
        assert!(failures.count(host(2), 0));
        assert!(failures.count(host(1), WINDOW));
    }

    #[test]
    fn memory_is_bounded() {
        let failures = TokenFailures::default();
        for last in 0..3000 {
            failures.count(host(last), u64::from(last));
        }
        assert_eq!(lock(&failures.hosts).len(), MAX_HOSTS);
    }
}
