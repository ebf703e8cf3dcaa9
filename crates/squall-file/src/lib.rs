//! Reads files that users name, up to a size limit.
//!
//! The length that a system reports is no bound: devices and pipes report 0, and a file may grow.
//! These functions count the bytes that they read.

#![forbid(unsafe_code)]

use std::{
    fmt,
    fs::File,
    io::{self, ErrorKind, Read as _},
    path::Path,
};

/// Reads a file of at most `most` bytes. Pipes and devices are read to their end. Opening a FIFO
/// waits for its writer; a program that handles signals should call this from a thread that it need
/// not join.
///
/// # Errors
/// Errors of the system; [`ErrorKind::FileTooLarge`] if the file has more bytes.
pub fn read(file: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("more than {most} bytes")));
    }
    Ok(bytes)
}

/// Reads a text of at most `most` bytes as [`read`] does, and decodes it as [`text`] does.
///
/// # Errors
/// As [`read`]; [`ErrorKind::InvalidData`] with a [`NotText`] if the file is not text.
pub fn read_text(file: impl AsRef<Path>, most: u64) -> io::Result<String> {
    text(read(file, most)?).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// Reason and position at which bytes are not text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotText {
    /// Line, from 1.
    pub line: usize,
    /// Character in the line, from 1.
    pub column: usize,
    /// Problem and remedy.
    pub problem: &'static str,
}

impl fmt::Display for NotText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for NotText {}

/// First bytes of files that are often mistaken for text.
const OTHERS: [(&[u8], &str); 5] = [
    (b"\x1f\x8b", "compressed by gzip; unpack it first"),
    (b"PK\x03\x04", "a zip archive or a spreadsheet; unpack it, or export it as text"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd; unpack it first"),
    (b"\xfd7zXZ\0", "compressed by xz; unpack it first"),
    (b"BZh", "compressed by bzip2; unpack it first"),
];

/// Decodes UTF-8, or UTF-16 with a byte order mark. The mark is removed.
///
/// # Errors
/// If the bytes are neither, or contain a NUL, as UTF-16 without a mark does.
pub fn text(bytes: Vec<u8>) -> Result<String, NotText> {
    let other = OTHERS.into_iter().find(|(first, _)| bytes.starts_with(first)).map(|(_, problem)| problem);
    let mut text = match bytes.as_slice() {
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes)?,
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes)?,
        _ => String::from_utf8(bytes).map_err(|error| {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let problem = other.unwrap_or("not UTF-8 text; save it as UTF-8");
            NotText::after(&String::from_utf8_lossy(valid), problem)
        })?,
    };
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    if let Some((before, _)) = text.split_once('\0') {
        let problem = other.unwrap_or("a NUL, as UTF-16 without a mark has; save it as UTF-8");
        return Err(NotText::after(before, problem));
    }
    Ok(text)
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, NotText> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let mut text = String::with_capacity(pairs.len());
    for decoded in char::decode_utf16(pairs.iter().map(|pair| unit(*pair))) {
        match decoded {
            Ok(character) => text.push(character),
            Err(_) => return Err(NotText::after(&text, "not UTF-16 text, although it begins with its mark")),
        }
    }
    if rest.is_empty() {
        Ok(text)
    } else {
        Err(NotText::after(&text, "an end within a character of UTF-16; the file may be cut off"))
    }
}

impl NotText {
    fn after(text: &str, problem: &'static str) -> Self {
        let last = text.rsplit('\n').next().unwrap_or_default();
        Self { line: text.matches('\n').count() + 1, column: last.chars().count() + 1, problem }
    }
}

/// Compiles the example of the README.
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

    #[test]
    fn a_text_is_the_same_in_each_encoding() {
        let marked = "\u{feff}töken\n";
        let units = |bytes: fn(u16) -> [u8; 2]| marked.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
        for bytes in [
            b"t\xc3\xb6ken\n".to_vec(),
            marked.as_bytes().to_vec(),
            units(u16::to_le_bytes),
            units(u16::to_be_bytes),
        ] {
            assert_eq!(text(bytes).as_deref(), Ok("töken\n"));
        }
        for empty in [&b""[..], b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"] {
            assert_eq!(text(empty.to_vec()).as_deref(), Ok(""));
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_named_with_their_place() {
        let refused = |bytes: &[u8]| text(bytes.to_vec()).expect_err("is no text");
        let latin = refused(b"one\ntw\xf6\n");
        assert_eq!((latin.line, latin.column), (2, 3));
        assert_eq!(latin.to_string(), "line 2: not UTF-8 text; save it as UTF-8");
        for (bytes, words) in [
            (&b"o\0n\0"[..], "a NUL, as UTF-16 without a mark"),
            (b"\xff\xfe\0\0o\0\0\0", "a NUL"),
            (b"\xff\xfeo", "an end within a character"),
            (b"\xff\xfe\x00\xdcx\0", "not UTF-16 text"),
            (b"\x1f\x8b\x08\0", "compressed by gzip"),
            (b"PK\x03\x04\x14\0", "a zip archive or a spreadsheet"),
            (b"\x28\xb5\x2f\xfd", "compressed by zstd"),
        ] {
            assert!(refused(bytes).problem.starts_with(words), "{bytes:?}: {}", refused(bytes));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_device_without_an_end_is_too_large() {
        assert_eq!(read("/dev/zero", 1 << 20).expect_err("has no end").kind(), ErrorKind::FileTooLarge);
    }
}
