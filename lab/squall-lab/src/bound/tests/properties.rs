//! Properties that hold for any paths and blocks.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use squall_net::{Direction, Network, PathConfig};

use super::super::{Bound, Demand, Supply, carried::Sweep, serialiser::Serialiser};

const END: u64 = 400_000;

/// IP size of a full packet.
const PACKET: u64 = 1_480;
/// Block bytes in a full packet.
const PAYLOAD: u64 = 1_416;

fn a_path() -> impl Strategy<Value = PathConfig> {
    let outage = (0u64..350, 1u64..80);
    let rate = prop_oneof![
        (1u64..20).prop_map(|mbps| format!("rate='{mbps}mbps'")),
        (1u64..9, 1u64..9).prop_map(|(one, two)| format!(
            "rate={{steps=[['0s','{one}mbps'],['100ms','{two}mbps'],['180ms','0mbps'],['200ms','9mbps']]}}"
        )),
        prop::collection::vec(0u64..9, 1..6).prop_map(|gaps| {
            let mut at = 1;
            let millis = gaps.iter().map(|gap| {
                at += gap;
                at
            });
            format!("rate={{millis={:?}}}", millis.collect::<Vec<_>>())
        }),
    ];
    let fields =
        (rate, 0u64..50, any::<bool>(), any::<bool>(), prop::collection::vec(outage, 0..3), 0u64..40);
    fields.prop_map(|(rate, delay, hold, first, outages, later)| {
        let mode = if hold { "hold" } else { "drop" };
        let outages = outages.iter().map(|(at, length)| format!("{{at='{at}ms',outage='{length}ms'}}"));
        let change = format!("{{at='150ms',delay='{later}ms'}}");
        let events: Vec<String> = outages.chain([change]).collect();
        let text = format!(
            "{rate}\ndelay='{delay}ms'\noutage='{mode}'\ndelay_first={first}\nqueue='infinite'\nevents=[{}]",
            events.join(",")
        );
        toml::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
    })
}

fn some_paths() -> impl Strategy<Value = Vec<PathConfig>> {
    prop::collection::vec(a_path(), 1..4)
}

fn some_blocks(most: usize) -> impl Strategy<Value = Vec<Demand>> {
    let block = (0u64..350_000, 1u64..60_000, 1_000u64..150_000, 0u8..3);
    let block = block.prop_map(|(release_us, size, deadline, priority)| Demand {
        release_us,
        size,
        deadline_us: Some(deadline),
        priority,
        needs: [None; 2],
    });
    prop::collection::vec(block, 1..most)
}

/// Blocks with dependencies, mostly on the one before.
fn some_pictures(most: usize) -> impl Strategy<Value = Vec<Demand>> {
    (some_blocks(most), prop::collection::vec((0usize..5, 0usize..16), most)).prop_map(|(blocks, needs)| {
        let mut blocks: Vec<Demand> =
            blocks.into_iter().map(|block| Demand { release_us: block.release_us / 2, ..block }).collect();
        blocks.sort_by_key(|block| block.release_us);
        for (place, (kind, other)) in (0..blocks.len()).zip(needs) {
            let before = place.checked_sub(1);
            blocks[place].needs = match kind {
                0 => [None; 2],
                1 => [before.map(|_| other % place), None],
                2 => [before, before.map(|_| other % place)],
                _ => [None, before],
            };
        }
        blocks
    })
}

/// Returns a block and all its dependencies.
fn closure(blocks: &[Demand], place: usize) -> BTreeSet<usize> {
    let mut all = BTreeSet::from([place]);
    for need in blocks[place].needs.into_iter().flatten() {
        all.append(&mut closure(blocks, need));
    }
    all
}

/// Maximum number of blocks that can be decodable in time, by trying all sets: the bytes of each
/// block and its dependencies must be carried by the block's due time.
fn most_decodable(supply: &Supply, blocks: &[Demand]) -> u64 {
    let decodable = |chosen: u32| {
        let mut dues: BTreeMap<usize, u64> = BTreeMap::new();
        for place in (0..blocks.len()).filter(|place| chosen & (1 << place) != 0) {
            for needed in closure(blocks, place) {
                let by = dues.entry(needed).or_insert(u64::MAX);
                *by = due(&blocks[place]).min(*by);
            }
        }
        let jobs: Vec<(usize, u64)> = dues.into_iter().collect();
        let sweep = Sweep::new(supply, jobs.iter().map(|(place, by)| (blocks[*place].release_us, *by)));
        let size = |job: usize| blocks[jobs[job].0].size;
        let all: u128 = (0..jobs.len()).map(|job| u128::from(size(job)) * 1_000_000).sum();
        sweep.carried(&(0..jobs.len()).collect::<Vec<_>>(), size) == all
    };
    // Blocks that are late even alone are excluded, because the headers of last packets do not
    // apply to parts of blocks.
    let may_count = |block: &Demand| {
        due(block) < END
            && supply.least_latency_us(block).is_some_and(|least| Some(least) <= block.deadline_us)
    };
    let (count, chosen) = (blocks.len(), 0..1u32 << blocks.len());
    let is_open =
        |chosen: u32| (0..count).all(|place| chosen & (1 << place) == 0 || may_count(&blocks[place]));
    let possible = chosen.filter(|chosen| is_open(*chosen) && decodable(*chosen));
    possible.map(|chosen| u64::from(chosen.count_ones())).max().unwrap_or(0)
}

fn supply(paths: &[PathConfig]) -> Supply {
    Supply::of(paths, 1, END, Direction::Down).unwrap()
}

fn due(block: &Demand) -> u64 {
    block.release_us + block.deadline_us.unwrap()
}

/// Computes the bytes in time, in millionths, by the dual problem, the minimum cut: for any subset
/// of blocks, the total is at most the size of the other blocks plus the capacity at all times that
/// can serve the subset.
fn least_cut(supply: &Supply, blocks: &[Demand]) -> u128 {
    let mut serialisers: Vec<(BTreeMap<u32, u128>, u128)> = Vec::new();
    for serialiser in supply.serialisers() {
        let mut amounts: BTreeMap<u32, u128> = BTreeMap::new();
        let reach: Vec<Option<u64>> = blocks.iter().map(|block| serialiser.latest(due(block))).collect();
        let mut cuts: Vec<u64> = blocks.iter().map(|block| block.release_us).collect();
        cuts.extend(reach.iter().flatten());
        for (from, to, amount) in pieces(serialiser, &mut cuts) {
            let serves = |block: usize| {
                blocks[block].release_us <= from && reach[block].is_some_and(|latest| to <= latest)
            };
            let served = (0..blocks.len()).filter(|block| serves(*block)).map(|block| 1u32 << block).sum();
            *amounts.entry(served).or_default() += u128::from(amount);
        }
        serialisers.push((amounts, serialiser.cap.map_or(u128::MAX, u128::from)));
    }
    let need = |block: usize| u128::from(blocks[block].size) * 1_000_000;
    let cut = |chosen: u32| {
        let others = (0..blocks.len()).filter(|block| chosen & (1 << block) == 0).map(need).sum::<u128>();
        let served = |(amounts, cap): &(BTreeMap<u32, u128>, u128)| {
            let served = amounts.iter().filter(|(served, _)| *served & chosen != 0);
            served.map(|(_, amount)| amount).sum::<u128>().min(*cap)
        };
        others + serialisers.iter().map(served).sum::<u128>()
    };
    (0..1u32 << blocks.len()).map(cut).min().unwrap_or(0)
}

/// Cuts a serialiser at these times: begin, end and amount of each piece.
fn pieces(serialiser: &Serialiser, cuts: &mut [u64]) -> Vec<(u64, u64, u64)> {
    cuts.sort_unstable();
    let mut all = Vec::new();
    for stretch in serialiser.stretches() {
        let mut from = stretch.from;
        let inner = cuts.iter().filter(|cut| stretch.from < **cut && **cut < stretch.to);
        for &to in inner.chain([&stretch.to]) {
            all.push((from, to, serialiser.share(stretch, from, to).expect("every rate is limited")));
            from = to;
        }
    }
    all
}

fn carried(supply: &Supply, blocks: &[Demand]) -> u128 {
    let mut blocks = blocks.to_vec();
    blocks.sort_by_key(|block| block.release_us);
    let dues = blocks.iter().map(|block| (block.release_us, due(block)));
    let sweep = Sweep::new(supply, dues);
    sweep.carried(&(0..blocks.len()).collect::<Vec<_>>(), |index| blocks[index].size)
}

/// Simulates a simple scheduler through the emulator: every millisecond, each path with a short
/// queue gets a packet of the block with the earliest deadline. Returns the arrival time of the
/// last byte, if the block was completed, and its bytes in time.
fn play(paths: &[PathConfig], blocks: &[Demand]) -> Vec<(Option<u64>, u64)> {
    let mut network = Network::new(paths, 1).unwrap();
    let mut unsent: Vec<u64> = blocks.iter().map(|block| block.size).collect();
    let mut got = vec![(0u64, 0u64, 0u64); blocks.len()];
    for now in (0..=END).step_by(1_000) {
        while let Some(arrival) = network.poll(now) {
            let (block, bytes): (usize, u64) = arrival.item;
            let (received, in_time, last) = &mut got[block];
            *received += bytes;
            *in_time += if arrival.at <= due(&blocks[block]) { bytes } else { 0 };
            *last = (*last).max(arrival.at);
        }
        for path in 0..paths.len() {
            for _ in 0..2 {
                let open = |block: &usize| {
                    let demand = &blocks[*block];
                    unsent[*block] > 0 && demand.release_us <= now && now < due(demand)
                };
                let next = (0..blocks.len()).filter(open).min_by_key(|block| due(&blocks[*block]));
                let state = network.state(now, path, Direction::Down);
                let Some(block) = next.filter(|_| state.queue_packets < 2 && !state.outage) else { break };
                let bytes = unsent[block].min(PAYLOAD);
                unsent[block] -= bytes;
                let size = (bytes + PACKET - PAYLOAD) as usize;
                let _ = network.send(now, path, Direction::Down, size, (block, bytes));
            }
        }
    }
    let whole = |(block, &(received, in_time, last)): (usize, &(u64, u64, u64))| {
        ((received == blocks[block].size).then_some(last), in_time)
    };
    got.iter().enumerate().map(whole).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn the_sweep_carries_what_the_least_cut_lets_through(paths in some_paths(), blocks in some_blocks(8)) {
        let supply = supply(&paths);
        prop_assert_eq!(carried(&supply, &blocks), least_cut(&supply, &blocks));
    }

    #[test]
    fn a_cap_is_a_cut_as_well(
        paths in some_paths(), blocks in some_blocks(8), cap in 0u64..200_000, last in 0usize..3,
    ) {
        let mut paths = paths;
        let last = last % paths.len();
        paths[last].metered = true;
        let supply = supply(&paths).capped(Some(cap), &paths);
        prop_assert_eq!(carried(&supply, &blocks), least_cut(&supply, &blocks));
    }

    #[test]
    fn no_set_of_blocks_surpasses_the_decodable_bound(
        paths in some_paths(), blocks in some_pictures(8), cap in prop::option::of(0u64..200_000),
    ) {
        let mut paths = paths;
        paths[0].metered = true;
        let supply = supply(&paths).capped(cap, &paths);
        let limit = Bound::of(&supply, &blocks).total;
        let most = most_decodable(&supply, &blocks);
        prop_assert!(most <= limit.decodable_blocks, "{} > {:?}", most, limit);
        prop_assert!(limit.decodable_blocks <= limit.in_time_blocks);
        let free: Vec<Demand> = blocks.iter().map(|block| Demand { needs: [None; 2], ..*block }).collect();
        let free = Bound::of(&supply, &free).total;
        prop_assert_eq!((free.decodable_blocks, free.in_time_blocks), (free.in_time_blocks, limit.in_time_blocks));
    }

    #[test]
    fn the_emulator_never_gives_more(paths in some_paths(), blocks in some_pictures(30)) {
        let supply = supply(&paths);
        let bound = Bound::of(&supply, &blocks);
        let played = play(&paths, &blocks);
        for class in &bound.classes {
            let (mut whole, mut bytes, mut decodable) = (0, 0, 0);
            for (place, (block, (last, in_time))) in blocks.iter().zip(&played).enumerate() {
                let least = supply.least_latency_us(block);
                prop_assert!(last.is_none_or(|last| least.is_some_and(|least| least <= last - block.release_us)));
                if block.priority <= class.priority && due(block) < END {
                    whole += u64::from(last.is_some_and(|last| last <= due(block)));
                    bytes += in_time;
                    let ready = |needed: &usize| played[*needed].0.is_some_and(|last| last <= due(block));
                    decodable += u64::from(closure(&blocks, place).iter().all(ready));
                }
            }
            prop_assert!(decodable <= class.so_far.decodable_blocks, "{} > {:?}", decodable, class.so_far);
            prop_assert!(whole <= class.so_far.in_time_blocks, "{} > {:?}", whole, class.so_far);
            prop_assert!(bytes <= class.so_far.in_time_bytes, "{} > {:?}", bytes, class.so_far);
        }
    }

    #[test]
    fn more_paths_or_blocks_never_lower_it(
        paths in some_paths(), more in a_path(), blocks in some_blocks(30), another in some_blocks(2),
    ) {
        let (one, two) = (supply(&paths), supply(&[paths.clone(), vec![more]].concat()));
        let all = [blocks.clone(), another].concat();
        let few = Bound::of(&one, &blocks).total;
        prop_assert!(few.in_time_bytes <= Bound::of(&one, &all).total.in_time_bytes);
        let wide = Bound::of(&two, &blocks).total;
        prop_assert!(few.in_time_bytes <= wide.in_time_bytes);
        for block in &blocks {
            let (narrow, wide) = (one.least_latency_us(block), two.least_latency_us(block));
            prop_assert!(narrow.is_none_or(|narrow| wide.is_some_and(|wide| wide <= narrow)));
        }
    }

    #[test]
    fn no_class_has_more_than_was_offered_or_than_all(paths in some_paths(), blocks in some_blocks(30)) {
        let bound = Bound::of(&supply(&paths), &blocks);
        for class in &bound.classes {
            for limit in [class.alone, class.so_far] {
                prop_assert!(limit.in_time_bytes <= limit.offered_bytes);
                prop_assert!(limit.in_time_blocks <= limit.offered_blocks);
                prop_assert!(limit.due.in_time_bytes <= limit.in_time_bytes.min(limit.due.bytes));
                prop_assert!(limit.due.in_time_blocks <= limit.due.blocks);
                prop_assert!(limit.in_time_bytes <= bound.total.in_time_bytes);
            }
            prop_assert!(class.alone.in_time_bytes <= class.so_far.in_time_bytes);
        }
        // Each class may lose up to one byte by rounding.
        let alone: u64 = bound.classes.iter().map(|class| class.alone.in_time_bytes + 1).sum();
        prop_assert!(bound.total.in_time_bytes <= alone);
    }
}
