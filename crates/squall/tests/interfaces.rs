//! Changes that the system reports: send errors, and interfaces that appear, go down and disappear.

#![cfg(target_os = "linux")]

mod common;

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use common::{ip, next_block, request, server, within};
use squall::{
    Block, Config, Connect, Endpoint, Identity, PathChange, PathEvent, Session, Trust, sched::PathState,
};
use squall_testkit::{
    assert_duration, in_real_time,
    namespace::{self, Namespace, run},
};
use tokio::runtime::Handle;

/// Without a report of the system a session suspects no path in less than 50 ms.
const AT_ONCE: Duration = Duration::from_millis(40);

/// Time from adding an address to the first packet over it. Without notices of the kernel it would
/// take seconds.
const SOON: Duration = Duration::from_millis(200);

/// Runs the test of this name in a network namespace with 127.0.0.1 to 3 and 10.9.9.2 on an interface `radio9`.
fn in_namespace(name: &str, test: impl AsyncFn()) {
    namespace::alone(name, || {
        run("ip link add radio9 type veth peer name mast9");
        run("ip link set mast9 up");
        run("ip addr add 10.9.9.2/24 dev radio9");
        run("ip link set radio9 up");
        // Rules for addresses of this machine come first by default; those of the test must precede
        // them.
        run("ip rule add pref 100 lookup local");
        run("ip rule del pref 0");
        in_real_time(|| within(&test));
    });
}

/// Opens a session over 127.0.0.2 and `other`, both up, and returns both ends. Every packet leaves
/// on both, so that neither is idle.
async fn session(other: &str) -> (Endpoint, Session, Session) {
    let (endpoint, identity) = server(Config::default());
    let request = request(&endpoint, &identity).over([ip("127.0.0.2"), ip(other)]);
    let config = Config::default().scheduler(squall::scheduler("redundant").expect("is known"));
    let client = squall::connect(request.config(config)).await.expect("connects");
    let accepted = endpoint.accept().await.expect("listens");
    while client.paths().iter().filter(|path| path.stats.state == PathState::Active).count() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (endpoint, client, accepted)
}

/// Returns the next change of the client's path from this address, other than coming up.
async fn change(client: &Session, local: &str) -> PathChange {
    let path = client.paths().iter().find(|path| path.local.ip() == ip(local)).expect("is up").id;
    loop {
        let event = client.path_event().await.expect("the session lasts");
        if event.path == path && !matches!(event.change, PathChange::Up(_)) {
            return event.change;
        }
    }
}

#[test]
fn a_path_that_was_never_answered_is_opening() {
    within(async || {
        let (endpoint, identity) = server(Config::default());
        // A peer that receives packets and answers none.
        let mute = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        let any = |local: &str| std::net::SocketAddr::new(ip(local), 0);
        let pairs = [
            (any("127.0.0.2"), endpoint.local_addrs()[0]),
            (any("127.0.0.3"), mute.local_addr().expect("is bound")),
        ];
        let request = request(&endpoint, &identity).interfaces(squall::Interfaces::Pairs(pairs.into()));
        let client = squall::connect(request).await.expect("connects");
        let accepted = endpoint.accept().await.expect("listens");
        for number in 0..20 {
            client.send(Block::new(vec![number; 3_000])).await.expect("is taken");
            next_block(&accepted).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let paths = client.paths();
        let states: Vec<_> = paths.iter().map(|path| (path.local.ip(), path.stats.state)).collect();
        let expected = [(ip("127.0.0.2"), PathState::Active), (ip("127.0.0.3"), PathState::Opening)];
        assert_eq!(states, expected);
        assert!(paths[1].stats.sent_bytes > 0 && paths[1].stats.received_bytes == 0, "{paths:?}");
    });
}

#[test]
fn a_path_is_suspected_as_soon_as_the_system_refuses_its_packets() {
    in_namespace("a_path_is_suspected_as_soon_as_the_system_refuses_its_packets", async || {
        let (_endpoint, client, accepted) = session("127.0.0.3").await;
        let receiver = tokio::spawn(async move {
            loop {
                next_block(&accepted).await;
            }
        });
        let sender = client.clone();
        let sending = tokio::spawn(async move {
            loop {
                sender.send(Block::new(vec![1; 3_000])).await.expect("is taken");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        tokio::time::sleep(Duration::from_millis(200)).await;
        for local in ["127.0.0.2", "127.0.0.3"] {
            let rule = format!("pref 5 from {local} unreachable");
            run(&format!("ip rule add {rule}"));
            let at = Instant::now();
            let change = change(&client, local).await;
            let after = at.elapsed();
            println!("{local}: {change:?} after {after:?}");
            assert!(matches!(change, PathChange::Suspected { .. }), "{change:?}");
            run(&format!("ip rule del {rule}"));
            let change = self::change(&client, local).await;
            assert!(matches!(change, PathChange::Readmitted { .. }), "{change:?}");
            assert_duration!(after < AT_ONCE, "{after:?}");
        }
        sending.abort();
        receiver.abort();
    });
}

#[test]
fn an_idle_path_is_suspected_as_soon_as_its_interface_goes_down() {
    in_namespace("an_idle_path_is_suspected_as_soon_as_its_interface_goes_down", async || {
        let (_endpoint, client, _accepted) = session("10.9.9.2").await;
        let downs =
            ["ip link set radio9 down", "ip addr del 10.9.9.2/24 dev radio9", "ip link set mast9 down"];
        for down in downs {
            run(down);
            let at = Instant::now();
            let change = change(&client, "10.9.9.2").await;
            println!("{down}: {change:?} after {:?}", at.elapsed());
            assert!(matches!(change, PathChange::Suspected { .. }), "{change:?}");
            run("ip link set radio9 up");
            run("ip link set mast9 up");
            Command::new("ip")
                .args(["addr", "add", "10.9.9.2/24", "dev", "radio9"])
                .output()
                .expect("there is ip");
            // Over the loopback interface, the actual route, packets pass as before.
            let change = self::change(&client, "10.9.9.2").await;
            assert!(matches!(change, PathChange::Readmitted { .. }), "{change:?}");
        }
    });
}

/// Starts a server at 0.0.0.0 in the other namespace.
fn listen(far: &Namespace) -> (Endpoint, Identity) {
    listen_on(far, "0.0.0.0:0")
}

fn listen_on(far: &Namespace, address: &'static str) -> (Endpoint, Identity) {
    let runtime = Handle::current();
    far.enter(move || {
        let _inside = runtime.enter();
        let identity = Identity::self_signed("localhost").expect("is made");
        let tls = identity.server_tls().expect("is valid");
        (Endpoint::listen(address, &tls, Config::default()).expect("a port is free"), identity)
    })
}

/// Moves an interface into the other namespace, and gives it an address.
fn take(far: &Namespace, interface: &str, address: &str) {
    far.take(interface);
    far.run(&format!("ip addr add {address} dev {interface}"));
    far.run(&format!("ip link set {interface} up"));
}

/// Connects an interface here to one in the other namespace, by number: 10.9.N.2 here, with a route
/// via 10.9.N.1.
fn plug(far: &Namespace, name: &str, number: u8, to: &str) {
    run(&format!("ip link add {name} type veth peer name far{number}"));
    take(far, &format!("far{number}"), &format!("10.9.{number}.1/24"));
    run(&format!("ip addr add 10.9.{number}.2/24 dev {name}"));
    run(&format!("ip link set {name} up"));
    run(&format!("ip route add {to} via 10.9.{number}.1 dev {name} metric {number}"));
}

/// Returns a request to a server in the other namespace, at 10.9.0.1.
fn request_to(endpoint: &Endpoint, identity: &Identity) -> Connect {
    let server = std::net::SocketAddr::from((ip("10.9.0.1"), endpoint.local_addrs()[0].port()));
    Connect::to(server).trust(Trust::Pinned(identity.fingerprint()))
}

/// Returns the time until the answered paths are those over the `expected` interfaces, by name.
async fn answered(client: &Session, expected: &[&str]) -> Duration {
    let begin = Instant::now();
    loop {
        let paths = client.paths();
        let up = paths.iter().filter(|path| path.stats.state != PathState::Opening);
        let mut up: Vec<&str> = up.filter_map(|path| path.interface.as_deref()).collect();
        up.sort_unstable();
        if up == expected {
            println!("{expected:?} after {:?}", begin.elapsed());
            return begin.elapsed();
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "{paths:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Limit for the time until all usable paths are up.
const ALL_USABLE: Duration = Duration::from_secs(5);

#[test]
fn bridges_without_a_route_do_not_keep_modems_out() {
    in_namespace("bridges_without_a_route_do_not_keep_modems_out", async || {
        let far = Namespace::new();
        far.run("ip addr add 10.9.0.1/32 dev lo");
        far.run("ip link set lo up");
        // More interfaces than a session may have paths, before the modems in the system's order.
        for number in 0..9 {
            run(&format!("ip link add br{number} type bridge"));
            run(&format!("ip link add member{number} type veth peer name guest{number}"));
            run(&format!("ip link set member{number} master br{number}"));
            run(&format!("ip link set member{number} up"));
            run(&format!("ip link set guest{number} up"));
            run(&format!("ip addr add 172.{}.0.1/16 dev br{number}", 16 + number));
            run(&format!("ip link set br{number} up"));
        }
        run("ip link add empty type veth peer name unplugged");
        run("ip addr add 172.30.0.1/16 dev empty");
        run("ip link set empty up");
        plug(&far, "modem1", 1, "10.9.0.1");
        let (endpoint, identity) = listen(&far);
        let client = squall::connect(request_to(&endpoint, &identity)).await;
        let client = client.expect("connects");
        assert_duration!(answered(&client, &["modem1"]).await < ALL_USABLE);
        plug(&far, "modem2", 2, "10.9.0.1");
        assert_duration!(answered(&client, &["modem1", "modem2"]).await < ALL_USABLE);
        assert_eq!(client.paths().len(), 2, "nothing is sent over bridges");
        let why = |name: &str| {
            client.unused_interfaces().into_iter().find(|one| one.name == name).map(|one| one.why.to_string())
        };
        // A bridge gets its carrier a little later than its member.
        let no_route = Some("the kernel has no route to 10.9.0.1 over it".to_owned());
        let begin = Instant::now();
        while why("br0") != no_route && begin.elapsed() < ALL_USABLE {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(why("br0"), no_route);
        assert_eq!(why("empty").as_deref(), Some("it is down, or has no carrier"));
        assert_eq!(why("modem1"), None);
    });
}

#[test]
fn modems_without_an_answer_give_their_places_to_others() {
    in_namespace("modems_without_an_answer_give_their_places_to_others", async || {
        let far = Namespace::new();
        far.run("ip addr add 10.9.0.1/32 dev lo");
        far.run("ip link set lo up");
        // Each has a route, and the first ones lead to no server.
        for number in 11..=20 {
            plug(&far, &format!("modem{number}"), number, "10.9.0.1");
            if number <= 18 {
                far.run(&format!("ip addr del 10.9.{number}.1/24 dev far{number}"));
            }
        }
        let (endpoint, identity) = listen(&far);
        let client = squall::connect(request_to(&endpoint, &identity)).await;
        let client = client.expect("connects");
        let after = answered(&client, &["modem19", "modem20"]).await;
        assert_duration!(after < 2 * ALL_USABLE, "{after:?}");
    });
}

#[test]
fn a_family_that_leads_nowhere_is_left_for_the_other() {
    in_namespace("a_family_that_leads_nowhere_is_left_for_the_other", async || {
        let far = Namespace::new();
        far.run("ip addr add 10.9.0.1/32 dev lo");
        far.run("ip addr add 2001:db8:f::1/128 dev lo nodad");
        far.run("ip link set lo up");
        for number in 1..=2 {
            plug(&far, &format!("modem{number}"), number, "10.9.0.1");
            run(&format!("ip addr add 2001:db8:{number}::2/64 dev modem{number} nodad"));
            far.run(&format!("ip addr add 2001:db8:{number}::1/64 dev far{number} nodad"));
            let via = format!("via 2001:db8:{number}::1 dev modem{number} metric {number}");
            run(&format!("ip route add 2001:db8:f::1 {via}"));
        }
        // Packets leave over the IPv6 of the second modem, and no answer comes back.
        far.run("ip -6 route add blackhole 2001:db8:2::2/128");
        let (endpoint, identity) = listen_on(&far, "[::]:0");
        let port = endpoint.local_addrs()[0].port();
        let addresses = ["2001:db8:f::1", "10.9.0.1"].map(|one| std::net::SocketAddr::new(ip(one), port));
        let request = request_to(&endpoint, &identity).addresses(addresses);
        let client = squall::connect(request).await.expect("connects");
        let after = answered(&client, &["modem1", "modem2"]).await;
        assert_duration!(after < ALL_USABLE, "{after:?}");
        let paths = client.paths();
        let second = paths.iter().find(|path| path.interface.as_deref() == Some("modem2"));
        assert!(second.is_some_and(|path| path.remote.is_ipv4()), "{paths:?}");
    });
}

#[test]
fn an_address_of_the_server_that_leads_nowhere_is_left_for_the_next() {
    in_namespace("an_address_of_the_server_that_leads_nowhere_is_left_for_the_next", async || {
        let far = Namespace::new();
        far.run("ip addr add 10.9.0.1/32 dev lo");
        far.run("ip addr add 10.9.0.2/32 dev lo");
        far.run("ip link set lo up");
        for number in 1..=2 {
            plug(&far, &format!("modem{number}"), number, "10.9.0.1");
            run(&format!("ip route add 10.9.0.2 via 10.9.{number}.1 dev modem{number} metric {number}"));
        }
        // A gateway that does not exist.
        run("ip route replace 10.9.0.1 via 10.9.2.77 dev modem2 metric 2");
        let (endpoint, identity) = listen(&far);
        let port = endpoint.local_addrs()[0].port();
        let addresses = ["10.9.0.1", "10.9.0.2"].map(|one| std::net::SocketAddr::new(ip(one), port));
        let request = request_to(&endpoint, &identity).addresses(addresses);
        let client = squall::connect(request).await.expect("connects");
        let after = answered(&client, &["modem1", "modem2"]).await;
        assert_duration!(after < ALL_USABLE, "{after:?}");
        // The other path has the same socket, and is abandoned.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let paths = client.paths();
        let to: Vec<_> = paths.iter().map(|path| (path.interface.as_deref(), path.remote.ip())).collect();
        assert_eq!(to, [(Some("modem1"), ip("10.9.0.1")), (Some("modem2"), ip("10.9.0.2"))]);
    });
}

#[test]
fn a_deprecated_address_is_left_as_soon_as_the_kernel_does() {
    in_namespace("a_deprecated_address_is_left_as_soon_as_the_kernel_does", async || {
        let far = Namespace::new();
        far.run("ip addr add 2001:db8:f::1/128 dev lo nodad");
        far.run("ip link set lo up");
        take(&far, "mast9", "fe80::1/64");
        let renumbered = |prefix: &str| {
            run(&format!("ip addr add {prefix}::2/64 dev radio9 nodad"));
            far.run(&format!("ip addr add {prefix}::1/64 dev mast9 nodad"));
        };
        renumbered("2001:db8:1");
        run("ip route add 2001:db8:f::1 via fe80::1 dev radio9");
        let (endpoint, identity) = listen_on(&far, "[::]:0");
        let server = std::net::SocketAddr::new(ip("2001:db8:f::1"), endpoint.local_addrs()[0].port());
        let connect = || Connect::to(server).trust(Trust::Pinned(identity.fingerprint()));
        let client = squall::connect(connect()).await.expect("connects");
        let accepted = endpoint.accept().await.expect("listens");
        answered(&client, &["radio9"]).await;
        assert_eq!(client.paths()[0].local.ip(), ip("2001:db8:1::2"));
        renumbered("2001:db8:2");
        // An address of another scope, which reaches no server.
        run("ip addr add fd00:9::2/64 dev radio9 nodad");
        run("ip addr change 2001:db8:1::2/64 dev radio9 preferred_lft 0 valid_lft 7200");
        far.run("ip addr del 2001:db8:1::1/64 dev mast9");
        far.run("ip -6 route add blackhole 2001:db8:1::/64");
        let begin = Instant::now();
        client.send(Block::new("still there")).await.expect("is taken");
        assert_eq!(next_block(&accepted).await.data, "still there");
        let is_new = |path: &squall::PathInfo| path.local.ip() == ip("2001:db8:2::2");
        // The block may have left from the old address, for which only the return route is gone.
        while !client.paths().iter().any(is_new) {
            assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", client.paths());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_duration!(begin.elapsed() < ALL_USABLE, "{:?}", begin.elapsed());
        let again = squall::connect(connect()).await.expect("connects");
        assert!(again.paths().iter().all(is_new), "{:?}", again.paths());
    });
}

#[test]
fn what_reverse_path_filtering_drops_is_named() {
    in_namespace("what_reverse_path_filtering_drops_is_named", async || {
        let far = Namespace::new();
        far.run("ip addr add 10.9.0.1/32 dev lo");
        far.run("ip link set lo up");
        plug(&far, "modem1", 1, "10.9.0.1");
        plug(&far, "modem2", 2, "10.9.0.1");
        for name in ["all", "modem1", "modem2"] {
            fs::write(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), "1").expect("can be set");
        }
        let (endpoint, identity) = listen(&far);
        let client = squall::connect(request_to(&endpoint, &identity)).await;
        let client = client.expect("connects");
        answered(&client, &["modem1"]).await;
        let trouble = |name: &str| {
            let paths = client.paths();
            paths.into_iter().find(|path| path.interface.as_deref() == Some(name))?.trouble
        };
        while trouble("modem2").is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let words = "the kernel drops what arrives here from 10.9.0.1, as rp_filter is 1 and its route leads over modem1: \
            sysctl -w net.ipv4.conf.modem2.rp_filter=2";
        assert_eq!(trouble("modem2").as_deref(), Some(words));
        assert_eq!(trouble("modem1"), None);
        fs::write("/proc/sys/net/ipv4/conf/modem2/rp_filter", "2").expect("can be set");
        answered(&client, &["modem1", "modem2"]).await;
    });
}

#[test]
fn a_route_that_comes_and_goes_takes_the_path_with_it() {
    in_namespace("a_route_that_comes_and_goes_takes_the_path_with_it", async || {
        let far = Namespace::new();
        far.run("ip addr add 10.9.0.1/32 dev lo");
        far.run("ip link set lo up");
        plug(&far, "modem1", 1, "10.9.0.1");
        plug(&far, "modem2", 2, "10.9.0.1");
        let (endpoint, identity) = listen(&far);
        let client = squall::connect(request_to(&endpoint, &identity)).await;
        let client = client.expect("connects");
        answered(&client, &["modem1", "modem2"]).await;
        run("ip route del 10.9.0.1 dev modem2");
        answered(&client, &["modem1"]).await;
        while client.paths().len() > 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // A rule routes packets from its address.
        run("ip route add 10.9.0.1 via 10.9.2.1 dev modem2 table 102");
        run("ip rule add from 10.9.2.2 lookup 102");
        answered(&client, &["modem1", "modem2"]).await;
    });
}

/// Returns the next event of a path that comes up or goes down.
async fn up_or_down(client: &Session) -> PathEvent {
    loop {
        let event = client.path_event().await.expect("the session lasts");
        if matches!(event.change, PathChange::Up(_) | PathChange::Down) {
            return event;
        }
    }
}

#[test]
fn interfaces_that_appear_are_used_and_those_that_disappear_are_dropped() {
    in_namespace("interfaces_that_appear_are_used_and_those_that_disappear_are_dropped", async || {
        let far = Namespace::new();
        take(&far, "mast9", "10.9.9.1/24");
        let (endpoint, identity) = listen(&far);
        let server = (ip("10.9.9.1"), endpoint.local_addrs()[0].port());
        let request = Connect::to(std::net::SocketAddr::from(server));
        let request = request.trust(Trust::Pinned(identity.fingerprint()));
        let client = squall::connect(request).await.expect("connects");
        let accepted = endpoint.accept().await.expect("listens");
        assert!(matches!(up_or_down(&client).await.change, PathChange::Up(_)));
        // Until then the interfaces are polled every second.
        tokio::time::sleep(Duration::from_millis(1_500)).await;

        run("ip link add modem9 type veth peer name cell9");
        take(&far, "cell9", "10.9.8.1/24");
        run("ip link set modem9 up");
        for appears in ["ip addr add 10.9.8.2/24 dev modem9", "ip addr add 10.9.8.3/24 dev modem9"] {
            let begin = Instant::now();
            run(appears);
            run("ip route add 10.9.9.1 via 10.9.8.1 dev modem9 metric 20");
            let event = up_or_down(&client).await;
            let after = begin.elapsed();
            println!("{appears}: {event:?} after {after:?}");
            assert!(matches!(event.change, PathChange::Up(_)), "{event:?}");
            let path = event.path;
            let up = client.paths().into_iter().find(|info| info.id == path).expect("is open");
            assert_eq!(up.interface.as_deref(), Some("modem9"));
            assert_duration!(after < SOON, "{after:?}");

            let begin = Instant::now();
            run(&appears.replace(" add ", " del "));
            let event = up_or_down(&client).await;
            let after = begin.elapsed();
            println!("it disappears: {event:?} after {after:?}");
            assert!(matches!(event.change, PathChange::Down) && event.path == path, "{event:?}");
            assert_duration!(after < SOON, "{after:?}");
        }
        client.send(Block::new("over the first")).await.expect("is taken");
        assert_eq!(next_block(&accepted).await.data, "over the first");
        run("ip link del modem9");
    });
}
