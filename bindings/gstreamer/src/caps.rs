//! Encoding of caps: a media type and fields of a few types, each with a bound. GStreamer's own
//! parser accepts texts with types of all kinds, nested to any depth; it is never applied to data
//! of a peer.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use gstreamer::{self as gst, glib, prelude::*};

/// Maximum size of caps in bytes; `sprop-parameter-sets` and `codec_data` take some hundred.
pub(crate) const MAX_BYTES: usize = 16 * 1024;

const MAX_FIELDS: usize = 64;
const MAX_ELEMENTS: usize = 256;
const MAX_NAME: usize = 64;

/// The supported media types.
const TYPES: [&str; 7] = [
    "video/x-h264",
    "video/x-h265",
    "video/x-vp9",
    "video/x-av1",
    "audio/x-opus",
    "application/x-rtp",
    "video/mpegts",
];

const INT: u8 = 0;
const UINT: u8 = 1;
const BOOLEAN: u8 = 2;
const FRACTION: u8 = 3;
const STRING: u8 = 4;
const BUFFER: u8 = 5;
const ARRAY: u8 = 6;

/// Returns the caps of both elements' pads.
pub(crate) fn template() -> gst::Caps {
    TYPES.iter().map(|name| gst::Structure::new_empty(*name)).collect()
}

/// Encodes fixed caps, without features and without fields of other types.
///
/// # Errors
/// If they are too large.
pub(crate) fn encode(caps: &gst::CapsRef) -> Result<Bytes, &'static str> {
    let structure = caps.structure(0).ok_or("the caps are empty")?;
    let mut text = BytesMut::new();
    put_text(&mut text, structure.name());
    let mut count = 0;
    let mut fields = BytesMut::new();
    for (name, value) in structure {
        let mut field = BytesMut::new();
        if name.len() <= MAX_NAME && put_value(&mut field, value, true).is_some() {
            put_text(&mut fields, name);
            fields.put_slice(&field);
            count += 1;
        }
    }
    if count > MAX_FIELDS || text.len() + 1 + fields.len() > MAX_BYTES {
        return Err("the caps are too large");
    }
    text.put_u8(count as u8);
    text.put_slice(&fields);
    Ok(text.freeze())
}

/// Appends a name or a type, which has less than 256 bytes.
fn put_text(to: &mut BytesMut, text: &str) {
    to.put_u8(text.len() as u8);
    to.put_slice(text.as_bytes());
}

/// Appends a value; returns `None` if its type is not supported.
fn put_value(to: &mut BytesMut, value: &glib::Value, may_nest: bool) -> Option<()> {
    if let Ok(number) = value.get::<i32>() {
        to.put_u8(INT);
        to.put_i32(number);
    } else if let Ok(number) = value.get::<u32>() {
        to.put_u8(UINT);
        to.put_u32(number);
    } else if let Ok(is_set) = value.get::<bool>() {
        to.put_u8(BOOLEAN);
        to.put_u8(u8::from(is_set));
    } else if let Ok(fraction) = value.get::<gst::Fraction>() {
        to.put_u8(FRACTION);
        to.put_i32(fraction.numer());
        to.put_i32(fraction.denom());
    } else if let Ok(text) = value.get::<&str>() {
        to.put_u8(STRING);
        put_bytes(to, text.as_bytes())?;
    } else if let Ok(buffer) = value.get::<gst::Buffer>() {
        to.put_u8(BUFFER);
        put_bytes(to, &buffer.map_readable().ok()?)?;
    } else if let Ok(array) = value.get::<gst::Array>() {
        let elements = array.as_slice();
        if !may_nest || elements.len() > MAX_ELEMENTS {
            return None;
        }
        to.put_u8(ARRAY);
        to.put_u16(elements.len() as u16);
        for element in elements {
            put_value(to, element, false)?;
        }
    } else {
        return None;
    }
    Some(())
}

fn put_bytes(to: &mut BytesMut, bytes: &[u8]) -> Option<()> {
    to.put_u16(u16::try_from(bytes.len()).ok()?);
    to.put_slice(bytes);
    Some(())
}

/// Decodes caps of the peer.
///
/// # Errors
/// A description, if they are malformed or not supported by the pad.
pub(crate) fn decode(mut wire: Bytes) -> Result<gst::Caps, &'static str> {
    let malformed = "caps are malformed";
    if wire.len() > MAX_BYTES {
        return Err("caps are too long");
    }
    let name = take_text(&mut wire).ok_or(malformed)?;
    let name = TYPES.iter().find(|known| **known == name).ok_or("caps are of an unknown media type")?;
    let count = usize::from(wire.try_get_u8().map_err(|_| malformed)?);
    if count > MAX_FIELDS {
        return Err("caps have too many fields");
    }
    let mut structure = gst::Structure::new_empty(*name);
    for _ in 0..count {
        let field = take_text(&mut wire).filter(|name| is_field(name)).ok_or(malformed)?;
        structure.set_value(field, take_value(&mut wire, true).ok_or(malformed)?);
    }
    let caps = gst::Caps::from_iter([structure]);
    if !wire.is_empty() || !caps.is_fixed() || !caps.can_intersect(&template()) {
        return Err(malformed);
    }
    Ok(caps)
}

fn is_field(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}

fn take(from: &mut Bytes, len: usize) -> Option<Bytes> {
    (len <= from.len()).then(|| from.split_to(len))
}

fn take_text(from: &mut Bytes) -> Option<String> {
    let len = usize::from(from.try_get_u8().ok()?);
    let bytes = take(from, len).filter(|bytes| bytes.len() <= MAX_NAME)?;
    String::from_utf8(bytes.to_vec()).ok()
}

fn take_value(from: &mut Bytes, may_nest: bool) -> Option<glib::SendValue> {
    Some(match from.try_get_u8().ok()? {
        INT => from.try_get_i32().ok()?.to_send_value(),
        UINT => from.try_get_u32().ok()?.to_send_value(),
        BOOLEAN => (from.try_get_u8().ok()? != 0).to_send_value(),
        FRACTION => {
            let (over, under) = (from.try_get_i32().ok()?, from.try_get_i32().ok()?);
            (over >= 0 && under > 0).then(|| gst::Fraction::new(over, under))?.to_send_value()
        }
        STRING => {
            let len = usize::from(from.try_get_u16().ok()?);
            let text = String::from_utf8(take(from, len)?.to_vec()).ok()?;
            // GLib's texts end with the first zero.
            (!text.contains('\0')).then_some(text)?.to_send_value()
        }
        BUFFER => {
            let len = usize::from(from.try_get_u16().ok()?);
            gst::Buffer::from_slice(take(from, len)?).to_send_value()
        }
        ARRAY if may_nest => {
            let count = usize::from(from.try_get_u16().ok()?);
            if count > MAX_ELEMENTS {
                return None;
            }
            // Elements of different types violate an assertion of GStreamer.
            let first = from.first().copied();
            let element = |_| (from.first().copied() == first).then(|| take_value(from, false))?;
            let elements: Option<Vec<_>> = (0..count).map(element).collect();
            gst::Array::from_values(elements?).to_send_value()
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> gst::Caps {
        gst::init().expect("starts");
        gst::Caps::builder("video/x-h264")
            .field("width", 640)
            .field("bit-depth-luma", 8_u32)
            .field("parsed", true)
            .field("framerate", gst::Fraction::new(30_000, 1001))
            .field("stream-format", "avc")
            .field("codec_data", gst::Buffer::from_slice([1, 0x64, 0, 30]))
            .field(
                "streamheader",
                gst::Array::new([gst::Buffer::from_slice([7]), gst::Buffer::from_slice([8])]),
            )
            .build()
    }

    #[test]
    fn caps_survive_the_wire() {
        let wire = encode(&full()).expect("fits");
        let back = decode(wire).expect("is well-formed");
        assert_eq!(back.structure(0).map(gst::StructureRef::n_fields), Some(7));
        assert!(back.is_strictly_equal(&full()), "{back}");
    }

    #[test]
    fn fields_of_other_types_stay_behind() {
        gst::init().expect("starts");
        let caps = gst::Caps::builder("video/x-h264").field("rate", 1.5_f64).field("width", 64).build();
        let back = decode(encode(&caps).expect("fits")).expect("is well-formed");
        assert_eq!(back.to_string(), "video/x-h264, width=(int)64");
    }

    #[test]
    fn large_caps_are_refused() {
        gst::init().expect("starts");
        let long = "x".repeat(MAX_BYTES);
        assert!(encode(&gst::Caps::builder("application/x-rtp").field("sprop", long).build()).is_err());
        assert!(decode(vec![0; MAX_BYTES + 1].into()).is_err());
    }

    #[test]
    fn every_prefix_and_every_changed_byte_is_handled() {
        let whole = encode(&full()).expect("fits");
        for len in 0..whole.len() {
            assert!(decode(whole.slice(..len)).is_err(), "{len}");
        }
        for at in 0..whole.len() {
            for value in 0..=255 {
                let mut changed = whole.to_vec();
                changed[at] = value;
                if let Ok(caps) = decode(changed.into()) {
                    let _ = caps.to_string();
                }
            }
        }
    }

    #[test]
    fn elements_of_an_array_have_one_type() {
        gst::init().expect("starts");
        let array =
            |other| [&[12][..], b"video/x-h264", &[1, 1, b'a', ARRAY, 0, 2, BOOLEAN, 1, other, 1]].concat();
        assert!(decode(array(BOOLEAN).into()).is_ok());
        assert!(decode([&array(INT)[..], &[0, 0, 0]].concat().into()).is_err());
    }

    #[test]
    fn only_media_types_of_the_pads_are_taken() {
        gst::init().expect("starts");
        let raw = encode(&gst::Caps::builder("video/x-raw").build()).expect("fits");
        assert_eq!(decode(raw), Err("caps are of an unknown media type"));
    }
}
