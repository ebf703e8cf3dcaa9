//! A queue with a descriptor that is readable while something waits in it.

use std::{
    collections::VecDeque,
    io::{self, PipeReader, PipeWriter, Read as _, Write as _},
    os::fd::{AsRawFd as _, RawFd},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
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
}

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
        let state = State { items: VecDeque::new(), ended: false };
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
        drop(state);
        self.ready.notify_one();
    }

    /// Drops what waits and takes nothing more; those that wait return.
    pub fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        if !state.items.is_empty() {
            state.items.clear();
            self.drain();
        }
        drop(state);
        self.ready.notify_all();
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
        if state.items.is_empty() {
            self.drain();
            if state.ended {
                // Others that wait would wait for ever.
                self.ready.notify_all();
            }
        }
        Ok(Some(item))
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
