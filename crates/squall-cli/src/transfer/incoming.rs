//! One transfer as its receiver sees it.

use std::{
    fmt,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use serde::Serialize;
use squall::{Block, CloseReason, Event, Received, Session};
use squall_lab::table::format;
use squall_media::PlayReport;

use super::{
    message::{Content, End, Header, Message, Receipt, VERSION},
    output::{Output, Target},
    paths::{PathBook, PathSummary},
    source::Piece,
    viewing::{self, Viewing},
};
use crate::{
    interrupt::{Interrupted, interrupted},
    progress::Progress,
};

/// How long a sender may take to say what it sends.
const FIRST: Duration = Duration::from_secs(10);

/// How long a sender may take to leave once it has its receipt.
const FAREWELL: Duration = Duration::from_secs(2);

/// How often the counters of the paths are read.
const LOOK: Duration = Duration::from_millis(250);

/// Codes by which the sender learns that a transfer failed here.
const FAILED: u32 = 3;

/// What came.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    name: String,
    kind: &'static str,
    /// Where it was written; nothing for standard output.
    file: Option<PathBuf>,
    bytes: u64,
    blocks: u64,
    seconds: f64,
    goodput_bps: u64,
    /// Bytes that came although they were here already.
    duplicate_bytes: u64,
    paths: Vec<PathSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    play: Option<PlayReport>,
}

/// Receives one transfer. The session is over afterwards, and the sender knows how it went.
pub(super) async fn receive(session: &Session, target: &Target) -> anyhow::Result<Summary> {
    let mut transfer = None;
    let received = tokio::select! {
        received = take(session, target, &mut transfer) => received,
        _ = interrupted() => Err(Interrupted.into()),
    };
    let failure = match (received, transfer) {
        (Ok(end), Some(transfer)) => match transfer.finish(session, end).await {
            Ok(summary) => return Ok(summary),
            Err(error) => error,
        },
        (Ok(_), None) => anyhow::anyhow!("the sender sent nothing"),
        (Err(error), None) => error,
        (Err(error), Some(transfer)) => transfer.abandon(error).await,
    };
    // The sender sees the first words; the rest is of this machine.
    session.close(FAILED, &failure.root_cause().to_string());
    let _ = session.finish(Duration::ZERO).await;
    Err(failure)
}

/// Takes everything until the sender says that it is all.
async fn take(session: &Session, target: &Target, open: &mut Option<Transfer>) -> anyhow::Result<End> {
    let first = tokio::time::timeout(FIRST, next(session)).await;
    let (header, _) = first.context("the sender did not say what it sends")??;
    let Message::Header(header) = header else { bail!("the sender did not say what it sends") };
    ensure!(
        header.version == VERSION,
        "the sender speaks version {} of the transfer format, this is version {VERSION}",
        header.version
    );
    let transfer = open.insert(Transfer::new(Output::open(target, &header)?, header));
    loop {
        let (message, block) = tokio::select! {
            message = next(session) => message?,
            () = tokio::time::sleep_until(transfer.look_at.into()) => {
                transfer.look(session);
                continue;
            }
        };
        match message {
            Message::Data(data) => transfer.write(Piece::Data(data)).await?,
            Message::Frame(frame) => {
                if let Some(viewing) = &mut transfer.viewing {
                    viewing.on_frame(block.whole_at, &frame);
                }
                transfer.write(Piece::Frame(frame)).await?;
            }
            Message::End(end) => return Ok(end),
            Message::Header(_) | Message::Receipt(_) => bail!("the sender is out of step"),
        }
    }
}

/// The next message; an error when the session is over.
async fn next(session: &Session) -> anyhow::Result<(Message, Received)> {
    loop {
        match session.recv().await {
            Some(Event::Received(block)) => {
                let message = Message::decode(&block.data).context("the sender sent something unknown")?;
                return Ok((message, block));
            }
            Some(Event::Closed(CloseReason::ByPeer { reason, .. })) if !reason.is_empty() => {
                bail!("the transfer broke off: {reason}")
            }
            Some(Event::Closed(reason)) => bail!("the transfer broke off: {reason}"),
            None => bail!("the transfer broke off"),
            // Frames that come too late are counted at the end.
            Some(_) => {}
        }
    }
}

/// A transfer in progress.
struct Transfer {
    header: Header,
    output: Output,
    viewing: Option<Viewing>,
    written: Receipt,
    begin: Instant,
    paths: PathBook,
    progress: Progress,
    look_at: Instant,
}

impl Transfer {
    fn new(output: Output, header: Header) -> Self {
        let begin = Instant::now();
        let viewing = match &header.content {
            Content::Video(video) => Some(Viewing::new(video.clone(), begin)),
            Content::File { .. } => None,
        };
        Self {
            header,
            output,
            viewing,
            written: Receipt { blocks: 0, bytes: 0 },
            begin,
            paths: PathBook::default(),
            progress: Progress::new(),
            look_at: begin,
        }
    }

    fn look(&mut self, session: &Session) {
        self.look_at = Instant::now() + LOOK;
        self.paths.update(session);
        let bytes = self.written.bytes as f64;
        let rate = bytes * 8.0 / self.begin.elapsed().as_secs_f64().max(1e-3);
        let text = format!("{}: {} received, {}", self.header.name, format::size(bytes), format::rate(rate));
        self.progress.show(&text);
    }

    async fn write(&mut self, piece: Piece) -> anyhow::Result<()> {
        let bytes = match &piece {
            Piece::Data(data) => data.len(),
            Piece::Frame(frame) => frame.data.len(),
        };
        self.written.blocks += 1;
        self.written.bytes += bytes as u64;
        // The thread that writes tells later why it has stopped.
        ensure!(self.output.write(piece).await, WriteFailed);
        Ok(())
    }

    /// Puts everything in its place and says so to the sender.
    async fn finish(mut self, session: &Session, end: End) -> anyhow::Result<Summary> {
        let seconds = self.begin.elapsed().as_secs_f64();
        self.progress.clear();
        let whole = self.written == Receipt { blocks: end.blocks, bytes: end.bytes };
        if self.viewing.is_none() && !whole {
            let gap = anyhow::anyhow!("{} bytes were sent, {} came", end.bytes, self.written.bytes);
            return Err(self.abandon(gap).await);
        }
        let file = self.output.finish().await?;
        self.paths.update(session);
        let receipt = Message::Receipt(self.written).encode();
        session.send(Block::new(receipt).ordered().priority(0)).await?;
        // The sender's farewell may be lost; ours then ends the session.
        let _ = tokio::time::timeout(FAREWELL, gone(session)).await;
        let _ = session.finish(FAREWELL).await;
        self.paths.update(session);
        let play = self.viewing.and_then(|viewing| viewing.finish(end.blocks, self.paths.min_rtt_us()));
        Ok(Summary {
            kind: self.header.content.kind(),
            name: self.header.name,
            file,
            bytes: self.written.bytes,
            blocks: self.written.blocks,
            seconds,
            goodput_bps: (self.written.bytes as f64 * 8.0 / seconds.max(1e-6)) as u64,
            duplicate_bytes: session.stats().duplicates,
            paths: self.paths.summary(),
            play,
        })
    }

    /// Leaves what there is, and says where it is and why it is not more.
    async fn abandon(mut self, why: anyhow::Error) -> anyhow::Error {
        self.progress.clear();
        if why.is::<WriteFailed>() {
            return match self.output.finish().await {
                Err(error) => error,
                Ok(_) => why,
            };
        }
        let bytes = format::size(self.written.bytes as f64);
        match self.output.abandon().await {
            Some(part) => why.context(format!("incomplete: {bytes} are in {}", part.display())),
            None => why.context(format!("incomplete: {bytes} were written")),
        }
    }
}

/// Why is known to the thread that writes.
#[derive(Debug, thiserror::Error)]
#[error("cannot write")]
struct WriteFailed;

/// Completes when the session is over.
async fn gone(session: &Session) {
    while session.recv().await.is_some() {}
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place =
            self.file.as_ref().map_or_else(|| "standard output".into(), |file| file.display().to_string());
        writeln!(
            f,
            "received {}: {} in {:.2} s, {}, written to {place}",
            self.name,
            format::size(self.bytes as f64),
            self.seconds,
            format::rate(self.goodput_bps as f64)
        )?;
        for path in &self.paths {
            writeln!(f, "{}", path.line())?;
        }
        match &self.play {
            Some(play) => writeln!(f, "{}", viewing::lines(play)),
            None => Ok(()),
        }
    }
}
