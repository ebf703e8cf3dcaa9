//! End-to-end tests, if ffmpeg is available.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;
use crate::frame::FrameKind;
use crate::ivf::{IvfFrame, IvfReader, IvfWriter};
use crate::picture::Picture;

/// Returns `false` if ffmpeg is missing: the test is then skipped.
fn equipped(coding: Coding) -> bool {
    match check(&Programs::default(), coding) {
        Ok(()) => true,
        Err(error) => {
            squall_testkit::skipped(&error.to_string());
            false
        }
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("squall-studio-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn small(pictures: u64, coding: Coding) -> (Footage, Encoding) {
    let programs = Programs::default();
    let mut footage = Footage::scene(1, &programs);
    footage.size = (160, 96);
    (footage, Encoding { ffmpeg: programs.ffmpeg, coding, bitrate_bps: 600_000, pictures })
}

/// Copies the wanted frames.
fn copy(from: &Path, to: &Path, wanted: impl Fn(&IvfFrame) -> bool) {
    let reader = IvfReader::new(BufReader::new(File::open(from).unwrap())).unwrap();
    let mut writer = IvfWriter::new(File::create(to).unwrap(), reader.header()).unwrap();
    for frame in reader.map(Result::unwrap).filter(wanted) {
        writer.write(&frame).unwrap();
    }
}

/// Returns the pictures of a file with their indices.
fn pictures(path: &Path, size: (u32, u32)) -> Vec<(u64, Picture)> {
    let mut decoded = Decoded::open("ffmpeg".as_ref(), path).unwrap();
    let mut picture = Picture::new(size.0, size.1).unwrap();
    let mut all = Vec::new();
    while let Some(place) = decoded.next_into(&mut picture).unwrap() {
        all.push((place, picture.clone()));
    }
    all
}

#[test]
fn frames_that_none_needs_can_be_left_out() {
    for coding in [Coding::H264, Coding::Svc] {
        if !equipped(coding) {
            return;
        }
        let folder = Folder::new(&format!("disposable-{coding}"));
        let (whole, part) = (folder.0.join("whole.ivf"), folder.0.join("part.ivf"));
        let (footage, encoding) = small(70, coding);
        let frames = encode(&footage, &encoding, File::create(&whole).unwrap(), |_| {}).unwrap();
        assert_eq!(frames.len(), 70);
        let mut places: Vec<u64> = frames.iter().map(|frame| frame.picture).collect();
        assert_eq!(places.is_sorted(), coding == Coding::Svc);
        places.sort_unstable();
        assert!(places.into_iter().eq(0..70));
        let keys: Vec<u64> =
            frames.iter().filter(|frame| frame.kind == FrameKind::Key).map(|frame| frame.picture).collect();
        assert_eq!(keys, [0, 60]);

        let unneeded: Vec<u64> = frames
            .iter()
            .filter(|frame| frame.kind == FrameKind::Disposable)
            .map(|frame| frame.picture)
            .collect();
        assert!((30..=35).contains(&unneeded.len()), "{coding}: {unneeded:?}");
        copy(&whole, &part, |frame| !unneeded.contains(&frame.time));
        let expected: Vec<_> = pictures(&whole, footage.size)
            .into_iter()
            .filter(|(place, _)| !unneeded.contains(place))
            .collect();
        assert_eq!(expected.len() + unneeded.len(), 70);
        assert!(pictures(&part, footage.size) == expected, "{coding}: the others are the same to the bit");
    }
}

#[test]
fn encoders_keep_to_their_rate() {
    for coding in Coding::ALL {
        if !equipped(coding) {
            return;
        }
        let (footage, encoding) = small(120, coding);
        let frames = encode(&footage, &encoding, std::io::sink(), |_| {}).unwrap();
        let bits: u64 = frames.iter().map(|frame| frame.size * 8).sum();
        // Four seconds, and the buffer.
        assert!((1_900_000..=2_900_000).contains(&bits), "{coding}: {bits} for 2,400,000");
    }
}

#[test]
fn the_same_film_gives_the_same_bytes() {
    for coding in Coding::ALL {
        if !equipped(coding) {
            return;
        }
        let (footage, encoding) = small(40, coding);
        let once = || {
            let mut file = Vec::new();
            encode(&footage, &encoding, &mut file, |_| {}).unwrap();
            file
        };
        let first = once();
        assert!((0..2).all(|_| once() == first), "{coding}");
    }
}

#[test]
fn what_follows_a_lost_reference_is_decoded_with_its_damage() {
    for coding in Coding::ALL {
        if !equipped(coding) {
            return;
        }
        let folder = Folder::new(&format!("damage-{coding}"));
        let (whole, part) = (folder.0.join("whole.ivf"), folder.0.join("part.ivf"));
        let (footage, encoding) = small(64, coding);
        encode(&footage, &encoding, File::create(&whole).unwrap(), |_| {}).unwrap();
        copy(&whole, &part, |frame| frame.time != 20);
        let (intact, seen) = (pictures(&whole, footage.size), pictures(&part, footage.size));
        assert_eq!((intact.len(), seen.len()), (64, 63));
        let intact_of = |place: u64| &intact[place as usize].1;
        assert!(seen.iter().all(|(place, _)| *place != 20));
        assert!(seen.iter().filter(|(place, _)| *place < 19).all(|(place, one)| one == intact_of(*place)));
        let damaged = seen.iter().filter(|(place, one)| one != intact_of(*place)).count();
        assert!(damaged > 30, "{coding}: {damaged}");
        assert!(seen.iter().filter(|(place, _)| *place >= 60).all(|(place, one)| one == intact_of(*place)));
    }
}

#[test]
fn pictures_keep_their_places_after_a_lost_key_frame() {
    for coding in Coding::ALL {
        if !equipped(coding) {
            return;
        }
        let folder = Folder::new(&format!("key-{coding}"));
        let (whole, part) = (folder.0.join("whole.ivf"), folder.0.join("part.ivf"));
        let (footage, encoding) = small(140, coding);
        encode(&footage, &encoding, File::create(&whole).unwrap(), |_| {}).unwrap();
        copy(&whole, &part, |frame| frame.time != 60);
        let intact = pictures(&whole, footage.size);
        let seen = pictures(&part, footage.size);
        let last: Vec<_> = seen.iter().filter(|(place, _)| *place >= 120).cloned().collect();
        assert!(last == intact[120..], "{coding}: all is well from the next key frame on");
        // The counter in the picture identifies the frame.
        let true_place = |(place, picture): &(u64, Picture)| {
            crate::scene::tests::read_index(picture).map(|index| (index, *place))
        };
        assert!(
            seen.iter().filter(|one| one.0 < 60).filter_map(true_place).all(|(index, place)| index == place)
        );
    }
}

#[cfg(unix)]
#[test]
fn an_ffmpeg_that_does_not_report_where_frames_are_counts_as_missing() {
    let folder = Folder::new("new-ffmpeg");
    let program = folder.0.join("ffmpeg");
    let script = "#!/bin/sh\ncase \"$*\" in\n*-encoders*) echo ' V....D libx264 H.264' ;;\n\
                  *) echo '[Parsed_showinfo_0 @ 0x1] n:   0 pts:      0 pts_time:0 duration: 1 fmt:yuv420p' >&2 ;;\nesac\n";
    // Written by another process, because a file that is open for writing cannot be executed.
    let write = "printf %s \"$1\" >\"$0\" && chmod +x \"$0\"";
    let written = Command::new("sh").args(["-c", write]).arg(&program).arg(script).status().unwrap();
    assert!(written.success());
    let ffmpeg = OsString::from(program);
    let programs = Programs { ffprobe: ffmpeg.clone(), ffmpeg };
    let error = check(&programs, Coding::H264).unwrap_err();
    assert!(error.is_missing(), "{error}");
    assert_eq!(
        error.to_string(),
        "this ffmpeg does not report where frames are in their file: version 5 does, the latest do not"
    );
}

#[test]
fn what_is_missing_is_named() {
    let programs = Programs { ffprobe: "no-such-ffprobe".into(), ..Programs::default() };
    let error = check(&programs, Coding::H264).unwrap_err();
    assert!(error.is_missing());
    assert_eq!(error.to_string(), "no-such-ffprobe was not found; install it with: apt-get install ffmpeg");
}
