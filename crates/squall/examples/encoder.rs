//! An encoder that follows the capacity: each of its frames is as large as the session can deliver in time. Sender and
//! receiver run in one process here, and the receiver halves its limit after two seconds.

use std::{error::Error, time::Duration};

use squall::{Block, BlockOptions, Config, Connect, Endpoint, Identity, Session, Trust};

const INTERVAL: Duration = Duration::from_millis(33);
const DEADLINE: Duration = Duration::from_millis(200);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let identity = Identity::self_signed("localhost")?;
    let server = Endpoint::listen("127.0.0.1:0", &identity.server_tls()?, Config::default())?;
    let request = Connect::to(server.local_addrs()[0])
        .trust(Trust::Pinned(identity.fingerprint()))
        .over(["127.0.0.2".parse()?, "127.0.0.3".parse()?]);
    let viewer = tokio::spawn(async move { Some(watch(server.accept().await?).await) });
    let session = squall::connect(request).await?;
    stream(&session).await?;
    session.finish(Duration::from_secs(5)).await?;
    println!("{} bytes arrived", viewer.await?.ok_or("no session came in")?);
    Ok(())
}

/// Streams for four seconds.
async fn stream(session: &Session) -> Result<(), squall::SendError> {
    let mut clock = tokio::time::interval(INTERVAL);
    let capacity = session.capacity_changes();
    for n in 0..120 {
        clock.tick().await;
        let bits_per_second = capacity.borrow().safe;
        // After a path failure, the waiting blocks already occupy their share.
        let most = session.deliverable(DEADLINE / 2, 0.9);
        let size = (bits_per_second / 8 / 30).min(most).clamp(500, 200_000);
        if n % 15 == 0 {
            println!("{:.1} Mbit/s, frames of {size} bytes", bits_per_second as f64 / 1e6);
        }
        let options = BlockOptions::new().deadline(DEADLINE).reliable(false);
        session.send(Block::with(vec![0; size as usize], options)).await?;
    }
    Ok(())
}

/// Receives until the end, first with room for 20 Mbit/s, then for 10; returns the bytes that arrived.
async fn watch(session: Session) -> usize {
    session.request_bitrate(Some(20_000_000));
    let (start, mut bytes, mut halved) = (tokio::time::Instant::now(), 0, false);
    while let Ok(Some(frame)) = session.recv().await {
        bytes += frame.data.len();
        if !halved && start.elapsed() > Duration::from_secs(2) {
            halved = true;
            session.request_bitrate(Some(10_000_000));
        }
    }
    bytes
}
