//! Sockets of flows while interfaces, addresses and routes come and go.

#![cfg(target_os = "linux")]

mod common;

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    time::{Duration, Instant},
};

use common::*;
use squall_testkit::namespace::{self, Namespace, run};
use squall_tunnel::{
    Config, Tunnel,
    config::{ConnectConfig, IdentityConfig, ListenConfig, Side, TrustConfig},
};

/// Runs the test of this name in a network namespace whose default route leads over `modem9`, with
/// a camera on another cable.
fn in_namespace(name: &str, test: impl AsyncFn(Camera)) {
    namespace::alone(name, || {
        run("ip link add modem9 type veth peer name mast9");
        run("ip link set mast9 up");
        run("ip addr add 10.9.9.2/24 dev modem9");
        run("ip link set modem9 up");
        run("ip route add default via 10.9.9.1 dev modem9");
        // Without the cable.
        within(async || test(Camera(Namespace::new())).await);
    });
}

/// A network namespace at the other end of the cable `lan9`.
struct Camera(Namespace);

impl Camera {
    /// Connects the cable.
    fn plug(&self) {
        run("ip link add lan9 type veth peer name eth9");
        self.0.take("eth9");
        self.0.run("ip addr add 192.168.9.9/24 dev eth9");
        self.0.run("ip -6 addr add fd09::9/64 dev eth9 nodad");
        self.0.run("ip link set eth9 up");
        self.0.run("ip route add 224.0.0.0/4 dev eth9");
        run("ip addr add 192.168.9.2/24 dev lan9");
        run("ip -6 addr add fd09::2/64 dev lan9 nodad");
        run("ip link set lan9 up");
    }

    /// Opens a socket in the namespace of the camera.
    fn socket(&self, address: SocketAddr) -> UdpSocket {
        self.0.enter(move || UdpSocket::bind(address)).expect("is bound")
    }

    /// Sends to a group until a datagram has entered at the flow.
    async fn reaches(&self, entry: &Tunnel, flow: usize, group: &str) {
        let group: SocketAddr = group.parse().expect("is an address");
        let any = if group.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let count = |entry: &Tunnel| entry.status().flows[flow].datagrams_in;
        let (begin, before) = (Instant::now(), count(entry));
        while count(entry) == before {
            assert!(begin.elapsed() < PATIENCE, "nothing comes from {group}: {}", words(entry));
            // The cable may be replaced meanwhile.
            let _ = self.socket(any.parse().expect("is an address")).send_to(b"picture", group);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Starts an entry with these flows, whose exit is never reached.
async fn entry(flows: &[&str]) -> Tunnel {
    let to: SocketAddr = "127.0.0.1:9".parse().expect("is an address");
    let connect = ConnectConfig {
        interfaces: vec!["127.0.0.1".to_owned()],
        ..ConnectConfig::new(vec![to.into()], TrustConfig::Insecure)
    };
    let flows = flows.iter().map(|flow| flow_in(flow)).collect();
    Tunnel::start(Config { flows, ..Config::new(Side::Connect(connect), token()) }).await.expect("starts")
}

/// Waits for words in the log.
async fn says(tunnel: &Tunnel, expected: &str) {
    until(tunnel, expected, |status| status.events.iter().any(|event| event.words.contains(expected))).await;
}

#[test]
fn a_group_is_joined_on_the_interface_that_is_named() {
    in_namespace("a_group_is_joined_on_the_interface_that_is_named", async |camera| {
        camera.plug();
        let entry = entry(&[
            "a=udp://239.1.1.1:5000,interface=lan9",
            "b=udp://[ff15::1]:5000,interface=lan9",
            "c=udp://[ff02::99]:5000,interface=lan9",
            "d=udp://239.1.1.4:5000",
        ])
        .await;
        camera.reaches(&entry, 0, "239.1.1.1:5000").await;
        camera.reaches(&entry, 1, "[ff15::1]:5000").await;
        camera.reaches(&entry, 2, "[ff02::99]:5000").await;
        // The system would select the modem, and the line reports it.
        says(&entry, "flow 'd': group 239.1.1.4 joined on modem9, to which the routes of the system lead")
            .await;
        says(&entry, "flow 'd': nothing has come to the group 239.1.1.4:5000 on modem9 for 10 s").await;
        assert!(
            words(&entry).contains("interface in the flow names another: mast9, lan9"),
            "{}",
            words(&entry)
        );
        assert_eq!(entry.status().flows[3].datagrams_in, 0);
        entry.stop().await;
    });
}

#[test]
fn a_group_is_joined_again_when_its_interface_returns_or_has_another_address() {
    in_namespace(
        "a_group_is_joined_again_when_its_interface_returns_or_has_another_address",
        async |camera| {
            let entry =
                entry(&["a=udp://239.1.1.1:5000,interface=lan9", "b=udp://[ff02::99]:5000,interface=lan9"])
                    .await;
            says(
                &entry,
                "flow 'a': there is no interface 'lan9'; there are mast9, modem9; the flow waits for it",
            )
            .await;
            camera.plug();
            camera.reaches(&entry, 0, "239.1.1.1:5000").await;
            camera.reaches(&entry, 1, "[ff02::99]:5000").await;
            for _ in 0..2 {
                run("ip link del lan9");
                camera.plug();
                camera.reaches(&entry, 0, "239.1.1.1:5000").await;
                camera.reaches(&entry, 1, "[ff02::99]:5000").await;
            }
            let joined = |tunnel: &Tunnel| words(tunnel).matches("group 239.1.1.1 joined on lan9").count();
            let before = joined(&entry);
            run("ip addr add 192.168.9.3/24 dev lan9");
            run("ip addr del 192.168.9.2/24 dev lan9");
            let begin = Instant::now();
            while joined(&entry) == before {
                assert!(begin.elapsed() < PATIENCE, "not joined again: {}", words(&entry));
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            camera.reaches(&entry, 0, "239.1.1.1:5000").await;
            assert_eq!(entry.status().task_failures, 0);
            entry.stop().await;
        },
    );
}

#[test]
fn a_group_without_a_name_follows_the_routes_while_nothing_comes() {
    in_namespace("a_group_without_a_name_follows_the_routes_while_nothing_comes", async |camera| {
        run("ip route del default");
        let (other, local) = (reserve_port(), UdpSocket::bind("127.0.0.1:0").expect("is bound"));
        let entry = entry(&["a=udp://239.1.1.1:5000", &format!("b=udp://127.0.0.1:{other}")]).await;
        says(&entry, "flow 'a': there is no route to the group 239.1.1.1").await;
        local.send_to(b"x", ("127.0.0.1", other)).expect("is sent");
        until(&entry, "another flow", |status| status.flows[1].datagrams_in == 1).await;
        // The modem comes first.
        run("ip route add default via 10.9.9.1 dev modem9");
        says(&entry, "group 239.1.1.1 joined on modem9").await;
        camera.plug();
        run("ip route add 239.0.0.0/8 dev lan9");
        camera.reaches(&entry, 0, "239.1.1.1:5000").await;
        // Another route to the group does not move the flow away from its source.
        run("ip route del 239.0.0.0/8 dev lan9");
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(3) {
            camera.reaches(&entry, 0, "239.1.1.1:5000").await;
        }
        run("ip route del default");
        camera.reaches(&entry, 0, "239.1.1.1:5000").await;
        run("ip link del lan9");
        camera.plug();
        run("ip route add 239.0.0.0/8 dev lan9");
        camera.reaches(&entry, 0, "239.1.1.1:5000").await;
        entry.stop().await;
    });
}

#[test]
fn datagrams_leave_for_a_group_over_the_interface_that_is_named_and_otherwise_one_line_says_why_not() {
    let name =
        "datagrams_leave_for_a_group_over_the_interface_that_is_named_and_otherwise_one_line_says_why_not";
    in_namespace(name, async |camera| {
        run("ip route del default");
        camera.plug();
        let receiver = camera.socket("0.0.0.0:6000".parse().expect("is an address"));
        receiver
            .join_multicast_v4(&Ipv4Addr::new(239, 2, 2, 2), &Ipv4Addr::new(192, 168, 9, 9))
            .expect("joins");
        receiver.set_read_timeout(Some(PATIENCE)).expect("is set");
        let (port, other) = (reserve_port(), reserve_port());
        let flows = ["a=udp://239.2.2.2:6000,interface=lan9", "b=udp://239.3.3.3:6000"].map(flow_out);
        let exit = Tunnel::start(exit_config(0, None, flows.into())).await.expect("starts");
        let flows = [format!("a=udp://127.0.0.1:{port}"), format!("b=udp://127.0.0.1:{other}")];
        let flows = flows.iter().map(|flow| flow_in(flow)).collect();
        let entry = Tunnel::start(entry_config(&exit, flows)).await.expect("starts");
        attached(&entry).await;
        attached(&exit).await;
        let source = UdpSocket::bind("127.0.0.1:0").expect("is bound");
        let arrives = || {
            source.send_to(b"picture", ("127.0.0.1", port)).expect("is sent");
            let mut buffer = [0; 100];
            let (length, from) = receiver.recv_from(&mut buffer).expect("arrives");
            assert_eq!(
                (&buffer[..length], from.ip().to_string()),
                (&b"picture"[..], "192.168.9.2".to_owned())
            );
        };
        arrives();
        for _ in 0..20 {
            source.send_to(b"picture", ("127.0.0.1", other)).expect("is sent");
        }
        until(&exit, "refused", |status| status.flows[1].unwritten == 20).await;
        let lines = words(&exit);
        assert_eq!(lines.matches("datagrams do not leave").count(), 1, "{lines}");
        let line = "flow 'b': datagrams do not leave for 239.3.3.3:6000: network unreachable; \
                    no route leads to the group: set interface in the flow, or add a route";
        assert!(lines.contains(line), "{lines}");
        // The cable is a different one afterwards.
        run("ip link del lan9");
        says(&exit, "flow 'a': there is no interface 'lan9'").await;
        camera.plug();
        receiver
            .join_multicast_v4(&Ipv4Addr::new(239, 2, 2, 2), &Ipv4Addr::new(192, 168, 9, 9))
            .expect("joins");
        receiver.set_read_timeout(Some(Duration::from_millis(100))).expect("is set");
        let begin = Instant::now();
        while receiver.recv(&mut [0; 100]).is_err() {
            assert!(begin.elapsed() < PATIENCE, "nothing arrives: {}", words(&exit));
            source.send_to(b"picture", ("127.0.0.1", port)).expect("is sent");
        }
        entry.stop().await;
        exit.stop().await;
    });
}

#[test]
fn addresses_that_are_not_there_yet_are_waited_for() {
    in_namespace("addresses_that_are_not_there_yet_are_waited_for", async |_| {
        let listen: SocketAddr = "10.9.8.1:4433".parse().expect("is an address");
        let flows = vec![flow_in("a=udp://10.9.8.1:5000"), flow_in("b=udp://127.0.0.1:5000")];
        let side = Side::Listen(ListenConfig::new(listen, IdentityConfig::Fresh));
        let metrics = Some("10.9.8.1:9464".parse().expect("is an address"));
        let config = Config { flows, metrics, ..Config::new(side, token()) };
        let mut start = tokio::spawn(Tunnel::start(config));
        let early = tokio::time::timeout(Duration::from_secs(2), &mut start).await;
        assert!(early.is_err(), "it listens nowhere");
        run("ip addr add 10.9.8.1/32 dev lo");
        let exit =
            tokio::time::timeout(PATIENCE, start).await.expect("in time").expect("ends").expect("starts");
        assert_eq!(exit.listening(), Some(listen));
        let begin = Instant::now();
        let source = UdpSocket::bind("127.0.0.1:0").expect("is bound");
        let mut there = (false, false);
        while there != (true, true) {
            assert!(begin.elapsed() < PATIENCE, "{there:?}: {}", words(&exit));
            let _ = source.send_to(b"x", "10.9.8.1:5000");
            there = (exit.status().flows[0].datagrams_in > 0, exit.metrics() == metrics);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let lines = words(&exit);
        for line in [
            "flow 'a': 10.9.8.1:5000: no interface has this address; the flow waits for it",
            "metrics: 10.9.8.1:9464: no interface has this address; they wait for it",
            "cannot listen on 10.9.8.1:4433: no interface has this address; the exit waits for it",
        ] {
            assert_eq!(lines.matches(line).count(), 1, "{line} in {lines}");
        }
        exit.stop().await;
    });
}

#[test]
fn a_port_in_use_is_an_error_at_once() {
    within(async || {
        let (udp, tcp) = (UdpSocket::bind("127.0.0.1:0"), TcpListener::bind("127.0.0.1:0"));
        let (udp, tcp) = (udp.expect("is bound"), tcp.expect("is bound"));
        let udp_at = udp.local_addr().expect("is bound");
        let config = |flow: &str| exit_config(0, None, vec![flow_in(flow)]);
        let error = Tunnel::start(config(&format!("x=udp://{udp_at}"))).await.expect_err("is in use");
        assert_eq!(error.to_string(), format!("flow 'x': in udp://{udp_at}: address in use"));
        let metrics = tcp.local_addr().expect("is bound");
        let other =
            Config { metrics: Some(metrics), ..config(&format!("x=udp://127.0.0.1:{}", reserve_port())) };
        let error = Tunnel::start(other).await.expect_err("is in use");
        assert_eq!(error.to_string(), format!("metrics: cannot listen on {metrics}: address in use"));
    });
}
