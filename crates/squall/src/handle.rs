//! A block that was handed over, and its fate.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use squall_proto::{BlockFate, sched::BlockId};
use tokio::sync::oneshot;

/// A block that was handed over. Awaited, it gives the block's fate; dropped, it changes nothing: the
/// block is sent all the same, and nothing waits for the application.
///
/// ```no_run
/// # async fn example(session: squall::Session) -> Result<(), squall::SendError> {
/// use squall::{Block, BlockOptions, BlockFate};
///
/// // With the fate.
/// let fate = session.send(Block::new("important")).await?.await;
/// if !matches!(fate, BlockFate::Delivered { .. }) {
///     println!("not delivered: {fate:?}");
/// }
/// // Without it.
/// session.send(Block::with("a frame of many", BlockOptions::new().reliable(false))).await?;
/// # Ok(())
/// # }
/// ```
///
/// It does not keep the session open: a block that has not ended when the session does ends as
/// [`BlockFate::SessionClosed`].
#[derive(Debug)]
pub struct BlockHandle {
    id: BlockId,
    fate: oneshot::Receiver<BlockFate>,
}

impl BlockHandle {
    pub(crate) fn new(id: BlockId) -> (Self, oneshot::Sender<BlockFate>) {
        let (sender, fate) = oneshot::channel();
        (Self { id, fate }, sender)
    }

    /// The block's id, for [`Session::cancel`](crate::Session::cancel) and as
    /// [`Received::id`](crate::Received::id) at the peer.
    pub fn id(&self) -> BlockId {
        self.id
    }

    /// The fate, if the block has ended; `None` once it was given.
    pub fn try_fate(&mut self) -> Option<BlockFate> {
        match self.fate.try_recv() {
            Ok(fate) => Some(fate),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(BlockFate::SessionClosed),
        }
    }
}

impl Future for BlockHandle {
    type Output = BlockFate;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<BlockFate> {
        Pin::new(&mut self.fate).poll(cx).map(|fate| fate.unwrap_or(BlockFate::SessionClosed))
    }
}
