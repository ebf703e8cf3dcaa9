//! Screen of a player at each capture time plus the latency.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use squall_media::Picture;
use squall_media::studio::{Decoded, Footage, StudioError};

/// Picture on a screen: black until the first picture is decoded, then the latest that is due.
#[derive(Debug)]
pub(super) struct Screen {
    /// `None` at the end of the film, or if nothing arrived.
    decoded: Option<Decoded>,
    /// Index of the picture that is decoded ahead.
    next: Option<u64>,
    ahead: Picture,
    shown: Picture,
    /// Index of the picture that is shown.
    latest: Option<u64>,
    fresh: bool,
}

impl Screen {
    /// Opens a file for decoding, if anything arrived.
    fn open(ffmpeg: &OsStr, file: Option<&Path>, size: (u32, u32)) -> Result<Self, StudioError> {
        let black = Picture::new(size.0, size.1)?;
        let decoded = file.map(|file| Decoded::open(ffmpeg, file)).transpose()?;
        let mut screen =
            Self { decoded, next: None, ahead: black.clone(), shown: black, latest: None, fresh: false };
        screen.decode()?;
        Ok(screen)
    }

    /// Advances to the time of this picture.
    fn advance(&mut self, place: u64) -> Result<(), StudioError> {
        self.fresh = false;
        while let Some(next) = self.next.filter(|next| *next <= place) {
            // After a lost key frame, some pictures follow one that is displayed after them: too
            // late.
            if self.latest.is_none_or(|latest| latest < next) {
                self.fresh = true;
                self.latest = Some(next);
                std::mem::swap(&mut self.shown, &mut self.ahead);
            }
            self.decode()?;
        }
        Ok(())
    }

    /// The picture that is currently shown.
    pub(super) fn picture(&self) -> &Picture {
        &self.shown
    }

    /// `true` if the picture is new, `false` if the previous one stayed.
    pub(super) fn is_fresh(&self) -> bool {
        self.fresh
    }

    fn decode(&mut self) -> Result<(), StudioError> {
        self.next = match &mut self.decoded {
            Some(decoded) => decoded.next_into(&mut self.ahead)?,
            None => None,
        };
        if self.next.is_none() {
            // Errors about a stream with missing frames are expected and ignored.
            self.decoded = None;
        }
        Ok(())
    }
}

/// Plays the source next to a screen for each file, for a number of pictures.
pub(super) fn play(
    footage: &Footage,
    ffmpeg: &OsStr,
    files: &[Option<PathBuf>],
    pictures: u64,
    mut each: impl FnMut(u64, &Picture, &[Screen]),
) -> Result<(), StudioError> {
    let open = |file: &Option<PathBuf>| Screen::open(ffmpeg, file.as_deref(), footage.size);
    let mut screens = files.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let mut sources = footage.pictures()?;
    let mut source = Picture::new(footage.size.0, footage.size.1)?;
    for place in 0..pictures {
        if !sources.next_into(&mut source)? {
            break;
        }
        screens.iter_mut().try_for_each(|screen| screen.advance(place))?;
        each(place, &source, &screens);
    }
    Ok(())
}

/// Returns the source and the picture on each screen at one index.
pub(super) fn still(
    footage: &Footage,
    ffmpeg: &OsStr,
    files: &[Option<PathBuf>],
    place: u64,
) -> Result<Vec<Picture>, StudioError> {
    let mut still = Vec::new();
    play(footage, ffmpeg, files, place + 1, |at, source, screens| {
        if at == place {
            still.push(source.clone());
            still.extend(screens.iter().map(|screen| screen.picture().clone()));
        }
    })?;
    Ok(still)
}
