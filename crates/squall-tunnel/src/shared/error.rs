//! Errors at the start of a tunnel.

#[cfg(unix)]
use std::path::PathBuf;

use squall::{IdentityError, ListenError, TlsError};
use squall_observe::web::WebError;

use super::ChangeError;
use crate::{flow::FlowError, tun::TunError};

/// Reason why a tunnel does not start, or does not accept a new configuration.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The socket of a flow cannot be opened.
    #[error(transparent)]
    Flow(#[from] FlowError),
    /// The tenants are invalid.
    #[error("{0}")]
    Tenants(String),
    /// The control socket cannot be opened.
    #[cfg(unix)]
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The TUN device cannot be used.
    #[error(transparent)]
    Tun(#[from] TunError),
    /// The exit cannot listen on its address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A certificate cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Certificate and key do not belong together.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The scheduler does not exist.
    #[error("{0}")]
    Scheduler(String),
    /// The status cannot be served.
    #[error(transparent)]
    Web(#[from] WebError),
}

/// A control socket cannot be opened.
#[cfg(unix)]
#[derive(Debug, thiserror::Error)]
#[error("control socket {}: {source}", path.display())]
pub struct ControlError {
    pub(crate) path: PathBuf,
    pub(crate) source: std::io::Error,
}

impl From<ChangeError> for StartError {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Flow(error) => Self::Flow(error),
            ChangeError::Conflict(problem) => Self::Tenants(problem),
            ChangeError::State(error) => Self::Tenants(error.to_string()),
        }
    }
}
