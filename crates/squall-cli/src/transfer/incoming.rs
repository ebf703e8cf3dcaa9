//! A transfer at its receiver, over as many sessions as necessary.

use std::{
    fmt,
    path::PathBuf,
    time::{Duration, Instant},
};

use bytes::Bytes;
use serde::Serialize;
use squall_terminal::progress::Progress;
use squall_units::format;
use tokio::sync::mpsc;

use super::{
    connection::{Connection, Disconnect},
    failure::Fault,
    host::{Host, Sessions},
    message::{Header, Message, Position, Total},
    output::{Output, Taken},
    paths::{PathCounters, PathSummary},
};

/// Close code of a session whose transfer continues in another one.
const REPLACED: u32 = 4;

/// Interval at which counters are read and received data is acknowledged.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);

/// Received bytes after which an acknowledgement is sent. The sender keeps unacknowledged bytes.
const ACKNOWLEDGE_AFTER: u64 = 4 << 20;

/// Summary of a transfer.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    name: String,
    /// Path of the file; `None` for standard output.
    file: Option<PathBuf>,
    bytes: u64,
    blocks: u64,
    seconds: f64,
    goodput_bps: u64,
    /// Bytes that arrived more than once.
    duplicate_bytes: u64,
    /// Number of sessions: more than one if the connection was lost.
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
    written: Total,
    /// Number of acknowledged bytes.
    acknowledged: u64,
    /// The written bytes are worthless.
    worthless: bool,
    begin: Instant,
    sessions: u32,
    duplicate_bytes: u64,
    paths: PathCounters,
    progress: Progress,
    sample_at: Instant,
    /// Bytes received in this session so far.
    arrived: u64,
    /// Time at which `arrived` last increased.
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
            written: Total::default(),
            acknowledged: 0,
            worthless: false,
            begin,
            sessions: 0,
            duplicate_bytes: 0,
            paths: PathCounters::default(),
            progress: Progress::default(),
            sample_at: begin,
            arrived: 0,
            arrived_at: begin,
        })
    }

    /// `true` if some of the data was written.
    pub(super) fn has_begun(&self) -> bool {
        self.written.blocks > 0
    }

    /// Receives until the sender has sent everything.
    pub(super) async fn run(&mut self, sessions: &mut Sessions) -> anyhow::Result<Total> {
        let Sessions { connection, next } = sessions;
        self.begin_session(connection).await;
        loop {
            tokio::select! {
                message = connection.next() => match message {
                    Ok(Message::End(end)) => return Ok(end),
                    Ok(message) => self.on_message(message, connection).await?,
                    Err(Disconnect::Lost(why)) => {
                        self.end_session(connection);
                        *connection = self.wait(next, &why.to_string()).await?;
                        self.begin_session(connection).await;
                    }
                    Err(why) => return Err(Fault::of_peer(format!("the transfer broke off: {why}"))),
                },
                Some(newer) = next.recv() => {
                    self.end_session(connection);
                    let before = std::mem::replace(connection, newer);
                    before.close(REPLACED, "the transfer continues in another session").await;
                    self.begin_session(connection).await;
                }
                () = tokio::time::sleep_until(self.sample_at.into()) => self.sample(connection)?,
            }
        }
    }

    async fn begin_session(&mut self, connection: &Connection) {
        self.sessions += 1;
        self.paths.begin_session();
        (self.arrived, self.arrived_at) = (0, Instant::now());
        // Fails if the session is over, which it reports next.
        let _ = connection.send_first(&Message::Go(self.position())).await;
    }

    fn end_session(&mut self, connection: &Connection) {
        self.paths.update(&connection.session);
        self.duplicate_bytes += connection.session.stats().duplicates;
    }

    /// Waits for the sender to reconnect.
    async fn wait(&mut self, next: &mut mpsc::Receiver<Connection>, why: &str) -> anyhow::Result<Connection> {
        let outage = self.host.bounds.outage;
        self.progress.clear();
        if !outage.is_zero() {
            let name = &self.header.name;
            self.host.note(format_args!("note: {name}: {why}: waiting {outage:?} for the sender"));
        }
        match tokio::time::timeout(outage, next.recv()).await {
            Ok(Some(connection)) => Ok(connection),
            _ => Err(Fault::of_peer(format!("the transfer broke off: {why}"))),
        }
    }

    async fn on_message(&mut self, message: Message, connection: &Connection) -> anyhow::Result<()> {
        match message {
            Message::Data(data) if data.is_empty() => {
                // An unauthenticated sender could send this without end.
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
        if self.written.bytes - self.acknowledged >= ACKNOWLEDGE_AFTER {
            self.acknowledge(connection);
        }
        Ok(())
    }

    async fn write(&mut self, piece: Bytes) -> anyhow::Result<()> {
        let bytes = piece.len() as u64;
        let total = self.written.bytes + bytes;
        let announced = match self.header.size {
            Some(size) if total > size => {
                Err(Fault::of_peer(format!("the sender announced {size} bytes, and sent more")))
            }
            _ => Ok(()),
        };
        if let Err(error) = announced.and_then(|()| self.host.bounds.check(total)) {
            self.worthless = true;
            return Err(error);
        }
        if let Err(error) = self.output.write(piece).await {
            self.worthless = true;
            return Err(error);
        }
        self.written.blocks += 1;
        self.written.bytes += bytes;
        Ok(())
    }

    fn position(&self) -> Position {
        Position { next: self.next, bytes: self.written.bytes }
    }

    /// Acknowledges the received data. The sender keeps the rest for another session.
    fn acknowledge(&mut self, connection: &Connection) {
        self.acknowledged = self.written.bytes;
        connection.try_send(&Message::Taken(self.position()));
    }

    /// Reads the counters.
    ///
    /// # Errors
    /// If the sender has stalled.
    fn sample(&mut self, connection: &Connection) -> anyhow::Result<()> {
        self.sample_at = Instant::now() + SAMPLE_INTERVAL;
        self.paths.update(&connection.session);
        let bytes = self.written.bytes as f64;
        let rate = bytes * 8.0 / self.begin.elapsed().as_secs_f64().max(1e-3);
        let text = format!("{}: {} received, {}", self.header.name, format::size(bytes), format::rate(rate));
        self.progress.show(&text);
        if self.written.bytes > self.acknowledged {
            self.acknowledge(connection);
        }
        let arrived = connection.arrived();
        if arrived > self.arrived {
            (self.arrived, self.arrived_at) = (arrived, Instant::now());
        }
        let stall = self.host.bounds.stall;
        if self.arrived_at.elapsed() > stall {
            return Err(Fault::of_peer(format!("the sender sent nothing for {stall:?}")));
        }
        Ok(())
    }

    /// Completes the output.
    pub(super) async fn finish(mut self, connection: &Connection, end: Total) -> anyhow::Result<Summary> {
        let seconds = self.begin.elapsed().as_secs_f64();
        self.progress.clear();
        let written = self.written.bytes;
        if self.written != end {
            let words = format!("{} bytes were sent, {written} arrived", end.bytes);
            return Err(self.abandon(Fault::of_peer(words)));
        }
        if let Some(size) = self.header.size.filter(|size| *size != written) {
            let words = format!("the sender announced {size} bytes, and sent {written}");
            return Err(self.abandon(Fault::of_peer(words)));
        }
        self.end_session(connection);
        let file = self.output.finish(&self.host.kept).await?;
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

    /// Ends an incomplete transfer. Keeps the received bytes unless they are worthless, and adds
    /// their path to the error.
    pub(super) fn abandon(mut self, why: anyhow::Error) -> anyhow::Error {
        self.progress.clear();
        let keep = self.written.bytes > 0 && !self.worthless && !self.host.admission.is_open();
        let bytes = format::size(self.written.bytes as f64);
        match self.output.abandon(keep.then_some(&self.host.kept)) {
            Some(part) => why.context(format!("incomplete: {bytes} are in {}", part.display())),
            None => why.context(format!("incomplete: {bytes} arrived of {}", self.header.name)),
        }
    }
}

impl Summary {
    /// Returns the receipt for the sender.
    pub(super) fn receipt(&self) -> Total {
        Total { blocks: self.blocks, bytes: self.bytes }
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
