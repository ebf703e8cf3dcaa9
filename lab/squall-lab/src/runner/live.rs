//! Runs a scenario in real time: real sessions over UDP sockets, through emulated links on loopback
//! addresses.
//!
//! The same [`Application`] submits the blocks as in virtual time, and the same recorder takes
//! their outcomes. The links start [`LEAD`] before the flows, in the initial state of their script,
//! so that the handshake is complete by then.

use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use squall::{
    Arrival, BlockHandle, BlockWriter, Config, Connect, ConnectError, Endpoint, Identity, IdentityError,
    Interfaces, ListenError, Session, TlsError, Trust, UnknownInterface,
    signal::{QualityIndex, board},
};
use squall_net::{Direction, LinkState, Relay, RelayReport, live::PathSnapshot, radio::Air};
use squall_proto::{
    ArrivalLog, Block, BlockOptions, Channel, Event, Interface, NetPath, OpenError, PacketLog, PathStats,
    SendError, sched::BlockId,
};
use squall_sched::Registry;
use squall_trace::Micros;
use squall_units::Span;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep_until, timeout},
};

use super::{
    RunError,
    application::Application,
    course,
    ends::{Ends, allowed},
    source::sender,
};

use crate::result::{LatencyPoint, PathSeries, PathState, Recorder, RunResult, SAMPLE_INTERVAL_US, Tally};
use crate::scenario::Scenario;
use crate::traffic::{Allowed, Follow};
use crate::world::Side;

/// Time from the start of the links to the first block.
const LEAD: Span = Span::from_millis(1_000);

/// Timeout of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Extra time for blocks in flight after the last one was submitted, beyond the longest deadline (2
/// s for flows without one).
const TAIL: Duration = Duration::from_secs(1);

/// Reasons why a live run failed.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The scheduler is wrong, or another problem that exists in virtual time, too.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The server's certificate could not be created.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The certificate is unusable.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The server could not be started.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The links could not be started.
    #[error("cannot start the emulated links: {0}")]
    Links(#[from] std::io::Error),
    /// The session was not established.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The server did not accept the client's session.
    #[error("the server did not see its client")]
    NotAccepted,
    /// The client has no such interface.
    #[error(transparent)]
    Interface(#[from] UnknownInterface),
}

/// A run in real time, whose links have started.
pub struct LiveRun {
    scenario: Arc<Scenario>,
    scheduler: String,
    seed: u64,
    registry: Arc<Registry>,
    config: Config,
    relay: Arc<Relay>,
    endpoint: Endpoint,
    request: Connect,
    status: watch::Sender<Status>,
}

/// Outside view of a live run.
#[derive(Clone, Debug)]
pub struct View {
    /// Scheduler label as requested.
    pub scheduler: String,
    /// The session uses the radios.
    pub uses_radios: bool,
    /// Start of the flows.
    pub begin: Instant,
    /// Status after each sample.
    pub status: watch::Receiver<Status>,
}

/// Status of a live run at its latest sample.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Time in microseconds from the start of the flows.
    pub at_us: u64,
    /// Tally of the first flow's blocks.
    pub tally: Tally,
    /// Latencies of the first flow's blocks.
    pub latencies: Vec<LatencyPoint>,
    /// Paths in the order of the scenario.
    pub paths: Vec<PathStatus>,
    /// Emulation slip: 99 % of the datagrams left the emulation at most this much late, in
    /// microseconds.
    pub slip_us: u64,
}

/// Status of a path in a live run.
#[derive(Clone, Debug)]
pub struct PathStatus {
    /// State from the sender's view.
    pub state: PathState,
    /// All samples so far.
    pub series: PathSeries,
    /// Quality index of the radio's latest report, even if the session does not use it.
    pub quality: Option<f64>,
    /// True radio conditions that the link follows, if it has a radio.
    pub air: Option<Air>,
}

impl LiveRun {
    /// Starts the links and the server. Must be called within a runtime.
    ///
    /// # Errors
    /// If the scheduler does not exist, the links cannot be built, or the system has no sockets
    /// left.
    pub fn start(
        scenario: &Arc<Scenario>,
        scheduler: &str,
        seed: u64,
        registry: &Arc<Registry>,
    ) -> Result<Self, LiveError> {
        let config = course::config(scenario, scheduler, registry, None)?;
        let config = config.connect_timeout(HANDSHAKE);
        let identity = Identity::self_signed("localhost")?;
        let endpoint = Endpoint::listen("127.0.0.1:0", &identity.server_tls()?, config.clone())?;
        let server = endpoint.local_addrs()[0];
        let paths: Vec<_> = scenario.paths.iter().map(|path| path.delayed(LEAD)).collect();
        let relay = Relay::start(&paths, server, seed)?;
        let pairs = (0..paths.len()).map(|path| (SocketAddr::from((local(path), 0)), relay.address(path)));
        let request = Connect::to(server)
            .server_name("localhost")
            .trust(Trust::Pinned(identity.fingerprint()))
            .interfaces(Interfaces::Pairs(pairs.collect()));
        let (scenario, scheduler) = (scenario.clone(), scheduler.to_owned());
        let (relay, status) = (Arc::new(relay), watch::Sender::default());
        let registry = registry.clone();
        Ok(Self { scenario, scheduler, seed, registry, config, relay, endpoint, request, status })
    }

    /// Returns a view of the run.
    pub fn view(&self) -> View {
        View {
            scheduler: self.scheduler.clone(),
            uses_radios: self.config.signal.is_some(),
            begin: self.relay.started() + LEAD.duration(),
            status: self.status.subscribe(),
        }
    }

    /// Connects, and runs until the end of the scenario or until `stopped` is true. Checks are not
    /// evaluated.
    ///
    /// # Errors
    /// If the session is not established.
    pub async fn run(self, stopped: watch::Receiver<bool>) -> Result<(RunResult, RelayReport), LiveError> {
        let client = squall::connect(self.request.clone().config(self.config.clone())).await?;
        let accepted = timeout(HANDSHAKE, self.endpoint.accept()).await;
        let server = accepted.ok().flatten().ok_or(LiveError::NotAccepted)?;
        for (path, config) in self.scenario.paths.iter().enumerate() {
            client.interface(&local(path).to_string())?.set_metered(config.metered);
        }
        let radios =
            if self.config.signal.is_some() { self.publish_radios(&client)? } else { JoinSet::new() };
        let (give, events) = mpsc::unbounded_channel();
        let recorder = Recorder::new(self.scenario.unmeasured(&self.scheduler, self.seed));
        let application =
            Application::new(&self.scenario, &self.scheduler, self.seed, recorder, &self.registry)
                .map_err(|source| RunError::Scheduler { scenario: self.scenario.name.clone(), source })?;
        let live = Live::new(&self, [client, server], give);
        let result = live.run(&self, application, events, stopped).await;
        drop(radios);
        Ok((result, self.relay.report()))
    }

    /// Publishes the radio of each path that has one to the client, until the tasks are dropped.
    fn publish_radios(&self, client: &Session) -> Result<JoinSet<()>, LiveError> {
        let mut tasks = JoinSet::new();
        for (path, config) in self.scenario.paths.iter().enumerate() {
            let Some(radio) = &config.radio else { continue };
            let (mut publisher, subscriber) = board();
            client.set_signal(&local(path).to_string(), Some(subscriber));
            let (relay, mut clock) = (self.relay.clone(), interval(radio.capture.duration()));
            clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
            tasks.spawn(async move {
                loop {
                    clock.tick().await;
                    if let Some(reading) = relay.signal(path) {
                        publisher.publish(&reading);
                    }
                }
            });
        }
        Ok(tasks)
    }
}

/// Event at one end of the session.
type Happened = (Instant, Side, Event);

/// Both ends of a running session.
struct Live {
    /// Sessions of the client and the server.
    sessions: [Session; 2],
    relay: Arc<Relay>,
    /// Start of the flows.
    begin: Instant,
    /// Time of the event that is being handled.
    now: Instant,
    give: mpsc::UnboundedSender<Happened>,
    /// Tasks that wait for events and outcomes.
    tasks: JoinSet<()>,
    growing: [HashMap<BlockId, BlockWriter>; 2],
    /// State of the links at the latest sample.
    links: Vec<PathSnapshot>,
}

impl Live {
    fn new(run: &LiveRun, sessions: [Session; 2], give: mpsc::UnboundedSender<Happened>) -> Self {
        let mut live = Self {
            sessions,
            relay: run.relay.clone(),
            begin: run.relay.started() + LEAD.duration(),
            now: run.relay.started(),
            give,
            tasks: JoinSet::new(),
            growing: Default::default(),
            links: run.relay.snapshot(),
        };
        for side in [Side::Client, Side::Server] {
            live.pass_on(side);
        }
        live
    }

    /// Forwards the events of one end.
    fn pass_on(&mut self, side: Side) {
        let (session, give) = (self.sessions[side as usize].clone(), self.give.clone());
        self.tasks.spawn(async move {
            while let Ok(Some(arrival)) = session.recv_any().await {
                let event = match arrival {
                    Arrival::Block(block) => (block.whole_at, side, Event::Received(block)),
                    Arrival::Missed(block) => {
                        let squall::MissedBlock { id, channel, priority, why, .. } = block;
                        (Instant::now(), side, Event::Missed { id, channel, priority, why })
                    }
                    _ => continue,
                };
                let _ = give.send(event);
            }
        });
        let (session, give) = (self.sessions[side as usize].clone(), self.give.clone());
        self.tasks.spawn(async move {
            while let Some(event) = session.path_event().await {
                // The remote address is enough for `path_of` to identify the path.
                let change = event.change.with_local(|_| Interface(0));
                let _ = give.send((Instant::now(), side, Event::Path(event.path, change)));
            }
            let _ = give.send((Instant::now(), side, Event::Closed(session.closed().await)));
        });
    }

    /// Forwards the outcome of a block.
    fn await_outcome(&mut self, side: Side, handle: BlockHandle) {
        let give = self.give.clone();
        self.tasks.spawn(async move {
            let id = handle.id();
            let outcome = handle.await;
            let _ = give.send((Instant::now(), side, Event::Ended { id, outcome }));
        });
        // Reap finished tasks.
        while self.tasks.try_join_next().is_some() {}
    }

    async fn run(
        mut self,
        run: &LiveRun,
        mut application: Application,
        mut events: mpsc::UnboundedReceiver<Happened>,
        mut stopped: watch::Receiver<bool>,
    ) -> RunResult {
        while Instant::now() < self.begin {
            self.events(&mut application, &mut events, self.begin).await;
        }
        self.now = self.begin;
        application.begin(&mut self);
        let (end_us, mut next_sample) = (run.scenario.duration_us, SAMPLE_INTERVAL_US);
        let ended_us = loop {
            self.now = Instant::now();
            let now_us = self.since_begin();
            application.offer(&mut self);
            if now_us >= next_sample {
                self.sample(&mut application, run);
                next_sample = now_us - now_us % SAMPLE_INTERVAL_US + SAMPLE_INTERVAL_US;
            }
            if now_us >= end_us {
                break end_us;
            }
            let next = application.next_offer(now_us).unwrap_or(u64::MAX).min(next_sample).min(end_us);
            let next = self.begin + Duration::from_micros(next);
            tokio::select! {
                () = self.events(&mut application, &mut events, next) => {}
                _ = stopped.wait_for(|stop| *stop) => break now_us,
            }
        };
        self.finish(run, &mut application, &mut events).await;
        self.sample(&mut application, run);
        application.finish(ended_us).0
    }

    /// Waits for blocks in flight. They end by their deadline; blocks without one are cut off.
    async fn finish(
        &mut self,
        run: &LiveRun,
        application: &mut Application,
        events: &mut mpsc::UnboundedReceiver<Happened>,
    ) {
        let deadlines = run.scenario.flows.iter().map(|flow| flow.traffic.deadline_us().unwrap_or(2_000_000));
        let longest = Duration::from_micros(deadlines.max().unwrap_or(0));
        let session = self.sessions[sender(run.scenario.direction()) as usize].clone();
        let mut end = tokio::spawn(async move { session.finish(longest + TAIL).await.is_ok() });
        while !end.is_finished() {
            let later = Instant::now() + Duration::from_millis(20);
            self.events(application, events, later).await;
        }
        let _ = (&mut end).await;
        let soon = Instant::now() + Duration::from_millis(50);
        self.events(application, events, soon).await;
        self.now = Instant::now();
    }

    /// Handles events until this time, or until a flow that waited for an event has a block.
    async fn events(
        &mut self,
        application: &mut Application,
        events: &mut mpsc::UnboundedReceiver<Happened>,
        until: Instant,
    ) {
        loop {
            tokio::select! {
                biased;
                Some((at, side, event)) = events.recv() => {
                    // Events from before the flows, if delayed, count from the start of the flows.
                    self.now = if Instant::now() < self.begin { at } else { at.max(self.begin) };
                    application.on_event(self, side, event);
                    if application.has_news() {
                        return;
                    }
                }
                () = sleep_until(until.into()) => return,
            }
        }
    }

    fn since_begin(&self) -> u64 {
        self.now.saturating_duration_since(self.begin).as_micros() as u64
    }

    /// Samples all paths for the record and for the views.
    fn sample(&mut self, application: &mut Application, run: &LiveRun) {
        self.links = self.relay.snapshot();
        application.sample(self);
        let recorder = application.recorder();
        let path = |index: usize| {
            let path = &recorder.paths[index].result;
            let reading = self.relay.signal(index);
            PathStatus {
                state: path.states.last().map_or(PathState::Opening, |last| last.state),
                series: path.series.clone(),
                quality: reading.and_then(|reading| QualityIndex::default().base(&reading)),
                air: self.relay.air(index),
            }
        };
        let at_us = self.since_begin();
        // Once a second only, because it locks the links.
        let slip_us = if at_us % 1_000_000 < SAMPLE_INTERVAL_US {
            self.relay.report().live.slip.p99
        } else {
            run.status.borrow().slip_us
        };
        run.status.send_replace(Status {
            at_us,
            tally: recorder.flows[0].total(),
            latencies: recorder.flows[0].latencies(),
            paths: (0..self.links.len()).map(path).collect(),
            slip_us,
        });
    }
}

impl Ends for Live {
    fn now(&self) -> Micros {
        self.micros(self.now)
    }

    fn micros(&self, at: Instant) -> Micros {
        at.saturating_duration_since(self.relay.started()).as_micros() as Micros
    }

    fn send(&mut self, side: Side, block: Block) -> Result<BlockId, SendError> {
        let handle = self.sessions[side as usize].try_send(block)?;
        let id = handle.id();
        self.await_outcome(side, handle);
        Ok(id)
    }

    fn open(&mut self, side: Side, options: &BlockOptions) -> Result<BlockId, OpenError> {
        let writer = self.sessions[side as usize].try_open(options)?;
        let id = writer.id();
        self.growing[side as usize].insert(id, writer);
        Ok(id)
    }

    fn append(&mut self, side: Side, block: BlockId, data: Bytes, is_last: bool) {
        let Some(mut writer) = self.growing[side as usize].remove(&block) else { return };
        match writer.try_append(data) {
            Ok(()) if !is_last => _ = self.growing[side as usize].insert(block, writer),
            Ok(()) => _ = writer.finish().map(|handle| self.await_outcome(side, handle)),
            Err(_) => self.await_outcome(side, writer.cancel()),
        }
    }

    fn set_channel_weight(&mut self, side: Side, channel: Channel, weight: u16) {
        // A closed session ignores it.
        let _ = self.sessions[side as usize].set_channel_weight(channel, weight);
    }

    fn allowed(&mut self, side: Side, follow: Follow) -> Allowed {
        let session = &self.sessions[side as usize];
        allowed(follow, &session.capacity(), |within, probability| session.deliverable(within, probability))
    }

    /// Not recorded by real sessions.
    fn take_arrivals(&mut self, _: Side) -> Vec<ArrivalLog> {
        Vec::new()
    }

    fn take_packets(&mut self, _: Side) -> Vec<PacketLog> {
        Vec::new()
    }

    fn path_of(&self, side: Side, net: NetPath) -> Option<usize> {
        let of_client = |remote| (0..self.links.len()).find(|path| self.relay.address(*path) == remote);
        match side {
            Side::Client => of_client(net.remote),
            // A path has the same number at both ends, and the client sends to its link.
            Side::Server => {
                let server = self.sessions[1].paths();
                let number = server.iter().rfind(|path| path.remote == net.remote)?.stats.number;
                let client = self.sessions[0].paths();
                of_client(client.iter().find(|path| path.stats.number == number)?.remote)
            }
        }
    }

    fn paths(&mut self, side: Side) -> Vec<(usize, PathStats)> {
        let place = |path: squall::PathInfo| {
            let net = NetPath { local: Interface(0), remote: path.remote };
            Some((self.path_of(side, net)?, path.stats))
        };
        self.sessions[side as usize].paths().into_iter().filter_map(place).collect()
    }

    fn link(&mut self, path: usize, direction: Direction) -> LinkState {
        match direction {
            Direction::Down => self.links[path].down,
            Direction::Up => self.links[path].up,
        }
    }

    fn signal_bias(&mut self, _: usize) -> Option<f64> {
        None
    }
}

/// The client's own address on each path, which identifies its radios.
fn local(path: usize) -> Ipv4Addr {
    // At most eight paths exist.
    Ipv4Addr::new(127, 0, 0, 2 + path as u8)
}
