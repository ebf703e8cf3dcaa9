//! Which entry owns an address, and which traffic class a packet takes.

use std::net::IpAddr;

use super::packet::Packet;
use crate::config::{Source, TrafficClass, TunConfig, TunPeer};

/// The owners of addresses, and the rules of traffic classes.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    peers: Vec<TunPeer>,
    /// Addresses of the device, which no entry owns.
    own: Vec<IpAddr>,
    config: TunConfig,
}

impl Table {
    pub(crate) fn new(config: &TunConfig, is_entry: bool) -> Self {
        let own = config.addresses.iter().map(|address| address.ip).collect();
        Self { peers: config.owners(is_entry), own, config: config.clone() }
    }

    /// The entry that owns an address: the one with the longest prefix.
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

    /// Whether the entry of this name owns an address.
    pub(crate) fn owns(&self, name: &str, address: IpAddr) -> bool {
        self.owner(address).is_some_and(|index| self.peers[index].name == name)
    }

    pub(crate) fn peers(&self) -> &[TunPeer] {
        &self.peers
    }

    /// The traffic class of a packet.
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
}
