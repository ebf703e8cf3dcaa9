//! A session of a transfer, with messages in both directions. A transfer may need several sessions.

use std::{net::IpAddr, time::Duration};

use squall::{Block, BlockOptions, CloseReason, Priority, SendError, Session};

use super::message::{Message, MessageError};

/// Timeout for the end of a closed session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A session of a transfer.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) session: Session,
}

/// Reason why no more messages arrive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Disconnect {
    /// The peer closed the session without a reason.
    #[error("the peer has closed the session")]
    Closed,
    /// The peer closed the session for a reason.
    #[error("{0}")]
    ByPeer(String),
    /// The peer is unreachable. Another session may reach it.
    #[error("{0}")]
    Lost(CloseReason),
    /// The session failed for another reason.
    #[error("{0}")]
    Failed(CloseReason),
    /// The peer sent a block that is not a message.
    #[error("the peer sent {0}")]
    Unknown(MessageError),
}

impl Connection {
    pub(super) fn new(session: Session) -> Self {
        Self { session }
    }

    /// Returns the next message. Cancel safe.
    pub(super) async fn next(&self) -> Result<Message, Disconnect> {
        match self.session.recv().await {
            Ok(Some(block)) => Message::decode(&block.data).map_err(Disconnect::Unknown),
            Ok(None) => Err(self.session.closed().await.into()),
            Err(reason) => Err(reason.into()),
        }
    }

    /// Sends a message before all queued data.
    ///
    /// # Errors
    /// If the session is over.
    pub(super) async fn send_first(&self, message: &Message) -> Result<(), Disconnect> {
        self.send_block(Block::with(
            message.encode(),
            BlockOptions::new().ordered(true).priority(Priority::FIRST),
        ))
        .await
    }

    /// Sends a message after all queued data.
    ///
    /// # Errors
    /// If the session is over.
    pub(super) async fn send(&self, message: &Message) -> Result<(), Disconnect> {
        self.send_block(Block::with(message.encode(), BlockOptions::new().ordered(true))).await
    }

    /// Sends a block, once there is room for it.
    ///
    /// # Errors
    /// If the session is over.
    pub(super) async fn send_block(&self, block: Block) -> Result<(), Disconnect> {
        match self.session.send(block).await {
            Err(SendError::Closed(_)) => Err(self.over().await),
            // Other errors concern options and sizes, which are valid for all messages.
            _ => Ok(()),
        }
    }

    /// Sends a message if there is room for it; a later one replaces it.
    pub(super) fn try_send(&self, message: &Message) {
        let _ = self.session.try_send(Block::with(
            message.encode(),
            BlockOptions::new().ordered(true).priority(Priority::FIRST),
        ));
    }

    /// Waits for the end of the session, and returns its reason.
    pub(super) async fn over(&self) -> Disconnect {
        loop {
            if let Err(reason) = self.next().await {
                return reason;
            }
        }
    }

    /// Closes the session with a reason for the peer; code 0 is a normal end.
    pub(super) async fn close(&self, code: u32, reason: &str) {
        self.session.close(code, reason);
        // Do not wait for unacknowledged data.
        let _ = self.session.finish(Duration::ZERO).await;
        self.closed().await;
    }

    /// Waits until the session is over.
    pub(super) async fn closed(&self) {
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.session.closed()).await;
    }

    /// Returns the address of the peer.
    pub(super) fn remote(&self) -> IpAddr {
        self.session.remote_address().ip()
    }

    /// Returns the bytes of blocks that arrived, without duplicates.
    pub(super) fn arrived(&self) -> u64 {
        let paths = self.session.paths();
        let new =
            paths.iter().map(|path| path.stats.data_received.saturating_sub(path.stats.duplicate_bytes));
        new.sum()
    }
}

impl From<CloseReason> for Disconnect {
    fn from(reason: CloseReason) -> Self {
        match reason {
            CloseReason::ByPeer { code: 0, reason } if reason.is_empty() => Self::Closed,
            CloseReason::ByPeer { reason, .. } if !reason.is_empty() => Self::ByPeer(reason),
            CloseReason::ByPeer { .. } | CloseReason::TimedOut | CloseReason::Transport(_) => {
                Self::Lost(reason)
            }
            reason => Self::Failed(reason),
        }
    }
}
