use proptest::prelude::*;
use squall_units::short::at_us;

use super::*;

const POLL: u64 = 100_000;

/// Creates a watermark with fixed marks.
fn fixed() -> Watermark {
    Watermark::new(WatermarkConfig { adaptation: None, ..WatermarkConfig::default() }).unwrap()
}

/// Creates a Wi-Fi reading of that time with that quality index.
fn reading(micros: u64, quality: f64) -> Reading {
    Reading::wifi(at_us(micros), -88.75 + quality * 41.75)
}

/// Feeds one index each 100 ms, from time 0 on; returns the alert of each.
fn feed(watermark: &mut Watermark, qualities: &[f64]) -> Vec<Option<AlertKind>> {
    let times = (0..).step_by(POLL as usize);
    let update =
        |(at, q): (u64, &f64)| watermark.update(at_us(at), &reading(at, *q), None).map(|alert| alert.kind);
    times.zip(qualities).map(update).collect()
}

const W: Option<AlertKind> = Some(AlertKind::Warning);
const O: Option<AlertKind> = Some(AlertKind::Outage);
const R: Option<AlertKind> = Some(AlertKind::Recovery);

#[test]
fn a_strong_signal_says_nothing() {
    assert_eq!(feed(&mut fixed(), &[0.9, 0.5, 0.33, 0.46]), [None; 4]);
}

#[test]
fn a_weak_one_warns_with_the_gap_and_again_when_the_gap_moves() {
    let mut watermark = fixed();
    let alert = watermark.update(at_us(0), &reading(0, 0.28), None).unwrap();
    assert_eq!(alert.kind, AlertKind::Warning);
    assert!((alert.gap - 0.04).abs() < 1e-9, "{}", alert.gap);
    assert!((alert.factor() - 0.28 / 0.32).abs() < 1e-9);
    assert_eq!(feed(&mut watermark, &[0.275, 0.25, 0.245, 0.28]), [None, W, None, W]);
    assert_eq!(watermark.state(), SignalState::Warned);
}

#[test]
fn the_factor_is_a_share_of_warning_or_the_place_in_its_band() {
    let of = |factor, kind, quality: f64, gap| {
        let config = WatermarkConfig { factor, ..WatermarkConfig::default() };
        (config.factor(&Alert { kind, quality, gap }) * 1000.0).round() / 1000.0
    };
    // 0.265 is the middle between Outage, 0.21, and Warning, 0.32.
    assert_eq!(of(FactorMap::Share, AlertKind::Warning, 0.265, 0.055), 0.828);
    assert_eq!(of(FactorMap::Band, AlertKind::Warning, 0.265, 0.055), 0.5);
    assert_eq!(of(FactorMap::Band, AlertKind::Outage, 0.1, 0.22), LEAST_FACTOR);
    assert_eq!(of(FactorMap::Band, AlertKind::Recovery, 0.5, 0.0), 1.0);
}

#[test]
fn an_outage_is_said_at_once_and_once() {
    assert_eq!(feed(&mut fixed(), &[0.6, 0.2, 0.1, 0.0]), [None, O, None, None]);
    assert_eq!(feed(&mut fixed(), &[0.3, 0.2]), [W, O]);
}

#[test]
fn an_outage_ends_at_once_above_good() {
    assert_eq!(feed(&mut fixed(), &[0.1, 0.46]), [O, R]);
    // Independent of the values on the way: the period of reads does not decide.
    assert_eq!(feed(&mut fixed(), &[0.1, 0.25, 0.6]), [O, None, R]);
    assert_eq!(feed(&mut fixed(), &[0.1, 0.44, 0.6]), [O, None, R]);
    assert_eq!(feed(&mut fixed(), &[0.3, 0.6]), [W, None], "a warning takes T_rec");
}

#[test]
fn between_outage_and_warning_on_the_way_up_nothing_is_said() {
    assert_eq!(feed(&mut fixed(), &[0.1, 0.22, 0.31, 0.25]), [O, None, None, None]);
}

#[test]
fn recovery_takes_t_rec_above_warning() {
    let up = [0.1, 0.33, 0.4, 0.4, 0.4, 0.4];
    assert_eq!(feed(&mut fixed(), &up), [O, None, None, None, None, R]);
    let weak = [0.3, 0.33, 0.4, 0.4, 0.4, 0.4];
    assert_eq!(feed(&mut fixed(), &weak), [W, None, None, None, None, R], "after a warning as well");
}

#[test]
fn a_reading_that_is_looked_at_again_counts_once() {
    // A radio that is read once a second, and checked every 100 ms.
    let mut watermark = fixed();
    let mut look =
        |now, at, quality| watermark.update(at_us(now), &reading(at, quality), None).map(|alert| alert.kind);
    assert_eq!(look(0, 0, 0.1), O);
    for now in (1_000_000..2_000_000).step_by(POLL as usize) {
        assert_eq!(look(now, 1_000_000, 0.4), None, "one good reading, after {now} µs");
    }
    assert_eq!(look(2_000_000, 2_000_000, 0.4), R);
}

#[test]
fn a_good_reading_that_no_other_follows_ends_an_alert_when_it_is_stale() {
    let mut watermark = fixed();
    watermark.update(at_us(0), &reading(0, 0.1), None);
    let good = reading(POLL, 0.4);
    let recovered =
        (1..100).map(|i| i * POLL).find(|now| watermark.update(at_us(*now), &good, None).is_some());
    assert_eq!(recovered, Some(POLL + 5_000_000));
}

#[test]
fn a_dip_starts_t_rec_again() {
    let qualities = [0.1, 0.33, 0.4, 0.4, 0.31, 0.33, 0.4, 0.4, 0.4, 0.4];
    let alerts = feed(&mut fixed(), &qualities);
    assert_eq!(alerts.iter().position(|alert| *alert == R), Some(9));
    assert_eq!(alerts.iter().flatten().count(), 2);
}

#[test]
fn an_oscillating_signal_keeps_the_path_out() {
    let swing = |top| -> Vec<f64> { (0..100).map(|i| [0.15, 0.35, top, 0.35][i % 4]).collect() };
    let alerts = feed(&mut fixed(), &swing(0.44));
    assert_eq!(alerts.iter().flatten().collect::<Vec<_>>(), [&AlertKind::Outage]);
    // A path that exceeds Good for a moment is used, and taken out of use again.
    let alerts = feed(&mut fixed(), &swing(0.5));
    assert!(alerts.chunks(4).all(|swing| swing == [O, None, R, None]), "{alerts:?}");
}

#[test]
fn growing_loss_can_bring_a_warning_about() {
    let mut watermark = fixed();
    assert_eq!(watermark.update(at_us(0), &reading(0, 0.36), Some(0.0)), None);
    // 0.36 · e^(−0.01 · 20) = 0.295
    let alert = watermark.update(at_us(POLL), &reading(POLL, 0.36), Some(0.2)).unwrap();
    assert_eq!(alert.kind, AlertKind::Warning);
    assert!((alert.quality - 0.2947).abs() < 1e-3, "{}", alert.quality);
    // A constant loss does not grow.
    assert_eq!(watermark.update(at_us(2 * POLL), &reading(2 * POLL, 0.36), Some(0.2)), None);
}

#[test]
fn windows_of_loss_are_compared_across_readings_between_them_if_they_are_near() {
    for (pause, expected) in [(1_900_000, W), (2_100_000, None)] {
        let mut watermark = fixed();
        watermark.update(at_us(0), &reading(0, 0.36), Some(0.0));
        assert_eq!(watermark.update(at_us(POLL), &reading(POLL, 0.36), None), None);
        let alert = watermark.update(at_us(pause), &reading(pause, 0.36), Some(0.2));
        assert_eq!(alert.map(|alert| alert.kind), expected, "after {pause} µs");
    }
}

#[test]
fn a_radio_out_of_its_network_is_an_outage() {
    let mut watermark = fixed();
    let gone = Reading::disconnected(at_us(0), crate::Technology::Wifi);
    let alert = watermark.update(at_us(0), &gone, None).unwrap();
    assert_eq!((alert.kind, alert.quality), (AlertKind::Outage, 0.0));
    assert_eq!(alert.factor(), LEAST_FACTOR);
}

#[test]
fn a_radio_that_falls_silent_is_not_believed_for_ever() {
    let mut watermark = fixed();
    assert_eq!(watermark.timeout(), None);
    feed(&mut watermark, &[0.1]);
    assert_eq!(watermark.timeout(), Some(at_us(5_000_000)));
    assert_eq!(watermark.on_time(at_us(4_999_999)), None);
    // A reading without a level is ignored.
    assert_eq!(watermark.update(at_us(4_999_999), &Reading::default(), None), None);
    assert_eq!(watermark.on_time(at_us(5_000_000)).map(|alert| alert.kind), R);
    assert_eq!((watermark.state(), watermark.quality()), (SignalState::Clear, None));
    assert_eq!(watermark.timeout(), None);
    assert_eq!(watermark.update(at_us(6_000_000), &reading(6_000_000, 0.6), None), None);
}

fn adaptive() -> Watermark {
    Watermark::new(WatermarkConfig::default()).unwrap()
}

#[test]
fn a_burst_that_was_not_prevented_raises_outage() {
    let mut watermark = adaptive();
    watermark.update(at_us(0), &reading(0, 0.4), Some(0.6));
    assert!((watermark.marks().outage - 0.23).abs() < 1e-9);
    for i in 1..20 {
        watermark.update(at_us(i * POLL), &reading(i * POLL, 0.4), Some(0.6));
    }
    assert!((watermark.marks().outage - 0.30).abs() < 1e-9, "bounded: {:?}", watermark.marks());
}

#[test]
fn a_burst_under_a_strong_signal_moves_nothing() {
    let mut watermark = adaptive();
    for i in 0..20 {
        watermark.update(at_us(i * POLL), &reading(i * POLL, 0.9), Some(0.6));
    }
    assert_eq!(watermark.marks(), Marks::default());
}

#[test]
fn marks_go_back_when_nothing_is_lost_any_more() {
    let mut watermark = adaptive();
    for i in 0..20 {
        watermark.update(at_us(i * POLL), &reading(i * POLL, 0.28), Some(0.15));
        watermark.update(at_us(i * POLL), &reading(i * POLL, 0.4), Some(0.6));
    }
    let Marks { warning, outage, .. } = watermark.marks();
    // With higher marks, the first reading would be an outage, and nothing is lost on a path that
    // carries nothing.
    assert!(warning > 0.35 && outage > 0.26, "{:?}", watermark.marks());
    // Nine steps each at most, of 5 s.
    for i in 20..=600 {
        watermark.update(at_us(i * POLL), &reading(i * POLL, 0.6), Some(0.02));
    }
    let Marks { warning, outage, .. } = watermark.marks();
    assert!((warning - 0.32).abs() < 1e-9 && (outage - 0.21).abs() < 1e-9, "{:?}", watermark.marks());
}

#[test]
fn loss_under_a_warning_raises_warning_by_a_smaller_step() {
    let mut watermark = adaptive();
    watermark.update(at_us(0), &reading(0, 0.28), Some(0.0));
    watermark.update(at_us(POLL), &reading(POLL, 0.28), Some(0.15));
    assert!((watermark.marks().warning - 0.33).abs() < 1e-9);
    assert!((watermark.marks().outage - 0.21).abs() < 1e-9);
}

#[test]
fn use_under_a_warning_without_a_burst_lowers_outage() {
    let mut watermark = adaptive();
    for i in 0..=50 {
        watermark.update(at_us(i * POLL), &reading(i * POLL, 0.28), Some(0.05));
    }
    assert!((watermark.marks().outage - 0.19).abs() < 1e-9, "{:?}", watermark.marks());
    let mut strong = adaptive();
    for i in 0..=500 {
        strong.update(at_us(i * POLL), &reading(i * POLL, 0.9), Some(0.0));
    }
    assert_eq!(strong.marks(), Marks::default(), "a strong signal proves nothing");
}

#[test]
fn settings_that_make_no_sense_are_named() {
    let error = |change: fn(&mut WatermarkConfig)| {
        let mut config = WatermarkConfig::default();
        change(&mut config);
        Watermark::new(config).unwrap_err().to_string()
    };
    assert_eq!(
        error(|c| c.marks.outage = 0.4),
        "watermarks: 0 < outage < warning < good <= 1 is needed, not outage 0.4, warning 0.32, good 0.45"
    );
    assert_eq!(error(|c| c.index.ranges.sinr.high = -10.0), "the range of SINR must rise from low to high");
    assert_eq!(error(|c| c.index.weights.rsrp = 0.0), "the weight w_rsrp must be above 0 and at most 1");
    assert_eq!(error(|c| c.index.weights.gamma = 1.0), "the weight gamma must be 0 or more and below 1");
    let steps = error(|c| c.adaptation = Some(Adaptation { step: 0.0, ..Adaptation::default() }));
    assert!(steps.starts_with("adaptation: steps must be"), "{steps}");
}

/// Indices that dwell near the marks as well as far from them, with the time between them.
fn walks() -> impl Strategy<Value = Vec<(u64, f64)>> {
    let quality = prop_oneof![0.0..1.0f64, 0.18..0.24f64, 0.29..0.35f64, 0.43..0.47f64];
    prop::collection::vec((1_000..300_000u64, quality), 1..200)
}

proptest! {
    /// Promises of the paper, checked against the readings and not against the states.
    #[test]
    fn alerts_keep_the_rules(walk in walks()) {
        let mut watermark = fixed();
        let Marks { good, warning, outage } = Marks::default();
        let (mut now, mut above) = (0, None);
        for (step, q) in walk {
            now += step;
            let state = watermark.state();
            let raised = watermark.update(at_us(now), &reading(now, q), None);
            // The conversion to a level and back costs a few bits.
            let q = watermark.quality().unwrap();
            above = if q < warning { None } else { above.or(Some(now)) };
            match raised.map(|alert| alert.kind) {
                Some(AlertKind::Outage) => prop_assert!(q < outage && state != SignalState::Out),
                Some(AlertKind::Warning) => {
                    prop_assert!(outage <= q && q < warning && state != SignalState::Out);
                }
                Some(AlertKind::Recovery) => {
                    let lasting = above.is_some_and(|since| now - since >= 400_000);
                    let strong = state == SignalState::Out && q > good;
                    prop_assert!(state != SignalState::Clear && (lasting || strong));
                }
                None => {
                    prop_assert!(q >= outage || state == SignalState::Out);
                    prop_assert!(q >= warning || state != SignalState::Clear);
                    let lasting = above.is_some_and(|since| now - since >= 400_000);
                    prop_assert!(!lasting || state == SignalState::Clear);
                    prop_assert!(q <= good || state != SignalState::Out);
                }
            }
            if let Some(alert) = raised {
                let f = alert.factor();
                prop_assert!(f > 0.0 && f <= 1.0 && alert.gap >= 0.0);
                prop_assert_eq!(watermark.state(), alert.kind.state());
            }
        }
    }

    #[test]
    fn a_signal_that_never_rests_above_warning_nor_exceeds_good_never_recovers(
        walk in prop::collection::vec((1_000..300_000u64, 0.33..0.449f64), 1..200)
    ) {
        let mut watermark = fixed();
        watermark.update(at_us(0), &reading(0, 0.1), None);
        let mut now = 0;
        for (step, high) in walk {
            // Below again before T_rec is over.
            for q in [0.25, high, 0.3, 0.1] {
                now += step.min(390_000);
                prop_assert_eq!(watermark.update(at_us(now), &reading(now, q), None), None);
            }
        }
        prop_assert_eq!(watermark.state(), SignalState::Out);
    }

    #[test]
    fn marks_stay_in_order_and_in_reach(
        windows in prop::collection::vec((0.0..1.0f64, 0.0..1.0f64, 1_000..2_000_000u64), 1..300)
    ) {
        let mut watermark = adaptive();
        let start = Marks::default();
        let mut now = 0;
        for (quality, loss, step) in windows {
            now += step;
            watermark.update(at_us(now), &reading(now, quality), Some(loss));
            let Marks { good, warning, outage } = watermark.marks();
            prop_assert!(0.0 < outage && outage < warning && warning < good && good == start.good);
            prop_assert!((outage - start.outage).abs() <= 0.0900001);
            prop_assert!((warning - start.warning).abs() <= 0.0900001);
        }
    }
}
