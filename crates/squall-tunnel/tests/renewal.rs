//! Renewal of a certificate while an exit runs.

mod common;

use std::{fs, path::Path};

use common::*;
use squall_tunnel::{
    Config, Tunnel,
    config::{IdentityConfig, ListenConfig, Side},
};

/// Writes a new certificate and its key.
fn write_pair(certificate: &Path, key: &Path) -> squall::Fingerprint {
    let identity = squall::Identity::self_signed("localhost").expect("is made");
    identity.save(certificate).expect("is written");
    let both = fs::read_to_string(certificate).expect("is text");
    let (chain, private) = both.split_at(both.find("-----BEGIN PRIVATE").expect("has a key"));
    fs::write(certificate, chain).expect("is written");
    fs::write(key, private).expect("is written");
    identity.fingerprint()
}

/// Starts an entry with its own flow.
async fn entry_to(exit: &Tunnel) -> Tunnel {
    let flow = flow_in(&format!("x=udp://127.0.0.1:{}", reserve_port()));
    Tunnel::start(entry_config(exit, vec![flow])).await.expect("starts")
}

#[test]
fn new_sessions_get_a_renewed_certificate_and_open_ones_continue() {
    within(async || {
        let folder = std::env::temp_dir().join(format!("squall-renewal-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("is made");
        let (certificate, key) = (folder.join("chain.pem"), folder.join("key.pem"));
        let first = write_pair(&certificate, &key);
        let identity = IdentityConfig::Files { certificate: certificate.clone(), key: key.clone() };
        let address = ([127, 0, 0, 1], 0).into();
        let config = Config {
            flows: vec![flow_out("x=udp://127.0.0.1:9")],
            ..Config::new(Side::Listen(ListenConfig::new(address, identity)), token())
        };
        let exit = Tunnel::start(config.clone()).await.expect("starts");
        assert_eq!(exit.fingerprint(), Some(first));
        let entry = entry_to(&exit).await;
        attached(&entry).await;

        let second = write_pair(&certificate, &key);
        assert_eq!(exit.reload(config.clone()).expect("is taken"), [""; 0]);
        assert_eq!(exit.fingerprint(), Some(second));
        assert!(words(&exit).contains(&format!("another certificate, with the fingerprint {second}")));
        // Pinned to the second certificate.
        let other = entry_to(&exit).await;
        until(&other, "agreed", |status| status.sessions.iter().any(|session| session.agreed)).await;
        other.stop().await;
        let status = attached(&entry).await;
        assert_eq!(status.sessions_opened, 1, "the open session was touched: {}", words(&entry));

        // A broken pair, and one of two halves: the certificate in use stays, and the line names
        // the file.
        fs::write(&certificate, "half of a").expect("is written");
        let error = exit.reload(config.clone()).expect_err("is broken").to_string();
        assert!(error.contains("chain.pem: holds no certificate"), "{error}");
        write_pair(&certificate, &folder.join("other.pem"));
        let error = exit.reload(config.clone()).expect_err("the key is of another certificate").to_string();
        assert!(error.contains("chain.pem: TLS: "), "{error}");
        assert_eq!(exit.fingerprint(), Some(second));
        let third = entry_to(&exit).await;
        until(&third, "agreed", |status| status.sessions.iter().any(|session| session.agreed)).await;
        third.stop().await;
        assert_eq!(attached(&entry).await.sessions_opened, 1);
        entry.stop().await;
        exit.stop().await;
        fs::remove_dir_all(&folder).expect("is removed");
    });
}
