//! Endpoints: accepting and starting sessions.

use std::net::IpAddr;
use std::path::PathBuf;

use pyo3::prelude::*;
use squall::{Config, Connect, Endpoint, Identity, Interfaces, Trust};
use squall_bindings::OfProcess;

use super::inbox::{self, Inbox};
use super::runtime::{awaitable, handle};
use super::{Session, argument, failed, forked};

/// Accepts sessions.
#[pyclass(module = "squall", frozen)]
pub(crate) struct Listener {
    addresses: Vec<String>,
    fingerprint: String,
    open: OfProcess<Open>,
}

struct Open {
    endpoint: Endpoint,
    inbox: Inbox<squall::Session>,
}

/// Listens on `host:port`.
#[pyfunction]
#[pyo3(signature = (address, *, identity = None, name = "localhost", scheduler = None))]
pub(crate) fn listen(
    py: Python<'_>,
    address: &str,
    identity: Option<PathBuf>,
    name: &str,
    scheduler: Option<&str>,
) -> PyResult<Listener> {
    let config = config(scheduler)?;
    py.detach(|| {
        let identity = match identity {
            Some(file) => Identity::load_or_create(file, name).map_err(failed)?,
            None => Identity::self_signed(name).map_err(failed)?,
        };
        let tls = identity.server_tls().map_err(failed)?;
        let endpoint = squall_bindings::listen(handle(), address, &tls, &config).map_err(failed)?;
        let addresses = endpoint.local_addrs().iter().map(ToString::to_string).collect();
        let open = OfProcess::new(Open { endpoint, inbox: Inbox::new() });
        Ok(Listener { addresses, fingerprint: identity.fingerprint().to_string(), open })
    })
}

/// Connects to `host:port`.
#[pyfunction]
#[pyo3(signature = (host, *, fingerprint = None, roots = None, local = None, interfaces = None, scheduler = None))]
pub(crate) fn connect<'py>(
    py: Python<'py>,
    host: &str,
    fingerprint: Option<&str>,
    roots: Option<PathBuf>,
    local: Option<Vec<IpAddr>>,
    interfaces: Option<Vec<String>>,
    scheduler: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let config = config(scheduler)?;
    let trust = match (fingerprint, roots) {
        (Some(_), Some(_)) => return Err(argument("give a fingerprint or roots, not both")),
        (Some(text), None) => Trust::Pinned(text.parse().map_err(argument::<squall::FingerprintError>)?),
        (None, Some(file)) => Trust::Roots(squall::load_certificates(file).map_err(failed)?),
        (None, None) => Trust::PlatformRoots,
    };
    let interfaces = match (local, interfaces) {
        (Some(_), Some(_)) => return Err(argument("give local addresses or interfaces, not both")),
        (Some(local), None) => Interfaces::Local(local),
        (None, Some(names)) => Interfaces::Named(names),
        (None, None) => Interfaces::Auto,
    };
    let request = Connect::to(host).trust(trust).interfaces(interfaces);
    awaitable(
        py,
        async move { squall::connect(request.config(config)).await.map(Session::from).map_err(failed) },
    )
}

fn config(scheduler: Option<&str>) -> PyResult<Config> {
    let config = Config::default();
    let Some(description) = scheduler else { return Ok(config) };
    Ok(config.scheduler(squall::scheduler(description).map_err(argument)?))
}

impl Listener {
    fn open(&self) -> PyResult<&Open> {
        self.open.get("listener").map_err(forked)
    }
}

#[pymethods]
impl Listener {
    #[getter]
    fn addresses(&self) -> Vec<String> {
        self.addresses.clone()
    }

    #[getter]
    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Returns the next session; none when the listener was closed.
    fn accept<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        inbox::call(this, "take")
    }

    fn _take(&self) -> PyResult<Option<Session>> {
        Ok(self.open()?.inbox.take().map(Session::from))
    }

    fn _fill<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let Open { endpoint, inbox } = self.open()?;
        let (endpoint, inbox) = (endpoint.clone(), inbox.share());
        awaitable(py, async move { Ok(inbox.fill(endpoint.accept()).await) })
    }

    /// Closes all of its sessions.
    #[pyo3(signature = (code = 0, reason = ""))]
    fn close(&self, code: u32, reason: &str) -> PyResult<()> {
        self.open()?.endpoint.close(code, reason);
        Ok(())
    }
}
