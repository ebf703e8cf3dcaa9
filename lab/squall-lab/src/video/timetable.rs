//! When each frame of an encode is sent, and when its picture is shown.
//!
//! A camera takes picture `i` at `i / fps`. Frames leave the encoder one per picture interval in decoding order. A B
//! frame needs a picture that is taken after it, so an encoder that makes them holds all frames back by as long as the
//! first one that has to wait: frame `k` leaves at `k / fps` plus that constant. Encoding itself takes no time. Each
//! picture is shown at its capture plus the latency, wherever its frame stands in decoding order: so what the encoder
//! holds back is taken from the time that the network has.

use std::sync::Arc;

use squall_media::FrameKind;
use squall_media::studio::{CodedFrame, Coding, FrameRate};

use crate::flow::{Class, Cue, Encoded, FrameType};
use crate::traffic::references::{Anchors, Layers};

/// The frames of an encode as a flow. Key frames come first, then what others need, then what none needs; all but the
/// last are reliable. Of layers, each comes behind the one below.
///
/// # Errors
/// When a frame would leave only after its picture is to be shown: how long the latency has to be, in microseconds.
pub fn timetable(
    frames: &[CodedFrame],
    coding: Coding,
    rate: FrameRate,
    latency_us: u64,
) -> Result<Encoded, u64> {
    let hold_us = hold_us(frames, rate);
    let mut references = References::new(coding);
    let cues: Arc<[Cue]> = (0u64..)
        .zip(frames)
        .map(|(number, frame)| Cue {
            at_us: rate.time_us(number) + hold_us,
            due_us: rate.time_us(frame.picture) + latency_us,
            size: frame.size.max(1),
            class: class(coding, frame),
            picture: frame.picture,
            needs: references
                .needs(number as i64, frame)
                .map(|need| need.and_then(|need| u64::try_from(need).ok())),
        })
        .collect();
    let short = cues.iter().map(|cue| (cue.at_us + 1).saturating_sub(cue.due_us)).max().unwrap_or(0);
    if short > 0 {
        return Err(latency_us + short);
    }
    Ok(Encoded { cues, classes: classes(coding), latency_us, interval_us: rate.time_us(1) })
}

/// How long an encoder holds frames back, in microseconds: until the first that has to wait is taken.
pub fn hold_us(frames: &[CodedFrame], rate: FrameRate) -> u64 {
    let waits = (0..)
        .zip(frames)
        .map(|(number, frame)| rate.time_us(frame.picture).saturating_sub(rate.time_us(number)));
    waits.max().unwrap_or(0)
}

fn classes(coding: Coding) -> Vec<Class> {
    let layers = coding.layers().map_or_else(
        || vec![Class::new("reference", true, 1), Class::new("disposable", false, 2)],
        |layers| {
            let layer = |layer| Class::new(&format!("L{layer}"), layer + 1 < layers, layer + 1);
            (0..layers).map(layer).collect()
        },
    );
    [vec![Class::new("key", true, 0)], layers].concat()
}

fn class(coding: Coding, frame: &CodedFrame) -> u16 {
    match (frame.kind, coding.layers()) {
        (FrameKind::Key, _) => 0,
        (_, Some(_)) => 1 + u16::from(frame.layer),
        (FrameKind::Delta, None) => 1,
        (FrameKind::Disposable, None) => 2,
    }
}

/// What frames need, by the rules of recorded films.
struct References {
    layered: bool,
    anchors: Anchors,
    layers: Layers,
}

impl References {
    fn new(coding: Coding) -> Self {
        Self { layered: coding.layers().is_some(), anchors: Anchors::default(), layers: Layers::default() }
    }

    fn needs(&mut self, number: i64, frame: &CodedFrame) -> [Option<i64>; 2] {
        if self.layered {
            self.layers.begin(frame.kind == FrameKind::Key);
            return self.layers.needs(frame.layer, number);
        }
        let kind = match frame.kind {
            FrameKind::Key => FrameType::I,
            FrameKind::Delta => FrameType::P,
            FrameKind::Disposable => FrameType::B,
        };
        self.anchors.needs(kind, number, frame.picture as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: FrameRate = FrameRate { rate: 25, scale: 1 };

    fn frame(picture: u64, kind: FrameKind, layer: u8) -> CodedFrame {
        CodedFrame { picture, kind, layer, size: 1_000 }
    }

    #[test]
    fn b_frames_hold_everything_back_by_a_picture() {
        use FrameKind::{Delta, Disposable, Key};
        let frames = [(0, Key), (2, Delta), (1, Disposable), (4, Delta), (3, Disposable), (5, Key)];
        let frames = frames.map(|(picture, kind)| frame(picture, kind, 0));
        let film = timetable(&frames, Coding::H264, RATE, 150_000).expect("there is time");
        let told: Vec<_> = film.cues.iter().map(|cue| (cue.at_us, cue.due_us, cue.class)).collect();
        assert_eq!(told[..3], [(40_000, 150_000, 0), (80_000, 230_000, 1), (120_000, 190_000, 2)]);
        assert_eq!(told[5], (240_000, 350_000, 0));
        let needs: Vec<_> = film.cues.iter().map(|cue| cue.needs).collect();
        assert_eq!(needs[1..3], [[Some(0), None], [Some(1), Some(0)]]);
        assert_eq!((needs[4], needs[5]), ([Some(3), Some(1)], [None, None]));
        let reliable: Vec<bool> = film.classes.iter().map(|class| class.reliable).collect();
        assert_eq!(reliable, [true, true, false]);

        assert_eq!(
            timetable(&frames, Coding::H264, RATE, 80_000),
            Err(80_001),
            "the B frames leave that late"
        );
    }

    #[test]
    fn layers_go_by_the_layers_below() {
        let frames: Vec<CodedFrame> = [0, 2, 1, 2, 0]
            .into_iter()
            .zip(0..)
            .map(|(layer, picture)| {
                let kind = [FrameKind::Delta, FrameKind::Delta, FrameKind::Disposable][usize::from(layer)];
                frame(picture, if picture == 0 { FrameKind::Key } else { kind }, layer)
            })
            .collect();
        let film = timetable(&frames, Coding::Svc, RATE, 100_000).expect("there is time");
        assert_eq!(film.cues.iter().map(|cue| cue.class).collect::<Vec<_>>(), [0, 3, 2, 3, 1]);
        assert_eq!(
            film.cues.iter().map(|cue| cue.at_us).collect::<Vec<_>>(),
            [0, 40_000, 80_000, 120_000, 160_000]
        );
        let needs: Vec<_> = film.cues.iter().map(|cue| cue.needs[1]).collect();
        assert_eq!(needs, [None, Some(0), Some(0), Some(2), Some(0)]);
        let sent: Vec<_> = film.classes.iter().map(|class| (class.name.as_str(), class.reliable)).collect();
        assert_eq!(sent, [("key", true), ("L0", true), ("L1", true), ("L2", false)]);
    }
}
