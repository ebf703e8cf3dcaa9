//! One transfer on its way: blocks out, over as many sessions as it takes, until the receiver has written everything.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use anyhow::bail;
use bytes::Bytes;
use squall::{Block, SendError};

use super::{
    message::{End, Header, Message, Position, Receipt},
    replay::Replay,
    source::Source,
    talk::{Gone, Talk},
};

/// How often a sender that waits for its own input says so.
const PULSE: Duration = Duration::from_secs(10);

/// One transfer on its way.
pub(super) struct Delivery<'a> {
    source: &'a mut Source,
    header: Header,
    replay: Replay,
    /// What was read and handed over so far.
    pub(super) end: End,
    /// The source is at its end.
    whole: bool,
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
    pub(super) fn new(source: &'a mut Source, header: Header, taken: &'a AtomicU64) -> Self {
        Self { source, header, replay: Replay::default(), end: End::default(), whole: false, taken }
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
            self.hand_over(talk, number).await?;
        }
        if self.whole {
            talk.say_last(&Message::End(self.end)).await?;
        }
        loop {
            let may_read = !self.whole && self.replay.has_room();
            tokio::select! {
                heard = talk.next() => match heard?.0 {
                    Message::Taken(position) => self.confirm(position)?,
                    Message::Receipt(receipt) => return self.check(receipt),
                    _ => return Err(out_of_step()),
                },
                piece = self.source.next(), if may_read => match piece.transpose()? {
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

    async fn send(&mut self, talk: &Talk, data: Bytes) -> Result<(), Stop> {
        self.end.blocks += 1;
        self.end.bytes += data.len() as u64;
        let number = self.replay.next();
        self.replay.keep(Message::Data(data).encode());
        self.hand_over(talk, number).await
    }

    /// Hands over the block of this number, if the receiver does not have it. Waits for room.
    async fn hand_over(&self, talk: &Talk, number: u64) -> Result<(), Stop> {
        let Some(data) = self.replay.block(number) else { return Ok(()) };
        match talk.session.send(Block::new(data).ordered()).await {
            Ok(_) => Ok(()),
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
        if receipt == sent {
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
