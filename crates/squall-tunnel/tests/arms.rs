//! Arms of an exit, with real sessions of several clients.

mod common;

use std::collections::BTreeMap;

use common::{tenants::*, *};
use squall_observe::{Status, status::ArmStatus};
use squall_tunnel::Tunnel;

const ARMS: &str =
    "[[arm]]\nname = \"one\"\nscheduler = \"sp\"\n[[arm]]\nname = \"two\"\nscheduler = \"minrtt\"\n";

/// Number of datagrams for each client.
const REPLIES: u64 = 40;

fn arms(status: &Status) -> BTreeMap<String, String> {
    let of = |session: &squall_observe::status::SessionStatus| {
        Some((session.tenant.clone()?, format!("{} {}", session.arm.clone()?, session.scheduler)))
    };
    status.sessions.iter().filter(|session| session.agreed).filter_map(of).collect()
}

fn arm<'a>(status: &'a Status, name: &str) -> &'a ArmStatus {
    status.arms.iter().find(|arm| arm.name == name).expect("is listed")
}

#[test]
fn clients_are_spread_over_arms_whose_figures_are_kept_apart() {
    within(async || {
        let folder = tempfile::tempdir().expect("is made");
        let names = ["a", "b", "c", "d", "e", "f"];
        let targets = names.map(|_| socket());
        let tenants: String =
            names.iter().zip(&targets).map(|(name, target)| table(name, "", target)).collect();
        let exit = Tunnel::start(exit_of(folder.path(), ARMS, &tenants)).await.expect("starts");
        let mut sites = Vec::new();
        for (name, target) in names.iter().zip(&targets) {
            sites.push(Site::start(&exit, name, target).await);
        }
        for site in &sites {
            site.send(b"a question");
            let target = site.target.try_clone().expect("is cloned");
            let answered = tokio::task::spawn_blocking(move || {
                let from = target.recv_from(&mut [0; 100]).expect("arrives").1;
                for _ in 0..REPLIES {
                    target.send_to(&[7; 1_000], from).expect("is sent");
                }
            });
            answered.await.expect("ends");
        }
        let all = |status: &Status| status.arms.iter().map(|arm| arm.counts.delivered).sum::<u64>();
        let status = until(&exit, "all answers", |status| all(status) >= 6 * REPLIES).await;
        let assigned = arms(&status);
        assert_eq!(assigned.len(), names.len());
        for (name, scheduler) in [("one", "sp"), ("two", "minrtt")] {
            let clients =
                assigned.values().filter(|arm| **arm == format!("{name} {scheduler}")).count() as u64;
            let ArmStatus { counts, scheduler: shown, .. } = arm(&status, name);
            assert_eq!((counts.sessions, shown.as_str()), (clients, scheduler), "{status:?}");
            assert!(clients > 0, "{assigned:?}");
            // The session also has messages of the tunnel itself.
            assert!((clients * REPLIES..clients * (REPLIES + 20)).contains(&counts.delivered), "{counts:?}");
            // The entries declare one of their two addresses metered.
            assert!(counts.sent_bytes > 1_000 * REPLIES * clients, "{counts:?}");
            assert!((1..counts.sent_bytes).contains(&counts.metered_bytes), "{counts:?}");
        }
        let log = words(&exit);
        assert!(log.contains(", in arm one") && log.contains(", in arm two"), "{log}");

        // A client that reconnects has the same arm.
        for site in sites {
            site.entry.stop().await;
        }
        until(&exit, "all are gone", |status| status.sessions.is_empty()).await;
        let mut again = Vec::new();
        for (name, target) in names.iter().zip(&targets) {
            again.push(Site::start(&exit, name, target).await);
        }
        let status = until(&exit, "all are back", |status| arms(status).len() == names.len()).await;
        assert_eq!(arms(&status), assigned);
        assert_eq!(status.arms.iter().map(|arm| arm.counts.sessions).sum::<u64>(), 12, "{status:?}");
        for site in again {
            site.entry.stop().await;
        }
        exit.stop().await;
    });
}
