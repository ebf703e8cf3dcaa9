//! Radios in virtual time: conditions of their links, and their reports.

use proptest::prelude::*;
use squall_net::{
    Direction, Network, PathConfig, PushOutcome,
    radio::{
        Canyon, CellularMap, Conditions, Handover, Lead, LevelSeries, RadioConfig, Rail, Source, Tunnel,
        Walk, WifiEdge, WifiMap,
    },
};
use squall_signal::{QualityIndex, Reading, Technology};
use squall_trace::Micros;
use squall_units::Span;

fn path(toml: &str) -> PathConfig {
    toml::from_str(toml).unwrap_or_else(|error| panic!("{error}"))
}

fn network(toml: &str) -> Network<u64> {
    Network::new(&[path(toml)], 1).unwrap()
}

/// Returns all reports until `end`, with their times of arrival.
fn reports(network: &mut Network<u64>, end: Micros) -> Vec<(Micros, Reading)> {
    let mut all = Vec::new();
    while let Some(at) = network.next_report().filter(|at| *at <= end) {
        let (path, reading) = network.poll_report(at).expect("it is due");
        assert_eq!(path, 0);
        all.push((at, reading));
    }
    all
}

fn levels(reports: &[(Micros, Reading)]) -> Vec<(Micros, Micros, Option<f64>)> {
    reports.iter().map(|(at, reading)| (*at, reading.at.micros(), reading.rssi)).collect()
}

/// Saturates a link with packets of 1,250 bytes (10,000 bits); returns the times of arrival from
/// `from` to `to`.
fn saturate(network: &mut Network<u64>, from: Micros, to: Micros) -> Vec<Micros> {
    let (mut arrivals, mut now) = (Vec::new(), 0);
    while now < to {
        while network.state(now, 0, Direction::Down).queue_packets < 5 {
            if network.send(now, 0, Direction::Down, 1_250, 0) != PushOutcome::Queued {
                break;
            }
        }
        now += 1_000;
        while let Some(arrival) = network.poll(now) {
            arrivals.push(arrival.at);
        }
    }
    arrivals.retain(|at| (from..to).contains(at));
    arrivals
}

const STEPS: &str = r#"
    rate = "12mbps"
    queue = "1MB"
    [radio]
    capture = "200ms"
    series = { rssi = [["0s", -50.0], ["1s", -72.4], ["2s", -90.0], ["3s", -60.0]] }
"#;

#[test]
fn reports_come_at_their_pace_in_whole_decibels_until_the_series_ends() {
    let mut network = network(STEPS);
    let all = reports(&mut network, 60_000_000);
    let times: Vec<Micros> = (0..=15).map(|number| number * 200_000).collect();
    assert_eq!(all.iter().map(|(at, _)| *at).collect::<Vec<_>>(), times);
    assert!(
        all.iter().all(|(at, reading)| *at == reading.at.micros() && reading.technology == Technology::Wifi)
    );
    let reported = |number: usize| all[number].1.rssi;
    assert_eq!(
        [reported(4), reported(5), reported(9), reported(10), reported(15)],
        [-50.0, -72.0, -72.0, -90.0, -60.0].map(Some)
    );
    assert_eq!(network.next_report(), None);
}

#[test]
fn the_newest_report_can_be_looked_at_beside_the_queue() {
    let mut network = network(STEPS);
    assert_eq!(network.report(999_999, 0).unwrap().rssi, Some(-50.0));
    assert_eq!(network.report(1_000_000, 0).unwrap().rssi, Some(-72.0));
    assert_eq!(network.report(3_199_999, 0).unwrap().at.micros(), 3_000_000);
    assert_eq!(network.report(3_200_000, 0), None, "the series has ended");
    assert_eq!(reports(&mut network, 60_000_000).len(), 16, "looking takes nothing away");
    let mut plain = self::network("rate = '1mbps'");
    assert_eq!((plain.report(0, 0), plain.next_report(), plain.true_quality(0, 0)), (None, None, None));
}

#[test]
fn late_reports_arrive_later_and_a_slow_radio_repeats_itself() {
    let late = STEPS.replace("[radio]", "[radio]\nlate = '70ms'\ngranularity = '500ms'");
    let mut network = network(&late);
    assert_eq!(network.report(69_999, 0), None);
    let all = levels(&reports(&mut network, 1_100_000));
    let rssi = Some(-50.0);
    assert_eq!(
        all,
        [
            (70_000, 0, rssi),
            (270_000, 0, rssi),
            (470_000, 0, rssi),
            (670_000, 500_000, rssi),
            (870_000, 500_000, rssi),
            (1_070_000, 1_000_000, Some(-72.0)),
        ]
    );
}

/// Returns the changes of the link's conditions, to the millisecond.
fn changes(toml: &str) -> Vec<(Micros, Conditions)> {
    let mut network = network(toml);
    let mut all: Vec<(Micros, Conditions)> = Vec::new();
    for now in (0..8_000_000).step_by(1_000) {
        let conditions = network.air(now, 0).unwrap().conditions;
        if all.last().is_none_or(|(_, last)| *last != conditions) {
            all.push((now, conditions));
        }
    }
    all
}

#[test]
fn the_lead_moves_the_link_and_not_the_reports() {
    let times = |toml: &str| changes(toml).iter().map(|(at, _)| *at).collect::<Vec<_>>();
    let with = |lead: &str| STEPS.replace("[radio]", &format!("[radio]\nlead = '{lead}'"));
    assert_eq!(times(STEPS), [0, 1_000_000, 2_000_000, 3_000_000]);
    assert_eq!(times(&with("1.3s")), [0, 2_300_000, 3_300_000, 4_300_000]);
    assert_eq!(times(&with("-300ms")), [0, 700_000, 1_700_000, 2_700_000]);
    let reported = |lead| levels(&reports(&mut network(&with(lead)), 9_000_000));
    assert_eq!(reported("1.3s"), reported("-300ms"));
}

#[test]
fn a_traces_lead_moves_the_reports_and_not_the_link() {
    let trace = |lead: &str| {
        let text = STEPS.replace("series", "trace").replace("[radio]", &format!("[radio]\nlead = '{lead}'"));
        network(&text)
    };
    let first = |lead: &str, level: f64| {
        let all = reports(&mut trace(lead), 9_000_000);
        all.iter().find(|(_, reading)| reading.rssi == Some(level)).map(|(at, _)| *at)
    };
    assert_eq!(first("0s", -90.0), Some(2_000_000));
    assert_eq!(first("400ms", -90.0), Some(1_600_000));
    assert_eq!(first("-400ms", -90.0), Some(2_400_000));
    let mut trace = trace("400ms");
    assert_eq!(
        trace.air(2_500_000, 0).unwrap().conditions,
        Conditions::FULL,
        "the rate stands for the levels"
    );
    let arrived = saturate(&mut trace, 2_000_000, 3_000_000).len();
    assert_eq!(arrived, 1_200, "12 Mbit/s whatever the levels are");
}

#[test]
fn a_saturated_link_carries_its_share_and_nothing_in_an_outage() {
    let mut network = network(STEPS);
    let arrivals = saturate(&mut network, 0, 4_000_000);
    let count = |from: f64, to: f64| {
        let (from, to) = ((from * 1e6) as Micros, (to * 1e6) as Micros);
        arrivals.iter().filter(|at| (from..to).contains(*at)).count()
    };
    // 12 Mbit/s are 1,200 packets a second; −72.4 dBm is a third of that, −90 beyond the cliff, −60 ten twelfths.
    assert!(count(0.0, 1.0).abs_diff(1_200) <= 24, "{}", count(0.0, 1.0));
    assert!(count(1.0, 2.0).abs_diff(400) <= 8, "{}", count(1.0, 2.0));
    assert_eq!(count(2.001, 3.0), 0);
    assert!(count(3.0, 4.0).abs_diff(1_000) <= 20, "{}", count(3.0, 4.0));
}

#[test]
fn capacity_is_the_share_of_the_ceiling_whatever_the_level() {
    for sinr in [-8.0, -5.0, 0.0, 6.5, 13.0, 20.0, 25.0] {
        let text = format!(
            "rate = '20mbps'\nqueue = '1MB'\nradio.series = {{ sinr = [['0s', {sinr}]] }}\nradio.cellular.edge_loss = 0"
        );
        let mut network = network(&text);
        let share = network.air(0, 0).unwrap().conditions.share.as_f64();
        let expected = (0.6 * (1.0 + 10f64.powf(sinr / 10.0)).log2() / 4.4).min(1.0);
        assert!((share - expected).abs() < 1e-6, "{sinr}: {share} instead of {expected}");
        let bits = saturate(&mut network, 1_000_000, 6_000_000).len() as f64 * 10_000.0;
        assert!((bits / 5.0 / (20e6 * share) - 1.0).abs() < 0.02, "{sinr}: {bits}");
    }
}

#[test]
fn events_change_the_ceiling_under_the_radio() {
    let text = "rate = '12mbps'\nqueue = '1MB'\nevents = [{ at = '2s', rate = '6mbps' }]\n\
        radio.series = { rssi = [['0s', -75]] }";
    let mut network = network(text);
    let arrivals = saturate(&mut network, 0, 4_000_000);
    let before = arrivals.iter().filter(|at| (1_000_000..2_000_000).contains(*at)).count();
    let after = arrivals.iter().filter(|at| (3_000_000..4_000_000).contains(*at)).count();
    // −75 dBm is a quarter.
    assert!(before.abs_diff(300) <= 6 && after.abs_diff(150) <= 3, "{before} {after}");
}

#[test]
fn a_shared_bottleneck_is_the_radio_of_all_who_share_it() {
    let owner = path("name = 'a'\nrate = '12mbps'\nqueue = '1MB'\nradio.series = { rssi = [['0s', -75]] }");
    let other = path("name = 'b'\nbottleneck = 'a'");
    let mut network: Network<u64> = Network::new(&[owner.clone(), other.clone()], 1).unwrap();
    let mut last = 0;
    for number in 0..100 {
        let _ = network.send(0, number % 2, Direction::Up, 1_500, 0);
    }
    while let Some(at) = network.poll_timeout().filter(|at| *at < 2_000_000) {
        last = network.poll(at).map_or(last, |arrival| arrival.at);
    }
    // 100 packets of 12,000 bits at a quarter of 12 Mbit/s.
    assert_eq!(last, 400_000);
    let radio = path("rate = '1mbps'\nradio.walk = {}").radio;
    let error = Network::<u64>::new(&[owner, PathConfig { radio, ..other }], 1).unwrap_err().to_string();
    assert_eq!(error, "path \"b\": radio: the rate is that of path \"a\", which may have a radio instead");
}

#[test]
fn a_handover_interrupts_the_link_for_its_length_and_delayed_by_the_lead() {
    for (lead, start) in [("0s", 3_000_000), ("250ms", 3_250_000)] {
        let text = format!(
            "rate = '20mbps'\nqueue = '1MB'\noutage = 'hold'\n[radio]\nlead = '{lead}'\n\
             handover = {{ at = '3s', interruption = '130ms' }}"
        );
        let mut network = network(&text);
        let arrivals = saturate(&mut network, start - 200_000, start + 400_000);
        let pause = arrivals.windows(2).map(|pair| (pair[1] - pair[0], pair[0])).max().unwrap();
        // A packet at the fading cell's rate, 0.9 Mbit/s at −4 dB, takes some milliseconds.
        assert!((130_000..145_000).contains(&pause.0), "{pause:?}");
        assert!((start - 15_000..=start).contains(&pause.1), "{pause:?}");
        let reported = reports(&mut network, 6_000_000);
        let lowest = reported.iter().min_by_key(|(_, reading)| reading.rsrp.map(|rsrp| rsrp as i64)).unwrap();
        assert_eq!((lowest.0, lowest.1.rsrp), (3_000_000, Some(-112.0)));
        assert!(reported.iter().all(|(_, reading)| !reading.disconnected));
    }
}

#[test]
fn outages_of_the_radio_drop_or_hold_as_the_link_does() {
    let text =
        "rate = '12mbps'\nqueue = '1MB'\nradio.series = { rssi = [['0s', -50], ['1s', -95], ['2s', -50]] }";
    let send = |text: &str| {
        let mut network = network(text);
        let sent = network.send(1_500_000, 0, Direction::Up, 1_500, 0);
        (sent, network.poll(3_000_000).map(|arrival| arrival.at))
    };
    assert!(matches!(send(text), (PushOutcome::Dropped(_), None)));
    assert_eq!(send(&format!("outage = 'hold'\n{text}")), (PushOutcome::Queued, Some(2_001_000)));
}

/// Returns the loss as in Fig. 3 of STORM: the share of a steady load that does not arrive.
fn loss_at(rssi: f64, offered: u64, ceiling: &str) -> f64 {
    let text = format!(
        "rate = '{ceiling}'\nradio.series = {{ rssi = [['0s', {rssi}]] }}\nradio.wifi = {{ margin = 4 }}"
    );
    let mut network = network(&text);
    let (gap, mut arrived) = (10_000 * 1_000_000 / offered, 0u64);
    let sent = 20_000_000 / gap;
    for number in 0..sent {
        let _ = network.send(number * gap, 0, Direction::Down, 1_250, number);
        arrived += std::iter::from_fn(|| network.poll(number * gap)).count() as u64;
    }
    1.0 - arrived as f64 / sent as f64
}

#[test]
fn the_loss_of_storms_figure_comes_from_the_queue() {
    // 30 Mbit/s offered to a link of 42 whose receiver exceeds the standard's requirement by 4 dB.
    assert!(loss_at(-70.0, 30_000_000, "42mbps") < 0.1);
    let weak = loss_at(-80.0, 30_000_000, "42mbps");
    assert!((0.6..0.8).contains(&weak), "{weak}");
}

#[test]
fn noise_is_as_large_as_said_and_leaves_the_link_alone() {
    let quiet = "rate = '10mbps'\nradio.quantum = 0\nradio.series = { rssi = [['0s', -60], ['1000s', -60]] }";
    let noisy = quiet.replace("radio.quantum = 0", "radio.quantum = 0\nradio.noise = 3.0");
    let reported = |text: &str| -> Vec<f64> {
        reports(&mut network(text), 1_000_000_000).iter().filter_map(|(_, reading)| reading.rssi).collect()
    };
    assert!(reported(quiet).iter().all(|level| *level == -60.0));
    let levels = reported(&noisy);
    assert_eq!(levels.len(), 10_001);
    let variance = levels.iter().map(|level| (level + 60.0).powi(2)).sum::<f64>() / 10_001.0;
    assert!((variance.sqrt() - 3.0).abs() < 0.1, "{variance}");
    assert_eq!(changes(quiet), changes(&noisy));
}

fn scenes() -> Vec<RadioConfig> {
    [
        Source::Walk(Walk::default()),
        Source::WifiEdge(WifiEdge::default()),
        Source::Canyon(Canyon::default()),
        Source::Tunnel(Tunnel::default()),
        Source::Rail(Rail::default()),
        Source::Handover(Handover::default()),
    ]
    .map(RadioConfig::new)
    .into()
}

/// The name of a radio's scene, and its fields.
fn scene(radio: &RadioConfig) -> (&'static str, toml::Value) {
    let (name, fields) = match &radio.source {
        Source::Walk(scene) => ("walk", toml::Value::try_from(scene)),
        Source::WifiEdge(scene) => ("wifi_edge", toml::Value::try_from(scene)),
        Source::Canyon(scene) => ("canyon", toml::Value::try_from(scene)),
        Source::Tunnel(scene) => ("tunnel", toml::Value::try_from(scene)),
        Source::Rail(scene) => ("rail", toml::Value::try_from(scene)),
        Source::Handover(scene) => ("handover", toml::Value::try_from(scene)),
        Source::Series(_) | Source::Trace(_) => panic!("no scene: {radio:?}"),
    };
    (name, fields.unwrap())
}

fn scene_path(radio: RadioConfig) -> PathConfig {
    let mut path: PathConfig = "rate=20mbps,delay=10ms".parse().unwrap();
    path.radio = Some(radio);
    path
}

#[test]
fn the_same_seed_gives_the_same_radio_whatever_is_sent_and_another_another() {
    for radio in scenes() {
        let still = matches!(radio.source, Source::Handover(_));
        let path = scene_path(RadioConfig { noise: 1.0, ..radio });
        let run = |seed, busy: bool| {
            let mut network: Network<u64> = Network::new(std::slice::from_ref(&path), seed).unwrap();
            for now in (0..60_000_000).step_by(7_000).filter(|_| busy) {
                let _ = network.send(now, 0, Direction::Up, 1_000, now);
            }
            let airs: Vec<_> =
                (0..60_000_000).step_by(500_000).map(|now| network.air(now, 0).unwrap().levels).collect();
            (airs, reports(&mut network, 60_000_000))
        };
        let (airs, reported) = run(1, false);
        assert_eq!((&airs, &reported), (&run(1, true).0, &run(1, true).1));
        let (others, other_reported) = run(2, false);
        assert!(still || airs != others, "{:?}", path.radio);
        assert_ne!(reported, other_reported, "the noise has the network's seed");
    }
}

#[test]
fn a_seed_of_its_own_keeps_the_levels_and_not_the_noise() {
    let radio = RadioConfig { seed: Some(7), noise: 2.0, ..RadioConfig::new(Source::Walk(Walk::default())) };
    let path = scene_path(radio);
    let run = |seed| {
        let mut network: Network<u64> = Network::new(std::slice::from_ref(&path), seed).unwrap();
        let reported = reports(&mut network, 20_000_000);
        (network.air(20_000_000, 0), reported)
    };
    let ((air, reported), (other_air, other_reported)) = (run(1), run(2));
    assert_eq!(air, other_air);
    assert_ne!(reported, other_reported);
}

#[test]
fn every_scene_has_good_times_and_bad_ones() {
    let index = QualityIndex::default();
    for radio in scenes() {
        let mut network: Network<u64> = Network::new(&[scene_path(radio.clone())], 3).unwrap();
        let reported = reports(&mut network, 300_000_000);
        let qualities: Vec<f64> = reported.iter().filter_map(|(_, reading)| index.base(reading)).collect();
        assert_eq!(qualities.len(), reported.len());
        let share = |low: f64, high: f64| {
            qualities.iter().filter(|quality| (low..high).contains(*quality)).count() as f64
                / qualities.len() as f64
        };
        assert!(share(0.45, 1.1) > 0.2, "{radio:?}: {} above Good", share(0.45, 1.1));
        assert!(share(0.0, 0.45) > 0.001, "{radio:?}: {} below Good", share(0.0, 0.45));
    }
}

#[test]
fn every_field_of_a_radio_is_read() {
    let text = "rate = '1mbps'\n[radio]\nlead = '-500ms'\ngranularity = '1s'\nlate = '20ms'\nnoise = 2.0\n\
        noise_correlation = '2s'\nquantum = 0.5\nseed = 9\ntechnology = '5g-nsa'\n\
        trace = { csv = 'drive.csv', repeat = '600s' }\ncellular = { min_sinr = -6.0 }\nwifi = { width = 40 }";
    let csv = LevelSeries { repeat: Some(Span::from_millis(600_000)), ..LevelSeries::from_file("drive.csv") };
    let expected = RadioConfig {
        lead: Lead::from_micros(-500_000),
        granularity: Span::from_millis(1_000),
        late: Span::from_millis(20),
        noise: 2.0,
        noise_correlation: Span::from_millis(2_000),
        quantum: 0.5,
        seed: Some(9),
        technology: Some(Technology::NrNsa),
        cellular: CellularMap { min_sinr: -6.0, ..CellularMap::default() },
        wifi: WifiMap { width: 40, ..WifiMap::default() },
        ..RadioConfig::new(Source::Trace(csv))
    };
    assert_eq!(path(text).radio, Some(expected));
    let steps = path(STEPS).radio.unwrap();
    let Source::Series(LevelSeries { csv: None, rssi: Some(rssi), .. }) = &steps.source else {
        panic!("{steps:?}")
    };
    assert_eq!((rssi.steps().len(), steps.capture), (4, Span::from_millis(200)));
    for radio in scenes() {
        let name = scene(&radio).0;
        assert_eq!(path(&format!("rate = '1mbps'\nradio = {{ {name} = {{}} }}")).radio, Some(radio));
    }
}

#[test]
fn wrong_radios_get_one_clear_message() {
    let error = |toml: &str| toml::from_str::<PathConfig>(toml).unwrap_err().message().to_owned();
    assert!(error("radio = { walk = {}, colour = 1 }").starts_with("unknown field `colour`"));
    assert!(error("radio = { walk = { pace = 1 } }").starts_with("unknown field `pace`"));
    assert!(error("radio = { lead = '1s' }").starts_with("a radio needs exactly one of series, trace, walk"));
    assert!(error("radio = { walk = {}, rail = {} }").starts_with("a radio needs exactly one of"));
    assert_eq!(error("radio = { walk = {}, noise = -1 }"), "radio.noise: -1 is not between 0 and 40");
    assert_eq!(error("radio = { walk = { speed = 0 } }"), "radio.walk.speed: 0 is not between 0.01 and 100");
    assert_eq!(error("radio = { walk = {}, lead = '2min' }"), "a lead of 120s is longer than a minute");
    assert!(
        error("radio = { walk = {}, technology = '6g' }").starts_with("\"6g\" is not a radio technology")
    );
    assert_eq!(
        error("radio = { series = { rssi = [['0s', -300]] } }"),
        "-300 is not a level between -200 and 100 dB"
    );
    assert!(error("radio = { series = {} }").starts_with("levels are given by csv, or by steps"));
    assert!(
        error("radio = { walk = {}, wifi = { width = 30 } }").contains("30 is not 20, 40, 80 or 160 MHz")
    );
    let network = |toml: &str| Network::<u64>::new(&[path(toml)], 1).unwrap_err().to_string();
    assert_eq!(
        network("radio = { walk = {} }"),
        "path \"path0\": radio: its map gives a share of a rate, so up needs one that is fixed or in steps, not none"
    );
    assert!(
        network("rate = '1mbps'\nradio = { series = { csv = 'x.csv' } }").ends_with("has not been loaded")
    );
}

#[test]
fn levels_and_rate_come_from_one_file() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let rows =
        "time_s,down_mbps,up_mbps,rsrp_dbm,sinr_db,rssi_dbm\n0,10,1,-90,,\n1,4,1,-104,3.5,\n2,10,1,-90,12,\n";
    std::fs::write(folder.join("drive.csv"), rows).unwrap();
    let text = "rate = { csv = 'drive.csv', column = 'down_mbps' }\nradio.trace = { csv = 'drive.csv' }";
    let mut config = path(text);
    config.load(folder).unwrap();
    let mut network: Network<u64> = Network::new(&[config], 1).unwrap();
    let all = reports(&mut network, 5_000_000);
    assert_eq!(all.len(), 21);
    let reading = all[10].1;
    assert_eq!((reading.technology, reading.rsrp, reading.rssi), (Technology::Lte, Some(-104.0), None));
    // Before its first value a level has the first measured value.
    assert_eq!(all[3].1.sinr, Some(4.0));
    assert_eq!(network.state(1_500_000, 0, Direction::Down).rate, Some(4_000_000));

    std::fs::write(folder.join("none.csv"), "time_s,down_mbps,rssi_dbm\n0,1,\n").unwrap();
    let load = |file: &str| path(&text.replace("drive", file)).load(folder).unwrap_err().to_string();
    assert!(load("none").ends_with("column \"rsrp_dbm\" or \"sinr_db\" or \"rssi_dbm\" has no value"));
    std::fs::write(folder.join("bad.csv"), "time_s,down_mbps,rssi_dbm\n0,1,-50\n1,1,low\n").unwrap();
    assert!(load("bad").ends_with("bad.csv:3: rssi_dbm: \"low\" is not a number"));
}

#[test]
fn a_relay_reports_what_the_radio_reports_now() {
    let server = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let paths =
        [path("rate = '10mbps'\nradio.series = { rssi = [['0s', -61], ['60s', -61]] }"), path("name = 'b'")];
    let relay = squall_net::Relay::start(&paths, server.local_addr().unwrap(), 1).unwrap();
    assert_eq!(relay.signal(0).and_then(|reading| reading.rssi), Some(-61.0));
    assert_eq!(relay.signal(1), None);
    assert!(relay.air(0).is_some_and(|air| air.quality.is_some()));
    assert!(relay.started().elapsed() < std::time::Duration::from_secs(60));
    relay.stop();
}

const DOCUMENT: &str = include_str!("../../../docs/scenarios.md");

#[test]
fn the_documented_example_loads() {
    #[derive(serde::Deserialize)]
    struct File {
        path: Vec<PathConfig>,
    }
    let section = DOCUMENT.split("## `[path.radio]`").nth(1).unwrap();
    let example = section.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let File { path } = toml::from_str(example).unwrap();
    assert_eq!(path[0].radio.as_ref().map(|radio| radio.lead), Some(Lead::from_micros(500_000)));
    assert!(path[1].radio.as_ref().is_some_and(RadioConfig::is_trace));
    assert!(path.iter().all(|path| path.check().is_ok()));
}

#[test]
fn every_field_of_a_scene_is_documented() {
    for radio in scenes() {
        let (name, fields) = scene(&radio);
        let row = DOCUMENT.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).unwrap();
        for (field, value) in fields.as_table().unwrap() {
            assert!(row.contains(&format!("`{field}`")), "{name}: {field}");
            if let Some(number) = value.as_float() {
                let listed = format!("`{field}` {number}").replace('-', "−");
                assert!(row.contains(&listed), "{name}: {listed}");
            }
        }
    }
}

proptest! {
    #[test]
    fn reports_never_come_early_nor_out_of_order(
        capture in 1u64..2_000, granularity in 0u64..3_000, late in 0u64..2_000, lead in -3_000i64..3_000,
        trace: bool,
    ) {
        let levels = toml::from_str("rssi = [['0s', -50], ['3s', -70], ['9s', -60]]").unwrap();
        let source = if trace { Source::Trace(levels) } else { Source::Series(levels) };
        let radio = RadioConfig {
            capture: Span::from_millis(capture),
            granularity: Span::from_millis(granularity),
            late: Span::from_millis(late),
            lead: Lead::from_micros(lead * 1_000),
            ..RadioConfig::new(source)
        };
        let mut network: Network<u64> = Network::new(&[scene_path(radio)], 1).unwrap();
        let all = reports(&mut network, 30_000_000);
        prop_assert!(all.is_sorted_by_key(|(at, reading)| (*at, reading.at)));
        for (index, (at, reading)) in all.iter().enumerate() {
            prop_assert_eq!(*at, index as u64 * capture * 1_000 + late * 1_000);
            prop_assert!(reading.at.micros() + late * 1_000 <= *at);
            // Each measurement is the level of its time, moved by a trace's lead.
            let moved = if trace { lead * 1_000 } else { 0 };
            let air = reading.at.micros().saturating_add_signed(moved);
            let level = if air < 3_000_000 { -50.0 } else if air < 9_000_000 { -70.0 } else { -60.0 };
            prop_assert_eq!(reading.rssi, Some(level));
        }
    }
}

#[test]
fn a_delayed_path_begins_later_and_is_as_at_its_beginning_until_then() {
    let written = path(
        r#"
        name = "wifi"
        rate = "20mbps"
        events = [{ at = "5s", outage = "3s" }]
        radio = { series = { rssi = [["0s", -55], ["4s", -92]] } }
        "#,
    );
    let delayed = written.delayed(Span::from_millis(1_000));
    assert_eq!(delayed.events[0].at, Span::from_millis(6_000));
    let steps = |path: &PathConfig| match path.radio.as_ref().map(|radio| &radio.source) {
        Some(Source::Series(levels)) => {
            let rssi = levels.rssi.as_ref().expect("is written");
            rssi.steps().iter().map(|(at, _)| at.micros()).collect::<Vec<_>>()
        }
        _ => panic!("has levels"),
    };
    assert_eq!((steps(&written), steps(&delayed)), (vec![0, 4_000_000], vec![1_000_000, 5_000_000]));
    let mut network: Network<u64> = Network::new(&[delayed], 1).expect("is valid");
    let first = network.air(0, 0).and_then(|air| air.levels.rssi);
    assert_eq!(first, Some(-55.0), "the first level holds until the script begins");
}
