//! Metering of a tenant's datagrams: rates, and bytes in the period.

use std::sync::{Mutex, MutexGuard};

use squall_observe::clock::lock;
use squall_units::{Rate, Time};

use super::{calendar::Date, state::Usage};
use crate::config::TenantLimits;

/// Time in nanoseconds by which a tenant may be ahead of its rate. A key frame is several times the
/// mean.
const BURST_NS: u64 = 1_000_000_000;

/// Maximum size of a datagram in bytes.
const MAX_DATAGRAM: u64 = u16::MAX as u64;

/// Share of the bytes of a period, in percent, at which a warning is logged.
const WARN_PERCENT: u64 = 80;

/// Direction of a datagram at an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the tenant's entries.
    In,
    /// To the tenant's entries.
    Out,
}

/// Counts the datagrams of a tenant, and refuses those beyond its limits.
#[derive(Debug, Default)]
pub(crate) struct Meter(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    limits: TenantLimits,
    /// Time at which the bytes so far would have passed at the limited rate, by direction.
    due_ns: [u64; 2],
    counts: Counts,
    usage: Usage,
    /// A datagram exceeded the bytes of the period.
    is_used_up: bool,
    /// The warning for [`WARN_PERCENT`] was logged.
    warned: bool,
}

/// Counters since the start of the program, by direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Bytes that passed.
    pub(crate) passed: [u64; 2],
    /// Bytes that were dropped because of a limit.
    pub(crate) dropped: [u64; 2],
}

/// Permission to send datagrams, which count once they are sent.
#[derive(Debug)]
pub(crate) struct Permit<'a> {
    state: MutexGuard<'a, State>,
    direction: Direction,
    bytes: u64,
    now: Time,
}

impl Permit<'_> {
    /// Counts the datagrams as sent.
    pub(crate) fn commit(mut self) {
        self.state.count(self.direction, self.bytes, self.now);
    }
}

impl Meter {
    /// Continues an earlier count. Its kind of period applies until the limits are set.
    pub(crate) fn new(usage: Usage) -> Self {
        let limits = TenantLimits { period: usage.kind(), ..TenantLimits::default() };
        Self(Mutex::new(State { limits, usage, ..State::default() }))
    }

    pub(crate) fn set_limits(&self, limits: TenantLimits) {
        let state = &mut *lock(&self.0);
        let before = std::mem::replace(&mut state.limits, limits);
        // The times of bytes that passed at the old rate are not valid for the new one.
        if before.rate_in != limits.rate_in {
            state.due_ns[Direction::In as usize] = 0;
        }
        if before.rate_out != limits.rate_out {
            state.due_ns[Direction::Out as usize] = 0;
        }
        state.is_used_up = state.has_none_left();
        state.warned = false;
    }

    /// Reserves datagrams if they are within the limits; otherwise counts them as dropped. The
    /// permit blocks other datagrams of the tenant, because two may fit separately but not
    /// together.
    pub(crate) fn reserve(&self, direction: Direction, bytes: usize, now: Time) -> Option<Permit<'_>> {
        let mut state = lock(&self.0);
        let bytes = bytes as u64;
        state.fits(direction, bytes, now).then(|| Permit { state, direction, bytes, now })
    }

    /// Begins a new period if the date requires it. Returns `true` if the tenant may have sessions
    /// again as a result.
    pub(crate) fn set_date(&self, date: Date) -> bool {
        let state = &mut *lock(&self.0);
        let before = state.is_used_up;
        if state.usage.set_date(date, state.limits.period) {
            (state.is_used_up, state.warned) = (state.has_none_left(), false);
        }
        before && !state.is_used_up
    }

    /// `true` if a datagram exceeded the bytes of the period.
    pub(crate) fn is_used_up(&self) -> bool {
        lock(&self.0).is_used_up
    }

    /// Returns `true` once per period, when [`WARN_PERCENT`] of its bytes are used.
    pub(crate) fn take_warning(&self) -> bool {
        let state = &mut *lock(&self.0);
        let is_close = |most: squall_units::Size| state.usage.bytes >= most.bytes() / 100 * WARN_PERCENT;
        let warns = !state.warned && state.limits.bytes.is_some_and(is_close);
        state.warned |= warns;
        warns
    }

    pub(crate) fn usage(&self) -> Usage {
        lock(&self.0).usage.clone()
    }

    pub(crate) fn counts(&self) -> Counts {
        lock(&self.0).counts
    }
}

impl State {
    /// `true` if the bytes of the period are used up.
    fn has_none_left(&self) -> bool {
        self.limits.bytes.is_some_and(|most| self.usage.bytes >= most.bytes())
    }

    /// `true` if datagrams are within the limits; otherwise counts them as dropped. The bytes of
    /// the period count as used up once a single datagram may exceed them.
    fn fits(&mut self, direction: Direction, bytes: u64, now: Time) -> bool {
        let exceeds = |bytes| {
            self.limits.bytes.is_some_and(|most| self.usage.bytes.saturating_add(bytes) > most.bytes())
        };
        let used_up = exceeds(bytes);
        self.is_used_up |= exceeds(bytes.min(MAX_DATAGRAM));
        let too_fast = self.rate(direction).is_some()
            && self.due_ns[direction as usize] > now.micros().saturating_mul(1_000).saturating_add(BURST_NS);
        if used_up || too_fast {
            self.counts.dropped[direction as usize] += bytes;
        }
        !used_up && !too_fast
    }

    /// Counts datagrams that have passed.
    fn count(&mut self, direction: Direction, bytes: u64, now: Time) {
        self.counts.passed[direction as usize] += bytes;
        self.usage.add(bytes);
        if let Some(rate) = self.rate(direction) {
            let cost = bytes.saturating_mul(8_000_000_000) / rate.bps().max(1);
            let due = &mut self.due_ns[direction as usize];
            *due = (*due).max(now.micros().saturating_mul(1_000)).saturating_add(cost);
        }
    }

    fn rate(&self, direction: Direction) -> Option<Rate> {
        match direction {
            Direction::In => self.limits.rate_in,
            Direction::Out => self.limits.rate_out,
        }
    }
}

#[cfg(test)]
mod tests {
    use squall_units::{
        Size,
        short::{at_ms, at_us},
    };

    use super::*;
    use crate::config::Period;

    fn pass(meter: &Meter, direction: Direction, bytes: usize, now: Time) -> bool {
        meter.reserve(direction, bytes, now).map(Permit::commit).is_some()
    }

    fn date(day: u8) -> Date {
        Date { year: 2026, month: 11, day }
    }

    #[test]
    fn a_rate_holds_in_its_direction_with_a_burst_of_a_second() {
        for (limited, free) in [(Direction::In, Direction::Out), (Direction::Out, Direction::In)] {
            let meter = Meter::default();
            let rate = Some(Rate::from_bps(8_000_000));
            meter.set_limits(match limited {
                Direction::In => TenantLimits { rate_in: rate, ..TenantLimits::default() },
                Direction::Out => TenantLimits { rate_out: rate, ..TenantLimits::default() },
            });
            // 16 Mbps for ten seconds in each direction.
            let (mut passed, mut replies) = (0, 0);
            for n in 0..20_000_u64 {
                passed += u64::from(pass(&meter, limited, 1_000, at_us(n * 500)));
                replies += u64::from(pass(&meter, free, 1_000, at_us(n * 500)));
            }
            assert_eq!(replies, 20_000, "the other direction has no limit");
            assert!((11_000..=11_002).contains(&passed), "ten seconds and a burst of one, not {passed}");
            let dropped = meter.counts().dropped;
            assert_eq!((dropped[limited as usize], dropped[free as usize]), ((20_000 - passed) * 1_000, 0));
            // A new limit applies at once.
            meter.set_limits(TenantLimits::default());
            assert!(pass(&meter, limited, 1_000, at_ms(10_000)));
        }
    }

    #[test]
    fn a_rate_that_is_raised_applies_at_once() {
        let meter = Meter::default();
        let limits = |bps| TenantLimits { rate_in: Some(Rate::from_bps(bps)), ..TenantLimits::default() };
        meter.set_limits(limits(10_000));
        assert!(pass(&meter, Direction::In, 60_000, at_us(0)) && !pass(&meter, Direction::In, 1, at_us(0)));
        meter.set_limits(limits(10_000));
        assert!(!pass(&meter, Direction::In, 1, at_us(0)), "the same rate");
        meter.set_limits(limits(40_000_000));
        assert!(pass(&meter, Direction::In, 1_200, at_us(0)));
    }

    #[test]
    fn the_bytes_of_a_period_are_never_exceeded_and_return_with_the_next() {
        let meter = Meter::default();
        let limits = TenantLimits {
            bytes: Some(Size::from_bytes(1_000)),
            period: Period::Day,
            ..TenantLimits::default()
        };
        meter.set_limits(limits);
        meter.set_date(date(26));
        assert!(pass(&meter, Direction::In, 400, at_us(0)) && !meter.take_warning());
        assert!(pass(&meter, Direction::Out, 400, at_us(0)), "both directions count");
        assert!(meter.take_warning() && !meter.take_warning(), "once");
        assert!(!pass(&meter, Direction::In, 201, at_us(0)) && meter.is_used_up());
        let usage = meter.usage();
        assert_eq!((usage.period.as_str(), usage.bytes), ("2026-11-26", 800));
        assert!(!meter.set_date(date(26)) && meter.is_used_up());
        assert!(!meter.set_date(date(25)) && meter.is_used_up(), "a clock that goes back gives nothing");
        assert!(meter.set_date(date(27)) && !meter.is_used_up());
        assert!(pass(&meter, Direction::In, 1_000, at_us(0)) && meter.take_warning());
        // A higher limit applies at once.
        assert!(!pass(&meter, Direction::In, 1, at_us(0)));
        meter.set_limits(TenantLimits { bytes: Some(Size::from_bytes(2_000)), ..limits });
        assert!(!meter.is_used_up() && pass(&meter, Direction::In, 1_000, at_us(0)));
    }

    #[test]
    fn datagrams_that_do_not_fit_together_leave_what_is_left_to_others() {
        let meter = Meter::default();
        let bytes = Some(Size::from_bytes(1_000_000));
        meter.set_limits(TenantLimits { bytes, ..TenantLimits::default() });
        assert!(pass(&meter, Direction::Out, 700_000, at_us(0)));
        assert!(!pass(&meter, Direction::Out, 400_000, at_us(0)) && !meter.is_used_up());
        assert!(pass(&meter, Direction::Out, 299_000, at_us(0)));
        assert!(!pass(&meter, Direction::Out, 400_000, at_us(0)) && meter.is_used_up());
    }

    #[test]
    fn a_damaged_count_gives_nothing() {
        let usage = Usage { period: "2026-11".to_owned(), bytes: u64::MAX - 10, ..Usage::default() };
        let meter = Meter::new(usage);
        let bytes = Some(Size::from_bytes(1_000));
        meter.set_limits(TenantLimits { bytes, ..TenantLimits::default() });
        assert!(!pass(&meter, Direction::In, 100, at_us(0)) && meter.is_used_up());
    }

    #[test]
    fn flows_of_a_tenant_do_not_exceed_its_bytes_together() {
        let meter = Meter::default();
        let bytes = Some(Size::from_bytes(100_000));
        meter.set_limits(TenantLimits { bytes, ..TenantLimits::default() });
        let send = |sent| {
            // Lets another flow run in between.
            std::thread::yield_now();
            sent
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..200 {
                        let permit = meter.reserve(Direction::In, 1_000, at_us(0));
                        if let Some(permit) = permit.filter(|_| send(n % 2 == 0)) {
                            permit.commit();
                        }
                    }
                });
            }
        });
        assert_eq!(meter.usage().bytes, 100_000, "what was not sent does not count");
    }
}
