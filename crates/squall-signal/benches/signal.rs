//! Cost of a reading: evaluated, handed over, and received.
//!
//! `cargo bench -p squall-signal`. STORM reads a signal within 80 µs and decides within 1 µs.

#[cfg(target_os = "linux")]
#[path = "../tests/common/modem_manager.rs"]
mod modem_manager;

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use criterion::{Criterion, criterion_group, criterion_main};
use squall_signal::{
    Clock, QualityIndex, Reading, RecordedSource, Replay, SignalSource as _, Time, Watermark,
    WatermarkConfig, board,
};

/// Readings that cross all the marks.
fn readings() -> Vec<Reading> {
    (0..1000u32)
        .map(|i| {
            let depth = f64::from(i % 100) / 100.0;
            Reading::lte(Time::from_micros(u64::from(i) * 100_000), -70.0 - 60.0 * depth, 30.0 - 40.0 * depth)
        })
        .collect()
}

fn deciding(criterion: &mut Criterion) {
    let readings = readings();
    let index = QualityIndex::default();
    let mut next = readings.iter().cycle();
    criterion.bench_function("quality index", |bencher| {
        bencher.iter(|| index.of(black_box(next.next()?), black_box(0.01)));
    });
    let mut watermark = Watermark::new(WatermarkConfig::default()).expect("the defaults make sense");
    let (mut at, mut next) = (0, readings.iter().cycle());
    criterion.bench_function("watermark update", |bencher| {
        bencher.iter(|| {
            at += 100_000;
            watermark.update(Time::from_micros(at), black_box(next.next()?), black_box(Some(0.02)))
        });
    });
}

fn handing_over(criterion: &mut Criterion) {
    let readings = readings();
    let (mut publisher, subscriber) = board();
    let mut next = readings.iter().cycle();
    criterion.bench_function("board: publish and latest", |bencher| {
        bencher.iter(|| {
            publisher.publish(black_box(next.next()?));
            black_box(subscriber.latest())
        });
    });
}

fn replaying(criterion: &mut Criterion) {
    let rows: String =
        (0..10_000).map(|i| format!("{:.6},-{}\n", f64::from(i) * 1e-6, 60 + i % 30)).collect();
    let replay = Replay { looped: true, ..Replay::default() };
    let text = format!("time_s,rssi_dbm\n{rows}");
    let mut source = RecordedSource::parse("bench.csv", &text, replay).expect("has levels");
    let clock = Clock::new(Instant::now());
    criterion.bench_function("recording: a reading", |bencher| {
        bencher.iter(|| source.next(clock, Duration::ZERO));
    });
}

/// Measures from the signal of ModemManager with new levels to the reading; the bus is a socket of
/// the bench.
#[cfg(target_os = "linux")]
fn modem(criterion: &mut Criterion) {
    use modem_manager::{FIRST, ModemManager};

    let manager = ModemManager::with_lte("wwan0", &[("rsrp", -97.0), ("rsrq", -11.0), ("snr", 12.5)]);
    let source = squall_signal::ModemSource::open_at(&manager.address(), "wwan0");
    let mut source = source.expect("the modem is there");
    let clock = Clock::new(Instant::now());
    let long = Duration::from_secs(10);
    source.next(clock, long).expect("ModemManager answers");
    let mut level = -60.0;
    criterion.bench_function("modem: from signal to reading", |bencher| {
        bencher.iter(|| {
            level = if level < -130.0 { -60.0 } else { level - 1.0 };
            manager.levels(FIRST, "Lte", &[("rsrp", level), ("rsrq", -11.0), ("snr", 12.5)]);
            let seen = source.next(clock, long).expect("ModemManager answers").expect("is new");
            assert_eq!(seen.rsrp, Some(level));
        });
    });
}

/// Measures a query to the kernel and its answer, if there is a Wi-Fi interface.
#[cfg(target_os = "linux")]
fn wifi(criterion: &mut Criterion) {
    let names = match squall_signal::wifi_interfaces() {
        Ok(names) => names,
        Err(error) => return println!("wifi: not measured: {error}"),
    };
    let mut source = squall_signal::WifiSource::open(&names[0]).expect("is there");
    let clock = Clock::new(Instant::now());
    criterion.bench_function("wifi: a reading", |bencher| {
        bencher.iter(|| source.next(clock, Duration::ZERO).expect("the kernel answers"));
    });
}

#[cfg(not(target_os = "linux"))]
fn modem(_: &mut Criterion) {}

#[cfg(not(target_os = "linux"))]
fn wifi(_: &mut Criterion) {}

criterion_group!(benches, deciding, handing_over, replaying, modem, wifi);
criterion_main!(benches);
