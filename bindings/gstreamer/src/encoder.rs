//! Encoders whose bitrate the sink sets, identified by the names of their properties.

use std::{
    str::FromStr as _,
    time::{Duration, Instant},
};

use gstreamer::{self as gst, glib, prelude::*};

use crate::settings::Fault;

/// Names of factories, the property of the bitrate, and its unit in bits per second.
const KNOWN: [(&[&str], &str, u64); 6] = [
    (
        &["x264enc", "x265enc", "mpeg2enc", "vtenc_h264", "vtenc_h264_hw", "vtenc_h265", "vtenc_h265_hw"],
        "bitrate",
        1000,
    ),
    (
        &[
            "nvh264enc",
            "nvh265enc",
            "nvcudah264enc",
            "nvcudah265enc",
            "vah264enc",
            "vah265enc",
            "vavp9enc",
            "vaav1enc",
        ],
        "bitrate",
        1000,
    ),
    (
        &[
            "vaapih264enc",
            "vaapih265enc",
            "vaapivp9enc",
            "qsvh264enc",
            "qsvh265enc",
            "qsvvp9enc",
            "rav1enc",
            "mfh264enc",
            "mfh265enc",
        ],
        "bitrate",
        1000,
    ),
    (&["openh264enc", "omxh264enc", "opusenc"], "bitrate", 1),
    (&["av1enc", "svtav1enc"], "target-bitrate", 1000),
    (&["vp8enc", "vp9enc"], "target-bitrate", 1),
];

/// An encoder that follows the bitrate.
#[derive(Debug)]
pub(crate) struct Encoder {
    element: glib::WeakRef<gst::Element>,
    property: String,
    unit: u64,
    unspent: Unspent,
    /// Last bitrate set.
    set: u64,
}

/// Encoders need seconds to reach a higher bitrate, and stay below it: unspent bits are added to
/// the bitrate set.
#[derive(Debug, Default)]
struct Unspent {
    bits: f64,
    /// Time of the last count, and the bytes counted.
    counted: Option<(Instant, u64)>,
}

/// Maximum of unspent bits, in seconds of the target bitrate.
const MOST_SECONDS: f64 = 0.25;
/// Seconds over which unspent bits are paid back.
const PAID_OVER: f64 = 0.5;
/// Maximum share that is added to the target.
const MOST_SHARE: f64 = 0.15;

/// Changes below this share are not set.
const STEP: f64 = 0.02;

impl Unspent {
    /// Returns the bitrate to set for meeting `target`, when `sent` bytes have been sent so far, in
    /// frames of this length.
    fn correct(&mut self, now: Instant, target: u64, sent: u64, frame: Duration) -> u64 {
        let rate = target as f64;
        let (then, before) = self.counted.replace((now, sent)).unwrap_or((now, sent));
        let due = rate * now.saturating_duration_since(then).as_secs_f64();
        let spent = sent.saturating_sub(before) as f64 * 8.0;
        self.bits = (self.bits + due - spent).clamp(0.0, rate * MOST_SECONDS);
        // Nothing is sent between two frames.
        let more = (self.bits - rate * frame.as_secs_f64()).max(0.0) / PAID_OVER;
        (rate + more.min(rate * MOST_SHARE)) as u64
    }
}

impl Encoder {
    /// Finds the encoder: `name`, `name.property`, or `name.property/unit`.
    ///
    /// # Errors
    /// Reason if there is none.
    pub(crate) fn find(sink: &gst::Element, description: &str) -> Result<Self, Fault> {
        let fault = |line: String| Fault::new("encoder", line);
        let (path, unit) =
            description.split_once('/').map_or((description, None), |(path, unit)| (path, Some(unit)));
        let (name, property) =
            path.split_once('.').map_or((path, None), |(name, property)| (name, Some(property)));
        let unit = unit.map(|text| u64::from_str(text).ok().filter(|unit| *unit > 0).ok_or(text)).transpose();
        let unit = unit.map_err(|text| fault(format!("'{text}' is not a number of bits per second")))?;
        let element = top(sink)
            .and_then(|bin| bin.by_name(name))
            .ok_or_else(|| fault(format!("there is no element '{name}'")))?;
        let factory = element.factory().map(|factory| factory.name().to_string()).unwrap_or_default();
        let known = KNOWN.iter().find(|(names, ..)| names.contains(&factory.as_str()));
        let property = match (property, known) {
            (Some(property), _) => property,
            (None, Some((_, property, _))) => property,
            (None, None) => {
                let line =
                    format!("{factory} is unknown: set it to {name}.PROPERTY/UNIT, UNIT in bits per second");
                return Err(fault(line));
            }
        };
        let unit = unit.or(known.map(|(.., unit)| *unit)).unwrap_or(1);
        let spec = element.find_property(property);
        let spec = spec.ok_or_else(|| fault(format!("'{name}' has no property '{property}'")))?;
        if scaled(1, &spec).is_none() {
            return Err(fault(format!("the property '{property}' of '{name}' is not a number")));
        }
        let (element, property) = (element.downgrade(), property.to_owned());
        Ok(Self { element, property, unit, unspent: Unspent::default(), set: 0 })
    }

    /// Makes the encoder follow a bitrate, when `sent` bytes have been sent so far, in frames of
    /// this length.
    pub(crate) fn follow(&mut self, target: u64, sent: u64, frame: Duration, least: u64, most: u64) {
        let bitrate = self.unspent.correct(Instant::now(), target, sent, frame).min(most).max(least);
        if (bitrate as f64 - self.set as f64).abs() > self.set as f64 * STEP {
            self.set = bitrate;
            self.apply(bitrate);
        }
    }

    /// Sets the bitrate, within the bounds of the property.
    fn apply(&self, bits_per_second: u64) {
        let Some(element) = self.element.upgrade() else { return };
        let spec = element.find_property(&self.property);
        if let Some(value) = spec.and_then(|spec| scaled(bits_per_second / self.unit, &spec)) {
            element.set_property_from_value(&self.property, &value);
        }
    }
}

/// Returns the outermost bin.
fn top(element: &gst::Element) -> Option<gst::Bin> {
    let mut object = element.clone().upcast::<gst::Object>();
    while let Some(parent) = object.parent() {
        object = parent;
    }
    object.downcast().ok()
}

/// Converts a number to a value of the property.
fn scaled(number: u64, spec: &glib::ParamSpec) -> Option<glib::Value> {
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    if let Some(spec) = spec.downcast_ref::<glib::ParamSpecUInt>() {
        let number = number.clamp(spec.minimum().into(), spec.maximum().into());
        return u32::try_from(number).ok().map(|number| number.to_value());
    }
    if let Some(spec) = spec.downcast_ref::<glib::ParamSpecInt>() {
        let number = number.clamp(spec.minimum().into(), spec.maximum().into());
        return i32::try_from(number).ok().map(|number| number.to_value());
    }
    if let Some(spec) = spec.downcast_ref::<glib::ParamSpecUInt64>() {
        return Some((number as u64).clamp(spec.minimum(), spec.maximum()).to_value());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Duration = Duration::from_millis(30);

    /// Returns the last correction of an encoder that spends this share of a target of 8 Mbps for
    /// two seconds.
    fn correction(share: f64) -> u64 {
        let (begun, mut unspent, mut last) = (Instant::now(), Unspent::default(), 0);
        for frame in 0..66 {
            let sent = (f64::from(frame) * 30_000.0 * share) as u64;
            last = unspent.correct(begun + FRAME * frame, 8_000_000, sent, FRAME);
        }
        last
    }

    #[test]
    fn an_encoder_that_spends_less_gets_more_within_bounds() {
        assert_eq!(correction(1.0), 8_000_000);
        assert_eq!(correction(1.3), 8_000_000);
        assert_eq!(correction(0.9), 9_200_000);
        assert_eq!(correction(0.0), 9_200_000);
    }
}
