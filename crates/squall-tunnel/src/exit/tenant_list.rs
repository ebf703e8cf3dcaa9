//! A list of tenants on a web server, requested periodically.

use std::{error::Error, mem, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{Request, Response, StatusCode, Uri, body::Incoming, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, pki_types::ServerName};
use rustls_platform_verifier::BuilderVerifierExt;
use squall_observe::journal::Kind;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::spawn_blocking,
};
use tokio_rustls::TlsConnector;

use crate::{
    config::{MAX_LIST, TenantConfig, TenantsUrl, read_list, without_query},
    shared::ExitState,
    tenant::state::KeptList,
};

/// Timeout of a request, including the body.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum length of an entity tag in bytes.
const MAX_TAG: usize = 1024;

/// Maximum pause after failures.
const MAX_PAUSE: Duration = Duration::from_secs(600);

/// List in use.
#[derive(Debug, Default)]
pub(crate) struct Current {
    list: KeptList,
    /// The list has to be written to the state folder.
    is_new: bool,
    /// The last write failed.
    is_failing: bool,
}

impl Current {
    /// Writes the list if it has changed.
    async fn save(&mut self, exit: &ExitState) {
        let Some(state) = exit.tenants.state.clone().filter(|_| self.is_new) else { return };
        // Writing to a disk may block, and the async threads carry media.
        let list = self.list.clone();
        let written = spawn_blocking(move || state.save(&list).map_err(|error| error.to_string())).await;
        let written = written.unwrap_or_else(|error| Err(error.to_string()));
        self.is_new = written.is_err();
        match (written, mem::replace(&mut self.is_failing, self.is_new)) {
            (Ok(()), true) => exit.shared.journal.info(Kind::Tenant, "the list of tenants is kept again"),
            (Err(error), false) => {
                let words = format!("the list of tenants is in use, but it is not kept: {error}; retrying");
                exit.shared.journal.warn(Kind::Tenant, words);
            }
            _ => {}
        }
    }
}

/// Applies the last valid list until a newer one arrives. A stored list that is no longer valid is
/// reported, and the list is requested as if none were stored.
pub(crate) fn use_kept(exit: &ExitState, from: &TenantsUrl) -> Current {
    let used = || -> Result<(usize, KeptList), String> {
        let kept = load(exit, from)?;
        let count = if kept.text.is_empty() { 0 } else { apply(exit, &kept)? };
        Ok((count, kept))
    };
    let (count, list) = used().unwrap_or_else(|problem| {
        exit.shared.journal.warn(Kind::Tenant, format!("the kept list of tenants is not used: {problem}"));
        Default::default()
    });
    if count > 0 {
        let words = format!("{count} tenants of {}, as of the last start, until it answers", from.shown());
        exit.shared.journal.info(Kind::Tenant, words);
    }
    Current { list, ..Current::default() }
}

/// Requests the list periodically until the task is aborted.
pub(crate) async fn run(exit: Arc<ExitState>, from: TenantsUrl, mut current: Current) -> Result<(), String> {
    let (mut failures, mut reported) = (0_u32, None);
    loop {
        match update(&exit, &from, &mut current).await {
            Ok(()) => {
                if reported.take().is_some() {
                    exit.shared.journal.info(Kind::Tenant, format!("{} answers again", from.shown()));
                }
                failures = 0;
            }
            Err(problem) => {
                failures = failures.saturating_add(1);
                if reported.as_ref() != Some(&problem) {
                    let words = format!("the tenants stay as they are: {problem}; retrying");
                    exit.shared.journal.warn(Kind::Tenant, words);
                    reported = Some(problem);
                }
            }
        }
        // Retried after a failed write: the next start must not bring back a withdrawn tenant.
        current.save(&exit).await;
        tokio::time::sleep(pause(from.interval, failures)).await;
    }
}

/// Returns the pause before the next request; doubled with each failure.
fn pause(interval: Duration, failures: u32) -> Duration {
    let doubled = interval.saturating_mul(1 << failures.saturating_sub(1).min(16));
    doubled.min(MAX_PAUSE.max(interval))
}

fn load(exit: &ExitState, from: &TenantsUrl) -> Result<KeptList, String> {
    let Some(state) = &exit.tenants.state else { return Ok(KeptList::default()) };
    let kept: KeptList = state.load().map_err(|error| error.to_string())?;
    Ok(if kept.url == from.url { kept } else { KeptList::default() })
}

/// Requests the list, and applies it if it has changed.
async fn update(exit: &Arc<ExitState>, from: &TenantsUrl, current: &mut Current) -> Result<(), String> {
    let answer = tokio::time::timeout(TIMEOUT, request(from, current.list.etag.as_deref())).await;
    let answer = answer.unwrap_or_else(|_| Err("no answer in time".to_owned()));
    let Some(list) = answer.map_err(|problem| format!("{}: {problem}", from.shown()))? else { return Ok(()) };
    if list != current.list {
        apply_aside(exit, &list).await?;
        current.list = list;
        current.is_new = true;
    }
    Ok(())
}

/// Runs [`apply`] on a blocking thread: reading a long list takes a second, and the async threads
/// carry media.
async fn apply_aside(exit: &Arc<ExitState>, list: &KeptList) -> Result<usize, String> {
    let (exit, list) = (exit.clone(), list.clone());
    spawn_blocking(move || apply(&exit, &list)).await.unwrap_or_else(|error| Err(error.to_string()))
}

/// Replaces the tenants of the list. Returns their number.
fn apply(exit: &ExitState, list: &KeptList) -> Result<usize, String> {
    let name = without_query(&list.url);
    let tenants: Vec<TenantConfig> = read_list(name, &list.text)?;
    let count = tenants.len();
    let changed = exit.change_tenants(|sources| {
        sources.fetched = tenants;
        Ok(())
    });
    changed.map_err(|error| format!("{name}: {error}"))?;
    Ok(count)
}

/// Requests the list; `None` if it still has this entity tag (RFC 9110, section 13.1.2).
async fn request(from: &TenantsUrl, tag: Option<&str>) -> Result<Option<KeptList>, String> {
    let agent = concat!("squall/", env!("CARGO_PKG_VERSION"));
    let uri: Uri = from.url.parse().map_err(|_| "this is no URL".to_owned())?;
    let host = uri.authority().ok_or("the URL names no host")?.as_str();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::get(path).header(header::HOST, host).header(header::USER_AGENT, agent);
    if let Some(secret) = from.bearer()? {
        request = request.header(header::AUTHORIZATION, format!("Bearer {secret}"));
    }
    if let Some(tag) = tag {
        request = request.header(header::IF_NONE_MATCH, tag);
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(|error| error.to_string())?;
    let answer = exchange(&uri, request).await?;
    match answer.status() {
        StatusCode::OK => {}
        StatusCode::NOT_MODIFIED if tag.is_some() => return Ok(None),
        status => return Err(format!("it answers with status {}", status.as_u16())),
    }
    let etag = answer.headers().get(header::ETAG).and_then(|tag| tag.to_str().ok());
    let etag = etag.filter(|tag| tag.len() <= MAX_TAG).map(str::to_owned);
    let body = Limited::new(answer.into_body(), MAX_LIST as usize).collect().await;
    let body = body.map_err(|error| whole(&*error))?.to_bytes();
    let text = squall_file::text(body.to_vec()).map_err(|error| format!("the list: {error}"))?;
    Ok(Some(KeptList { url: from.url.clone(), etag, text }))
}

/// Connects to the host of a URL and sends a request. Does not follow redirects.
async fn exchange(uri: &Uri, request: Request<Empty<Bytes>>) -> Result<Response<Incoming>, String> {
    let is_secure = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
    // URLs contain IPv6 addresses in brackets.
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let stream = TcpStream::connect((host, port)).await.map_err(|error| error.to_string())?;
    if !is_secure {
        return exchange_over(stream, request).await;
    }
    // Reads the files of the system's authorities.
    let tls = spawn_blocking(tls).await.map_err(|error| error.to_string())??;
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let stream =
        TlsConnector::from(Arc::new(tls)).connect(name, stream).await.map_err(|error| whole(&error))?;
    exchange_over(stream, request).await
}

async fn exchange_over<S>(stream: S, request: Request<Empty<Bytes>>) -> Result<Response<Incoming>, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| whole(&error))?;
    // Ends when the response has been read or dropped.
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(|error| whole(&error))
}

/// Returns a TLS configuration that trusts the authorities of the operating system.
fn tls() -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)
        .map_err(|error| error.to_string())?;
    Ok(config.with_no_client_auth())
}

/// Formats an error with its causes in one line.
fn whole(error: &(dyn Error + 'static)) -> String {
    let (mut words, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        words.push_str(&format!(": {error}"));
        cause = error.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{Config, IdentityConfig, ListenConfig, Side, Token},
        shared::Shared,
    };

    #[tokio::test]
    async fn other_tasks_run_while_a_long_list_is_read() {
        let listen = ListenConfig::new(([127, 0, 0, 1], 0).into(), IdentityConfig::Fresh);
        let token = Token::new("correct horse battery").expect("is long enough");
        let config = Config::new(Side::Listen(listen), token);
        let listen = config.listen().expect("it is an exit").clone();
        let shared = Arc::new(Shared::new(config, None));
        let exit = ExitState::new(shared, &listen).expect("it has no state");
        let flow = |at| format!("[[tenant.flow]]\nname = \"f{at}\"\nout = \"udp://127.0.0.1:9\"\n");
        let flows: String = (0..4).map(flow).collect();
        let tenant = |at| format!("[[tenant]]\nname = \"t{at}\"\ntoken_sha256 = \"{at:064x}\"\n{flows}");
        let text: String = (1..=256).map(tenant).collect();
        let list = KeptList { url: "https://a/list".to_owned(), etag: None, text };
        let mut rounds = 0_u32;
        let applied = tokio::select! {
            biased;
            applied = apply_aside(&exit, &list) => applied,
            () = async { loop {
                rounds += 1;
                tokio::task::yield_now().await;
            } } => unreachable!(),
        };
        assert_eq!(applied, Ok(256));
        assert!(rounds > 10, "another task ran {rounds} times");
    }

    #[test]
    fn the_pause_doubles_up_to_ten_minutes() {
        let pauses = [0, 1, 2, 3, 6, 40].map(|failures| pause(Duration::from_secs(30), failures).as_secs());
        assert_eq!(pauses, [30, 30, 60, 120, 600, 600]);
        assert_eq!(pause(Duration::from_secs(3600), 9).as_secs(), 3600, "an interval above it stays");
    }
}
