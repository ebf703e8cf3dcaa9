//! Memory of the caller.
//!
//! The functions here are unsafe for one reason: nothing but the contract of the header, which every caller of `exports`
//! has agreed to, says that a pointer that is not null points to what its type says for as long as the call lasts. Whatever
//! can be checked is checked: null, alignment, sizes, UTF-8.

#![expect(unsafe_code, reason = "reads and writes what C points to")]

use std::{
    ffi::{CStr, c_char, c_void},
    marker::PhantomData,
    mem::{MaybeUninit, offset_of},
    ptr, slice,
};

use squall_bindings::{Code, Failure};

use crate::{flatten::Owner, types};

/// A struct whose first field is its size, as the caller's release of the header has it.
///
/// # Safety
/// It is `repr(C)`, begins with `size: usize`, and every pattern of bits is a value of it: integers, floating-point numbers,
/// raw pointers, and arrays of these.
pub(crate) unsafe trait Versioned: Copy {
    /// Its name in C.
    const NAME: &'static str;
    /// The least size that it had in any release.
    const FIRST: usize;
}

/// Each struct with its name in C, and the last field that it had in its first release.
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

/// Beyond this a size is not one of a later release, but was not set.
const MAX_SIZE: usize = 4096;

/// The size that the caller set.
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
    // SAFETY: it is neither null nor unaligned, and the caller vouches for the rest.
    let size = unsafe { at.cast::<usize>().read() };
    if !(T::FIRST..=MAX_SIZE).contains(&size) {
        let line = format!("the size of {} is {size}: set it to sizeof({0})", T::NAME);
        return Err(Failure::new(Code::ErrorSize, line));
    }
    Ok(size)
}

/// A struct of the caller's. Fields that its release did not have are 0.
///
/// # Safety
/// If not null, `at` points to a size, and to that many bytes.
pub(crate) unsafe fn read<T: Versioned>(at: *const T) -> Result<T, Failure> {
    // SAFETY: the caller vouches for it.
    let size = unsafe { size(at) }?;
    let known = size.min(size_of::<T>());
    // SAFETY: `known` is at most `size`, and the caller vouches for that many bytes.
    let later = unsafe { slice::from_raw_parts(at.cast::<u8>().add(known), size - known) };
    if later.iter().any(|byte| *byte != 0) {
        let line = format!("the {} uses fields that this release of the library does not have", T::NAME);
        return Err(Failure::new(Code::ErrorSize, line));
    }
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: `known` bytes can be read, as above, and written, as it is at most the size of `value`, which is a variable of
    // this function. Every pattern of bits is a value.
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
    // SAFETY: the caller vouches for it.
    if at.is_null() { Ok(None) } else { unsafe { read(at) }.map(Some) }
}

/// A place of the caller's for one or several structs of one size.
pub(crate) struct Place<'a, T> {
    at: *mut T,
    size: usize,
    room: usize,
    call: PhantomData<&'a mut T>,
}

/// A place for a struct, checked before the work is done whose result is to fill it.
///
/// # Safety
/// If not null, `at` points to a size, and to that many bytes, which are used by nothing else while the place exists.
pub(crate) unsafe fn place<'a, T: Versioned>(at: *mut T) -> Result<Place<'a, T>, Failure> {
    // SAFETY: the caller vouches for it.
    unsafe { places(at, 1) }
}

/// A place for `room` structs, of which the first has its size set.
///
/// # Safety
/// As [`place`], for `room` times as many bytes.
pub(crate) unsafe fn places<'a, T: Versioned>(at: *mut T, room: usize) -> Result<Place<'a, T>, Failure> {
    // SAFETY: without room there is nothing to read, and else the caller vouches for it.
    let size = if room == 0 { 0 } else { unsafe { size(at.cast_const()) }? };
    Ok(Place { at, size, room, call: PhantomData })
}

impl<T: Versioned> Place<'_, T> {
    /// Writes the struct at an index; nothing beyond the room. Fields that this release does not have become 0.
    pub(crate) fn write(&mut self, index: usize, value: &T) {
        if index >= self.room {
            return;
        }
        let known = self.size.min(size_of::<T>());
        // SAFETY: [`places`] was promised `room` times `size` bytes at `at`, and `index` is below `room`. `value` is another
        // variable, of at least `known` bytes. Each struct begins with its size.
        unsafe {
            let at = self.at.cast::<u8>().add(index * self.size);
            ptr::copy_nonoverlapping(ptr::from_ref(value).cast::<u8>(), at, known);
            ptr::write_bytes(at.add(known), 0, self.size - known);
            at.cast::<usize>().write_unaligned(self.size);
        }
    }
}

/// Text of the caller's; `None` for a null pointer.
///
/// # Safety
/// If not null, `at` points to text that ends with a zero, and that nothing changes during `'a`.
pub(crate) unsafe fn text<'a>(what: &str, at: *const c_char) -> Result<Option<&'a str>, Failure> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: it is not null, and the caller vouches for the rest.
    let text = unsafe { CStr::from_ptr(at) }.to_str();
    text.map(Some).map_err(|_| Failure::argument(format!("{what} is not UTF-8")))
}

/// Text that has to be there.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn required<'a>(what: &str, at: *const c_char) -> Result<&'a str, Failure> {
    // SAFETY: the caller vouches for it.
    unsafe { text(what, at) }?.ok_or_else(|| Failure::argument(format!("{what} is NULL")))
}

/// Elements of a list at most: no list of addresses or interfaces is longer.
const MAX_COUNT: usize = 1024;

/// A list of the caller's.
///
/// # Safety
/// If neither is 0, `at` points to `count` elements that nothing changes during `'a`.
pub(crate) unsafe fn list<'a, T>(what: &str, at: *const T, count: usize) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if at.is_null() || !at.is_aligned() || count > MAX_COUNT {
        let line = format!("{what}: {count} elements at {at:?}; there can be {MAX_COUNT}, and not at NULL");
        return Err(Failure::argument(line));
    }
    // SAFETY: it is neither null nor unaligned, the size does not overflow, and the caller vouches for the rest.
    Ok(unsafe { slice::from_raw_parts(at, count) })
}

/// A list of texts, none of which is null.
///
/// # Safety
/// As [`list`] and, for each element, [`text`].
pub(crate) unsafe fn texts<'a>(
    what: &str,
    at: *const *const c_char,
    count: usize,
) -> Result<Vec<&'a str>, Failure> {
    // SAFETY: the caller vouches for it.
    let all = unsafe { list(what, at, count) }?;
    // SAFETY: the caller vouches for each.
    all.iter().map(|at| unsafe { required(what, *at) }).collect()
}

/// Bytes of the caller's.
///
/// # Safety
/// If not null, `at` points to `len` bytes that nothing changes during `'a`.
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
    // SAFETY: it is not null, bytes need no alignment, `len` is a possible size, and the caller vouches for the rest.
    Ok(unsafe { slice::from_raw_parts(at, len) })
}

/// Writes text to the caller's buffer, with a zero at its end.
///
/// # Safety
/// If not null, `to` points to `room` bytes that nothing else uses during the call.
pub(crate) unsafe fn put_text(to: *mut c_char, room: usize, text: &str) -> Result<(), Failure> {
    if to.is_null() {
        return Err(Failure::argument("the buffer is NULL"));
    }
    if room <= text.len() {
        let line = format!("the buffer has {room} bytes, and the text needs {}", text.len() + 1);
        return Err(Failure::new(Code::ErrorSize, line));
    }
    // SAFETY: the caller vouches for `room` bytes, and the text has fewer. It is not the caller's memory.
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr().cast(), to, text.len());
        to.add(text.len()).write(0);
    }
    Ok(())
}

/// A variable of the caller's for a result, checked before the work is done.
///
/// # Safety
/// If not null and aligned, `to` points to a variable that can be written and that nothing else uses during `'a`.
pub(crate) unsafe fn variable<'a, T: Copy>(
    what: &str,
    to: *mut T,
) -> Result<&'a mut MaybeUninit<T>, Failure> {
    if to.is_null() || !to.is_aligned() {
        return Err(Failure::argument(format!("{what} is {to:?}: it has to point to a variable")));
    }
    // SAFETY: it is neither null nor unaligned, it may hold anything, and the caller vouches for the rest.
    Ok(unsafe { &mut *to.cast::<MaybeUninit<T>>() })
}

/// Releases what an event points into, if anything.
///
/// # Safety
/// `owner` is null, or the `owner` of an event of [`flatten`](crate::flatten::flatten) that was not released before.
pub(crate) unsafe fn release(owner: *mut c_void) {
    if !owner.is_null() {
        // SAFETY: the caller vouches that it is one of `Box::into_raw`, and that there is no other.
        drop(unsafe { Box::from_raw(owner.cast::<Owner>()) });
    }
}

/// Copies text to a field, cut to its length, with a zero at its end.
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

    /// A struct that has got a field since its first release.
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
        // SAFETY: all of it is memory of this function, and more than is used.
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
        // SAFETY: there are two structs of the first release, and a number behind them.
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
            // SAFETY: nothing but the size is read, as it cannot be.
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
