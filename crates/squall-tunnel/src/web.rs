//! Metrics and status over HTTP.

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode, body::Bytes, header, server::conn::http1, service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, sync::Semaphore};

use crate::{
    metrics,
    supervise::{self, Kept},
    tunnel::Core,
};

/// Connections at a time.
const CONNECTIONS: usize = 16;

/// How long a connection may take in all.
const PATIENCE: Duration = Duration::from_secs(10);

/// The status cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("metrics: cannot listen on {address}: {source}")]
pub struct WebError {
    address: SocketAddr,
    source: io::Error,
}

/// What serves; it ends with this.
#[derive(Debug)]
pub(crate) struct Web {
    address: SocketAddr,
    _task: Kept,
}

impl Web {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Serves `/metrics` and `/status`.
pub(crate) async fn serve(address: SocketAddr, core: Arc<Core>) -> Result<Web, WebError> {
    let failed = |source| WebError { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    if !is_private(address.ip()) {
        tracing::warn!(%address, "metrics and status can be read from other machines, by anyone");
    }
    let (listener, journal) = (Arc::new(listener), core.journal.clone());
    let serve = move || accept(listener.clone(), core.clone(), is_private(address.ip()));
    Ok(Web { address, _task: supervise::keep(journal, "the status page", serve) })
}

fn is_private(address: IpAddr) -> bool {
    address.is_loopback()
}

async fn accept(listener: Arc<TcpListener>, core: Arc<Core>, private: bool) -> Result<(), String> {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // A place first: connections beyond wait in the kernel, which bounds them too.
        let Ok(place) = places.clone().acquire_owned().await else { return Ok(()) };
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, for instance.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let core = core.clone();
        supervise::watch(core.journal.clone(), "a connection to the status page", async move {
            let service = service_fn(|request| {
                let answer = answer(&request, &core, private);
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .keep_alive(false)
                .max_buf_size(16 << 10)
                .serve_connection(TokioIo::new(stream), service);
            // Who goes away has no answer.
            let _ = tokio::time::timeout(PATIENCE, connection).await;
            drop(place);
        });
    }
}

/// Whether a request names this machine by an address, or as `localhost`. A name may be one that a web page made point
/// here, to have the browser of somebody on this machine read for it (DNS rebinding).
fn is_addressed<B>(request: &Request<B>) -> bool {
    let Some(host) = request.headers().get(header::HOST) else { return true };
    let Ok(authority) = host.to_str().unwrap_or_default().parse::<hyper::http::uri::Authority>() else {
        return false;
    };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name.parse::<IpAddr>().is_ok()
}

/// `private` if it is served to this machine only.
fn answer<B>(request: &Request<B>, core: &Core, private: bool) -> Response<Full<Bytes>> {
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        _ if private && !is_addressed(request) => {
            let words = "ask for an address or for localhost: other names are refused\n".to_owned();
            (StatusCode::FORBIDDEN, "text/plain", words)
        }
        (&Method::GET, "/metrics") => (StatusCode::OK, metrics::CONTENT_TYPE, metrics::text(core.status())),
        (&Method::GET, "/status") => {
            let body = serde_json::to_string(&core.status()).unwrap_or_else(|_| "{}".to_owned());
            (StatusCode::OK, "application/json", body)
        }
        (&Method::GET, _) => {
            (StatusCode::NOT_FOUND, "text/plain", "there are /metrics and /status\n".to_owned())
        }
        _ => (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET\n".to_owned()),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}
