//! The stream of a sink: converts buffers to blocks.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use bytes::Bytes;
use gstreamer as gst;
use squall::Depends;

use crate::{
    caps,
    class::{Chain, Class, Media},
    frame::{Flags, Frame, Header},
};

/// State of the stream, across caps and sessions.
#[derive(Debug)]
pub(crate) struct Stream {
    media: Media,
    caps: Bytes,
    generation: u32,
    /// Number of buffers sent in this session.
    number: u64,
    session: u64,
    chain: Chain,
    /// Pictures are useless until the next key picture.
    needs_key: bool,
    /// The generation of caps that the peer has.
    known: Arc<AtomicU32>,
}

/// A buffer as a block, with its properties.
pub(crate) struct Outgoing {
    pub(crate) block: Bytes,
    pub(crate) class: Class,
    pub(crate) depends: Depends,
    /// If the block has caps: their generation, to be stored when the block has arrived.
    pub(crate) caps: Option<(Arc<AtomicU32>, u32)>,
    pub(crate) media: Media,
}

/// Times of a buffer; see [`Header`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    pub(crate) sent: i64,
    pub(crate) pts: Option<i64>,
    pub(crate) dts: Option<i64>,
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            media: Media::Audio,
            caps: Bytes::new(),
            generation: 0,
            number: 0,
            session: 0,
            chain: Chain::default(),
            needs_key: false,
            known: Arc::default(),
        }
    }
}

impl Stream {
    pub(crate) fn set_caps(&mut self, caps: &gst::CapsRef) -> Result<(), &'static str> {
        let wire = caps::encode(caps)?;
        if wire != self.caps {
            self.caps = wire;
            self.generation += 1;
            self.media = Media::of(caps);
        }
        Ok(())
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Called when a buffer was not sent.
    pub(crate) fn skip(&mut self, class: Class) {
        self.needs_key |= self.media == Media::Video && class.is_needed();
    }

    pub(crate) fn class(&self, flags: Flags) -> Class {
        Class::of(self.media, flags)
    }

    /// Encodes the buffer as a block for a session; `None` if it cannot be decoded without a key
    /// picture that was not sent.
    pub(crate) fn encode(
        &mut self,
        session: u64,
        buffer: &gst::BufferRef,
        times: Times,
    ) -> Result<Option<Outgoing>, gst::glib::BoolError> {
        if session != self.session {
            self.begin(session);
        }
        let flags = flags(buffer.flags());
        let class = self.class(flags);
        if self.needs_key && flags.delta {
            return Ok(None);
        }
        self.needs_key = false;
        let header = Header {
            flags,
            number: self.number,
            generation: self.generation,
            sent: times.sent,
            pts: times.pts,
            dts: times.dts,
            duration: buffer.duration().map(gst::ClockTime::nseconds),
        };
        let has_caps = self.known.load(Relaxed) != self.generation;
        let data = Bytes::copy_from_slice(&buffer.map_readable()?);
        let block = Frame::Buffer(header, has_caps.then(|| self.caps.clone()), data).encode();
        self.number += 1;
        Ok(Some(Outgoing {
            block,
            class,
            depends: self.chain.next(self.media, class, flags),
            caps: has_caps.then(|| (self.known.clone(), self.generation)),
            media: self.media,
        }))
    }

    fn begin(&mut self, session: u64) {
        self.needs_key = self.session != 0 && self.media == Media::Video;
        self.session = session;
        self.number = 0;
        self.chain = Chain::default();
        self.known = Arc::default();
    }
}

fn flags(flags: gst::BufferFlags) -> Flags {
    Flags {
        delta: flags.contains(gst::BufferFlags::DELTA_UNIT),
        droppable: flags.contains(gst::BufferFlags::DROPPABLE),
        header: flags.contains(gst::BufferFlags::HEADER),
        discont: flags.contains(gst::BufferFlags::DISCONT),
        marker: flags.contains(gst::BufferFlags::MARKER),
    }
}
