//! All screens side by side: the encode's own and one for each scheduler, picture by picture against the source.

use std::path::{Path, PathBuf};

use squall_media::Picture;
use squall_media::studio::{Footage, Judge, StudioError};

use super::figures::Seen;
use super::screen::Screen;

/// What is compared with what.
#[derive(Debug)]
pub(super) struct Viewing<'a> {
    pub(super) footage: &'a Footage,
    pub(super) ffmpeg: &'a std::ffi::OsStr,
    /// What each screen decodes; none if nothing arrived.
    pub(super) files: Vec<Option<PathBuf>>,
    pub(super) pictures: u64,
}

impl Viewing<'_> {
    /// Watches it all; ffmpeg keeps its notes in `folder`.
    pub(super) fn watch(&self, folder: &Path, progress: &dyn Fn(u64)) -> Result<Vec<Seen>, StudioError> {
        let mut judge = Judge::start(self.footage, self.ffmpeg, folder, self.files.len())?;
        let mut fresh: Vec<Vec<bool>> = vec![Vec::new(); self.files.len()];
        self.play(self.pictures, |place, source, screens| {
            for (fresh, screen) in fresh.iter_mut().zip(&mut *screens) {
                fresh.push(screen.advance(place)?);
            }
            let shown: Vec<&Picture> = screens.iter().map(Screen::picture).collect();
            judge.compare(source, &shown)?;
            progress(place + 1);
            Ok(())
        })?;
        let likenesses = judge.finish()?;
        Ok(likenesses.into_iter().zip(fresh).map(|(likenesses, fresh)| Seen { likenesses, fresh }).collect())
    }

    /// The source and what is on each screen at one place.
    pub(super) fn still(&self, place: u64) -> Result<Vec<Picture>, StudioError> {
        let mut still = Vec::new();
        self.play(place + 1, |at, source, screens| {
            for screen in &mut *screens {
                screen.advance(at)?;
            }
            if at == place {
                still.push(source.clone());
                still.extend(screens.iter().map(|screen| screen.picture().clone()));
            }
            Ok(())
        })?;
        Ok(still)
    }

    fn play(
        &self,
        pictures: u64,
        mut each: impl FnMut(u64, &Picture, &mut [Screen]) -> Result<(), StudioError>,
    ) -> Result<(), StudioError> {
        let size = self.footage.size;
        let open = |file: &Option<PathBuf>| Screen::open(self.ffmpeg, file.as_deref(), size);
        let mut screens = self.files.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let mut footage = self.footage.pictures()?;
        let mut source = Picture::new(size.0, size.1)?;
        for place in 0..pictures {
            if !footage.next_into(&mut source)? {
                break;
            }
            each(place, &source, &mut screens)?;
        }
        Ok(())
    }
}
