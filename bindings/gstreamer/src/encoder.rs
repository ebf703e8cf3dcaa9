//! Encoders whose bitrate the sink sets, by the names of their properties.

use std::str::FromStr as _;

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

/// An encoder that follows.
#[derive(Debug)]
pub(crate) struct Encoder {
    element: glib::WeakRef<gst::Element>,
    property: String,
    unit: u64,
}

impl Encoder {
    /// Finds the encoder: `name`, `name.property`, or `name.property/unit`.
    ///
    /// # Errors
    /// Why there is none.
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
        Ok(Self { element: element.downgrade(), property: property.to_owned(), unit })
    }

    /// Sets the bitrate, within the bounds of the property.
    pub(crate) fn set(&self, bits_per_second: u64) {
        let Some(element) = self.element.upgrade() else { return };
        let spec = element.find_property(&self.property);
        if let Some(value) = spec.and_then(|spec| scaled(bits_per_second / self.unit, &spec)) {
            element.set_property_from_value(&self.property, &value);
        }
    }
}

/// The outermost bin.
fn top(element: &gst::Element) -> Option<gst::Bin> {
    let mut object = element.clone().upcast::<gst::Object>();
    while let Some(parent) = object.parent() {
        object = parent;
    }
    object.downcast().ok()
}

/// A number as a value of the property.
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
