//! A transfer at its sender, over as many sessions as necessary, until the receiver has written
//! everything.

use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, ensure};
use bytes::Bytes;
use squall::{Block, BlockOptions, Config, Connect, ConnectError, SendError, Session, follow_radios};
use squall_terminal::{error::whole, note, progress::Progress};
use squall_units::{Span, format};

use super::{
    connection::{Connection, Disconnect},
    message::{Header, Message, Position, Total},
    paths::PathCounters,
    replay::Replay,
    source::Source,
};

/// Interval at which counters are read and the progress is shown.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);

/// Window of the shown rate: the receiver acknowledges in steps of a quarter of a megabyte.
const RATE_WINDOW: Duration = Duration::from_secs(1);

/// Interval at which a sender reports that it waits for its own input.
const PULSE_INTERVAL: Duration = Duration::from_secs(10);

/// Timeout for the end of a session in which everything has arrived.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of an attempt to reconnect, so that a path that comes up later is tried too.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// Settings of the connections of a sender.
pub(super) struct Plan {
    pub(super) request: Connect,
    pub(super) config: Config,
    /// Timeout of the first attempt.
    pub(super) timeout: Span,
    /// Time for which it tries to reconnect.
    pub(super) outage: Span,
    /// Sessions read the radios of their interfaces.
    pub(super) signal: bool,
}

/// A transfer.
pub(super) struct Sender {
    plan: Plan,
    source: Source,
    header: Header,
    replay: Replay,
    connection: Option<Connection>,
    /// Blocks read and sent so far.
    pub(super) sent: Total,
    /// The source has ended.
    pub(super) all_sent: bool,
    /// Bytes that the receiver has acknowledged.
    pub(super) acknowledged: u64,
    /// Time at which the first session came up.
    pub(super) begin: Option<Instant>,
    /// Number of sessions so far.
    pub(super) sessions: u32,
    pub(super) paths: PathCounters,
    progress: Progress,
    /// Acknowledged bytes, the time of that measurement, and the rate since the one before.
    rate: (u64, Instant, f64),
}

impl Sender {
    pub(super) fn new(plan: Plan, source: Source, header: Header) -> Self {
        Self {
            plan,
            source,
            header,
            replay: Replay::default(),
            connection: None,
            sent: Total::default(),
            all_sent: false,
            acknowledged: 0,
            begin: None,
            sessions: 0,
            paths: PathCounters::default(),
            progress: Progress::default(),
            rate: (0, Instant::now(), 0.0),
        }
    }

    /// Connects, delivers, and reconnects while that may succeed.
    pub(super) async fn run(&mut self) -> anyhow::Result<Total> {
        let mut session = self.connect(self.plan.timeout.duration()).await.map_err(whole)?;
        loop {
            self.begin.get_or_insert_with(Instant::now);
            self.sessions += 1;
            self.paths.begin_session();
            if self.plan.signal {
                tokio::spawn(follow_radios(session.clone(), |problem| note!("note: no radio: {problem}")));
            }
            let connection = Connection::new(session);
            self.connection = Some(connection.clone());
            let error = match self.deliver(&connection).await {
                Ok(receipt) => return Ok(receipt),
                Err(error) => error,
            };
            let lost = match error.downcast()? {
                lost @ Disconnect::Lost(_) => lost,
                Disconnect::ByPeer(words) => bail!("the receiver stopped: {words}"),
                other => bail!("the session ended: {other}"),
            };
            self.finish().await;
            session = self.reconnect(&lost).await?;
        }
    }

    /// Cancels the transfer at the receiver.
    pub(super) async fn cancel(&self) {
        if let Some(connection) = &self.connection {
            connection.close(1, "the sender cancelled the transfer").await;
        }
    }

    /// Ends the session.
    pub(super) async fn finish(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        // Only acknowledgements are in flight, or the session has failed.
        let _ = connection.session.finish(FINISH_TIMEOUT).await;
        connection.closed().await;
        self.paths.update(&connection.session);
        self.progress.clear();
    }

    async fn connect(&self, timeout: Duration) -> Result<Session, ConnectError> {
        let config = self.plan.config.clone().connect_timeout(timeout);
        squall::connect(self.plan.request.clone().config(config)).await
    }

    async fn reconnect(&self, lost: &Disconnect) -> anyhow::Result<Session> {
        use ConnectError::{OtherProtocol, Untrusted, WrongPin};
        let outage = self.plan.outage;
        let until = Instant::now() + outage.duration();
        note!("note: {lost}: trying to connect again for {outage}");
        loop {
            let timeout = ATTEMPT_TIMEOUT.min(until.saturating_duration_since(Instant::now()));
            let failed = match self.connect(timeout).await {
                Ok(session) => return Ok(session),
                Err(error @ (WrongPin { .. } | Untrusted { .. } | OtherProtocol)) => {
                    return Err(whole(error));
                }
                Err(error) => error,
            };
            if Instant::now() + PAUSE >= until {
                bail!("{lost}, and the receiver was not reached again within {outage}: {failed}");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Sends the blocks that the receiver lacks, and waits for the receipt.
    async fn deliver(&mut self, connection: &Connection) -> anyhow::Result<Total> {
        self.header.from = self.replay.first();
        connection.send_first(&Message::Header(self.header.clone())).await?;
        match connection.next().await? {
            Message::Go(position) => self.acknowledge(position)?,
            Message::Receipt(receipt) => return self.check(receipt),
            _ => return Err(out_of_step()),
        }
        for number in self.replay.first()..self.replay.next() {
            self.send_block(connection, number).await?;
        }
        if self.all_sent {
            connection.send(&Message::End(self.sent)).await?;
        }
        let mut sample = tokio::time::interval(SAMPLE_INTERVAL);
        let mut active = Instant::now();
        loop {
            let may_read = !self.all_sent && self.replay.has_room();
            tokio::select! {
                message = connection.next() => match message? {
                    Message::Taken(position) => self.acknowledge(position)?,
                    Message::Receipt(receipt) => return self.check(receipt),
                    _ => return Err(out_of_step()),
                },
                piece = self.source.next(), if may_read => match piece.transpose()? {
                    Some(piece) => {
                        active = Instant::now();
                        self.sent.blocks += 1;
                        self.sent.bytes += piece.len() as u64;
                        let number = self.replay.next();
                        self.replay.keep(Message::Data(piece).encode());
                        self.send_block(connection, number).await?;
                    }
                    None => {
                        self.all_sent = true;
                        connection.send(&Message::End(self.sent)).await?;
                    }
                },
                _ = sample.tick() => {
                    self.sample(connection);
                    if !self.all_sent && active.elapsed() >= PULSE_INTERVAL {
                        active = Instant::now();
                        connection.send(&Message::Data(Bytes::new())).await?;
                    }
                }
            }
        }
    }

    /// Sends a block once there is room for it, unless it is already acknowledged.
    async fn send_block(&self, connection: &Connection, number: u64) -> anyhow::Result<()> {
        let Some(data) = self.replay.block(number) else { return Ok(()) };
        match connection.session.send(Block::with(data, BlockOptions::new().ordered(true))).await {
            Ok(_) => Ok(()),
            Err(SendError::Closed(_)) => Err(connection.over().await.into()),
            Err(error) => Err(anyhow!("cannot send: {error}")),
        }
    }

    fn acknowledge(&mut self, position: Position) -> anyhow::Result<()> {
        self.acknowledged = position.bytes;
        if self.replay.confirm(position) { Ok(()) } else { Err(out_of_step()) }
    }

    fn check(&mut self, receipt: Total) -> anyhow::Result<Total> {
        self.acknowledged = receipt.bytes;
        ensure!(self.all_sent, "the receiver confirmed the transfer before everything was sent");
        ensure!(receipt == self.sent, "the receiver wrote {} bytes of {}", receipt.bytes, self.sent.bytes);
        Ok(receipt)
    }

    /// Reads the counters, and shows the progress.
    fn sample(&mut self, connection: &Connection) {
        self.paths.update(&connection.session);
        let (before, since, rate) = &mut self.rate;
        let elapsed = since.elapsed();
        if elapsed >= RATE_WINDOW {
            *rate = self.acknowledged.saturating_sub(*before) as f64 * 8.0 / elapsed.as_secs_f64();
            (*before, *since) = (self.acknowledged, Instant::now());
        }
        let of =
            self.header.size.map_or_else(String::new, |size| format!(" of {}", format::size(size as f64)));
        let arrived = format::size(self.acknowledged as f64);
        self.progress.show(&format!("{}: {arrived}{of} arrived, {}", self.header.name, format::rate(*rate)));
    }
}

fn out_of_step() -> anyhow::Error {
    anyhow!("the receiver is out of step")
}
