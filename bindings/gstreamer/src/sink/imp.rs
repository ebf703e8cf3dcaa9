//! The element: properties, states, and processing of buffers.

use std::{
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
        mpsc::{Sender, channel},
    },
    time::{Duration, Instant},
};

use gstreamer::{self as gst, glib, prelude::*, subclass::prelude::*};
use gstreamer_base::{self as gst_base, prelude::*, subclass::prelude::*};
use squall::{Block, BlockOptions, Channel, Outcome, SendError, Session};

use super::{
    SquallSink as Element, bitrate,
    outlet::Outlet,
    stream::{Outgoing, Stream, Times},
};
use crate::{
    LOG, caps,
    class::{Class, Media},
    counters,
    encoder::Encoder,
    frame::Frame,
    hello::{Message, Role},
    link::{End, Link, MALFORMED},
    settings::{self, Fault, Settings},
};

/// Minimum interval between requests of key pictures after losses.
const KEY_PAUSE: Duration = Duration::from_millis(500);

/// Minimum interval between warnings about late buffers.
const LATE_PAUSE: Duration = Duration::from_secs(10);

/// Time for data in flight beyond its deadline at the end of the stream.
const GRACE: Duration = Duration::from_secs(1);

/// Duration of a frame, if the caps have no rate.
const FRAME: Duration = Duration::from_millis(33);

/// The channel of the stream; the greeting and requests use channel 0.
const MEDIA: Channel = Channel::new(1);

/// A request to the elements upstream.
pub(crate) enum Upstream {
    Key,
}

#[derive(Default)]
pub struct SquallSink {
    settings: Mutex<Own>,
    link: Mutex<Option<Link>>,
    outlet: Arc<Outlet>,
    stream: Mutex<Stream>,
    upstream: Arc<Mutex<Option<Sender<Upstream>>>>,
    encoder: Mutex<Option<Encoder>>,
    /// Bits per second; 0 until the session has measurements.
    bitrate: AtomicU32,
    frame_us: AtomicU64,
    counts: Arc<Counts>,
    has_ended: AtomicBool,
}

#[derive(Default)]
struct Own {
    shared: Settings,
    encoder: Option<String>,
    least: u32,
    most: u32,
}

#[derive(Default)]
struct Counts {
    late: AtomicU64,
    unsent: AtomicU64,
    /// Bytes of the blocks that were sent.
    bytes: AtomicU64,
    keys: AtomicU64,
    last_key: Mutex<Option<Instant>>,
    last_late: Mutex<Option<Instant>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[glib::object_subclass]
impl ObjectSubclass for SquallSink {
    const NAME: &'static str = "SquallSink";
    type Type = Element;
    type ParentType = gst_base::BaseSink;
}

const LEAST: u32 = 100_000;

impl ObjectImpl for SquallSink {
    fn constructed(&self) {
        self.parent_constructed();
        lock(&self.settings).least = LEAST;
        lock(&self.settings).most = u32::MAX;
        self.frame_us.store(FRAME.as_micros() as u64, Relaxed);
        // The network does not render, so it needs no time for that.
        self.obj().set_processing_deadline(gst::ClockTime::ZERO);
    }

    fn properties() -> &'static [glib::ParamSpec] {
        static PROPERTIES: LazyLock<Vec<glib::ParamSpec>> = LazyLock::new(|| {
            let rate = |name: &str, blurb: &str, default| {
                let spec = glib::ParamSpecUInt::builder(name).blurb(blurb).minimum(1).default_value(default);
                spec.mutable_playing().build()
            };
            let mut properties = settings::properties();
            properties.extend([
                glib::ParamSpecUInt::builder("estimated-bitrate")
                    .blurb("Bits per second that the networks can carry, with notify; 0 until measured")
                    .read_only()
                    .build(),
                glib::ParamSpecString::builder("encoder")
                    .blurb("Name of the encoder whose bitrate follows; NAME.PROPERTY/UNIT if it is not known")
                    .mutable_ready()
                    .build(),
                rate("encoder-min-bitrate", "Smallest bitrate of the encoder in bits per second", LEAST),
                rate("encoder-max-bitrate", "Largest bitrate of the encoder in bits per second", u32::MAX),
            ]);
            properties
        });
        &PROPERTIES
    }

    fn set_property(&self, _id: usize, value: &glib::Value, spec: &glib::ParamSpec) {
        let mut settings = lock(&self.settings);
        match spec.name() {
            "encoder" => settings.encoder = value.get().unwrap_or_default(),
            "encoder-min-bitrate" => settings.least = value.get().unwrap_or(LEAST),
            "encoder-max-bitrate" => settings.most = value.get().unwrap_or(u32::MAX),
            name => {
                settings.shared.set(name, value);
            }
        }
    }

    fn property(&self, _id: usize, spec: &glib::ParamSpec) -> glib::Value {
        match spec.name() {
            "estimated-bitrate" => self.bitrate.load(Relaxed).to_value(),
            "stats" => self.stats().to_value(),
            "own-fingerprint" => {
                let link = lock(&self.link);
                link.as_ref().and_then(|link| link.fingerprint).map(|print| print.to_string()).to_value()
            }
            "encoder" => lock(&self.settings).encoder.to_value(),
            "encoder-min-bitrate" => lock(&self.settings).least.to_value(),
            "encoder-max-bitrate" => lock(&self.settings).most.to_value(),
            name => lock(&self.settings).shared.get(name).unwrap_or_else(|| None::<String>.to_value()),
        }
    }
}

impl GstObjectImpl for SquallSink {}

impl ElementImpl for SquallSink {
    fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
        static METADATA: LazyLock<gst::subclass::ElementMetadata> = LazyLock::new(|| {
            gst::subclass::ElementMetadata::new(
                "Squall sink",
                "Sink/Network",
                "Sends an encoded stream over every network of the device",
                "The authors of Squall",
            )
        });
        Some(&METADATA)
    }

    fn pad_templates() -> &'static [gst::PadTemplate] {
        static TEMPLATES: LazyLock<Vec<gst::PadTemplate>> = LazyLock::new(|| {
            let (direction, presence) = (gst::PadDirection::Sink, gst::PadPresence::Always);
            gst::PadTemplate::new("sink", direction, presence, &caps::template()).into_iter().collect()
        });
        &TEMPLATES
    }

    /// Used instead of `start`, after whose failure the base class posts its own error.
    fn change_state(
        &self,
        change: gst::StateChange,
    ) -> Result<gst::StateChangeSuccess, gst::StateChangeError> {
        if change == gst::StateChange::ReadyToPaused {
            self.open().map_err(|fault| {
                gst::element_imp_error!(self, gst::ResourceError::Settings, ("{fault}"));
                gst::StateChangeError
            })?;
        }
        let changed = self.parent_change_state(change);
        if change == gst::StateChange::PausedToReady || changed.is_err() {
            self.close();
        }
        changed
    }
}

impl SquallSink {
    fn open(&self) -> Result<(), Fault> {
        let (settings, encoder) = {
            let own = lock(&self.settings);
            (own.shared.clone(), own.encoder.clone())
        };
        let element = self.obj().clone();
        let encoder = encoder.filter(|name| !name.is_empty());
        let encoder = encoder.map(|name| Encoder::find(element.upcast_ref(), &name)).transpose();
        *lock(&self.encoder) = encoder?;
        self.outlet.reset();
        self.has_ended.store(false, Relaxed);
        *lock(&self.stream) = Stream::default();
        let link = Link::start(&settings, Arc::new(Handle(element.downgrade())))?;
        for address in &link.listens_on {
            gst::info!(LOG, imp = self, "listening on {address}");
        }
        *lock(&self.link) = Some(link);
        self.obj().notify("own-fingerprint");
        let (sender, commands) = channel();
        *lock(&self.upstream) = Some(sender);
        let follow = move || bitrate::follow(&element.downgrade(), &commands);
        let thread = std::thread::Builder::new().name("squall-bitrate".to_owned()).spawn(follow);
        thread.map(drop).map_err(|error| Fault::new("estimated-bitrate", format!("no thread: {error}")))
    }

    fn close(&self) {
        lock(&self.upstream).take();
        self.outlet.shut();
        let link = lock(&self.link).take();
        if let Some(link) = link {
            link.close();
        }
        lock(&self.encoder).take();
        self.bitrate.store(0, Relaxed);
    }
}

impl BaseSinkImpl for SquallSink {
    fn set_caps(&self, caps: &gst::Caps) -> Result<(), gst::LoggableError> {
        let set = lock(&self.stream).set_caps(caps);
        set.map_err(|line| gst::loggable_error!(LOG, "{line}"))?;
        let rate = caps.structure(0).and_then(|caps| caps.get::<gst::Fraction>("framerate").ok());
        let frame = rate
            .filter(|rate| rate.numer() > 0)
            .map_or(FRAME, |rate| Duration::from_secs_f64(f64::from(rate.denom()) / f64::from(rate.numer())));
        self.frame_us.store(u64::try_from(frame.as_micros()).unwrap_or(u64::MAX), Relaxed);
        Ok(())
    }

    fn render(&self, buffer: &gst::Buffer) -> Result<gst::FlowSuccess, gst::FlowError> {
        if self.outlet.has_failed() {
            return Err(gst::FlowError::Error);
        }
        let latency = Duration::from_millis(u64::from(lock(&self.settings).shared.latency_ms));
        let (mut times, late) = self.times(buffer);
        let left = i64::try_from(latency.as_nanos()).unwrap_or(i64::MAX).saturating_sub(late);
        let left = Duration::from_nanos(u64::try_from(left).unwrap_or(0));
        let mut stream = lock(&self.stream);
        if left.is_zero() {
            self.counts.late.fetch_add(1, Relaxed);
            stream.skip(Class::Reference);
            drop(stream);
            self.warn_of_late(late);
            return Ok(gst::FlowSuccess::Ok);
        }
        let begun = Instant::now();
        let Some((session, number)) = self.outlet.session_within(left) else {
            self.counts.unsent.fetch_add(1, Relaxed);
            stream.skip(Class::Reference);
            return if self.outlet.is_interrupted() {
                Err(gst::FlowError::Flushing)
            } else {
                Ok(gst::FlowSuccess::Ok)
            };
        };
        // The call may have waited for the session.
        times.sent += i64::try_from(begun.elapsed().as_nanos()).unwrap_or(0);
        let outgoing = stream.encode(number, buffer, times).map_err(|error| {
            gst::element_imp_error!(self, gst::StreamError::Failed, ("a buffer cannot be read: {error}"));
            gst::FlowError::Error
        })?;
        let Some(outgoing) = outgoing else {
            self.counts.unsent.fetch_add(1, Relaxed);
            self.counts.request_key(&self.upstream);
            return Ok(gst::FlowSuccess::Ok);
        };
        let class = outgoing.class;
        if !self.send(&session, outgoing, begun + left)? {
            stream.skip(class);
            self.counts.unsent.fetch_add(1, Relaxed);
        }
        Ok(gst::FlowSuccess::Ok)
    }

    fn event(&self, event: gst::Event) -> bool {
        if event.type_() == gst::EventType::Eos {
            self.finish();
        }
        self.parent_event(event)
    }

    fn unlock(&self) -> Result<(), gst::ErrorMessage> {
        self.outlet.interrupt(true);
        Ok(())
    }

    fn unlock_stop(&self) -> Result<(), gst::ErrorMessage> {
        self.outlet.interrupt(false);
        Ok(())
    }
}

impl SquallSink {
    /// Returns the times of a buffer, and the time since it was due to be shown here, in
    /// nanoseconds.
    fn times(&self, buffer: &gst::Buffer) -> (Times, i64) {
        let element = self.obj();
        let segment = element.segment();
        let latency = signed(Some(element.latency())).unwrap_or(0);
        let shown = |time: Option<gst::ClockTime>| {
            let time = segment.downcast_ref::<gst::ClockTime>()?.to_running_time_full(time?)?;
            let nanos = i64::try_from(time.abs().nseconds()).ok()?;
            Some(if time.is_negative() { -nanos } else { nanos }.saturating_add(latency))
        };
        let now = signed(element.current_running_time());
        let (pts, dts) = (shown(buffer.pts()), shown(buffer.dts()));
        let due = dts.or(pts);
        let late = now.zip(due).map_or(0, |(now, due)| now.saturating_sub(due));
        (Times { sent: now.or(due).unwrap_or(0), pts, dts }, late)
    }

    /// Warns about late buffers: a pipeline that is too slow drops all of them.
    fn warn_of_late(&self, late: i64) {
        let mut last = lock(&self.counts.last_late);
        if last.is_none_or(|last| last.elapsed() >= LATE_PAUSE) {
            *last = Some(Instant::now());
            let line = "buffers reach the sink after their deadline: the elements before it take longer than their latency says";
            gst::element_imp_warning!(self, gst::StreamError::Failed, ("{line} ({} ms)", late / 1_000_000));
        }
    }

    /// Sends a block; waits for room until it is worthless. Returns `true` if it was sent.
    fn send(&self, session: &Session, outgoing: Outgoing, end: Instant) -> Result<bool, gst::FlowError> {
        let Outgoing { block, class, depends, caps, media } = outgoing;
        let len = block.len();
        let mut block = Block::with(
            block,
            BlockOptions::new().channel(MEDIA).priority(class.priority()).depends(depends).ordered(true),
        );
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            block.options.deadline = Some(left);
            block = match session.try_send(block) {
                Ok(handle) => {
                    self.counts.bytes.fetch_add(len as u64, Relaxed);
                    if caps.is_some() || media == Media::Video && class.is_needed() {
                        self.watch(handle, caps, media == Media::Video && class.is_needed());
                    }
                    return Ok(true);
                }
                Err(SendError::Full(back)) => *back,
                Err(SendError::TooLarge { .. }) => {
                    gst::element_imp_warning!(
                        self,
                        gst::StreamError::Failed,
                        ("a buffer of {len} bytes is too large")
                    );
                    return Ok(false);
                }
                Err(_) => return Ok(false),
            };
            let waiting = session.clone();
            self.outlet.wait(left, async move { waiting.writable().await });
            if self.outlet.is_interrupted() {
                return Err(gst::FlowError::Flushing);
            }
        }
    }

    /// Records that the peer has the caps, or requests a key picture if a required picture does not
    /// arrive.
    fn watch(&self, handle: squall::BlockHandle, caps: Option<(Arc<AtomicU32>, u32)>, is_needed: bool) {
        let (counts, upstream) = (self.counts.clone(), self.upstream.clone());
        let Ok(runtime) = squall_bindings::runtime() else { return };
        runtime.spawn(async move {
            match (handle.await, caps) {
                (Outcome::Delivered { .. }, Some((known, generation))) => known.store(generation, Relaxed),
                (Outcome::Delivered { .. } | Outcome::SessionClosed, _) => {}
                _ if is_needed => counts.request_key(&upstream),
                _ => {}
            }
        });
    }

    /// Ends the stream: waits until all data in flight has arrived or is worthless.
    fn finish(&self) {
        let Some(session) = self.outlet.session() else { return };
        self.has_ended.store(true, Relaxed);
        let end = Frame::End(lock(&self.stream).number()).encode();
        if session.try_send(Block::with(end, BlockOptions::new().channel(MEDIA).ordered(true))).is_err() {
            return;
        }
        let latency = Duration::from_millis(u64::from(lock(&self.settings).shared.latency_ms));
        let time = latency + GRACE;
        self.outlet.wait(time, async move { drop(session.finish(time).await) });
    }

    fn stats(&self) -> gst::Structure {
        let session = self.outlet.session();
        counters::of_session(session.as_ref())
            .field("buffers-late", self.counts.late.load(Relaxed))
            .field("buffers-unsent", self.counts.unsent.load(Relaxed))
            .field("key-requests", self.counts.keys.load(Relaxed))
            .field("estimated-bitrate", self.bitrate.load(Relaxed))
            .build()
    }
}

impl Element {
    /// Reports the bitrate, if it has changed.
    pub(crate) fn report_bitrate(&self) {
        let imp = self.imp();
        let frame = Duration::from_micros(imp.frame_us.load(Relaxed));
        let latency = Duration::from_millis(u64::from(lock(&imp.settings).shared.latency_ms));
        let session = imp.outlet.session();
        let Some(estimate) = session.and_then(|session| bitrate::estimate(&session, frame, latency)) else {
            return;
        };
        let estimate = u32::try_from(estimate).unwrap_or(u32::MAX).max(1);
        let (least, most) = {
            let own = lock(&imp.settings);
            (own.least, own.most)
        };
        if let Some(encoder) = &mut *lock(&imp.encoder) {
            let sent = imp.counts.bytes.load(Relaxed);
            encoder.follow(estimate.into(), sent, frame, least.into(), most.into());
        }
        if !bitrate::differs(imp.bitrate.load(Relaxed), estimate) {
            return;
        }
        imp.bitrate.store(estimate, Relaxed);
        self.notify("estimated-bitrate");
    }

    /// Requests a key picture from the encoder.
    pub(crate) fn request_key(&self) {
        let request =
            gst::Structure::builder("GstForceKeyUnit").field("all-headers", true).field("count", 0_u32);
        self.sink_pad().push_event(gst::event::CustomUpstream::new(request.build()));
    }
}

impl Counts {
    fn request_key(&self, upstream: &Mutex<Option<Sender<Upstream>>>) {
        let mut last = lock(&self.last_key);
        if last.is_some_and(|last| last.elapsed() < KEY_PAUSE) {
            return;
        }
        *last = Some(Instant::now());
        self.keys.fetch_add(1, Relaxed);
        if let Some(upstream) = &*lock(upstream) {
            let _ = upstream.send(Upstream::Key);
        }
    }
}

fn signed(time: Option<gst::ClockTime>) -> Option<i64> {
    time.and_then(|time| i64::try_from(time.nseconds()).ok())
}

/// Reference to the element for its connection.
struct Handle(glib::WeakRef<Element>);

impl End for Handle {
    const ROLE: Role = Role::Sender;

    async fn serve(&self, session: Session, _latency: Duration) {
        let Some(outlet) = self.0.upgrade().map(|element| element.imp().outlet.clone()) else { return };
        outlet.open(session.clone());
        while let Ok(Some(block)) = session.recv().await {
            match Message::decode(block.data) {
                Ok(Message::Key) => {
                    let Some(element) = self.0.upgrade() else { break };
                    element.imp().counts.request_key(&element.imp().upstream);
                }
                Ok(Message::Hello(_)) => session.close(MALFORMED, "a second greeting"),
                Err(line) => session.close(MALFORMED, line),
            }
        }
        outlet.shut();
    }

    fn fault(&self, fault: Fault) {
        if let Some(element) = self.0.upgrade() {
            element.imp().outlet.fail();
            gst::element_error!(element, gst::ResourceError::Settings, ("{fault}"));
        }
    }

    fn has_ended(&self) -> bool {
        self.0.upgrade().is_none_or(|element| element.imp().has_ended.load(Relaxed))
    }

    fn warn(&self, line: &str) {
        if let Some(element) = self.0.upgrade() {
            gst::element_warning!(element, gst::ResourceError::NotFound, ("{line}"));
        }
    }
}
