//! Sending times of the frames of an encode, and display times of their pictures.
//!
//! A camera captures picture `i` at `i / fps`. Frames leave the encoder one per picture interval in
//! decoding order. A B frame depends on a picture that is captured after it, so an encoder that
//! makes them delays all frames by the wait of the first reordered one: frame `k` leaves at `k /
//! fps` plus that constant. Encoding itself takes no time. Each picture is shown at its capture
//! time plus the latency, whatever the position of its frame in decoding order: so the encoder's
//! delay reduces the time left for the network.

use squall_media::FrameKind;
use squall_media::studio::{CodedFrame, Coding, FrameRate};
use squall_units::Span;

use crate::offer::Class;
use crate::traffic::references::{Anchors, Layers};
use crate::traffic::{CycleFrame, Encoded, FrameType};

/// Creates the flow of an encode's frames. Key frames come first, then references, then disposable
/// frames; all but the last are reliable. For layers, each comes after the one below.
///
/// # Errors
/// If a frame would leave after its picture is due: the required latency in microseconds.
pub fn schedule(
    frames: &[CodedFrame],
    coding: Coding,
    rate: FrameRate,
    latency: Span,
) -> Result<Encoded, u64> {
    let (hold_us, latency_us) = (hold_us(frames, rate), latency.micros());
    let times = |(number, frame): (u64, &CodedFrame)| {
        (rate.time_us(number) + hold_us, rate.time_us(frame.picture) + latency_us)
    };
    let short = (0..).zip(frames).map(times).map(|(at_us, due_us)| (at_us + 1).saturating_sub(due_us)).max();
    if let Some(short @ 1..) = short {
        return Err(latency_us + short);
    }
    let mut references = References::new(coding);
    let frame = |(number, frame): (u64, &CodedFrame)| {
        let (at_us, due_us) = times((number, frame));
        CycleFrame {
            at_us,
            deadline_us: Some(due_us - at_us),
            size: frame.size.max(1),
            class: class(coding, frame),
            picture: frame.picture,
            base: true,
            needs: references.needs(number as i64, frame).map(|need| need.filter(|need| *need >= 0)),
        }
    };
    let frames = (0..).zip(frames).map(frame).collect();
    Ok(Encoded { frames, classes: classes(coding), latency, picture_us: rate.time_us(1) })
}

/// Returns the display time of a frame's picture, in microseconds from the start of the film.
pub(super) fn due_us(frame: &CycleFrame) -> u64 {
    frame.at_us + frame.deadline_us.unwrap_or(0)
}

/// Returns the delay of the encoder in microseconds: until the picture of the first reordered frame
/// is captured.
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

/// Dependencies of frames, by the rules for recorded films.
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
        let film = schedule(&frames, Coding::H264, RATE, Span::from_millis(150)).expect("there is time");
        let sent: Vec<_> =
            film.frames.iter().map(|frame| (frame.at_us, due_us(frame), frame.class)).collect();
        assert_eq!(sent[..3], [(40_000, 150_000, 0), (80_000, 230_000, 1), (120_000, 190_000, 2)]);
        assert_eq!(sent[5], (240_000, 350_000, 0));
        let needs: Vec<_> = film.frames.iter().map(|frame| frame.needs).collect();
        assert_eq!(needs[1..3], [[Some(0), None], [Some(1), Some(0)]]);
        assert_eq!((needs[4], needs[5]), ([Some(3), Some(1)], [None, None]));
        let reliable: Vec<bool> = film.classes.iter().map(|class| class.reliable).collect();
        assert_eq!(reliable, [true, true, false]);

        assert_eq!(
            schedule(&frames, Coding::H264, RATE, Span::from_millis(80)),
            Err(80_001),
            "the B frames leave that late"
        );
    }

    #[test]
    fn layers_need_the_layers_below() {
        let frames: Vec<CodedFrame> = [0, 2, 1, 2, 0]
            .into_iter()
            .zip(0..)
            .map(|(layer, picture)| {
                let kind = [FrameKind::Delta, FrameKind::Delta, FrameKind::Disposable][usize::from(layer)];
                frame(picture, if picture == 0 { FrameKind::Key } else { kind }, layer)
            })
            .collect();
        let film = schedule(&frames, Coding::Svc, RATE, Span::from_millis(100)).expect("there is time");
        assert_eq!(film.frames.iter().map(|frame| frame.class).collect::<Vec<_>>(), [0, 3, 2, 3, 1]);
        assert_eq!(
            film.frames.iter().map(|frame| frame.at_us).collect::<Vec<_>>(),
            [0, 40_000, 80_000, 120_000, 160_000]
        );
        let needs: Vec<_> = film.frames.iter().map(|frame| frame.needs[1]).collect();
        assert_eq!(needs, [None, Some(0), Some(0), Some(2), Some(0)]);
        let sent: Vec<_> = film.classes.iter().map(|class| (class.name.as_str(), class.reliable)).collect();
        assert_eq!(sent, [("key", true), ("L0", true), ("L1", true), ("L2", false)]);
    }
}
