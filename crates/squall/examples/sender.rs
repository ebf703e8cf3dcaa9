//! Sends two seconds of frames, 60 a second, over every interface that reaches the receiver: `sender ADDRESS FINGERPRINT`.
//! The example `receiver` prints both.

use std::{error::Error, time::Duration};

use squall::{Block, BlockOptions, Connect, Depends, Outcome, Priority, Trust};

const FRAMES: usize = 120;
const INTERVAL: Duration = Duration::from_micros(16_667);
const DEADLINE: Duration = Duration::from_millis(50);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(address), Some(fingerprint)) = (arguments.next(), arguments.next()) else {
        return Err("usage: sender ADDRESS FINGERPRINT".into());
    };
    let request = Connect::to(address).trust(Trust::Pinned(fingerprint.parse()?));
    let session = squall::connect(request).await?;

    // Key frames are sent again when bytes are lost. The frames between refer to them, and are worthless late.
    let key = BlockOptions::new().deadline(DEADLINE).priority(Priority::FIRST).depends(Depends::Key);
    let delta = BlockOptions::new().deadline(DEADLINE).reliable(false).depends(Depends::Disposable);
    let mut clock = tokio::time::interval(INTERVAL);
    let mut sent = Vec::new();
    for n in 0..FRAMES {
        clock.tick().await;
        let frame = match n % 30 {
            0 => Block::with(vec![1; 120_000], key.clone()),
            _ => Block::with(vec![0; 20_000], delta.clone()),
        };
        sent.push(session.send(frame).await?);
    }
    session.finish(Duration::from_secs(5)).await?;

    let mut delivered = 0;
    for handle in sent {
        match handle.await {
            Outcome::Delivered { .. } => delivered += 1,
            other => println!("not delivered: {other:?}"),
        }
    }
    println!("{delivered} of {FRAMES} frames were delivered within {DEADLINE:?}");
    for path in session.paths() {
        println!(
            "{} -> {}: {} bytes, rtt {:.1?}",
            path.local, path.remote, path.stats.sent_bytes, path.stats.srtt
        );
    }
    Ok(())
}
