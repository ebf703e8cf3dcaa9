//! The clip at several bitrates, for an encoder that follows the networks.
//!
//! They are encoded in advance, as all pictures of a demo are: an encoder beside the session would take the processor time
//! that the emulation needs.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use squall_media::{Clip, ClipConfig, EncodedFrame, EncoderConfig, FrameKind, encoder::EncodeError};

/// Behind the name of a scheduler whose encoder follows.
pub(super) const FOLLOW: &str = "+follow";

/// Bitrates of the rungs, as shares of the scenario's.
const SHARES: [f64; 5] = [1.0, 0.7, 0.5, 0.35, 0.2];
/// Share of what the session says is safe that a rung may have: frames of a rung are not all of its mean size.
const USED: f64 = 0.85;
/// A step takes effect with the next key frame, so there are that many in a second.
const KEYS: f64 = 3.0;

/// The same pictures at each of the bitrates, the highest first.
#[derive(Debug)]
pub(super) struct Ladder {
    rungs: Vec<Clip>,
}

impl Ladder {
    /// Encodes `seconds` of the clip at each bitrate, all at once; tells `progress` how many frames are done, of how many.
    pub(super) fn generate(
        clip: &ClipConfig,
        seconds: f64,
        progress: impl Fn(u64, u64) + Sync,
    ) -> Result<Self, EncodeError> {
        let done = AtomicU64::new(0);
        let encode = |share: f64| {
            let encoder = rung(&clip.encoder, share);
            Clip::generate_with(ClipConfig { encoder, ..clip.clone() }, seconds, |_, of| {
                progress(done.fetch_add(1, Ordering::Relaxed) + 1, SHARES.len() as u64 * of);
            })
        };
        let encode = &encode;
        let rungs: Result<_, _> = thread::scope(|scope| {
            let threads = SHARES.map(|share| scope.spawn(move || encode(share)));
            threads.into_iter().map(|thread| thread.join().expect("encoding does not panic")).collect()
        });
        Ok(Self { rungs: rungs? })
    }

    /// Begins with the lowest rung, as nothing is known of the networks yet.
    pub(super) fn climb(&self) -> Climb<'_> {
        Climb { ladder: self, rung: self.rungs.len() - 1 }
    }
}

/// An encoder that follows.
#[derive(Debug)]
pub(super) struct Climb<'a> {
    ladder: &'a Ladder,
    rung: usize,
}

impl Climb<'_> {
    /// Frame `index`, from the highest rung that a rate in bits per second leaves room for; from that of the frame before
    /// if it needs that one.
    pub(super) fn frame(&mut self, index: u64, safe: u64) -> EncodedFrame {
        let rungs = &self.ladder.rungs;
        let frame = rungs[self.rung].frame(index);
        if frame.kind != FrameKind::Key {
            return frame;
        }
        let fits = |clip: &Clip| clip.bitrate_bps() <= USED * safe as f64;
        self.rung = rungs.iter().position(fits).unwrap_or(rungs.len() - 1);
        rungs[self.rung].frame(index)
    }
}

fn rung(encoder: &EncoderConfig, share: f64) -> EncoderConfig {
    // An even number of frames, which disposable ones need.
    let between_keys = 2 * (encoder.fps / KEYS / 2.0).round().max(1.0) as u32;
    EncoderConfig {
        bitrate_bps: (f64::from(encoder.bitrate_bps) * share) as u32,
        key_interval: between_keys.min(encoder.key_interval),
        ..encoder.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_steps_at_key_frames_and_nowhere_else() {
        let encoder = EncoderConfig {
            width: 320,
            height: 180,
            bitrate_bps: 2_000_000,
            key_interval: 30,
            ..EncoderConfig::default()
        };
        let config = ClipConfig { encoder, seed: 1 };
        let ladder = Ladder::generate(&config, 1.0, |done, of| assert!(done <= of && of == 150)).unwrap();
        let rates: Vec<f64> = ladder.rungs.iter().map(Clip::bitrate_bps).collect();
        assert!(rates.is_sorted_by(|high, low| high > low), "{rates:?}");

        let mut climb = ladder.climb();
        let mut taken = |index, safe| {
            let frame = climb.frame(index, safe);
            assert_eq!(frame.data, ladder.rungs[climb.rung].frame(index).data);
            (frame.kind == FrameKind::Key, climb.rung)
        };
        assert_eq!(taken(0, 0), (true, 4), "nothing is known");
        assert_eq!(taken(1, 1_000_000_000), (false, 4), "it needs the frame before");
        assert_eq!(taken(10, 1_000_000_000), (true, 0));
        assert_eq!(taken(20, (rates[2] / USED) as u64 + 1), (true, 2));
        assert_eq!(taken(30, 0), (true, 4), "it goes on after the clip's end");
    }
}
