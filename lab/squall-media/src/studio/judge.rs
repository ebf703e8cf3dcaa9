//! PSNR and SSIM by ffmpeg's own filters.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::ChildStdin;

use super::child::Running;
use super::{Footage, StudioError};
use crate::picture::Picture;
use crate::quality::PSNR_CAP_DB;

const COMPARING: &str = "comparing pictures";

/// One column of pictures against their source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Likenesses {
    /// Of each picture, PSNR of luma in dB, at most [`PSNR_CAP_DB`].
    pub psnr: Vec<f64>,
    /// Of each picture, SSIM of luma.
    pub ssim: Vec<f64>,
}

/// Compares several columns of pictures with one source, in one pass of ffmpeg.
///
/// It is fed a tower of pictures for each instant, the source at the top, and takes it apart itself: so everything
/// passes through one pipe.
#[derive(Debug)]
pub struct Judge {
    running: Running,
    input: ChildStdin,
    folder: PathBuf,
    columns: usize,
}

impl Judge {
    /// Starts ffmpeg, which keeps its notes in `folder`.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(
        footage: &Footage,
        ffmpeg: &std::ffi::OsStr,
        folder: &Path,
        columns: usize,
    ) -> Result<Self, StudioError> {
        let (width, height) = footage.size;
        let size = format!("{width}x{}", height as usize * (columns + 1));
        let (rate, graph) = (footage.rate.to_string(), graph(height, columns));
        let mut args = vec!["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s:v", &size, "-framerate", &rate];
        args.extend(["-i", "pipe:0", "-filter_complex", &graph]);
        let ends: Vec<String> = (0..columns).map(|column| format!("[end{column}]")).collect();
        args.extend(ends.iter().flat_map(|end| ["-map", end.as_str()]));
        args.extend(["-f", "null", "-"]);
        let args: Vec<_> = args.into_iter().map(Into::into).collect();
        let mut running = Running::start_in(folder, ffmpeg, &args, COMPARING, true)?;
        running.listen();
        let input = running.input();
        Ok(Self { running, input, folder: folder.to_owned(), columns })
    }

    /// Compares the pictures of one instant, one for each column, with their source.
    ///
    /// # Errors
    /// When ffmpeg takes no more.
    pub fn compare(&mut self, source: &Picture, columns: &[&Picture]) -> Result<(), StudioError> {
        let plane = |of: fn(&Picture) -> &[u8]| {
            std::iter::once(of(source)).chain(columns.iter().map(move |one| of(one)))
        };
        let planes = plane(|one| &one.y).chain(plane(|one| &one.u)).chain(plane(|one| &one.v));
        planes
            .into_iter()
            .try_for_each(|plane| self.input.write_all(plane))
            .map_err(StudioError::io(COMPARING))
    }

    /// What ffmpeg found, column by column.
    ///
    /// # Errors
    /// When it failed.
    pub fn finish(self) -> Result<Vec<Likenesses>, StudioError> {
        let Self { running, input, folder, columns } = self;
        drop(input);
        running.finish()?;
        (0..columns)
            .map(|column| {
                let psnr = notes(&folder.join(psnr_notes(column)), "psnr_y:")?;
                let psnr = psnr.into_iter().map(|psnr| psnr.min(PSNR_CAP_DB)).collect();
                Ok(Likenesses { psnr, ssim: notes(&folder.join(ssim_notes(column)), "Y:")? })
            })
            .collect()
    }
}

fn psnr_notes(column: usize) -> String {
    format!("psnr{column}.txt")
}

fn ssim_notes(column: usize) -> String {
    format!("ssim{column}.txt")
}

/// Takes towers of pictures of this height apart: the source at the top against each of those below.
fn graph(height: u32, columns: usize) -> String {
    let mut graph = format!("[0:v]split={}[top]", columns + 1);
    for column in 0..columns {
        // A string takes everything.
        let _ = write!(graph, "[in{column}]");
    }
    let _ = write!(graph, ";[top]crop=iw:{height}:0:0,split={}", 2 * columns);
    for column in 0..columns {
        let _ = write!(graph, "[a{column}][b{column}]");
    }
    for column in 0..columns {
        let below = height as usize * (column + 1);
        let _ = write!(graph, ";[in{column}]crop=iw:{height}:0:{below}[one{column}]");
        let _ = write!(graph, ";[one{column}][a{column}]psnr=stats_file={}[two{column}]", psnr_notes(column));
        let _ = write!(graph, ";[two{column}][b{column}]ssim=stats_file={}[end{column}]", ssim_notes(column));
    }
    graph
}

/// The number behind `word` in each line; ffmpeg writes `inf` for equal pictures.
fn notes(path: &Path, word: &str) -> Result<Vec<f64>, StudioError> {
    let wrong = || StudioError::failed(COMPARING, format!("its notes have a line without {word}"));
    let file = File::open(path).map_err(StudioError::io(COMPARING))?;
    let lines = BufReader::new(file).lines();
    lines
        .map(|line| number_after(&line.map_err(StudioError::io(COMPARING))?, word).ok_or_else(wrong))
        .collect()
}

fn number_after(line: &str, word: &str) -> Option<f64> {
    line.split_whitespace().find_map(|field| field.strip_prefix(word))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_by_their_words() {
        let psnr = "n:1 mse_avg:0.77 mse_y:0.85 psnr_avg:49.27 psnr_y:48.82 psnr_u:50.57 psnr_v:50.05 ";
        assert_eq!(number_after(psnr, "psnr_y:"), Some(48.82));
        assert_eq!(number_after("n:1 psnr_y:inf", "psnr_y:"), Some(f64::INFINITY));
        let ssim = "n:3 Y:0.985432 U:0.99 V:0.99 All:0.987 (18.9)";
        assert_eq!(number_after(ssim, "Y:"), Some(0.985_432));
        assert_eq!(number_after(ssim, "psnr_y:"), None);
    }

    #[test]
    fn towers_are_taken_apart_from_the_top() {
        let graph = graph(90, 2);
        assert!(
            graph.starts_with("[0:v]split=3[top][in0][in1];[top]crop=iw:90:0:0,split=4[a0][b0][a1][b1];"),
            "{graph}"
        );
        assert!(graph.contains("[in1]crop=iw:90:0:180[one1]"), "{graph}");
    }
}
