//! One transfer on its way: blocks out, over as many sessions as it takes, until the receiver has written everything.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use anyhow::bail;
use bytes::Bytes;
use squall::{Block, SendError};

use super::{
    message::{End, Header, Message, Position, Receipt},
    replay::Replay,
    send::SendArgs,
    source::{Piece, Source},
    talk::{Gone, Talk},
};

/// How often a sender that waits for its own input says so.
const PULSE: Duration = Duration::from_secs(10);

/// One transfer on its way.
pub(super) struct Delivery<'a> {
    args: &'a SendArgs,
    source: &'a mut Source,
    header: Header,
    replay: Replay,
    /// What was read and waits for its time.
    pending: Option<Piece>,
    /// What was read and handed over so far.
    pub(super) end: End,
    /// The source is at its end.
    whole: bool,
    /// When the first frame was due.
    begin: Option<Instant>,
    /// Frames for which there was no room, or no time.
    pub(super) dropped: u64,
    /// Bytes that the receiver has taken.
    taken: &'a AtomicU64,
}

/// Why a session did not finish the transfer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stop {
    /// The session is over.
    #[error(transparent)]
    Gone(#[from] Gone),
    /// The transfer is over.
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
}

impl<'a> Delivery<'a> {
    pub(super) fn new(
        args: &'a SendArgs,
        source: &'a mut Source,
        header: Header,
        taken: &'a AtomicU64,
    ) -> Self {
        Self {
            args,
            source,
            header,
            replay: Replay::default(),
            pending: None,
            end: End::default(),
            whole: false,
            begin: None,
            dropped: 0,
            taken,
        }
    }

    /// Whether the receiver was sent everything, so that it may have written the file although it did not confirm that.
    pub(super) fn is_all_sent(&self) -> bool {
        self.whole
    }

    /// Hands over what the receiver lacks, and waits for the receipt.
    pub(super) async fn run(&mut self, talk: &Talk) -> Result<Receipt, Stop> {
        self.header.from = self.replay.first();
        talk.say(&Message::Header(self.header.clone())).await?;
        let from = match talk.next().await?.0 {
            Message::Go(position) => position,
            Message::Receipt(receipt) => return self.check(receipt),
            _ => return Err(out_of_step()),
        };
        self.confirm(from)?;
        for number in self.replay.first()..self.replay.next() {
            match self.replay.block(number, Instant::now()) {
                Some(block) => self.hand_over(talk, block).await?,
                None => self.dropped += 1,
            }
        }
        if self.whole {
            talk.say_last(&Message::End(self.end)).await?;
        }
        loop {
            let may_read = !self.whole && self.replay.has_room(Instant::now());
            tokio::select! {
                heard = talk.next() => match heard?.0 {
                    Message::Taken(position) => self.confirm(position)?,
                    Message::Receipt(receipt) => return self.check(receipt),
                    _ => return Err(out_of_step()),
                },
                piece = self.due(), if may_read => match piece? {
                    Some(piece) => self.send(talk, piece).await?,
                    None => {
                        self.whole = true;
                        talk.say_last(&Message::End(self.end)).await?;
                    }
                },
                () = tokio::time::sleep(PULSE), if !self.whole => talk.say_last(&Message::Data(Bytes::new())).await?,
            }
        }
    }

    /// The next piece when its time has come; `None` at the end. Cancel safe.
    async fn due(&mut self) -> anyhow::Result<Option<Piece>> {
        if self.pending.is_none() {
            self.pending = self.source.next().await.transpose()?;
        }
        if let Some(Piece::Frame(frame)) = &self.pending {
            let begin = *self.begin.get_or_insert_with(Instant::now);
            tokio::time::sleep_until((begin + Duration::from_micros(frame.pts_us)).into()).await;
        }
        Ok(self.pending.take())
    }

    async fn send(&mut self, talk: &Talk, piece: Piece) -> Result<(), Stop> {
        self.end.blocks += 1;
        let now = Instant::now();
        let block = match piece {
            Piece::Data(data) => {
                self.end.bytes += data.len() as u64;
                Block::new(Message::Data(data).encode()).ordered()
            }
            Piece::Frame(frame) => {
                self.end.bytes += frame.data.len() as u64;
                let due = self.begin.unwrap_or(now) + Duration::from_micros(frame.pts_us);
                let mut block = self.args.frame_block(frame.kind);
                // A frame that was due during an outage is late by now.
                block.deadline =
                    block.deadline.map(|deadline| (due + deadline).saturating_duration_since(now));
                block.data = Message::Frame(frame).encode();
                block
            }
        };
        let number = self.replay.next();
        self.replay.keep(now, block);
        match self.replay.block(number, now) {
            Some(block) => self.hand_over(talk, block).await,
            None => {
                self.dropped += 1;
                Ok(())
            }
        }
    }

    /// Waits for room, unless the block is of no use later: then it is dropped.
    async fn hand_over(&mut self, talk: &Talk, block: Block) -> Result<(), Stop> {
        let handed = match block.deadline {
            None => talk.session.send(block).await,
            Some(_) => talk.session.try_send(block),
        };
        match handed {
            Ok(_) => Ok(()),
            Err(SendError::Full(_)) => {
                self.dropped += 1;
                Ok(())
            }
            Err(SendError::Closed) => Err(talk.over().await.into()),
            Err(error) => Err(anyhow::anyhow!("cannot send: {error}").into()),
        }
    }

    fn confirm(&mut self, taken: Position) -> Result<(), Stop> {
        self.taken.store(taken.bytes, Relaxed);
        if self.replay.confirm(taken) { Ok(()) } else { Err(out_of_step()) }
    }

    fn check(&self, receipt: Receipt) -> Result<Receipt, Stop> {
        self.taken.store(receipt.bytes, Relaxed);
        let sent = Receipt { blocks: self.end.blocks, bytes: self.end.bytes };
        if receipt == sent || !self.args.is_whole() && receipt.blocks <= sent.blocks {
            return Ok(receipt);
        }
        Err(anyhow::anyhow!("the receiver wrote {} bytes of {}", receipt.bytes, sent.bytes).into())
    }
}

fn out_of_step() -> Stop {
    anyhow::anyhow!("the receiver is out of step").into()
}

/// What a stop means for the transfer: an error, or a session that was lost.
pub(super) fn lost(stop: Stop) -> anyhow::Result<Gone> {
    match stop {
        Stop::Gone(gone @ Gone::Lost(_)) => Ok(gone),
        Stop::Gone(Gone::ByPeer(words)) => bail!("the receiver stopped: {words}"),
        Stop::Gone(gone) => bail!("the session ended: {gone}"),
        Stop::Failed(error) => Err(error),
    }
}
