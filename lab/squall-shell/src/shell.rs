//! Assembly of a shell: two sides and the links between them.

use std::{ops::RangeInclusive, path::Path, sync::Arc};

use squall_net::{Live, Network, PathConfig};
use tun_rs::SyncDevice;

use crate::{
    address::{Addresses, Family, MAX_PATHS},
    device,
    error::ShellError,
    logs::Logs,
    ports::{Devices, Packet},
    radios::{self, Radios, ReportFiles},
    report::ShellReport,
    side::Side,
    wiring::{self, Interface},
};

/// MTUs that an interface can have: from the minimum of IPv4 (RFC 791) to the maximum of a TUN
/// device.
const MTUS: RangeInclusive<u64> = 68..=65_535;

/// Minimum MTU of IPv6 (RFC 8200 §5).
const LEAST_OF_IPV6: u64 = 1_280;

/// Both sides with all devices, addresses and routes; no packet passes between them yet.
pub struct Prepared {
    families: &'static [Family],
    sides: Sides,
    network: Network<Packet>,
    devices: Vec<(SyncDevice, SyncDevice)>,
    paths: Vec<PathConfig>,
    radios: Option<ReportFiles>,
}

/// Running links. Dropping it stops them and kills all programs on both sides.
#[derive(Debug)]
pub struct Shell {
    logs: Option<Logs>,
    #[expect(dead_code, reason = "it writes the reports of the radios until it is dropped")]
    radios: Option<Radios>,
    live: Arc<Live<Packet>>,
    sides: Sides,
}

#[derive(Debug)]
struct Sides {
    client: Side,
    server: Side,
    /// Interfaces of the client and of the server, by path.
    interfaces: Vec<[Interface; 2]>,
}

impl Prepared {
    /// Creates both sides, with IPv4 and IPv6 addresses. They have no IPv6 if an MTU is below 1,280
    /// bytes or if the system has none; see [`families`](Self::families). Files that the paths name
    /// must have been [loaded](PathConfig::load), and the right to create namespaces must have been
    /// [acquired](crate::acquire).
    ///
    /// # Errors
    ///
    /// If the links cannot be built, or if the system refuses.
    pub fn new(paths: &[PathConfig], seed: u64) -> Result<Self, ShellError> {
        Self::with(paths, seed, false)
    }

    /// Creates both sides with IPv6 addresses only; otherwise like [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// Errors of [`new`](Self::new); also if an MTU is below 1,280 bytes, or if the system has no
    /// IPv6.
    pub fn over_ipv6(paths: &[PathConfig], seed: u64) -> Result<Self, ShellError> {
        Self::with(paths, seed, true)
    }

    fn with(paths: &[PathConfig], seed: u64, only_ipv6: bool) -> Result<Self, ShellError> {
        if paths.is_empty() || paths.len() > MAX_PATHS {
            return Err(ShellError::Count(paths.len()));
        }
        let network = Network::new(paths, seed)?;
        let mtus = |path: &PathConfig| [path.up.mtu.bytes(), path.down.mtu.bytes()];
        let mtu_that = |is_wrong: &dyn Fn(u64) -> bool| {
            let all = paths.iter().enumerate().flat_map(|(index, path)| mtus(path).map(|mtu| (index, mtu)));
            all.into_iter()
                .find(|(_, mtu)| is_wrong(*mtu))
                .map(|(index, mtu)| (network.name(index).to_owned(), mtu))
        };
        if let Some((name, mtu)) = mtu_that(&|mtu| !MTUS.contains(&mtu)) {
            return Err(ShellError::Mtu { name, mtu });
        }
        let too_narrow = mtu_that(&|mtu| mtu < LEAST_OF_IPV6);
        let (client, server) = (Side::open("client")?, Side::open("server")?);
        let has_ipv6 = client.within(wiring::settle) && server.within(wiring::settle);
        let families: &'static [Family] = match (only_ipv6, too_narrow) {
            (true, Some((name, mtu))) => return Err(ShellError::MtuForIpv6 { name, mtu }),
            (true, None) if !has_ipv6 => return Err(ShellError::NoIpv6),
            (true, None) => &[Family::V6],
            (false, None) if has_ipv6 => &[Family::V4, Family::V6],
            (false, _) => &[Family::V4],
        };
        radios::tidy();
        let names = interface_names((0..paths.len()).map(|path| network.name(path)));
        let interfaces: Vec<[Interface; 2]> = names
            .into_iter()
            .zip(paths)
            .enumerate()
            .map(|(index, (name, path))| {
                let end = |mtu: u64| Interface {
                    name: name.clone(),
                    addresses: Addresses::of(index),
                    families,
                    mtu: u32::try_from(mtu).unwrap_or(u32::MAX),
                };
                [end(path.up.mtu.bytes()), end(path.down.mtu.bytes())]
            })
            .collect();
        let ends = |end: usize| interfaces.iter().map(|both| both[end].clone()).collect::<Vec<_>>();
        let at_client = equip(&client, ends(0), wiring::wire_client)?;
        let at_server = equip(&server, ends(1), wiring::wire_server)?;
        let devices = at_client.into_iter().zip(at_server).collect();
        let reporting: Vec<&str> = interfaces
            .iter()
            .zip(paths)
            .map(|([client, _], path)| if path.radio.is_some() { client.name.as_str() } else { "" })
            .collect();
        let has_radio = reporting.iter().any(|name| !name.is_empty());
        let radios = has_radio.then(|| ReportFiles::prepare(&reporting)).transpose()?;
        let sides = Sides { client, server, interfaces };
        Ok(Self { families, sides, network, devices, paths: paths.to_vec(), radios })
    }

    /// Returns the names of the paths' interfaces, which are the same on both sides.
    pub fn interfaces(&self) -> Vec<String> {
        self.sides.interfaces.iter().map(|[client, _]| client.name.clone()).collect()
    }

    /// Returns the versions of IP of which both sides have addresses, IPv4 first.
    pub fn families(&self) -> &'static [Family] {
        self.families
    }

    /// Returns the folder with a file for each interface whose path has a radio, to which the
    /// radio's reports are written; see [`external`](squall_signal::external). `None` if no path
    /// has a radio.
    pub fn radios(&self) -> Option<&Path> {
        self.radios.as_ref().map(ReportFiles::folder)
    }

    /// Returns the server's side, whose program may start before the links do.
    pub fn server(&self) -> &Side {
        &self.sides.server
    }

    /// Starts the links: time 0 of the paths' events is now. With a folder for `logs`, each
    /// direction of each path is logged there packet by packet; see `docs/shell.md`.
    ///
    /// # Errors
    ///
    /// If the logs cannot be written, or the system is out of threads.
    pub fn start(self, logs: Option<&Path>) -> Result<Shell, ShellError> {
        let names = self.interfaces();
        let ports = Devices::new(self.devices);
        let live = Arc::new(Live::start(self.network, ports, "squall-links")?);
        let logs = logs.map(|folder| Logs::start(folder, &self.paths, &names, live.clone())).transpose()?;
        let radios = self.radios.map(|files| Radios::start(files, live.clone())).transpose()?;
        Ok(Shell { logs, radios, live, sides: self.sides })
    }
}

impl Shell {
    /// Returns the client's side.
    pub fn client(&self) -> &Side {
        &self.sides.client
    }

    /// Returns the server's side.
    pub fn server(&self) -> &Side {
        &self.sides.server
    }

    /// Returns the counters so far.
    ///
    /// # Errors
    ///
    /// If the kernel does not report its drops.
    pub fn report(&self) -> Result<ShellReport, ShellError> {
        let Sides { client, server, interfaces } = &self.sides;
        let ends = |end: usize| interfaces.iter().map(|both| both[end].clone()).collect::<Vec<_>>();
        let (at_client, at_server) = (ends(0), ends(1));
        let overruns = client.within(move || wiring::overruns("client", &at_client))?
            + server.within(move || wiring::overruns("server", &at_server))?;
        Ok(ShellReport { live: self.live.report(), overruns })
    }

    /// Writes the rest of the logs.
    ///
    /// # Errors
    ///
    /// [`ShellError::Log`] if a record could not be written, now or before.
    pub fn finish_logs(&mut self) -> Result<(), ShellError> {
        self.logs.take().map_or(Ok(()), Logs::finish)
    }
}

/// Opens a device for each path on a side and configures all of them.
fn equip(
    side: &Side,
    interfaces: Vec<Interface>,
    wire: fn(&[Interface]) -> Result<(), ShellError>,
) -> Result<Vec<SyncDevice>, ShellError> {
    side.within(move || {
        let devices = interfaces
            .iter()
            .map(|interface| device::open(&interface.name))
            .collect::<Result<Vec<_>, _>>()?;
        wire(&interfaces)?;
        Ok(devices)
    })
}

/// Returns an interface name for each path: the path's own if the system accepts it, else `link`
/// and its number.
fn interface_names<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<String> {
    // IFNAMSIZ without the terminating byte; see netdevice(7).
    const LONGEST: usize = 15;
    // The loopback device, and the kernel's settings for all devices and for new ones.
    const TAKEN: [&str; 3] = ["lo", "all", "default"];
    let fits = |name: &str| {
        (1..=LONGEST).contains(&name.len())
            && !TAKEN.contains(&name)
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter))
    };
    let mut names: Vec<String> = Vec::new();
    for (index, path) in paths.enumerate() {
        let numbered = format!("link{}", index + 1);
        let name = if fits(path) { path.to_owned() } else { numbered };
        let taken = names.contains(&name);
        names.push(if taken { format!("link{}-", index + 1) } else { name });
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_called_like_their_paths_where_the_system_lets_them() {
        let names =
            interface_names(["wifi", "lo", "a name with spaces", "link2", "all", "default"].into_iter());
        assert_eq!(names, ["wifi", "link2", "link3", "link4-", "link5", "link6"]);
    }
}
