//! Parts of a configuration that do not exist on this machine.

use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
    path::Path,
};

use squall_observe::wait::{is_absent, problem};

use super::{Config, End, IdentityConfig, Side};

impl Config {
    /// Describes named interfaces, local addresses and folders that do not exist on this machine
    /// now. A tunnel waits for missing interfaces and addresses, but does not start without its
    /// folders. Ports are not checked, as a running tunnel may occupy them.
    pub fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        let mut addresses: Vec<(String, SocketAddr)> = Vec::new();
        let mut files: Vec<(&str, &Path)> = Vec::new();
        match &self.side {
            Side::Connect(connect) => {
                let names = connect.interfaces.iter().chain(&connect.metered).chain(connect.paths.keys());
                let absent = names.collect::<BTreeSet<_>>().into_iter().filter(|name| !is_there(name));
                missing.extend(absent.map(|name| {
                    format!("interface {name} is not there now; the tunnel uses it once it is there")
                }));
            }
            Side::Listen(listen) => {
                addresses.push(("listen.address".to_owned(), listen.address));
                if let IdentityConfig::Kept(file) = &listen.identity {
                    files.push(("listen.state", file));
                }
            }
        }
        addresses.extend(self.flows.iter().filter_map(|flow| match flow.end {
            End::In(address) if !address.ip().is_multicast() => {
                Some((format!("flow {}", flow.name), address))
            }
            _ => None,
        }));
        addresses.extend(self.metrics.map(|address| ("metrics".to_owned(), address)));
        for (key, address) in addresses {
            if let Err(error) = bind(address) {
                let problem = problem(address, &error);
                missing.push(match is_absent(&error) {
                    true => format!("{key}: {address}: {problem} now; the tunnel waits for it"),
                    false => format!("{key}: the tunnel cannot start with {address} now: {problem}"),
                });
            }
        }
        files.extend(self.control.iter().map(|control| ("control", control.path.as_path())));
        for (key, file) in files {
            let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
            if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
                missing.push(format!(
                    "{key}: the tunnel cannot start without the folder {}, which is not there now",
                    folder.display()
                ));
            }
        }
        missing
    }
}

/// `true` if this machine has an interface of this name, or this address.
fn is_there(name: &str) -> bool {
    match name.parse::<IpAddr>() {
        Ok(address) => bind(SocketAddr::new(address, 0)).is_ok(),
        #[cfg(any(target_os = "linux", target_os = "android"))]
        Err(_) => nix::net::if_::if_nametoindex(name).is_ok(),
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        Err(_) => true,
    }
}

/// Binds briefly to an address with any free port.
fn bind(mut address: SocketAddr) -> io::Result<()> {
    address.set_port(0);
    UdpSocket::bind(address).map(drop)
}
