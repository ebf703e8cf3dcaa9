//! Addresses, routes and rules of a side, by netlink.

use std::{fmt::Display, fs, net::Ipv4Addr};

use futures_util::TryStreamExt as _;
use rtnetlink::{
    Handle, LinkMessageBuilder, LinkUnspec, RouteMessageBuilder, new_connection,
    packet_route::{
        link::{LinkAttribute, Stats64},
        rule::RuleAction,
    },
};

use crate::{
    address::{self, Addresses, PREFIX},
    error::ShellError,
};

/// The end of a link on one side.
#[derive(Debug, Clone)]
pub(crate) struct Interface {
    /// Of the device.
    pub(crate) name: String,
    /// Of the path.
    pub(crate) addresses: Addresses,
    /// Largest packet, in bytes.
    pub(crate) mtu: u32,
}

/// Rules by address come before those by interface.
const BY_ADDRESS: u32 = 1_000;
const BY_INTERFACE: u32 = 2_000;

/// Packets that the kernel keeps for the shell's thread before it drops them. They should never be many.
const BACKLOG: u32 = 1_000;

/// Gives the client's side, in whose namespace the calling thread must be, its addresses and a routing table for each
/// path.
pub(crate) fn wire_client(interfaces: &[Interface]) -> Result<(), ShellError> {
    connected("client", async |net| {
        for (place, interface) in interfaces.iter().enumerate() {
            let Interface { name, addresses, .. } = interface;
            let index = net.raise(interface, addresses.client()).await?;
            let route = RouteMessageBuilder::<Ipv4Addr>::new()
                .output_interface(index)
                .pref_source(addresses.client());
            net.route(name, route.clone().table_id(addresses.table())).await?;
            // A socket that binds to nothing uses the first path.
            net.route(name, route.priority(place as u32 + 1)).await?;
            let rule =
                || net.handle.rule().add().v4().table_id(addresses.table()).action(RuleAction::ToTable);
            let from = rule().source_prefix(addresses.client(), 32);
            net.checked(name, from.priority(BY_ADDRESS + place as u32).execute().await)?;
            let through = rule().output_interface(name.clone());
            net.checked(name, through.priority(BY_INTERFACE + place as u32).execute().await)?;
        }
        Ok(())
    })
}

/// Gives the server's side, in whose namespace the calling thread must be, its addresses. Its routes are those of its
/// subnets, so it answers over the path whose address it was called from.
pub(crate) fn wire_server(interfaces: &[Interface]) -> Result<(), ShellError> {
    connected("server", async |net| {
        let lo = net.index("lo").await?;
        net.address("lo", lo, address::server(), 32).await?;
        for interface in interfaces {
            net.raise(interface, interface.addresses.server()).await?;
        }
        Ok(())
    })
}

/// Packets that the kernel has dropped because the shell did not take them from the devices in time.
pub(crate) fn overruns(side: &'static str, interfaces: &[Interface]) -> Result<u64, ShellError> {
    connected_to(side, async |net| {
        let mut sum = 0;
        for interface in interfaces {
            sum += net.dropped(&interface.name).await?;
        }
        Ok(sum)
    })
}

/// A conversation with the kernel about the calling thread's namespace.
struct Net {
    side: &'static str,
    handle: Handle,
}

/// Does something to a side whose loopback device is up and which has no IPv6.
fn connected(
    side: &'static str,
    work: impl AsyncFnOnce(&Net) -> Result<(), ShellError>,
) -> Result<(), ShellError> {
    settle();
    connected_to(side, async |net| {
        let lo = net.index("lo").await?;
        let up = LinkMessageBuilder::<LinkUnspec>::new().index(lo).up().build();
        net.checked("lo", net.handle.link().change(up).execute().await)?;
        work(net).await
    })
}

fn connected_to<R>(
    side: &'static str,
    work: impl AsyncFnOnce(&Net) -> Result<R, ShellError>,
) -> Result<R, ShellError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let (connection, handle, _) = new_connection()?;
        let conversation = tokio::spawn(connection);
        let outcome = work(&Net { side, handle }).await;
        conversation.abort();
        outcome
    })
}

/// The namespace starts with settings of the host's that would get in the way. Where `/proc/sys` cannot be written they
/// stay: IPv6 packets are then ignored by the shell, and the filter only matters where it was made strict.
fn settle() {
    for (setting, value) in [
        ("ipv6/conf/all/disable_ipv6", "1"),
        ("ipv4/conf/all/rp_filter", "0"),
        ("ipv4/conf/default/rp_filter", "0"),
    ] {
        let _ = fs::write(format!("/proc/sys/net/{setting}"), value);
    }
}

impl Net {
    /// The outcome of a request, with the name of the side and of the device in its error.
    fn checked<T>(&self, what: &str, outcome: Result<T, impl Display>) -> Result<T, ShellError> {
        outcome.map_err(|problem| ShellError::Wiring {
            side: self.side,
            what: what.to_owned(),
            problem: problem.to_string(),
        })
    }

    async fn index(&self, name: &str) -> Result<u32, ShellError> {
        let mut links = self.handle.link().get().match_name(name).execute();
        let found = self.checked(name, links.try_next().await)?;
        self.checked(name, found.map(|link| link.header.index).ok_or("there is no such device"))
    }

    async fn address(&self, name: &str, index: u32, address: Ipv4Addr, prefix: u8) -> Result<(), ShellError> {
        self.checked(name, self.handle.address().add(index, address.into(), prefix).execute().await)
    }

    async fn route(&self, name: &str, route: RouteMessageBuilder<Ipv4Addr>) -> Result<(), ShellError> {
        self.checked(name, self.handle.route().add(route.build()).execute().await)
    }

    /// Gives a device its MTU and address and switches it on.
    async fn raise(&self, interface: &Interface, address: Ipv4Addr) -> Result<u32, ShellError> {
        let Interface { name, mtu, .. } = interface;
        let index = self.index(name).await?;
        let up =
            LinkMessageBuilder::<LinkUnspec>::new().index(index).mtu(*mtu).txqueuelen(BACKLOG).up().build();
        self.checked(name, self.handle.link().change(up).execute().await)?;
        self.address(name, index, address, PREFIX).await?;
        Ok(index)
    }

    async fn dropped(&self, name: &str) -> Result<u64, ShellError> {
        let mut links = self.handle.link().get().match_name(name).execute();
        let link = self.checked(name, links.try_next().await)?;
        let counters =
            link.into_iter().flat_map(|link| link.attributes).find_map(|attribute| match attribute {
                LinkAttribute::Stats64(Stats64 { tx_dropped, .. }) => Some(tx_dropped),
                _ => None,
            });
        Ok(counters.unwrap_or(0))
    }
}
