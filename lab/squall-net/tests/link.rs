//! One link in virtual time: each part of the model against numbers calculated by hand.

use std::collections::VecDeque;

use proptest::prelude::*;
use squall_net::{
    Delivery, DropReason, Ecn, EcnTreatment, Link, LinkConfig, LinkEvent, OutageMode, PushOutcome,
    RateConfig,
    log::{Event, MahimahiLog},
};
use squall_trace::mahimahi::Trace;
use squall_units::{Rate, Span};

fn link(text: &str) -> Link<u64> {
    Link::new(&text.parse().unwrap(), 1).unwrap()
}

fn with_events(text: &str, events: Vec<LinkEvent>) -> Link<u64> {
    Link::new(&LinkConfig { events, ..text.parse().unwrap() }, 1).unwrap()
}

fn at(millis: u64) -> LinkEvent {
    LinkEvent { at: Span::from_millis(millis), ..LinkEvent::default() }
}

/// Returns all deliveries, by following `poll_timeout`.
fn drain(link: &mut Link<u64>) -> Vec<Delivery<u64>> {
    let mut all = Vec::new();
    while let Some(at) = link.poll_timeout() {
        all.extend(link.poll(at));
    }
    all
}

fn arrivals(link: &mut Link<u64>) -> Vec<u64> {
    drain(link).iter().map(|delivery| delivery.arrived_at).collect()
}

/// Pushes 1,500 bytes every `gap` microseconds until `end` and returns the deliveries meanwhile.
fn stream(link: &mut Link<u64>, gap: u64, end: u64) -> Vec<Delivery<u64>> {
    let mut all = Vec::new();
    for (number, now) in (0..end).step_by(usize::try_from(gap).unwrap()).enumerate() {
        let _ = link.push(now, 1_500, number as u64);
        all.extend(std::iter::from_fn(|| link.poll(now)));
    }
    all
}

#[test]
fn a_packet_takes_its_serialisation_and_the_delay() {
    let mut link = link("rate=12mbps,delay=10ms");
    for item in 0..3 {
        assert_eq!(link.push(0, 1_500, item), PushOutcome::Queued);
    }
    let all = drain(&mut link);
    assert_eq!(all.iter().map(|one| one.arrived_at).collect::<Vec<_>>(), [11_000, 12_000, 13_000]);
    assert_eq!(all.iter().map(|one| one.queueing).collect::<Vec<_>>(), [0, 1_000, 2_000]);
}

#[test]
fn nothing_comes_before_its_time_and_poll_timeout_names_it() {
    let mut link = link("rate=12mbps,delay=10ms");
    let _ = link.push(500, 1_500, 0);
    assert_eq!(link.poll_timeout(), Some(1_500), "the serialiser first");
    assert!(link.poll(11_499).is_none());
    assert_eq!(link.poll_timeout(), Some(11_500));
    assert_eq!(link.poll(11_500).unwrap().arrived_at, 11_500);
    assert_eq!(link.poll_timeout(), None);
}

#[test]
fn drop_tail_holds_exactly_its_bytes() {
    let mut link = link("rate=1mbps,queue=4500B");
    let outcomes: Vec<bool> = (0..6).map(|item| link.push(0, 1_500, item) == PushOutcome::Queued).collect();
    assert_eq!(outcomes, [true, true, true, true, false, false], "one being sent and three waiting");
    assert_eq!(link.push(0, 1, 6), PushOutcome::Dropped(DropReason::Queue));
    // The second packet leaves the queue at 12 ms, before the push at that time.
    assert_eq!(link.push(12_000, 1_500, 7), PushOutcome::Queued);
    assert_eq!(link.stats().queue_bytes_max, 4_500);
    assert_eq!(link.stats().dropped.queue.packets, 3);
}

#[test]
fn a_limit_in_packets_counts_packets() {
    let mut link = link("rate=1mbps,queue=2packets");
    let taken = (0..9).filter(|item| link.push(0, 40, *item) == PushOutcome::Queued).count();
    assert_eq!(taken, 3);
}

#[test]
fn drop_head_keeps_the_newest() {
    let mut link = link("rate=1mbps,queue=head:3000B");
    for item in 0..6 {
        assert_eq!(link.push(0, 1_500, item), PushOutcome::Queued);
    }
    assert_eq!(drain(&mut link).iter().map(|one| one.item).collect::<Vec<_>>(), [0, 4, 5]);
    assert_eq!(link.stats().dropped.queue.packets, 3);
}

/// A sender at a fixed rate does not react to drops, so that CoDel must raise its rate of drops
/// until the surplus is gone; then the delay stays near the target.
#[test]
fn codel_keeps_the_standing_queue_near_its_target() {
    let median = |text: &str| {
        let mut waits: Vec<u64> = stream(&mut link(text), 1_150, 60_000_000)
            .iter()
            .filter(|one| one.arrived_at > 30_000_000)
            .map(|one| one.queueing)
            .collect();
        waits.sort_unstable();
        waits[waits.len() / 2]
    };
    // 10.43 Mbit/s into 10.
    let (plain, codel) = (median("rate=10mbps,queue=infinite"), median("rate=10mbps,queue=codel"));
    assert!(plain > 1_000_000, "{plain}");
    assert!((2_000..15_000).contains(&codel), "{codel}");
}

#[test]
fn codel_leaves_a_short_burst_alone() {
    let mut link = link("rate=12mbps,queue=codel");
    for item in 0..50 {
        let _ = link.push(0, 1_500, item);
    }
    assert_eq!(drain(&mut link).len(), 50, "fifty milliseconds are less than an interval");
}

#[test]
fn codel_marks_packets_whose_sender_uses_ecn_instead_of_dropping_them() {
    let run = |ecn: Ecn| {
        let queue = "rate = '10mbps'\necn = 'pass'\nqueue = { infinite = true, codel = { ecn = true } }";
        let mut link = Link::new(&toml::from_str(queue).unwrap(), 1).unwrap();
        for number in 0..3_000 {
            let _ = link.push_marked(number * 1_000, 1_500, ecn, number);
        }
        let marked = drain(&mut link).iter().filter(|one| one.ecn == Ecn::Congestion).count();
        (marked as u64, link.stats().dropped.codel.packets)
    };
    let (marked, dropped) = run(Ecn::Capable);
    assert!(marked > 30 && dropped == 0, "{marked} marked, {dropped} dropped");
    let (marked, dropped) = run(Ecn::NotCapable);
    assert!(marked == 0 && dropped > 30, "{marked} marked, {dropped} dropped");
}

#[test]
fn a_router_may_treat_ecn_wrongly_from_some_time_on() {
    let treated = |ecn: Ecn, treatment: EcnTreatment| {
        let mut link = with_events("ecn=pass", vec![LinkEvent { ecn: Some(treatment), ..at(10) }]);
        let _ = (link.push_marked(0, 1_500, ecn, 0), link.push_marked(20_000, 1_500, ecn, 1));
        drain(&mut link).iter().map(|one| one.ecn).collect::<Vec<_>>()
    };
    let capable = |treatment| treated(Ecn::Capable, treatment);
    assert_eq!(capable(EcnTreatment::Pass), [Ecn::Capable, Ecn::Capable]);
    assert_eq!(capable(EcnTreatment::Mark), [Ecn::Capable, Ecn::Congestion]);
    assert_eq!(capable(EcnTreatment::Clear), [Ecn::Capable, Ecn::NotCapable]);
    assert_eq!(capable(EcnTreatment::Drop), [Ecn::Capable]);
    assert_eq!(treated(Ecn::NotCapable, EcnTreatment::Drop), [Ecn::NotCapable; 2]);
    assert_eq!(treated(Ecn::NotCapable, EcnTreatment::Mark), [Ecn::NotCapable; 2]);
}

#[test]
fn packets_above_the_mtu_are_refused() {
    let mut link = link("mtu=1400");
    assert_eq!(link.push(0, 1_401, 0), PushOutcome::Dropped(DropReason::Mtu));
    assert_eq!(link.push(0, 1_400, 1), PushOutcome::Queued);
    assert_eq!(link.push(0, usize::MAX, 2), PushOutcome::Dropped(DropReason::Mtu));
}

#[test]
fn an_outage_drops_what_comes_waits_and_flies() {
    let outage = LinkEvent { outage: Some(Span::from_millis(10)), ..at(5) };
    let mut link = with_events("rate=12mbps,delay=3ms", vec![outage]);
    for item in 0..8 {
        let _ = link.push(0, 1_500, item);
    }
    let early: Vec<u64> = std::iter::from_fn(|| link.poll(4_999)).map(|one| one.item).collect();
    assert_eq!(early, [0]);
    assert_eq!(link.push(5_000, 1_500, 8), PushOutcome::Dropped(DropReason::Outage));
    assert_eq!(link.push(14_999, 1_500, 9), PushOutcome::Dropped(DropReason::Outage));
    assert_eq!(link.push(15_000, 1_500, 10), PushOutcome::Queued);
    let late: Vec<(u64, u64)> = drain(&mut link).iter().map(|one| (one.item, one.arrived_at)).collect();
    assert_eq!(late, [(10, 19_000)]);
    assert_eq!(link.stats().dropped.outage.packets, 9);
}

#[test]
fn a_holding_outage_delays_and_loses_nothing() {
    let outage = LinkEvent { outage: Some(Span::from_millis(10)), ..at(2) };
    let config = LinkConfig {
        outage: OutageMode::Hold,
        events: vec![LinkEvent { at: Span::from_micros(2_500), ..outage }],
        ..LinkConfig::default()
    };
    let mut link: Link<u64> =
        Link::new(&LinkConfig { rate: RateConfig::Fixed(Rate::from_bps(12_000_000)), ..config }, 1).unwrap();
    for item in 0..4 {
        let _ = link.push(0, 1_500, item);
    }
    assert_eq!(arrivals(&mut link), [1_000, 2_000, 13_000, 14_000], "the third was half sent");
}

#[test]
fn overlapping_outages_end_with_the_last() {
    let outage = |start, length| LinkEvent { outage: Some(Span::from_millis(length)), ..at(start) };
    let mut link = with_events("delay=1ms", vec![outage(1, 10), outage(5, 2), outage(8, 10)]);
    let taken: Vec<u64> = (0..20).filter(|ms| link.push(ms * 1_000, 100, 0) == PushOutcome::Queued).collect();
    assert_eq!(taken, [0, 18, 19]);
}

#[test]
fn scripted_changes_apply_at_their_time() {
    let events = vec![
        LinkEvent { rate: Some("6mbps".parse().unwrap()), ..at(10) },
        LinkEvent { delay: Some(Span::from_millis(1)), ..at(20) },
        LinkEvent { loss: Some("100%".parse().unwrap()), ..at(30) },
    ];
    let mut link = with_events("rate=12mbps,delay=5ms", events);
    for ms in [0, 10, 20, 30] {
        let _ = link.push(ms * 1_000, 1_500, 0);
    }
    assert_eq!(arrivals(&mut link), [6_000, 17_000, 23_000]);
    assert_eq!(link.stats().dropped.loss.packets, 1);
}

#[test]
fn a_fading_rate_sends_the_area_of_its_ramp() {
    let fade = LinkEvent { rate: Some(Rate::from_bps(0)), over: Some(Span::from_millis(1_000)), ..at(0) };
    let mut link = with_events("rate=24mbps,queue=infinite", vec![fade]);
    for item in 0..2_000 {
        let _ = link.push(0, 1_500, item);
    }
    while let Some(at) = link.poll_timeout().filter(|at| *at < 2_000_000) {
        link.poll(at);
    }
    // Half of 24 Mbit are 1,000 packets.
    let sent = link.stats().delivered.packets;
    assert!((999..=1_001).contains(&sent), "{sent}");
}

#[test]
fn duplicates_are_counted_and_carry_their_number() {
    let mut link = link("duplicate=100%,delay=1ms");
    let _ = link.push(0, 100, 7);
    assert_eq!(
        drain(&mut link).iter().map(|one| (one.item, one.number)).collect::<Vec<_>>(),
        [(7, 0), (7, 0)]
    );
    assert_eq!(link.stats().duplicated.packets, 1);
}

#[test]
fn damage_is_drawn_for_each_copy_and_changes_nothing_else() {
    let text = "rate=10mbps,delay=5ms,jitter=2ms,loss=3%,duplicate=20%";
    let mut whole = link(text);
    let mut damaging = link(&format!("{text},corrupt=30%"));
    let (before, after) = (stream(&mut whole, 500, 2_000_000), stream(&mut damaging, 500, 2_000_000));
    let damaged: Vec<_> = after.iter().filter_map(|one| one.damage).collect();
    let share = damaged.len() as f64 / after.len() as f64;
    assert!((0.25..0.35).contains(&share), "{share}");
    assert_eq!(damaging.stats().corrupted.packets as usize, damaged.len());
    assert!(whole.stats().corrupted.packets == 0 && before.iter().all(|one| one.damage.is_none()));
    let undamaged: Vec<_> = after.into_iter().map(|one| Delivery { damage: None, ..one }).collect();
    assert_eq!(undamaged, before, "the other draws are as they were");
}

#[test]
fn the_mtu_changes_for_what_is_pushed_later() {
    let mtu = |second: u64, mtu: &str| LinkEvent { mtu: Some(mtu.parse().unwrap()), ..at(second * 1_000) };
    let mut link = with_events("delay=1ms", vec![mtu(1, "1000"), mtu(2, "1500"), mtu(3, "9000")]);
    for (second, size) in [(0, 1_500), (1, 1_500), (1, 1_000), (2, 1_500), (2, 2_000), (3, 2_000)] {
        let _ = link.push(second * 1_000_000 + 500_000, size, 0);
    }
    drain(&mut link);
    assert_eq!((link.stats().delivered.packets, link.stats().dropped.mtu.packets), (4, 2));
    let error = LinkConfig { events: vec![mtu(5, "70kB")], ..LinkConfig::default() }.check().unwrap_err();
    assert_eq!(error.to_string(), "events: event at 5s: mtu: 70kB is not between 1B and 65.535kB");
}

#[test]
fn jitter_overtakes_only_when_allowed() {
    for (reorder, text) in [(false, "delay=20ms,jitter=10ms"), (true, "delay=20ms,jitter=10ms,reorder")] {
        let mut link = link(text);
        let mut all = stream(&mut link, 1_000, 1_000_000);
        all.extend(drain(&mut link));
        assert_eq!(all.len(), 1_000);
        assert_eq!(link.stats().reordered > 0, reorder);
        assert_eq!(all.is_sorted_by_key(|one| one.number), !reorder);
        assert!(all.is_sorted_by_key(|one| one.arrived_at));
        assert!(
            all.iter().all(|one| (10_000..=30_000).contains(&(one.arrived_at - one.sent_at)) || !reorder)
        );
    }
}

fn traced(millis: &[u64], more: &str) -> LinkConfig {
    let trace = Some(Trace::new(millis.to_vec()).unwrap());
    LinkConfig { rate: RateConfig::Mahimahi { file: None, trace, once: false }, ..more.parse().unwrap() }
}

#[test]
fn a_constant_trace_delivers_its_opportunities() {
    // 12.032 Mbit/s: one opportunity a millisecond, and a sender that is a little faster.
    let mut link: Link<u64> = Link::new(&traced(&[1], "queue=30kB"), 1).unwrap();
    stream(&mut link, 900, 10_000_000);
    let sent = link.stats().sent;
    let bytes = sent.bytes + 4 * sent.packets;
    assert!(bytes.abs_diff(9_999 * 1_504) <= 1_504, "{bytes}");
}

#[test]
fn an_arrival_cannot_use_the_opportunity_of_its_millisecond() {
    for (pushed, arrives) in [(4_999, 5_000), (5_000, 10_000), (5_999, 10_000), (9_999, 10_000)] {
        let mut link: Link<u64> = Link::new(&traced(&[5], ""), 1).unwrap();
        let _ = link.push(pushed, 1_500, 0);
        assert_eq!(arrivals(&mut link), [arrives], "pushed at {pushed}");
    }
}

#[test]
fn small_packets_share_an_opportunity_and_large_ones_span_two() {
    let mut link: Link<u64> = Link::new(&traced(&[1, 2, 3, 4, 5], ""), 1).unwrap();
    // With their TUN headers 752 + 752 fill the first; 1,004 and half of the next 1,000 fill the second.
    for size in [748, 748, 1_000, 996, 996] {
        let _ = link.push(0, size, 0);
    }
    assert_eq!(arrivals(&mut link), [1_000, 1_000, 2_000, 3_000, 3_000]);
}

#[test]
fn a_trace_takes_no_packet_above_1500_bytes() {
    let mut link: Link<u64> = Link::new(&traced(&[1], "mtu=9000"), 1).unwrap();
    assert_eq!(link.push(0, 1_501, 0), PushOutcome::Dropped(DropReason::Mtu));
    assert_eq!(link.push(0, 1_500, 1), PushOutcome::Queued);
}

#[test]
fn with_the_delay_first_a_packet_meets_the_queue_after_it() {
    let mut link: Link<u64> = Link::new(&traced(&[10], "delay=25ms,delay_first,queue=infinite"), 1).unwrap();
    let _ = link.push(4_000, 1_500, 0);
    let _ = link.push(5_000, 1_500, 1);
    // They reach the queue at 29 and 30 ms; the second has missed the opportunity of that millisecond.
    assert_eq!(arrivals(&mut link), [30_000, 40_000]);
}

#[test]
fn a_holding_outage_lets_opportunities_pass() {
    let outage = LinkEvent { outage: Some(Span::from_millis(10)), ..at(2) };
    let config = LinkConfig { events: vec![outage], outage: OutageMode::Hold, ..traced(&[1], "") };
    let mut link: Link<u64> = Link::new(&config, 1).unwrap();
    for item in 0..4 {
        let _ = link.push(0, 1_500, item);
    }
    assert_eq!(arrivals(&mut link), [1_000, 13_000, 14_000, 15_000]);
}

#[test]
fn the_log_is_that_of_mahimahi() {
    let mut link: Link<u64> = Link::new(&traced(&[2, 2, 5], "queue=1600B"), 1).unwrap();
    link.keep_records(true);
    for (now, size) in [(0, 1_500), (500, 200), (600, 80), (3_100, 1_000)] {
        let _ = link.push(now, size, 0);
    }
    let _ = link.poll(7_000);
    let log =
        MahimahiLog::header("test", "droptail [bytes=1600]", 17) + &MahimahiLog::lines(&link.drain_records());
    let expected = "\
# mahimahi mm-link (test) > squall
# queue: droptail [bytes=1600]
# init timestamp: 17
# base timestamp: 0
0 + 1504
0 + 204
0 d 1 204
0 + 84
2 # 1504
2 - 1504 2
2 # 1504
2 - 84 2
3 + 1004
5 # 1504
5 - 1004 2
7 # 1504
7 # 1504
";
    assert_eq!(log, expected);
}

/// Mahimahi's rules in their simplest form, to compare the link with: `rationalize` consumes all
/// opportunities up to now before an arrival is queued.
struct Reference {
    trace: Vec<u64>,
    place: usize,
    base: u64,
    queue: VecDeque<(u64, u64)>,
    limit: u64,
    transit: Option<(u64, u64)>,
    departures: Vec<(u64, u64)>,
}

impl Reference {
    fn rationalize(&mut self, now: u64) {
        while self.base + self.trace[self.place] <= now {
            let this = self.base + self.trace[self.place];
            self.place += 1;
            if self.place == self.trace.len() {
                self.place = 0;
                self.base += self.trace[self.trace.len() - 1];
            }
            let mut room = 1_504;
            while room > 0 {
                let Some((number, left)) = self.transit.take().or_else(|| self.queue.pop_front()) else {
                    break;
                };
                let used = left.min(room);
                room -= used;
                if left == used {
                    self.departures.push((number, this));
                } else {
                    self.transit = Some((number, left - used));
                }
            }
        }
    }

    fn arrive(&mut self, now: u64, number: u64, size: u64) {
        self.rationalize(now);
        if self.queue.iter().map(|(_, size)| size).sum::<u64>() + size <= self.limit {
            self.queue.push_back((number, size));
        }
    }
}

#[test]
fn what_exceeds_the_policers_rate_is_dropped_and_nothing_waits_for_it() {
    let mut link: Link<u64> = Link::new(&"delay=10ms,policer=8mbps:3kB".parse().unwrap(), 1).unwrap();
    // Twice the rate: 1,000 bytes each half of a millisecond.
    let outcomes: Vec<_> = (0..2_000).map(|number| link.push(number * 500, 1_000, number)).collect();
    let dropped = outcomes.iter().filter(|outcome| **outcome == PushOutcome::Dropped(DropReason::Policer));
    assert_eq!(dropped.count() as u64, link.stats().dropped.policer.packets);
    let arrived = drain(&mut link);
    assert!(arrived.iter().all(|packet| packet.arrived_at == packet.sent_at + 10_000));
    assert_eq!(arrived.len(), 1_002, "8 Mbps are 1,000 of these a second, and the burst two more");
}

/// Gaps and sizes of the pushes of a proptest.
fn pushes() -> impl Strategy<Value = Vec<(u64, usize)>> {
    prop::collection::vec((0u64..3_000, 1usize..1_500), 1..200)
}

proptest! {
    #[test]
    fn traces_are_served_as_mahimahi_does(
        mut millis in prop::collection::vec(0u64..40, 1..40),
        pushes in pushes(),
        limit in 1_600u64..20_000,
    ) {
        millis.sort_unstable();
        *millis.last_mut().unwrap() += 1;
        let mut link: Link<u64> = Link::new(&traced(&millis, &format!("queue={limit}")), 1).unwrap();
        let mut reference = Reference {
            trace: millis, place: 0, base: 0, queue: VecDeque::new(), limit, transit: None, departures: Vec::new(),
        };
        let mut now = 0;
        for (number, (gap, size)) in (0..).zip(pushes) {
            now += gap;
            let _ = link.push(now, size, number);
            reference.arrive(now / 1_000, number, size as u64 + 4);
        }
        reference.rationalize(now / 1_000 + 10_000);
        let departures: Vec<(u64, u64)> =
            drain(&mut link).iter().map(|one| (one.item, one.arrived_at / 1_000)).collect();
        prop_assert_eq!(departures, reference.departures);
    }

    #[test]
    fn every_packet_is_accounted_for(
        pushes in pushes(),
        seed in any::<u64>(),
        rate in prop::sample::select(vec![
            "rate=10mbps", "rate=300kbps", "rate=unlimited", "rate=20mbps,delay_first", "rate=0",
            "rate=20mbps,policer=2mbps:5kB",
        ]),
        queue in prop::sample::select(vec!["3kB", "head:4kB", "codel:30kB", "2packets"]),
        outage in prop::sample::select(vec!["drop", "hold"]),
        reorder in any::<bool>(),
        until in 0u64..400_000,
    ) {
        let text = format!(
            "{rate},queue={queue},outage={outage},delay=15ms,jitter=10ms,reorder={reorder},loss=5%/2,\
             duplicate=5%,corrupt=5%,mtu=1400"
        );
        let events = vec![
            LinkEvent { outage: Some(Span::from_millis(30)), ..at(40) },
            LinkEvent { rate: Some("1mbps".parse().unwrap()), ..at(60) },
            LinkEvent { rate: Some("5mbps".parse().unwrap()), over: Some(Span::from_millis(30)), ..at(80) },
        ];
        let config = LinkConfig { events, ..text.parse().unwrap() };
        let run = |patient: bool| {
            let mut link: Link<u64> = Link::new(&config, seed).unwrap();
            let (mut now, mut all) = (0, Vec::new());
            for (number, (gap, size)) in (0..).zip(&pushes) {
                now += gap;
                // A driver that wakes at each timeout gets the same result as one that is called
                // only to push.
                while let Some(at) = link.poll_timeout().filter(|at| *at <= now && !patient) {
                    all.extend(link.poll(at));
                }
                let _ = link.push(now, *size, number);
            }
            all.extend(std::iter::from_fn(|| link.poll(now + until)));
            (all, link.stats())
        };
        let (all, stats) = run(false);
        prop_assert_eq!(
            stats.pushed.packets + stats.duplicated.packets,
            stats.delivered.packets + stats.dropped.total().packets + stats.waiting.packets + stats.flying.packets
        );
        prop_assert_eq!(
            stats.pushed.bytes + stats.duplicated.bytes,
            stats.delivered.bytes + stats.dropped.total().bytes + stats.waiting.bytes + stats.flying.bytes
        );
        prop_assert_eq!(all.len() as u64, stats.delivered.packets);
        prop_assert!(all.is_sorted_by_key(|one| one.arrived_at));
        if !reorder {
            prop_assert!(all.is_sorted_by_key(|one| one.number));
        }
        prop_assert_eq!(run(true), (all, stats));
    }

    #[test]
    fn the_record_agrees_with_the_counters(pushes in pushes(), seed in any::<u64>()) {
        let text = "rate=2mbps,queue=6kB,delay=5ms,loss=10%,duplicate=3%,corrupt=4%";
        let mut link: Link<u64> = Link::new(&text.parse().unwrap(), seed).unwrap();
        link.keep_records(true);
        let mut now = 0;
        for (number, (gap, size)) in (0..).zip(pushes) {
            now += gap;
            let _ = link.push(now, size, number);
        }
        drain(&mut link);
        let (records, stats) = (link.drain_records(), link.stats());
        let count = |wanted: fn(&Event) -> bool| records.iter().filter(|one| wanted(&one.event)).count() as u64;
        prop_assert_eq!(count(|event| matches!(event, Event::Push { .. })), stats.pushed.packets);
        prop_assert_eq!(count(|event| matches!(event, Event::Sent { .. })), stats.sent.packets);
        prop_assert_eq!(count(|event| matches!(event, Event::Deliver { .. })), stats.delivered.packets);
        prop_assert_eq!(count(|event| matches!(event, Event::Duplicate { .. })), stats.duplicated.packets);
        prop_assert_eq!(count(|event| matches!(event, Event::Corrupt { .. })), stats.corrupted.packets);
        prop_assert_eq!(count(|event| matches!(event, Event::Drop { .. })), stats.dropped.total().packets);
        prop_assert!(records.is_sorted_by_key(|record| record.at));
    }
}
