//! A quota of bytes for each day, week or month, spread over the period. Without a clock: times
//! count from the Unix epoch, in UTC, which has no daylight saving.
//!
//! Two limits apply. The remaining bytes are *paced*: a token bucket earns them over the remaining
//! time, and holds one hundredth of the quota. When it is empty the interface is held: its paths
//! become [backup](crate::Role::Backup) paths, which carry data only while no other path can, until
//! half of a bucket has been earned. The last hundredth of a period is held in the same way, for
//! packets in flight. The remaining bytes are also a *hard* limit: at zero the paths are closed.
//! Packets that the peer has sent before it detects that still arrive: a round trip at the rate of
//! the path, and its queue.
//!
//! Sessions spend from *leases*, which count as used while they are held. Thus several sessions
//! never spend more than the quota, and a record that was written before a lease was used is never
//! too low.

use squall_units::{Size, Span, Time};

use crate::metering::{MIN_SHARE, QuotaShare};

/// Bytes that may be sent and received over an interface in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of IP packets, both directions together, as in mobile plans.
    pub bytes: u64,
    /// Period after which it starts again.
    pub period: Period,
}

/// Period of a quota, always in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// Starts at midnight.
    Day,
    /// Starts at midnight before Monday.
    Week,
    /// Starts at midnight before this day of each month, 1 to 28.
    Month(u8),
    /// Starts each time that this span has passed since the epoch.
    Every(Span),
}

const DAY: Span = Span::from_secs(86_400);
/// The epoch was a Thursday.
const MONDAY: Time = day(4);

impl Period {
    /// Returns the start and the end of the period that contains this time.
    pub fn around(self, now: Time) -> (Time, Time) {
        let every = |length: Span, first: Time| {
            if now < first {
                return (Time::EPOCH, first);
            }
            let start = first + length * ((now - first) / length);
            (start, start + length)
        };
        match self {
            Self::Day => every(DAY, Time::EPOCH),
            Self::Week => every(DAY * 7, MONDAY),
            Self::Every(span) => every(span.max(Span::from_millis(1)), Time::EPOCH),
            Self::Month(day) => {
                let day = u64::from(day.clamp(1, 28));
                let (year, month, today) = date(now.since_epoch() / DAY);
                let (year, month) = if today >= day { (year, month) } else { before(year, month) };
                let (next_year, next_month) = after(year, month);
                (self::day(days(year, month, day)), self::day(days(next_year, next_month, day)))
            }
        }
    }
}

impl std::fmt::Display for Period {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Day => f.write_str("day"),
            Self::Week => f.write_str("week"),
            Self::Month(1) => f.write_str("month"),
            Self::Month(day) => write!(f, "month from {day}"),
            Self::Every(span) => write!(f, "{span}"),
        }
    }
}

impl std::str::FromStr for Period {
    type Err = String;

    /// Parses `day`, `week`, `month`, or `month from 15`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "day" => Ok(Self::Day),
            "week" => Ok(Self::Week),
            "month" => Ok(Self::Month(1)),
            _ => {
                let day = text.strip_prefix("month from ").and_then(|day| day.parse().ok());
                day.filter(|day| (1..=28).contains(day)).map(Self::Month).ok_or_else(|| {
                    format!(
                        "'{text}' is no period; there are day, week, month, and \"month from 15\" (1 to 28)"
                    )
                })
            }
        }
    }
}

fn before(year: u64, month: u64) -> (u64, u64) {
    if month == 1 { (year - 1, 12) } else { (year, month - 1) }
}

fn after(year: u64, month: u64) -> (u64, u64) {
    if month == 12 { (year + 1, 1) } else { (year, month + 1) }
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn month_length(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + is_leap(year) as u64,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the start of the day this many days after the epoch.
const fn day(days: u64) -> Time {
    Time::from_micros(DAY.micros() * days)
}

/// Returns the days from the epoch to a date of the Gregorian calendar; 0 before the epoch.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let years: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    let months: u64 = (1..month).map(|month| month_length(year, month)).sum();
    if year < 1970 { 0 } else { years + months + day - 1 }
}

/// Returns the date this number of days after the epoch.
fn date(mut days: u64) -> (u64, u64, u64) {
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    while days >= month_length(year, month) {
        days -= month_length(year, month);
        month += 1;
    }
    (year, month, days + 1)
}

/// Usage of a period, as it is kept over restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Start of the period.
    pub start: Time,
    /// Bytes used in it, including held leases.
    pub used: u64,
    /// Bytes in the bucket, negative when more was used than earned.
    pub earned: i64,
}

/// The account of a quota, from which sessions take leases.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    quota: Quota,
    start: Time,
    end: Time,
    used: u64,
    leased: u64,
    /// Bytes in the bucket.
    tokens: f64,
    updated: Time,
    held: bool,
    /// Start of the previous period and its usage, in case the clock is set back to it.
    before: (Time, u64),
}

/// Time before which a clock is not set, 2025: this program did not exist.
const NOT_SET: Time = day(55 * 365 + 14);

/// Latest time of a valid record, in 2125.
const LATEST: Time = day(55 * 365 + 14 + 100 * 366);

/// Smallest bucket in bytes.
const MIN_BURST: u64 = 64_000;

/// Smallest lease in bytes while enough is left: at 40 Mbit/s it lasts for 100 ms, in which it is
/// renewed.
const MIN_LEASE: u64 = 500_000;

/// Largest lease in bytes. At 100 Mbit/s that lasts a third of a second, and a killed program loses
/// that much.
const MAX_LEASE: u64 = 4_000_000;

impl Account {
    /// Creates the account at this time. Without a record, the usage is set to that of an even use
    /// so far, because the real one is unknown. The same applies to a record of a period after the
    /// next, whose usage is a lower bound.
    pub fn new(quota: Quota, now: Time, record: Option<Record>) -> Self {
        let (start, end) = quota.period.around(now);
        let (_, next_end) = quota.period.around(end);
        // A clock that is not set yet is no evidence against the record.
        let is_possible = |record: &Record| record.start < if now < NOT_SET { LATEST } else { next_end };
        let sound = record.filter(is_possible);
        // The clock may have been set back: a period that has begun is not begun again.
        let (start, end) = sound.map_or((start, end), |record| quota.period.around(record.start.max(now)));
        let mut account = Self {
            quota,
            start,
            end,
            used: 0,
            leased: 0,
            tokens: 0.0,
            updated: now,
            held: false,
            before: (Time::EPOCH, 0),
        };
        account.tokens = account.burst();
        match sound {
            Some(record) if record.start >= start => {
                (account.used, account.tokens) = (record.used, record.earned as f64);
            }
            // The record is of an earlier period: this one has begun while no program ran.
            Some(_) => {}
            None => {
                let past = (now - start).micros() as f64 / (end - start).micros() as f64;
                let even = (quota.bytes as f64 * past) as u64;
                // The record is of a future period, by a clock that was wrong or a file that is
                // damaged.
                account.used = even.max(record.map_or(0, |record| record.used));
            }
        }
        account
    }

    /// Returns the quota.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    fn burst(&self) -> f64 {
        (self.quota.bytes / 100).max(MIN_BURST) as f64
    }

    /// Returns the record to keep over a restart.
    pub fn record(&self) -> Record {
        Record { start: self.start, used: self.used.saturating_add(self.leased), earned: self.tokens as i64 }
    }

    /// Returns the bytes left in this period, without those of leases.
    pub fn left(&self) -> u64 {
        self.quota.bytes.saturating_sub(self.used.saturating_add(self.leased))
    }

    /// Returns the bytes used in this period.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Returns the end of the period.
    pub fn ends(&self) -> Time {
        self.end
    }

    /// Returns the bytes per second that the bucket earns now.
    pub fn pace(&self) -> f64 {
        let rest = (self.end - self.updated).max(Span::TICK).as_secs_f64();
        self.quota.bytes.saturating_sub(self.used) as f64 / rest
    }

    /// Returns `true` if the interface is to be used only where no other can.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Returns `true` if too little is left to open a path.
    pub fn is_exhausted(&self) -> bool {
        self.left() < MIN_SHARE
    }

    /// Advances the account to this time.
    pub fn advance(&mut self, now: Time) {
        let (previous, _) = self.quota.period.around(self.start - Span::TICK);
        if now < previous && now >= NOT_SET {
            // The clock was wrong: all that was counted meanwhile belongs to this period.
            let (start, end) = self.quota.period.around(now);
            let before = if self.before.0 == start { self.before.1 } else { 0 };
            (self.start, self.end, self.updated) = (start, end, now);
            self.used = self.used.saturating_add(before);
        }
        if now >= self.end {
            let (start, end) = self.quota.period.around(now);
            self.before = (self.start, self.used);
            // Held leases continue in the new period.
            (self.start, self.end, self.used) = (start, end, 0);
            (self.tokens, self.updated) = (self.burst(), now);
        }
        let elapsed = (now - self.updated).as_secs_f64();
        self.tokens = (self.tokens + self.pace() * elapsed).min(self.burst());
        self.updated = self.updated.max(now);
        // The last part is kept for data that no other path can carry, and for packets that the
        // peer sends before it detects the end.
        let is_last = (self.left() as f64) < self.burst();
        self.held = is_last || if self.held { self.tokens < self.burst() / 2.0 } else { self.tokens <= 0.0 };
    }

    /// Records the use of a lease by a session, and refills the lease from the rest of the quota.
    /// Returns the new size of the lease.
    pub fn settle(&mut self, now: Time, lease: u64, used: u64) -> u64 {
        self.advance(now);
        self.leased = self.leased.saturating_sub(lease);
        self.used = self.used.saturating_add(used);
        self.tokens -= used as f64;
        let rest = lease.saturating_sub(used);
        let full = (self.quota.bytes / 100).clamp(MIN_LEASE, MAX_LEASE);
        let lease = rest.max(full).min(self.left());
        self.leased += lease;
        lease
    }

    /// Returns the properties of a lease for its session.
    pub fn share(&self, lease: u64) -> QuotaShare {
        QuotaShare { left: lease, is_held: self.held, is_last: self.is_exhausted() }
    }

    /// Takes back a lease of which this much was used.
    pub fn end_lease(&mut self, now: Time, lease: u64, used: u64) {
        self.advance(now);
        self.leased = self.leased.saturating_sub(lease);
        self.used = self.used.saturating_add(used);
        self.tokens -= used as f64;
    }
}

impl Quota {
    /// Creates a quota of a size.
    pub fn new(size: Size, period: Period) -> Self {
        Self { bytes: size.bytes(), period }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use squall_units::short::{at_ms, at_us, us};

    use super::*;

    /// In May 2026.
    const RECENT: Time = day(20_590);
    /// 2024-02-29 12:00:00 UTC, a Thursday.
    const LEAP_DAY: Time = at_ms(1_709_208_000_000);

    #[test]
    fn periods_start_at_midnight_utc() {
        let hours = |(start, end): (Time, Time)| {
            ((LEAP_DAY - start) / Span::from_secs(3_600), (end - LEAP_DAY) / Span::from_secs(3_600))
        };
        assert_eq!(hours(Period::Day.around(LEAP_DAY)), (12, 12));
        assert_eq!(hours(Period::Week.around(LEAP_DAY)), (84, 84), "Monday the 26th to Monday the 4th");
        assert_eq!(hours(Period::Month(1).around(LEAP_DAY)), (28 * 24 + 12, 12));
        assert_eq!(hours(Period::Month(15).around(LEAP_DAY)), (14 * 24 + 12, 14 * 24 + 12), "to March 15th");
        assert_eq!(date(LEAP_DAY.since_epoch() / DAY), (2024, 2, 29));
    }

    #[test]
    fn a_record_of_a_time_to_come_does_not_give_everything() {
        let quota = Quota { bytes: 30_000_000, period: Period::Month(1) };
        let (start, end) = quota.period.around(RECENT);
        let even = (30_000_000.0 * (RECENT - start).micros() as f64 / (end - start).micros() as f64) as u64;
        for start in [end + DAY * 40, LATEST, at_us(u64::MAX / 2), Time::MAX] {
            for used in [0, even + 7, u64::MAX] {
                let record = Some(Record { start, used, earned: i64::MAX });
                for now in [RECENT, Time::EPOCH] {
                    let mut account = Account::new(quota, now, record);
                    account.advance(RECENT);
                    // A record from a clock that was not set is lost.
                    assert!(
                        now == Time::EPOCH || account.used() >= even.max(used),
                        "{start:?} {used}: {account:?}"
                    );
                    assert!(account.record().used >= account.used() && account.left() <= 30_000_000);
                    account.settle(RECENT, 0, 1_000);
                    account.advance(end);
                }
            }
        }
    }

    #[test]
    fn a_period_is_read_and_others_are_named() {
        assert_eq!("month from 15".parse(), Ok(Period::Month(15)));
        assert_eq!("week".parse(), Ok(Period::Week));
        for text in ["day", "week", "month", "month from 15"] {
            assert_eq!(text.parse::<Period>().map(|period| period.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "year", "month from 29", "month from 0", "months"] {
            assert!(text.parse::<Period>().is_err_and(|error| error.contains("day, week, month")), "{text}");
        }
    }

    #[test]
    fn without_a_record_the_past_counts_as_evenly_used() {
        let quota = Quota { bytes: 1_000_000, period: Period::Day };
        assert_eq!(Account::new(quota, LEAP_DAY, None).left(), 500_000);
        let (start, _) = Period::Day.around(LEAP_DAY);
        let known = Record { start, used: 100_000, earned: 0 };
        assert_eq!(Account::new(quota, LEAP_DAY, Some(known)).left(), 900_000);
        let old = Record { start: start - DAY, used: 100_000, earned: 0 };
        assert_eq!(Account::new(quota, LEAP_DAY, Some(old)).left(), 1_000_000);
        let set_back = Record { start: start + DAY, ..known };
        assert_eq!(Account::new(quota, LEAP_DAY, Some(set_back)).left(), 900_000);
    }

    /// A device without a battery for its clock starts in 1970.
    #[test]
    fn a_clock_that_is_set_after_the_start_begins_no_period_again() {
        let quota = Quota { bytes: 1_000_000, period: Period::Month(1) };
        let (start, end) = quota.period.around(LEAP_DAY);
        let mut account =
            Account::new(quota, at_ms(5_000), Some(Record { start, used: 100_000, earned: 10_000 }));
        let lease = account.settle(at_ms(6_000), 0, 0);
        account.end_lease(at_ms(7_000), lease, 1_000);
        assert_eq!((account.record().start, account.used()), (start, 101_000), "kept if it is never set");
        account.advance(LEAP_DAY);
        assert_eq!(account.used(), 101_000);
        account.advance(end);
        assert_eq!(account.used(), 0, "the next month");
    }

    #[test]
    fn a_wrong_clock_neither_loses_what_was_used_nor_keeps_its_period() {
        let quota = Quota { bytes: 1_000_000, period: Period::Month(1) };
        let (start, end) = quota.period.around(RECENT);
        let mut account = Account::new(quota, start, Some(Record { start, used: 0, earned: 0 }));
        let lease = account.settle(start + DAY, 0, 0);
        account.end_lease(start + DAY, lease, 100_000);
        account.advance(at_ms(5_000));
        assert_eq!((account.used(), account.ends()), (100_000, end), "it is not set");
        account.advance(start + DAY * 365);
        let lease = account.settle(start + DAY * 365, 0, 0);
        account.end_lease(start + DAY * 365, lease, 7_000);
        assert_eq!(account.used(), 7_000, "another year");
        account.advance(start + DAY * 2);
        assert_eq!((account.used(), account.ends()), (107_000, end), "it was wrong");
        account.advance(end);
        account.advance(end - Span::from_secs(1));
        assert_eq!((account.used(), account.record().start), (0, end), "a little back is the same period");
    }

    /// A day of a session that always wants to send, restarted 30 times, at the end with a full record each time.
    #[test]
    fn a_period_is_never_exceeded_and_evenly_used_over_restarts() {
        let quota = Quota { bytes: 100_000_000, period: Period::Day };
        let (start, end) = Period::Day.around(LEAP_DAY);
        let step = (end - start) / 30_000;
        let mut account = Account::new(quota, start, Some(Record { start, used: 0, earned: 1_000_000 }));
        let mut lease = account.settle(start, 0, 0);
        let mut total = 0;
        for at in 1..30_000 {
            let now = start + step * at;
            // 50 kB in each step are fifteen times the quota.
            let used = if account.is_held() { 0 } else { lease.min(50_000) };
            total += used;
            lease = account.settle(now, lease, used);
            if at % 1_000 == 0 {
                account.end_lease(now, lease, 0);
                account = Account::new(quota, now, Some(account.record()));
                lease = account.settle(now, 0, 0);
            }
            let even = quota.bytes as f64 * at as f64 / 30_000.0;
            let off = (total as f64 - even).abs();
            assert!(off <= 0.02 * quota.bytes as f64, "{total} at {at}, evenly {even}");
            assert!(account.used() == total && total <= quota.bytes);
        }
        assert!(total >= quota.bytes * 97 / 100, "{total}");
        account.advance(end);
        assert_eq!((account.used(), account.is_held()), (0, false), "the next day");
    }

    proptest! {
        /// However sessions start and end, use little or report often, all of them together never
        /// have more than the quota.
        #[test]
        fn leases_never_add_up_to_more_than_there_is(
            bytes in 0u64..2_000_000, steps in prop::collection::vec((0usize..4, 0u64..300_000, 0u64..3_600), 1..200),
        ) {
            let quota = Quota { bytes, period: Period::Week };
            let (mut now, end) = Period::Week.around(LEAP_DAY);
            let mut account = Account::new(quota, now, Some(Record { start: now, used: 0, earned: 0 }));
            let (mut leases, mut total) = ([0; 4], 0);
            for (session, wanted, pause) in steps {
                now = (now + Span::from_secs(pause)).min(end - us(1));
                let used = wanted.min(leases[session]);
                total += used;
                leases[session] = account.settle(now, leases[session], used);
                prop_assert!(total + leases.iter().sum::<u64>() <= bytes);
                prop_assert_eq!(account.record().used, total + leases.iter().sum::<u64>());
            }
        }

        #[test]
        fn every_time_is_in_its_period(micros in 0..5_000_000_000_000_000u64, day in 1u8..=28) {
            let now = at_us(micros);
            for period in [Period::Day, Period::Week, Period::Month(day), Period::Every(Span::from_micros(7_777_777))] {
                let (start, end) = period.around(now);
                prop_assert!(start <= now && now < end, "{:?}", period);
                if start > super::day(31) {
                    prop_assert_eq!(period.around(end).0, end);
                    prop_assert_eq!(period.around(end - us(1)), (start, end));
                }
            }
        }
    }
}
