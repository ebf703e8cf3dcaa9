//! Receiver for the sample application: writes the pictures of one session after another to its
//! standard output, for a player.
//!
//! ```sh
//! cargo run --release -p squall-android --example sample_receiver -- 0.0.0.0:4433 | ffplay -fflags nobuffer -f h264 -
//! ```
//!
//! Prints the fingerprint for the application to its standard error. The certificate is stored in
//! `receiver.pem`, so the fingerprint does not change.

use std::io::{self, Write as _};

use squall::{Config, Endpoint, Identity, Session};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address =
        std::env::args().nth(1).ok_or("which address? For example: sample_receiver 0.0.0.0:4433")?;
    let identity = Identity::load_or_create("receiver.pem", "localhost")?;
    let endpoint = Endpoint::listen(address.as_str(), &identity.server_tls()?, Config::default())?;
    eprintln!("listening {} {}", endpoint.local_addrs()[0], identity.fingerprint());
    while let Some(session) = endpoint.accept().await {
        write_out(&session).await?;
        eprintln!("closed {}", session.closed().await);
    }
    Ok(())
}

/// Writes the blocks of a session in order of arrival. The blocks are ordered, so this is the order
/// of the pictures.
async fn write_out(session: &Session) -> io::Result<()> {
    while let Ok(Some(block)) = session.recv().await {
        let mut out = io::stdout().lock();
        out.write_all(&block.data)?;
        out.flush()?;
    }
    Ok(())
}
