//! One transfer as its receiver sees it, over as many sessions as it takes.

use std::{
    fmt,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::ensure;
use bytes::Bytes;
use serde::Serialize;
use squall_terminal::{note, progress::Progress};
use squall_units::format;
use tokio::sync::mpsc;

use super::{
    failure::Fault,
    host::{Host, Line},
    message::{End, Header, Message, Position, Receipt},
    output::{Output, Taken},
    paths::{PathBook, PathSummary},
    talk::{Gone, Talk},
};

/// Code with which a session is closed whose transfer goes on in another one.
const REPLACED: u32 = 4;

/// How often the counters of the paths are read, and the sender learns what is here.
const LOOK: Duration = Duration::from_millis(250);

/// Bytes after which the sender learns what is here in any case: it keeps what it does not know to be.
const REPORT: u64 = 4 << 20;

/// What came.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    name: String,
    /// Where it was written; nothing for standard output.
    file: Option<PathBuf>,
    bytes: u64,
    blocks: u64,
    seconds: f64,
    goodput_bps: u64,
    /// Bytes that came although they were here already.
    duplicate_bytes: u64,
    /// Sessions that it took: more than one if the connection was lost on the way.
    sessions: u32,
    paths: Vec<PathSummary>,
}

/// A transfer in progress.
pub(super) struct Transfer<'a> {
    host: &'a Host,
    header: &'a Header,
    output: Output,
    /// Number of the next block.
    next: u64,
    written: Receipt,
    /// Bytes of which the sender knows.
    reported: u64,
    /// The written bytes are worthless.
    worthless: bool,
    begin: Instant,
    sessions: u32,
    duplicate_bytes: u64,
    paths: PathBook,
    progress: Progress,
    look_at: Instant,
    /// Bytes of this session so far, and when there were more of them last.
    arrived: u64,
    arrived_at: Instant,
}

impl<'a> Transfer<'a> {
    pub(super) fn open(host: &'a Host, header: &'a Header) -> anyhow::Result<Self> {
        if let Some(size) = header.size {
            host.bounds.check(size)?;
        }
        let taken = if host.admission.is_open() { Taken::Number } else { Taken::Refuse };
        let output = Output::open(&host.target, header, taken)?;
        let begin = Instant::now();
        Ok(Self {
            host,
            header,
            output,
            next: 0,
            written: Receipt { blocks: 0, bytes: 0 },
            reported: 0,
            worthless: false,
            begin,
            sessions: 0,
            duplicate_bytes: 0,
            paths: PathBook::default(),
            progress: Progress::default(),
            look_at: begin,
            arrived: 0,
            arrived_at: begin,
        })
    }

    /// Whether anything was written.
    pub(super) fn has_begun(&self) -> bool {
        self.written.blocks > 0
    }

    /// Takes everything until the sender says that it is all.
    pub(super) async fn take(&mut self, line: &mut Line) -> anyhow::Result<End> {
        let Line { talk, more } = line;
        self.begin_session(talk).await;
        loop {
            tokio::select! {
                heard = talk.next() => match heard {
                    Ok((Message::End(end), _)) => return Ok(end),
                    Ok((message, _)) => self.on_message(message, talk).await?,
                    Err(Gone::Lost(why)) => {
                        self.end_session(talk);
                        *talk = self.wait(more, &why.to_string()).await?;
                        self.begin_session(talk).await;
                    }
                    Err(gone) => return Err(Fault::of_peer(format!("the transfer broke off: {gone}"))),
                },
                Some(next) = more.recv() => {
                    self.end_session(talk);
                    let before = std::mem::replace(talk, next);
                    before.close(REPLACED, "the transfer goes on in another session").await;
                    self.begin_session(talk).await;
                }
                () = tokio::time::sleep_until(self.look_at.into()) => self.look(talk)?,
            }
        }
    }

    async fn begin_session(&mut self, talk: &Talk) {
        self.sessions += 1;
        self.paths.begin_session();
        (self.arrived, self.arrived_at) = (0, Instant::now());
        // Should the session be over, its end is the next that it tells.
        let _ = talk.say(&Message::Go(self.position())).await;
    }

    fn end_session(&mut self, talk: &Talk) {
        self.paths.update(&talk.session);
        self.duplicate_bytes += talk.session.stats().duplicates;
    }

    /// Waits for the sender to come back.
    async fn wait(&mut self, more: &mut mpsc::Receiver<Talk>, why: &str) -> anyhow::Result<Talk> {
        let outage = self.host.bounds.outage;
        self.progress.clear();
        if !outage.is_zero() {
            note!("note: {}: {why}: waiting {outage:?} for the sender to come back", self.header.name);
        }
        match tokio::time::timeout(outage, more.recv()).await {
            Ok(Some(talk)) => Ok(talk),
            _ => Err(Fault::of_peer(format!("the transfer broke off: {why}"))),
        }
    }

    async fn on_message(&mut self, message: Message, talk: &Talk) -> anyhow::Result<()> {
        match message {
            Message::Data(data) if data.is_empty() => {
                // A stranger could say that for ever.
                if !self.host.admission.is_open() {
                    self.arrived_at = Instant::now();
                }
                return Ok(());
            }
            Message::Data(data) => {
                self.next += 1;
                self.write(data).await?;
            }
            _ => return Err(Fault::of_peer("the sender is out of step")),
        }
        self.arrived_at = Instant::now();
        if self.written.bytes - self.reported >= REPORT {
            self.report(talk);
        }
        Ok(())
    }

    async fn write(&mut self, piece: Bytes) -> anyhow::Result<()> {
        let bytes = piece.len() as u64;
        if let Err(error) = self.host.bounds.check(self.written.bytes + bytes) {
            self.worthless = true;
            return Err(error);
        }
        self.written.blocks += 1;
        self.written.bytes += bytes;
        // The thread that writes tells later why it has stopped.
        ensure!(self.output.write(piece).await, WriteFailed);
        Ok(())
    }

    fn position(&self) -> Position {
        Position { next: self.next, bytes: self.written.bytes }
    }

    /// Tells the sender what is here. It keeps the rest for another session.
    fn report(&mut self, talk: &Talk) {
        self.reported = self.written.bytes;
        talk.tell(&Message::Taken(self.position()));
    }

    /// Looks at the counters; an error if the sender stands still.
    fn look(&mut self, talk: &Talk) -> anyhow::Result<()> {
        self.look_at = Instant::now() + LOOK;
        self.paths.update(&talk.session);
        let bytes = self.written.bytes as f64;
        let rate = bytes * 8.0 / self.begin.elapsed().as_secs_f64().max(1e-3);
        let text = format!("{}: {} received, {}", self.header.name, format::size(bytes), format::rate(rate));
        self.progress.show(&text);
        if self.written.bytes > self.reported {
            self.report(talk);
        }
        let arrived = talk.arrived();
        if arrived > self.arrived {
            (self.arrived, self.arrived_at) = (arrived, Instant::now());
        }
        let stall = self.host.bounds.stall;
        if self.arrived_at.elapsed() > stall {
            return Err(Fault::of_peer(format!("the sender sent nothing for {stall:?}")));
        }
        Ok(())
    }

    /// Puts everything in its place.
    pub(super) async fn finish(mut self, talk: &Talk, end: End) -> anyhow::Result<Summary> {
        let seconds = self.begin.elapsed().as_secs_f64();
        self.progress.clear();
        if let Err(error) = self.check(end) {
            return Err(self.abandon(error).await);
        }
        self.end_session(talk);
        let file = self.output.finish().await?;
        Ok(Summary {
            name: self.header.name.clone(),
            file,
            bytes: self.written.bytes,
            blocks: self.written.blocks,
            seconds,
            goodput_bps: (self.written.bytes as f64 * 8.0 / seconds.max(1e-6)) as u64,
            duplicate_bytes: self.duplicate_bytes,
            sessions: self.sessions,
            paths: self.paths.summary(),
        })
    }

    /// Whether what the sender says that it has sent can be.
    fn check(&self, end: End) -> anyhow::Result<()> {
        if self.written == (Receipt { blocks: end.blocks, bytes: end.bytes }) {
            return Ok(());
        }
        let words = format!("{} bytes were sent, {} came", end.bytes, self.written.bytes);
        Err(Fault::of_peer(words))
    }

    /// Keeps what there is, if it is of use, and says where it is and why it is not more.
    pub(super) async fn abandon(mut self, why: anyhow::Error) -> anyhow::Error {
        self.progress.clear();
        if why.is::<WriteFailed>() {
            return match self.output.finish().await {
                Err(error) => error,
                Ok(_) => why,
            };
        }
        let keep = self.written.bytes > 0 && !self.worthless && !self.host.admission.is_open();
        let bytes = format::size(self.written.bytes as f64);
        match self.output.abandon(keep).await {
            Some(part) => why.context(format!("incomplete: {bytes} are in {}", part.display())),
            None => why.context(format!("incomplete: {bytes} arrived of {}", self.header.name)),
        }
    }
}

/// Why is known to the thread that writes.
#[derive(Debug, thiserror::Error)]
#[error("cannot write")]
struct WriteFailed;

impl Summary {
    /// What the sender learns of it.
    pub(super) fn receipt(&self) -> Receipt {
        Receipt { blocks: self.blocks, bytes: self.bytes }
    }
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
        if self.sessions > 1 {
            writeln!(f, "sessions: {}, as the connection was lost on the way", self.sessions)?;
        }
        self.paths.iter().try_for_each(|path| writeln!(f, "{}", path.line()))
    }
}
