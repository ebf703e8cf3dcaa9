//! Objects bound to one process. A child of fork() has copies of all objects of its parent, and
//! none of the threads: a lock can be held there for ever, and the parent's sockets are in an epoll
//! instance that both share. A child that used or dropped the copies would wait without end, or
//! remove sockets of the parent from that instance.

#![expect(
    unsafe_code,
    reason = "a lock may be held for ever in a forked process, so there is a pointer instead"
)]

use std::{
    mem, process, ptr,
    sync::atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire},
};

use crate::Failure;

/// A value for each process; a forked process starts with a new one, and does not touch that of its
/// parent.
pub struct PerProcess<T>(AtomicPtr<Of<T>>);

struct Of<T> {
    process: u32,
    value: T,
}

impl<T> PerProcess<T> {
    /// Creates an object without a value.
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }
}

impl<T: Default + Send + Sync> PerProcess<T> {
    /// Returns the value of this process, which the first call creates; it is never dropped. Takes
    /// no lock.
    pub fn get(&'static self) -> &'static T {
        let process = process::id();
        let seen = self.0.load(Acquire);
        // SAFETY: null, or a value that was created below and is never dropped.
        if let Some(of) = unsafe { seen.as_ref() }
            && of.process == process
        {
            return &of.value;
        }
        let made = Box::into_raw(Box::new(Of { process, value: T::default() }));
        match self.0.compare_exchange(seen, made, AcqRel, Acquire) {
            // SAFETY: it was created above, and is never dropped from here on.
            Ok(_) => unsafe { &(*made).value },
            Err(other) => {
                // SAFETY: it was created above, and no other thread has it.
                drop(unsafe { Box::from_raw(made) });
                // SAFETY: another thread of this process created it meanwhile, and it is never
                // dropped.
                unsafe { &(*other).value }
            }
        }
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> std::fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PerProcess").finish_non_exhaustive()
    }
}

/// An object that only the process that created it uses and drops.
#[derive(Debug)]
pub struct OfProcess<T> {
    process: u32,
    /// `None` only while it is dropped.
    object: Option<T>,
}

impl<T> OfProcess<T> {
    /// Creates an object of this process.
    pub fn new(object: T) -> Self {
        Self { process: process::id(), object: Some(object) }
    }

    /// Returns the object; `name` describes it in a failure.
    ///
    /// # Errors
    /// [`Code::ErrorForked`](crate::Code::ErrorForked) in a forked process.
    pub fn get(&self, name: &str) -> Result<&T, Failure> {
        self.object.as_ref().filter(|_| self.is_here()).ok_or_else(|| Failure::forked(name))
    }

    fn is_here(&self) -> bool {
        self.process == process::id()
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if !self.is_here() {
            mem::forget(self.object.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::Code;

    #[test]
    fn threads_that_come_at_once_have_one_value() {
        static VALUE: PerProcess<std::sync::Mutex<u32>> = PerProcess::new();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| *VALUE.get().lock().expect("is not poisoned") += 1);
            }
        });
        assert_eq!(*VALUE.get().lock().expect("is not poisoned"), 8);
    }

    #[test]
    fn the_object_of_another_process_is_neither_used_nor_dropped() {
        let object = Rc::new(());
        let mut own = OfProcess::new(object.clone());
        assert!(own.get("object").is_ok());
        own.process += 1;
        assert_eq!(own.get("object").err().map(|failure| failure.code), Some(Code::ErrorForked));
        drop(own);
        assert_eq!(Rc::strong_count(&object), 2);
        drop(OfProcess::new(object.clone()));
        assert_eq!(Rc::strong_count(&object), 2);
    }
}
