//! Copies the bytes of a block out of Java's memory.

#![expect(unsafe_code, reason = "the memory of a direct buffer is known by its address only")]

use jni::{
    Env,
    objects::{JByteArray, JByteBuffer},
};

use crate::error::Failure;

/// Copies a part of a direct buffer.
pub(crate) fn of_direct(
    env: &Env<'_>,
    buffer: &JByteBuffer<'_>,
    position: i32,
    length: i32,
) -> Result<Vec<u8>, Failure> {
    let capacity = env.get_direct_buffer_capacity(buffer)?;
    let (position, length) = part(position, length, capacity)?;
    if length == 0 {
        return Ok(Vec::new());
    }
    let address = env.get_direct_buffer_address(buffer)?;
    // SAFETY: the part is within the buffer's capacity, and the reference keeps its memory alive
    // during this call. Java may write to it concurrently, as to any buffer used for I/O; it is
    // therefore copied as raw bytes without creating a reference to it.
    unsafe {
        let mut bytes = Vec::with_capacity(length);
        std::ptr::copy_nonoverlapping(address.add(position), bytes.as_mut_ptr(), length);
        bytes.set_len(length);
        Ok(bytes)
    }
}

/// Copies a part of an array.
pub(crate) fn of_array(
    env: &Env<'_>,
    array: &JByteArray<'_>,
    position: i32,
    length: i32,
) -> Result<Vec<u8>, Failure> {
    let (_, len) = part(position, length, array.len(env)?)?;
    let mut bytes = vec![0i8; len];
    array.get_region(env, position, &mut bytes)?;
    Ok(bytes.into_iter().map(i8::cast_unsigned).collect())
}

/// Returns the part if it lies within the capacity.
fn part(position: i32, length: i32, capacity: usize) -> Result<(usize, usize), Failure> {
    let bounds = usize::try_from(position).ok().zip(usize::try_from(length).ok());
    let within = |(position, length): &(usize, usize)| {
        position.checked_add(*length).is_some_and(|end| end <= capacity)
    };
    bounds.filter(within).ok_or_else(|| {
        Failure::Argument(format!("{length} bytes at {position} are not within the {capacity} of the buffer"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_within_is_taken() {
        assert_eq!(part(2, 3, 5).ok(), Some((2, 3)));
        assert_eq!(part(5, 0, 5).ok(), Some((5, 0)));
        for (position, length) in [(2, 4), (-1, 2), (0, -1), (6, 0), (i32::MAX, i32::MAX)] {
            assert!(matches!(part(position, length, 5), Err(Failure::Argument(_))), "{position} {length}");
        }
    }
}
