//! Receives from any number of senders: `receiver`, or `receiver [::]:4433`. Prints the command of the sender.

use std::{error::Error, path::Path};

use squall::{Arrival, Config, Endpoint, Identity, Session};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listen = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:4433".to_owned());
    // The file preserves the fingerprint over restarts.
    let file = std::env::temp_dir().join("squall-example.pem");
    let identity = Identity::load_or_create(Path::new(&file), "localhost")?;
    let endpoint = Endpoint::listen(&*listen, &identity.server_tls()?, Config::default())?;
    let (address, fingerprint) = (endpoint.local_addrs()[0], identity.fingerprint());
    println!("cargo run -p squall --example sender -- {address} {fingerprint}");
    while let Some(session) = endpoint.accept().await {
        tokio::spawn(receive(session));
    }
    Ok(())
}

/// Prints the blocks of a session, and those that do not arrive in time.
async fn receive(session: Session) {
    let peer = session.remote_address();
    let end = loop {
        match session.recv_any().await {
            Ok(Some(Arrival::Block(block))) => {
                let took = block.whole_at - block.first_at;
                println!("{peer}: block {}, {} bytes within {took:.1?}", block.id.0, block.data.len());
            }
            Ok(Some(Arrival::Missed(block))) => println!("{peer}: block {} is missing", block.id.0),
            Ok(Some(_)) => {}
            Ok(None) => break "the sender has finished".to_owned(),
            Err(reason) => break reason.to_string(),
        }
    };
    println!("{peer}: {end}");
}
