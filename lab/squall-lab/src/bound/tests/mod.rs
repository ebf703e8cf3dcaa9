//! Cases computed by hand, and properties that hold in all of them.

mod properties;

use squall_net::{Direction, PathConfig};

use super::{Bound, Clairvoyant, Demand, Due, Limit, Supply};

const END: u64 = 1_000_000;

/// One packet of 1,480 bytes per millisecond.
const RATE: &str = "rate='11.84mbps'";
/// Block bytes in a full packet.
const FULL: u64 = 1_416;

fn paths(texts: &[&str]) -> Vec<PathConfig> {
    texts.iter().map(|text| toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))).collect()
}

fn supply(texts: &[&str]) -> Supply {
    Supply::of(&paths(texts), 1, END, Direction::Down).unwrap()
}

fn path(name: &str, more: &str) -> String {
    format!("name='{name}'\n{RATE}\n{more}")
}

/// A block of `packets` full packets; times in milliseconds.
fn block(release: u64, packets: u64, deadline: u64, priority: u8) -> Demand {
    Demand {
        release_us: release * 1_000,
        size: packets * FULL,
        deadline_us: Some(deadline * 1_000),
        priority,
        needs: [None; 2],
    }
}

fn total(texts: &[&str], demands: &[Demand]) -> Limit {
    Bound::of(&supply(texts), demands).total
}

/// Blocks in time, and bytes in time as a number of full packets.
fn in_time(limit: Limit) -> (u64, f64) {
    (limit.in_time_blocks, limit.in_time_bytes as f64 / FULL as f64)
}

#[test]
fn one_path_gives_its_rate_after_its_delay() {
    let one = path("a", "delay='10ms'");
    let of = |deadline| total(&[&one], &[block(0, 10, deadline, 0)]);
    assert_eq!(in_time(of(20)), (1, 10.0));
    assert_eq!(in_time(of(19)), (0, 9.0));
    assert_eq!(in_time(of(10)), (0, 0.0));
    assert_eq!(of(10).latency.unwrap().p50_us, 20_000, "late, but it arrives");
}

#[test]
fn a_block_is_split_so_that_both_paths_end_together() {
    let (quick, slow) = (path("a", "delay='10ms'"), path("b", "delay='15ms'"));
    let supply = supply(&[&quick, &slow]);
    let least = |packets| supply.least_latency_us(&block(100, packets, 100, 0));
    assert_eq!(least(5), Some(15_000), "alone on the quick one");
    assert_eq!(least(25), Some(25_000), "15 there, 10 on the other");
    // 12 and 7 full packets, and the 20th in two halves of 708 bytes with 64 of headers, each of
    // which takes 522 us.
    assert_eq!(least(20), Some(22_522));
    let limit = Bound::of(&supply, &[block(0, 40, 25, 0)]).total;
    assert_eq!(in_time(limit), (0, 25.0));
}

#[test]
fn an_outage_takes_what_is_under_way_or_holds_it_back() {
    let outage = "delay='10ms'\nevents=[{at='50ms',outage='30ms'}]";
    let dropping = supply(&[&path("a", outage)]);
    let least = |supply: &Supply, release, packets| supply.least_latency_us(&block(release, packets, 1, 0));
    assert_eq!(least(&dropping, 38, 1), Some(11_000));
    assert_eq!(least(&dropping, 40, 1), Some(51_000), "what leaves after 40 ms is lost");
    let holding = supply(&[&path("a", &format!("{outage}\noutage='hold'"))]);
    assert_eq!(least(&holding, 40, 1), Some(11_000));
    assert_eq!(least(&holding, 45, 10), Some(50_000), "five before, five from 80 ms on");
    let both = supply(&[&path("a", outage), &path("b", "delay='25ms'")]);
    assert_eq!(least(&both, 40, 1), Some(26_000));
}

#[test]
fn the_more_important_comes_first() {
    let one = path("a", "");
    let bound = Bound::of(&supply(&[&one]), &[block(0, 10, 15, 3), block(0, 10, 15, 0)]);
    let [first, second] = &bound.classes[..] else { panic!("two classes") };
    assert_eq!((first.priority, second.priority), (0, 3));
    assert_eq!(in_time(first.so_far), (1, 10.0));
    assert_eq!(in_time(second.alone), (1, 10.0));
    assert_eq!(in_time(second.so_far), (1, 15.0));
    assert_eq!(bound.total, second.so_far);
    assert_eq!(first.alone, first.so_far);
}

#[test]
fn of_two_paths_each_takes_what_only_it_can() {
    // Both blocks are queued at 0. Only the fast path can deliver the urgent one in time.
    let (quick, slow) = (path("a", "delay='5ms'"), path("b", "delay='30ms'"));
    let demands = [block(0, 10, 15, 0), block(0, 10, 40, 0)];
    assert_eq!(in_time(total(&[&quick, &slow], &demands)), (2, 20.0));
    // From 10 to 35 ms the fast path has time for the second block as well.
    assert_eq!(in_time(total(&[&quick], &demands)), (2, 20.0));
    assert_eq!(in_time(total(&[&slow], &demands)), (1, 10.0));
}

#[test]
fn small_blocks_count_before_large_ones() {
    let one = path("a", "");
    let mut demands: Vec<Demand> = (0..10).map(|_| block(0, 1, 10, 0)).collect();
    demands.push(block(0, 10, 10, 0));
    assert_eq!(in_time(total(&[&one], &demands)), (10, 10.0));
    // No window is large enough for any of these blocks, though half of all bytes can be in time.
    let torn: Vec<Demand> = (0..9).map(|number| block(number * 10, 20, 10, 0)).collect();
    assert_eq!(in_time(total(&[&one], &torn)), (0, 90.0));
}

/// Adds a dependency to a block.
fn needing(need: usize, block: Demand) -> Demand {
    Demand { needs: [None, Some(need)], ..block }
}

/// Numbers of blocks in time and of decodable blocks.
fn decodable(texts: &[&str], demands: &[Demand]) -> (u64, u64) {
    let limit = total(texts, demands);
    (limit.in_time_blocks, limit.decodable_blocks)
}

#[test]
fn of_a_chain_only_those_count_that_all_before_them_leave_time_for() {
    let one = path("a", "");
    let apart: Vec<Demand> = (0..5).map(|number| block(5 * number, 10, 20, 0)).collect();
    assert_eq!(decodable(&[&one], &apart), (4, 4), "one of them is left out");
    // In sequence they take 10, 15, 20, 25 and 30 ms.
    let chain = |number: usize| if number == 0 { apart[0] } else { needing(number - 1, apart[number]) };
    let chain: Vec<Demand> = (0..5).map(chain).collect();
    assert_eq!(decodable(&[&one], &chain), (4, 3));
    let reversed: Vec<Demand> = chain
        .iter()
        .rev()
        .map(|one| Demand { needs: one.needs.map(|need| Some(4 - need?)), ..*one })
        .collect();
    assert_eq!(decodable(&[&one], &reversed), (4, 3), "the order in which they are given does not matter");
}

#[test]
fn what_is_late_still_serves_others() {
    let one = path("a", "");
    let late = [block(0, 30, 20, 0), needing(0, block(5, 1, 30, 0)), needing(0, block(5, 1, 25, 0))];
    assert_eq!(decodable(&[&one], &late), (2, 1));
    // Blocks that cannot arrive at all, depend on themselves, or depend on a missing block.
    let never = [block(0, 3_000, 20, 0), needing(0, block(5, 1, 900, 0)), needing(2, block(5, 1, 9, 0))];
    assert_eq!(decodable(&[&one], &never), (2, 1));
    assert_eq!(decodable(&[&one], &[needing(7, block(5, 1, 30, 0))]), (1, 1));
}

#[test]
fn a_key_frame_takes_its_bytes_from_those_that_need_it() {
    let one = path("a", "");
    let mut group = vec![block(0, 9, 10, 0)];
    group.extend((0..10).map(|_| needing(0, block(0, 1, 10, 0))));
    // Ten out of nineteen packets, shared by eleven blocks.
    assert_eq!(decodable(&[&one], &group), (10, 5));
    // Without the key frame none is decodable, whichever class is asked for.
    let clairvoyant_of_the_others = |deadline| {
        group[0] = block(0, 9, deadline, 0);
        let supply = supply(&[&one]);
        let clairvoyant = Clairvoyant::new(&supply, &group);
        clairvoyant.limit(|place| place > 0).decodable_blocks
    };
    let mut of = clairvoyant_of_the_others;
    assert_eq!([of(10), of(1)], [5, 5], "it serves them, even if it is late itself");
}

#[test]
fn a_cap_bounds_what_metered_paths_carry() {
    let (free, metered) = (path("a", ""), path("b", "metered=true"));
    let paths = paths(&[&free, &metered]);
    let supply = |cap| supply(&[&free, &metered]).capped(cap, &paths);
    let blocks: Vec<Demand> = (0..4).map(|number| block(20 * number, 20, 10, 0)).collect();
    let of = |cap| in_time(Bound::of(&supply(cap), &blocks).total);
    assert_eq!(of(None), (4, 80.0));
    // A packet has 1,452 bytes of UDP payload; the free path carries ten packets in time.
    assert_eq!(of(Some(25 * 1_452)), (3, 65.0));
    assert_eq!(of(Some(0)), (2, 40.0));
    assert_eq!(of(Some(u64::MAX)), (4, 80.0));
    assert_eq!(supply(Some(1_452)).room(0, 10_000) / 1_000_000, i128::from(11 * FULL + 1));
}

#[test]
fn a_trace_gives_what_its_opportunities_carry() {
    let trace = "name='a'\nrate={millis=[5,10]}\ndelay='7ms'";
    let supply = supply(&[trace]);
    let least = |release, packets| supply.least_latency_us(&block(release, packets, 1, 0)).unwrap();
    assert_eq!((least(0, 1), least(4, 1)), (12_000, 8_000));
    assert_eq!(least(5, 1), 12_000, "too late for the opportunity of that millisecond");
    assert_eq!(least(0, 2), 17_000);
    assert_eq!(in_time(Bound::of(&supply, &[block(0, 3, 18, 0)]).total).0, 0);
}

#[test]
fn paths_share_their_bottleneck() {
    let shared = [path("a", "delay='30ms'"), "name='b'\nbottleneck='a'\ndelay='10ms'".to_owned()];
    let shared = [shared[0].as_str(), shared[1].as_str()];
    assert_eq!(in_time(total(&shared, &[block(0, 40, 40, 0)])), (0, 30.0));
    let apart = [path("a", "delay='30ms'"), path("b", "delay='10ms'")];
    assert_eq!(in_time(total(&[&apart[0], &apart[1]], &[block(0, 40, 40, 0)])), (1, 40.0));
}

#[test]
fn without_a_rate_only_the_delay_counts() {
    let free = "name='a'\ndelay='8ms'\nevents=[{at='20ms',outage='5ms'}]";
    let supply = supply(&[free]);
    assert_eq!(supply.most_bytes(0, 8_000), None);
    assert_eq!(supply.most_bytes(0, 7_999), Some(0));
    assert_eq!(supply.least_latency_us(&block(3, 1_000, 1, 0)), Some(8_000));
    assert_eq!(supply.least_latency_us(&block(12, 1_000, 1, 0)), Some(21_000), "from 25 ms on");
    let limit = Bound::of(&supply, &[block(3, 1_000, 8, 0), block(12, 10, 20, 0)]).total;
    assert_eq!(in_time(limit), (1, 1_000.0));
}

#[test]
fn what_is_due_after_the_end_is_in_time_if_it_arrives_before_it() {
    let one = path("a", "");
    let demands = [
        block(0, 1, 10, 0),
        block(950, 20, 19, 0),
        Demand { deadline_us: None, ..block(10, 2, 1, 0) },
        block(995, 3, 5, 0),
        block(995, 3, 900, 0),
        Demand { size: 0, ..block(10, 2, 1, 9) },
    ];
    let limit = total(&[&one], &demands);
    let of = |blocks, packets, in_time_blocks, in_time_packets| Due {
        blocks,
        bytes: packets * FULL,
        in_time_blocks,
        decodable_blocks: in_time_blocks,
        in_time_bytes: in_time_packets * FULL,
    };
    assert_eq!(limit.due, of(2, 21, 1, 20), "the second lacks a millisecond");
    let Limit { offered_blocks, offered_bytes, in_time_blocks, decodable_blocks, in_time_bytes, .. } = limit;
    assert_eq!((offered_blocks, offered_bytes), (5, 29 * FULL));
    assert_eq!((in_time_blocks, decodable_blocks, in_time_bytes), (3, 3, 27 * FULL), "one of the last two");
    assert_eq!(limit.in_time_ratio(), Some(3.0 / 4.0), "the other is undecided");
    assert_eq!(limit.in_time_bytes_ratio(), Some(0.964_286), "27 of 28 packets");
    assert_eq!(limit.latency.unwrap().count, 5);
}

#[test]
fn nothing_is_asked_of_an_empty_run() {
    let bound = Bound::of(&supply(&[&path("a", "")]), &[]);
    assert_eq!((bound.classes.len(), bound.total.in_time_bytes, bound.total.latency), (0, 0, None));
    assert_eq!((bound.total.in_time_ratio(), bound.total.in_time_bytes_ratio()), (None, None));
    // A path with an MTU too small for the headers carries nothing.
    assert_eq!(in_time(total(&[&path("a", "mtu=60")], &[block(0, 1, 500, 0)])), (0, 0.0));
}

#[test]
fn a_bound_survives_json() {
    let bound = Bound::of(&supply(&[&path("a", "")]), &[block(0, 10, 15, 3), block(0, 10, 15, 0)]);
    let text = serde_json::to_string(&bound).unwrap();
    assert_eq!(serde_json::from_str::<Bound>(&text).unwrap(), bound);
}
