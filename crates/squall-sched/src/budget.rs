//! A cap on the bytes of metered paths, for every scheduler.
//!
//! `Capped` changes no decision: it sets [`Profile::metered_cap`]. The session, which alone sees
//! every packet, enforces the cap and reports the rest to the scheduler as
//! [`PathView::budget`](crate::PathView).

use std::{fmt, str::FromStr};

use squall_units::{Size, UnitError};

use crate::{Context, Decision, Profile, SchedEvent, Scheduler};

/// A scheduler with a limit on the bytes of each metered path.
pub(crate) struct Capped {
    inner: Box<dyn Scheduler>,
    cap: u64,
}

impl Capped {
    /// Limits `inner`, in bytes of UDP payload for each metered path and session. If it has a cap
    /// of its own, the smaller one applies.
    pub(crate) fn new(inner: Box<dyn Scheduler>, cap: u64) -> Self {
        Self { inner, cap }
    }
}

impl Scheduler for Capped {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        self.inner.next(cx)
    }

    fn on_event(&mut self, event: &SchedEvent, cx: &Context<'_>) {
        self.inner.on_event(event, cx);
    }

    fn profile(&self) -> Profile {
        let inner = self.inner.profile();
        Profile { metered_cap: Some(inner.metered_cap.map_or(self.cap, |own| own.min(self.cap))), ..inner }
    }
}

/// A cap in its text form: `none`, plain bytes, or with a unit: `250MB`, `1.5GiB`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cap(pub Option<u64>);

impl FromStr for Cap {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text.trim() == "none" {
            return Ok(Self(None));
        }
        text.parse::<Size>().map(|size| Self(Some(size.bytes())))
    }
}

impl fmt::Display for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(bytes) => bytes.fmt(f),
            None => f.write_str("none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use squall_units::short::at_us;

    use super::*;
    use crate::BlockQueue;

    fn cap(text: &str) -> Result<Option<u64>, UnitError> {
        text.parse::<Cap>().map(|cap| cap.0)
    }

    #[test]
    fn sizes_are_read_as_they_are_written_elsewhere() {
        assert_eq!(cap("none"), Ok(None));
        assert_eq!(cap("0"), Ok(Some(0)));
        assert_eq!(cap("1500"), Ok(Some(1500)));
        assert_eq!(cap(" 250 MB "), Ok(Some(250_000_000)));
        assert_eq!(cap("1.5GiB"), Ok(Some(3 << 29)));
        assert_eq!(cap("0.5kB"), Ok(Some(500)));
        assert_eq!(cap("18446744073709551615"), Ok(Some(u64::MAX)));
        assert_eq!(cap("20KiB"), Ok(Some(20_480)));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "MB", "much", "-1", ".5MB", "5.", "1.2.3"] {
            assert!(matches!(cap(text), Err(UnitError::NoNumber { .. })), "{text}");
        }
        for text in ["5mb", "5 apples"] {
            assert!(matches!(cap(text), Err(UnitError::Unit { .. })), "{text}");
        }
        for text in ["0.5B", "18446744073709551616", "99999999999GB", "1e400", "0.0000000000000000001GB"] {
            assert!(cap(text).is_err(), "{text}");
        }
    }

    struct Own(Option<u64>);

    impl Scheduler for Own {
        fn next(&mut self, _: &Context<'_>) -> Decision {
            Decision::Idle { wake: Some(at_us(7)) }
        }

        fn profile(&self) -> Profile {
            Profile { metered_cap: self.0, wants_stalls: true, wants_parity: true, ..Profile::default() }
        }
    }

    #[test]
    fn a_capped_scheduler_decides_as_before() {
        let queue = BlockQueue::new();
        let cx = Context { now: at_us(0), queue: &queue, paths: &[] };
        for (own, expected) in [(None, 100), (Some(50), 50), (Some(500), 100)] {
            let mut capped = Capped::new(Box::new(Own(own)), 100);
            let expected = Profile { metered_cap: Some(expected), ..Own(own).profile() };
            assert_eq!(capped.profile(), expected);
            assert_eq!(capped.next(&cx), Decision::Idle { wake: Some(at_us(7)) });
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9.]{0,40}[a-zA-Z ]{0,4}") {
            let _ = cap(&text);
        }

        #[test]
        fn what_is_written_reads_back(bytes in any::<u64>()) {
            prop_assert_eq!(cap(&Cap(Some(bytes)).to_string()), Ok(Some(bytes)));
        }
    }
}
