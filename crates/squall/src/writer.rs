//! A block that grows.

use bytes::Bytes;
use squall_proto::{WriteError, sched::BlockId};

use crate::{BlockHandle, Session};

/// A block that was opened with [`Session::open`] and is written as its bytes come into being: a picture while its
/// encoder works, a file that is read. Written bytes leave at once, if the paths have room.
///
/// The block is whole for its receiver once it is [finished](Self::finish); a receiver can also take it
/// [in parts](Session::receiver). Its deadline counts from when it was opened. A writer that is dropped cancels its
/// block, and one that is kept keeps the session open.
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
    session: Session,
    id: BlockId,
    is_finished: bool,
}

impl BlockWriter {
    pub(crate) fn new(session: Session, handle: BlockHandle) -> Self {
        let open = Open { session, id: handle.id(), is_finished: false };
        Self { handle, open }
    }

    /// The block's id, as [`Received::id`](crate::Received::id) at the peer.
    pub fn id(&self) -> BlockId {
        self.open.id
    }

    /// Adds bytes at the end, and waits for room when the queue is full
    /// ([`Limits::queued_bytes`](crate::Limits::queued_bytes)). Pieces of a packet (1,200 bytes) or more cost the least,
    /// as what is written at once leaves at once, in a packet that is not full if need be.
    ///
    /// Cancel safe: either all of the bytes were added or none.
    ///
    /// # Errors
    /// [`WriteError::TooLarge`] if the block would exceed [`Session::max_block_len`], or the queue: it stays as it was.
    /// [`WriteError::Ended`] if the block has ended, as by its deadline: [`Self::cancel`] gives its outcome. Never
    /// [`WriteError::Full`].
    pub async fn append(&mut self, data: impl Into<Bytes>) -> Result<(), WriteError> {
        self.open.session.append(self.open.id, data.into()).await
    }

    /// Adds bytes at the end if there is room.
    ///
    /// # Errors
    /// [`WriteError::Full`] hands the bytes back; [`Session::writable`] waits for room. The others as for
    /// [`Self::append`].
    pub fn try_append(&mut self, data: impl Into<Bytes>) -> Result<(), WriteError> {
        self.open.session.try_append(self.open.id, data.into(), false)
    }

    /// Adds the last bytes if there is room, as [`Self::try_append`] and [`Self::finish`] in one. Their packet marks
    /// the end of the block, which may take a packet of its own otherwise. [`Self::finish`] then only
    /// gives the handle.
    ///
    /// # Errors
    /// As for [`Self::try_append`]: the block stays open.
    pub fn try_append_last(&mut self, data: impl Into<Bytes>) -> Result<(), WriteError> {
        self.open.session.try_finish_with(self.open.id, data.into())?;
        self.open.is_finished = true;
        Ok(())
    }

    /// The block has all its bytes. The handle gives its outcome, also that of a block which has ended before.
    ///
    /// # Errors
    /// [`WriteError::Empty`] if nothing was written: the block is cancelled.
    pub fn finish(mut self) -> Result<BlockHandle, WriteError> {
        match self.open.session.finish_block(self.open.id) {
            Ok(()) | Err(WriteError::Ended) => {
                self.open.is_finished = true;
                Ok(self.handle)
            }
            Err(error) => Err(error),
        }
    }

    /// Cancels the block. The handle gives its outcome: [`Outcome::Cancelled`](crate::Outcome::Cancelled), unless
    /// it has ended before.
    pub fn cancel(self) -> BlockHandle {
        self.handle
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.is_finished {
            self.session.cancel(self.id);
        }
    }
}
