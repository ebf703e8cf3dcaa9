//! One end of a flow here: its socket, which outlives sessions, and the way up into a session.

mod inlet;
mod receive;
mod registry;
mod socket;
mod uplink;

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use squall::{BlockOptions, Channel, Priority};
use tokio::{net::UdpSocket, sync::watch};

pub use self::registry::FlowError;
use self::uplink::Uplink;
pub(crate) use self::{
    registry::Registry,
    uplink::{Line, Sender},
};
use crate::{
    clock::Clock,
    config::{End, FlowConfig},
    media::{Class, Media},
    order::Rule,
    parcel::Parcel,
    status::FlowStatus,
    tally::{Fate, Tally},
};

/// One end of a flow.
#[derive(Debug)]
pub(crate) struct Flow {
    config: watch::Sender<Arc<FlowConfig>>,
    clock: Clock,
    socket: Arc<UdpSocket>,
    /// Who sent last, at an `in` end: replies go there.
    sender: Mutex<Option<SocketAddr>>,
    /// What comes in, as far as it is known: an index into [`Media::ALL`].
    media: AtomicU8,
    /// Blocks on their way.
    pending: AtomicUsize,
    uplink: Mutex<Uplink>,
    pub(crate) tally: Tally,
}

impl Flow {
    fn new(config: FlowConfig, clock: Clock, socket: Arc<UdpSocket>) -> Self {
        let media = config.media;
        let flow = Self {
            config: watch::Sender::new(Arc::new(config)),
            clock,
            socket,
            sender: Mutex::default(),
            media: AtomicU8::new(0),
            pending: AtomicUsize::new(0),
            uplink: Mutex::default(),
            tally: Tally::default(),
        };
        flow.note_media(media);
        flow
    }

    /// As it is set now.
    pub(crate) fn config(&self) -> Arc<FlowConfig> {
        self.config.borrow().clone()
    }

    /// How parcels that come from the other end leave here; `theirs` is the latency there.
    pub(crate) fn rule(&self, theirs: Duration) -> Rule {
        let config = self.config();
        let latency = crate::gather::micros(theirs);
        Rule {
            playout: config.playout,
            ordered: config.order,
            latency,
            delay: config.latency.map_or(latency, crate::gather::micros),
            max_pending: config.max_pending,
        }
    }

    /// What came in goes to the other end, now or as soon as there is a session.
    pub(crate) fn dispatch(self: &Arc<Self>, parcel: Parcel) {
        self.uplink().dispatch(self, parcel);
    }

    /// A session carries the flow from now on, unless a later one does. Whether it does.
    pub(crate) fn attach(self: &Arc<Self>, line: Line) -> bool {
        self.uplink().attach(self, line)
    }

    /// A session carries the flow no more. Whether it did.
    pub(crate) fn detach(self: &Arc<Self>, session: u64) -> bool {
        self.uplink().detach(self, session)
    }

    /// Gives up its place in a session, which another one takes.
    pub(crate) fn take_line(self: &Arc<Self>, session: u64) -> Option<Line> {
        self.uplink().take_line(self, session)
    }

    /// The session that carries it.
    pub(crate) fn carrier(&self) -> Option<u64> {
        self.uplink().carrier()
    }

    /// Blocks whose deadline passed while there was no session are given up.
    pub(crate) fn sweep(&self) {
        self.uplink().sweep(self);
    }

    /// A datagram leaves here, unless nobody sent yet to whom a reply could go, or the system refuses it. False if the
    /// system has no room for it now.
    pub(crate) fn write(&self, datagram: &[u8]) -> bool {
        let target = match self.config.borrow().end {
            End::Out(target) => Some(target),
            End::In(_) => *self.sender.lock().unwrap_or_else(PoisonError::into_inner),
        };
        let count = match target.map(|target| self.socket.try_send_to(datagram, target)) {
            Some(Ok(_)) => &self.tally.datagrams_out,
            Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Some(Err(_)) | None => &self.tally.unwritten,
        };
        count.fetch_add(1, Relaxed);
        true
    }

    /// A block has ended that was handed over.
    fn ended(&self, class: Class, fate: Fate, bytes: usize) {
        self.pending.fetch_sub(1, Relaxed);
        self.tally.ended(class, fate, bytes);
    }

    /// How the session takes a block of the flow; `None` if it is too late for it.
    fn options(&self, class: Class, stamp: u64, channel: u16) -> Option<BlockOptions> {
        let config = self.config();
        let age = Duration::from_micros(self.clock.now().saturating_sub(stamp));
        let left = config.latency_or_default().checked_sub(age).filter(|left| !left.is_zero())?;
        let mut options = BlockOptions::new()
            .channel(Channel::new(channel))
            .deadline(left)
            .priority(Priority::new((config.priority + class.rank()).min(Priority::LAST.get())));
        // The first packets of a picture have left when the last is lost, and half a picture is worse than none.
        options.unreliable = class == Class::Data && !config.reliable;
        Some(options)
    }

    fn note_media(&self, media: Media) {
        let index = Media::ALL.iter().rposition(|(_, one)| *one == media).unwrap_or(0);
        self.media.store(index as u8, Relaxed);
    }

    fn uplink(&self) -> MutexGuard<'_, Uplink> {
        self.uplink.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it is doing.
    pub(crate) fn status(&self) -> FlowStatus {
        let config = self.config();
        let (End::In(address) | End::Out(address)) = config.end;
        let media = Media::ALL.get(usize::from(self.media.load(Relaxed))).map_or("udp", |(name, _)| name);
        FlowStatus {
            name: config.name.clone(),
            end: if config.is_in() { "in" } else { "out" }.to_owned(),
            address: address.to_string(),
            media: if config.is_in() { media.to_owned() } else { "-".to_owned() },
            attached: self.carrier().is_some(),
            latency_ms: config.latency_or_default().as_millis() as u64,
            datagrams_in: self.tally.datagrams_in.load(Relaxed),
            datagrams_stale: self.tally.stale.load(Relaxed),
            datagrams_foreign: self.tally.foreign.load(Relaxed),
            datagrams_out: self.tally.datagrams_out.load(Relaxed),
            unwritten: self.tally.unwritten.load(Relaxed),
            pending: self.pending.load(Relaxed) as u64,
            sent: self.tally.sent(),
            received: self.tally.received(),
            latency: self.tally.latency(self.clock.now()),
        }
    }
}
