//! `squall hops`: the round trip to the first routers over each interface, to distinguish the radio
//! from the networks behind it.
//!
//! A datagram with a small time to live is answered by the router where it ends (RFC 792, RFC 4443,
//! "time exceeded"), as in traceroute. STORM uses the first of these round trips to explain the
//! share of the radio in a path's delay (USENIX ATC 2025, §3.2.1). The kernel returns the answers
//! to a socket on that socket (`IP_RECVERR`, ip(7)), so no privileges are needed.

use std::{
    io::{self, IoSliceMut},
    net::{IpAddr, SocketAddr, ToSocketAddrs as _},
    os::fd::{AsFd as _, AsRawFd as _},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use clap::Args;
use nix::{
    cmsg_space,
    ifaddrs::getifaddrs,
    libc,
    net::if_::InterfaceFlags,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{
        AddressFamily, ControlMessageOwned, MsgFlags, SockaddrLike as _, SockaddrStorage, recvmsg,
        setsockopt,
        sockopt::{Ipv4RecvErr, Ipv6RecvErr},
    },
};
use serde::Serialize;
use socket2::{Domain, SockAddr, Socket, Type};
use squall_terminal::{error::usage, output};

use crate::table::{Table, millis};

/// First port of traceroute; hosts answer that it is closed.
const PORT: u16 = 33_434;

/// Timeout of an answer.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Time from an answer to the next probe: routers answer few probes per second.
const INTERVAL: Duration = Duration::from_millis(100);

/// Unanswered probes after which a hop is skipped.
const PATIENCE: u32 = 3;

/// Measures the round trip to the first routers over each interface, to distinguish the radio from
/// the networks behind it.
///
/// The first hop of Wi-Fi is behind the access point; that of a modem in the machine is behind the
/// base station. A modem that is itself a router (a stick, a phone) is the first hop, and the radio
/// is between the first and the second. Needs no privileges.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  squall hops exit.example.org\n  squall hops 203.0.113.5 --interface wlan0 --interface wwan0\n  \
                        squall hops exit.example.org --json - | jq '.[].hops[].median_us'"
)]
pub(crate) struct HopsArgs {
    /// Name or address of a host that the paths lead to, for instance the exit
    host: String,
    /// Interface to measure, repeatable. Default: all that are up
    #[arg(long = "interface", value_name = "NAME")]
    interfaces: Vec<String>,
    /// Number of hops from this machine
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=30))]
    hops: u8,
    /// Number of probes to each hop. Routers answer few per second: with more than about 5, some
    /// may stay unanswered
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    probes: u32,
    /// Write the round trips as JSON; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<std::path::PathBuf>,
}

/// Measurements over an interface.
#[derive(Debug, Serialize)]
struct Route {
    interface: String,
    /// Reason why nothing was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    hops: Vec<Hop>,
}

/// Round trips to a router, or to the host itself.
#[derive(Debug, Serialize)]
struct Hop {
    hop: u8,
    /// Address of the router; `None` if it never answered.
    address: Option<IpAddr>,
    is_host: bool,
    sent: u32,
    answered: u32,
    median_us: Option<u64>,
    least_us: Option<u64>,
}

/// Runs the command.
pub(crate) fn run(args: &HopsArgs) -> anyhow::Result<ExitCode> {
    let host = (args.host.as_str(), PORT)
        .to_socket_addrs()
        .with_context(|| format!("{} is not found", args.host))?
        .next()
        .with_context(|| format!("{} has no address", args.host))?;
    let known = interfaces(host.is_ipv6())?;
    if let Some(unknown) = args.interfaces.iter().find(|name| !known.contains(name)) {
        let family = if host.is_ipv6() { "IPv6" } else { "IPv4" };
        return Err(usage(format!(
            "--interface: {unknown} is not up or has no {family} address; there are {}",
            known.join(", ")
        )));
    }
    let chosen = if args.interfaces.is_empty() { known } else { args.interfaces.clone() };
    let routes: Vec<Route> = thread::scope(|scope| {
        let measured: Vec<_> = chosen
            .into_iter()
            .map(|name| scope.spawn(move || route(name, host, args.hops, args.probes)))
            .collect();
        measured.into_iter().map(|one| one.join().expect("it does not panic")).collect()
    });
    match &args.json {
        Some(file) => output::write(file, &format!("{}\n", serde_json::to_string_pretty(&routes)?))?,
        None => output::print(&text(&routes))?,
    }
    let is_measured = routes.iter().flat_map(|route| &route.hops).any(|hop| hop.answered > 0);
    Ok(if is_measured { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Lists the interfaces, except loopback, that are up and have an address of the family.
pub(crate) fn interfaces(is_ipv6: bool) -> io::Result<Vec<String>> {
    let family = if is_ipv6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
    let mut names: Vec<String> = getifaddrs()?
        .filter(|one| {
            one.flags.contains(InterfaceFlags::IFF_UP) && !one.flags.contains(InterfaceFlags::IFF_LOOPBACK)
        })
        .filter(|one| one.address.is_some_and(|address: SockaddrStorage| address.family() == Some(family)))
        .map(|one| one.interface_name)
        .collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// Measures the hops over an interface, up to the host.
fn route(interface: String, host: SocketAddr, hops: u8, probes: u32) -> Route {
    let mut route = Route { interface, problem: None, hops: Vec::new() };
    for number in 1..=hops {
        match hop(&route.interface, host, number, probes) {
            Ok(hop) => {
                let is_host = hop.is_host;
                route.hops.push(hop);
                if is_host {
                    break;
                }
            }
            Err(problem) => {
                route.problem = Some(problem.to_string());
                break;
            }
        }
    }
    route
}

fn hop(interface: &str, host: SocketAddr, number: u8, probes: u32) -> io::Result<Hop> {
    let socket = open(interface, host, number)?;
    let mut hop = Hop {
        hop: number,
        address: None,
        is_host: false,
        sent: 0,
        answered: 0,
        median_us: None,
        least_us: None,
    };
    let mut times = Vec::new();
    while hop.sent < probes && (hop.answered > 0 || hop.sent < PATIENCE) {
        let sent_at = Instant::now();
        // A late answer makes the next call on the socket fail.
        if let Err(error) = socket.send(&[0]) {
            let is_answer = matches!(error.raw_os_error(), Some(libc::EHOSTUNREACH | libc::ECONNREFUSED));
            drain(&socket);
            if !is_answer || hop.sent == 0 {
                return Err(error);
            }
            continue;
        }
        hop.sent += 1;
        if let Some((address, is_host)) = answer(&socket, sent_at)? {
            times.push(u64::try_from(sent_at.elapsed().as_micros()).unwrap_or(u64::MAX));
            hop.answered += 1;
            (hop.address, hop.is_host) = (Some(address), is_host);
            thread::sleep(INTERVAL);
        }
    }
    times.sort_unstable();
    hop.least_us = times.first().copied();
    hop.median_us = times.get(times.len() / 2).copied();
    Ok(hop)
}

/// Opens a socket whose packets expire after this number of hops.
fn open(interface: &str, host: SocketAddr, hops: u8) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(host), Type::DGRAM, None)?;
    socket.bind_device(Some(interface.as_bytes()))?;
    if host.is_ipv6() {
        socket.set_unicast_hops_v6(hops.into())?;
        setsockopt(&socket, Ipv6RecvErr, &true)?;
    } else {
        socket.set_ttl_v4(hops.into())?;
        setsockopt(&socket, Ipv4RecvErr, &true)?;
    }
    socket.connect(&SockAddr::from(host))?;
    Ok(socket)
}

/// Waits for the router's answer to a probe. Returns the address, and `true` if it is the host
/// itself.
fn answer(socket: &Socket, sent_at: Instant) -> io::Result<Option<(IpAddr, bool)>> {
    loop {
        let left = TIMEOUT.saturating_sub(sent_at.elapsed());
        let left = PollTimeout::try_from(left).map_err(io::Error::other)?;
        // Errors are reported without being requested.
        let mut polled = [PollFd::new(socket.as_fd(), PollFlags::empty())];
        if poll(&mut polled, left)? == 0 {
            return Ok(None);
        }
        if let Some(answer) = received(socket) {
            return Ok(Some(answer));
        }
        if sent_at.elapsed() >= TIMEOUT {
            return Ok(None);
        }
    }
}

/// Returns the next answer in the error queue of the socket; `None` if it is empty or has an error
/// of this machine.
fn received(socket: &Socket) -> Option<(IpAddr, bool)> {
    let (mut data, mut control) = ([0; 64], cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6));
    let mut buffers = [IoSliceMut::new(&mut data)];
    let message = recvmsg::<SockaddrStorage>(
        socket.as_raw_fd(),
        &mut buffers,
        Some(&mut control),
        MsgFlags::MSG_ERRQUEUE,
    );
    let (error, from) = message.ok()?.cmsgs().ok()?.find_map(|one| match one {
        ControlMessageOwned::Ipv4RecvErr(error, from) => {
            Some((error, from.map(|from| IpAddr::from(from.sin_addr.s_addr.to_ne_bytes()))))
        }
        ControlMessageOwned::Ipv6RecvErr(error, from) => {
            Some((error, from.map(|from| IpAddr::from(from.sin6_addr.s6_addr))))
        }
        _ => None,
    })?;
    let is_of_network = matches!(error.ee_origin, libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6);
    // The host itself reports a closed port; any other answer comes from a router.
    let is_host = i32::try_from(error.ee_errno) == Ok(libc::ECONNREFUSED);
    from.filter(|_| is_of_network).map(|from| (from, is_host))
}

/// Removes all answers to earlier probes.
fn drain(socket: &Socket) {
    while received(socket).is_some() {}
    let _ = socket.take_error();
}

fn text(routes: &[Route]) -> String {
    let cell = |time: Option<u64>| time.map_or_else(|| "–".to_owned(), millis);
    let row = |interface: &str, hop: &Hop| {
        let address = hop.address.map_or_else(|| "no answer".to_owned(), |address| address.to_string());
        vec![
            interface.to_owned(),
            if hop.is_host { format!("{address} (host)") } else { address },
            hop.hop.to_string(),
            cell(hop.median_us),
            cell(hop.least_us),
            format!("{}/{}", hop.answered, hop.sent),
        ]
    };
    let rows: Vec<_> =
        routes.iter().flat_map(|route| route.hops.iter().map(|hop| row(&route.interface, hop))).collect();
    let head = vec!["interface", "address", "hop", "median ms", "least ms", "answered"];
    let mut text = Table { head, rows, left: 2, spare: &[] }.text();
    for route in routes {
        text.push_str(&format!("{}: {}\n", route.interface, verdict(route)));
    }
    text
}

/// Describes the share of the first hop in the round trip.
fn verdict(route: &Route) -> String {
    let answered: Vec<(u8, u64)> =
        route.hops.iter().filter_map(|hop| Some((hop.hop, hop.median_us?))).collect();
    match (answered.as_slice(), &route.problem) {
        ([], Some(problem)) => problem.clone(),
        ([], None) => "no router answers, as many do not".to_owned(),
        ([(1, first), .., (last, all)], _) => {
            let share = 100.0 * (*first as f64 / (*all).max(1) as f64).min(1.0);
            format!("the first hop has {share:.0} % of the {} ms to hop {last}", millis(*all))
        }
        ([(1, first)], _) => format!("the first hop takes {} ms, and no other one answers", millis(*first)),
        _ => "the first hop does not answer".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(hop: u8, median_us: Option<u64>) -> Hop {
        let answered = median_us.map_or(0, |_| 3);
        Hop { hop, address: None, is_host: false, sent: 3, answered, median_us, least_us: median_us }
    }

    #[test]
    fn the_share_of_the_first_hop_needs_an_answer_from_behind_it() {
        let of = |hops: Vec<Hop>, problem: Option<&str>| {
            verdict(&Route { interface: "wlan0".into(), problem: problem.map(Into::into), hops })
        };
        assert_eq!(
            of(vec![hop(1, Some(3_000)), hop(2, None), hop(3, Some(24_000))], None),
            "the first hop has 12 % of the 24.0 ms to hop 3"
        );
        assert_eq!(of(vec![hop(1, Some(900))], None), "the first hop takes 0.9 ms, and no other one answers");
        assert_eq!(of(vec![hop(1, None), hop(2, Some(5_000))], None), "the first hop does not answer");
        assert_eq!(of(vec![hop(1, None)], None), "no router answers, as many do not");
        assert_eq!(of(vec![], Some("Network is unreachable")), "Network is unreachable");
    }
}
