//! The sessions of a transfer, as its sender opens them: one after the other while the receiver can be reached.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::bail;
use squall::{Config, Connect, ConnectError, Session, follow_radios};
use squall_terminal::{error::whole, note, progress::Progress};
use squall_units::format;
use tokio::task::JoinHandle;

use super::{
    delivery::{Delivery, lost},
    message::Receipt,
    paths::PathBook,
    send::SendArgs,
    source::Source,
    talk::{Gone, Talk},
};

/// How often the counters of the paths are read.
const LOOK: Duration = Duration::from_millis(250);

/// The rate that is shown is that of so long: the receiver tells what it has written in steps of a quarter of a megabyte.
const RATE_OVER: Duration = Duration::from_secs(1);

/// How long the farewell may take once everything has arrived.
const FAREWELL: Duration = Duration::from_secs(5);

/// How long one of the attempts to come back may take: a link that is up again is found by the next one.
const ATTEMPT: Duration = Duration::from_secs(5);

/// Pause between two of them.
const PAUSE: Duration = Duration::from_secs(1);

/// The connection to the receiver, whichever session it is now.
pub(super) struct Line<'a> {
    args: &'a SendArgs,
    request: Connect,
    config: Config,
    /// What is sent, for people.
    shown: Shown,
    talk: Option<Talk>,
    watching: Option<JoinHandle<PathBook>>,
    /// When the first session was up.
    pub(super) begin: Option<Instant>,
    /// Sessions so far.
    pub(super) sessions: u32,
    /// What its paths have carried; complete after [`Self::hang_up`].
    pub(super) paths: PathBook,
    /// Bytes that the receiver has taken.
    pub(super) taken: Arc<AtomicU64>,
}

/// What the progress line is about.
#[derive(Clone)]
struct Shown {
    name: String,
    of: String,
}

impl<'a> Line<'a> {
    pub(super) fn new(args: &'a SendArgs, source: &Source) -> anyhow::Result<Self> {
        let of = source.size.map_or_else(String::new, |size| format!(" of {}", format::size(size as f64)));
        Ok(Self {
            args,
            request: args.request()?,
            config: args.config()?,
            shown: Shown { name: source.name.clone(), of },
            talk: None,
            watching: None,
            begin: None,
            sessions: 0,
            paths: PathBook::default(),
            taken: Arc::default(),
        })
    }

    /// Connects, delivers, and connects again while that may help.
    pub(super) async fn carry(&mut self, delivery: &mut Delivery<'_>) -> anyhow::Result<Receipt> {
        let mut session = self.connect(self.args.timeout.duration()).await.map_err(whole)?;
        loop {
            let talk = self.open(session);
            let stop = match delivery.run(talk).await {
                Ok(receipt) => return Ok(receipt),
                Err(stop) => stop,
            };
            let why = lost(stop)?;
            self.hang_up().await;
            session = self.come_back(&why).await?;
        }
    }

    /// Tells the receiver that no more will come.
    pub(super) async fn give_up(&self) {
        if let Some(talk) = &self.talk {
            talk.close(1, "the sender gave up").await;
        }
    }

    /// Ends the session, and counts what it has carried.
    pub(super) async fn hang_up(&mut self) {
        let Some(talk) = self.talk.take() else { return };
        // Nothing but acknowledgements is on its way any more, or nothing matters.
        let _ = talk.session.finish(FAREWELL).await;
        talk.drain().await;
        if let Some(watching) = self.watching.take()
            && let Ok(Ok(paths)) = tokio::time::timeout(FAREWELL, watching).await
        {
            self.paths = paths;
        }
    }

    fn open(&mut self, session: Session) -> &Talk {
        self.begin.get_or_insert_with(Instant::now);
        self.sessions += 1;
        let mut paths = std::mem::take(&mut self.paths);
        paths.begin_session();
        let watching = watch(session.clone(), self.shown.clone(), self.taken.clone(), paths);
        self.watching = Some(tokio::spawn(watching));
        if self.args.signal {
            tokio::spawn(follow_radios(session.clone(), |problem| note!("note: no radio: {problem}")));
        }
        self.talk.insert(Talk::new(session))
    }

    async fn connect(&self, within: Duration) -> Result<Session, ConnectError> {
        let config = Config { connect_timeout: within, ..self.config.clone() };
        squall::connect(self.request.clone(), config).await
    }

    /// Connects again after a session was lost.
    async fn come_back(&self, why: &Gone) -> anyhow::Result<Session> {
        use ConnectError::{OtherProtocol, Untrusted, WrongPin};
        let outage = self.args.outage.duration();
        let until = Instant::now() + outage;
        note!("note: {why}: trying to connect again for {}", self.args.outage);
        loop {
            let within = ATTEMPT.min(until.saturating_duration_since(Instant::now()));
            let failed = match self.connect(within).await {
                Ok(session) => return Ok(session),
                Err(error @ (WrongPin { .. } | Untrusted { .. } | OtherProtocol)) => {
                    return Err(whole(error));
                }
                Err(error) => error,
            };
            if Instant::now() + PAUSE >= until {
                bail!("{why}, and the receiver was not reached again within {}: {failed}", self.args.outage);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Shows how far the transfer is, until the session is over; gives back what the paths have carried.
async fn watch(session: Session, shown: Shown, taken: Arc<AtomicU64>, mut paths: PathBook) -> PathBook {
    let mut progress = Progress::default();
    let mut clock = tokio::time::interval(LOOK);
    let (mut before, mut before_at, mut rate) = (taken.load(Relaxed), Instant::now(), 0.0);
    while session.close_reason().is_none() {
        clock.tick().await;
        paths.update(&session);
        let (arrived, at) = (taken.load(Relaxed), Instant::now());
        if at - before_at >= RATE_OVER {
            rate = arrived.saturating_sub(before) as f64 * 8.0 / (at - before_at).as_secs_f64();
            (before, before_at) = (arrived, at);
        }
        let Shown { name, of } = &shown;
        let arrived = format::size(arrived as f64);
        progress.show(&format!("{name}: {arrived}{of} arrived, {}", format::rate(rate)));
    }
    paths.update(&session);
    paths
}
