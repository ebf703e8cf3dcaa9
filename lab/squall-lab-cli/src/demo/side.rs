//! One half of the demo: a relay for each link, a session through them, and a video over it.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use squall::{
    Block, Config, Connect, Endpoint, Identity, Interfaces, PathChange, PathId, PathInfo, Priority,
    SendError, Session, Trust, signal::AlertKind,
};
use squall_lab::{
    Direction, RunResult,
    result::{LostReason, PathState},
};
use squall_media::{Clip, FrameKind, Player};
use squall_net::{Relay, RelayReport};
use squall_terminal::error::whole;
use tokio::{sync::watch, task::JoinSet};

use super::{
    frame,
    ladder::{FOLLOW, Ladder},
    path::LinkNow,
    plan::{LEAD, Plan},
    radio,
    record::{Reading, Record, SAMPLE},
};

/// How long the handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// How long frames without a deadline may be on their way after the last was captured.
const TAIL: Duration = Duration::from_secs(3);

/// One scheduler's half, connecting or playing.
pub(super) struct Side {
    scheduler: String,
    plan: Arc<Plan>,
    relay: Arc<Relay>,
    endpoint: Endpoint,
    request: Connect,
    config: Config,
    record: Arc<Mutex<Record>>,
    /// The path of the scenario that each of the sender's paths runs over.
    paths: Mutex<HashMap<PathId, usize>>,
}

/// The same, to look at from outside.
#[derive(Clone)]
pub(super) struct View {
    /// Which scheduler.
    pub(super) scheduler: String,
    begin: Instant,
    record: Arc<Mutex<Record>>,
    relay: Arc<Relay>,
}

/// A half that has played.
pub(super) struct Played {
    record: Arc<Mutex<Record>>,
    /// What the emulation did, and whether it was true.
    pub(super) relay: RelayReport,
    /// Until when frames were captured, in microseconds from the first.
    pub(super) ended_us: u64,
}

impl Played {
    /// What was measured of blocks and paths, and the frames. `None` while it is still looked at.
    pub(super) fn take_record(self) -> Option<(RunResult, Player)> {
        let record = Arc::into_inner(self.record)?.into_inner().unwrap_or_else(PoisonError::into_inner);
        Some(record.finish(self.ended_us))
    }
}

/// The two ends of a session once it is up.
struct Ends {
    sender: Session,
    receiver: Session,
    /// The client's end, which knows the address of each relay.
    client: Session,
}

impl View {
    /// What is known now.
    pub(super) fn reading(&self) -> Reading {
        lock(&self.record).reading(Instant::now())
    }

    /// Microseconds since the first frame was captured; 0 before.
    pub(super) fn run_time_us(&self) -> u64 {
        // `elapsed` is 0 for what is still to come.
        self.begin.elapsed().as_micros() as u64
    }

    /// How late 99 of 100 datagrams left the emulation, in microseconds.
    pub(super) fn slip_us(&self) -> u64 {
        self.relay.report().live.slip.p99
    }
}

impl Side {
    /// Starts relays and server. Must be called within a runtime.
    pub(super) fn start(plan: &Arc<Plan>, name: &str, config: Config) -> anyhow::Result<Self> {
        let config = Config { connect_timeout: HANDSHAKE, ..config };
        let identity = Identity::self_signed("localhost")?;
        let endpoint = Endpoint::listen("127.0.0.1:0", &identity.server_tls()?, config.clone())?;
        let server = endpoint.local_addrs()[0];
        let paths = plan.relayed_paths();
        let relay = Relay::start(&paths, server, plan.seed).context("cannot start the emulated links")?;
        let pair = |path| (SocketAddr::from((radio::local(path), 0)), relay.address(path));
        let pairs = (0..paths.len()).map(pair).collect();
        let request = Connect::to(server)
            .server_name("localhost")
            .trust(Trust::Pinned(identity.fingerprint()))
            .interfaces(Interfaces::Pairs(pairs));
        let record = Record::new(plan, name, config.signal.is_some(), relay.started() + LEAD.duration())?;
        Ok(Self {
            scheduler: name.to_owned(),
            plan: plan.clone(),
            relay: Arc::new(relay),
            endpoint,
            request,
            config,
            record: Arc::new(Mutex::new(record)),
            paths: Mutex::default(),
        })
    }

    /// To look at from outside.
    pub(super) fn view(&self) -> View {
        View {
            scheduler: self.scheduler.clone(),
            begin: self.begin(),
            record: self.record.clone(),
            relay: self.relay.clone(),
        }
    }

    /// Connects, plays until the end or until stopped, and takes stock.
    pub(super) async fn play(
        self,
        clip: Arc<Clip>,
        ladder: Option<Arc<Ladder>>,
        stopped: watch::Receiver<bool>,
    ) -> anyhow::Result<Played> {
        let side = Arc::new(self);
        let ends = Arc::new(side.connect().await?);
        // Dropped with the session.
        let _radios =
            side.heeds().then(|| radio::follow(&ends.client, &side.relay, &side.plan.scenario.paths));
        let sampling = tokio::spawn(side.clone().sample(ends.clone()));
        let arriving = tokio::spawn(side.clone().take_frames(ends.receiver.clone()));
        let changing = tokio::spawn(side.clone().take_changes(ends.sender.clone()));
        let (sent, mut fates) = side.send_frames(&ends.sender, &clip, ladder.as_deref(), stopped).await?;
        // Frames have their deadline; those without one are cut off.
        let tail =
            side.plan.video.deadline.map_or(TAIL, squall_units::Span::duration) + Duration::from_secs(1);
        let _ = ends.sender.finish(tail).await;
        while let Some(noted) = fates.join_next().await {
            noted?;
        }
        changing.await?;
        let _ = tokio::time::timeout(Duration::from_secs(1), arriving).await;
        sampling.abort();
        let _ = sampling.await;
        side.sample_once(&ends);
        let ended_us = side.plan.captured_us(sent);
        Ok(Played { record: side.record.clone(), relay: side.relay.report(), ended_us })
    }

    /// When the first frame is captured.
    fn begin(&self) -> Instant {
        self.relay.started() + LEAD.duration()
    }

    /// Whether its encoder follows.
    pub(super) fn follows(&self) -> bool {
        self.scheduler.ends_with(FOLLOW)
    }

    /// Whether the scheduler is one that goes by radios.
    fn heeds(&self) -> bool {
        self.config.signal.is_some()
    }

    async fn connect(&self) -> anyhow::Result<Ends> {
        let client = squall::connect(self.request.clone(), self.config.clone()).await.map_err(whole)?;
        let accepted = tokio::time::timeout(HANDSHAKE, self.endpoint.accept()).await;
        let server = accepted.ok().flatten().context("the demo's server did not see its client")?;
        let (sender, receiver) = match self.plan.direction() {
            Direction::Down => (server, client.clone()),
            Direction::Up => (client.clone(), server),
        };
        Ok(Ends { sender, receiver, client })
    }

    /// Hands each frame over when its time has come, however late that is: a camera does not wait. Returns how
    /// many there were, and the tasks that note the fate of each.
    async fn send_frames(
        self: &Arc<Self>,
        sender: &Session,
        clip: &Clip,
        ladder: Option<&Ladder>,
        mut stopped: watch::Receiver<bool>,
    ) -> anyhow::Result<(u64, JoinSet<()>)> {
        let mut fates = JoinSet::new();
        let mut climb = ladder.map(Ladder::climb);
        let interval = Duration::from_secs_f64(1.0 / f64::from(self.plan.video.fps));
        let mut clock = tokio::time::interval_at(self.begin().into(), interval);
        clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
        for index in 0..self.plan.frames {
            tokio::select! {
                _ = clock.tick() => {}
                _ = stopped.wait_for(|stop| *stop) => return Ok((index, fates)),
            }
            let frame = match &mut climb {
                Some(climb) => climb.frame(index, sender.capacity().safe),
                None => clip.frame(index),
            };
            let data = frame::encode(&frame);
            lock(&self.record).on_captured(&self.plan, &frame, data.len() as u64);
            match sender.try_send(self.block(data, frame.kind)) {
                Ok(handle) => {
                    let side = self.clone();
                    fates.spawn(async move {
                        let fate = handle.await;
                        lock(&side.record).on_fate(index, &fate);
                    });
                }
                Err(SendError::Full(_)) => lock(&self.record).on_lost(index, LostReason::Refused),
                Err(error) => return Err(error).context(format!("frame {index}")),
            }
        }
        Ok((self.plan.frames, fates))
    }

    fn block(&self, data: bytes::Bytes, kind: FrameKind) -> Block {
        let (priority, reliable) = self.plan.class(kind);
        let mut block = Block::new(data).priority(Priority::new(priority));
        block.deadline = self.plan.video.deadline.map(squall_units::Span::duration);
        block.reliable = reliable;
        block
    }

    /// The receiving application.
    async fn take_frames(self: Arc<Self>, receiver: Session) {
        while let Some(block) = receiver.recv().await {
            if let Some(frame) = frame::decode(&block.data) {
                let captured_us = self.plan.captured_us(frame.index);
                lock(&self.record).on_arrived(block.whole_at, captured_us, frame);
            }
        }
    }

    /// The sender's view of its paths.
    async fn take_changes(self: Arc<Self>, sender: Session) {
        while let Some(event) = sender.path_event().await {
            self.on_path(event.path, &event.change);
        }
    }

    /// Notes a change between two samples.
    fn on_path(&self, id: PathId, change: &PathChange) {
        let Some(path) = lock(&self.paths).get(&id).copied() else { return };
        if let PathChange::Signal { kind, .. } = change {
            lock(&self.record).on_alert(path, Instant::now(), *kind);
        }
        let state = match change {
            PathChange::Up(_) | PathChange::Readmitted { .. } => PathState::Active,
            PathChange::Suspected { .. } | PathChange::Narrow => PathState::Suspect,
            PathChange::Down => PathState::Closed,
            PathChange::Signal { kind: AlertKind::Outage, .. } => PathState::Deactivated,
            PathChange::Signal { kind: AlertKind::Recovery, .. } => PathState::Active,
            _ => return,
        };
        lock(&self.record).on_state(path, Instant::now(), state);
    }

    /// Reads all counters at a steady pace.
    async fn sample(self: Arc<Self>, ends: Arc<Ends>) {
        let mut clock = tokio::time::interval(SAMPLE);
        clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            clock.tick().await;
            self.sample_once(&ends);
        }
    }

    fn sample_once(&self, ends: &Ends) {
        let now = |(path, snapshot)| {
            let (reading, air) = (self.relay.signal(path), self.relay.air(path));
            LinkNow { snapshot, reading, air }
        };
        let links: Vec<_> = self.relay.snapshot().into_iter().enumerate().map(now).collect();
        // The client sends to the relays, so it knows which path is which; both ends number them alike.
        let relay_of = |info: &PathInfo| (0..links.len()).find(|p| self.relay.address(*p) == info.remote);
        let clients = ends.client.path_stats();
        let places: HashMap<u32, usize> =
            clients.iter().filter_map(|info| Some((info.stats.number, relay_of(info)?))).collect();
        let placed = |info: PathInfo| Some((*places.get(&info.stats.number)?, info));
        let sending: Vec<_> = ends.sender.path_stats().into_iter().filter_map(placed).collect();
        let receiving: Vec<_> = ends.receiver.path_stats().into_iter().filter_map(placed).collect();
        lock(&self.paths).extend(sending.iter().map(|(path, info)| (info.id, *path)));
        lock(&self.record).on_sample(Instant::now(), &links, &sending, &receiving);
    }
}

/// A panic elsewhere does not make what is measured wrong.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
