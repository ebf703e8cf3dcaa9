//! Properties of paths under every scheduler that may use all of them.

use proptest::{collection::vec, prelude::*};

use crate::{
    every::names_but,
    stage::{CHUNK, Packet, Stage},
};

/// Schedulers that wait for their only path.
const ONE_PATH: [&str; 2] = ["sp", "augur-retransmit"];

/// BLEST at its most careful setting, so that it does wait.
const CAREFUL: &str = "blest(window=1)";

fn all_paths() -> Vec<&'static str> {
    [names_but(&ONE_PATH), vec![CAREFUL]].concat()
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(all_paths())
}

/// Delivers in the given order, otherwise oldest first, and sends whenever possible, until nothing
/// is in flight.
fn deliver_all(
    stage: &mut Stage,
    mut flying: Vec<Packet>,
    order: Option<&[prop::sample::Index]>,
) -> Vec<Packet> {
    let mut all = flying.clone();
    let mut order = order.into_iter().flatten().cycle();
    while !flying.is_empty() {
        let packet = flying.remove(order.next().map_or(0, |which| which.index(flying.len())));
        stage.arrive(&packet);
        let more = stage.send_all();
        all.extend(more.iter().cloned());
        flying.extend(more);
    }
    all
}

#[test]
fn one_path_is_enough() {
    for name in all_paths() {
        let mut stage = Stage::new(name, &[(500, 2)]);
        let block = stage.reliable(7 * CHUNK);
        let flying = stage.send_all();
        assert_eq!(flying.len(), 2, "{name}");
        let all = deliver_all(&mut stage, flying, None);
        assert_eq!(all.len(), 7, "{name}");
        assert!(stage.queue.get(block).is_some_and(squall_sched::Block::is_complete), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Without losses no byte is sent twice on a path, and each arrives.
    #[test]
    fn a_byte_goes_at_most_once_on_a_path(
        name in name(),
        paths in vec((1..100u64, 1..5u64), 1..=8),
        blocks in vec((1..4 * CHUNK, any::<bool>()), 1..6),
        order in vec(any::<prop::sample::Index>(), 1..100),
    ) {
        let mut stage = Stage::new(name, &paths);
        for (len, reliable) in blocks {
            if reliable { stage.reliable(len) } else { stage.unreliable(len) };
        }
        let flying = stage.send_all();
        let all = deliver_all(&mut stage, flying, Some(&order));
        for (i, packet) in all.iter().enumerate() {
            let twice = all[..i].iter().find(|other| {
                (other.path, other.block) == (packet.path, packet.block)
                    && other.range.start < packet.range.end
                    && packet.range.start < other.range.end
            });
            prop_assert_eq!(twice, None, "{:?}", packet);
        }
        prop_assert!(stage.queue.iter().all(squall_sched::Block::is_complete));
    }

    /// If paths disappear, in flight or not, a remaining one carries the rest, however slow it
    /// is.
    #[test]
    fn the_last_path_does_not_starve(
        name in name(),
        paths in vec((1..1000u64, 1..6u64), 2..=8),
        stays in any::<prop::sample::Index>(),
        removed in any::<bool>(),
        blocks in vec(1..8 * CHUNK, 1..5),
        before in vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let mut stage = Stage::new(name, &paths);
        for len in blocks {
            stage.reliable(len);
        }
        let mut flying = stage.send_all();
        for which in before {
            if flying.is_empty() {
                break;
            }
            let packet = flying.swap_remove(which.index(flying.len()));
            stage.arrive(&packet);
            flying.extend(stage.send_all());
        }
        let stays = stays.index(paths.len()) as u8;
        for id in (0..paths.len() as u8).filter(|id| *id != stays) {
            if removed {
                stage.close_path(id);
            } else {
                stage.suspect(id);
            }
        }
        flying.retain(|packet| packet.path == stays);
        flying.extend(stage.send_all());
        let all = deliver_all(&mut stage, flying, None);
        prop_assert!(all.iter().all(|p| p.path == stays));
        prop_assert!(stage.queue.iter().all(squall_sched::Block::is_complete));
    }
}
