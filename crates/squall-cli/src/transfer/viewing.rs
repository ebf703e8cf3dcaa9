//! What a viewer of a video would have seen, told at its end.

use std::time::Instant;

use squall_lab::table::format;
use squall_media::{EncodedFrame, FrameKind, PlayReport, Player, PlayerConfig, frame::frame_time_us};

use super::{failure::Fault, message::Video};

/// Frames whose times are kept, at most: nine hours at 30 frames a second.
const MAX_FRAMES: usize = 1 << 20;

/// Frames a second that a sender may have, whatever it said; and as many at once in the beginning.
const MAX_FPS: f64 = 1000.0;

/// How far a sender's clock may be ahead of this one, as a share and at the beginning.
const DRIFT: (u64, u64) = (100, 10_000_000);

/// Keeps the times of frames shifted by this, so that none is before the first.
const ORIGIN_US: u64 = 10_000_000;

/// Collects when frames arrived.
#[derive(Debug)]
pub(super) struct Viewing {
    video: Video,
    begin: Instant,
    frames: Vec<Arrived>,
}

#[derive(Clone, Copy, Debug)]
struct Arrived {
    index: u64,
    pts_us: u64,
    kind: FrameKind,
    /// Since `begin`.
    at_us: u64,
}

impl Viewing {
    /// Before the first frame.
    pub(super) fn new(video: Video, begin: Instant) -> Self {
        Self { video, begin, frames: Vec::new() }
    }

    /// Whether there may be so many frames by now: they are sent when their time has come.
    pub(super) fn check(&self, frames: u64) -> anyhow::Result<()> {
        if frames as f64 > MAX_FPS * (self.begin.elapsed().as_secs_f64() + 1.0) {
            return Err(Fault::of_peer("the sender speaks of frames that there cannot be by now"));
        }
        Ok(())
    }

    /// A frame was whole.
    ///
    /// # Errors
    /// If it cannot be there by now.
    pub(super) fn on_frame(&mut self, at: Instant, frame: &EncodedFrame) -> anyhow::Result<()> {
        self.check(frame.index)?;
        let now_us = self.begin.elapsed().as_micros() as u64;
        if frame.pts_us > now_us + now_us / DRIFT.0 + DRIFT.1 {
            return Err(Fault::of_peer("the sender sent a frame whose time has not come"));
        }
        if self.frames.len() < MAX_FRAMES {
            let at_us = at.saturating_duration_since(self.begin).as_micros() as u64;
            let &EncodedFrame { index, pts_us, kind, .. } = frame;
            self.frames.push(Arrived { index, pts_us, kind, at_us });
        }
        Ok(())
    }

    /// The end: `sent` frames there were, of which the first million are judged. The clocks of the two machines need not agree: the quickest frame
    /// is taken to have been under way for half the smallest round-trip time.
    pub(super) fn finish(&self, sent: u64, min_rtt_us: u64) -> Option<PlayReport> {
        let config = PlayerConfig {
            fps: self.video.fps,
            deadline_us: self.video.deadline_us.unwrap_or(1_000_000),
            keep_bytes: 0,
            ..Default::default()
        };
        let mut player = Player::new(config).ok()?;
        let captured = |pts_us: u64| ORIGIN_US.saturating_add(pts_us);
        for index in 0..sent.min(MAX_FRAMES as u64) {
            player.on_sent(index, captured(frame_time_us(index, self.video.fps)), FrameKind::Delta);
        }
        // How far the receiver's time is ahead of the sender's, less the way of the quickest frame.
        let ahead = self.frames.iter().map(|f| i128::from(f.at_us) - i128::from(f.pts_us)).min()?;
        for frame in &self.frames {
            let since = i128::from(frame.at_us) - ahead + i128::from(min_rtt_us / 2 + ORIGIN_US);
            let arrived_us = u64::try_from(since).unwrap_or(u64::MAX);
            let data = bytes::Bytes::new();
            let of_frame = EncodedFrame { index: frame.index, pts_us: frame.pts_us, kind: frame.kind, data };
            player.on_frame(arrived_us, captured(frame.pts_us), of_frame);
        }
        Some(player.finish())
    }
}

/// For people.
pub(super) fn lines(play: &PlayReport) -> String {
    let frames = &play.frames;
    format!(
        "frames: {} of {} in time ({} late, {} never), {} could be shown, {:.1} a second\n\
         stalls: {}, {} altogether\n\
         latency: p50 {}, p95 {}, p99 {}, max {} (from the quickest frame and the smallest RTT)",
        frames.in_time,
        frames.sent,
        frames.late,
        frames.missing,
        frames.shown,
        play.fps.mean,
        play.stalls.count,
        format::time(play.stalls.total_us),
        format::time(play.latency.p50_us),
        format::time(play.latency.p95_us),
        format::time(play.latency.p99_us),
        format::time(play.latency.max_us)
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use squall_media::source::Codec;

    use super::*;

    fn frame(index: u64, pts_us: u64) -> EncodedFrame {
        EncodedFrame { index, pts_us, kind: FrameKind::Delta, data: bytes::Bytes::new() }
    }

    #[test]
    fn a_sender_cannot_be_ahead_of_time() {
        let video = Video { codec: Codec::H264, fps: 10.0, deadline_us: None, ivf: None };
        let begin = Instant::now().checked_sub(Duration::from_secs(100)).expect("the clock runs for longer");
        let mut viewing = Viewing::new(video, begin);
        assert!(viewing.on_frame(Instant::now(), &frame(0, 0)).is_ok());
        assert!(viewing.on_frame(Instant::now(), &frame(1, 109_000_000)).is_ok());
        assert!(viewing.on_frame(Instant::now(), &frame(2, 120_000_000)).is_err());
        assert!(viewing.on_frame(Instant::now(), &frame(2, u64::MAX)).is_err());
        assert!(viewing.on_frame(Instant::now(), &frame(u64::MAX, 0)).is_err());
        assert!(viewing.check(100_000).is_ok());
        assert!(viewing.check(1_000_000_000).is_err());
    }

    #[test]
    fn clocks_need_not_agree() {
        let video = Video { codec: Codec::H264, fps: 10.0, deadline_us: Some(100_000), ivf: None };
        let begin = Instant::now().checked_sub(Duration::from_secs(10)).expect("the clock runs for longer");
        let mut viewing = Viewing::new(video, begin);
        for index in 0..10u64 {
            let kind = if index == 0 { FrameKind::Key } else { FrameKind::Delta };
            let frame = EncodedFrame { kind, ..frame(index, index * 100_000) };
            let late = if index == 5 { 120 } else { 0 };
            // The receiver's clock is three seconds ahead.
            let at = begin + Duration::from_millis(3_000 + index * 100 + late);
            if index != 8 {
                viewing.on_frame(at, &frame).expect("is in time");
            }
        }
        let play = viewing.finish(10, 20_000).expect("frames came");
        let frames = play.frames;
        assert_eq!((frames.sent, frames.in_time, frames.late, frames.missing), (10, 8, 1, 1));
        assert_eq!(play.latency.max_us / 1000, 130);
    }
}
