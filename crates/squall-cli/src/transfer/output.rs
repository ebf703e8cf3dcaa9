//! Where a transfer is written: a file that gets its name only when it is whole, or standard output.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    thread::JoinHandle,
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail};
use squall_media::{annexb::AnnexBWriter, ivf::IvfWriter, source::Codec};
use tokio::sync::mpsc;

use super::{
    failure,
    message::{Content, Header},
    source::Piece,
};

/// Pieces that may wait to be written; what comes beyond makes the sender wait.
const WAITING: usize = 16;

/// How long what was received of a failed transfer may take to be written.
const SETTLE: Duration = Duration::from_secs(2);

/// Where the user wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Under the sender's name into this folder, where nothing is overwritten.
    Folder(PathBuf),
    /// Into this file; one that exists is replaced.
    File(PathBuf),
    /// To standard output.
    Stdout,
}

/// A file, or standard output, being written by a thread of its own.
pub(super) struct Output {
    pieces: mpsc::Sender<Piece>,
    thread: JoinHandle<anyhow::Result<()>>,
    file: Option<PathBuf>,
}

impl Target {
    /// What the command line means.
    pub(super) fn of(out: Option<&Path>) -> Self {
        match out {
            None => Self::Folder(PathBuf::from(".")),
            Some(path) if path == Path::new("-") => Self::Stdout,
            Some(path) if path.is_dir() => Self::Folder(path.to_owned()),
            Some(path) => Self::File(path.to_owned()),
        }
    }

    /// Finds out before anything comes whether it can be written.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let probe = match self {
            Self::Stdout => return Ok(()),
            Self::File(file) => part_of(file),
            Self::Folder(folder) => folder.join(format!(".squall-{}.part", std::process::id())),
        };
        let there = probe.exists();
        fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(&probe)
            .map_err(|e| cannot_write(&probe, &e))?;
        if !there {
            fs::remove_file(&probe).map_err(|e| cannot_write(&probe, &e))?;
        }
        Ok(())
    }

    fn file_for(&self, name: &str) -> anyhow::Result<Option<PathBuf>> {
        let folder = match self {
            Self::Stdout => return Ok(None),
            Self::File(file) => return Ok(Some(file.clone())),
            Self::Folder(folder) => folder,
        };
        // The name comes from elsewhere: it must not lead out of the folder, nor hide.
        if name.starts_with('.') || name.contains(['/', '\\', '\0']) {
            bail!("the sender's name for it, {name:?}, cannot be used: give a name with --out");
        }
        let file = folder.join(name);
        if file.exists() {
            bail!("{} exists already: give a name with --out", file.display());
        }
        Ok(Some(file))
    }
}

impl Output {
    /// Opens what the transfer of this header is written to.
    pub(super) fn open(target: &Target, header: &Header) -> anyhow::Result<Self> {
        let file = target.file_for(&header.name)?;
        let sink: Box<dyn Write + Send> = match &file {
            None => Box::new(io::stdout()),
            Some(file) => {
                let part = part_of(file);
                Box::new(Part(File::create(&part).map_err(|e| cannot_write(&part, &e))?))
            }
        };
        let writer = Writer::new(BufWriter::new(sink), &header.content)?;
        let (pieces, waiting) = mpsc::channel::<Piece>(WAITING);
        let shown = file.as_deref().map_or_else(|| "standard output".into(), part_of);
        let thread = std::thread::Builder::new().name("squall-write".to_owned());
        let thread =
            thread.spawn(move || write_all(writer, waiting).map_err(|error| cannot_write(&shown, &error)))?;
        Ok(Self { pieces, thread, file })
    }

    /// Hands a piece over to be written. Cancel safe, the piece is dropped then. Tells whether writing goes
    /// on; if it does not, [`Self::finish`] tells why.
    pub(super) async fn write(&self, piece: Piece) -> bool {
        self.pieces.send(piece).await.is_ok()
    }

    /// Waits until everything is on its disk, and gives the file its name.
    pub(super) async fn finish(self) -> anyhow::Result<Option<PathBuf>> {
        let file = self.file.clone();
        self.settle().await?;
        if let Some(file) = &file {
            fs::rename(part_of(file), file).map_err(|error| cannot_write(file, &error))?;
        }
        Ok(file)
    }

    /// Writes what there is and leaves it at that; tells where it is.
    pub(super) async fn abandon(self) -> Option<PathBuf> {
        let part = self.file.as_deref().map(part_of);
        // The transfer has failed already, and why is known. A pipe that nobody reads is not waited for.
        let _ = tokio::time::timeout(SETTLE, self.settle()).await;
        part
    }

    async fn settle(self) -> anyhow::Result<()> {
        drop(self.pieces);
        let joined = tokio::task::spawn_blocking(move || self.thread.join()).await;
        joined.context("the writing thread is gone")?.map_err(|_| anyhow!("the writing thread broke off"))?
    }
}

/// The unfinished file beside the one it will be.
fn part_of(file: &Path) -> PathBuf {
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    part.into()
}

fn cannot_write(file: &Path, error: &io::Error) -> anyhow::Error {
    failure::on_file("write", file, error)
}

/// A file whose flush reaches the disk.
struct Part(File);

impl Write for Part {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }
}

type Sink = BufWriter<Box<dyn Write + Send>>;

/// Puts pieces into the container they came from.
enum Writer {
    Plain(Sink),
    AnnexB(AnnexBWriter<Sink>),
    Ivf(IvfWriter<Sink>),
}

impl Writer {
    fn new(sink: Sink, content: &Content) -> anyhow::Result<Self> {
        let Content::Video(video) = content else { return Ok(Self::Plain(sink)) };
        match (video.ivf, video.codec) {
            (Some(header), _) => Ok(Self::Ivf(IvfWriter::new(sink, header)?)),
            (None, Codec::H264) => Ok(Self::AnnexB(AnnexBWriter::new(sink))),
            (None, codec) => bail!("the sender did not describe its {codec:?} video"),
        }
    }

    fn write(&mut self, piece: &Piece) -> io::Result<()> {
        match (self, piece) {
            (Self::Plain(sink), Piece::Data(data)) => sink.write_all(data),
            (Self::AnnexB(writer), Piece::Frame(frame)) => writer.write(frame),
            (Self::Ivf(writer), Piece::Frame(frame)) => writer.write(frame),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "frames and data do not mix")),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(mut sink) => sink.flush(),
            Self::AnnexB(writer) => writer.finish().map(drop),
            Self::Ivf(writer) => writer.finish().map(drop),
        }
    }
}

fn write_all(mut writer: Writer, mut waiting: mpsc::Receiver<Piece>) -> io::Result<()> {
    while let Some(piece) = waiting.blocking_recv() {
        writer.write(&piece)?;
    }
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_senders_name_stays_in_the_folder() {
        let folder = Target::Folder("/tmp".into());
        assert_eq!(folder.file_for("squall-none").unwrap(), Some("/tmp/squall-none".into()));
        for name in ["../a", "/etc/passwd", ".bashrc", "a\\b", ".."] {
            assert!(folder.file_for(name).is_err(), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_written_is_said_at_once() {
        let error = Target::of(Some(Path::new("/nowhere/a"))).check().unwrap_err();
        assert_eq!(error.to_string(), "cannot write /nowhere/a.part: no such file or directory");
        assert!(Target::of(Some(&std::env::temp_dir())).check().is_ok());
    }
}
