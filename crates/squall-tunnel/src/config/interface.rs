//! Settings of the paths of an interface: `[connect.paths.NAME]`.

use serde::Deserialize;
use squall::{Period, Quota, RateLimit, Role};
use squall_units::{Rate, Size};

use super::text::{Mistake, Parsed};

/// Role and limits of the paths of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PathConfig {
    /// Role of the paths at both ends. Default: primary.
    pub role: Role,
    /// Rate limit of each end on each path. Default: none.
    pub rate_limit: Option<RateLimit>,
    /// Bytes per day, week or month. Default: no quota.
    pub quota: Option<Quota>,
}

/// `[connect.paths.NAME]` as written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PathTable {
    #[serde(default)]
    role: Role,
    rate_limit: Option<Rate>,
    rate_burst: Option<Size>,
    quota: Option<Size>,
    quota_period: Option<Parsed<Period>>,
}

impl PathTable {
    pub(super) fn check(&self, name: &str) -> Result<PathConfig, Mistake> {
        let at = |problem: &str| Mistake::new("paths", format!("{name}: {problem}"));
        let rate_limit = match (self.rate_limit.map(Rate::bps), self.rate_burst) {
            (None, None) => None,
            (None, Some(_)) => return Err(at("rate_burst has no effect without rate_limit")),
            (Some(rate), _) if rate < 8_000 => return Err(at("rate_limit is below 8 kbps")),
            (Some(rate), burst) => {
                let limit = RateLimit::new(rate);
                Some(RateLimit { burst: burst.map_or(limit.burst, Size::bytes), ..limit })
            }
        };
        let quota = match (self.quota, &self.quota_period) {
            (None, None) => None,
            (None, Some(_)) => return Err(at("quota_period has no effect without quota")),
            (Some(_), None) => {
                return Err(at("quota needs quota_period: day, week, month, or \"month from 15\""));
            }
            (Some(size), Some(Parsed(period))) => Some(Quota { bytes: size.bytes(), period: *period }),
        };
        Ok(PathConfig { role: self.role, rate_limit, quota })
    }
}
