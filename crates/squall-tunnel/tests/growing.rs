//! Pictures that leave while they are entering.

mod common;

use common::*;
use squall_tunnel::Tunnel;

/// Returns an RTP packet of one picture.
fn packet(number: u8, is_last: bool) -> Vec<u8> {
    let mut packet = vec![0x80, 96 | u8::from(is_last) << 7, 0, number];
    packet.resize(12, 0);
    packet.resize(1_000, number);
    packet
}

/// Options with which no pause of a busy machine ends a picture.
const PATIENT: &str = ",media=rtp,latency=30s,gap=1s";

#[test]
fn each_packet_of_a_picture_arrives_before_the_next_is_sent() {
    within(async || {
        for scheduler in ["minrtt", "redundant", "ninetails", "storm"] {
            let (source, target, port) = (socket(), socket(), reserve_port());
            let to = target.local_addr().expect("is bound");
            let exit = exit_config(0, None, vec![flow_out(&format!("x=udp://{to}"))]);
            let exit = Tunnel::start(exit).await.expect("starts");
            let flow = flow_in(&format!("x=udp://127.0.0.1:{port}{PATIENT}"));
            let mut entry = entry_config(&exit, vec![flow]);
            entry.scheduler = scheduler.to_owned();
            let entry = Tunnel::start(entry).await.expect("starts");
            attached(&entry).await;
            let pair = Pair { exit, entry, source, target, port };
            for number in 0..20 {
                pair.send(&packet(number, number == 19));
                assert_eq!(pair.recv().await.0, packet(number, number == 19), "{scheduler}");
            }
            let status = until(&pair.entry, "acknowledged", |status| status.flows[0].pending == 0).await;
            let sent = &status.flows[0].sent["reference"].outcomes["delivered"];
            // A header, and four bytes per packet.
            assert_eq!((sent.blocks, sent.bytes), (1, 21 + 20 * 1_004), "{scheduler}");
            let status = until(&pair.exit, "counted", |status| status.flows[0].latency.count == 20).await;
            let flow = &status.flows[0];
            let received = &flow.received.classes["reference"];
            assert_eq!((received.blocks, received.bytes), (1, 21 + 20 * 1_004), "{scheduler}");
            assert_eq!((flow.received.late, flow.received.missing), (0, 0), "{scheduler}");
            pair.stop().await;
        }
    });
}

#[test]
fn a_picture_goes_on_over_the_next_session() {
    within(async || {
        let folder = std::env::temp_dir().join(format!("squall-tunnel-growing-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("is made");
        let state = folder.join("state.pem");
        let (source, target, port) = (socket(), socket(), reserve_port());
        let flow = flow_out(&format!("x=udp://{}", target.local_addr().expect("is bound")));
        let exit = Tunnel::start(exit_config(0, Some(&state), vec![flow.clone()])).await.expect("starts");
        let at = exit.listening().expect("it listens").port();
        let entry = entry_config(&exit, vec![flow_in(&format!("x=udp://127.0.0.1:{port}{PATIENT}"))]);
        let entry = Tunnel::start(entry).await.expect("starts");
        attached(&entry).await;
        let pair = Pair { exit, entry, source, target, port };
        pair.send(&packet(0, false));
        assert_eq!(pair.recv().await.0, packet(0, false));
        let Pair { exit, entry, source, target, port } = pair;
        exit.stop().await;
        until(&entry, "lost", |status| !status.flows[0].attached).await;
        source.send_to(&packet(1, false), ("127.0.0.1", port)).expect("is sent");
        let exit = loop {
            // The port is free once the last close has left.
            if let Ok(exit) = Tunnel::start(exit_config(at, Some(&state), vec![flow.clone()])).await {
                break exit;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        };
        let pair = Pair { exit, entry, source, target, port };
        assert_eq!(pair.recv().await.0, packet(1, false), "it waited for the session, not for the picture");
        pair.send(&packet(2, true));
        assert_eq!(pair.recv().await.0, packet(2, true));
        let status = until(&pair.entry, "acknowledged", |status| status.flows[0].pending == 0).await;
        // The block of the first session has ended with it, unless the picture ended earlier on a
        // busy machine.
        let sent = status.flows[0].sent["reference"].outcomes.values();
        let (blocks, bytes) = sent.fold((0, 0), |sum, amount| (sum.0 + amount.blocks, sum.1 + amount.bytes));
        assert!(blocks >= 2 && bytes == 21 * blocks + 3 * 1_004, "{blocks} blocks, {bytes} bytes");
        pair.stop().await;
        std::fs::remove_dir_all(&folder).expect("is removed");
    });
}
