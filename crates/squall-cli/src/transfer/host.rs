//! All transfers of a receiver: who may begin one, which sessions belong to which, and how many there are.

use std::{
    collections::{HashMap, VecDeque},
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use squall::Session;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc, oneshot};

use super::{
    admission::{Admission, Strangers},
    failure::{Fault, for_peer},
    incoming::{Summary, Transfer},
    message::{Header, Message, Receipt},
    output::Target,
    talk::{Gone, Talk},
};
use crate::interrupt::{Interrupted, interrupted};

/// Code with which a session is closed when its transfer has failed here.
const FAILED: u32 = 3;

/// How long the receipt of a transfer that is done may take to its sender.
const FAREWELL: Duration = Duration::from_secs(2);

/// Transfers at a time, of the sessions that an endpoint has: there is room for senders that come back.
const SEATS: usize = 4;

/// Sessions that are not authorised yet.
pub(super) const VISITORS: u32 = 48;

/// Those of one host.
const VISITORS_OF_A_HOST: u32 = 4;

/// Transfers whose receipts are remembered, for senders that lost the connection before they had theirs.
const REMEMBERED: usize = 64;

/// What one transfer may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Bytes of a file.
    pub(super) size: Option<u64>,
    /// Files altogether.
    pub(super) files: Option<u64>,
    /// Time without anything new from a sender that is connected.
    pub(super) stall: Duration,
    /// Time for a sender to come back.
    pub(super) outage: Duration,
}

impl Bounds {
    /// Whether a file may have so many bytes.
    pub(super) fn check(&self, bytes: u64) -> anyhow::Result<()> {
        match self.size {
            Some(most) if bytes > most => {
                Err(Fault::of_peer(format!("the file is larger than the receiver takes ({most} bytes)")))
            }
            _ => Ok(()),
        }
    }
}

/// A receiver.
pub(super) struct Host {
    pub(super) target: Target,
    pub(super) admission: Admission,
    pub(super) bounds: Bounds,
    seats: Semaphore,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    /// Where a transfer that is not over takes its next session from.
    running: HashMap<String, mpsc::Sender<Talk>>,
    /// Transfers that are done.
    finished: VecDeque<(String, Receipt)>,
    files: u64,
    strangers: Strangers,
    /// Sessions of each host that are not authorised yet.
    visitors: HashMap<Option<IpAddr>, u32>,
}

/// Where the sessions of a transfer come from.
pub(super) struct Line {
    /// The session that it has now.
    pub(super) talk: Talk,
    /// Those after it.
    pub(super) more: mpsc::Receiver<Talk>,
}

/// How a transfer ended.
pub(super) struct Outcome {
    pub(super) result: anyhow::Result<Summary>,
    /// Whether anything of it was written.
    pub(super) begun: bool,
    /// Completes when the sender knows it too.
    pub(super) settled: oneshot::Receiver<()>,
}

/// What an authorised session is.
enum Place {
    /// A transfer that was not known before.
    New(mpsc::Receiver<Talk>),
    /// The next session of a transfer that goes on.
    Next(mpsc::Sender<Talk>),
    /// The sender of a transfer that is done has missed its receipt.
    Done(Receipt),
}

impl Host {
    pub(super) fn new(target: Target, admission: Admission, bounds: Bounds, once: bool) -> Arc<Self> {
        let seats = if once || !target.takes_several() { 1 } else { SEATS };
        Arc::new(Self { target, admission, bounds, seats: Semaphore::new(seats), book: Mutex::default() })
    }

    /// Serves a session to its end, and reports if it ends a transfer.
    pub(super) async fn serve(&self, session: Session, report: mpsc::Sender<Outcome>) {
        let talk = Talk::new(session);
        let greeted = tokio::select! {
            greeted = self.greet(&talk) => greeted,
            _ = interrupted() => return,
        };
        match greeted.and_then(|header| Ok((self.place(&header)?, header))) {
            Ok((Place::New(more), header)) => {
                self.transfer(Line { talk, more }, &header, report).await;
                self.book().running.remove(&header.transfer);
            }
            // Should the transfer be over by now, the session ends with its handle, and the sender asks again.
            Ok((Place::Next(transfer), _)) => drop(transfer.send(talk).await),
            Ok((Place::Done(receipt), _)) => {
                hand_over(&talk, receipt, FAREWELL).await;
            }
            Err(error) => self.turn_away(&talk, &error).await,
        }
    }

    /// Looks whether a sender may send, while not too many others of its host are asked the same.
    async fn greet(&self, talk: &Talk) -> anyhow::Result<Header> {
        let host = talk.remote().map(host_of);
        let entered = {
            let mut book = self.book();
            let all: u32 = book.visitors.values().sum();
            let visitors = book.visitors.entry(host).or_insert(0);
            let may = *visitors < VISITORS_OF_A_HOST && all < VISITORS;
            *visitors += u32::from(may);
            may
        };
        if !entered {
            return Err(Fault::of_peer("too many senders from there have not said what they send"));
        }
        let greeted = self.admission.greet(talk).await;
        if greeted.is_ok() {
            talk.session.trust();
        }
        let mut book = self.book();
        if let Some(visitors) = book.visitors.get_mut(&host) {
            *visitors -= 1;
        }
        book.visitors.retain(|_, visitors| *visitors > 0);
        greeted
    }

    fn place(&self, header: &Header) -> anyhow::Result<Place> {
        let mut book = self.book();
        if let Some(transfer) = book.running.get(&header.transfer) {
            return Ok(Place::Next(transfer.clone()));
        }
        if let Some((_, receipt)) = book.finished.iter().find(|(id, _)| *id == header.transfer) {
            return Ok(Place::Done(*receipt));
        }
        if header.from > 0 {
            return Err(Fault::of_peer("the receiver does not know this transfer any more: send it again"));
        }
        if self.bounds.files.is_some_and(|files| book.files + book.running.len() as u64 >= files) {
            return Err(Fault::of_peer("the receiver takes no more files"));
        }
        let (into, more) = mpsc::channel(1);
        book.running.insert(header.transfer.clone(), into);
        Ok(Place::New(more))
    }

    /// Receives one transfer, once it may begin.
    async fn transfer(&self, mut line: Line, header: &Header, report: mpsc::Sender<Outcome>) {
        let seat = tokio::select! {
            seat = self.seat(&mut line) => seat,
            _ = interrupted() => return,
        };
        let seat = match seat {
            Ok(seat) => seat,
            Err(error) => return self.turn_away(&line.talk, &error).await,
        };
        let (result, begun) = self.receive(&mut line, header, seat).await;
        let (settle, settled) = oneshot::channel();
        let receipt = result.as_ref().map(Summary::receipt).map_err(|error| self.words(error).to_owned());
        if let Ok(receipt) = receipt {
            self.remember(&header.transfer, receipt);
        }
        // Whoever runs this receiver may have left.
        let _ = report.send(Outcome { result, begun, settled }).await;
        match receipt {
            Ok(receipt) => self.confirm(line, receipt).await,
            Err(words) => line.talk.close(FAILED, &words).await,
        }
        drop(settle);
    }

    /// Receives one transfer. Says too whether anything of it was written.
    async fn receive(
        &self,
        line: &mut Line,
        header: &Header,
        seat: SemaphorePermit<'_>,
    ) -> (anyhow::Result<Summary>, bool) {
        let mut transfer = match Transfer::open(self, header, seat) {
            Ok(transfer) => transfer,
            Err(error) => return (Err(error), false),
        };
        let taken = tokio::select! {
            taken = transfer.take(line) => taken,
            _ = interrupted() => Err(Interrupted.into()),
        };
        let begun = transfer.has_begun();
        let result = match taken {
            Ok(end) => transfer.finish(&line.talk, end).await,
            Err(error) => Err(transfer.abandon(error).await),
        };
        (result, begun)
    }

    /// Waits until the transfer may begin. Its sender has been told nothing so far, and waits too.
    async fn seat(&self, line: &mut Line) -> anyhow::Result<SemaphorePermit<'_>> {
        let Line { talk, more } = line;
        loop {
            tokio::select! {
                // A sender that has said more by now was not waiting.
                biased;
                seat = self.seats.acquire() => return seat.context("the receiver has ended"),
                heard = talk.next() => {
                    heard?;
                    return Err(Fault::of_peer("the sender is out of step"));
                }
                Some(next) = more.recv() => *talk = next,
            }
        }
    }

    /// Gives the sender its receipt. If the connection is lost, the sender may come back for it.
    async fn confirm(&self, line: Line, receipt: Receipt) {
        let Line { mut talk, mut more } = line;
        let until = tokio::time::sleep(self.bounds.outage);
        tokio::pin!(until);
        loop {
            let next = tokio::select! {
                lost = hand_over(&talk, receipt, self.bounds.outage) => match lost {
                    true => None,
                    false => return,
                },
                Some(next) = more.recv() => Some(next),
                () = &mut until => return,
                _ = interrupted() => return,
            };
            talk = match next {
                Some(next) => next,
                None => tokio::select! {
                    Some(next) = more.recv() => next,
                    () = &mut until => return,
                    _ = interrupted() => return,
                },
            };
        }
    }

    fn remember(&self, transfer: &str, receipt: Receipt) {
        let mut book = self.book();
        book.files += 1;
        book.finished.push_back((transfer.to_owned(), receipt));
        if book.finished.len() > REMEMBERED {
            book.finished.pop_front();
        }
    }

    async fn turn_away(&self, talk: &Talk, error: &anyhow::Error) {
        let line = self.book().strangers.turned_away(talk.remote(), error);
        if let Some(line) = line {
            eprintln!("note: {line}");
        }
        talk.close(FAILED, self.words(error)).await;
    }

    fn words<'a>(&self, failure: &'a anyhow::Error) -> &'a str {
        for_peer(failure, self.admission.is_open())
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a session with a receipt. Says whether the connection was lost before that arrived.
async fn hand_over(talk: &Talk, receipt: Receipt, within: Duration) -> bool {
    let told = talk.say(&Message::Receipt(receipt)).await;
    if told.is_ok() && talk.session.finish(within).await.is_ok() {
        return false;
    }
    matches!(talk.over().await, Gone::Lost(_))
}

/// One host has 64 bits of an IPv6 address to itself.
fn host_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_stands_for_its_host() {
        let host = |text: &str| host_of(text.parse().expect("is an address")).to_string();
        assert_eq!(host("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(host("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(host("192.0.2.7"), "192.0.2.7");
    }
}
