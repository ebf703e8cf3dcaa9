//! Compares saturated links with the forecast.

use proptest::prelude::*;
use squall_units::Span;

use super::*;
use crate::link::PushOutcome;

/// Bytes that can arrive by this time.
fn carried(stretches: &[Stretch], by: Micros) -> f64 {
    let Some(latest) = Reach::of(stretches).latest(by) else { return 0.0 };
    let volume = |stretch: &Stretch| match stretch.volume {
        Volume::Unlimited => f64::INFINITY,
        Volume::Burst(bytes) => bytes as f64,
        Volume::Rate(bps) => bps as f64 * (stretch.to.min(latest) - stretch.from) as f64 / 8e6,
    };
    stretches.iter().filter(|stretch| stretch.from <= latest).map(volume).sum()
}

fn paths(texts: &[&str]) -> Vec<PathConfig> {
    texts.iter().map(|text| toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))).collect()
}

const END: Micros = 3_000_000;
const STEP: Micros = 1_000;
const SIZE: usize = 1_500;

/// Arrival times of all packets if every path is saturated, in order.
fn saturated(paths: &[PathConfig], seed: u64) -> Vec<Micros> {
    let mut network = Network::new(paths, seed).unwrap();
    let mut arrivals = Vec::new();
    for now in (0..=END).step_by(STEP as usize) {
        while let Some(arrival) = network.poll(now) {
            arrivals.push(arrival.at);
        }
        for path in 0..paths.len() {
            for _ in 0..8 {
                if network.send(now, path, Direction::Up, SIZE, ()) != PushOutcome::Queued {
                    break;
                }
            }
        }
    }
    arrivals
}

/// Asserts that the forecast is never below the arrivals, and above them by at most this number of
/// packets.
fn assert_close(texts: &[&str], seed: u64, packets: f64) {
    let paths = paths(texts);
    let bottlenecks = bottlenecks(&paths, seed, Direction::Up, END).unwrap();
    let arrivals = saturated(&paths, seed);
    let forecast = |by| bottlenecks.iter().map(|bottleneck| carried(&bottleneck.stretches, by)).sum::<f64>();
    let near = |arrived: usize, by: Micros| {
        let (arrived, forecast) = ((arrived * SIZE) as f64, forecast(by));
        assert!(arrived <= forecast + 1e-3, "{arrived} > {forecast} at {by}: {texts:?}");
        assert!(
            forecast <= arrived + packets * SIZE as f64 + 1e-3,
            "{forecast} >> {arrived} at {by}: {texts:?}"
        );
    };
    for (before, at) in arrivals.iter().enumerate().filter(|(index, _)| index % 7 == 0) {
        let same = arrivals[before..].iter().take_while(|other| *other == at).count();
        near(before + same, *at);
    }
    let by_end = arrivals.iter().filter(|at| **at <= END).count();
    near(by_end, END);
    assert!(by_end > 100, "{by_end} packets are no test");
}

const QUEUE: &str = "queue='60 packets'";

fn link(text: &str) -> String {
    format!("name='a'\n{QUEUE}\n{text}")
}

#[test]
fn a_full_link_carries_what_was_forecast() {
    for (text, packets) in [
        ("rate='8mbps'\ndelay='20ms'", 1.0),
        ("rate='7mbps'\ndelay='20ms'\ndelay_first=true", 1.0),
        ("rate={steps=[['0s','8mbps'],['700ms','1mbps'],['900ms','0mbps'],['1s','5mbps']]}", 1.0),
        ("rate='8mbps'\nevents=[{at='500ms',rate='2mbps',over='1s'},{at='2s',rate='16mbps'}]", 1.0),
        ("rate='8mbps'\ndelay={steps=[['0s','10ms'],['1s','90ms']]}", 1.0),
        // Packets sent just before the delay falls hold up those sent after it, by as much as it
        // fell.
        ("rate='8mbps'\ndelay={steps=[['0s','90ms'],['2s','30ms']]}", 41.0),
        ("rate='8mbps'\ndelay='10ms'\nevents=[{at='1s',delay='80ms',over='300ms'}]", 1.3),
        ("rate={millis=[1,2,2,5,9,9,14]}", 0.0),
        ("rate={millis=[3,4,4,9,20]}\ndelay='7ms'", 0.0),
        ("rate={millis=[3,4,4,9,20]}\ndelay='7ms'\nevents=[{at='1s',rate='9mbps'}]", 1.0),
    ] {
        assert_close(&[&link(text)], 1, packets);
    }
}

#[test]
fn outages_take_what_they_drop_and_keep_what_they_hold() {
    let outages = "events=[{at='500ms',outage='200ms'},{at='1500ms',outage='1ms'},{at='2s',outage='300ms'}]";
    for shape in [
        "rate='8mbps'\ndelay='20ms'",
        "rate='8mbps'\ndelay='20ms'\ndelay_first=true",
        "rate={millis=[3,4,4,9,20]}\ndelay='7ms'",
        "rate={millis=[3,4,4,9,20]}\ndelay='7ms'\ndelay_first=true",
    ] {
        for mode in ["drop", "hold"] {
            assert_close(&[&link(&format!("{shape}\noutage='{mode}'\n{outages}"))], 1, 4.0);
        }
    }
}

#[test]
fn radios_are_followed_with_the_seed_of_the_network() {
    let walk = link("rate='20mbps'\ndelay='10ms'\n[radio]\nwalk={ far = 40.0 }");
    for seed in 1..=3 {
        assert_close(&[&walk], seed, 4.0);
    }
    let of = |seed| bottlenecks(&paths(&[&walk]), seed, Direction::Down, 20 * END).unwrap();
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

#[test]
fn a_shared_serialiser_is_one_bottleneck_with_the_shortest_way() {
    let owner = link("rate='8mbps'\ndelay='30ms'\nevents=[{at='1s',outage='500ms'}]");
    let guest = "name='b'\nbottleneck='a'\ndelay='10ms'\nevents=[{at='1200ms',outage='100ms'}]";
    let bottlenecks = bottlenecks(&paths(&[&owner, guest]), 1, Direction::Up, END).unwrap();
    assert_eq!(bottlenecks.len(), 1);
    assert_eq!(bottlenecks[0].paths, [0, 1]);
    let forecast = |by| carried(&bottlenecks[0].stretches, by);
    assert_eq!(forecast(110_000), 100_000.0, "a byte each microsecond, 10 ms later");
    // From 10 ms before the guest's outage until its end no path is up. One packet may end after
    // it.
    assert_eq!(forecast(1_310_000) - forecast(1_200_000), 1_500.0);
    assert_eq!(forecast(1_320_000) - forecast(1_310_000), 10_000.0);
    assert_close(
        &["name='a'\nrate='8mbps'\nqueue='60 packets'\ndelay='5ms'", "name='b'\nbottleneck='a'\ndelay='5ms'"],
        1,
        1.0,
    );
}

#[test]
fn the_largest_packet_is_that_of_any_time() {
    let mtu = |events: &str| {
        let path = link(&format!("rate='8mbps'\nmtu='1280B'\nevents=[{events}]"));
        bottlenecks(&paths(&[&path]), 1, Direction::Up, END).unwrap()[0].mtu
    };
    assert_eq!(mtu(""), 1_280);
    assert_eq!(mtu("{at='1s',mtu='1400B'},{at='2s',mtu='1300B'}"), 1_400);
    assert_eq!(mtu("{at='4s',mtu='1400B'}"), 1_280, "after the end");
}

#[test]
fn jitter_counts_as_the_least() {
    let lag = |text: &str| {
        let link = text.parse().unwrap();
        bottlenecks(&[PathConfig::symmetric("a", link)], 1, Direction::Up, END).unwrap()[0].stretches[0].lag
    };
    assert_eq!(lag("delay=20ms,jitter=3ms"), 17_000);
    assert_eq!(lag("delay=20ms,jitter=normal:3ms"), 2_000);
    assert_eq!(lag("delay=1ms,jitter=3ms"), 0);
}

#[test]
fn a_delay_before_the_serialiser_is_behind_what_was_handed_over() {
    let text = link("delay_first=true\nrate='8mbps'\ndelay={steps=[['0s','10ms'],['1s','50ms']]}");
    let bottlenecks = bottlenecks(&paths(&[&text]), 1, Direction::Up, 2_000_000).unwrap();
    let stretches = &bottlenecks[0].stretches;
    assert!(stretches.windows(2).all(|pair| pair[0].from <= pair[1].from));
    let until = |lag| stretches.iter().filter(|stretch| stretch.lag == lag).map(|stretch| stretch.to).max();
    assert_eq!((stretches[0].from, until(10_000)), (0, Some(1_000_000)));
    // From 1.01 to 1.05 s the serialiser only has data sent before the first second ended.
    let flat: Vec<_> = stretches.iter().filter(|stretch| stretch.from == stretch.to).collect();
    assert_eq!((flat.len(), flat[0].from, flat[0].lag), (40, 1_000_000, 10_000));
    let rest = stretches.last().unwrap();
    assert_eq!((rest.from, rest.lag), (1_000_000, 50_000));
}

#[test]
fn what_cannot_be_built_is_refused() {
    let unread: PathConfig = "name=a,mahimahi=nowhere".parse().unwrap();
    let error = bottlenecks(&[unread], 1, Direction::Up, END).unwrap_err();
    assert_eq!(error.to_string(), "path \"a\": rate: the trace has not been loaded");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_link_carries_more_than_was_forecast(
        rate in 1u64..30,
        delay in 0u64..60,
        jitter in 0u64..20,
        first in any::<bool>(),
        hold in any::<bool>(),
        events in prop::collection::vec((0u64..2_900, 0u64..4, 0u64..40, 1u64..400), 0..6),
    ) {
        let mut path: PathConfig =
            format!("name=a,rate={rate}mbps,delay={delay}ms,jitter={jitter}ms,delay_first={first}").parse().unwrap();
        let mode = if hold { crate::OutageMode::Hold } else { crate::OutageMode::Drop };
        for link in [&mut path.up, &mut path.down] {
            link.outage = mode;
        }
        path.events = events.iter().map(|&(at, kind, value, length)| {
            let (at, length) = (Span::from_millis(at), Span::from_millis(length));
            let event = crate::PathEvent { at, ..crate::PathEvent::default() };
            match kind {
                0 => crate::PathEvent { outage: Some(length), ..event },
                1 => crate::PathEvent { delay: Some(Span::from_millis(value)), ..event },
                2 => crate::PathEvent { delay: Some(Span::from_millis(value)), over: Some(length), ..event },
                _ => crate::PathEvent {
                    rate: Some(squall_units::Rate::from_bps(value * 1_000_000)),
                    over: (value % 2 == 0).then_some(length),
                    ..event
                },
            }
        }).collect();
        let paths = [path];
        let bottlenecks = bottlenecks(&paths, 1, Direction::Up, END).unwrap();
        for (index, at) in saturated(&paths, 1).iter().enumerate() {
            let (arrived, forecast) = (((index + 1) * SIZE) as f64, carried(&bottlenecks[0].stretches, *at));
            prop_assert!(arrived <= forecast + 1e-3, "{} > {} at {}", arrived, forecast, at);
        }
    }
}
