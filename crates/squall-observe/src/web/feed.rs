//! Feed of the status for pages: server-sent events.
//!
//! A listener gets the [history](super::history) and then, every second, the status: the same JSON
//! as `/status`. A listener that does not read in time is dropped.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use hyper::body::{Body, Bytes, Frame};
use tokio::sync::{Notify, mpsc};

use super::{Source, history::History, status_json};
use crate::{clock::lock, status::Status};

/// Maximum number of simultaneous listeners.
pub(super) const LISTENERS: usize = 8;

/// Maximum number of messages that wait for a listener. One more drops the listener.
const QUEUE: usize = 8;

/// Interval of the samples.
const INTERVAL: Duration = Duration::from_secs(1);

/// Listeners, and the history that they get first.
#[derive(Debug, Default)]
pub(super) struct Feed(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    history: History,
    listeners: Vec<Listener>,
}

#[derive(Debug)]
struct Listener {
    queue: mpsc::Sender<Bytes>,
    dropped: Arc<Notify>,
}

/// Messages for a listener.
#[derive(Debug)]
pub(super) struct Messages {
    queue: mpsc::Receiver<Bytes>,
}

impl Body for Messages {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.queue.poll_recv(cx).map(|message| message.map(|message| Ok(Frame::data(message))))
    }
}

impl Feed {
    /// Adds a listener, in place of the oldest one if there are [`LISTENERS`]. `dropped` is
    /// notified when the listener has to end, because it is too slow or a newer one replaces it.
    pub(super) fn listen(&self, status: &Status, dropped: Arc<Notify>) -> Messages {
        let state = &mut *lock(&self.0);
        state.listeners.retain(|listener| !listener.queue.is_closed());
        if state.listeners.len() >= LISTENERS {
            state.listeners.remove(0).dropped.notify_one();
        }
        let (sender, queue) = mpsc::channel(QUEUE);
        // There is room for both.
        let _ = sender.try_send(message("history", &state.history.json()));
        let _ = sender.try_send(message("status", &status_json(status)));
        state.listeners.push(Listener { queue: sender, dropped });
        Messages { queue }
    }

    /// Stores a sample, and sends the status to all listeners.
    pub(super) fn publish(&self, status: &Status) {
        let state = &mut *lock(&self.0);
        state.history.add(status);
        if state.listeners.is_empty() {
            return;
        }
        let message = message("status", &status_json(status));
        state.listeners.retain(|listener| {
            let sent = listener.queue.try_send(message.clone());
            if let Err(mpsc::error::TrySendError::Full(_)) = sent {
                listener.dropped.notify_one();
            }
            sent.is_ok()
        });
    }

    #[cfg(test)]
    pub(super) fn has_listeners(&self) -> bool {
        !lock(&self.0).listeners.is_empty()
    }

    /// Publishes the status of a tunnel every second, without end.
    pub(super) async fn run(&self, source: &dyn Source) {
        let mut tick = tokio::time::interval(INTERVAL);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            self.publish(&source.status());
        }
    }
}

/// Formats an event. JSON contains no line ends.
fn message(event: &str, json: &str) -> Bytes {
    format!("event: {event}\ndata: {json}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_listener_is_dropped_and_the_others_go_on() {
        let (feed, status) = (Feed::default(), Status::default());
        let dropped = Arc::new(Notify::new());
        let mut quick = feed.listen(&status, Arc::default());
        let _slow = feed.listen(&status, dropped.clone());
        for _ in 0..100 {
            feed.publish(&status);
            while quick.queue.try_recv().is_ok() {}
        }
        assert_eq!(lock(&feed.0).listeners.len(), 1);
        dropped.notified().await;
        assert!(!quick.queue.is_closed());
    }

    #[tokio::test]
    async fn the_newest_listener_takes_the_place_of_the_oldest() {
        let (feed, status, oldest) = (Feed::default(), Status::default(), Arc::new(Notify::new()));
        let _oldest = feed.listen(&status, oldest.clone());
        let others: Vec<_> = (1..LISTENERS).map(|_| feed.listen(&status, Arc::default())).collect();
        let newest = feed.listen(&status, Arc::default());
        oldest.notified().await;
        assert_eq!(lock(&feed.0).listeners.len(), LISTENERS);
        assert!(others.iter().chain([&newest]).all(|one| !one.queue.is_closed()));
        drop((others, newest));
        let _new = feed.listen(&status, Arc::default());
        assert_eq!(lock(&feed.0).listeners.len(), 1, "those that left have no place");
    }
}
