//! Settings of an endpoint.

use squall_proto::{Config, MAX_WORKERS};

use crate::EndpointError;

/// Settings of an endpoint. A [`Config`] stands for them where there is one worker.
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
    /// Tasks that the endpoint divides its sessions among, each of which keeps one core busy at most: 1 to [`MAX_WORKERS`]. A
    /// session lives on one of them. Listening with several needs Linux; elsewhere there is one whatever the number. See
    /// `docs/scaling.md`. Default: 1.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// How many workers there are.
    pub(super) fn count(&self) -> Result<usize, EndpointError> {
        match self.workers {
            workers @ 1..=MAX_WORKERS => Ok(workers),
            workers => Err(EndpointError::Workers(workers)),
        }
    }

    /// The same, of an endpoint that listens: several workers need a system that gives packets to them by their connection
    /// ids.
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
