//! Android's networks. Java reports them, and binds sockets to them.

use std::{
    io,
    net::{IpAddr, UdpSocket},
    os::fd::AsRawFd as _,
    sync::{Mutex, PoisonError},
};

use jni::{
    Env, JavaVM,
    errors::Error,
    jni_sig, jni_str,
    objects::{JObject, JValue},
    refs::Global,
};
use squall::{Interfaces, Network};

use squall_bindings::Table;

use crate::error::Failure;

static NETWORKS: Table<Mutex<Network>> = Table::new();

/// Opens a network. `binder` is a `dev.squall.core.SocketBinder`.
pub(crate) fn open(env: &Env<'_>, name: String, binder: &JObject<'_>) -> Result<i64, Failure> {
    if binder.is_null() {
        return Err(Failure::Argument("the binder is null".into()));
    }
    let binder = env.new_global_ref(binder)?;
    let network = Network::new(name, move |socket| bind(&binder, socket));
    Ok(NETWORKS.insert(Mutex::new(network)))
}

/// Sets the addresses of a network, and its metered flag. Takes effect with the next [`plan`].
pub(crate) fn update(number: i64, addresses: &str, metered: bool) -> Result<(), Failure> {
    let network = NETWORKS.get(number).ok_or_else(|| Failure::closed("the network"))?;
    let addresses = parse_addresses(addresses)?;
    let mut network = network.lock().unwrap_or_else(PoisonError::into_inner);
    *network = network.clone().addresses(addresses).metered(metered);
    Ok(())
}

/// Closes a network. Paths over it remain until their session gets a plan without it.
pub(crate) fn close(number: i64) {
    NETWORKS.remove(number);
}

/// Returns the networks with these numbers, without closed ones.
pub(crate) fn plan(numbers: &[i64]) -> Interfaces {
    let open = numbers.iter().filter_map(|number| NETWORKS.get(*number));
    let current = open.map(|network| network.lock().unwrap_or_else(PoisonError::into_inner).clone());
    Interfaces::Networks(current.collect())
}

/// Parses Java's list of addresses, separated by spaces.
fn parse_addresses(text: &str) -> Result<Vec<IpAddr>, Failure> {
    let parse = |word: &str| {
        // A scope (`fe80::1%wlan0`) has no meaning for the peer, and is not needed here.
        let address = word.split('%').next().unwrap_or(word);
        address.parse().map_err(|_| Failure::Argument(format!("'{word}' is not an IP address")))
    };
    text.split_whitespace().map(parse).collect()
}

/// Calls Java to bind a socket.
fn bind(binder: &Global<JObject<'static>>, socket: &UdpSocket) -> io::Result<()> {
    let fd = socket.as_raw_fd();
    // Binding is rare, so threads of the runtime are attached to the virtual machine only for this
    // call.
    let bound = JavaVM::singleton().and_then(|vm| {
        vm.attach_current_thread_for_scope(|env| {
            env.call_method(binder, jni_str!("bind"), jni_sig!("(I)V"), &[JValue::Int(fd)]).map(drop)
        })
    });
    bound.map_err(|error| match error {
        Error::CaughtJavaException { msg, .. } => io::Error::other(msg),
        other => io::Error::other(other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_java_writes_them() {
        let read = |text| parse_addresses(text).map_err(|failure| format!("{failure:?}"));
        let expected: Vec<IpAddr> =
            ["192.168.1.7", "fe80::1", "2001:db8::7"].map(|a| a.parse().expect("is an address")).to_vec();
        assert_eq!(read("192.168.1.7 fe80::1%wlan0 2001:db8::7"), Ok(expected));
        assert_eq!(read(""), Ok(Vec::new()));
        assert_eq!(read("10.0.0"), Err("Argument(\"'10.0.0' is not an IP address\")".into()));
    }

    #[test]
    fn networks_that_are_closed_are_left_out_of_plans() {
        let number = NETWORKS.insert(Mutex::new(Network::new("wifi", |_| Ok(()))));
        update(number, "192.168.1.7", true).expect("is open");
        let Interfaces::Networks(planned) = plan(&[number, number + 99]) else { panic!("other plan") };
        assert_eq!(planned.iter().map(Network::name).collect::<Vec<_>>(), ["wifi"]);
        close(number);
        assert_eq!(plan(&[number]), Interfaces::Networks(Vec::new()));
        assert!(update(number, "", false).is_err());
    }
}
