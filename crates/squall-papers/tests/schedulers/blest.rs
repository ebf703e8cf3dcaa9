//! BLEST.

use squall_sched::WorkKind;
use squall_units::short::at_ms;

use crate::stage::{CHUNK, Stage, paths_of};

/// While a packet is in flight on the slow path, the fast one can send (10 + 9/2)·10 = 145 packets;
/// times 1.2 that is 174.
const UNEQUAL: [(u64, u64); 2] = [(10, 10), (100, 10)];

fn with_buffer(packets: u32) -> Stage {
    Stage::new(&format!("blest(window={})", packets * CHUNK), &UNEQUAL)
}

#[test]
fn the_slow_path_holds_what_the_fast_one_leaves_of_the_buffer() {
    for (buffer, on_slow) in [(174, 0), (175, 1), (178, 4), (400, 10)] {
        let mut stage = with_buffer(buffer);
        stage.reliable(1000 * CHUNK);
        let sent = paths_of(&stage.send_all());
        assert_eq!(sent[..10], [0; 10]);
        assert_eq!(sent[10..], vec![1; on_slow], "a buffer of {buffer} packets");
        assert_eq!(stage.wake, None, "acknowledgements are under way");
    }
}

#[test]
fn does_not_ask_how_much_there_is_to_send() {
    // ECF would send 1000 packets on both paths and the last one on neither but the fast one.
    for (packets, ecf) in [(11, 0), (1000, 10)] {
        let on_slow = |name: &str| {
            let mut stage = Stage::new(name, &UNEQUAL);
            stage.reliable(packets * CHUNK);
            paths_of(&stage.send_all()).iter().filter(|p| **p == 1).count()
        };
        assert_eq!(on_slow("ecf"), ecf);
        assert_eq!(on_slow(&format!("blest(window={})", 100 * CHUNK)), 0);
        assert_eq!(on_slow("minrtt"), packets.min(20) as usize - 10);
    }
}

#[test]
fn goes_on_when_the_fast_path_opens() {
    let mut stage = with_buffer(100);
    stage.reliable(12 * CHUNK);
    let sent = stage.send_all();
    assert_eq!(paths_of(&sent), [0; 10]);
    stage.arrive(&sent[0]);
    stage.arrive(&sent[1]);
    assert_eq!(paths_of(&stage.send_all()), [0, 0]);
}

#[test]
fn the_automatic_buffer_blocks_only_for_very_unequal_paths() {
    // 10 and 100 ms: 2·(1000 + 100)·0.1 = 220 packets; 174 and 10 in flight fit.
    // 10 and 200 ms: 2·(1000 + 50)·0.2 = 420; 1.2·(10 + 19/2)·20 = 468 do not.
    for (rtt, on_slow) in [(100, 10), (200, 0)] {
        let mut stage = Stage::new("blest", &[(10, 10), (rtt, 10)]);
        stage.reliable(1000 * CHUNK);
        let sent = paths_of(&stage.send_all());
        assert_eq!(sent.iter().filter(|p| **p == 1).count(), on_slow, "{rtt} ms");
    }
}

#[test]
fn losses_on_the_slow_path_make_it_more_careful() {
    // λ·145 packets must fit into the 178 of the buffer, less those on the slow path and the one to
    // send.
    let mut stage = with_buffer(178);
    stage.reliable(1000 * CHUNK);
    let sent = stage.send_all();
    assert_eq!(paths_of(&sent)[10..], [1; 4]);
    stage.now = at_ms(100);
    stage.lose(&sent[10]);
    for packet in &sent[11..] {
        stage.arrive(packet);
    }
    assert_eq!(stage.send(), None, "the repair waits as new data does");
    // There is room for 177 beside one packet: λ = 1.24 makes 179.8. Without further losses it is 1.23 and
    // 178.4, then 1.22 and 176.9.
    for ms in [200, 300] {
        stage.now = at_ms(ms);
        let sent: Vec<_> = stage.send_all().iter().map(|p| (p.path, p.kind)).collect();
        assert_eq!(sent, vec![(1, WorkKind::Repair); usize::from(ms == 300)], "at {ms} ms");
    }
}

#[test]
fn options_are_checked() {
    let registry = crate::registry();
    assert!(registry.build("blest(max=1.1)").is_ok());
    let error = registry.build("blest(max=1.1, lambda=1.2)").err().expect("is refused");
    assert_eq!(error.to_string(), "scheduler option lambda=1.2: must be from 1 to 1.1");
}

#[test]
fn a_full_path_that_fails_is_not_waited_for() {
    let mut stage = with_buffer(100);
    stage.reliable(12 * CHUNK);
    assert_eq!(stage.send_all().len(), 10);
    stage.path(0).usable = false;
    assert_eq!(paths_of(&stage.send_all()), [1, 1]);
}
