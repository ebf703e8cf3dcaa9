//! The server of the library's tests: accepts sessions, reports the blocks that arrive, and sends them back.
//!
//! It writes lines: `listening ADDRESS FINGERPRINT`, then for each block `block CHANNEL PRIORITY LENGTH SUM`,
//! and `closed REASON` for each session. It exits when its standard input ends.

use std::{
    io::{Read as _, Write as _},
    time::Duration,
};

use squall::{Block, BlockOptions, Config, Endpoint, Identity, Received, Session};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let identity = Identity::self_signed("localhost")?;
    let endpoint = Endpoint::listen("127.0.0.1:0", &identity.server_tls()?, Config::default())?;
    say(&format!("listening {} {}", endpoint.local_addrs()[0], identity.fingerprint()));
    std::thread::spawn(|| {
        // The process that started this one is gone when the input ends.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    while let Some(session) = endpoint.accept().await {
        tokio::spawn(serve(session));
    }
    Ok(())
}

async fn serve(session: Session) {
    while let Ok(Some(block)) = session.recv().await {
        let sum: u64 = block.data.iter().map(|byte| u64::from(*byte)).sum();
        let Received { channel, priority, .. } = block;
        say(&format!("block {channel} {priority} {} {sum}", block.data.len()));
        let options =
            BlockOptions::new().channel(channel).priority(priority).deadline(Duration::from_secs(10));
        if let Err(error) = session.send(Block::with(block.data, options)).await {
            say(&format!("unsent {error}"));
        }
    }
    let reason = session.closed().await;
    say(&format!("closed {reason}"));
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // No process reads the output once the test is over.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
