//! Authorisation and limits of senders.

use std::time::Duration;

use squall_tunnel::config::Token;

use super::{
    connection::Connection,
    failure::Fault,
    message::{Header, Message, VERSION},
};

/// Timeout of the first message of a sender.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// Rule for the authorisation of senders.
#[derive(Debug)]
pub(super) enum Admission {
    /// Senders that present the token.
    Token(Token),
    /// Senders that reach a loopback address: programs on this machine.
    Local,
    /// All senders that reach the address.
    Anyone,
}

impl Admission {
    /// `true` if senders need no authorisation.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Anyone)
    }

    /// Waits for the header of a sender, and authorises it.
    ///
    /// # Errors
    /// The reason why it is not authorised.
    pub(super) async fn greet(&self, connection: &Connection) -> anyhow::Result<Header> {
        let silent = || Fault::of_peer("the sender did not describe its transfer in time");
        let first = tokio::time::timeout(HEADER_TIMEOUT, connection.next()).await.map_err(|_| silent())?;
        let Message::Header(header) = first.map_err(|gone| Fault::of_peer(gone.to_string()))? else {
            return Err(silent());
        };
        if header.version != VERSION {
            let theirs = header.version;
            return Err(Fault::of_peer(format!(
                "the sender has version {theirs} of the transfer format, this is version {VERSION}"
            )));
        }
        match (self, &header.token) {
            (Self::Token(token), Some(given)) if token.matches(given.0.as_bytes()) => Ok(header),
            (Self::Token(_), Some(_)) => Err(Fault::of_peer("wrong token: both ends need the same one")),
            (Self::Token(_), None) => {
                Err(Fault::of_peer("this receiver requires a token: use --token at the sender"))
            }
            (Self::Local | Self::Anyone, _) => Ok(header),
        }
    }
}

/// Limits of transfers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Maximum size of a file in bytes.
    pub(super) size: Option<u64>,
    /// Maximum number of files altogether.
    pub(super) files: Option<u64>,
    /// Maximum time without new data from a connected sender.
    pub(super) stall: Duration,
    /// Maximum time for a sender to reconnect.
    pub(super) outage: Duration,
}

impl Bounds {
    /// Checks the size of a file.
    pub(super) fn check(&self, bytes: u64) -> anyhow::Result<()> {
        match self.size {
            Some(most) if bytes > most => {
                Err(Fault::of_peer(format!("the file is larger than the receiver accepts ({most} bytes)")))
            }
            _ => Ok(()),
        }
    }
}
