//! Addresses, routes and rules of a side, set by netlink.

use std::{fmt::Display, fs, net::IpAddr};

use futures_util::TryStreamExt as _;
use rtnetlink::{
    Handle, LinkMessageBuilder, LinkUnspec, RouteMessageBuilder, new_connection,
    packet_route::{
        AddressFamily,
        address::{AddressAttribute, AddressFlags},
        link::{LinkAttribute, Stats64},
        rule::{RuleAction, RuleAttribute},
    },
};

use crate::{
    address::{self, Addresses, Family},
    error::ShellError,
};

/// The end of a link on one side.
#[derive(Debug, Clone)]
pub(crate) struct Interface {
    /// Name of the device.
    pub(crate) name: String,
    /// Addresses of its path.
    pub(crate) addresses: Addresses,
    /// Versions of IP of which it has addresses.
    pub(crate) families: &'static [Family],
    /// Maximum packet size in bytes.
    pub(crate) mtu: u32,
}

/// Priority of the first rule by address; rules by address precede those by interface.
const BY_ADDRESS: u32 = 1_000;
/// Priority of the first rule by interface.
const BY_INTERFACE: u32 = 2_000;

/// Packets that the kernel queues for the shell's thread before it drops them. The queue should
/// stay short.
const BACKLOG: u32 = 1_000;

/// Configures the client's side, in whose namespace the calling thread must be: its addresses, and
/// a routing table for each path.
pub(crate) fn wire_client(interfaces: &[Interface]) -> Result<(), ShellError> {
    connected("client", async |net| {
        for (place, interface) in interfaces.iter().enumerate() {
            let Interface { name, addresses, families, .. } = interface;
            let index = net.raise(interface).await?;
            for &family in *families {
                let own = addresses.client(family);
                net.address(name, index, own, family.subnet_bits()).await?;
                let route = RouteMessageBuilder::<IpAddr>::new().output_interface(index).pref_source(own);
                let route = net.checked(name, route)?;
                net.route(name, route.clone().table_id(addresses.table())).await?;
                // An unbound socket uses the first path.
                net.route(name, route.priority(place as u32 + 1)).await?;
                net.rule(interface, family, BY_ADDRESS + place as u32, RuleAttribute::Source(own)).await?;
                let through = RuleAttribute::Oifname(name.clone());
                net.rule(interface, family, BY_INTERFACE + place as u32, through).await?;
            }
        }
        Ok(())
    })
}

/// Configures the addresses of the server's side, in whose namespace the calling thread must be.
/// Its routes are those of its subnets, so it answers over the path to whose address the client
/// sent.
pub(crate) fn wire_server(interfaces: &[Interface]) -> Result<(), ShellError> {
    connected("server", async |net| {
        let lo = net.index("lo").await?;
        for &family in interfaces.first().map_or(&[][..], |first| first.families) {
            net.address("lo", lo, address::server(family), family.address_bits()).await?;
        }
        for interface in interfaces {
            let index = net.raise(interface).await?;
            for &family in interface.families {
                let own = interface.addresses.server(family);
                net.address(&interface.name, index, own, family.subnet_bits()).await?;
            }
        }
        Ok(())
    })
}

/// Returns the number of packets that the kernel has dropped because the shell did not read them
/// from the devices in time.
pub(crate) fn overruns(side: &'static str, interfaces: &[Interface]) -> Result<u64, ShellError> {
    connected_to(side, async |net| {
        let mut sum = 0;
        for interface in interfaces {
            sum += net.dropped(&interface.name).await?;
        }
        Ok(sum)
    })
}

/// Netlink connection in the calling thread's namespace.
struct Net {
    side: &'static str,
    handle: Handle,
}

/// Runs work on a side after setting its loopback device up.
fn connected(
    side: &'static str,
    work: impl AsyncFnOnce(&Net) -> Result<(), ShellError>,
) -> Result<(), ShellError> {
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

/// Changes settings of the namespace that would interfere: reverse-path filters of the host,
/// and packets by which a device looks for addresses and routers, because all of them are
/// configured already. If `/proc/sys` cannot be written, the settings stay; the shell then ignores
/// such packets, and the filter matters only if it is strict. Returns `true` if IPv6 is available.
pub(crate) fn settle() -> bool {
    const NO_IPV6: &str = "/proc/sys/net/ipv6/conf/default/disable_ipv6";
    for (setting, value) in [
        ("ipv4/conf/all/rp_filter", "0"),
        ("ipv4/conf/default/rp_filter", "0"),
        ("ipv6/conf/all/disable_ipv6", "0"),
        ("ipv6/conf/default/disable_ipv6", "0"),
        ("ipv6/conf/default/accept_ra", "0"),
        // No link-local addresses: see addr_gen_mode in the kernel's ip-sysctl.
        ("ipv6/conf/default/addr_gen_mode", "1"),
    ] {
        let _ = fs::write(format!("/proc/sys/net/{setting}"), value);
    }
    fs::read_to_string(NO_IPV6).is_ok_and(|value| value.trim() == "0")
}

impl Net {
    /// Adds the names of the side and of the device to the error of a request.
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

    /// Assigns an address to a device. An IPv6 address is usable at once, because no other host can
    /// have it (IFA_F_NODAD).
    async fn address(&self, name: &str, index: u32, address: IpAddr, bits: u8) -> Result<(), ShellError> {
        let mut request = self.handle.address().add(index, address, bits);
        if address.is_ipv6() {
            request.message_mut().attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        self.checked(name, request.execute().await)
    }

    async fn route(&self, name: &str, route: RouteMessageBuilder<IpAddr>) -> Result<(), ShellError> {
        self.checked(name, self.handle.route().add(route.build()).execute().await)
    }

    /// Routes packets from an address or through an interface by the table of a path.
    async fn rule(
        &self,
        interface: &Interface,
        family: Family,
        priority: u32,
        which: RuleAttribute,
    ) -> Result<(), ShellError> {
        let table = interface.addresses.table();
        let mut rule =
            self.handle.rule().add().table_id(table).action(RuleAction::ToTable).priority(priority);
        let message = rule.message_mut();
        message.header.family = match family {
            Family::V4 => AddressFamily::Inet,
            Family::V6 => AddressFamily::Inet6,
        };
        if matches!(which, RuleAttribute::Source(_)) {
            message.header.src_len = family.address_bits();
        }
        message.attributes.push(which);
        self.checked(&interface.name, rule.execute().await)
    }

    /// Sets the MTU of a device, sets the device up and returns its index.
    async fn raise(&self, interface: &Interface) -> Result<u32, ShellError> {
        let Interface { name, mtu, .. } = interface;
        let index = self.index(name).await?;
        let up =
            LinkMessageBuilder::<LinkUnspec>::new().index(index).mtu(*mtu).txqueuelen(BACKLOG).up().build();
        self.checked(name, self.handle.link().change(up).execute().await)?;
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
