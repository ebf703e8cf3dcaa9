//! Capacity of a session on real sockets.

mod common;

use std::time::Duration;

use squall::{
    Block, Capacity, Config, Limit, Session, scheduler,
    signal::{Reading, Time, board},
};
use tokio::sync::watch;

use common::{next_block, pair, within};

/// Sends frames of 20 kB until the session reports a rate that meets the condition.
async fn send_until(
    session: &Session,
    peer: &Session,
    changes: &mut watch::Receiver<Capacity>,
    wanted: impl Fn(&Capacity) -> bool,
) -> Capacity {
    loop {
        session.send(Block::new(vec![1; 20_000])).await.expect("is taken");
        next_block(peer).await;
        let capacity = changes.borrow_and_update().clone();
        if wanted(&capacity) {
            return capacity;
        }
    }
}

#[test]
fn changes_of_the_capacity_are_reported() {
    within(async || {
        let config = Config::default().scheduler(scheduler("storm").expect("is known"));
        let (_endpoint, client, server) = pair(config).await;
        let mut changes = client.capacity_changes();
        let two = |capacity: &Capacity| capacity.safe > 0 && capacity.paths.iter().all(|path| path.now > 0);
        let before = send_until(&client, &server, &mut changes, two).await;
        assert!(before.safe <= before.now && before.now < before.link, "{before:?}");
        assert!(client.capacity().now > 0);
        assert!(client.deliverable(Duration::from_millis(200), 0.9) > 0);
        assert_eq!(client.deliverable(Duration::ZERO, 0.5), 0);

        let (mut publisher, subscriber) = board();
        client.set_signal("127.0.0.2", Some(subscriber));
        changes.borrow_and_update();
        publisher.publish(&Reading::wifi(Time::EPOCH, -85.0));
        let is_out = |capacity: &Capacity| capacity.paths.iter().any(|path| path.limit == Limit::Radio);
        // Nothing is sent meanwhile: the alert alone triggers the report.
        let fell = changes.wait_for(is_out).await.expect("the session lasts").clone();
        assert_eq!(fell.paths.iter().filter(|path| path.now == 0).count(), 1, "{fell:?}");

        client.close(0, "");
        changes.wait_for(|capacity| *capacity == Capacity::default()).await.expect("a handle is left");
        assert_eq!(client.capacity(), Capacity::default());
        drop(client);
        assert!(changes.changed().await.is_err(), "no handle is left");
    });
}
