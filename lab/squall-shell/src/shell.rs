//! Putting it together: two sides, and the links between them.

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

/// MTUs that an interface can have: the smallest of IPv4 (RFC 791), and the largest of a TUN device.
const MTUS: RangeInclusive<u64> = 68..=65_535;

/// The smallest MTU of IPv6 (RFC 8200 §5).
const LEAST_OF_IPV6: u64 = 1_280;

/// Both sides with all their devices, addresses and routes; nothing passes between them yet.
pub struct Prepared {
    families: &'static [Family],
    sides: Sides,
    network: Network<Packet>,
    devices: Vec<(SyncDevice, SyncDevice)>,
    paths: Vec<PathConfig>,
    radios: Option<ReportFiles>,
}

/// Running links. Dropping it stops them and kills every program on either side.
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
    /// By path.
    interfaces: Vec<[Interface; 2]>,
}

impl Prepared {
    /// Makes both sides, with addresses of IPv4 and of IPv6. They have no IPv6 if an MTU is below 1,280 bytes, or if the system
    /// has none; see [`families`](Self::families). Files that the paths name must have been [loaded](PathConfig::load). The
    /// right to do so must have been [acquired](crate::acquire).
    ///
    /// # Errors
    ///
    /// If the links cannot be built, or what the system refuses.
    pub fn new(paths: &[PathConfig], seed: u64) -> Result<Self, ShellError> {
        Self::with(paths, seed, false)
    }

    /// The same with addresses of IPv6 alone.
    ///
    /// # Errors
    ///
    /// Also if an MTU is below 1,280 bytes, or if the system has no IPv6.
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

    /// Names of the interfaces of the paths, the same on both sides.
    pub fn interfaces(&self) -> Vec<String> {
        self.sides.interfaces.iter().map(|[client, _]| client.name.clone()).collect()
    }

    /// The versions of IP of which both sides have addresses, IPv4 first.
    pub fn families(&self) -> &'static [Family] {
        self.families
    }

    /// The folder with a file for each interface whose path has a radio, in which that reports what it measures; see
    /// [`external`](squall_signal::external). `None` if no path has one.
    pub fn radios(&self) -> Option<&Path> {
        self.radios.as_ref().map(ReportFiles::folder)
    }

    /// The server's side, whose program may start before the links do.
    pub fn server(&self) -> &Side {
        &self.sides.server
    }

    /// Lets packets pass: time 0 of the paths' events is now. With a folder for `logs` each direction of each path
    /// is written down there packet by packet; see `docs/shell.md`.
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
    /// The client's side.
    pub fn client(&self) -> &Side {
        &self.sides.client
    }

    /// The server's side.
    pub fn server(&self) -> &Side {
        &self.sides.server
    }

    /// What has happened so far.
    ///
    /// # Errors
    ///
    /// If the kernel does not report what it has dropped.
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
    /// What could not be written, now or before.
    pub fn finish_logs(&mut self) -> Result<(), ShellError> {
        self.logs.take().map_or(Ok(()), Logs::finish)
    }
}

/// Gives a side a device for each path, all wired up.
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

/// A name for the interface of each path: the path's own if the system takes it, else `link` and its number.
fn interface_names<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<String> {
    // Without the byte that ends it; see IFNAMSIZ in netdevice(7).
    const LONGEST: usize = 15;
    // The loopback device, and the kernel's settings of all devices and of those to come.
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
