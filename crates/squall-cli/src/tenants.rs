//! Tenants of an exit as a table.

use squall_observe::status::{TenantLimits, TenantStatus};
use squall_units::Rate;

use crate::table::Table;

/// Returns a table with a line for each tenant.
pub(crate) fn table(tenants: &[TenantStatus]) -> Table {
    let row = |tenant: &TenantStatus| {
        let TenantLimits { max_sessions, rate_in, rate_out, bytes, .. } = tenant.limits;
        let most = |limit: Option<String>| limit.map_or_else(String::new, |limit| format!(" of {limit}"));
        let rate = |rate: Option<Rate>| rate.map_or_else(|| "–".to_owned(), |rate| rate.to_string());
        let period =
            format!("{}{}", megabytes(tenant.period_bytes), most(bytes.map(|bytes| bytes.to_string())));
        vec![
            tenant.name.clone(),
            format!("{}{}", tenant.sessions, most(max_sessions.map(|most| most.to_string()))),
            tenant.sessions_refused.to_string(),
            rate(rate_in),
            rate(rate_out),
            megabytes(tenant.dropped_in_bytes + tenant.dropped_out_bytes),
            period,
        ]
    };
    Table {
        head: vec!["tenant", "sessions", "refused", "rate in", "rate out", "dropped", "in this period"],
        rows: tenants.iter().map(row).collect(),
        left: 1,
        spare: &["refused", "rate out", "rate in", "dropped"],
    }
}

/// Formats bytes in megabytes.
pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
