//! Datagrams that come in become blocks, a frame each or a datagram each, which are handed over in parcels as they grow.

use std::{mem, time::Duration};

use squall_units::Micros;

use crate::{
    config::FlowConfig,
    media::{Class, Cut, Cutter, Media},
    parcel::{HEAD, Parcel},
};

/// Puts a flow's datagrams together. Knows no clock: `now` is when a datagram came in.
#[derive(Debug)]
pub(crate) struct Gatherer {
    cutter: Cutter,
    open: Option<Open>,
    /// What the frame is that the open block is of, as far as its datagrams told, also those of earlier blocks.
    frame: Option<Class>,
    /// When the open block ends if nothing more comes.
    ends_at: Micros,
    gap: Micros,
    /// A block takes no longer to come in: its last datagram has half of the latency left.
    longest: Micros,
    max_frame: usize,
    /// When the last datagram came in: clocks of kernel and process may differ by a little.
    latest: Micros,
    /// Mean bytes of the latest blocks of each class.
    usual: [usize; Class::ALL.len()],
}

/// A block that has not ended.
#[derive(Debug)]
struct Open {
    /// What was not handed over yet.
    parcel: Parcel,
    /// Bytes that were.
    before: usize,
}

impl Open {
    fn len(&self) -> usize {
        self.before + self.parcel.len()
    }
}

impl Gatherer {
    pub(crate) fn new(flow: &FlowConfig) -> Self {
        let longest = micros(flow.latency_or_default() / 2);
        Self {
            cutter: Cutter::new(if flow.is_in() { flow.media } else { Media::Udp }),
            open: None,
            frame: None,
            ends_at: 0,
            gap: micros(flow.gap).min(longest),
            longest,
            max_frame: flow.max_frame,
            latest: 0,
            usual: [0; Class::ALL.len()],
        }
    }

    /// What the flow carries, as far as it is known.
    pub(crate) fn media(&self) -> Media {
        self.cutter.media()
    }

    /// A datagram came in. What is complete is handed to `out`.
    pub(crate) fn push(&mut self, now: Micros, datagram: &[u8], out: &mut impl FnMut(Parcel)) {
        if datagram.len() > usize::from(u16::MAX) {
            // UDP has none so large.
            return;
        }
        let now = now.max(self.latest);
        self.latest = now;
        let cut = self.cutter.cut(datagram);
        if cut.apart {
            self.close(out);
            let mut parcel = Parcel::new(now, 0);
            parcel.push(now, datagram);
            parcel.class = cut.class.unwrap_or(Class::Data);
            parcel.ends = true;
            out(parcel);
            return;
        }
        self.gather(now, cut, datagram, out);
    }

    fn gather(&mut self, now: Micros, cut: Cut, datagram: &[u8], out: &mut impl FnMut(Parcel)) {
        let full = self.open.as_ref().is_some_and(|open| {
            open.len() + datagram.len() + 4 > self.max_frame + HEAD || now >= open.parcel.stamp + self.longest
        });
        if cut.starts || full {
            self.close(out);
        }
        if cut.starts {
            self.frame = None;
        }
        self.frame = self.frame.max(cut.class);
        self.end_if_more_urgent(out);
        let alone = self.open.is_none() && cut.aside;
        let open = self.open.get_or_insert_with(|| Open { parcel: Parcel::new(now, 0), before: 0 });
        open.parcel.push(now, datagram);
        self.ends_at = now + self.gap;
        if alone {
            // It belongs to no frame, and none is open.
            let frame = self.frame.replace(Class::Data);
            self.close(out);
            self.frame = frame;
        } else if cut.ends {
            self.close(out);
        }
    }

    /// What has begun to leave keeps its class. A frame that turns out to need more care goes on in another block.
    fn end_if_more_urgent(&mut self, out: &mut impl FnMut(Parcel)) {
        let begun = self.open.as_ref().filter(|open| !open.parcel.begins);
        if begun.is_some_and(|open| self.frame > Some(open.parcel.class)) {
            self.close(out);
        }
    }

    /// When [`Self::handle_timeout`] is due.
    pub(crate) fn poll_timeout(&self) -> Option<Micros> {
        self.open.is_some().then_some(self.ends_at)
    }

    /// Nothing came for a while: what is open is complete.
    pub(crate) fn handle_timeout(&mut self, now: Micros, out: &mut impl FnMut(Parcel)) {
        if self.poll_timeout().is_some_and(|at| at <= now) {
            self.close(out);
        }
    }

    /// Nothing more is there now: hands over what is, and more of the block may follow.
    pub(crate) fn flush(&mut self, out: &mut impl FnMut(Parcel)) {
        let Some(open) = self.open.as_mut().filter(|open| !open.parcel.is_empty()) else { return };
        if open.parcel.begins {
            open.parcel.class = class_of(self.frame);
            open.parcel.expected = self.usual[open.parcel.class as usize];
        }
        open.before += open.parcel.len();
        let next = open.parcel.next();
        out(mem::replace(&mut open.parcel, next));
    }

    /// Ends what is open.
    pub(crate) fn close(&mut self, out: &mut impl FnMut(Parcel)) {
        let Some(Open { mut parcel, before }) = self.open.take() else { return };
        if parcel.begins {
            parcel.class = class_of(self.frame);
        }
        parcel.ends = true;
        let usual = &mut self.usual[parcel.class as usize];
        let len = before + parcel.len();
        *usual = if *usual == 0 { len } else { (*usual * 9 + len) / 10 };
        out(parcel);
    }
}

/// What nobody told to be disposable is not.
fn class_of(frame: Option<Class>) -> Class {
    frame.unwrap_or(Class::Reference)
}

/// Microseconds of a duration.
pub(crate) fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX)
}

#[cfg(test)]
mod tests;
