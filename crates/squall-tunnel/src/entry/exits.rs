//! Order of the exits that an entry connects to: those of its configuration in its own order, and
//! those that another exit recommends.
//!
//! The order is that of rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit rates",
//! 1998): every entry ranks all exits by a hash of its identity and the exit's name. Entries spread over the exits, each
//! stays at its own, and a missing exit moves only the entries that preferred it. Weights of SRV records are applied as in
//! Schindelhauer and Schomaker, "Weighted distributed hash tables", 2005 (the logarithmic method).

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Mutex,
    time::{Duration, Instant},
};

use ring::digest::{Context, SHA256};
use squall::Fingerprint;
use squall_observe::{clock::lock, machine::host_name};
use tokio::task::JoinSet;

use super::srv;
use crate::config::{Config, ConnectConfig, ExitAddress, TrustConfig};

/// Maximum time during which a draining exit is tried after all others.
const MAX_AVOIDED: Duration = Duration::from_secs(60);

/// An exit to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// `HOST:PORT`.
    pub(crate) host: String,
    /// Name that the certificate must have, if it is not the host.
    pub(crate) server_name: Option<String>,
    /// Fingerprint of the certificate, if each exit has its own.
    pub(crate) pin: Option<Fingerprint>,
    /// Narrowest permitted scope of its addresses. Set if only another exit names this one.
    pub(crate) least: Option<Scope>,
}

/// Scope of an address, narrowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    Machine,
    Link,
    /// A network that is not part of the internet.
    Site,
    Internet,
}

impl Scope {
    /// Returns the scope of an address; `None` if it is not the address of a host.
    pub(crate) fn of(address: IpAddr) -> Option<Self> {
        let address = address.to_canonical();
        if address.is_unspecified() || address.is_multicast() || address == IpAddr::V4(Ipv4Addr::BROADCAST) {
            return None;
        }
        let (is_link, is_site) = match address {
            IpAddr::V4(ip) => {
                let [first, second, ..] = ip.octets();
                // Shared address space (RFC 6598) and reserved addresses.
                let is_shared = first == 100 && second & 0xc0 == 64;
                (ip.is_link_local(), ip.is_private() || is_shared || first == 0 || first >= 240)
            }
            // Site-local addresses are deprecated and still routed (RFC 3879).
            IpAddr::V6(ip) => {
                (ip.is_unicast_link_local(), ip.is_unique_local() || ip.segments()[0] & 0xffc0 == 0xfec0)
            }
        };
        Some(match (address.is_loopback(), is_link, is_site) {
            (true, ..) => Self::Machine,
            (_, true, _) => Self::Link,
            (.., true) => Self::Site,
            _ => Self::Internet,
        })
    }
}

impl Candidate {
    pub(crate) fn of_host(host: &str) -> Self {
        Self { host: host.to_owned(), server_name: None, pin: None, least: None }
    }

    /// Filters the addresses of the host: those within the permitted scope.
    pub(crate) fn permitted(&self, found: impl IntoIterator<Item = SocketAddr>) -> Vec<SocketAddr> {
        let is_permitted = |address: &SocketAddr| {
            self.least.is_none_or(|least| Scope::of(address.ip()).is_some_and(|scope| scope >= least))
        };
        found.into_iter().filter(is_permitted).collect()
    }

    pub(crate) fn is_at(&self, host: &str) -> bool {
        self.host.eq_ignore_ascii_case(host)
    }

    /// `true` if the exit is from the SRV records of a domain.
    pub(crate) fn is_of(&self, domain: &str) -> bool {
        self.server_name.as_deref() == Some(domain)
    }
}

/// Exits of the names in a configuration, and errors of the names that have none.
pub(crate) type Found = (Vec<Candidate>, Vec<String>);

/// Returns the hosts of a configuration, the preferred one first.
pub(crate) fn hosts(config: &Config, connect: &ConnectConfig) -> Vec<Candidate> {
    let mut hosts = Vec::new();
    for (index, exit) in connect.to.iter().enumerate() {
        if let ExitAddress::Host(host) = exit {
            let pin = match &connect.trust {
                TrustConfig::Pins(pins) => pins.get(index).copied(),
                _ => None,
            };
            hosts.push((Candidate { host: host.clone(), server_name: None, pin, least: None }, 1));
        }
    }
    ranked(&identity(config, connect), hosts)
}

/// Looks up the exits of the SRV records of a configuration, all at the same time. Returns them in
/// the order of the names, and the names that cannot be resolved.
pub(crate) async fn of_names(config: &Config, connect: &ConnectConfig) -> Found {
    let mut lookups = JoinSet::new();
    for (index, exit) in connect.to.iter().enumerate() {
        let (ExitAddress::Srv(name), Some(domain)) = (exit, exit.domain()) else { continue };
        let (name, domain, shown) = (name.clone(), domain.to_owned(), exit.to_string());
        lookups.spawn(async move { (index, domain, shown, srv::lookup(&name).await) });
    }
    let mut answers = lookups.join_all().await;
    answers.sort_by_key(|(index, ..)| *index);
    let (identity, mut found, mut problems) = (identity(config, connect), Vec::new(), Vec::new());
    for (_, domain, name, answer) in answers {
        match answer {
            Ok(records) => found.extend(of_records(&identity, &domain, records)),
            Err(problem) => problems.push(format!("{name}: {problem}")),
        }
    }
    (found, problems)
}

/// Orders the exits of SRV records: by priority, and by weight within one priority (RFC 2782).
fn of_records(identity: &str, domain: &str, records: Vec<srv::Record>) -> Vec<Candidate> {
    let mut groups: BTreeMap<u16, Vec<_>> = BTreeMap::new();
    for srv::Record { priority, weight, host } in records {
        let candidate = Candidate { host, server_name: Some(domain.to_owned()), pin: None, least: None };
        groups.entry(priority).or_default().push((candidate, weight));
    }
    groups.into_values().flat_map(|group| ranked(identity, group)).collect()
}

/// Orders weighted exits for an entry.
fn ranked(identity: &str, exits: Vec<(Candidate, u16)>) -> Vec<Candidate> {
    let mut scored: Vec<_> =
        exits.into_iter().map(|(exit, weight)| (score(identity, &exit.host, weight), exit)).collect();
    scored.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    scored.into_iter().map(|(_, exit)| exit).collect()
}

/// Returns the score of an exit for an entry; the highest is preferred. The probability that an
/// exit is preferred is proportional to its weight; an exit of weight 0 has a very small one (RFC
/// 2782).
fn score(identity: &str, host: &str, weight: u16) -> f64 {
    let mut hash = Context::new(&SHA256);
    hash.update(&(identity.len() as u64).to_be_bytes());
    hash.update(identity.as_bytes());
    hash.update(host.to_ascii_lowercase().as_bytes());
    let bits = hash.finish().as_ref().first_chunk().map_or(0, |first| u64::from_be_bytes(*first));
    // Uniform in (0, 1), with the 53 bits that a float holds.
    let uniform = ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    f64::from(weight).max(0.001) / -uniform.ln()
}

/// Returns the identity that distinguishes an entry from others.
fn identity(config: &Config, connect: &ConnectConfig) -> String {
    if let Some(identity) = &connect.identity {
        return identity.clone();
    }
    let mut flows: Vec<String> = config.all_flows().into_iter().map(|flow| flow.name).collect();
    flows.sort_unstable();
    format!("{} {}", host_name(), flows.join(" "))
}

/// Returns the exits that a draining exit recommends, if the configuration of the entry trusts
/// them, and the untrusted hosts. Trusted are the exits that the configuration names, and every
/// host if exits are identified by a fingerprint or by a private authority. Authorities of the
/// system certify every host, so they do not suffice. An exit must not direct packets further
/// inside than its own network: a host that only another exit names is used at addresses of the
/// scope of that exit, or wider ones.
///
/// `None` while a recommended host may still be among the names being looked up, which provide the
/// name of its certificate.
pub(crate) fn trusted(
    connect: &ConnectConfig,
    known: &[Candidate],
    is_complete: bool,
    by: Option<IpAddr>,
    redirect: &[String],
) -> Option<(Vec<Candidate>, Vec<String>)> {
    let (mut trusted, mut others) = (Vec::new(), Vec::new());
    for host in redirect {
        let own = known.iter().find(|candidate| candidate.is_at(host)).cloned();
        if own.is_none() && !is_complete {
            return None;
        }
        let by_key = matches!(connect.trust, TrustConfig::Pin(_) | TrustConfig::Ca(_));
        let least = by.and_then(Scope::of).unwrap_or(Scope::Internet);
        let new = || by_key.then(|| Candidate { least: Some(least), ..Candidate::of_host(host) });
        match own.or_else(new) {
            Some(candidate) => trusted.push(candidate),
            None => others.push(host.clone()),
        }
    }
    Some((trusted, others))
}

/// Exits that are draining, with the time until which they are tried last.
#[derive(Debug, Default)]
pub(crate) struct Avoided(Mutex<HashMap<String, Instant>>);

impl Avoided {
    /// Records that an exit is draining, and ends after this time at the latest.
    pub(crate) fn add(&self, host: &str, left: Duration) {
        let mut avoided = lock(&self.0);
        let now = Instant::now();
        avoided.retain(|_, until| *until > now);
        avoided.insert(host.to_owned(), now + left.min(MAX_AVOIDED));
    }

    /// Moves draining exits to the end.
    pub(crate) fn sort(&self, candidates: &mut [Candidate]) {
        let (avoided, now) = (lock(&self.0), Instant::now());
        candidates.sort_by_key(|candidate| avoided.get(&candidate.host).is_some_and(|until| *until > now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(host: &str) -> Candidate {
        Candidate::of_host(host)
    }

    /// Returns the order of these exits for an entry.
    fn order(identity: &str, exits: &[(&str, u16)]) -> Vec<String> {
        let exits = exits.iter().map(|(host, weight)| (candidate(host), *weight)).collect();
        ranked(identity, exits).into_iter().map(|candidate| candidate.host).collect()
    }

    /// Counts, for each exit, the entries out of a thousand that prefer it.
    fn preferred(exits: &[(&str, u16)]) -> BTreeMap<String, u32> {
        let mut counts = BTreeMap::new();
        for entry in 0..1000 {
            *counts.entry(order(&format!("entry-{entry}"), exits)[0].clone()).or_default() += 1;
        }
        counts
    }

    #[test]
    fn entries_spread_and_only_those_of_a_missing_exit_move() {
        let all = [("a:1", 1), ("b:1", 1), ("c:1", 1), ("d:1", 1)];
        assert!(preferred(&all).values().all(|count| (200..300).contains(count)), "{:?}", preferred(&all));
        for entry in 0..1000 {
            let identity = format!("entry-{entry}");
            let mut before = order(&identity, &all);
            let reversed: Vec<_> = all.iter().rev().copied().collect();
            assert_eq!(order(&identity, &reversed), before, "the order of the list does not matter");
            before.retain(|host| host != "b:1");
            assert_eq!(order(&identity, &[all[0], all[2], all[3]]), before);
        }
    }

    #[test]
    fn weights_are_shares() {
        let counts = preferred(&[("a:1", 1), ("b:1", 3), ("c:1", 0)]);
        assert!((200..300).contains(&counts["a:1"]) && (700..800).contains(&counts["b:1"]), "{counts:?}");
        assert!(counts.get("c:1").is_none_or(|count| *count < 5), "{counts:?}");
        let counts = preferred(&[("a:1", 0), ("b:1", 0)]);
        assert!((400..600).contains(&counts["a:1"]), "equal if all have weight 0: {counts:?}");
    }

    #[test]
    fn records_of_a_lower_priority_number_come_first() {
        let record = |priority, host: &str| srv::Record { priority, weight: 1, host: host.to_owned() };
        for entry in 0..20 {
            let records = vec![record(2, "c:1"), record(1, "a:1"), record(1, "b:1")];
            let found = of_records(&format!("entry-{entry}"), "example.org", records);
            assert_eq!(found[2].host, "c:1");
            assert!(found.iter().all(|one| one.server_name.as_deref() == Some("example.org")));
        }
    }

    #[test]
    fn redirects_lead_to_trusted_exits_only() {
        let own = [candidate("a:1"), candidate("b:1")];
        let to = vec!["a:1".parse().expect("is right"), "b:1".parse().expect("is right")];
        let redirect = ["B:1".to_owned(), "evil:1".to_owned()];
        let hosts = |trust| {
            let connect = ConnectConfig::new(to.clone(), trust);
            assert_eq!(trusted(&connect, &own, false, None, &redirect), None, "one of them may be looked up");
            let (trusted, others) = trusted(&connect, &own, true, None, &redirect).expect("all are known");
            (trusted.into_iter().map(|one| one.host).collect::<Vec<_>>(), others)
        };
        let pin = Fingerprint([7; 32]);
        let only_own = (vec!["b:1".to_owned()], vec!["evil:1".to_owned()]);
        for trust in [TrustConfig::System, TrustConfig::Insecure, TrustConfig::Pins(vec![pin; 2])] {
            assert_eq!(hosts(trust), only_own);
        }
        let both = (vec!["b:1".to_owned(), "evil:1".to_owned()], Vec::new());
        assert_eq!(hosts(TrustConfig::Pin(pin)), both, "its certificate has to be that of the pin");
        assert_eq!(hosts(TrustConfig::Ca("ca.pem".into())), both);
    }

    #[test]
    fn redirects_do_not_lead_further_inside_than_the_exit_is() {
        let to = vec!["a:1".parse().expect("is right")];
        let connect = ConnectConfig::new(to, TrustConfig::Pin(Fingerprint([7; 32])));
        let scopes: [&[&str]; 4] = [
            &["127.0.0.1", "::1", "::ffff:127.0.0.9"],
            &["169.254.169.254", "fe80::1"],
            &["10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd00::1", "0.0.0.1"],
            &["203.0.113.1", "2001:db8::1", "100.128.0.1"],
        ];
        let all: Vec<SocketAddr> = scopes.concat().iter().map(|ip| (address(ip), 1).into()).collect();
        for (at, by) in scopes.iter().enumerate() {
            for by in *by {
                let redirect = ["new:1".to_owned(), "a:1".to_owned()];
                let own = [candidate("a:1")];
                let (found, _) = trusted(&connect, &own, true, Some(address(by)), &redirect).expect("known");
                let wider: Vec<SocketAddr> =
                    scopes[at..].concat().iter().map(|ip| (address(ip), 1).into()).collect();
                assert_eq!(found[0].permitted(all.clone()), wider, "by {by}");
                assert_eq!(found[1].permitted(all.clone()), all, "an exit of the configuration");
            }
        }
        for none in ["0.0.0.0", "255.255.255.255", "224.0.0.1", "ff02::1", "::"] {
            assert_eq!(Scope::of(address(none)), None, "{none}");
        }
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("is an address")
    }

    #[test]
    fn exits_that_drain_are_tried_last_for_a_while() {
        let avoided = Avoided::default();
        let mut all = [candidate("a:1"), candidate("b:1"), candidate("c:1")];
        avoided.add("a:1", Duration::from_secs(10));
        avoided.add("c:1", Duration::ZERO);
        avoided.sort(&mut all);
        assert_eq!(all.map(|one| one.host), ["b:1", "c:1", "a:1"]);
    }
}
