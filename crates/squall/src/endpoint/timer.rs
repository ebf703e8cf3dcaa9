//! A timer with the resolution that pacing needs.
//!
//! The timers of tokio have a resolution of a millisecond and fire up to two milliseconds late; at
//! 1 Gbps that is a burst of 250 kB. Systems with timer files (Linux, Android) use one of these
//! instead.

use std::{
    task::{Context, Poll},
    time::{Duration, Instant},
};

/// Shortest time between setting the timer and its firing. Packets that the pacer releases within
/// it leave together: each wake-up costs as much as several packets.
const GRANULE: Duration = Duration::from_micros(500);

/// Wakes a task at a given time.
pub(crate) struct Timer {
    clock: Clock,
    /// Time at which the clock fires.
    set: Option<Instant>,
}

impl Timer {
    pub(crate) fn new() -> Self {
        Self { clock: Clock::new(), set: None }
    }

    /// Returns `true` if the time has come; otherwise the task is woken then. `None` means never.
    ///
    /// A time later than the last one leaves the clock as it is: it is cheaper to be woken once in
    /// vain than to set the clock for every packet that postpones a timeout.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, at: Option<Instant>) -> bool {
        let Some(at) = at else { return false };
        loop {
            let now = Instant::now();
            if at <= now {
                return true;
            }
            let fires = at.max(now + GRANULE);
            if self.set.is_none_or(|set| fires < set) {
                self.clock.set(fires - now);
                self.set = Some(fires);
            }
            if self.clock.poll(cx).is_pending() {
                return false;
            }
            self.set = None;
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
use fine::Clock;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod fine {
    use std::os::fd::OwnedFd;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::unix::AsyncFd;

    use super::{Context, Duration, Poll, coarse};

    /// A timer file, or the coarse timer when the process has reached its limit of open files.
    pub(super) enum Clock {
        Fine(AsyncFd<OwnedFd>),
        Coarse(coarse::Clock),
    }

    impl Clock {
        pub(super) fn new() -> Self {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let file = timerfd_create(TimerfdClockId::Monotonic, flags).map_err(std::io::Error::from);
            #[expect(deprecated, reason = "the file is owned here and never swapped; `register` is unsafe")]
            match file.and_then(AsyncFd::new) {
                Ok(file) => Self::Fine(file),
                Err(error) => {
                    tracing::debug!(%error, "no fine timer");
                    Self::Coarse(coarse::Clock::new())
                }
            }
        }

        pub(super) fn set(&mut self, after: Duration) {
            match self {
                Self::Fine(file) => {
                    let never = Timespec { tv_sec: 0, tv_nsec: 0 };
                    let value = Timespec {
                        tv_sec: after.as_secs().try_into().unwrap_or(i64::from(i32::MAX)),
                        tv_nsec: after.subsec_nanos().into(),
                    };
                    let spec = Itimerspec { it_interval: never, it_value: value };
                    if let Err(error) = timerfd_settime(&*file, TimerfdTimerFlags::empty(), &spec) {
                        tracing::debug!(%error, "timer not set");
                    }
                }
                Self::Coarse(clock) => clock.set(after),
            }
        }

        pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
            let file = match self {
                Self::Fine(file) => file,
                Self::Coarse(clock) => return clock.poll(cx),
            };
            loop {
                let Poll::Ready(Ok(mut ready)) = file.poll_read_ready(cx) else { return Poll::Pending };
                let mut expirations = [0; 8];
                match ready.try_io(|file| Ok(rustix::io::read(file, &mut expirations)?)) {
                    Ok(Ok(_)) => {
                        // It fires once.
                        ready.clear_ready();
                        return Poll::Ready(());
                    }
                    // The timer was set again before it was read.
                    Err(_would_block) => {}
                    Ok(Err(_)) => return Poll::Pending,
                }
            }
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
use coarse::Clock;

mod coarse {
    use std::pin::Pin;

    use tokio::time::{Sleep, sleep};

    use super::{Context, Duration, Poll};

    /// Timer of the runtime.
    pub(super) struct Clock(Pin<Box<Sleep>>);

    impl Clock {
        pub(super) fn new() -> Self {
            Self(Box::pin(sleep(Duration::ZERO)))
        }

        pub(super) fn set(&mut self, after: Duration) {
            self.0.as_mut().reset(tokio::time::Instant::now() + after);
        }

        pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
            self.0.as_mut().poll(cx)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    async fn fires_after(timer: &mut Timer, after: Duration) -> Duration {
        let set = Instant::now();
        let at = Some(set + after);
        poll_fn(|cx| if timer.poll(cx, at) { Poll::Ready(()) } else { Poll::Pending }).await;
        set.elapsed()
    }

    #[tokio::test]
    async fn it_fires_when_it_is_time_and_not_before() {
        let mut timer = Timer::new();
        for micros in [1, 300, 1_500, 5_000] {
            let after = Duration::from_micros(micros);
            let took = fires_after(&mut timer, after).await;
            assert!(took >= after, "{took:?} for {after:?}");
            assert!(took < after + Duration::from_millis(500), "{took:?} for {after:?}");
        }
    }

    #[tokio::test]
    async fn it_can_be_set_again_and_never() {
        let mut timer = Timer::new();
        let far = Some(Instant::now() + Duration::from_secs(3600));
        poll_fn(|cx| {
            assert!(!timer.poll(cx, far) && !timer.poll(cx, None));
            Poll::Ready(())
        })
        .await;
        assert!(fires_after(&mut timer, Duration::from_millis(1)).await < Duration::from_secs(1));
        assert!(fires_after(&mut timer, Duration::ZERO).await < Duration::from_secs(1));
    }
}
