//! A queue with a descriptor that is readable while something waits in it.

use std::{
    collections::VecDeque,
    io::{self, PipeReader, PipeWriter, Read as _, Write as _},
    os::fd::{AsRawFd as _, RawFd},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Items from tasks of the runtime to threads of the application. Those that push keep it bounded.
pub struct Queue<T> {
    state: Mutex<State<T>>,
    ready: Condvar,
    /// Holds one byte while items wait, and none otherwise; changed under the lock only, so that neither reading nor
    /// writing it ever blocks.
    reader: PipeReader,
    writer: PipeWriter,
}

struct State<T> {
    items: VecDeque<T>,
    ended: bool,
    /// Called after every change that a consumer which does not wait has to look at.
    waker: Option<Waker>,
}

/// Called when a queue has something new.
pub(crate) type Waker = Arc<dyn Fn() + Send + Sync>;

/// Nothing is left, and nothing will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

impl<T> Queue<T> {
    /// An empty queue.
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
            // An error would mean that the reader is closed, and it is a field of the same struct.
            let _ = (&self.writer).write(&[1]);
        }
        state.items.push_back(item);
        state.ended = is_last;
        let waker = state.waker.clone();
        drop(state);
        self.ready.notify_one();
        wake(waker);
    }

    /// Sets what is called after each new item and at the end, from the thread that adds it; and once now, for items that wait
    /// already. It must not wait and not use the queue.
    pub(crate) fn set_waker(&self, waker: Waker) {
        // First set, then called: nothing that comes in between is missed.
        let waker = self.lock().waker.insert(waker).clone();
        waker();
    }

    /// Drops what waits and takes nothing more; those that wait return.
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

    /// The first item that is wanted; does not wait. `None` if there is none yet.
    ///
    /// # Errors
    /// If there is none and none will come.
    pub fn take(&self, wanted: impl Fn(&T) -> bool) -> Result<Option<T>, Ended> {
        let mut state = self.lock();
        let Some(item) = state.items.iter().position(wanted).and_then(|index| state.items.remove(index))
        else {
            return if state.ended { Err(Ended) } else { Ok(None) };
        };
        self.taken(&state);
        Ok(Some(item))
    }

    /// The next item; waits for one. `None` when the time is up.
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

    /// After an item was taken.
    fn taken(&self, state: &State<T>) {
        if state.items.is_empty() {
            self.drain();
            if state.ended {
                // Others that wait would wait for ever.
                self.ready.notify_all();
            }
        }
    }

    /// The descriptor, as long as the queue exists.
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
