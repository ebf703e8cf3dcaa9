//! Who may send here: known before anything is written, and before the sender may send more than one message.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use squall_tunnel::config::Token;

use super::{
    failure::Fault,
    message::{Header, Message, VERSION},
    talk::Talk,
};

/// How long a sender may take to say what it sends.
const FIRST: Duration = Duration::from_secs(5);

/// How often senders that were turned away are reported.
const REPORT: Duration = Duration::from_secs(10);

/// Who may send.
#[derive(Debug)]
pub(super) enum Admission {
    /// Who knows the token.
    Token(Token),
    /// Who reaches a loopback address: programs on this machine.
    Local,
    /// Everybody who reaches the address.
    Anyone,
}

impl Admission {
    /// Whether senders are not known to be of this user.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Anyone)
    }

    /// Waits for the first message of a sender, and looks whether it may send.
    ///
    /// # Errors
    /// Why it may not.
    pub(super) async fn greet(&self, talk: &Talk) -> anyhow::Result<Header> {
        let silent = || Fault::of_peer("the sender did not say what it sends");
        let first = tokio::time::timeout(FIRST, talk.next()).await.map_err(|_| silent())?;
        let first = first.map_err(|gone| Fault::of_peer(gone.to_string()))?;
        let Message::Header(header) = first.0 else { return Err(silent()) };
        if header.version != VERSION {
            let theirs = header.version;
            return Err(Fault::of_peer(format!(
                "the sender speaks version {theirs} of the transfer format, this is version {VERSION}"
            )));
        }
        match (self, &header.token) {
            (Self::Token(token), Some(given)) if token.matches(given.0.as_bytes()) => Ok(header),
            (Self::Token(_), Some(_)) => Err(Fault::of_peer("wrong token: both ends need the same one")),
            (Self::Token(_), None) => {
                Err(Fault::of_peer("this receiver asks for a token: give the sender --token"))
            }
            (Self::Local | Self::Anyone, _) => Ok(header),
        }
    }
}

/// Reports senders that were turned away: what strangers do is not to fill a log.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    count: u64,
    reported: Option<Instant>,
}

impl Strangers {
    /// One more. Gives a line to report, now and then.
    pub(super) fn turned_away(&mut self, from: Option<IpAddr>, why: &anyhow::Error) -> Option<String> {
        self.count += 1;
        if self.reported.is_some_and(|at| at.elapsed() < REPORT) {
            return None;
        }
        self.reported = Some(Instant::now());
        let from = from.map_or_else(|| "?".to_owned(), |from| from.to_string());
        let others = match std::mem::take(&mut self.count) - 1 {
            0 => String::new(),
            others => format!(", and {others} before it"),
        };
        Some(format!("a sender from {from} was turned away{others}: {why}"))
    }
}
