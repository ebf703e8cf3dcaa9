//! What the fuzz targets check of files: each function panics when a promise is broken. See `fuzz/README.md`.

use crate::{
    annexb::{self, AccessUnits},
    ivf::{IvfReader, IvfWriter},
};

/// Any bytes as an IVF file: the frames that are read before the first mistake are written the same again.
pub fn ivf(input: &[u8]) {
    let Ok(mut reader) = IvfReader::new(input) else { return };
    let header = reader.header();
    assert!(header.fps().is_finite());
    let mut writer = IvfWriter::new(Vec::new(), header).expect("what was read can be written");
    let mut bytes = 0;
    for frame in reader.by_ref().map_while(Result::ok) {
        bytes += 12 + frame.data.len();
        // Times are kept in microseconds, which not every tick survives.
        writer.write(&frame).expect("a frame that was read can be written");
    }
    assert!(reader.next().is_none(), "nothing follows an error");
    assert!(32 + bytes <= input.len(), "frames of {bytes} bytes are made of {}", input.len());
    let written = writer.finish().expect("a vector takes everything");
    let again = IvfReader::new(&written[..]).expect("what was written can be read");
    assert_eq!(again.map(|frame| frame.expect("is whole").data.len() + 12).sum::<usize>(), bytes);
}

/// Any bytes as an H.264 byte stream: the units that are read are what the input consists of.
pub fn annexb(input: &[u8]) {
    let _ = annexb::looks_like(input);
    let _ = annexb::frame_kind(input);
    let inside: usize = annexb::nals(input).map(|nal| nal.payload.len() + 3).sum();
    assert!(inside <= input.len());
    // Read in pieces, as from a pipe.
    let mut units = AccessUnits::new(Pieces(input));
    let mut at = 0;
    for data in units.by_ref().map_while(Result::ok) {
        assert!(!data.is_empty() && input[at..].starts_with(&data), "a unit is not what is there");
        at += data.len();
    }
    assert!(units.next().is_none(), "nothing follows an error");
}

/// Gives a few bytes at a time.
struct Pieces<'a>(&'a [u8]);

impl std::io::Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = (1 + self.0.len() % 7).min(self.0.len()).min(into.len());
        let (piece, rest) = self.0.split_at(count);
        into[..count].copy_from_slice(piece);
        self.0 = rest;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use squall_testing::replay;

    #[test]
    fn corpora() {
        replay("ivf", super::ivf);
        replay("annexb", super::annexb);
    }
}
