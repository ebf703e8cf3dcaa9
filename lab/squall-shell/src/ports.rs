//! Devices at both ends of each path.

use std::{
    borrow::Cow,
    io,
    net::IpAddr,
    os::fd::{AsFd as _, BorrowedFd},
};

use squall_net::{Arrival, Direction, Inbox, Outcome, Ports};
use tun_rs::SyncDevice;

use crate::{
    address::{Addresses, Family},
    nat::{self, Field, address, replace},
};

/// An IP packet.
pub(crate) type Packet = Box<[u8]>;

/// Devices of all paths.
pub(crate) struct Devices {
    paths: Vec<Path>,
    buffer: Box<[u8]>,
}

/// Both ends of a path.
struct Path {
    client: SyncDevice,
    server: SyncDevice,
    addresses: Addresses,
    rebindings: u32,
}

/// Packets read from a device before the next one is served.
const BATCH: usize = 32;

impl Devices {
    /// Takes the devices of the paths in order, each as client's end and server's end.
    pub(crate) fn new(ends: impl IntoIterator<Item = (SyncDevice, SyncDevice)>) -> Self {
        let path = |(index, (client, server))| Path {
            client,
            server,
            addresses: Addresses::of(index),
            rebindings: 0,
        };
        Self { paths: ends.into_iter().enumerate().map(path).collect(), buffer: vec![0; 1 << 16].into() }
    }
}

impl Ports for Devices {
    type Packet = Packet;

    /// Returns both ends of each path, the client's first.
    fn watched(&self) -> Vec<BorrowedFd<'_>> {
        self.paths.iter().flat_map(|path| [path.client.as_fd(), path.server.as_fd()]).collect()
    }

    fn receive(&mut self, ready: &[bool], inbox: &mut Inbox<Packet>) -> io::Result<()> {
        for place in (0..ready.len()).filter(|&place| ready[place]) {
            let path = &self.paths[place / 2];
            let direction = if place.is_multiple_of(2) { Direction::Up } else { Direction::Down };
            let device = if direction == Direction::Up { &path.client } else { &path.server };
            for _ in 0..BATCH {
                let Some(length) = read(device, &mut self.buffer)? else { break };
                if let Some(packet) = path.translate_in(direction, &self.buffer[..length]) {
                    inbox.push(place / 2, direction, length, packet);
                }
            }
        }
        Ok(())
    }

    fn hand_over(&mut self, arrival: &Arrival<Packet>) -> Outcome {
        let path = &self.paths[arrival.path];
        let mut packet = Cow::Borrowed(&*arrival.item);
        if let Some(damage) = arrival.damage {
            nat::damage(packet.to_mut(), |payload| damage.apply(payload));
        }
        if arrival.direction == Direction::Up && path.rebindings > 0 {
            let source = address(&packet, Field::Source).map(|own| path.seen(Family::of(own)));
            source.into_iter().for_each(|seen| replace(packet.to_mut(), Field::Source, seen));
        }
        let sent = match arrival.direction {
            Direction::Down => path.client.send(&packet),
            Direction::Up => path.server.send(&packet),
        };
        if sent.is_ok() { Outcome::Sent } else { Outcome::Refused }
    }

    /// Changes the client's address as the server sees it; packets to the old one are dropped.
    fn rebind(&mut self, path: usize) -> io::Result<()> {
        self.paths[path].rebindings += 1;
        Ok(())
    }
}

impl Path {
    /// Returns the client's address as the server sees it.
    fn seen(&self, family: Family) -> IpAddr {
        self.addresses.seen(family, self.rebindings)
    }

    /// Returns the packet as it enters the link. `None` if it does not belong there: not IP,
    /// link-local, or to an address that the client no longer has.
    fn translate_in(&self, direction: Direction, packet: &[u8]) -> Option<Packet> {
        let destination = address(packet, Field::Destination)?;
        if nat::is_of_one_link(packet) {
            return None;
        }
        let family = Family::of(destination);
        let mut packet: Packet = packet.into();
        if direction == Direction::Down && self.rebindings > 0 {
            if destination != self.seen(family) {
                return None;
            }
            replace(&mut packet, Field::Destination, self.addresses.client(family));
        }
        Some(packet)
    }
}

/// Reads one packet; `None` if there is none.
fn read(device: &SyncDevice, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match device.recv(buffer) {
        Ok(length) => Ok(Some(length)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
