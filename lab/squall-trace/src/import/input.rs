//! Input files.

use std::{io::Read as _, path::Path};

use flate2::read::MultiGzDecoder;

use crate::TraceError;

/// Maximum size of a file in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// An input file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its name, for errors.
    pub name: String,
    /// Its text.
    pub text: String,
}

impl Input {
    /// Creates an input from a text.
    pub fn new(name: impl Into<String>, text: &str) -> Self {
        Self { name: name.into(), text: text.to_owned() }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// As [`read_text`].
    pub fn load(path: &Path) -> Result<Self, TraceError> {
        Ok(Self::new(path.display().to_string(), &read_text(path)?))
    }
}

/// Returns the text of a file, which may be compressed by gzip.
///
/// # Errors
/// If it cannot be read, is larger than 256 MiB, compressed or not, or is not text; see
/// [`squall_file::text`].
pub fn read_text(path: &Path) -> Result<String, TraceError> {
    let file = path.display().to_string();
    let fault = |problem: String| TraceError::file(&file, problem);
    let mut bytes = squall_file::read(path, MAX_BYTES).map_err(|error| fault(error.to_string()))?;
    if bytes.starts_with(&GZIP) {
        bytes = unpacked(&bytes, MAX_BYTES).map_err(fault)?;
    }
    squall_file::text(bytes).map_err(|error| TraceError::line(&file, error.line as u64, error.problem))
}

/// Decompresses gzip data to at most `most` bytes: a few kilobytes can claim gigabytes.
fn unpacked(packed: &[u8], most: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = MultiGzDecoder::new(packed).take(most + 1).read_to_end(&mut bytes);
    read.map_err(|_| "compressed by gzip, and cut off or damaged".to_owned())?;
    if bytes.len() as u64 > most { Err(format!("more than {most} bytes, unpacked")) } else { Ok(bytes) }
}

/// The first bytes of a compressed file (RFC 1952 §2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compressed_file_is_unpacked_up_to_its_bound() {
        use std::io::Write as _;
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(&[b'0'; 1 << 20]).unwrap();
        let packed = packed.finish().unwrap();
        assert!(packed.len() < 4_096);
        assert_eq!(unpacked(&packed, 1 << 20).map(|bytes| bytes.len()), Ok(1 << 20));
        assert_eq!(unpacked(&packed, 1_000), Err("more than 1000 bytes, unpacked".to_owned()));
        let damaged = Err("compressed by gzip, and cut off or damaged".to_owned());
        assert_eq!(unpacked(&packed[..packed.len() / 2], 1 << 20), damaged);
    }
}
