//! Interfaces, stations and connections in nl80211, by the kernel's `include/uapi/linux/nl80211.h`.

use std::io;

use netlink_packet_core::DefaultNla;
use netlink_packet_generic::constants::{
    CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME, CTRL_ATTR_MCAST_GROUPS, CTRL_ATTR_MCAST_GRP_ID,
    CTRL_ATTR_MCAST_GRP_NAME, CTRL_CMD_GETFAMILY, GENL_ID_CTRL,
};

use super::netlink::{Message, Queries, Wire, attributes, number};

/// NL80211_CMD_*.
pub(super) mod command {
    pub(in crate::wifi) const GET_INTERFACE: u8 = 5;
    pub(in crate::wifi) const GET_STATION: u8 = 17;
    pub(in crate::wifi) const DEAUTHENTICATE: u8 = 39;
    pub(in crate::wifi) const DISASSOCIATE: u8 = 40;
    pub(in crate::wifi) const CONNECT: u8 = 46;
    pub(in crate::wifi) const ROAM: u8 = 47;
    pub(in crate::wifi) const DISCONNECT: u8 = 48;
}

/// NL80211_ATTR_*.
pub(super) mod attribute {
    pub(in crate::wifi) const IFINDEX: u16 = 3;
    pub(in crate::wifi) const IFNAME: u16 = 4;
    pub(in crate::wifi) const IFTYPE: u16 = 5;
    pub(in crate::wifi) const STA_INFO: u16 = 21;
}

/// NL80211_STA_INFO_*.
pub(super) mod info {
    pub(in crate::wifi) const SIGNAL: u16 = 7;
    pub(in crate::wifi) const SIGNAL_AVG: u16 = 13;
    pub(in crate::wifi) const STA_FLAGS: u16 = 17;
    pub(in crate::wifi) const BEACON_LOSS: u16 = 18;
    pub(in crate::wifi) const BEACON_SIGNAL_AVG: u16 = 30;
}

/// NL80211_STA_FLAG_*, as bits.
const FLAG_TDLS_PEER: u32 = 1 << 6;
const FLAG_ASSOCIATED: u32 = 1 << 7;

/// NL80211_IFTYPE_* of interfaces that connect to an access point.
const IFTYPE_STATION: u32 = 2;
const IFTYPE_P2P_CLIENT: u32 = 8;

/// NL80211_GENL_NAME and NL80211_MULTICAST_GROUP_MLME.
const FAMILY: &str = "nl80211";
const MLME: &str = "mlme";

/// The numbers that the kernel has assigned to nl80211.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Family {
    pub(super) id: u16,
    /// Multicast group of connection events; old kernels have none.
    pub(super) mlme: Option<u32>,
}

impl Family {
    /// Queries the numbers. `NotFound` if the kernel has no nl80211.
    pub(super) fn query<W: Wire>(queries: &mut Queries<W>) -> io::Result<Self> {
        let name = DefaultNla::new(CTRL_ATTR_FAMILY_NAME, nul_terminated(FAMILY));
        let mut family = None;
        queries.query(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, false, &[name], |message| {
            family = family.or_else(|| Self::parse(message.body));
        })?;
        family.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let (mut id, mut mlme) = (None, None);
        for (kind, value) in attributes(body) {
            match kind {
                CTRL_ATTR_FAMILY_ID => id = number(value).and_then(|id| u16::try_from(id).ok()),
                // A list of groups, each a list of name and number.
                CTRL_ATTR_MCAST_GROUPS => mlme = attributes(value).find_map(|(_, group)| mlme_group(group)),
                _ => {}
            }
        }
        Some(Self { id: id?, mlme })
    }
}

fn mlme_group(group: &[u8]) -> Option<u32> {
    let find = |wanted| attributes(group).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    (find(CTRL_ATTR_MCAST_GRP_NAME).and_then(text)? == MLME).then_some(())?;
    find(CTRL_ATTR_MCAST_GRP_ID).and_then(number)
}

/// A Wi-Fi interface.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Interface {
    pub(super) index: u32,
    pub(super) name: String,
    /// It connects to an access point, rather than being one.
    pub(super) is_client: bool,
}

impl Interface {
    /// Queries all interfaces.
    pub(super) fn query<W: Wire>(queries: &mut Queries<W>, family: &Family) -> io::Result<Vec<Self>> {
        let mut all = Vec::new();
        queries.query(family.id, command::GET_INTERFACE, true, &[], |message| {
            all.extend(Self::parse(message.body));
        })?;
        Ok(all)
    }

    /// Parses an interface. `None` for devices that are no network interfaces, such as that of P2P.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let (mut index, mut name, mut kind) = (None, None, None);
        for (attribute, value) in attributes(body) {
            match attribute {
                attribute::IFINDEX => index = number(value),
                attribute::IFNAME => name = text(value).map(str::to_owned),
                attribute::IFTYPE => kind = number(value),
                _ => {}
            }
        }
        let is_client = matches!(kind, Some(IFTYPE_STATION | IFTYPE_P2P_CLIENT));
        Some(Self { index: index?, name: name?, is_client })
    }
}

/// The access point that an interface is connected to, as the kernel reports it. Levels are in dBm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Station {
    /// Level of the last frame.
    pub signal: Option<i8>,
    /// Level of frames, averaged by the driver.
    pub signal_avg: Option<i8>,
    /// Level of beacons, averaged by the driver.
    pub beacon_signal_avg: Option<i8>,
    /// Number of missed beacons since the connection began.
    pub beacon_loss: Option<u32>,
}

impl Station {
    /// Queries the access point of an interface; `None` if it is not associated with one.
    pub(super) fn query<W: Wire>(
        queries: &mut Queries<W>,
        family: &Family,
        index: u32,
    ) -> io::Result<Option<Self>> {
        let interface = DefaultNla::new(attribute::IFINDEX, index.to_ne_bytes().to_vec());
        let mut found = None;
        queries.query(family.id, command::GET_STATION, true, &[interface], |message| {
            found = found.or_else(|| Self::parse(message.body));
        })?;
        Ok(found)
    }

    /// Parses a station. `None` for stations that are not our access point: peers of a direct link,
    /// and those that we are not associated with.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let (_, nested) = attributes(body).find(|(kind, _)| *kind == attribute::STA_INFO)?;
        let mut station = Self::default();
        for (kind, value) in attributes(nested) {
            let level = || value.first().map(|byte| byte.cast_signed());
            match kind {
                info::SIGNAL => station.signal = level(),
                info::SIGNAL_AVG => station.signal_avg = level(),
                info::BEACON_SIGNAL_AVG => station.beacon_signal_avg = level(),
                info::BEACON_LOSS => station.beacon_loss = number(value),
                info::STA_FLAGS if !is_access_point(value) => return None,
                _ => {}
            }
        }
        Some(station)
    }

    /// Returns the level for readings: of the last frame, or else an average. Drivers without one
    /// report 0.
    pub(super) fn level(&self) -> Option<f64> {
        let levels = [self.signal, self.beacon_signal_avg, self.signal_avg];
        levels.into_iter().flatten().find(|level| *level < 0).map(f64::from)
    }
}

/// Parses `struct nl80211_sta_flag_update`: the mask of valid flags, and their values.
fn is_access_point(flags: &[u8]) -> bool {
    let Some((mask, rest)) = flags.split_first_chunk() else { return true };
    let Some(set) = rest.first_chunk() else { return true };
    let (mask, set) = (u32::from_ne_bytes(*mask), u32::from_ne_bytes(*set));
    mask & set & FLAG_TDLS_PEER == 0 && (mask & FLAG_ASSOCIATED == 0 || set & FLAG_ASSOCIATED != 0)
}

/// An event of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The connection ended.
    Disconnected,
    /// The connection may have begun, moved or ended: the state must be queried.
    Changed,
}

impl Event {
    /// Returns the event that a message of the group `mlme` reports about an interface; `None` if
    /// there is none.
    pub(super) fn parse(family: &Family, message: &Message<'_>, index: u32) -> Option<Self> {
        let concerns =
            |(kind, value): (u16, &[u8])| kind == attribute::IFINDEX && number(value) == Some(index);
        if message.family != family.id || !attributes(message.body).any(concerns) {
            return None;
        }
        match message.command {
            command::DISCONNECT => Some(Self::Disconnected),
            // It may concern the previous access point, so the state is queried.
            command::DEAUTHENTICATE | command::DISASSOCIATE | command::CONNECT | command::ROAM => {
                Some(Self::Changed)
            }
            _ => None,
        }
    }
}

fn nul_terminated(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

/// Returns the text before the terminating byte 0.
fn text(value: &[u8]) -> Option<&str> {
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    std::str::from_utf8(&value[..end]).ok()
}
