//! A queue with a descriptor that is readable while it has items.

use std::{
    collections::VecDeque,
    io::{self, PipeReader, PipeWriter, Read as _, Write as _},
    os::fd::{AsRawFd as _, RawFd},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Items from tasks of the runtime for threads of the application. The producers keep it bounded.
pub struct Queue<T> {
    state: Mutex<State<T>>,
    ready: Condvar,
    /// Contains one byte while items wait, and none otherwise; changed only under the lock, so that
    /// neither reading nor writing ever blocks.
    reader: PipeReader,
    writer: PipeWriter,
}

struct State<T> {
    items: VecDeque<T>,
    ended: bool,
    /// Called after every change that a consumer without a waiting thread must process.
    waker: Option<Waker>,
}

/// Called when a queue has new items.
pub(crate) type Waker = Arc<dyn Fn() + Send + Sync>;

/// The queue is empty and has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

impl<T> Queue<T> {
    /// Creates an empty queue.
    ///
    /// # Errors
    /// If the system has no descriptors left: a queue takes two.
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let state = State { items: VecDeque::new(), ended: false, waker: None };
        Ok(Self { state: Mutex::new(state), ready: Condvar::new(), reader, writer })
    }

    /// Appends an item, unless the queue has ended.
    pub fn push(&self, item: T) {
        self.append(item, false);
    }

    /// Appends the last item.
    pub fn push_last(&self, item: T) {
        self.append(item, true);
    }

    fn append(&self, item: T, is_last: bool) {
        let mut state = self.lock();
        if state.ended {
            return;
        }
        if state.items.is_empty() {
            // An error would mean that the reader is closed, but it is a field of the same struct.
            let _ = (&self.writer).write(&[1]);
        }
        state.items.push_back(item);
        state.ended = is_last;
        let waker = state.waker.clone();
        drop(state);
        self.ready.notify_one();
        wake(waker);
    }

    /// Sets a function that is called after each new item and at the end, from the thread that adds
    /// it, and once now, for items that already wait. It must not wait and not use the queue.
    pub(crate) fn set_waker(&self, waker: Waker) {
        // Set before the call, so that no item in between is missed.
        let waker = self.lock().waker.insert(waker).clone();
        waker();
    }

    /// Drops all items and accepts no more; waiting threads return.
    pub fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        if !state.items.is_empty() {
            state.items.clear();
            self.drain();
        }
        let waker = state.waker.clone();
        drop(state);
        self.ready.notify_all();
        wake(waker);
    }

    /// Returns the first item that is wanted, without waiting. `None` if there is none yet.
    ///
    /// # Errors
    /// If there is none and the queue has ended.
    pub fn take(&self, wanted: impl Fn(&T) -> bool) -> Result<Option<T>, Ended> {
        let mut state = self.lock();
        let Some(item) = state.items.iter().position(wanted).and_then(|index| state.items.remove(index))
        else {
            return if state.ended { Err(Ended) } else { Ok(None) };
        };
        self.taken(&state);
        Ok(Some(item))
    }

    /// Waits for the next item; `None` after the timeout.
    ///
    /// # Errors
    /// If the last one was taken.
    pub fn pop(&self, timeout: Duration) -> Result<Option<T>, Ended> {
        let waits = |state: &mut State<T>| state.items.is_empty() && !state.ended;
        let state = self.lock();
        let waited = self.ready.wait_timeout_while(state, timeout, waits);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let Some(item) = state.items.pop_front() else {
            return if state.ended { Err(Ended) } else { Ok(None) };
        };
        self.taken(&state);
        Ok(Some(item))
    }

    /// Called after an item was taken.
    fn taken(&self, state: &State<T>) {
        if state.items.is_empty() {
            self.drain();
            if state.ended {
                // Other waiting threads would wait for ever.
                self.ready.notify_all();
            }
        }
    }

    /// Returns the descriptor, valid as long as the queue exists.
    pub fn fd(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    fn drain(&self) {
        let _ = (&self.reader).read(&mut [0]);
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    #[test]
    fn wanted_items_are_taken_in_order_past_others() {
        let queue = Queue::new().expect("has descriptors");
        for item in [1, 2, 3, 4] {
            queue.push(item);
        }
        assert_eq!(queue.take(|item| item % 2 == 0), Ok(Some(2)));
        assert_eq!(queue.take(|item| item % 2 == 0), Ok(Some(4)));
        assert_eq!(queue.take(|item| item % 2 == 0), Ok(None));
        queue.push_last(5);
        assert_eq!(queue.take(|item| item % 2 == 0), Err(Ended));
        for item in [1, 3, 5] {
            assert_eq!(queue.take(|_| true), Ok(Some(item)));
        }
        assert_eq!(queue.pop(Duration::MAX), Err(Ended));
    }

    #[test]
    fn the_waker_is_called_for_what_waits_and_comes_and_for_the_end() {
        let queue = Queue::new().expect("has descriptors");
        let calls = Arc::new(AtomicUsize::new(0));
        let count = calls.clone();
        queue.push(1);
        queue.set_waker(Arc::new(move || {
            count.fetch_add(1, SeqCst);
        }));
        assert_eq!(calls.load(SeqCst), 1);
        queue.push(2);
        queue.end();
        queue.push(3);
        assert_eq!(calls.load(SeqCst), 3);
    }
}
