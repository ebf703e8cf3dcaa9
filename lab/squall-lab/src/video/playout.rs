//! Selects the frames that a receiver passes to its decoder.
//!
//! The player shows each picture at its capture time plus the latency. By then its frame must have
//! arrived, and so must every frame before it in decoding order that it depends on and that is not
//! yet dropped: a decoder takes frames in their order. A frame that is not complete by then is
//! dropped, even if it arrives later. Everything else is decoded, even if it depends on dropped
//! frames, as players do: the picture is then damaged until the next key frame.

use std::io::{self, Read, Write};

use squall_media::ivf::{IvfReader, IvfWriter};

use super::schedule::due_us;
use crate::traffic::CycleFrame;

/// Frames that a decoder gets, in decoding order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Playout {
    /// `true` for each frame that was in time.
    pub in_time: Vec<bool>,
    /// `true` for each frame in time whose direct and indirect dependencies were all in time.
    pub intact: Vec<bool>,
}

impl Playout {
    /// Selects from these frames by their arrival times, in microseconds from the start of the
    /// film.
    pub fn of(frames: &[CycleFrame], arrivals_us: &[Option<u64>]) -> Self {
        let mut playout = Self { in_time: Vec::new(), intact: Vec::new() };
        for (index, frame) in frames.iter().enumerate() {
            let there_by = |index: usize| {
                arrivals_us.get(index).copied().flatten().is_some_and(|at| at <= due_us(frame))
            };
            let needs = || frame.needs.iter().flatten().map(|need| *need as usize);
            let waits = needs().any(|need| playout.in_time[need] && !there_by(need));
            let in_time = there_by(index) && !waits;
            let intact = in_time && needs().all(|need| playout.intact[need]);
            playout.in_time.push(in_time);
            playout.intact.push(intact);
        }
        playout
    }

    /// Number of frames in time.
    pub fn count(&self) -> u64 {
        self.in_time.iter().filter(|in_time| **in_time).count() as u64
    }

    /// Copies the frames that the decoder gets.
    ///
    /// # Errors
    /// If reading or writing fails.
    pub fn copy(&self, encode: impl Read, to: impl Write) -> io::Result<()> {
        let reader = IvfReader::new(encode)?;
        let mut writer = IvfWriter::new(to, reader.header())?;
        for (frame, in_time) in reader.zip(&self.in_time) {
            let frame = frame?;
            if *in_time {
                writer.write(&frame)?;
            }
        }
        writer.finish().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use squall_media::ivf::{IvfCodec, IvfFrame, IvfHeader};

    use super::*;

    /// I0 P2 B1 P4 B3: captured every 40 ms, shown 150 ms later.
    fn frames() -> Vec<CycleFrame> {
        let needs = [[None; 2], [Some(0), None], [Some(1), Some(0)], [Some(1), None], [Some(3), Some(1)]];
        let frame = |(number, picture): (u64, u64)| CycleFrame {
            at_us: 40_000 * (number + 1),
            deadline_us: Some(40_000 * picture + 150_000 - 40_000 * (number + 1)),
            size: 1,
            class: 0,
            picture,
            base: true,
            needs: needs[number as usize],
        };
        (0..).zip([0, 2, 1, 4, 3]).map(frame).collect()
    }

    fn playout(arrivals_ms: [Option<u64>; 5]) -> Playout {
        Playout::of(&frames(), &arrivals_ms.map(|ms| ms.map(|ms| ms * 1_000)))
    }

    #[test]
    fn what_is_there_in_time_is_shown() {
        let all = playout([Some(60), Some(100), Some(140), Some(180), Some(220)]);
        assert_eq!((all.count(), all.intact), (5, vec![true; 5]));
    }

    #[test]
    fn what_is_late_is_left_out() {
        // B1 is due at 190 ms, P4 at 310.
        let late = playout([Some(60), Some(100), Some(191), Some(311), Some(220)]);
        assert_eq!(late.in_time, [true, true, false, false, true]);
        assert_eq!(late.intact, [true, true, false, false, false], "B3 is decoded without what it refers to");
    }

    #[test]
    fn a_frame_does_not_wait_for_its_reference() {
        // P2 is in time for itself (230 ms), but not for B1 (190 ms).
        let late = playout([Some(60), Some(200), Some(150), Some(180), Some(220)]);
        assert_eq!(late.in_time, [true, true, false, true, true]);
        assert_eq!(late.intact, late.in_time);
    }

    #[test]
    fn damage_stays_until_the_next_key_frame() {
        let lost = playout([Some(60), None, Some(140), Some(180), Some(220)]);
        assert_eq!(lost.in_time, [true, false, true, true, true]);
        assert_eq!(lost.intact, [true, false, false, false, false]);
        assert_eq!(Playout::of(&frames(), &[]).count(), 0);
    }

    #[test]
    fn the_decoder_gets_what_was_in_time() {
        let header = IvfHeader { codec: IvfCodec::H264, width: 16, height: 16, rate: 25, scale: 1 };
        let mut writer = IvfWriter::new(Vec::new(), header).unwrap();
        for time in 0..5 {
            writer.write(&IvfFrame { time, data: vec![time as u8; 3].into() }).unwrap();
        }
        let (encode, mut part) = (writer.finish().unwrap(), Vec::new());
        playout([Some(60), None, Some(140), None, Some(220)]).copy(&encode[..], &mut part).unwrap();
        let kept = IvfReader::new(&part[..]).unwrap().map(|frame| frame.unwrap().data[0]);
        assert_eq!(kept.collect::<Vec<_>>(), [0, 2, 4]);
    }
}
