//! Reads files that users name, up to a size.
//!
//! The length that a system reports is no bound: devices and pipes report 0, and a file may grow. These functions
//! count what they read.

#![forbid(unsafe_code)]

use std::{
    fs::File,
    io::{self, ErrorKind, Read as _},
    path::Path,
};

/// Reads a file of at most this many bytes. Pipes and devices are read to their end. Opening a FIFO waits for its
/// writer: a program that takes signals itself calls this from a thread that nothing waits for.
///
/// # Errors
/// What the system reports; [`ErrorKind::FileTooLarge`] if the file has more bytes.
pub fn read(file: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("more than {most} bytes")));
    }
    Ok(bytes)
}

/// Reads a text in UTF-8 of at most this many bytes, as [`read`] does.
///
/// # Errors
/// As [`read`]; [`ErrorKind::InvalidData`] if the file is no UTF-8 text.
pub fn read_text(file: impl AsRef<Path>, most: u64) -> io::Result<String> {
    let bytes = read(file, most)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "not UTF-8 text"))
}

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_bound() {
        let folder = tempfile::tempdir().expect("is made");
        let file = folder.path().join("a");
        std::fs::write(&file, "four").expect("is written");
        assert_eq!(read_text(&file, 4).expect("fits"), "four");
        let error = read(&file, 3).expect_err("is longer");
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::FileTooLarge, "more than 3 bytes")
        );
        std::fs::write(&file, [0xff]).expect("is written");
        assert_eq!(read_text(&file, 4).expect_err("is no text").kind(), ErrorKind::InvalidData);
    }

    #[cfg(unix)]
    #[test]
    fn a_device_without_an_end_is_too_large() {
        assert_eq!(read("/dev/zero", 1 << 20).expect_err("has no end").kind(), ErrorKind::FileTooLarge);
    }
}
