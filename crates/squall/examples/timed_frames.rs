//! Streams two seconds of video-like frames, 60 a second, each with a deadline; prints what arrived in time.

use std::{error::Error, time::Duration};

use squall::{
    Arrival, Block, BlockOptions, Config, Connect, Depends, Endpoint, Identity, Priority, Session, Trust,
};

const FRAMES: u32 = 120;
const INTERVAL: Duration = Duration::from_micros(16_667);
const DEADLINE: Duration = Duration::from_millis(50);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let identity = Identity::self_signed("localhost")?;
    let server = Endpoint::listen("127.0.0.1:0", &identity.server_tls()?, Config::default())?;
    let request = Connect::to(server.local_addrs()[0])
        .trust(Trust::Pinned(identity.fingerprint()))
        .over(["127.0.0.2".parse()?, "127.0.0.3".parse()?]);
    let viewer = tokio::spawn(async move { Some(watch(server.accept().await?).await) });

    let session = squall::connect(request, Config::default()).await?;
    let mut clock = tokio::time::interval(INTERVAL);
    for n in 0..FRAMES {
        clock.tick().await;
        // Every 30th frame is a key frame: larger, more important, repaired when lost. The frames
        // between are worthless once the next one is there, so that losses are left alone. They refer to
        // the key frame, and none to another.
        let options = BlockOptions::new().deadline(DEADLINE);
        let frame = match n % 30 {
            0 => Block::with(vec![1; 120_000], options.priority(Priority::FIRST).depends(Depends::Key)),
            _ => {
                let options = options.priority(Priority::new(4)).reliable(false).depends(Depends::Disposable);
                Block::with(vec![0; 20_000], options)
            }
        };
        session.send(frame).await?;
    }
    session.finish(Duration::from_secs(5)).await?;
    let (in_time, late) = viewer.await?.ok_or("no session came in")?;
    println!("{in_time} of {FRAMES} frames arrived within {DEADLINE:?}, {late} did not");
    Ok(())
}

/// Counts the frames that arrive in time, and those that do not.
async fn watch(session: Session) -> (u32, u32) {
    let (mut in_time, mut late) = (0, 0);
    while let Ok(Some(arrival)) = session.recv_any().await {
        let Arrival::Block(frame) = arrival else {
            late += 1;
            continue;
        };
        in_time += 1;
        let spread = frame.whole_at - frame.first_at;
        if frame.priority == Priority::FIRST {
            println!("key frame {}: {} bytes within {spread:.1?}", frame.id.0, frame.data.len());
        }
    }
    (in_time, late)
}
