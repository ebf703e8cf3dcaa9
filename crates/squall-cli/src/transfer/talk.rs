//! One session of a transfer: messages out and in. A transfer may need several sessions, one after the other.

use std::time::Duration;

use squall::{Block, CloseReason, Priority, Received, SendError, Session};

use super::message::{Message, MessageError};

/// How long the end of a session may take that is of no more use.
const FAREWELL: Duration = Duration::from_secs(1);

/// A session, as a transfer uses it.
pub(super) struct Talk {
    pub(super) session: Session,
}

/// Why no more messages arrive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Gone {
    /// The peer ended the session with nothing to say: all is done.
    #[error("the other end has left")]
    Farewell,
    /// The peer ended the session for a reason.
    #[error("{0}")]
    ByPeer(String),
    /// Nothing reaches the peer, or it is not there any more. It may be reached again.
    #[error("{0}")]
    Lost(CloseReason),
    /// Another session cannot help.
    #[error("{0}")]
    Broken(CloseReason),
    /// The peer sent something that is no message.
    #[error("the other end sent {0}")]
    Unknown(MessageError),
}

impl Talk {
    pub(super) fn new(session: Session) -> Self {
        Self { session }
    }

    /// The next message. Cancel safe.
    pub(super) async fn next(&self) -> Result<(Message, Received), Gone> {
        // Frames that arrive too late are counted at the end.
        match self.session.recv().await {
            Some(block) => {
                Message::decode(&block.data).map(|message| (message, block)).map_err(Gone::Unknown)
            }
            None => Err(Gone::of(self.session.closed().await)),
        }
    }

    /// Sends a message that steers the transfer, before all data that waits.
    ///
    /// # Errors
    /// If the session is over.
    pub(super) async fn say(&self, message: &Message) -> Result<(), Gone> {
        self.hand_over(Block::new(message.encode()).ordered().priority(Priority::FIRST)).await
    }

    /// Sends a message as data is sent.
    ///
    /// # Errors
    /// If the session is over.
    pub(super) async fn say_last(&self, message: &Message) -> Result<(), Gone> {
        self.hand_over(Block::new(message.encode()).ordered()).await
    }

    async fn hand_over(&self, block: Block) -> Result<(), Gone> {
        match self.session.send(block).await {
            Err(SendError::Closed) => Err(self.over().await),
            // Such messages are small and plain.
            _ => Ok(()),
        }
    }

    /// Sends a message if there is room for it: there will be another one.
    pub(super) fn tell(&self, message: &Message) {
        let _ = self.session.try_send(Block::new(message.encode()).ordered().priority(Priority::FIRST));
    }

    /// Why the session is over, once nothing can be sent any more.
    pub(super) async fn over(&self) -> Gone {
        loop {
            if let Err(gone) = self.next().await {
                return gone;
            }
        }
    }

    /// Ends the session for a reason that the peer learns; 0 is a normal end.
    pub(super) async fn close(&self, code: u32, reason: &str) {
        self.session.close(code, reason);
        // What was not acknowledged is of no interest any more.
        let _ = self.session.finish(Duration::ZERO).await;
        self.drain().await;
    }

    /// Waits until the session is over.
    pub(super) async fn drain(&self) {
        // It is closed already, or closes itself when it is idle.
        let _ = tokio::time::timeout(FAREWELL, self.session.closed()).await;
    }

    /// The address of the peer.
    pub(super) fn remote(&self) -> Option<std::net::IpAddr> {
        self.session.path_stats().first().map(|path| path.remote.ip())
    }

    /// Bytes of blocks that arrived and were not here before.
    pub(super) fn arrived(&self) -> u64 {
        let paths = self.session.path_stats();
        let fresh =
            paths.iter().map(|path| path.stats.data_received.saturating_sub(path.stats.duplicate_bytes));
        fresh.sum()
    }
}

impl Gone {
    fn of(reason: CloseReason) -> Self {
        match reason {
            CloseReason::ByPeer { code: 0, reason } if reason.is_empty() => Self::Farewell,
            CloseReason::ByPeer { reason, .. } if !reason.is_empty() => Self::ByPeer(reason),
            CloseReason::ByPeer { .. } | CloseReason::TimedOut | CloseReason::Transport(_) => {
                Self::Lost(reason)
            }
            reason => Self::Broken(reason),
        }
    }
}
