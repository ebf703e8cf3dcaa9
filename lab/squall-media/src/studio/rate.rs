//! Pictures per second, as a ratio: 29.97 is 30000/1001.

use std::fmt;
use std::str::FromStr;

use crate::frame::frame_time_us;

/// Pictures per second, from 1 to 240.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRate {
    /// Number of pictures in `scale` seconds.
    pub rate: u32,
    /// Number of seconds. Never 0.
    pub scale: u32,
}

impl FrameRate {
    /// Returns the rate as a number.
    #[must_use]
    pub fn fps(self) -> f64 {
        f64::from(self.rate) / f64::from(self.scale)
    }

    /// Returns the ratio nearest to a number: whole, or a whole number over 1.001 as in television;
    /// otherwise in thousandths.
    ///
    /// `None` outside of 1 to 240.
    #[must_use]
    pub fn near(fps: f64) -> Option<Self> {
        // Rounded first, so that a number and its thousandths have the same result.
        let fps = (fps * 1000.0).round() / 1000.0;
        let whole = fps.round();
        let near = if (fps - whole).abs() < 1e-3 {
            Self { rate: whole as u32, scale: 1 }
        } else if ((fps * 1.001).round() / 1.001 - fps).abs() < 1e-3 {
            Self { rate: (fps * 1.001).round() as u32 * 1000, scale: 1001 }
        } else {
            Self { rate: (fps * 1000.0).round() as u32, scale: 1000 }
        };
        (1.0..=240.0).contains(&near.fps()).then_some(near)
    }

    /// Returns the time of picture `index`, in microseconds from the first.
    #[must_use]
    pub fn time_us(self, index: u64) -> u64 {
        frame_time_us(index, self.fps())
    }

    /// Returns the picture with the nearest time.
    #[must_use]
    pub fn index_at(self, us: u64) -> u64 {
        (us as f64 * self.fps() / 1e6).round() as u64
    }

    /// Returns the number of whole pictures within this time.
    #[must_use]
    pub fn pictures_within(self, us: u64) -> u64 {
        // One microsecond compensates for the rounding of times.
        ((us + 1) as f64 * self.fps() / 1e6).floor() as u64
    }
}

impl fmt::Display for FrameRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scale == 1 { write!(f, "{}", self.rate) } else { write!(f, "{}/{}", self.rate, self.scale) }
    }
}

impl FromStr for FrameRate {
    type Err = String;

    /// Reads `30`, `29.97` or `30000/1001`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is no number of pictures a second from 1 to 240, such as 30, 29.97 or 30000/1001"
            )
        };
        let number =
            |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
        let fps = match text.split_once('/') {
            Some((rate, scale)) => number(rate).zip(number(scale)).map(|(rate, scale)| rate / scale),
            None => number(text),
        };
        fps.and_then(Self::near).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn usual_rates_are_exact() {
        let read = |text: &str| text.parse::<FrameRate>().map(|rate| rate.to_string());
        assert_eq!(read("30"), Ok("30".into()));
        assert_eq!(read("29.97"), Ok("30000/1001".into()));
        assert_eq!(read("24000/1001"), Ok("24000/1001".into()));
        assert_eq!(read("12.5"), Ok("12500/1000".into()));
        for wrong in ["", "0", "-5", "241", "fast", "30/0", "nan"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_rate_is_read_as_it_is_written() {
        for fps in [34.998_991_944_154_47, 34.999_5, 35.001_2, 29.971_4, 23.975, 239.998_6] {
            let rate = FrameRate::near(fps).unwrap();
            assert_eq!(rate.to_string().parse::<FrameRate>(), Ok(rate), "{fps}");
        }
    }

    #[test]
    fn whole_seconds_have_whole_pictures() {
        let ntsc = FrameRate { rate: 30_000, scale: 1001 };
        assert_eq!(ntsc.pictures_within(1_001_000), 30);
        assert_eq!(FrameRate { rate: 30, scale: 1 }.pictures_within(999_000), 29);
    }

    proptest! {
        #[test]
        fn times_lead_back_to_their_picture(fps in 1.0..240.0f64, index in 0u64..1_000_000) {
            let rate = FrameRate::near(fps).unwrap();
            prop_assert!((rate.fps() - fps).abs() < 2e-3);
            prop_assert_eq!(rate.index_at(rate.time_us(index)), index);
            prop_assert_eq!(rate.to_string().parse::<FrameRate>().unwrap(), rate);
        }
    }
}
