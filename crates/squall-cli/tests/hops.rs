//! `squall hops` over a router to a host.
#![cfg(target_os = "linux")]

use std::process::{Command, Output};

use squall_testkit::namespace::{Namespace, alone, run};

fn hops(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_squall")).arg("hops").args(arguments).output().expect("it starts")
}

/// Connects this namespace to another by a cable; each end has an address of each family.
fn cable(here: Option<&Namespace>, other: &Namespace, (near, far): (&str, &str), net: &str) {
    run(&format!("ip link add {near} type veth peer name {far}"));
    other.take(far);
    if let Some(here) = here {
        here.take(near);
    }
    let here = |command: String| here.map_or_else(|| run(&command), |here| here.run(&command));
    for family in [format!("{net}.1/24"), format!("fd00:{}::1/64", net.replace('.', ":"))] {
        let nodad = if family.contains(':') { " nodad" } else { "" };
        here(format!("ip address add {family} dev {near}{nodad}"));
        other.run(&format!("ip address add {} dev {far}{nodad}", family.replace("1/", "2/")));
    }
    here(format!("ip link set {near} up"));
    other.run(&format!("ip link set {far} up"));
}

#[test]
fn each_hop_answers_for_itself_up_to_the_host() {
    alone("each_hop_answers_for_itself_up_to_the_host", || {
        let (router, host) = (Namespace::new(), Namespace::new());
        cable(None, &router, ("radio", "cell"), "10.1.0");
        cable(Some(&router), &host, ("wired", "core"), "10.2.0");
        router.run("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
        router.run("sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0");
        run("ip route add default via 10.1.0.2");
        run("ip -6 route add default via fd00:10:1:0::2");
        host.run("ip route add default via 10.2.0.1");
        host.run("ip -6 route add default via fd00:10:2:0::1");
        host.run("sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0");
        // The first packets over cables that were just made are lost until both ends have found their
        // neighbours.
        for address in ["10.2.0.2", "fd00:10:2:0::2"] {
            let found = (0..20).any(|_| {
                let printed = hops(&[address, "--probes", "1", "--json", "-"]).stdout;
                String::from_utf8_lossy(&printed).contains("\"is_host\": true")
            });
            assert!(found, "{address} does not answer");
        }

        for (address, first, second) in
            [("10.2.0.2", "10.1.0.2", "10.2.0.2"), ("fd00:10:2:0::2", "fd00:10:1::2", "fd00:10:2::2")]
        {
            let output = hops(&[address, "--probes", "3", "--json", "-"]);
            let printed = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
            let routes: serde_json::Value = serde_json::from_str(&printed).expect("is JSON");
            let [route] = &routes.as_array().expect("is a list")[..] else {
                panic!("one interface: {printed}")
            };
            let hops = route["hops"].as_array().expect("is a list");
            assert_eq!((hops.len(), &route["interface"]), (2, &"radio".into()), "{printed}");
            assert_eq!(
                (&hops[0]["address"], &hops[1]["address"]),
                (&first.into(), &second.into()),
                "{printed}"
            );
            assert_eq!((&hops[0]["is_host"], &hops[1]["is_host"]), (&false.into(), &true.into()));
            for hop in hops {
                assert!(hop["sent"] == 3 && hop["answered"].as_u64() >= Some(2), "{printed}");
                let time = |name: &str| hop[name].as_u64().expect("it answers");
                assert!(0 < time("least_us") && time("least_us") <= time("median_us"), "{printed}");
            }
        }
        let text = String::from_utf8_lossy(&hops(&["10.2.0.2", "--probes", "3"]).stdout).into_owned();
        assert!(text.contains("radio: the first hop has ") && text.contains(" ms to hop 2"), "{text}");

        let unknown = hops(&["10.2.0.2", "--interface", "wlan7"]);
        let words = String::from_utf8_lossy(&unknown.stderr).into_owned();
        assert_eq!(unknown.status.code(), Some(2), "{words}");
        assert!(words.contains("wlan7 is not up or has no IPv4 address; there are radio"), "{words}");
        run("ip route del default");
        // Without a route, the kernel treats the host as a neighbour.
        let nowhere = hops(&["10.2.0.2", "--hops", "1"]);
        let words = String::from_utf8_lossy(&nowhere.stdout).into_owned();
        assert_eq!(nowhere.status.code(), Some(1), "{words}");
        assert!(words.contains("radio: no router answers"), "{words}");
    });
}
