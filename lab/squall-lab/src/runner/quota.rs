//! Quotas of paths in a run, kept as a quota program would: every 100 ms it reads the client's
//! usage.

use squall_net::PathConfig;
use squall_proto::quota::{Account, Period, Quota, Record};
use squall_trace::Micros;
use squall_units::{Span, Time};

use crate::world::World;

/// Interval at which the client's usage is read.
const INTERVAL: Micros = 100_000;

/// Quotas of a run.
pub(super) struct Meters {
    meters: Vec<Meter>,
    due: Micros,
}

struct Meter {
    path: usize,
    account: Account,
    lease: u64,
    /// The client's usage at the last renewal of the lease, in bytes.
    used: u64,
}

impl Meters {
    /// Creates a meter for each path with a quota, at the start of the run. Usage during the
    /// handshake does not count.
    pub(super) fn new(paths: &[PathConfig], duration: Micros, world: &mut World) -> Self {
        let meter = |(path, config): (usize, &PathConfig)| {
            let period = Period::Every(config.quota_period.unwrap_or(Span::from_micros(duration)));
            let quota = Quota { bytes: config.quota?.bytes(), period };
            let full = Record { start: Time::EPOCH, used: 0, earned: i64::MAX };
            let used = world.usage(path);
            Some(Meter { path, account: Account::new(quota, Time::EPOCH, Some(full)), lease: 0, used })
        };
        Self { meters: paths.iter().enumerate().filter_map(meter).collect(), due: 0 }
    }

    /// Returns the time of the next reading, from the start of the run.
    pub(super) fn due(&self) -> Option<Micros> {
        (!self.meters.is_empty()).then_some(self.due)
    }

    /// Reads the client's usage and renews its leases, if due.
    pub(super) fn read(&mut self, now: Micros, world: &mut World) {
        if self.due().is_none_or(|due| due > now) {
            return;
        }
        self.due = now + INTERVAL;
        for meter in &mut self.meters {
            let used = world.usage(meter.path);
            meter.lease =
                meter.account.settle(Time::from_micros(now), meter.lease, used.saturating_sub(meter.used));
            meter.used = used;
            world.set_quota(meter.path, Some(meter.account.share(meter.lease)));
        }
    }
}
