//! Endpoints and sessions by number.

use std::sync::Arc;

use squall_bindings::{Code, Failure, Session, Table, is_of_parent};

use crate::{endpoint::Endpoint, radio::Radios};

static ENDPOINTS: Table<Endpoint> = Table::new();
static SESSIONS: Table<Open> = Table::new();

/// A session of C with its radios.
pub(crate) struct Open {
    pub(crate) session: Session,
    pub(crate) radios: Radios,
}

pub(crate) fn insert_endpoint(endpoint: Endpoint) -> i64 {
    ENDPOINTS.insert(endpoint)
}

pub(crate) fn insert_session(session: Session) -> i64 {
    SESSIONS.insert(Open { session, radios: Radios::default() })
}

pub(crate) fn endpoint(number: i64) -> Result<Arc<Endpoint>, Failure> {
    ENDPOINTS.get(number).ok_or_else(|| unknown(number, "endpoint"))
}

pub(crate) fn session(number: i64) -> Result<Arc<Open>, Failure> {
    SESSIONS.get(number).ok_or_else(|| unknown(number, "session"))
}

pub(crate) fn remove_endpoint(number: i64) -> Result<Arc<Endpoint>, Failure> {
    ENDPOINTS.remove(number).ok_or_else(|| unknown(number, "endpoint"))
}

pub(crate) fn remove_session(number: i64) -> Result<Arc<Open>, Failure> {
    SESSIONS.remove(number).ok_or_else(|| unknown(number, "session"))
}

fn unknown(number: i64, kind: &str) -> Failure {
    if is_of_parent(number) {
        return Failure::forked(kind);
    }
    Failure::new(Code::ErrorHandle, format!("{number} is no {kind}: it was freed, or never was one"))
}
