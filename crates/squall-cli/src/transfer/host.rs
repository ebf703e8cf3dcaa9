//! Transfers of a receiver: admission, and assignment of sessions to transfers.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use squall::Session;
use squall_observe::{
    places::Places,
    throttle::{LogAllowance, Throttle},
};
use squall_terminal::{
    interrupt::{Interrupted, interrupted},
    note,
};
use squall_units::Time;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc, oneshot};

use super::{
    admission::{Admission, Bounds},
    connection::{Connection, Disconnect},
    failure::{Fault, for_peer},
    incoming::{Summary, Transfer},
    message::{Header, Message, Total},
    output::{Kept, Target},
};

/// Close code of a session whose transfer failed here.
const FAILED: u32 = 3;

/// Timeout for sending the receipt of a transfer that had ended before its session.
const RECEIPT_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of simultaneous transfers. Further sessions of the endpoint are for senders that
/// reconnect.
const MAX_TRANSFERS: usize = 4;

/// Maximum number of sessions that are not authorised yet.
pub(super) const MAX_UNAUTHENTICATED: usize = 48;

/// Maximum number of these sessions per host.
const MAX_UNAUTHENTICATED_OF_HOST: usize = 4;

/// Number of receipts kept for senders that lost the connection before the receipt arrived.
const MAX_RECEIPTS: usize = 64;

/// Minimum interval between two reports of rejected senders.
const REJECTION_INTERVAL: Duration = Duration::from_secs(10);

/// Lines that authorised senders can cause at once; afterwards one per second.
const LINES: u64 = 32;

/// A receiver.
pub(super) struct Host {
    pub(super) target: Target,
    pub(super) admission: Admission,
    pub(super) bounds: Bounds,
    /// The receiver ends after one transfer.
    once: bool,
    permits: Semaphore,
    unauthenticated: Arc<Places<Session>>,
    rejections: Throttle,
    began: Instant,
    /// Lines that are left.
    lines: Mutex<LogAllowance>,
    pub(super) kept: Kept,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Senders of further sessions to running transfers.
    running: HashMap<String, mpsc::Sender<Connection>>,
    finished: VecDeque<(String, Total)>,
    files: u64,
}

/// Sessions of a transfer.
pub(super) struct Sessions {
    /// Current session.
    pub(super) connection: Connection,
    /// Later sessions.
    pub(super) next: mpsc::Receiver<Connection>,
}

/// Result of a transfer that has ended.
pub(super) struct Outcome {
    pub(super) result: anyhow::Result<Summary>,
    /// Some of the data was written.
    pub(super) begun: bool,
    /// Completes once the sender is notified, or unreachable.
    pub(super) settled: oneshot::Receiver<()>,
}

/// Role of an authorised session.
enum Assignment {
    /// The first session of a transfer.
    New(mpsc::Receiver<Connection>),
    /// The next session of a running transfer.
    Next(mpsc::Sender<Connection>),
    /// The sender of a finished transfer missed its receipt.
    Finished(Total),
}

impl Host {
    pub(super) fn new(target: Target, admission: Admission, bounds: Bounds, once: bool) -> Arc<Self> {
        let transfers = if once || !target.takes_several() { 1 } else { MAX_TRANSFERS };
        Arc::new(Self {
            target,
            admission,
            bounds,
            once,
            permits: Semaphore::new(transfers),
            unauthenticated: Places::new(MAX_UNAUTHENTICATED, MAX_UNAUTHENTICATED_OF_HOST),
            rejections: Throttle::new(REJECTION_INTERVAL),
            began: Instant::now(),
            lines: Mutex::new(LogAllowance::new(LINES)),
            kept: Kept::default(),
            state: Mutex::default(),
        })
    }

    /// Serves a session until it ends. Reports the end of a transfer.
    pub(super) async fn serve(&self, session: Session, report: mpsc::Sender<Outcome>) {
        let connection = Connection::new(session);
        let greeted = tokio::select! {
            greeted = self.greet(&connection) => greeted,
            _ = interrupted() => return,
        };
        match greeted.and_then(|header| Ok((self.assign(&header)?, header))) {
            Ok((Assignment::New(next), header)) => {
                self.transfer(Sessions { connection, next }, &header, report).await;
                self.state().running.remove(&header.transfer);
            }
            // If the transfer has ended meanwhile, dropping the handle closes the session, and the
            // sender reconnects.
            Ok((Assignment::Next(transfer), _)) => drop(transfer.send(connection).await),
            Ok((Assignment::Finished(receipt), _)) => {
                send_receipt(&connection, receipt, RECEIPT_TIMEOUT).await;
            }
            Err(error) => self.reject(&connection, &error).await,
        }
    }

    /// Prints a line caused by an authorised sender, if there are lines left.
    pub(super) fn note(&self, words: fmt::Arguments<'_>) {
        let now = Time::EPOCH + self.began.elapsed().into();
        match self.lines.lock().unwrap_or_else(PoisonError::into_inner).take(now) {
            None => {}
            Some(0) => note!("{words}"),
            Some(left_out) => note!("{words} ({left_out} lines before it were left out)"),
        }
    }

    /// Waits until a sender is authorised. Newer sessions may displace it.
    async fn greet(&self, connection: &Connection) -> anyhow::Result<Header> {
        let (_place, displaced) = self.unauthenticated.enter(connection.remote(), connection.session.clone());
        if let Some(displaced) = displaced {
            displaced.close(FAILED, "newer senders came before this one was authorised");
        }
        let greeted = self.admission.greet(connection).await;
        if greeted.is_ok() {
            connection.session.trust();
        }
        greeted
    }

    fn assign(&self, header: &Header) -> anyhow::Result<Assignment> {
        let mut state = self.state();
        if let Some(transfer) = state.running.get(&header.transfer) {
            return Ok(Assignment::Next(transfer.clone()));
        }
        if let Some((_, receipt)) = state.finished.iter().find(|(id, _)| *id == header.transfer) {
            return Ok(Assignment::Finished(*receipt));
        }
        if header.from > 0 {
            return Err(Fault::of_peer("the receiver has no record of this transfer: send it again"));
        }
        let full = self.bounds.files.is_some_and(|files| state.files + state.running.len() as u64 >= files);
        if full || self.is_done(&state) {
            return Err(Fault::of_peer("the receiver accepts no more files"));
        }
        let (sender, next) = mpsc::channel(1);
        state.running.insert(header.transfer.clone(), sender);
        Ok(Assignment::New(next))
    }

    /// Receives one transfer, once it may begin.
    async fn transfer(&self, mut sessions: Sessions, header: &Header, report: mpsc::Sender<Outcome>) {
        let permit = tokio::select! {
            permit = self.permit(&mut sessions) => permit,
            _ = interrupted() => return,
        };
        let permit = match permit {
            Ok(permit) => permit,
            Err(error) => return self.reject(&sessions.connection, &error).await,
        };
        let (result, begun) = self.receive(&mut sessions, header).await;
        let (settle, settled) = oneshot::channel();
        let receipt = result.as_ref().map(Summary::receipt).map_err(|error| self.words(error).to_owned());
        if let Ok(receipt) = receipt {
            self.keep_receipt(&header.transfer, receipt);
        }
        // Waiting transfers can now determine whether there is work left.
        drop(permit);
        // Fails if the receiver is ending.
        let _ = report.send(Outcome { result, begun, settled }).await;
        match receipt {
            Ok(receipt) => self.confirm(sessions, receipt).await,
            Err(words) => sessions.connection.close(FAILED, &words).await,
        }
        drop(settle);
    }

    /// Receives one transfer. Also returns `true` if some of the data was written.
    async fn receive(&self, sessions: &mut Sessions, header: &Header) -> (anyhow::Result<Summary>, bool) {
        let mut transfer = match Transfer::open(self, header) {
            Ok(transfer) => transfer,
            Err(error) => return (Err(error), false),
        };
        let received = tokio::select! {
            received = transfer.run(sessions) => received,
            _ = interrupted() => Err(Interrupted.into()),
        };
        let begun = transfer.has_begun();
        let result = match received {
            Ok(end) => transfer.finish(&sessions.connection, end).await,
            Err(error) => Err(transfer.abandon(error)),
        };
        (result, begun)
    }

    /// Waits until the transfer may begin. Meanwhile its sender waits for [`Message::Go`].
    async fn permit(&self, sessions: &mut Sessions) -> anyhow::Result<SemaphorePermit<'_>> {
        let Sessions { connection, next } = sessions;
        loop {
            tokio::select! {
                // A sender that has sent more did not wait.
                biased;
                permit = self.permits.acquire() => {
                    if self.is_done(&self.state()) {
                        return Err(Fault::of_peer("the receiver accepts no more files"));
                    }
                    return permit.context("the receiver has ended");
                }
                message = connection.next() => {
                    message?;
                    return Err(Fault::of_peer("the sender is out of step"));
                }
                Some(newer) = next.recv() => *connection = newer,
            }
        }
    }

    /// Sends the receipt. A sender that loses the connection may reconnect for it.
    async fn confirm(&self, sessions: Sessions, receipt: Total) {
        let Sessions { mut connection, mut next } = sessions;
        let outage = self.bounds.outage;
        let confirmed = async {
            loop {
                let newer = tokio::select! {
                    lost = send_receipt(&connection, receipt, outage) => match lost {
                        true => next.recv().await,
                        false => return,
                    },
                    newer = next.recv() => newer,
                };
                match newer {
                    Some(newer) => connection = newer,
                    None => return,
                }
            }
        };
        tokio::select! {
            _ = tokio::time::timeout(outage, confirmed) => {}
            _ = interrupted() => {}
        }
    }

    /// `true` if the only transfer has ended.
    fn is_done(&self, state: &State) -> bool {
        self.once && state.files > 0
    }

    fn keep_receipt(&self, transfer: &str, receipt: Total) {
        let mut state = self.state();
        state.files += 1;
        state.finished.push_back((transfer.to_owned(), receipt));
        if state.finished.len() > MAX_RECEIPTS {
            state.finished.pop_front();
        }
    }

    async fn reject(&self, connection: &Connection, error: &anyhow::Error) {
        if let Some(unreported) = self.rejections.count() {
            let from = connection.remote();
            let others =
                if unreported == 0 { String::new() } else { format!(", and {unreported} before it") };
            note!("note: a sender from {from} was rejected{others}: {error}");
        }
        connection.close(FAILED, self.words(error)).await;
    }

    fn words<'a>(&self, failure: &'a anyhow::Error) -> &'a str {
        for_peer(failure, self.admission.is_open())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a session with a receipt. Returns `true` if the connection was lost before the receipt
/// arrived.
async fn send_receipt(connection: &Connection, receipt: Total, timeout: Duration) -> bool {
    let sent = connection.send_first(&Message::Receipt(receipt)).await;
    if sent.is_ok() && connection.session.finish(timeout).await.is_ok() {
        return false;
    }
    matches!(connection.over().await, Disconnect::Lost(_))
}
