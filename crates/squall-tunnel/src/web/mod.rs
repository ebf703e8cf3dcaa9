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
    shared::Shared,
    supervise::{self, Supervised},
};

/// Most connections at a time.
const CONNECTIONS: usize = 16;

/// Longest duration of a connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// The status cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("metrics: cannot listen on {address}: {source}")]
pub struct WebError {
    address: SocketAddr,
    source: io::Error,
}

/// The server of the status. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Web {
    address: SocketAddr,
    _task: Supervised,
}

impl Web {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Serves `/metrics` and `/status`.
pub(crate) async fn serve(address: SocketAddr, shared: Arc<Shared>) -> Result<Web, WebError> {
    let failed = |source| WebError { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    if !is_private(address.ip()) {
        tracing::warn!(%address, "metrics and status are open to other machines");
    }
    let (listener, journal) = (Arc::new(listener), shared.journal.clone());
    let serve = move || accept(listener.clone(), shared.clone(), is_private(address.ip()));
    Ok(Web { address, _task: supervise::restarting(journal, "the status page", serve) })
}

fn is_private(address: IpAddr) -> bool {
    address.is_loopback()
}

async fn accept(listener: Arc<TcpListener>, shared: Arc<Shared>, private: bool) -> Result<(), String> {
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // The permit first: further connections wait in the kernel, which bounds them too.
        let Ok(permit) = permits.clone().acquire_owned().await else { return Ok(()) };
        let Ok((stream, _)) = listener.accept().await else {
            // For instance because no file descriptor is free.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let shared = shared.clone();
        supervise::spawn(shared.journal.clone(), "a connection to the status page", async move {
            let service = service_fn(|request| {
                let answer = answer(&request, &shared, private);
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(CONNECTION_TIMEOUT)
                .keep_alive(false)
                .max_buf_size(16 << 10)
                .serve_connection(TokioIo::new(stream), service);
            // A client that disconnects gets no answer.
            let _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection).await;
            drop(permit);
        });
    }
}

/// Whether a request names this machine by an address, or as `localhost`. A web page could make another name point here
/// and read the status through a browser on this machine (DNS rebinding).
fn is_addressed<B>(request: &Request<B>) -> bool {
    let Some(host) = request.headers().get(header::HOST) else { return true };
    let Ok(authority) = host.to_str().unwrap_or_default().parse::<hyper::http::uri::Authority>() else {
        return false;
    };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name.parse::<IpAddr>().is_ok()
}

/// `private` if only this machine can connect.
fn answer<B>(request: &Request<B>, shared: &Shared, private: bool) -> Response<Full<Bytes>> {
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        _ if private && !is_addressed(request) => {
            let words = "use an address or localhost: other names are refused\n".to_owned();
            (StatusCode::FORBIDDEN, "text/plain", words)
        }
        (&Method::GET, "/metrics") => {
            (StatusCode::OK, metrics::CONTENT_TYPE, metrics::text(&shared.status()))
        }
        (&Method::GET, "/status") => {
            let body = serde_json::to_string(&shared.status()).unwrap_or_else(|_| "{}".to_owned());
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
