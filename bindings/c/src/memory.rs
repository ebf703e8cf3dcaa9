//! Access to memory of the caller.
//!
//! The functions here are unsafe for one reason: only the contract of the header, which every
//! caller of `exports` has accepted, guarantees that a non-null pointer is valid for its type
//! during the call. Everything that can be checked is checked: null, alignment, sizes, UTF-8.

#![expect(unsafe_code, reason = "reads and writes what C points to")]

use std::{
    ffi::{CStr, c_char, c_void},
    marker::PhantomData,
    mem::{MaybeUninit, offset_of},
    ptr, slice,
};

use squall_bindings::{Code, Failure};

use crate::{flatten::Owner, types};

/// A struct whose first field is its size in the caller's release of the header.
///
/// # Safety
/// It is `repr(C)`, begins with `size: usize`, and every bit pattern is a valid value: integers,
/// floating-point numbers, raw pointers, and arrays of these.
pub(crate) unsafe trait Versioned: Copy {
    /// Its name in C.
    const NAME: &'static str;
    /// The smallest size in any release.
    const FIRST: usize;
}

/// Each struct with its name in C, and the last field of its first release.
macro_rules! versioned {
    ($($name:ident $c:literal $last:ident,)*) => { $(
        // SAFETY: `types` has each as `repr(C)`, with `size` first, of integers, numbers and pointers.
        unsafe impl Versioned for types::$name {
            const NAME: &'static str = $c;
            const FIRST: usize = offset_of!(types::$name, $last) + 1;
        }
    )* };
}

versioned! {
    Interfaces "squall_interfaces" pair_count,
    Config "squall_config" max_handshakes,
    ConnectOptions "squall_connect_options" insecure,
    ListenOptions "squall_listen_options" config,
    Block "squall_block" report_outcome,
    Event "squall_event" owner,
    Path "squall_path" suspicions,
    Capacity "squall_capacity" limit,
    Stats "squall_stats" path_events_dropped,
    Reading "squall_reading" rssi,
}

/// A larger size does not come from a later release, but was not set.
const MAX_SIZE: usize = 4096;

/// Reads the size that the caller set.
///
/// # Safety
/// If not null and aligned, `at` points to a size.
unsafe fn size<T: Versioned>(at: *const T) -> Result<usize, Failure> {
    if at.is_null() {
        return Err(Failure::argument(format!("the {} is NULL", T::NAME)));
    }
    if !at.is_aligned() {
        return Err(Failure::argument(format!("the {} is not aligned", T::NAME)));
    }
    // SAFETY: it is neither null nor unaligned, and the caller guarantees the rest.
    let size = unsafe { at.cast::<usize>().read() };
    if !(T::FIRST..=MAX_SIZE).contains(&size) {
        let line = format!("the size of {} is {size}: set it to sizeof({0})", T::NAME);
        return Err(Failure::new(Code::ErrorSize, line));
    }
    Ok(size)
}

/// Reads a struct of the caller. Fields missing in its release are 0.
///
/// # Safety
/// If not null, `at` points to a size, and to that many bytes.
pub(crate) unsafe fn read<T: Versioned>(at: *const T) -> Result<T, Failure> {
    // SAFETY: the caller guarantees it.
    let size = unsafe { size(at) }?;
    let known = size.min(size_of::<T>());
    // SAFETY: `known` is at most `size`, and the caller guarantees that many bytes.
    let later = unsafe { slice::from_raw_parts(at.cast::<u8>().add(known), size - known) };
    if later.iter().any(|byte| *byte != 0) {
        let line = format!("the {} uses fields that this release of the library does not have", T::NAME);
        return Err(Failure::new(Code::ErrorSize, line));
    }
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: `known` bytes can be read, as above, and written, because it is at most the size of
    // `value`, a local variable. Every bit pattern is a valid value.
    unsafe {
        ptr::copy_nonoverlapping(at.cast::<u8>(), value.as_mut_ptr().cast(), known);
        Ok(value.assume_init())
    }
}

/// As [`read`]; `None` for a null pointer.
///
/// # Safety
/// As [`read`].
pub(crate) unsafe fn read_optional<T: Versioned>(at: *const T) -> Result<Option<T>, Failure> {
    // SAFETY: the caller guarantees it.
    if at.is_null() { Ok(None) } else { unsafe { read(at) }.map(Some) }
}

/// Memory of the caller for one or several structs of one size.
pub(crate) struct Place<'a, T> {
    at: *mut T,
    size: usize,
    room: usize,
    call: PhantomData<&'a mut T>,
}

/// Checks the memory for a struct before the work that produces its content.
///
/// # Safety
/// If not null, `at` points to a size, and to that many bytes, which have no other users during
/// `'a`.
pub(crate) unsafe fn place<'a, T: Versioned>(at: *mut T) -> Result<Place<'a, T>, Failure> {
    // SAFETY: the caller guarantees it.
    unsafe { places(at, 1) }
}

/// Checks the memory for `room` structs, the first of which has its size set.
///
/// # Safety
/// As [`place`], for `room` times as many bytes.
pub(crate) unsafe fn places<'a, T: Versioned>(at: *mut T, room: usize) -> Result<Place<'a, T>, Failure> {
    // SAFETY: without room nothing is read; otherwise the caller guarantees it.
    let size = if room == 0 { 0 } else { unsafe { size(at.cast_const()) }? };
    Ok(Place { at, size, room, call: PhantomData })
}

impl<T: Versioned> Place<'_, T> {
    /// Writes the struct at an index, unless it is beyond the room. Fields missing in this release
    /// become 0.
    pub(crate) fn write(&mut self, index: usize, value: &T) {
        if index >= self.room {
            return;
        }
        let known = self.size.min(size_of::<T>());
        // SAFETY: the caller of [`places`] guaranteed `room` times `size` bytes at `at`, and
        // `index` is below `room`. `value` is another variable, of at least `known` bytes. Each
        // struct begins with its size.
        unsafe {
            let at = self.at.cast::<u8>().add(index * self.size);
            ptr::copy_nonoverlapping(ptr::from_ref(value).cast::<u8>(), at, known);
            ptr::write_bytes(at.add(known), 0, self.size - known);
            at.cast::<usize>().write_unaligned(self.size);
        }
    }
}

/// Reads a text of the caller; `None` for a null pointer.
///
/// # Safety
/// If not null, `at` points to zero-terminated text that does not change during `'a`.
pub(crate) unsafe fn text<'a>(what: &str, at: *const c_char) -> Result<Option<&'a str>, Failure> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: it is not null, and the caller guarantees the rest.
    let text = unsafe { CStr::from_ptr(at) }.to_str();
    text.map(Some).map_err(|_| Failure::argument(format!("{what} is not UTF-8")))
}

/// Reads a required text.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn required<'a>(what: &str, at: *const c_char) -> Result<&'a str, Failure> {
    // SAFETY: the caller guarantees it.
    unsafe { text(what, at) }?.ok_or_else(|| Failure::argument(format!("{what} is NULL")))
}

/// Maximum length of a list, which no list of addresses or interfaces exceeds.
const MAX_COUNT: usize = 1024;

/// Reads a list of the caller.
///
/// # Safety
/// If neither is 0, `at` points to `count` elements that do not change during `'a`.
pub(crate) unsafe fn list<'a, T>(what: &str, at: *const T, count: usize) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if at.is_null() || !at.is_aligned() || count > MAX_COUNT {
        let line = format!("{what}: {count} elements at {at:?}; there can be {MAX_COUNT}, and not at NULL");
        return Err(Failure::argument(line));
    }
    // SAFETY: it is neither null nor unaligned, the size does not overflow, and the caller guarantees the rest.
    Ok(unsafe { slice::from_raw_parts(at, count) })
}

/// Reads a list of texts, none of which is null.
///
/// # Safety
/// As [`list`] and, for each element, [`text`].
pub(crate) unsafe fn texts<'a>(
    what: &str,
    at: *const *const c_char,
    count: usize,
) -> Result<Vec<&'a str>, Failure> {
    // SAFETY: the caller guarantees it.
    let all = unsafe { list(what, at, count) }?;
    // SAFETY: the caller guarantees each.
    all.iter().map(|at| unsafe { required(what, *at) }).collect()
}

/// Reads bytes of the caller.
///
/// # Safety
/// If not null, `at` points to `len` bytes that do not change during `'a`.
pub(crate) unsafe fn bytes<'a>(at: *const u8, len: usize) -> Result<&'a [u8], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    if at.is_null() {
        return Err(Failure::argument(format!("data is NULL, and len {len}")));
    }
    if isize::try_from(len).is_err() {
        return Err(Failure::argument(format!("no object has {len} bytes")));
    }
    // SAFETY: it is not null, bytes need no alignment, `len` is a possible size, and the caller
    // guarantees the rest.
    Ok(unsafe { slice::from_raw_parts(at, len) })
}

/// Writes a zero-terminated text to the caller's buffer.
///
/// # Safety
/// If not null, `to` points to `room` bytes that have no other users during the call.
pub(crate) unsafe fn put_text(to: *mut c_char, room: usize, text: &str) -> Result<(), Failure> {
    if to.is_null() {
        return Err(Failure::argument("the buffer is NULL"));
    }
    if room <= text.len() {
        let line = format!("the buffer has {room} bytes, and the text needs {}", text.len() + 1);
        return Err(Failure::new(Code::ErrorSize, line));
    }
    // SAFETY: the caller guarantees `room` bytes, and the text has fewer. The text is not in the
    // caller's memory.
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr().cast(), to, text.len());
        to.add(text.len()).write(0);
    }
    Ok(())
}

/// Checks a variable of the caller for a result, before the work is done.
///
/// # Safety
/// If not null and aligned, `to` points to a writable variable that has no other users during `'a`.
pub(crate) unsafe fn variable<'a, T: Copy>(
    what: &str,
    to: *mut T,
) -> Result<&'a mut MaybeUninit<T>, Failure> {
    if to.is_null() || !to.is_aligned() {
        return Err(Failure::argument(format!("{what} is {to:?}: it has to point to a variable")));
    }
    // SAFETY: it is neither null nor unaligned, may be uninitialised, and the caller guarantees the
    // rest.
    Ok(unsafe { &mut *to.cast::<MaybeUninit<T>>() })
}

/// Releases the memory of an event, if any.
///
/// # Safety
/// `owner` is null, or the `owner` of an event of [`flatten`](crate::flatten::flatten) that was not
/// released before.
pub(crate) unsafe fn release(owner: *mut c_void) {
    if !owner.is_null() {
        // SAFETY: the caller guarantees that it comes from `Box::into_raw`, and that there is no
        // other copy.
        drop(unsafe { Box::from_raw(owner.cast::<Owner>()) });
    }
}

/// Copies text to a field, truncated to its length, zero-terminated.
pub(crate) fn field<const N: usize>(text: &str) -> [c_char; N] {
    let mut field = [0; N];
    for (to, byte) in field.iter_mut().zip(text.bytes().take(N - 1)) {
        *to = byte as c_char;
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A struct with a field added after its first release.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Grown {
        size: usize,
        first: u64,
        later: u64,
    }

    // SAFETY: `repr(C)`, `size` first, and of integers.
    unsafe impl Versioned for Grown {
        const NAME: &'static str = "grown";
        const FIRST: usize = offset_of!(Grown, first) + 1;
    }

    const FIRST: usize = offset_of!(Grown, later);

    #[test]
    fn fields_that_the_caller_does_not_have_are_neither_read_nor_written() {
        let mut memory = [Grown { size: FIRST, first: 1, later: 2 }; 2];
        // SAFETY: all of it is local memory, and larger than needed.
        unsafe {
            assert_eq!(read(&raw const memory[0]), Ok(Grown { size: FIRST, first: 1, later: 0 }));
            let mut place = place(&raw mut memory[0]).expect("is fine");
            place.write(0, &Grown { size: 99, first: 3, later: 4 });
            place.write(1, &Grown { size: 99, first: 5, later: 6 });
        }
        assert_eq!(memory[0], Grown { size: FIRST, first: 3, later: 2 });
        assert_eq!(memory[1], Grown { size: FIRST, first: 1, later: 2 });
    }

    #[test]
    fn elements_of_an_array_are_as_large_as_the_caller_says() {
        let mut memory = [FIRST as u64, 0, FIRST as u64, 0, 7];
        // SAFETY: there are two structs of the first release, followed by a number.
        unsafe {
            let mut places = places(memory.as_mut_ptr().cast::<Grown>(), 2).expect("is fine");
            for index in 0..3 {
                places.write(index, &Grown { size: 0, first: 10 + index as u64, later: 9 });
            }
        }
        assert_eq!(memory, [FIRST as u64, 10, FIRST as u64, 11, 7]);
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        for size in [0, FIRST - 8, MAX_SIZE + 1, usize::MAX] {
            let grown = Grown { size, first: 0, later: 0 };
            // SAFETY: only the size is read, because it is invalid.
            let refused = unsafe { read(&raw const grown) }.expect_err("cannot be");
            assert_eq!(refused.code, Code::ErrorSize);
        }
        // SAFETY: the address is checked before it is used.
        let refused = unsafe { read(ptr::without_provenance::<Grown>(12)) }.expect_err("is not aligned");
        assert_eq!(refused.line, "the grown is not aligned");
    }

    #[test]
    fn text_is_cut_to_its_field() {
        assert_eq!(field::<4>("abcdef").map(|c| c as u8), *b"abc\0");
        assert_eq!(field::<4>("a").map(|c| c as u8), *b"a\0\0\0");
    }
}
