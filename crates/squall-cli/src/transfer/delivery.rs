//! One transfer on its way: blocks out, and what the receiver says to them.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use squall::{Block, CloseReason, Event, SendError, Session};

use super::{
    message::{End, Message, Receipt},
    send::SendArgs,
    source::{Piece, Source},
};

/// What the receiver has said, as far as it matters.
pub(super) struct Peer {
    said: tokio::sync::watch::Receiver<Said>,
}

#[derive(Clone, Debug, Default)]
struct Said {
    receipt: Option<Receipt>,
    closed: Option<CloseReason>,
}

impl Peer {
    /// Listens from now on.
    pub(super) fn listen_to(session: Session) -> Self {
        let (tell, said) = tokio::sync::watch::channel(Said::default());
        tokio::spawn(async move {
            while let Some(event) = session.recv().await {
                match event {
                    Event::Received(block) => {
                        if let Ok(Message::Receipt(receipt)) = Message::decode(&block.data) {
                            tell.send_modify(|said| said.receipt = Some(receipt));
                        }
                    }
                    Event::Closed(reason) => tell.send_modify(|said| said.closed = Some(reason)),
                    _ => {}
                }
            }
        });
        Self { said }
    }

    /// What the receiver has written; an error if the session ends before it says so.
    async fn receipt(&mut self) -> anyhow::Result<Receipt> {
        let said = self.said.wait_for(|said| said.receipt.is_some() || said.closed.is_some()).await;
        let said = said.map(|said| said.clone()).unwrap_or_default();
        match (said.receipt, said.closed) {
            (Some(receipt), _) => Ok(receipt),
            (None, Some(CloseReason::ByPeer { reason, .. })) if !reason.is_empty() => {
                bail!("the receiver stopped: {reason}")
            }
            (None, Some(reason)) => bail!("the session ended: {reason}"),
            (None, None) => bail!("the session ended"),
        }
    }

    /// Completes when the session is over, however it ended.
    async fn gone(&mut self) {
        let _ = self.said.wait_for(|said| said.closed.is_some()).await;
    }
}

/// One transfer on its way.
pub(super) struct Delivery<'a> {
    pub(super) args: &'a SendArgs,
    pub(super) session: &'a Session,
    pub(super) peer: Peer,
    /// What was handed over so far.
    pub(super) end: End,
    /// Frames for which there was no room.
    pub(super) dropped: u64,
}

impl Delivery<'_> {
    /// Hands everything over and waits for the receipt.
    pub(super) async fn run(&mut self, source: &mut Source) -> anyhow::Result<()> {
        let header = Message::Header(source.header.clone()).encode();
        self.hand_over(Block::new(header).ordered().priority(0)).await?;
        let begin = Instant::now();
        loop {
            let piece = tokio::select! {
                piece = source.next() => piece,
                () = self.peer.gone() => break,
            };
            match piece.transpose()? {
                None => break,
                Some(Piece::Data(data)) => {
                    self.count(data.len());
                    self.hand_over(Block::new(Message::Data(data).encode()).ordered()).await?;
                }
                Some(Piece::Frame(frame)) => {
                    self.count(frame.data.len());
                    tokio::time::sleep_until((begin + Duration::from_micros(frame.pts_us)).into()).await;
                    let kind = frame.kind;
                    self.hand_over(self.args.frame_block(Message::Frame(frame).encode(), kind)).await?;
                }
            }
        }
        self.hand_over(Block::new(Message::End(self.end).encode()).ordered()).await?;
        let receipt = self.peer.receipt().await?;
        let whole = self.args.is_whole();
        let sent = Receipt { blocks: self.end.blocks, bytes: self.end.bytes };
        ensure!(
            receipt == sent || !whole && receipt.blocks <= sent.blocks,
            "the receiver wrote {} bytes of {}",
            receipt.bytes,
            sent.bytes
        );
        Ok(())
    }

    fn count(&mut self, bytes: usize) {
        self.end.blocks += 1;
        self.end.bytes += bytes as u64;
    }

    /// Waits for room, unless the block is of no use later: then it is dropped.
    async fn hand_over(&mut self, block: Block) -> anyhow::Result<()> {
        let handed = match block.deadline {
            None => self.session.send(block).await,
            Some(_) => self.session.try_send(block),
        };
        match handed {
            Ok(_) => Ok(()),
            Err(SendError::Full(_)) => {
                self.dropped += 1;
                Ok(())
            }
            // Why is told there.
            Err(SendError::Closed) => self.peer.receipt().await.map(drop),
            Err(error) => bail!("cannot send: {error}"),
        }
    }
}
