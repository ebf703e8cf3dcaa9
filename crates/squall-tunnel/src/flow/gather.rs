//! Groups the datagrams of a flow into blocks, one per frame or per datagram, which are passed on
//! while they grow.

use std::mem;

use squall::Depends;
use squall_units::{Span, Time};

use crate::{
    config::FlowConfig,
    media::{Chain, Class, Cut, Cutter, Media, Problem},
    wire::frame::{Frame, RECORD},
};

/// Groups the datagrams of a flow. Time is an argument: `now` is the arrival of a datagram.
#[derive(Debug)]
pub(crate) struct Gatherer {
    cutter: Cutter,
    open: Option<Open>,
    /// Class so far of the frame that the open block belongs to; datagrams of the frame's earlier
    /// blocks count too.
    class: Option<Class>,
    /// Class of the previous block of that frame.
    before: Option<Class>,
    chain: Chain,
    /// Time at which the open block ends unless another datagram arrives.
    ends_at: Time,
    gap: Span,
    /// Longest time in which a block grows. Its last datagram has half of the latency left.
    max_span: Span,
    max_frame: usize,
    /// Latest arrival of a datagram. Keeps time monotonic: the clocks of kernel and process may
    /// differ slightly.
    latest: Time,
    /// Mean size of recent blocks of each class.
    mean_len: [usize; Class::ALL.len()],
}

/// A block that grows.
#[derive(Debug)]
struct Open {
    /// Datagrams that have not been passed on.
    frame: Frame,
    /// Bytes that have been passed on.
    passed_on: usize,
    /// Bytes of its datagrams so far, including all null packets.
    whole: usize,
    /// The block has no content, only null packets for instance, and belongs to no frame.
    is_spare: bool,
}

impl Gatherer {
    pub(crate) fn new(flow: &FlowConfig) -> Self {
        let max_span = Span::from(flow.latency_or_default() / 2);
        Self {
            cutter: Cutter::new(if flow.is_in() { flow.media } else { Media::Udp }),
            open: None,
            class: None,
            before: None,
            chain: Chain::default(),
            ends_at: Time::EPOCH,
            gap: max_span.min(flow.gap.into()),
            max_span,
            max_frame: flow.max_frame,
            latest: Time::EPOCH,
            mean_len: [0; Class::ALL.len()],
        }
    }

    /// Returns the detected media format of the flow.
    pub(crate) fn media(&self) -> Media {
        self.cutter.media()
    }

    /// Returns the reason why no video is found in the flow; `None` if video is found or not
    /// searched for.
    pub(crate) fn problem(&self) -> Option<Problem> {
        self.cutter.problem()
    }

    /// Adds a datagram. Complete blocks are passed to `out`.
    pub(crate) fn push(&mut self, now: Time, datagram: &[u8], out: &mut impl FnMut(Frame)) {
        if datagram.len() >= usize::from(u16::MAX) {
            // Larger than UDP permits.
            return;
        }
        let now = now.max(self.latest);
        self.latest = now;
        let before = self.cutter.media();
        let cut = self.cutter.cut(now, datagram);
        if self.cutter.media() != before {
            self.chain = Chain::default();
        }
        if cut.apart {
            self.close(out);
            let mut frame = Frame::new(now, 0).without_nulls(self.is_ts());
            frame.push(now, datagram);
            frame.class = cut.class.unwrap_or(Class::Data);
            frame.ends = true;
            out(frame);
            return;
        }
        self.add(now, cut, datagram, out);
    }

    /// `true` if datagrams may have null packets, which are removed.
    fn is_ts(&self) -> bool {
        self.media() == Media::Ts
    }

    fn add(&mut self, now: Time, cut: Cut, datagram: &[u8], out: &mut impl FnMut(Frame)) {
        let is_spare = cut == Cut::spare();
        let ends = self.open.as_ref().is_some_and(|open| {
            open.whole + datagram.len() + RECORD > self.max_frame
                || now >= open.frame.stamp + self.max_span
                || open.is_spare && !is_spare
        });
        if cut.starts || ends {
            self.close(out);
        }
        if cut.starts {
            (self.class, self.before) = (None, None);
        }
        if !is_spare {
            self.class = self.class.max(cut.class);
            self.end_if_more_important(out);
        }
        let alone = self.open.is_none() && cut.aside && !is_spare;
        let without_nulls = self.is_ts();
        let open = self.open.get_or_insert_with(|| {
            let frame = Frame::new(now, 0).without_nulls(without_nulls);
            Open { frame, passed_on: 0, whole: 0, is_spare }
        });
        open.frame.push(now, datagram);
        open.whole += datagram.len() + RECORD;
        self.ends_at = now + self.gap;
        if alone {
            // The datagram belongs to no frame, and none is open.
            let (class, before) = (self.class.replace(Class::Data), self.before);
            self.close(out);
            (self.class, self.before) = (class, before);
        } else if cut.ends {
            self.close(out);
        }
    }

    /// Ends the open block if its frame has proved more important. A block keeps its initial class;
    /// the frame continues in another block.
    fn end_if_more_important(&mut self, out: &mut impl FnMut(Frame)) {
        let begun = self.open.as_ref().filter(|open| !open.frame.begins);
        if begun.is_some_and(|open| self.class > Some(open.frame.class)) {
            self.close(out);
        }
    }

    /// Returns the time at which [`Self::handle_timeout`] is due.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.open.is_some().then_some(self.ends_at)
    }

    /// Closes the open block if the wait for another datagram has timed out.
    pub(crate) fn handle_timeout(&mut self, now: Time, out: &mut impl FnMut(Frame)) {
        if self.poll_timeout().is_some_and(|at| at <= now) {
            self.close(out);
        }
    }

    /// Passes on the datagrams of the open block, which may continue to grow.
    pub(crate) fn flush(&mut self, out: &mut impl FnMut(Frame)) {
        let Some(mut open) = self.open.take_if(|open| !open.frame.is_empty()) else { return };
        self.classify(&mut open);
        if open.frame.begins && !open.is_spare {
            open.frame.expected = self.mean_len[open.frame.class as usize];
        }
        open.passed_on += open.frame.len();
        let next = open.frame.next();
        out(mem::replace(&mut open.frame, next));
        self.open = Some(open);
    }

    /// Ends the open block.
    pub(crate) fn close(&mut self, out: &mut impl FnMut(Frame)) {
        let Some(mut open) = self.open.take() else { return };
        self.classify(&mut open);
        let Open { mut frame, passed_on, is_spare, .. } = open;
        frame.ends = true;
        if !is_spare {
            self.before = Some(frame.class);
            let mean = &mut self.mean_len[frame.class as usize];
            let len = passed_on + frame.len();
            *mean = if *mean == 0 { len } else { (*mean * 9 + len) / 10 };
        }
        out(frame);
    }

    /// Sets the class and the dependency of a block that begins.
    fn classify(&mut self, Open { frame, is_spare, .. }: &mut Open) {
        if !frame.begins {
            return;
        }
        if *is_spare {
            // No frame depends on it, and it depends on none.
            frame.class = Class::Disposable;
            return;
        }
        frame.class = self.class.unwrap_or(Class::Reference);
        frame.depends = depends(&mut self.chain, &self.cutter, self.class, self.before);
    }
}

/// Returns the dependency of a block that begins with this class, after a block of class `before`
/// of the same frame.
fn depends(chain: &mut Chain, cutter: &Cutter, class: Option<Class>, before: Option<Class>) -> Depends {
    if cutter.is_mixed() { Depends::Nothing } else { chain.next(cutter.media(), class, before) }
}

#[cfg(test)]
mod tests;
