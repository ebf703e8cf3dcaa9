//! Owners of addresses, and selection of traffic classes.

use std::net::IpAddr;

use super::packet::Packet;
use crate::config::{Source, TrafficClass, TunAddress, TunConfig, TunPeer};

/// Owners of addresses, and rules of traffic classes.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    peers: Vec<TunPeer>,
    /// Addresses of the device, which no entry owns.
    own: Vec<IpAddr>,
    /// Networks whose first and last address belong to no host.
    links: Vec<Source>,
    is_entry: bool,
    config: TunConfig,
}

impl Table {
    pub(crate) fn new(config: &TunConfig, is_entry: bool) -> Self {
        let own = config.addresses.iter().map(|address| address.ip).collect();
        let links = config.addresses.iter().map(TunAddress::network).chain(config.behind.clone()).collect();
        Self { peers: config.owners(is_entry), own, links, is_entry, config: config.clone() }
    }

    /// Returns the entry that owns an address: that with the longest prefix.
    pub(crate) fn owner(&self, address: IpAddr) -> Option<usize> {
        if self.own.contains(&address) {
            return None;
        }
        let prefix = |peer: &TunPeer| {
            let networks = peer.addresses.iter().filter(|network| network.contains(address));
            networks.map(Source::prefix).max()
        };
        let owners = self.peers.iter().enumerate().filter_map(|(index, peer)| Some((prefix(peer)?, index)));
        owners.max_by_key(|(prefix, _)| *prefix).map(|(_, index)| index)
    }

    /// `true` if a packet must stay on its link: see [`Packet::is_of_the_link`], or a broadcast
    /// address of a network here.
    pub(crate) fn is_of_the_link(&self, packet: &Packet) -> bool {
        let is_edge = |ip| self.links.iter().any(|link| link.is_edge(ip));
        packet.is_of_the_link() || is_edge(packet.source) || is_edge(packet.destination)
    }

    /// `true` if a packet of a peer may leave the tunnel here. An entry accepts packets to itself
    /// and the networks behind it, an exit packets from the addresses of the peer.
    pub(crate) fn admits(&self, peer: &str, packet: &Packet) -> bool {
        let is_here = |ip| self.own.contains(&ip) || self.config.behind.iter().any(|one| one.contains(ip));
        let is_between = if self.is_entry {
            is_here(packet.destination) && !is_here(packet.source)
        } else {
            self.owns(peer, packet.source)
        };
        is_between && !self.is_of_the_link(packet)
    }

    /// `true` if the entry of this name owns an address.
    fn owns(&self, name: &str, address: IpAddr) -> bool {
        self.owner(address).is_some_and(|index| self.peers[index].name == name)
    }

    pub(crate) fn peers(&self) -> &[TunPeer] {
        &self.peers
    }

    /// Returns the traffic class of a packet.
    pub(crate) fn class(&self, packet: &Packet) -> TrafficClass {
        let fits = |(source, destination): (u16, u16)| {
            let rule = self.config.rules.iter().find(|rule| {
                let is_protocol = rule.protocol.is_none_or(|protocol| protocol == packet.protocol);
                is_protocol && (rule.ports.contains(&source) || rule.ports.contains(&destination))
            });
            rule.map(|rule| rule.class)
        };
        packet.ports.and_then(fits).unwrap_or_else(|| TrafficClass::of_dscp(packet.dscp))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;
    use crate::config::TunRule;

    fn table(peers: &[(&str, &[&str])]) -> Table {
        let peer = |(name, networks): &(&str, &[&str])| TunPeer {
            name: (*name).to_owned(),
            addresses: networks.iter().map(|one| one.parse().expect("is a network")).collect(),
            token: None,
        };
        let addresses = ["10.98.0.1/24", "fd98::1/64"].iter().map(|one| one.parse().expect("is right"));
        let mut config = TunConfig::new(addresses.collect());
        config.peers = peers.iter().map(peer).collect();
        let rule = |ports, protocol, class| TunRule { ports, protocol, class };
        config.rules =
            vec![rule(5000..=5009, Some(17), TrafficClass::Video), rule(22..=22, None, TrafficClass::Voice)];
        Table::new(&config, false)
    }

    #[test]
    fn an_address_belongs_to_the_entry_with_the_longest_prefix() {
        let table =
            table(&[("site", &["10.98.0.0/24", "192.168.0.0/16"]), ("car", &["10.98.0.7", "fd98::7"])]);
        let owner =
            |ip: &str| table.owner(ip.parse().expect("an address")).map(|at| table.peers()[at].name.as_str());
        assert_eq!(owner("10.98.0.7"), Some("car"));
        assert_eq!(owner("10.98.0.8"), Some("site"));
        assert_eq!(owner("192.168.7.1"), Some("site"));
        assert_eq!(owner("fd98::7"), Some("car"));
        assert_eq!(owner("fd98::8"), None);
        assert_eq!(owner("10.98.0.1"), None, "the exit's own address");
        assert!(table.owns("car", [10, 98, 0, 7].into()) && !table.owns("site", [10, 98, 0, 7].into()));
    }

    #[test]
    fn without_peers_one_entry_owns_the_networks_of_the_device() {
        let table = table(&[]);
        assert_eq!(table.owner([10, 98, 0, 2].into()), Some(0));
        assert_eq!(table.owner([10, 99, 0, 2].into()), None);
        assert_eq!(table.owner([10, 98, 0, 1].into()), None);
    }

    #[test]
    fn rules_come_before_code_points() {
        let table = table(&[]);
        let class = |dscp, protocol, ports| {
            let (source, destination) = ([10, 98, 0, 2].into(), [192, 0, 2, 1].into());
            table.class(&Packet { source, destination, dscp, protocol, ports })
        };
        assert_eq!(class(46, 17, Some((40_000, 5004))), TrafficClass::Video);
        assert_eq!(class(46, 6, Some((40_000, 5004))), TrafficClass::Voice, "the rule is for UDP");
        assert_eq!(class(0, 6, Some((22, 40_000))), TrafficClass::Voice);
        assert_eq!(class(8, 1, None), TrafficClass::Background);
        assert_eq!(class(0, 6, Some((443, 40_000))), TrafficClass::Default);
    }

    /// Returns the table of an entry with a network behind it.
    fn entry() -> Table {
        let mut config = TunConfig::parse("10.98.0.2/24,fd98::2/64").expect("is right");
        config.behind = ["192.168.7.0/24", "2001:db8:7::/48"].map(|one| one.parse().expect("right")).into();
        Table::new(&config, true)
    }

    fn admits(table: &Table, peer: &str, source: &str, destination: &str) -> bool {
        let ip = |text: &str| text.parse().expect("is an address");
        let (source, destination) = (ip(source), ip(destination));
        table.admits(peer, &Packet { source, destination, dscp: 0, protocol: 17, ports: None })
    }

    #[test]
    fn an_entry_takes_what_is_for_itself_and_the_networks_behind_it() {
        let table = entry();
        let admits = |source: &str, destination: &str| admits(&table, "tun", source, destination);
        for own in ["10.98.0.2", "192.168.7.9"] {
            assert!(admits("203.0.113.9", own) && admits("10.98.0.1", own), "{own}");
        }
        for own in ["fd98::2", "2001:db8:7::9"] {
            assert!(admits("2600::1", own) && admits("fd98::1", own), "{own}");
        }
        for (source, destination) in [
            ("fe80::bad", "ff02::1"),
            ("fe80::bad", "fd98::2"),
            ("2600::1", "ff02::1"),
            ("2600::1", "fe80::2"),
            ("2600::1", "::1"),
            ("::1", "fd98::2"),
            ("::", "fd98::2"),
            ("fd98::2", "fd98::2"),
            ("2001:db8:7::1", "fd98::2"),
            ("::ffff:10.98.0.1", "fd98::2"),
            ("2600::1", "::ffff:10.98.0.2"),
            ("2600::1", "fd98::3"),
            ("10.98.0.1", "224.0.0.251"),
            ("10.98.0.1", "255.255.255.255"),
            ("10.98.0.1", "10.98.0.255"),
            ("10.98.0.1", "10.98.0.0"),
            ("10.98.0.1", "192.168.7.255"),
            ("10.98.0.1", "10.98.0.3"),
            ("10.98.0.1", "10.88.1.2"),
            ("10.98.0.1", "127.0.0.1"),
            ("10.98.0.1", "169.254.0.1"),
            ("169.254.0.1", "10.98.0.2"),
            ("10.98.0.255", "10.98.0.2"),
            ("0.0.0.9", "10.98.0.2"),
            ("127.0.0.1", "10.98.0.2"),
            ("10.98.0.2", "10.98.0.2"),
            ("192.168.7.1", "10.98.0.2"),
        ] {
            assert!(!admits(source, destination), "{source} to {destination}");
        }
    }

    #[test]
    fn an_exit_takes_what_is_from_its_peer_and_not_for_a_link() {
        let table = table(&[("site", &["10.98.0.0/24", "fd98::/64"]), ("car", &["10.98.0.7"])]);
        let admits = |source: &str, destination: &str| admits(&table, "site", source, destination);
        for destination in ["10.98.0.1", "10.98.0.7", "203.0.113.9", "192.168.1.1"] {
            assert!(admits("10.98.0.2", destination), "{destination}");
        }
        assert!(admits("fd98::2", "fd98::1") && admits("fd98::2", "2600::1"));
        for (source, destination) in [
            ("10.98.0.2", "224.0.0.251"),
            ("10.98.0.2", "255.255.255.255"),
            ("10.98.0.2", "10.98.0.255"),
            ("10.98.0.2", "10.98.0.0"),
            ("10.98.0.2", "127.0.0.1"),
            ("10.98.0.2", "169.254.169.254"),
            ("10.98.0.0", "10.98.0.1"),
            ("10.98.0.255", "10.98.0.1"),
            ("10.98.0.1", "10.98.0.1"),
            ("10.98.0.7", "10.98.0.1"),
            ("8.8.8.8", "10.98.0.1"),
            ("fd98::2", "ff02::1"),
            ("fd98::2", "::1"),
            ("fd98::2", "fe80::1"),
            ("fd98::2", "::ffff:127.0.0.1"),
            ("::ffff:10.98.0.2", "fd98::1"),
            ("fe80::2", "fd98::1"),
            ("fd98::1", "fd98::1"),
        ] {
            assert!(!admits(source, destination), "{source} to {destination}");
        }
    }

    /// Generates addresses of both families: any, and near the edges of special ranges.
    fn address() -> impl Strategy<Value = IpAddr> {
        let special = "10.98.0.0 10.98.0.255 192.168.7.255 127.0.0.1 224.0.0.1 239.255.255.255 255.255.255.255 169.254.0.0 \
                       0.0.0.0 ff02::1 fe80:: febf::ffff ::1 :: ::ffff:10.98.0.2 fd98::2 2001:db8:7:: 10.98.0.1";
        let special: Vec<IpAddr> = special.split(' ').map(|ip| ip.parse().expect("is an address")).collect();
        let near = prop::sample::select(special).prop_flat_map(|ip| {
            (-2_i8..=2).prop_map(move |by| match ip {
                IpAddr::V4(ip) => Ipv4Addr::from_bits(ip.to_bits().wrapping_add_signed(by.into())).into(),
                IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits().wrapping_add_signed(by.into())).into(),
            })
        });
        let v4 = any::<u32>().prop_map(|bits| Ipv4Addr::from_bits(bits).into());
        let v6 = any::<u128>().prop_map(|bits| Ipv6Addr::from_bits(bits).into());
        prop_oneof![8 => near, 1 => v4, 1 => v6]
    }

    proptest! {
        #[test]
        fn no_packet_leaves_between_other_addresses(source in address(), destination in address()) {
            // Written with prefixes, unlike the filter.
            let within = |ip: IpAddr, nets: &[&str]| {
                nets.iter().any(|net| net.parse::<Source>().expect("is a network").contains(ip))
            };
            let is_special = |ip: IpAddr| {
                let mapped = matches!(ip, IpAddr::V6(ip) if ip.to_bits() >> 32 == 0xffff);
                let edges = ["10.98.0.0", "10.98.0.255"];
                let v4 = ["0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255"];
                mapped || within(ip, &edges) || within(ip, &v4) || within(ip, &["::/127", "fe80::/10", "ff00::/8"])
            };
            let packet = Packet { source, destination, dscp: 0, protocol: 17, ports: None };
            let inner = ["10.98.0.2", "fd98::2", "192.168.7.0/24", "2001:db8:7::/48"];
            let edges_behind = ["192.168.7.0", "192.168.7.255"];
            let plain = !is_special(source) && !is_special(destination);
            let behind = within(source, &edges_behind) || within(destination, &edges_behind);
            let expected = plain && !behind && within(destination, &inner) && !within(source, &inner);
            prop_assert_eq!(entry().admits("tun", &packet), expected);
            let owned = within(source, &["10.98.0.0/24", "fd98::/64"]) && !within(source, &["10.98.0.1", "fd98::1"]);
            prop_assert_eq!(table(&[]).admits("tun", &packet), plain && owned);
        }
    }
}
