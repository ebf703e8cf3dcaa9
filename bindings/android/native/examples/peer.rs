//! Server for the tests of the Android library: accepts sessions, reports arriving blocks, and
//! returns them.
//!
//! Writes lines: `listening ADDRESS FINGERPRINT`, then `block CHANNEL PRIORITY LENGTH SUM` for each
//! block, and `closed REASON` for each session. Exits when its standard input ends.

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
        // End of input means that the parent process is gone.
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
    // The output is not read once the test is over.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
