//! Connection of an element: reconnects, or accepts one peer at a time, and authenticates it.

use std::{
    future::Future,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::Duration,
};

use bytes::Bytes;
use squall::{
    Block, BlockOptions, Channel, CloseReason, Config, Connect, ConnectError, Endpoint, Fingerprint, Outcome,
    Priority, Session,
};
use squall_bindings::{OfProcess, runtime};
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};

use crate::{
    hello::{Hello, Message, Role, is_token},
    settings::{Fault, Listen, MAX_LATENCY_MS, Plan, Settings},
};

/// Codes with which an element closes a session.
pub(crate) const MALFORMED: u32 = 16;
const WRONG_TOKEN: u32 = 17;
const SAME_ROLE: u32 = 18;
const REPLACED: u32 = 19;
const SILENT: u32 = 20;

/// Time within which a peer must introduce itself.
const GREETING: Duration = Duration::from_secs(5);

/// Maximum number of peers that introduce themselves at a time.
const GREETED: usize = 16;

/// Pause before the next attempt to connect; it doubles with each.
const PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Maximum time for which the change to READY waits for the close to be sent.
const FLUSH: Duration = Duration::from_millis(100);

/// Interface of an element for its connection.
pub(crate) trait End: Send + Sync + 'static {
    const ROLE: Role;

    /// Uses a session until it is over.
    fn serve(&self, session: Session, latency: Duration) -> impl Future<Output = ()> + Send;

    /// Called last if the connection is impossible.
    fn fault(&self, fault: Fault);

    /// `true` if the stream has ended and no further session is needed.
    fn has_ended(&self) -> bool;

    /// Called before the connection is retried.
    fn warn(&self, line: &str);
}

/// The connection of an element, while it is READY or more.
pub(crate) struct Link {
    open: OfProcess<Open>,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) listens_on: Vec<SocketAddr>,
}

/// Task of a connection, which ends with it.
struct Open {
    task: AbortHandle,
    current: Current,
}

/// The session in use.
#[derive(Clone, Default)]
struct Current(Arc<Mutex<Option<Session>>>);

impl Current {
    fn replace(&self, session: Option<Session>) -> Option<Session> {
        std::mem::replace(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), session)
    }
}

impl Link {
    /// Binds or starts to connect, without waiting.
    ///
    /// # Errors
    /// The property that cannot be used.
    pub(crate) fn start<E: End>(settings: &Settings, end: Arc<E>) -> Result<Self, Fault> {
        let plan = settings.plan()?;
        let runtime = runtime().map_err(|failure| Fault::new("address", failure.line))?;
        let _inside = runtime.enter();
        let current = Current::default();
        let greeter = Greeter {
            role: E::ROLE,
            latency_ms: settings.latency_ms,
            token: settings.token.clone().unwrap_or_default(),
        };
        match plan {
            Plan::Connect(request, config) => {
                let task = runtime.spawn(connecting(end, *request, *config, greeter, current.clone()));
                let open = OfProcess::new(Open { task: task.abort_handle(), current });
                Ok(Self { open, fingerprint: None, listens_on: Vec::new() })
            }
            Plan::Listen(listen, config) => {
                let Listen { address, tls, fingerprint } = *listen;
                let endpoint = squall_bindings::listen(runtime.handle(), address.as_str(), &tls, &config);
                let endpoint = endpoint.map_err(|error| Fault::new("listen", error))?;
                let listens_on = endpoint.local_addrs().to_vec();
                let task = runtime.spawn(listening(end, endpoint, greeter, current.clone()));
                let open = OfProcess::new(Open { task: task.abort_handle(), current });
                Ok(Self { open, fingerprint: Some(fingerprint), listens_on })
            }
        }
    }

    /// Closes the session. Waits briefly until the close has been sent, but not for the peer. Has
    /// no effect in a forked process, whose session is that of its parent.
    pub(crate) fn close(self) {
        let Ok(Open { task, current }) = self.open.get("element") else { return };
        task.abort();
        let Some(session) = current.replace(None) else { return };
        if let Ok(runtime) = runtime() {
            let (done, left) = mpsc::sync_channel(1);
            runtime.spawn(async move {
                let _ = session.finish(Duration::ZERO).await;
                let _ = done.send(());
            });
            let _ = left.recv_timeout(FLUSH);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Connects until a session ends normally, or no attempt can succeed.
async fn connecting<E: End>(
    end: Arc<E>,
    request: Connect,
    config: Config,
    greeter: Greeter,
    current: Current,
) {
    let mut pause = PAUSE;
    loop {
        let line = match squall::connect(request.clone().config(config.clone())).await {
            Ok(session) => match greeter.call(&session).await {
                Ok(latency) => {
                    pause = PAUSE;
                    current.replace(Some(session.clone()));
                    end.serve(session.clone(), latency).await;
                    current.replace(None);
                    match session.closed().await {
                        CloseReason::Local => return,
                        _ if end.has_ended() => return,
                        reason => match fault_of(&reason) {
                            Some(fault) => return end.fault(fault),
                            None => format!("the session is over: {reason}"),
                        },
                    }
                }
                Err(Refusal::Fault(fault)) => return end.fault(fault),
                Err(Refusal::Other(line)) => line,
            },
            Err(error) => match connect_fault(&error) {
                Some(property) => return end.fault(Fault::new(property, error)),
                None => error.to_string(),
            },
        };
        end.warn(&format!("{line}; connecting again"));
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Returns the invalid property, if another attempt cannot succeed.
fn connect_fault(error: &ConnectError) -> Option<&'static str> {
    match error {
        ConnectError::WrongPin { .. } => Some("fingerprint"),
        ConnectError::Untrusted { .. } | ConnectError::Tls(_) => Some("authorities"),
        ConnectError::OtherProtocol | ConnectError::Request(_) => Some("address"),
        _ => None,
    }
}

fn fault_of(reason: &CloseReason) -> Option<Fault> {
    let CloseReason::ByPeer { code, .. } = reason else { return None };
    match u32::try_from(*code) {
        Ok(WRONG_TOKEN) => Some(Fault::new("token", "it is not the token of the other end")),
        Ok(SAME_ROLE) => Some(Fault::new("address", "the other end does the same as this one")),
        Ok(REPLACED) => Some(Fault::new("address", "the other end was taken by another peer")),
        _ => None,
    }
}

/// Accepts peers. The latest replaces the previous one, which may have lost its networks.
async fn listening<E: End>(end: Arc<E>, endpoint: Endpoint, greeter: Greeter, current: Current) {
    let greeter = Arc::new(greeter);
    let (ready, mut welcome) = channel(1);
    let mut greetings = JoinSet::new();
    let mut serving: JoinSet<()> = JoinSet::new();
    loop {
        tokio::select! {
            session = endpoint.accept(), if greetings.len() < GREETED => match session {
                Some(session) => {
                    greetings.spawn(greet(session, greeter.clone(), end.clone(), ready.clone()));
                }
                None => return,
            },
            Some(_) = greetings.join_next() => {}
            Some(_) = serving.join_next() => {}
            Some((session, latency)) = next(&mut welcome) => {
                if let Some(old) = current.replace(Some(session.clone())) {
                    old.close(REPLACED, "another peer has connected");
                }
                while serving.join_next().await.is_some() {}
                let (end, current) = (end.clone(), current.clone());
                serving.spawn(async move {
                    end.serve(session.clone(), latency).await;
                    let reason = session.closed().await;
                    if !matches!(reason, CloseReason::Local | CloseReason::ByPeer { code: 0, .. }) {
                        end.warn(&format!("the session is over: {reason}; waiting for the next"));
                    }
                    drop(current);
                });
            }
        }
    }
}

type Welcome = (Session, Duration);

async fn next(welcome: &mut Receiver<Welcome>) -> Option<Welcome> {
    welcome.recv().await
}

async fn greet<E: End>(session: Session, greeter: Arc<Greeter>, end: Arc<E>, ready: Sender<Welcome>) {
    match greeter.answer(&session).await {
        Ok(latency) => drop(ready.send((session, latency)).await),
        Err(Refusal::Fault(fault)) => end.warn(&format!("a peer was refused: {}", fault.line)),
        Err(Refusal::Other(line)) => end.warn(&format!("a peer was refused: {line}")),
    }
}

/// Content of an end's greeting.
struct Greeter {
    role: Role,
    latency_ms: u32,
    token: String,
}

enum Refusal {
    Fault(Fault),
    Other(String),
}

impl Greeter {
    /// Greets from the end that connected. Returns the latency of the other one.
    async fn call(&self, session: &Session) -> Result<Duration, Refusal> {
        self.send(session, Bytes::copy_from_slice(self.token.as_bytes())).await?;
        let hello = self.receive(session).await?;
        Ok(latency(&hello))
    }

    /// Greets from the end that accepted the connection. Returns the latency of the other one.
    async fn answer(&self, session: &Session) -> Result<Duration, Refusal> {
        let hello = self.receive(session).await?;
        if !self.token.is_empty() && !is_token(&self.token, &hello.token) {
            session.close(WRONG_TOKEN, "wrong token");
            return Err(Refusal::Other("wrong token".to_owned()));
        }
        session.trust();
        // Media may overtake the answer, so it is sent only after the peer has received that.
        match self.send(session, Bytes::new()).await? {
            Outcome::Delivered { .. } => Ok(latency(&hello)),
            outcome => Err(Refusal::Other(format!("the greeting was not delivered: {outcome:?}"))),
        }
    }

    async fn send(&self, session: &Session, token: Bytes) -> Result<Outcome, Refusal> {
        let hello = Hello { role: self.role, latency_ms: self.latency_ms, token };
        let handle = session.send(message(&Message::Hello(hello))).await;
        let handle = handle.map_err(|error| Refusal::Other(error.to_string()))?;
        let outcome = timeout(GREETING, handle).await;
        outcome.map_err(|_| Refusal::Other("the greeting did not arrive".to_owned()))
    }

    async fn receive(&self, session: &Session) -> Result<Hello, Refusal> {
        let Ok(block) = timeout(GREETING, session.recv()).await else {
            session.close(SILENT, "no greeting");
            return Err(Refusal::Other("it did not introduce itself".to_owned()));
        };
        let Ok(Some(block)) = block else {
            let reason = session.closed().await;
            return Err(fault_of(&reason).map_or_else(|| Refusal::Other(reason.to_string()), Refusal::Fault));
        };
        let hello = match Message::decode(block.data) {
            Ok(Message::Hello(hello)) if block.channel.get() == 0 => hello,
            Ok(_) => return Err(malformed(session, "a greeting was expected")),
            Err(line) => return Err(malformed(session, line)),
        };
        if hello.role == self.role {
            session.close(SAME_ROLE, "both ends send, or both receive");
            return Err(Refusal::Fault(Fault::new("address", "the other end does the same as this one")));
        }
        Ok(hello)
    }
}

fn malformed(session: &Session, line: &str) -> Refusal {
    session.close(MALFORMED, line);
    Refusal::Other(line.to_owned())
}

fn latency(hello: &Hello) -> Duration {
    Duration::from_millis(u64::from(hello.latency_ms.min(MAX_LATENCY_MS)))
}

/// Encodes a message as a block.
pub(crate) fn message(message: &Message) -> Block {
    Block::with(
        message.encode(),
        BlockOptions::new().channel(Channel::default()).priority(Priority::FIRST).ordered(true),
    )
}
