//! Handles of blocks that were handed over.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use squall_proto::{Outcome, sched::BlockId};
use tokio::sync::oneshot;

/// A block that was handed over. Awaiting it gives the block's outcome; dropping it has no effect
/// on the block.
///
/// ```no_run
/// # async fn example(session: squall::Session) -> Result<(), squall::SendError> {
/// use squall::{Block, BlockOptions, Outcome};
///
/// // With the outcome.
/// let outcome = session.send(Block::new("important")).await?.await;
/// if !matches!(outcome, Outcome::Delivered { .. }) {
///     println!("not delivered: {outcome:?}");
/// }
/// // Without it.
/// session.send(Block::with("a frame of many", BlockOptions::new().reliable(false))).await?;
/// # Ok(())
/// # }
/// ```
///
/// It does not keep the session open: a block that has not ended when the session ends gets the
/// outcome [`Outcome::SessionClosed`].
#[derive(Debug)]
pub struct BlockHandle {
    id: BlockId,
    outcome: oneshot::Receiver<Outcome>,
}

impl BlockHandle {
    pub(crate) fn new(id: BlockId) -> (Self, oneshot::Sender<Outcome>) {
        let (sender, outcome) = oneshot::channel();
        (Self { id, outcome }, sender)
    }

    /// The block's id, for [`Session::cancel`](crate::Session::cancel) and as
    /// [`Received::id`](crate::Received::id) at the peer.
    pub fn id(&self) -> BlockId {
        self.id
    }
}

impl Future for BlockHandle {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        Pin::new(&mut self.outcome).poll(cx).map(|outcome| outcome.unwrap_or(Outcome::SessionClosed))
    }
}
