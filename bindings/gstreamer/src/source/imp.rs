//! The element: properties, states, and processing of buffers.

use std::{
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use gstreamer::{self as gst, glib, prelude::*, subclass::prelude::*};
use gstreamer_base::{
    self as gst_base,
    prelude::*,
    subclass::{base_src::CreateSuccess, prelude::*},
};
use squall::Session;
use squall_bindings::OfProcess;

use super::{
    SquallSrc as Element,
    inlet::{Arrived, Inlet, Item, Stop},
};
use crate::{
    LOG, caps, counters,
    frame::Flags,
    hello::{Message, Role},
    link::{End, Link, MALFORMED, message},
    settings::{self, Fault, Settings},
    timeline::Timeline,
};

#[derive(Default)]
pub struct SquallSrc {
    settings: Mutex<Settings>,
    link: Mutex<Option<Link>>,
    inlet: Arc<Inlet>,
    session: Mutex<Option<OfProcess<Session>>>,
    timeline: Mutex<Timeline>,
    /// Latency of the sender; used if it exceeds that of this element.
    latency_ms: AtomicU32,
    received: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[glib::object_subclass]
impl ObjectSubclass for SquallSrc {
    const NAME: &'static str = "SquallSrc";
    type Type = Element;
    type ParentType = gst_base::PushSrc;
}

impl ObjectImpl for SquallSrc {
    fn constructed(&self) {
        self.parent_constructed();
        let element = self.obj();
        element.set_live(true);
        element.set_format(gst::Format::Time);
    }

    fn properties() -> &'static [glib::ParamSpec] {
        static PROPERTIES: LazyLock<Vec<glib::ParamSpec>> = LazyLock::new(settings::properties);
        &PROPERTIES
    }

    fn set_property(&self, _id: usize, value: &glib::Value, spec: &glib::ParamSpec) {
        lock(&self.settings).set(spec.name(), value);
    }

    fn property(&self, _id: usize, spec: &glib::ParamSpec) -> glib::Value {
        match spec.name() {
            "stats" => self.stats().to_value(),
            "own-fingerprint" => {
                let link = lock(&self.link);
                link.as_ref().and_then(|link| link.fingerprint).map(|print| print.to_string()).to_value()
            }
            name => lock(&self.settings).get(name).unwrap_or_else(|| None::<String>.to_value()),
        }
    }
}

impl GstObjectImpl for SquallSrc {}

impl ElementImpl for SquallSrc {
    fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
        static METADATA: LazyLock<gst::subclass::ElementMetadata> = LazyLock::new(|| {
            gst::subclass::ElementMetadata::new(
                "Squall source",
                "Source/Network",
                "Receives an encoded stream that comes over several networks",
                "The authors of Squall",
            )
        });
        Some(&METADATA)
    }

    fn pad_templates() -> &'static [gst::PadTemplate] {
        static TEMPLATES: LazyLock<Vec<gst::PadTemplate>> = LazyLock::new(|| {
            let (direction, presence) = (gst::PadDirection::Src, gst::PadPresence::Always);
            gst::PadTemplate::new("src", direction, presence, &caps::template()).into_iter().collect()
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

impl SquallSrc {
    fn open(&self) -> Result<(), Fault> {
        let settings = lock(&self.settings).clone();
        self.inlet.reset();
        self.latency_ms.store(0, Relaxed);
        let element = self.obj();
        let link = Link::start(&settings, Arc::new(Handle(element.downgrade())))?;
        for address in &link.listens_on {
            gst::info!(LOG, imp = self, "listening on {address}");
        }
        *lock(&self.link) = Some(link);
        element.notify("own-fingerprint");
        Ok(())
    }

    fn session(&self) -> Option<Session> {
        lock(&self.session).as_ref()?.get("element").ok().cloned()
    }

    fn close(&self) {
        lock(&self.session).take();
        let link = lock(&self.link).take();
        if let Some(link) = link {
            link.close();
        }
        self.inlet.reset();
    }
}

impl BaseSrcImpl for SquallSrc {
    fn is_seekable(&self) -> bool {
        false
    }

    /// The peer sends the caps with the first buffer.
    fn negotiate(&self) -> Result<(), gst::LoggableError> {
        Ok(())
    }

    fn query(&self, query: &mut gst::QueryRef) -> bool {
        if let gst::QueryViewMut::Latency(query) = query.view_mut() {
            query.set(true, gst::ClockTime::from_mseconds(u64::from(self.latency())), gst::ClockTime::NONE);
            return true;
        }
        BaseSrcImplExt::parent_query(self, query)
    }

    fn event(&self, event: &gst::Event) -> bool {
        let is_request = event.type_() == gst::EventType::CustomUpstream && event.has_name("GstForceKeyUnit");
        match self.session().filter(|_| is_request) {
            Some(session) => session.try_send(message(&Message::Key)).is_ok(),
            None => BaseSrcImplExt::parent_event(self, event),
        }
    }

    fn unlock(&self) -> Result<(), gst::ErrorMessage> {
        self.inlet.flush(true);
        Ok(())
    }

    fn unlock_stop(&self) -> Result<(), gst::ErrorMessage> {
        self.inlet.flush(false);
        Ok(())
    }
}

impl PushSrcImpl for SquallSrc {
    fn create(&self, _buffer: Option<&mut gst::BufferRef>) -> Result<CreateSuccess, gst::FlowError> {
        match self.inlet.next() {
            Ok(Item::Buffer(arrived)) => self.deliver(*arrived),
            Ok(Item::End) => Err(gst::FlowError::Eos),
            Err(Stop::Flushing) => Err(gst::FlowError::Flushing),
            Err(Stop::Failed) => Err(gst::FlowError::Error),
        }
    }
}

impl SquallSrc {
    /// Returns the latency of the sender, or that of this element if it is larger.
    fn latency(&self) -> u32 {
        self.latency_ms.load(Relaxed).max(lock(&self.settings).latency_ms)
    }

    fn deliver(&self, arrived: Arrived) -> Result<CreateSuccess, gst::FlowError> {
        let element = self.obj();
        if let Some(caps) = &arrived.caps {
            element.set_caps(caps).map_err(|_| gst::FlowError::NotNegotiated)?;
        }
        let mut timeline = lock(&self.timeline);
        if arrived.is_first {
            *timeline = Timeline::default();
        }
        let header = arrived.header;
        if let Some(now) = element.current_running_time() {
            let at = nanos(now.nseconds()).saturating_sub(nanos(arrived.at.elapsed().as_nanos()));
            let time = header.dts.or(header.pts).unwrap_or(header.sent);
            timeline.observe(at, header.sent, nanos(arrived.one_way.as_nanos()), time);
        }
        let local = |time: Option<i64>| time.map(|time| gst::ClockTime::from_nseconds(timeline.local(time)));
        let (pts, dts) = (local(header.pts), local(header.dts));
        let mut buffer = gst::Buffer::from_slice(arrived.data);
        if let Some(buffer) = buffer.get_mut() {
            buffer.set_pts(pts);
            buffer.set_dts(dts);
            buffer.set_duration(header.duration.map(gst::ClockTime::from_nseconds));
            buffer.set_offset(header.number);
            buffer.set_flags(flags(header.flags));
            if arrived.is_first || arrived.after_gap {
                buffer.set_flags(gst::BufferFlags::DISCONT);
            }
        }
        self.received.fetch_add(1, Relaxed);
        Ok(CreateSuccess::NewBuffer(buffer))
    }

    fn stats(&self) -> gst::Structure {
        counters::of_session(self.session().as_ref())
            .field("buffers-received", self.received.load(Relaxed))
            .field("buffers-missing", self.inlet.missing())
            .build()
    }
}

fn flags(flags: Flags) -> gst::BufferFlags {
    let flag = |is_set, flag| if is_set { flag } else { gst::BufferFlags::empty() };
    flag(flags.delta, gst::BufferFlags::DELTA_UNIT)
        | flag(flags.droppable, gst::BufferFlags::DROPPABLE)
        | flag(flags.header, gst::BufferFlags::HEADER)
        | flag(flags.discont, gst::BufferFlags::DISCONT)
        | flag(flags.marker, gst::BufferFlags::MARKER)
}

fn nanos(time: impl TryInto<i64>) -> i64 {
    time.try_into().unwrap_or(i64::MAX)
}

/// Reference to the element for its connection.
struct Handle(glib::WeakRef<Element>);

impl End for Handle {
    const ROLE: Role = Role::Receiver;

    async fn serve(&self, session: Session, latency: Duration) {
        let Some(inlet) = self.0.upgrade().map(|element| element.begin(&session, latency)) else { return };
        if let Err(line) = inlet.pump(&session).await {
            session.close(MALFORMED, line);
            self.warn(&format!("the peer was refused: {line}"));
        }
        if let Some(element) = self.0.upgrade() {
            lock(&element.imp().session).take();
        }
    }

    fn fault(&self, fault: Fault) {
        if let Some(element) = self.0.upgrade() {
            element.imp().inlet.fail();
            gst::element_error!(element, gst::ResourceError::Settings, ("{fault}"));
        }
    }

    fn has_ended(&self) -> bool {
        self.0.upgrade().is_none_or(|element| element.imp().inlet.has_ended())
    }

    fn warn(&self, line: &str) {
        if let Some(element) = self.0.upgrade() {
            gst::element_warning!(element, gst::ResourceError::NotFound, ("{line}"));
        }
    }
}

impl Element {
    /// Called when a session is connected. The pipeline adopts a longer latency of the sender.
    fn begin(&self, session: &Session, latency: Duration) -> Arc<Inlet> {
        let imp = self.imp();
        *lock(&imp.session) = Some(OfProcess::new(session.clone()));
        let theirs = u32::try_from(latency.as_millis()).unwrap_or(settings::MAX_LATENCY_MS);
        let before = imp.latency();
        imp.latency_ms.store(theirs, Relaxed);
        if imp.latency() != before {
            let _ = self.post_message(gst::message::Latency::builder().src(self).build());
        }
        imp.inlet.clone()
    }
}
