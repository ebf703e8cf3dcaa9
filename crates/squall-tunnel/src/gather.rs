//! Datagrams that come in become parcels: a frame each, or a datagram each.

use std::time::Duration;

use squall_net::Micros;

use crate::{
    config::FlowConfig,
    media::{Class, Cut, Cutter, Media},
    parcel::{HEAD, Parcel},
};

/// Puts a flow's datagrams together. Knows no clock: `now` is when a datagram came in.
#[derive(Debug)]
pub(crate) struct Gatherer {
    cutter: Cutter,
    open: Option<Parcel>,
    /// What the frame is that the open parcel is of, as far as its datagrams told, also those of earlier parts.
    frame: Option<Class>,
    /// When the open parcel ends if nothing more comes.
    ends_at: Micros,
    gap: Micros,
    max_frame: usize,
    /// When the last datagram came in: clocks of kernel and process may differ by a little.
    latest: Micros,
    /// Bytes of the largest parcel lately, a guess for the next.
    usual: usize,
}

impl Gatherer {
    pub(crate) fn new(flow: &FlowConfig) -> Self {
        Self {
            cutter: Cutter::new(if flow.is_in() { flow.media } else { Media::Udp }),
            open: None,
            frame: None,
            ends_at: 0,
            gap: micros(flow.gap),
            max_frame: flow.max_frame,
            latest: 0,
            usual: 0,
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
            let mut parcel = Parcel::new(now, datagram.len() + 4);
            parcel.push(now, datagram);
            parcel.class = cut.class.unwrap_or(Class::Data);
            out(parcel);
            return;
        }
        self.gather(now, cut, datagram, out);
    }

    fn gather(&mut self, now: Micros, cut: Cut, datagram: &[u8], out: &mut impl FnMut(Parcel)) {
        let full =
            self.open.as_ref().is_some_and(|open| open.len() + datagram.len() + 4 > self.max_frame + HEAD);
        if cut.starts || full {
            self.close(out);
        }
        if cut.starts {
            self.frame = None;
        }
        self.frame = self.frame.max(cut.class);
        let alone = self.open.is_none() && cut.aside;
        let parcel = self.open.get_or_insert_with(|| Parcel::new(now, self.usual));
        parcel.push(now, datagram);
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

    /// Hands over what is open.
    pub(crate) fn close(&mut self, out: &mut impl FnMut(Parcel)) {
        let Some(mut parcel) = self.open.take() else { return };
        // What nobody told to be disposable is not.
        parcel.class = self.frame.unwrap_or(Class::Reference);
        self.usual = (self.usual - self.usual / 8).max(parcel.len() - HEAD).min(self.max_frame);
        out(parcel);
    }
}

/// Microseconds of a duration.
pub(crate) fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX)
}

#[cfg(test)]
mod tests;
