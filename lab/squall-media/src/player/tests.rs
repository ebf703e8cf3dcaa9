use std::num::NonZeroU32;

use proptest::prelude::*;

use super::*;
use crate::clip::{Clip, ClipConfig};
use crate::encoder::EncoderConfig;
use crate::frame::frame_time_us;
use crate::picture::Picture;

const EVERY: NonZeroU32 = NonZeroU32::MIN;

fn player(late: LatePolicy) -> Player {
    Player::new(PlayerConfig { late, deadline_us: 100_000, ..Default::default() }).unwrap()
}

fn frame(index: u64, kind: FrameKind) -> EncodedFrame {
    EncodedFrame { index, pts_us: 0, kind, data: Bytes::from_static(&[1]) }
}

/// Thirty frames a second, a key frame every ten; `latency_us` gives each frame's, `None` when it is lost.
fn play(player: &mut Player, count: u64, latency_us: impl Fn(u64) -> Option<u64>) -> PlayReport {
    for index in 0..count {
        let captured = frame_time_us(index, 30.0);
        let kind = if index % 10 == 0 { FrameKind::Key } else { FrameKind::Delta };
        player.on_sent(index, captured, kind);
        if let Some(latency) = latency_us(index) {
            player.on_frame(captured + latency, captured, frame(index, kind));
        }
    }
    player.finish()
}

#[test]
fn a_perfect_stream_has_nothing_to_report() {
    let report = play(&mut player(LatePolicy::Decode), 90, |_| Some(40_000));
    let frames =
        FrameCounts { sent: 90, received: 90, in_time: 90, decoded: 90, shown: 90, ..Default::default() };
    assert_eq!(report.frames, frames);
    assert_eq!(report.fps.per_second, [30, 30, 30]);
    assert_eq!((report.fps.min, report.fps.p5, report.fps.slow_seconds), (30, 30, 0));
    assert!((report.fps.mean - 30.0).abs() < 0.001, "{}", report.fps.mean);
    assert_eq!(report.stalls, Stalls::default());
    assert!(report.latency.p50_us.abs_diff(40_000) < 40 && report.latency.max_us.abs_diff(40_000) < 40);
    assert_eq!(report.offered_latency.p999_us, Some(report.latency.p999_us));
}

#[test]
fn a_late_frame_costs_one_picture_or_all_up_to_the_key_frame() {
    let latency = |index| Some(if index == 32 { 120_000 } else { 30_000 });
    let frames = play(&mut player(LatePolicy::Decode), 60, latency).frames;
    assert_eq!((frames.late, frames.decoded, frames.shown, frames.undecodable), (1, 60, 59, 0));

    let report = play(&mut player(LatePolicy::Drop), 60, latency);
    let frames = report.frames;
    assert_eq!((frames.late, frames.decoded, frames.shown, frames.undecodable), (1, 52, 52, 7));
    // Frames 32 to 39: the picture of 31 stays until 40, eight intervals longer than it should.
    assert_eq!((report.stalls.count, report.stalls.longest_us.div_ceil(1000)), (1, 267));
}

#[test]
fn a_lost_frame_freezes_the_picture_until_the_next_key_frame() {
    for policy in [LatePolicy::Decode, LatePolicy::Drop] {
        let report = play(&mut player(policy), 60, |index| (index != 15).then_some(30_000));
        let frames = report.frames;
        assert_eq!((frames.missing, frames.shown, frames.undecodable), (1, 55, 4), "{policy:?}");
        assert_eq!(report.fps.per_second, [25, 30]);
        assert_eq!(report.stalls.count, 1);
    }
}

#[test]
fn a_lost_disposable_frame_costs_itself_only() {
    for policy in [LatePolicy::Decode, LatePolicy::Drop] {
        let mut player = player(policy);
        for index in 0..30 {
            let kind = match index {
                0 => FrameKind::Key,
                n if n % 2 == 1 => FrameKind::Disposable,
                _ => FrameKind::Delta,
            };
            let captured = frame_time_us(index, 30.0);
            player.on_sent(index, captured, kind);
            if index != 7 {
                player.on_frame(captured, captured, frame(index, kind));
            }
        }
        let frames = player.finish().frames;
        assert_eq!((frames.missing, frames.shown, frames.undecodable), (1, 29, 0), "{policy:?}");
    }
}

#[test]
fn stalls_count_at_the_ends_and_short_gaps_do_not() {
    // Two frames missing are a gap of three intervals, which is not yet a stall.
    let lost = |index: u64| index < 15 || index == 38 || index == 39 || index >= 50;
    let report = play(&mut player(LatePolicy::Decode), 60, |index| (!lost(index)).then_some(10_000));
    // Nothing until key frame 20, and the last ten frames.
    assert_eq!(report.stalls.count, 2);
    assert_eq!(report.stalls.longest_us, frame_time_us(20, 30.0));
    assert!(report.stalls.total_us.abs_diff(1_000_000) < 10, "{:?}", report.stalls);
    assert_eq!(report.fps.per_second, [10, 18]);
    assert_eq!((report.fps.slow_seconds, report.fps.slow_share), (2, 1.0));
}

#[test]
fn missing_frames_are_no_good_latency() {
    let report = play(&mut player(LatePolicy::Decode), 100, |index| (index < 97).then_some(index * 1000));
    assert!(report.latency.p99_us.abs_diff(96_000) < 100, "{:?}", report.latency);
    assert!(report.offered_latency.p95_us.unwrap().abs_diff(94_000) < 100, "{:?}", report.offered_latency);
    assert_eq!(report.offered_latency.p99_us, None);
}

#[test]
fn without_a_record_of_sent_frames_gaps_are_missing_frames() {
    let mut player = player(LatePolicy::Decode);
    for index in [4, 5, 6, 9] {
        let captured = frame_time_us(index, 30.0) + 5_000_000;
        let kind = if index == 4 { FrameKind::Key } else { FrameKind::Delta };
        assert_eq!(player.on_frame(captured + 1, captured, frame(index, kind)), Arrival::InTime);
    }
    assert_eq!(player.on_frame(0, 0, frame(5, FrameKind::Delta)), Arrival::Duplicate);
    assert_eq!(player.on_frame(0, 0, frame(1 << 60, FrameKind::Key)), Arrival::OutOfRange);
    let frames = player.finish().frames;
    assert_eq!((frames.sent, frames.missing, frames.shown, frames.undecodable), (6, 2, 3, 1));
}

#[test]
fn an_empty_session_gives_an_empty_report() {
    let player = player(LatePolicy::Decode);
    let report = player.finish();
    assert_eq!((report.frames, report.stalls), (FrameCounts::default(), Stalls::default()));
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<PlayReport>(&json).unwrap(), report);
    let error = Player::new(PlayerConfig { fps: 0.0, ..Default::default() }).unwrap_err();
    assert_eq!(error.to_string(), "player setting fps = 0: must be from 0.1 to 1000");
}

fn clip() -> Clip {
    let encoder = EncoderConfig {
        width: 320,
        height: 180,
        bitrate_bps: 1_500_000,
        key_interval: 10,
        ..Default::default()
    };
    Clip::generate(ClipConfig { encoder, seed: 3 }, 1.0).unwrap()
}

/// Plays two seconds of the clip; every frame takes `latency_us`.
fn play_clip(clip: &Clip, player: &mut Player, latency_us: impl Fn(u64) -> Option<u64>) -> QualityReport {
    for index in 0..60 {
        let frame = clip.frame(index);
        player.on_sent(index, frame.pts_us, frame.kind);
        if let Some(latency) = latency_us(index) {
            player.on_frame(frame.pts_us + latency, frame.pts_us, frame);
        }
    }
    player.quality(|index| clip.source_picture(index), EVERY).unwrap()
}

#[test]
fn decoding_agrees_with_the_report_and_freezing_costs_quality() {
    let clip = clip();
    let good = play_clip(&clip, &mut player(LatePolicy::Decode), |_| Some(20_000));
    assert_eq!((good.decoded, good.refused, good.disagreements, good.compared), (60, 0, 0, 60));
    assert!(good.psnr_y.min > 30.0 && good.psnr_y.p10 <= good.psnr_y.mean, "{good:?}");

    for policy in [LatePolicy::Decode, LatePolicy::Drop] {
        let mut player = player(policy);
        let bad = play_clip(&clip, &mut player, |index| match index {
            13 | 44 => None,
            27 => Some(150_000),
            _ => Some(20_000),
        });
        assert_eq!(bad.disagreements, 0, "{policy:?}: {bad:?}");
        assert_eq!(bad.decoded, player.finish().frames.decoded, "{policy:?}");
        assert!(bad.psnr_y.mean < good.psnr_y.mean - 1.0 && bad.psnr_y.min < 25.0, "{policy:?}: {bad:?}");
    }
}

#[test]
fn lost_disposable_frames_leave_the_others_decodable() {
    let encoder = EncoderConfig { disposable: true, ..clip().config().encoder.clone() };
    let clip = Clip::generate(ClipConfig { encoder, seed: 3 }, 1.0).unwrap();
    for policy in [LatePolicy::Decode, LatePolicy::Drop] {
        let mut player = player(policy);
        let lost = |index: u64| clip.frame(index).kind == FrameKind::Disposable && index > 30;
        let report = play_clip(&clip, &mut player, |index| (!lost(index)).then_some(20_000));
        assert_eq!((report.decoded, report.refused, report.disagreements), (45, 0, 0), "{policy:?}");
        assert_eq!(player.finish().stalls.count, 0);
    }
}

#[test]
fn before_the_first_picture_the_screen_is_black() {
    let clip = clip();
    let mut player = player(LatePolicy::Decode);
    let report = play_clip(&clip, &mut player, |_| None);
    let black = crate::quality::psnr(&clip.source_picture(0), &Picture::new(320, 180).unwrap()).unwrap();
    assert_eq!(report.decoded, 0);
    assert!((report.psnr_y.mean - black.y).abs() < 1.0, "{report:?}, black {black:?}");
}

#[test]
fn quality_covers_what_was_kept_and_samples_on_demand() {
    let clip = clip();
    let keep_bytes = clip.frames()[..10].iter().map(|frame| frame.data.len() as u64).sum();
    let mut player = Player::new(PlayerConfig { keep_bytes, ..Default::default() }).unwrap();
    let report = play_clip(&clip, &mut player, |_| Some(20_000));
    assert_eq!((report.slots, report.covered, report.compared), (60, 10, 10));
    let sampled = player.quality(|index| clip.source_picture(index), NonZeroU32::new(4).unwrap()).unwrap();
    assert_eq!((sampled.every, sampled.compared, sampled.decoded), (4, 3, 10));
    let error = player.quality(|_| Picture::new(64, 64).unwrap(), EVERY).unwrap_err();
    assert_eq!(error.to_string(), "frame 0: cannot compare a picture of 64x64 with one of 320x180");
}

proptest! {
    #[test]
    fn no_time_or_number_breaks_the_report(
        events in prop::collection::vec((any::<u64>(), any::<u64>(), 0u64..3000), 1..20),
        deadline_us in any::<u64>(),
        fps in 0.1f64..1000.0,
    ) {
        let mut player = Player::new(PlayerConfig { fps, deadline_us, ..Default::default() }).unwrap();
        for (arrived, captured, index) in events {
            player.on_frame(arrived, captured, frame(index, FrameKind::Key));
        }
        let report = player.finish();
        prop_assert!(report.frames.received >= 1 && report.fps.mean.is_finite());
    }

    #[test]
    fn the_counts_always_add_up(
        events in prop::collection::vec((0u64..40, 0u8..3, prop::option::of(0u64..300_000), any::<bool>()), 0..80),
        drop in any::<bool>(),
    ) {
        let mut player = player(if drop { LatePolicy::Drop } else { LatePolicy::Decode });
        for (index, kind, latency, announced) in events {
            let kind = [FrameKind::Key, FrameKind::Delta, FrameKind::Disposable][usize::from(kind)];
            let captured = frame_time_us(index, 30.0);
            if announced {
                player.on_sent(index, captured, kind);
            }
            if let Some(latency) = latency {
                player.on_frame(captured + latency, captured, frame(index, kind));
            }
        }
        let report = player.finish();
        let frames = report.frames;
        prop_assert_eq!(frames.sent, frames.received + frames.missing);
        prop_assert_eq!(frames.received, frames.in_time + frames.late);
        prop_assert_eq!(frames.in_time, frames.shown + frames.undecodable);
        prop_assert!(frames.shown <= frames.decoded && frames.decoded <= frames.received);
        prop_assert!(report.stalls.longest_us <= report.stalls.total_us);
        prop_assert!(u64::from(report.fps.per_second.iter().sum::<u32>()) <= frames.shown);
    }
}
