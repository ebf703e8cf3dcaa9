//! Settings of an endpoint.

use squall_proto::{Config, MAX_WORKERS};

use crate::EndpointError;

/// Settings of an endpoint. With one worker, a [`Config`] is enough and converts into this type.
///
/// ```
/// use squall::{Config, EndpointConfig};
///
/// let config = EndpointConfig::from(Config::default().max_sessions(100)).workers(4);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct EndpointConfig {
    pub(super) sessions: Config,
    workers: usize,
}

impl EndpointConfig {
    /// Sets the number of worker tasks that share the sessions of the endpoint: 1 to
    /// [`MAX_WORKERS`]. Each worker keeps at most one core busy, and a session stays on one worker.
    /// Listening with several workers needs Linux; on other systems one worker listens whatever the
    /// number. See `docs/scaling.md`. Default: 1.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Returns the number of workers, or an error if it is out of range.
    pub(super) fn count(&self) -> Result<usize, EndpointError> {
        match self.workers {
            workers @ 1..=MAX_WORKERS => Ok(workers),
            workers => Err(EndpointError::Workers(workers)),
        }
    }

    /// Returns the number of workers of an endpoint that listens: 1 unless the system can
    /// distribute packets to workers by connection id.
    pub(super) fn count_listening(&self) -> Result<usize, EndpointError> {
        let workers = self.count()?;
        if cfg!(target_os = "linux") || workers == 1 {
            return Ok(workers);
        }
        tracing::warn!(workers, "on this system an endpoint that listens has one worker");
        Ok(1)
    }
}

impl From<Config> for EndpointConfig {
    fn from(sessions: Config) -> Self {
        Self { sessions, workers: 1 }
    }
}
