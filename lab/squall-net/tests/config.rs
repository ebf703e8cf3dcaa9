//! Paths in files and on command lines.

use squall_net::{
    CodelConfig, DelayConfig, Direction, DropEnd, EcnTreatment, GilbertElliott, JitterConfig, JitterShape,
    Limit, LinkConfig, LinkEvent, LossConfig, OutageMode, PathConfig, QueueConfig, RateConfig,
    series::{CsvSource, Series},
};
use squall_units::{Rate, Ratio, Span};

#[derive(serde::Deserialize)]
struct File {
    path: Vec<PathConfig>,
}

const WIFI: &str = r#"
    [[path]]
    name = "wifi"
    rate = "20mbps"
    delay = "15ms"
    queue = "75kB"
    loss = "0.1%"
    up = { rate = "5mbps" }
    events = [
        { at = "5s", outage = "3s" },
        { at = "10s", rate = "2mbps", over = "2s" },
        { at = "12s", loss = "5%" },
        { at = "14s", outage = "1s", direction = "down" },
        { at = "16s", rebind = true },
    ]
"#;

fn wifi() -> PathConfig {
    toml::from_str::<File>(WIFI).unwrap().path.remove(0)
}

fn error(toml: &str) -> String {
    toml::from_str::<PathConfig>(toml).unwrap_err().message().to_owned()
}

#[test]
fn shared_fields_hold_for_both_directions_unless_overridden() {
    let path = wifi();
    assert_eq!(path.up.rate, RateConfig::Fixed(Rate::from_bps(5_000_000)));
    assert_eq!(path.down.rate, RateConfig::Fixed(Rate::from_bps(20_000_000)));
    assert_eq!(path.up.delay, DelayConfig::Fixed(Span::from_millis(15)));
    assert_eq!(path.up.queue, path.down.queue);
}

#[test]
fn events_go_to_their_directions() {
    let path = wifi();
    assert_eq!(path.link(Direction::Up).events.len(), 3);
    assert_eq!(path.link(Direction::Down).events.len(), 4);
    assert_eq!(path.rebinds(), [Span::from_millis(16_000)]);
    path.check().unwrap();
}

#[test]
fn every_field_of_a_link_is_read() {
    let link: LinkConfig = toml::from_str(
        r#"
        rate = { steps = [["0s", "20mbps"], ["5s", "1.5mbps"]], repeat = "10s" }
        delay = { csv = "ping.csv", column = "rtt_ms", scale = 0.5 }
        jitter = { normal = "3ms", reorder = true }
        loss = { to_bad = "1%", to_good = 0.2 }
        duplicate = "0.5%"
        corrupt = "0.1%"
        ecn = "mark"
        mtu = "1400B"
        queue = { bytes = "75kB", packets = 40, drop = "head", codel = { target = "10ms", ecn = true } }
        policer = "20mbps:50kB"
        outage = "hold"
        delay_first = true
        events = [{ at = "1s", loss = "2%/5", ecn = "drop", mtu = "1300B" }]
        "#,
    )
    .unwrap();
    let (at, size) = (Span::from_millis, |text: &str| text.parse().unwrap());
    let steps = vec![(at(0), Rate::from_bps(20_000_000)), (at(5_000), Rate::from_bps(1_500_000))];
    let ping = CsvSource { csv: "ping.csv".into(), column: "rtt_ms".into(), scale: 0.5 };
    let expected = LinkConfig {
        rate: RateConfig::Series(Series::new(steps, Some(at(10_000))).unwrap()),
        delay: DelayConfig::Series(Series::from_file(ping, None)),
        jitter: JitterConfig { shape: JitterShape::Normal, size: at(3), reorder: true },
        loss: LossConfig::GilbertElliott(GilbertElliott {
            to_bad: ratio("1%"),
            to_good: ratio("20%"),
            loss_good: ratio("0%"),
            loss_bad: ratio("100%"),
        }),
        duplicate: ratio("0.5%"),
        corrupt: ratio("0.1%"),
        ecn: EcnTreatment::Mark,
        mtu: size("1400B"),
        queue: QueueConfig {
            limit: Limit::At { bytes: Some(size("75kB")), packets: Some(40) },
            drop: DropEnd::Head,
            codel: Some(CodelConfig { target: at(10), ecn: true, ..CodelConfig::default() }),
        },
        policer: Some("20mbps:50kB".parse().unwrap()),
        outage: OutageMode::Hold,
        delay_first: true,
        events: vec![LinkEvent {
            at: at(1_000),
            loss: Some("2%/5".parse().unwrap()),
            ecn: Some(EcnTreatment::Drop),
            mtu: Some(size("1300B")),
            ..LinkEvent::default()
        }],
    };
    assert_eq!(link, expected);
    let mahimahi: LinkConfig = toml::from_str("rate = { mahimahi = 'lte.up', once = true }").unwrap();
    let file = Some("lte.up".into());
    assert_eq!(mahimahi.rate, RateConfig::Mahimahi { file, trace: None, once: true });
    assert_eq!(
        serde_json::from_str::<LinkConfig>(r#"{"rate": "8mbps"}"#).unwrap(),
        "rate=8mbps".parse().unwrap()
    );
}

fn ratio(text: &str) -> Ratio {
    text.parse().unwrap()
}

#[test]
fn wrong_files_get_one_clear_message() {
    assert!(error("name = 'x'\nspeed = 3").starts_with("unknown field `speed`"));
    assert_eq!(error("rate = 'fast'"), "\"fast\" is not a rate: it does not start with a number");
    assert!(error("up = { rate = '1mbps', colour = 1 }").starts_with("unknown field `colour`"));
    assert!(
        error("rate = { steps = [['5s', '1mbps'], ['2s', '1mbps']] }").contains("step 2 at 2s is earlier")
    );
    assert!(error("rate = true").contains("expected a rate such as"));
    assert!(error("events = [{ outage = '3s' }]").contains("missing field `at`"));
    let check = |toml: &str| toml::from_str::<PathConfig>(toml).unwrap().check().unwrap_err().to_string();
    assert_eq!(
        check("name = 'x'\nevents = [{ at = '3s', rate = '1mbps', over = '1s' }]"),
        "path \"x\": events: event at 3s: a rate cannot move evenly from unlimited to 1mbps"
    );
    assert!(check("name = 'x'\nevents = [{ at = '3s' }]").contains("event at 3s: it changes nothing"));
}

#[test]
fn the_comma_form_reaches_both_directions() {
    let path: PathConfig = "name=lte,rate=20mbps,up.rate=5mbps,down.loss=2%/5,metered".parse().unwrap();
    assert!(path.metered);
    assert_eq!(path.up.rate.mean_bps(), Some(5_000_000));
    assert_eq!(path.down.rate.mean_bps(), Some(20_000_000));
    let LossConfig::GilbertElliott(chain) = path.down.loss else { panic!("not a burst loss") };
    assert!((chain.average() - 0.02).abs() < 1e-6, "{chain:?}");
    assert_eq!(GilbertElliott::with_burst("2%".parse().unwrap(), 5.0), Some(chain));
}

#[test]
fn files_are_loaded_relative_to_a_folder_and_errors_name_them() {
    let folder = std::env::temp_dir().join(format!("squall-net-config-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("lte.up"), "1\n2\n2\n").unwrap();
    std::fs::write(folder.join("bad.up"), "1\n2\nx\n").unwrap();
    std::fs::write(folder.join("drive.csv"), "time_s,down_mbps,rtt_ms\n0,10,40\n1,20,60\n").unwrap();
    let load = |text: &str| {
        let mut link: LinkConfig = toml::from_str(text).unwrap();
        link.load(&folder).map(|()| link).map_err(|error| error.to_string())
    };
    let traced = load("rate = { mahimahi = 'lte.up' }").unwrap();
    assert_eq!(traced.rate.mean_bps(), Some(3 * 1_504 * 8 * 1_000 / 2));
    let driven = load(
        "rate = { csv = 'drive.csv', column = 'down_mbps' }\n\
         delay = { csv = 'drive.csv', column = 'rtt_ms', scale = 0.5 }",
    )
    .unwrap();
    assert_eq!(driven.rate.mean_bps(), Some(10_000_000));
    assert_eq!(driven.delay.initial(), Span::from_millis(20));
    let bad = load("rate = { mahimahi = 'bad.up' }").unwrap_err();
    assert!(bad.ends_with("bad.up:3: \"x\" is not a whole number of milliseconds"), "{bad}");
    assert!(load("rate = { mahimahi = 'none.up' }").unwrap_err().contains("none.up: "));
    std::fs::remove_dir_all(&folder).unwrap();

    let unread: LinkConfig = "mahimahi=lte.up".parse().unwrap();
    let error = squall_net::Link::<()>::new(&unread, 0).unwrap_err().to_string();
    assert_eq!(error, "rate: the trace has not been loaded");
}
