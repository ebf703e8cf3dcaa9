//! Growing blocks: opened before their bytes exist, written to, finished.

use std::time::Instant;

use bytes::Bytes;
use squall_sched::{BlockId, Time, WorkKind};

use super::Session;
use crate::{
    BlockOptions, Channel, OpenError, Part, Priority, WriteError, inbox, outbox::Ending, path::Control,
    wire::Data,
};

impl Session {
    /// Opens a block whose bytes follow with [`Self::append`] and are sent at once. It ends like
    /// every block, at the latest by its deadline, which counts from now, or with the session. It
    /// cannot be delivered before it is finished, and written bytes count against the limits.
    ///
    /// A peer of an earlier version does not accept such blocks: written bytes wait until
    /// [`Self::finish`], and are sent as a block like any other.
    ///
    /// # Errors
    /// [`OpenError::Full`] when too many blocks are open;
    /// [`Event::Writable`](crate::Event::Writable) follows. [`OpenError::Closed`] if the session is
    /// over.
    pub fn open(&mut self, now: Instant, options: &BlockOptions) -> Result<BlockId, OpenError> {
        if self.is_closed() {
            return Err(OpenError::Closed(self.reason()));
        }
        let id = self.outbox.open(self.time(now), options)?;
        self.stats.blocks_offered += 1;
        self.schedule();
        Ok(id)
    }

    /// Adds bytes to an open block. They are sent as soon as the paths have room: in packets of
    /// their own if they do not fill one, so pieces of a packet (1,200 bytes) or more cost the
    /// least. No bytes change nothing.
    ///
    /// # Errors
    /// [`WriteError::Full`] returns them when there is no room;
    /// [`Event::Writable`](crate::Event::Writable) follows. [`WriteError::TooLarge`] leaves the
    /// block unchanged. [`WriteError::Ended`] if it is not open.
    pub fn append(&mut self, id: BlockId, data: Bytes) -> Result<(), WriteError> {
        let len = data.len() as u64;
        self.outbox.append(id, data)?;
        self.stats.bytes_offered += len;
        self.schedule();
        Ok(())
    }

    /// Finishes an open block, which has all its bytes.
    ///
    /// # Errors
    /// [`WriteError::Empty`] if it has none: it is cancelled. [`WriteError::Ended`] if it is not open.
    pub fn finish(&mut self, now: Instant, id: BlockId) -> Result<(), WriteError> {
        let finished = self.outbox.finish(id);
        if finished == Err(WriteError::Empty) {
            self.end_block(self.time(now), id, Ending::Cancelled("it has no bytes"));
        }
        finished?;
        self.schedule();
        if self.outbox.is_sent(id) && !self.waits_for_pacer(id) {
            // No packet of it is left that could carry its length.
            self.queue_end(id);
        }
        Ok(())
    }

    /// Returns `false` if a block may get [`WriteError::Full`] for this many bytes now.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        !self.is_closed() && self.outbox.has_bytes_free(bytes as u64)
    }

    /// Sets whether blocks that arrive on a channel are handed over as they grow, in [`Part`]s,
    /// rather than whole. Default: whole. It applies to every block of which nothing was handed
    /// over yet, whether the sender opened it without its length or not. A channel's ordered blocks
    /// keep their order.
    pub fn set_in_parts(&mut self, channel: Channel, on: bool) {
        self.inbox.set_in_parts(channel.get(), on);
    }

    /// Returns `true` if bytes of a block, apart from copies, are assigned to a path and have not
    /// left.
    fn waits_for_pacer(&self, id: BlockId) -> bool {
        let mut committed = self.conn.paths.iter().flat_map(|path| &path.committed);
        committed.any(|chunk| chunk.block == id && chunk.kind != WorkKind::Copy)
    }

    /// Announces the length of a block to a peer that has every byte of it and not its length.
    pub(super) fn announce_end(&mut self, id: BlockId) {
        if self.outbox.lacks_end(id) {
            self.queue_end(id);
        }
    }

    fn queue_end(&mut self, id: BlockId) {
        if self.outbox.take_end(id) {
            self.send_item(Control::End(id));
        }
    }

    /// Returns the item that announces the length of a block; `None` if it has ended, or the peer
    /// has its length.
    pub(super) fn end_of(&self, at: Time, id: BlockId) -> Option<Data> {
        let header = self.outbox.header(id, at).filter(|_| !self.outbox.is_end_known(id))?;
        Some(Data { offset: header.total?, ..header })
    }

    /// Converts a part for the application.
    pub(super) fn on_part(&mut self, part: inbox::Part) -> Part {
        self.stats.bytes_received += part.data.len() as u64;
        if part.is_last {
            self.stats.blocks_received += 1;
            self.offer_credit();
        }
        Part {
            id: part.label.id,
            channel: Channel::new(part.label.channel),
            priority: Priority::new(part.label.priority),
            reliable: part.reliable,
            deadline: part.deadline.map(|at| self.instant(at)),
            offset: part.offset,
            data: part.data,
            missing: part.missing,
            is_last: part.is_last,
        }
    }
}
