//! A player's screen at each capture instant plus the latency.

use std::ffi::OsStr;
use std::path::Path;

use squall_media::Picture;
use squall_media::studio::{Decoded, StudioError};

/// What is on a screen: black, until the first picture is decoded; then the newest that is due.
#[derive(Debug)]
pub(super) struct Screen {
    /// None once the film is over, or if there never was anything to decode.
    decoded: Option<Decoded>,
    /// The picture that is decoded next, and its place.
    next: Option<u64>,
    ahead: Picture,
    shown: Picture,
    /// Its place.
    latest: Option<u64>,
}

impl Screen {
    /// Decodes this file; none if nothing arrived.
    pub(super) fn open(ffmpeg: &OsStr, file: Option<&Path>, size: (u32, u32)) -> Result<Self, StudioError> {
        let black = Picture::new(size.0, size.1)?;
        let decoded = file.map(|file| Decoded::open(ffmpeg, file)).transpose()?;
        let mut screen = Self { decoded, next: None, ahead: black.clone(), shown: black, latest: None };
        screen.decode()?;
        Ok(screen)
    }

    /// Goes on to the instant of this picture, whether there is one of its own; else the one before stays.
    pub(super) fn advance(&mut self, place: u64) -> Result<bool, StudioError> {
        let mut fresh = false;
        while let Some(next) = self.next.filter(|next| *next <= place) {
            // After a lost key frame some come behind one that is shown after them: too late.
            if self.latest.is_none_or(|latest| latest < next) {
                fresh = true;
                self.latest = Some(next);
                std::mem::swap(&mut self.shown, &mut self.ahead);
            }
            self.decode()?;
        }
        Ok(fresh)
    }

    /// What is to be seen now.
    pub(super) fn picture(&self) -> &Picture {
        &self.shown
    }

    fn decode(&mut self) -> Result<(), StudioError> {
        self.next = match &mut self.decoded {
            Some(decoded) => decoded.next_into(&mut self.ahead)?,
            None => None,
        };
        if self.next.is_none() {
            // What is wrong with a stream full of holes is no surprise, and shows.
            self.decoded = None;
        }
        Ok(())
    }
}
