//! Checks of the fuzz targets for files: each function panics on a violation. See `fuzz/README.md`.

use crate::{
    annexb,
    ivf::{IvfCodec, IvfReader, IvfWriter},
};

/// Reads any bytes as an IVF file: the frames before the first error are written back identically.
pub fn ivf(input: &[u8]) {
    for codec in [IvfCodec::Vp9, IvfCodec::H264] {
        let _ = codec.frame_kind(input);
    }
    let Ok(reader) = IvfReader::new(input) else { return };
    let mut writer = IvfWriter::new(Vec::new(), reader.header()).expect("a vector takes everything");
    for frame in reader.map_while(Result::ok) {
        writer.write(&frame).expect("a vector takes everything");
    }
    let written = writer.finish().expect("a vector takes everything");
    // The number of frames and the last four bytes of the header are not kept.
    assert!(written[..24] == input[..24] && input[32..].starts_with(&written[32..]));
}

/// Reads any bytes as an H.264 byte stream: the units are parts of the input.
pub fn annexb(input: &[u8]) {
    let _ = annexb::frame_kind(input);
    let inside: usize = annexb::nals(input).map(|unit| unit.len() + 3).sum();
    assert!(inside <= input.len());
}

#[cfg(test)]
mod tests {
    use squall_testkit::replay;

    #[test]
    fn corpora() {
        replay("ivf", super::ivf);
        replay("annexb", super::annexb);
    }
}
