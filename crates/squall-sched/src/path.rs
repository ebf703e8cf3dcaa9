//! A scheduler's view of a path.

use std::{fmt, ops::Range};

use crate::Span;

/// Id of a path in the session: a number below [`MAX_PATHS`](crate::MAX_PATHS) that is fixed while
/// the path exists and is reused only after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u8);

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The health of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PathState {
    /// Opened by this side, but not answered by the peer yet. It carries no data.
    Opening,
    /// Delivers data.
    #[default]
    Active,
    /// Silent while packets were in flight. The session probes it, and readmits it on proof of
    /// delivery.
    Suspect,
    /// Disabled by the signal layer or by the application.
    Deactivated,
}

impl PathState {
    /// Returns the state in one lower-case word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Active => "active",
            Self::Suspect => "suspect",
            Self::Deactivated => "deactivated",
        }
    }
}

impl fmt::Display for PathState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A path as a scheduler sees it at one moment.
#[derive(Clone, Debug)]
pub struct PathView {
    /// Id of the path.
    pub id: PathId,
    /// Health of the path. Schedulers use [`Self::has_room`] rather than this: if every path is
    /// suspect, the session still offers one of them.
    pub state: PathState,
    /// The path may carry new data now.
    pub usable: bool,
    /// Smoothed round-trip time.
    pub srtt: Span,
    /// Latest round-trip time; the smoothed one before the first sample.
    pub latest_rtt: Span,
    /// Mean deviation of the round-trip time (RFC 9002 §5.3).
    pub rtt_dev: Span,
    /// One-way delay to the peer. Differences between paths are exact, because the clock offset is
    /// common to all of them; the absolute value rests on half the smallest round-trip time.
    pub owd: Span,
    /// The latest measured one-way delay, without the bytes that were put in flight since.
    pub delay: Span,
    /// Lower bound of the time that an acknowledgement takes: half the smallest round-trip time.
    pub back: Span,
    /// Time until the session's own packets have left the queue of the path, if it drains at
    /// [`Self::rate`]; without those that wait for the pacer.
    pub backlog: Span,
    /// The 95th percentile of the excess of arrival times over the latest predictions.
    pub late: Span,
    /// Time since proof of delivery has been due; 0 while acknowledgements arrive in time.
    pub overdue: Span,
    /// Share of packets lost in the last seconds.
    pub loss: f64,
    /// Congestion window in bytes.
    pub window: u64,
    /// Time until a full window opens, when the oldest packet in flight should be acknowledged; 0
    /// if the window has room.
    pub opens_in: Span,
    /// Bytes in flight, including those that are assigned to the path and wait for its pacer.
    pub in_flight: u64,
    /// The part of [`Self::in_flight`] that has not left yet, because the path is paced, in bytes.
    pub waiting: u64,
    /// Payload bytes of a block that fit into one packet.
    pub chunk: u32,
    /// Bytes of the window that a packet uses beyond its payload: headers and tag.
    pub overhead: u32,
    /// Bandwidth in bits per second: window over smoothed RTT, as in DAMS (§III-A) and STORM
    /// (§3.3), but at most the recent delivery rate if the path was recently given more than it
    /// could carry. A window that the application does not fill is a poor measure of the path.
    pub bandwidth: u64,
    /// Rate of the path in bits per second, as its controller estimates it; window over smoothed
    /// RTT while the controller still searches for the rate. [`Self::bandwidth`] is lower if few
    /// packets at a time show little.
    pub rate: u64,
    /// The path may carry much more than [`Self::rate`]: its controller is in slow start.
    pub rate_grows: bool,
    /// The controller estimates rates, and has no sample of this path yet.
    pub is_unmeasured: bool,
    /// Delay of the queue that the session's own packets form on the path: excess of the quickest
    /// packet of the last round trip over one without a queue. `None` if the controller does not
    /// distinguish a queue from the delay of the path itself.
    pub queue: Option<Span>,
    /// Time for which the path has held packets, if they will arrive together: the bytes in flight
    /// then arrive earlier by this much than `rate` implies.
    pub held: Span,
    /// Signal factor F in (0, 1]: 1 unless the radio issued a warning.
    pub factor: f64,
    /// Bytes on this path cost money.
    pub metered: bool,
    /// Bytes that the path may still carry under its budget; `None` without a budget.
    pub budget: Option<u64>,
}

impl PathView {
    /// Returns the bytes that the window and the budget leave; 0 on a path that is not usable.
    pub fn room(&self) -> u64 {
        let left = if self.usable { self.window.saturating_sub(self.in_flight) } else { 0 };
        self.budget.map_or(left, |b| left.min(b))
    }

    /// Predicts the time until the arrival of a packet that follows the bytes in flight and `bytes`
    /// more, and leaves as soon as the window has room. The bytes in flight need their time at the
    /// rate of the path, of which half a round trip is the return of their acknowledgements; bytes
    /// that the path held need none.
    pub fn arrives_in(&self, bytes: u64) -> Span {
        let drained = self.time_for(self.in_flight + bytes + u64::from(self.chunk + self.overhead));
        (self.opens_in + self.delay).max(drained - (self.back + self.held))
    }

    /// Predicts the time until the queue of the path is empty.
    pub fn idle_in(&self) -> Span {
        self.backlog + self.time_for(self.waiting)
    }

    fn time_for(&self, bytes: u64) -> Span {
        Span::from_micros((8_000_000 * bytes).checked_div(self.rate).unwrap_or(0))
    }

    /// Returns the payload bytes of blocks that the budget pays for; `u64::MAX` without a budget.
    pub fn affordable(&self) -> u64 {
        let (chunk, overhead) = (u64::from(self.chunk), u64::from(self.overhead));
        // The last packet needs room for its payload only, as in [`Self::has_room`].
        let packets = |budget: u64| budget.saturating_add(overhead) / (chunk + overhead).max(1);
        self.budget.map_or(u64::MAX, |budget| packets(budget).saturating_mul(chunk))
    }

    /// Returns `true` if the path can carry data, at the latest when its window opens: it is
    /// usable, and its budget pays for a packet.
    pub fn is_open(&self) -> bool {
        self.usable && self.affordable() > 0
    }

    /// Returns `true` if one more packet fits.
    pub fn has_room(&self) -> bool {
        self.room() >= u64::from(self.chunk)
    }

    /// Returns the part of an assigned `range` that the session sends now: as many whole packets as
    /// the window leaves room for, the last one shorter if the range ends.
    pub fn clip(&self, range: &Range<u32>) -> Range<u32> {
        if !self.has_room() {
            return range.start..range.start;
        }
        range.start..range.end.min(range.start.saturating_add(self.packets().saturating_mul(self.chunk)))
    }

    /// Returns the bytes of the window that `bytes` of a block use, including the overhead of their
    /// packets.
    pub fn cost(&self, bytes: u32) -> u64 {
        u64::from(bytes) + u64::from(bytes.div_ceil(self.chunk.max(1))) * u64::from(self.overhead)
    }

    /// Like [`Self::clip`], for symbols of parity, each of which is one packet.
    pub fn clip_parity(&self, symbols: &Range<u32>) -> Range<u32> {
        if !self.has_room() {
            return symbols.start..symbols.start;
        }
        symbols.start..symbols.end.min(symbols.start.saturating_add(self.packets()))
    }

    /// Returns the number of whole packets that the window leaves room for; one if it leaves room
    /// for the payload alone.
    fn packets(&self) -> u32 {
        let packet = u64::from(self.chunk) + u64::from(self.overhead);
        (self.room() / packet.max(1)).clamp(1, 1 << 14) as u32
    }

    /// Like [`Self::cost`], for symbols of parity of `size` bytes.
    pub fn cost_parity(&self, symbols: u32, size: u32) -> u64 {
        u64::from(symbols) * (u64::from(size) + u64::from(self.overhead))
    }

    /// Creates a usable, idle path with the given smoothed RTT and window, for tests and examples.
    pub fn example(id: u8, srtt: Span, window: u64) -> Self {
        Self {
            id: PathId(id),
            state: PathState::Active,
            usable: true,
            srtt,
            latest_rtt: srtt,
            rtt_dev: srtt / 10,
            owd: srtt / 2,
            delay: srtt / 2,
            back: srtt / 2,
            backlog: Span::ZERO,
            late: Span::ZERO,
            overdue: Span::ZERO,
            loss: 0.0,
            window,
            in_flight: 0,
            waiting: 0,
            chunk: 1200,
            overhead: 0,
            bandwidth: window.saturating_mul(8_000_000).checked_div(srtt.micros()).unwrap_or(0),
            rate: window.saturating_mul(8_000_000).checked_div(srtt.micros()).unwrap_or(0),
            factor: 1.0,
            metered: false,
            budget: None,
            opens_in: Span::ZERO,
            rate_grows: false,
            is_unmeasured: false,
            queue: None,
            held: Span::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {

    use squall_units::short::{ms, us};

    use super::*;

    #[test]
    fn room_is_what_window_budget_and_state_leave() {
        let mut path = PathView::example(0, ms(10), 5000);
        assert_eq!(path.room(), 5000);
        path.in_flight = 3900;
        assert_eq!((path.room(), path.has_room()), (1100, false));
        path.in_flight = 6000;
        assert_eq!(path.room(), 0, "a window may shrink below what is in flight");
        path.in_flight = 0;
        path.budget = Some(1200);
        assert_eq!((path.room(), path.has_room()), (1200, true));
        path.usable = false;
        assert_eq!(path.room(), 0);
    }

    #[test]
    fn a_budget_pays_for_whole_packets_with_their_headers() {
        let mut path = PathView { overhead: 40, ..PathView::example(0, ms(10), 5000) };
        assert_eq!((path.affordable(), path.is_open()), (u64::MAX, true));
        for (budget, packets) in [(0, 0), (1199, 0), (1200, 1), (2439, 1), (2440, 2), (12_400, 10)] {
            path.budget = Some(budget);
            assert_eq!((path.affordable(), path.is_open()), (packets * 1200, packets > 0), "{budget}");
        }
        path.usable = false;
        assert!(!path.is_open());
    }

    #[test]
    fn a_range_is_clipped_to_whole_packets() {
        let mut path = PathView::example(0, ms(10), 3 * 1240 + 1239);
        path.overhead = 40;
        assert_eq!(path.clip(&(100..10_000)), 100..3700);
        assert_eq!(path.clip(&(100..200)), 100..200);
        assert_eq!((path.cost(3600), path.cost(3601)), (3720, 3761));
        path.in_flight = path.window - 1200;
        assert_eq!(path.clip(&(0..5000)), 0..1200, "one packet goes when there is room for its payload");
        path.in_flight += 1;
        assert!(path.clip(&(0..5000)).is_empty());
    }

    #[test]
    fn symbols_of_parity_take_a_packet_each() {
        let mut path = PathView { overhead: 40, ..PathView::example(0, ms(10), 3 * 1240 + 1239) };
        assert_eq!(path.clip_parity(&(2..10)), 2..5);
        assert_eq!(path.clip_parity(&(2..4)), 2..4);
        assert_eq!(path.cost_parity(3, 1000), 3120);
        path.in_flight = path.window - 1200;
        assert_eq!(path.clip_parity(&(2..10)), 2..3);
        path.in_flight += 1;
        assert!(path.clip_parity(&(2..10)).is_empty());
    }

    #[test]
    fn a_packet_arrives_behind_what_is_in_flight() {
        // 1200 and 800 bytes are a packet, 2 ms at 8 Mbps. Half a round trip is 10 ms.
        let mut path = PathView { overhead: 800, rate: 8_000_000, ..PathView::example(0, ms(20), 100_000) };
        path.delay = ms(11);
        assert_eq!(path.arrives_in(0), ms(11), "what was measured is the least");
        path.in_flight = 19_000;
        assert_eq!((path.arrives_in(0), path.arrives_in(1)), (ms(11), us(11_001)));
        path.in_flight = 28_000;
        assert_eq!((path.arrives_in(0), path.arrives_in(5_000)), (ms(20), ms(25)));
        path.opens_in = ms(12);
        assert_eq!((path.arrives_in(0), path.arrives_in(5_000)), (ms(23), ms(25)), "it waits for the window");
        path.opens_in = Span::ZERO;
        path.rate = 0;
        assert_eq!(path.arrives_in(5_000), ms(11), "the rate is unknown");
    }

    #[test]
    fn the_example_path_has_the_bandwidth_of_its_window() {
        assert_eq!(PathView::example(0, ms(10), 12_500).bandwidth, 10_000_000);
        assert_eq!(PathView::example(0, Span::ZERO, 1).bandwidth, 0);
        assert!(PathView::example(0, us(1), u64::MAX).has_room());
    }
}
