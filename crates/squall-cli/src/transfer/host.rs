//! All transfers of a receiver: who may begin one, which sessions belong to which, and how many there are.

use std::{
    collections::{HashMap, VecDeque},
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use squall::Session;
use squall_terminal::{
    interrupt::{Interrupted, interrupted},
    note,
};
use tokio::sync::{Semaphore, SemaphorePermit, mpsc, oneshot};

use super::{
    admission::{Admission, Strangers},
    failure::{Fault, for_peer},
    incoming::{Summary, Transfer},
    message::{Header, Message, Receipt},
    output::Target,
    talk::{Gone, Talk},
};

/// Code with which a session is closed when its transfer has failed here.
const FAILED: u32 = 3;

/// How long the receipt of a transfer that is done may take to its sender.
const FAREWELL: Duration = Duration::from_secs(2);

/// Transfers at a time, of the sessions that an endpoint has: there is room for senders that come back.
const SEATS: usize = 4;

/// Sessions that are not authorised yet.
pub(super) const VISITORS: usize = 48;

/// Those of one host.
const VISITORS_OF_A_HOST: usize = 4;

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
    /// Whether one transfer is all there is to do.
    once: bool,
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
    /// Sessions that are not authorised yet, the oldest first.
    visitors: VecDeque<Visitor>,
    visits: u64,
}

/// A session that is not authorised yet. It has to leave when this is dropped.
struct Visitor {
    number: u64,
    host: Option<IpAddr>,
    _stays: oneshot::Sender<()>,
}

impl Book {
    /// Enters a session that has to say who it is. If there are too many, the oldest of its host makes room: silence
    /// keeps no sender out.
    fn enter(&mut self, host: Option<IpAddr>) -> (u64, oneshot::Receiver<()>) {
        let of_host = |visitor: &&Visitor| visitor.host == host;
        let oldest = match self.visitors.iter().filter(of_host).count() {
            VISITORS_OF_A_HOST.. => self.visitors.iter().position(|visitor| visitor.host == host),
            _ => (self.visitors.len() >= VISITORS).then_some(0),
        };
        if let Some(oldest) = oldest {
            self.visitors.remove(oldest);
        }
        self.visits += 1;
        let (stays, leaves) = oneshot::channel();
        self.visitors.push_back(Visitor { number: self.visits, host, _stays: stays });
        (self.visits, leaves)
    }

    fn leave(&mut self, number: u64) {
        self.visitors.retain(|visitor| visitor.number != number);
    }
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
        let seats = Semaphore::new(seats);
        Arc::new(Self { target, admission, bounds, once, seats, book: Mutex::default() })
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

    /// Looks whether a sender may send, until others take its place.
    async fn greet(&self, talk: &Talk) -> anyhow::Result<Header> {
        let (number, leaves) = self.book().enter(talk.remote().map(host_of));
        let greeted = tokio::select! {
            greeted = self.admission.greet(talk) => greeted,
            _ = leaves => Err(Fault::of_peer("others came, and the sender did not say what it sends")),
        };
        if greeted.is_ok() {
            talk.session.trust();
        }
        self.book().leave(number);
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
        let full = self.bounds.files.is_some_and(|files| book.files + book.running.len() as u64 >= files);
        if full || self.is_done(&book) {
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
        let (result, begun) = self.receive(&mut line, header).await;
        let (settle, settled) = oneshot::channel();
        let receipt = result.as_ref().map(Summary::receipt).map_err(|error| self.words(error).to_owned());
        if let Ok(receipt) = receipt {
            self.remember(&header.transfer, receipt);
        }
        // Whoever waits for it sees now whether there is anything left to do.
        drop(seat);
        // Whoever runs this receiver may have left.
        let _ = report.send(Outcome { result, begun, settled }).await;
        match receipt {
            Ok(receipt) => self.confirm(line, receipt).await,
            Err(words) => line.talk.close(FAILED, &words).await,
        }
        drop(settle);
    }

    /// Receives one transfer. Says too whether anything of it was written.
    async fn receive(&self, line: &mut Line, header: &Header) -> (anyhow::Result<Summary>, bool) {
        let mut transfer = match Transfer::open(self, header) {
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
                seat = self.seats.acquire() => {
                    if self.is_done(&self.book()) {
                        return Err(Fault::of_peer("the receiver takes no more files"));
                    }
                    return seat.context("the receiver has ended");
                }
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

    /// Whether all that there was to do is done.
    fn is_done(&self, book: &Book) -> bool {
        self.once && book.files > 0
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
            note!("note: {line}");
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
    fn the_oldest_stranger_makes_room_for_the_next() {
        let mut book = Book::default();
        let [first, second] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse::<IpAddr>().ok());
        let (_, mut stays) = book.enter(second);
        let mut crowd: Vec<_> = (0..VISITORS_OF_A_HOST).map(|_| book.enter(first).1).collect();
        assert!(crowd.iter_mut().all(|one| one.try_recv() == Err(oneshot::error::TryRecvError::Empty)));
        let (number, _) = book.enter(first);
        assert_eq!(crowd[0].try_recv(), Err(oneshot::error::TryRecvError::Closed));
        assert_eq!(stays.try_recv(), Err(oneshot::error::TryRecvError::Empty), "another host");
        book.leave(number);
        assert_eq!(book.visitors.len(), VISITORS_OF_A_HOST);
        for n in 0..VISITORS {
            book.enter(Some(IpAddr::from([10, 0, 0, n as u8])));
        }
        assert_eq!(stays.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        assert_eq!(book.visitors.len(), VISITORS);
    }

    #[test]
    fn an_address_stands_for_its_host() {
        let host = |text: &str| host_of(text.parse().expect("is an address")).to_string();
        assert_eq!(host("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(host("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(host("192.0.2.7"), "192.0.2.7");
    }
}
