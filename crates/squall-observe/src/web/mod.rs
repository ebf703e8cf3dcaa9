//! Metrics, status and the status page over HTTP.

mod feed;
mod history;
mod page;

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use http_body_util::{Either, Full};
use hyper::{
    Method, Request, Response, StatusCode, body::Bytes, header, server::conn::http1, service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, OnceCell, Semaphore},
};

use self::feed::{Feed, LISTENERS, Messages};
use crate::{
    clock::lock,
    journal::{Journal, Kind},
    machine::host_name,
    metrics,
    places::Places,
    status::{Status, WhyStatus},
    supervise::{self, Supervised},
    wait::{self, POLL, Waiting, is_absent},
};

/// Maximum number of simultaneous connections besides those that listen to the feed. A new
/// connection displaces the oldest, so that a probe of `/ready` always succeeds.
const CONNECTIONS: usize = 8;

/// Maximum duration of a connection that does not listen to the feed.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum duration of a connection that listens to the feed. Pages reconnect.
const LISTENER_TIMEOUT: Duration = Duration::from_secs(3600);

/// Maximum time for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);

/// Minimum interval between two reports of failures to accept a connection.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Kernel send buffer of a connection in bytes.
const SEND_BUFFER: usize = 64 << 10;

/// The status cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("metrics: cannot listen on {address}: {}", wait::problem(*.address, .source))]
pub struct WebError {
    address: SocketAddr,
    source: io::Error,
}

/// Server of the status. Dropping it ends the server.
#[derive(Debug)]
pub struct Web {
    listener: Arc<OnceCell<TcpListener>>,
    _tasks: [Supervised; 2],
}

impl Web {
    /// Returns the address, once the server listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.get().and_then(|listener| listener.local_addr().ok())
    }
}

/// The observed tunnel.
pub trait Source: Send + Sync + 'static {
    /// Returns the current status.
    fn status(&self) -> Status;

    /// Returns the stories of late and lost blocks of a flow.
    ///
    /// # Errors
    /// If there is no such flow; the message lists the existing ones.
    fn why(&self, flow: &str) -> Result<WhyStatus, String>;
}

/// Serves `/metrics`, `/status` and the page, once the address exists. Problems are events of the
/// journal.
///
/// # Errors
/// If it cannot listen, unless the address may still appear.
pub async fn serve(
    address: SocketAddr,
    source: Arc<dyn Source>,
    journal: Arc<Journal>,
) -> Result<Web, WebError> {
    let listener = match bind(address).await {
        Ok(listener) => Some(listener),
        Err(error) if is_absent(&error) => None,
        Err(source) => return Err(WebError { address, source }),
    };
    let listener = Arc::new(OnceCell::new_with(listener));
    let server = Arc::new(Server { source, feed: Feed::default() });
    let publisher = server.clone();
    let publish = move || {
        let server = publisher.clone();
        async move {
            server.feed.run(&*server.source).await;
            Ok(())
        }
    };
    let reports = journal.clone();
    let accepting = listener.clone();
    let serve = move || {
        let (listener, server, journal) = (accepting.clone(), server.clone(), reports.clone());
        async move {
            let listener = listener.get_or_init(|| bind_later(address, &journal)).await;
            accept(listener, server, &journal).await
        }
    };
    let tasks = [
        supervise::restarting(journal.clone(), "the status page", serve),
        supervise::restarting(journal, "the feed of the status page", publish),
    ];
    Ok(Web { listener, _tasks: tasks })
}

async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let bound = TcpListener::bind(address).await;
    let bound = match bound.as_ref().map_err(|error| wait::instead(address, error)) {
        Err(Some(other)) => {
            tracing::warn!("metrics: this machine has no IPv6, {other} is used instead of {address}");
            TcpListener::bind(other).await
        }
        _ => bound,
    }?;
    let address = bound.local_addr()?;
    if !is_private(address.ip()) {
        tracing::warn!(%address, "metrics and status are open to other machines");
    }
    Ok(bound)
}

/// Listens once the address exists and is free.
async fn bind_later(address: SocketAddr, journal: &Journal) -> TcpListener {
    let mut waiting = Waiting::default();
    loop {
        match bind(address).await {
            Ok(listener) => {
                journal.info(Kind::Task, format!("metrics and status on http://{address}/"));
                return listener;
            }
            Err(error) => {
                let words =
                    format!("metrics: {address}: {}; they wait for it", wait::problem(address, &error));
                waiting.report(journal, Kind::Task, words);
            }
        }
        tokio::time::sleep(POLL).await;
    }
}

/// State shared by all connections.
struct Server {
    source: Arc<dyn Source>,
    feed: Feed,
}

fn is_private(address: IpAddr) -> bool {
    address.is_loopback()
}

async fn accept(listener: &TcpListener, server: Arc<Server>, journal: &Arc<Journal>) -> Result<(), String> {
    // One more for a connection that displaces another.
    let permits = Arc::new(Semaphore::new(CONNECTIONS + LISTENERS + 1));
    let places = Places::new(CONNECTIONS, CONNECTIONS);
    let mut said: Option<Instant> = None;
    loop {
        // Acquired first: further connections wait in the kernel, which limits them too.
        let Ok(permit) = permits.clone().acquire_owned().await else { return Ok(()) };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // For instance, no file descriptor is free. One may become free again.
                if said.is_none_or(|at| at.elapsed() > REPORT_INTERVAL) {
                    said = Some(Instant::now());
                    let words = format!("the status page accepts no connections: {error}");
                    journal.warn(Kind::Task, words);
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (server, places) = (server.clone(), places.clone());
        supervise::spawn(journal.clone(), "a connection to the status page", async move {
            serve_connection(stream, &server, &places).await;
            drop(permit);
        });
    }
}

async fn serve_connection(stream: TcpStream, server: &Server, places: &Arc<Places<Arc<Notify>>>) {
    // A listener that does not read must not make the kernel buffer megabytes. Fails on a closed
    // socket.
    let _ = socket2::SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER);
    let dropped = Arc::new(Notify::new());
    // Listeners release theirs: the feed has its own limit.
    let place = Mutex::new(Some(places.take(&dropped)));
    let service = service_fn(|request| {
        let answer = server.answer(&request, &dropped);
        if matches!(answer.body(), Either::Right(_)) {
            lock(&place).take();
        }
        async move { Ok::<_, Infallible>(answer) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .keep_alive(false)
        .max_buf_size(16 << 10)
        .serve_connection(TokioIo::new(stream), service);
    let expired = async {
        tokio::time::sleep(CONNECTION_TIMEOUT).await;
        if lock(&place).is_none() {
            tokio::time::sleep(LISTENER_TIMEOUT).await;
        }
    };
    tokio::select! {
        // A client that disconnects gets no answer.
        _ = connection => {}
        () = expired => {}
        // A slow listener may not read its queue, and newer connections need the place.
        () = dropped.notified() => {}
    }
}

/// Formats the status as JSON: the answer to `/status`, and the messages for the page.
fn status_json(status: &Status) -> String {
    serde_json::to_string(status).unwrap_or_else(|_| "{}".to_owned())
}

/// `true` if a request names this machine by an address, by its host name, or by a name that no
/// internet domain can have: without a dot, or of a domain that is never delegated (RFC 6761, RFC
/// 6762, RFC 8375, and ICANN's `internal`). Otherwise a web page could make another name resolve to
/// this machine and read the status through a browser that reaches it (DNS rebinding).
fn is_addressed<B>(request: &Request<B>) -> bool {
    let Some(host) = request.headers().get(header::HOST) else { return true };
    let Ok(authority) = host.to_str().unwrap_or_default().parse::<hyper::http::uri::Authority>() else {
        return false;
    };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    let name = name.to_ascii_lowercase();
    let is_local = |domain| name.ends_with(domain);
    name.parse::<IpAddr>().is_ok()
        || !name.contains('.')
        || [".localhost", ".local", ".internal", ".home.arpa", ".test"].into_iter().any(is_local)
        || name.eq_ignore_ascii_case(&host_name())
}

/// `true` if a page of another site made a browser send the request.
fn is_cross_site<B>(request: &Request<B>) -> bool {
    request.headers().get("sec-fetch-site").is_some_and(|site| site == "cross-site")
}

type Answer = Response<Either<Full<Bytes>, Messages>>;

/// Builds a short answer with a status other than 200.
fn failure(status: StatusCode, words: impl Into<String>) -> Answer {
    let mut answer = body("text/plain; charset=utf-8", words.into());
    *answer.status_mut() = status;
    answer
}

fn body(kind: &'static str, body: impl Into<Bytes>) -> Answer {
    with_headers(Either::Left(Full::new(body.into())), kind)
}

fn with_headers(body: Either<Full<Bytes>, Messages>, kind: &'static str) -> Answer {
    let mut answer = Response::new(body);
    let fixed = header::HeaderValue::from_static;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, fixed(kind));
    headers.insert(header::CACHE_CONTROL, fixed("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, fixed("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, page::policy());
    answer
}

impl Server {
    /// Answers a request. `dropped` is notified if the request listens to the feed and is too slow.
    fn answer<B>(&self, request: &Request<B>, dropped: &Arc<Notify>) -> Answer {
        if !is_addressed(request) {
            let words = "use an address, or the host name of this machine: other names are refused\n";
            return failure(StatusCode::FORBIDDEN, words);
        }
        if request.method() != Method::GET {
            return failure(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        }
        let json = "application/json";
        match request.uri().path() {
            "/" => body("text/html; charset=utf-8", page::PAGE),
            "/metrics" => body(metrics::CONTENT_TYPE, metrics::text(&self.source.status())),
            "/status" => body(json, status_json(&self.source.status())),
            "/ready" => match self.source.status().ready() {
                Ok(()) => body("text/plain; charset=utf-8", "ready\n"),
                Err(words) => failure(StatusCode::SERVICE_UNAVAILABLE, format!("{words}\n")),
            },
            "/why" => match self.why(request.uri().query().unwrap_or_default()) {
                Ok(why) => body(json, serde_json::to_string(&why).unwrap_or_else(|_| "{}".to_owned())),
                Err(words) => failure(StatusCode::NOT_FOUND, words),
            },
            "/events" if is_cross_site(request) => failure(StatusCode::FORBIDDEN, "not for other sites\n"),
            "/events" => {
                let messages = self.feed.listen(&self.source.status(), dropped.clone());
                with_headers(Either::Right(messages), "text/event-stream")
            }
            _ => {
                let words = "there are /, /events, /metrics, /ready, /status and /why?flow=NAME\n";
                failure(StatusCode::NOT_FOUND, words)
            }
        }
    }

    /// Returns the stories of a flow. Names contain no character that a query would escape.
    fn why(&self, query: &str) -> Result<WhyStatus, String> {
        let name = query.strip_prefix("flow=").ok_or("use /why?flow=NAME\n")?;
        self.source.why(name).map_err(|problem| problem + "\n")
    }
}

#[cfg(test)]
mod tests;
