//! Recent connection attempts by network, and authorised networks, which decide what is dropped
//! when too many connect.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::{Duration, Instant},
};

/// Half-life of a count.
const HALF: Duration = Duration::from_secs(10);

/// Largest number of networks that are counted, of all sizes: 64 bytes each.
const MOST_COUNTED: usize = 4096;

/// Largest number of networks that are remembered as authorised.
const MOST_KNOWN: usize = 1024;

/// Prefix lengths of the networks of an IPv4 address, each with the number of hosts whose attempts
/// it may make at the count of one. A network of half a dozen neighbours has a /24.
const V4: [(u32, u32); 2] = [(32, 1), (24, 8)];
/// Prefix lengths of the networks of an IPv6 address, with their numbers of hosts. A customer gets
/// a /56 or a /48 as easily as a /64.
const V6: [(u32, u32); 3] = [(64, 1), (56, 8), (48, 64)];

/// Attempts of all workers.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    counts: HashMap<(IpAddr, u32), (u32, Instant)>,
    known: HashMap<IpAddr, Instant>,
}

impl Attempts {
    /// Counts a handshake that a host begins.
    pub(crate) fn count(&mut self, now: Instant, address: IpAddr) {
        if self.counts.len() + V6.len() > MOST_COUNTED {
            self.counts.retain(|_, count| left(*count, now) > 1);
        }
        // More concurrent networks than can be counted.
        if self.counts.len() + V6.len() > MOST_COUNTED {
            self.counts.clear();
        }
        for (network, _) in networks(address) {
            let count = self.counts.entry(network).or_insert((0, now));
            *count = (left(*count, now).saturating_add(1), now);
        }
    }

    /// Records an authorised session from this address.
    pub(crate) fn authorised(&mut self, now: Instant, address: IpAddr) {
        self.known.insert(host_network(address), now);
        if self.known.len() > MOST_KNOWN
            && let Some(oldest) = self.known.iter().min_by_key(|(_, at)| **at).map(|(network, _)| *network)
        {
            self.known.remove(&oldest);
        }
    }

    /// Returns `true` if a recent session from this address was authorised.
    pub(crate) fn is_known(&self, address: IpAddr) -> bool {
        self.known.contains_key(&host_network(address))
    }

    /// Returns the number of recent attempts from this address: those of the host, or of its share
    /// of a larger network.
    pub(crate) fn from(&self, now: Instant, address: IpAddr) -> u32 {
        let counts = networks(address)
            .map(|(network, hosts)| self.counts.get(&network).map_or(0, |count| left(*count, now) / hosts));
        counts.max().unwrap_or(0)
    }
}

/// Returns the network from which one host can take its addresses: an IPv4 address, or the first 64
/// bits of an IPv6 one. Limits per host count by it.
pub fn host_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

/// Returns the rest of a count after its decay.
fn left((count, since): (u32, Instant), now: Instant) -> u32 {
    let halvings = now.saturating_duration_since(since).as_secs() / HALF.as_secs();
    count.checked_shr(halvings as u32).unwrap_or(0)
}

/// Returns the networks of an address, each with the number of hosts that it may be.
fn networks(address: IpAddr) -> impl Iterator<Item = ((IpAddr, u32), u32)> {
    let address = address.to_canonical();
    let (sizes, all): (&[_], _) = if address.is_ipv4() { (&V4, 32) } else { (&V6, 128) };
    sizes.iter().map(move |(bits, hosts)| {
        let beyond = all - bits;
        let network = match address {
            IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() >> beyond << beyond).into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> beyond << beyond).into(),
        };
        ((network, *bits), *hosts)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("is one")
    }

    #[test]
    fn a_host_has_one_network() {
        let same = ["2001:db8:1:2::1", "2001:db8:1:2:ffff::9"].map(|one| host_network(one.parse().unwrap()));
        assert_eq!(same[0], same[1]);
        assert_ne!(same[0], host_network("2001:db8:1:3::1".parse().unwrap()));
        assert_eq!(host_network("::ffff:10.0.0.1".parse().unwrap()), address("10.0.0.1"));
        assert_ne!(host_network(address("10.0.0.1")), host_network(address("10.0.0.2")));
    }

    #[test]
    fn attempts_count_for_the_host_and_its_networks() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        for n in 0..128 {
            attempts.count(now, address(&format!("2001:db8:0:{n:x}::1")));
        }
        let [same, site, other] = ["2001:db8:0:5::9", "2001:db8:0:ff00::1", "2001:db8:1::1"].map(address);
        assert_eq!([same, site, other].map(|one| attempts.from(now, one)), [16, 2, 0]);
        for _ in 0..5 {
            attempts.count(now, address("::ffff:192.0.2.1"));
        }
        let v4 = ["192.0.2.1", "192.0.2.2"].map(|one| attempts.from(now, address(one)));
        assert_eq!(v4, [5, 0]);
        assert_eq!(attempts.from(now + 2 * HALF, address("192.0.2.1")), 1);
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        for n in 0..20_000_u32 {
            let host = IpAddr::from(Ipv4Addr::from_bits(n << 8));
            attempts.count(now, host);
            attempts.authorised(now + Duration::from_secs(n.into()), host);
            assert!(attempts.counts.len() <= MOST_COUNTED && attempts.known.len() <= MOST_KNOWN);
        }
        assert!(attempts.is_known(IpAddr::from(Ipv4Addr::from_bits(19_999 << 8))));
    }
}
