//! Limits for unauthenticated peers: connections of a server, sessions without a token.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex},
};

use tokio::sync::Notify;

use crate::clock::lock;

/// A bounded number of places, in total and per host, which is a network as in
/// [`squall_proto::host_network`]. A new occupant displaces an old one.
#[derive(Debug)]
pub struct Places<T> {
    max: usize,
    max_of_host: usize,
    /// Number of the latest occupant, and all occupants, oldest first.
    occupants: Mutex<(u64, Vec<Occupant<T>>)>,
}

#[derive(Debug)]
struct Occupant<T> {
    number: u64,
    host: IpAddr,
    value: T,
}

/// One of [`Places`], released when dropped.
#[derive(Debug)]
pub struct Place<T> {
    places: Arc<Places<T>>,
    number: u64,
}

impl<T> Places<T> {
    /// Creates at most `max` places, of which one host can occupy `max_of_host`.
    pub fn new(max: usize, max_of_host: usize) -> Arc<Self> {
        Arc::new(Self { max, max_of_host, occupants: Mutex::new((0, Vec::new())) })
    }

    /// Takes a place. Also returns the displaced occupant: the oldest of the host if the host has
    /// its share, otherwise the oldest of all, which had the most time to authenticate.
    pub fn enter(self: &Arc<Self>, address: IpAddr, value: T) -> (Place<T>, Option<T>) {
        let host = squall_proto::host_network(address);
        let (last, all) = &mut *lock(&self.occupants);
        let of_host = |occupant: &Occupant<T>| occupant.host == host;
        let displaced = if all.iter().filter(|occupant| of_host(occupant)).count() >= self.max_of_host {
            all.iter().position(of_host)
        } else {
            (all.len() >= self.max).then_some(0)
        };
        let displaced = displaced.map(|index| all.remove(index).value);
        *last += 1;
        all.push(Occupant { number: *last, host, value });
        (Place { places: self.clone(), number: *last }, displaced)
    }
}

impl Places<Arc<Notify>> {
    /// Takes a place independently of the host. `displaced` is notified if a newer connection takes
    /// the place.
    pub fn take(self: &Arc<Self>, displaced: &Arc<Notify>) -> Place<Arc<Notify>> {
        let (place, oldest) = self.enter(Ipv4Addr::LOCALHOST.into(), displaced.clone());
        if let Some(oldest) = oldest {
            oldest.notify_one();
        }
        place
    }
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        lock(&self.places.occupants).1.retain(|occupant| occupant.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(last: u32) -> IpAddr {
        IpAddr::from((0x0a00_0000 + last).to_be_bytes())
    }

    #[test]
    fn places_are_few_and_the_oldest_occupant_is_displaced() {
        let pending = Places::new(16, 8);
        let mut places: Vec<_> = (0..8).map(|n| pending.enter(host(1), n).0).collect();
        places.push(pending.enter(host(2), 100).0);
        let (place, displaced) = pending.enter(host(1), 8);
        assert_eq!(displaced, Some(0), "its own oldest");
        places.push(place);
        places.drain(..2);
        let mut displaced = |address, value| {
            let (place, displaced) = pending.enter(address, value);
            places.push(place);
            displaced
        };
        assert_eq!(displaced(host(1), 9), None, "there is room again");
        for n in 0..7 {
            assert_eq!(displaced(host(3 + n), 200), None);
        }
        assert_eq!(displaced(host(50), 300), Some(2), "the oldest of all");
        assert_eq!(lock(&pending.occupants).1.len(), 16);
        drop(places);
        assert_eq!(lock(&pending.occupants).1.len(), 0);
        let address = |text: &str| text.parse().expect("is an address");
        let pending = Places::new(9, 1);
        let _first = pending.enter(address("2001:db8:1:2:3:4:5:6"), 1);
        assert_eq!(pending.enter(address("2001:db8:1:2::7"), 2).1, Some(1), "a host has a network of IPv6");
    }
}
