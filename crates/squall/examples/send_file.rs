//! Sends a file over two paths: `send_file`, or `send_file FILE`.
//!
//! Server and client run in one process here; on two machines the client needs the server's address
//! and the fingerprint it prints.

use std::{error::Error, path::PathBuf, time::Duration, time::Instant};

use squall::{Block, BlockOptions, Config, Connect, Endpoint, Identity, Session, Trust};

/// Bytes of a block. Blocks of a file are ordered, so that they can be written one after the other.
const BLOCK: usize = 256 << 10;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let source = std::env::args().nth(1).map(PathBuf::from);
    let content = match &source {
        Some(file) => std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?,
        None => (0..16u32 << 20).map(|n| (n ^ (n >> 8)) as u8).collect(),
    };

    let identity = Identity::self_signed("localhost")?;
    let server = Endpoint::listen("127.0.0.1:0", &identity.server_tls()?, Config::default())?;
    let address = server.local_addrs()[0];
    println!("listening on {address}, fingerprint {}", identity.fingerprint());
    let receiver = tokio::spawn(async move { receive(server.accept().await?).await });

    let request = Connect::to(address).trust(Trust::Pinned(identity.fingerprint()));
    let request = request.over(["127.0.0.2".parse()?, "127.0.0.3".parse()?]);
    let session = squall::connect(request, Config::default()).await?;
    let started = Instant::now();
    for part in content.chunks(BLOCK) {
        session.send(Block::with(part.to_vec(), BlockOptions::new().ordered(true))).await?;
    }
    session.finish(Duration::from_secs(60)).await?;
    let took = started.elapsed();
    for path in session.paths() {
        println!("{} -> {}: {} bytes sent", path.local, path.remote, path.stats.sent_bytes);
    }

    let copy = receiver.await?.ok_or("no session came in")?;
    assert!(copy == content, "the copy differs");
    println!("{} bytes arrived as they were sent, in {took:.2?}", copy.len());
    Ok(())
}

/// What one session sends, until its end.
async fn receive(session: Session) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    while let Ok(Some(block)) = session.recv().await {
        content.extend_from_slice(&block.data);
    }
    Some(content)
}
