//! Blocks that grow.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use squall_proto::{WriteError, sched::BlockId};

use super::reference::SessionRef;
use crate::BlockHandle;

/// A block that was opened with [`Session::open`](crate::Session::open) and is written while its
/// bytes are produced: a picture during its encoding, a file during reading. Written bytes leave
/// within half a millisecond if the paths have room, the last ones at once.
///
/// The block is complete for its receiver once it is [finished](Self::finish); a receiver can also
/// take it [in parts](crate::Session::receiver). Its deadline counts from the opening. Dropping the
/// writer cancels the block; a writer keeps the session open.
///
/// ```no_run
/// # async fn example(session: squall::Session, slices: Vec<Vec<u8>>) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use squall::BlockOptions;
///
/// let mut picture = session.open(BlockOptions::new().deadline(Duration::from_millis(150))).await?;
/// for slice in slices {
///     picture.append(slice).await?;
/// }
/// let handle = picture.finish()?;
/// println!("{:?}", handle.await);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct BlockWriter {
    handle: BlockHandle,
    open: Open,
}

/// Cancels the block when it is dropped, unless the block was finished.
#[derive(Debug)]
struct Open {
    session: Arc<SessionRef>,
    id: BlockId,
    is_finished: bool,
}

impl BlockWriter {
    pub(super) fn new(session: Arc<SessionRef>, handle: BlockHandle) -> Self {
        let open = Open { session, id: handle.id(), is_finished: false };
        Self { handle, open }
    }

    /// Returns the id of the block, which is [`Received::id`](crate::Received::id) at the peer.
    pub fn id(&self) -> BlockId {
        self.open.id
    }

    /// Appends bytes, and waits for room when the queue is full
    /// ([`Config::queued_bytes`](crate::Config::queued_bytes)). Bytes wait up to half a millisecond
    /// for further ones, to leave in full packets.
    ///
    /// Cancel safe: either all of the bytes were appended or none.
    ///
    /// # Errors
    /// [`WriteError::TooLarge`] if the block would exceed
    /// [`Session::max_block_len`](crate::Session::max_block_len), or the queue: the block stays
    /// unchanged. [`WriteError::Ended`] if the block has ended, for instance by its deadline:
    /// [`Self::cancel`] gives its outcome. Never [`WriteError::Full`].
    pub async fn append(&mut self, data: impl Into<Bytes>) -> Result<(), WriteError> {
        let (block, mut waiting) = (self.open.id, Some(data.into()));
        let session = &self.open.session;
        let appended = session.changed(|core, id| match core.append(id, block, waiting.take()?, true) {
            Err(WriteError::Full(back)) => {
                waiting = Some(back);
                None
            }
            done => Some(done),
        });
        appended.await
    }

    /// Appends bytes if there is room.
    ///
    /// # Errors
    /// [`WriteError::Full`] returns the bytes; [`Session::writable`](crate::Session::writable)
    /// waits for room. Other errors as for [`Self::append`].
    pub fn try_append(&mut self, data: impl Into<Bytes>) -> Result<(), WriteError> {
        let Open { session, id, .. } = &self.open;
        session.shared.lock().append(session.id, *id, data.into(), false)
    }

    /// Appends the last bytes if there is room, as [`Self::try_append`] and [`Self::finish`] in
    /// one. Their packet then marks the end of the block, which may take a separate packet
    /// otherwise. [`Self::finish`] afterwards only returns the handle.
    ///
    /// # Errors
    /// As for [`Self::try_append`]: the block stays open.
    pub fn try_append_last(&mut self, data: impl Into<Bytes>) -> Result<(), WriteError> {
        let Open { session, id, is_finished } = &mut self.open;
        let mut core = session.shared.lock();
        // The lock is held: no packet leaves in between without the mark of the block's end.
        core.append(session.id, *id, data.into(), false)?;
        core.finish_block(session.id, *id)?;
        *is_finished = true;
        Ok(())
    }

    /// Completes the block. The handle gives its outcome, also if the block has already ended.
    ///
    /// # Errors
    /// [`WriteError::Empty`] if nothing was written: the block is cancelled.
    pub fn finish(mut self) -> Result<BlockHandle, WriteError> {
        let Open { session, id, .. } = &self.open;
        let finished = session.shared.lock().finish_block(session.id, *id);
        match finished {
            Ok(()) | Err(WriteError::Ended) => {
                self.open.is_finished = true;
                Ok(self.handle)
            }
            Err(error) => Err(error),
        }
    }

    /// Cancels the block. The handle gives its outcome:
    /// [`Outcome::Cancelled`](crate::Outcome::Cancelled), unless the block has already ended.
    pub fn cancel(self) -> BlockHandle {
        self.handle
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.is_finished {
            self.session.change(|session| session.cancel(Instant::now(), self.id));
        }
    }
}
