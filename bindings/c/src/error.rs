//! Boundary to C: codes, the message of the last failure, and panics.

use std::{
    cell::RefCell,
    ffi::{CString, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
};

use squall_bindings::{Code, Failure, defect};

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Converts a text to one line for C.
pub(crate) fn one_line(text: &str) -> CString {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    CString::new(line).unwrap_or_default()
}

/// Stores the message of a failure for [`last`], and returns its code.
fn note(failure: &Failure) -> Code {
    // Fails only while the thread ends.
    let _ = LAST.try_with(|last| *last.borrow_mut() = one_line(&failure.line));
    failure.code
}

/// Returns the message of this thread's last failure.
pub(crate) fn last() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Runs a function for C. Records failures, and stops panics at the boundary.
pub(crate) fn guard(work: impl FnOnce() -> Result<Code, Failure>) -> Code {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => note(&failure),
        Err(payload) => note(&defect(payload.as_ref())),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    #[expect(unsafe_code, reason = "reads what C would read")]
    fn last_line() -> String {
        // SAFETY: the text lives until the next failure of this thread, and is copied before.
        unsafe { CStr::from_ptr(last()) }.to_string_lossy().into_owned()
    }

    #[test]
    fn a_panic_becomes_a_code_and_a_line() {
        assert_eq!(guard(|| panic!("two\nlines")), Code::ErrorInternal);
        assert_eq!(last_line(), "defect in Squall: two lines");
        assert_eq!(guard(|| std::panic::panic_any(7)), Code::ErrorInternal);
        assert_eq!(last_line(), "defect in Squall: ");
    }

    #[test]
    fn each_thread_has_its_own_line_which_success_leaves() {
        assert_eq!(guard(|| Err(Failure::argument("mine"))), Code::ErrorArgument);
        let other = std::thread::spawn(last_line).join().expect("ends");
        assert_eq!(other, "");
        assert_eq!(guard(|| Ok(Code::Ok)), Code::Ok);
        assert_eq!(last_line(), "mine");
    }
}
