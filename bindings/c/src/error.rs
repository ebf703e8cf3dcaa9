//! Codes of calls, and the line that explains a failure.

use std::{
    any::Any,
    cell::RefCell,
    ffi::{CString, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
};

use squall::{ConnectError, SendError};

use crate::types::Code;

/// Why a call fails.
#[derive(Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) line: String,
}

impl Failure {
    #[expect(clippy::needless_pass_by_value, reason = "callers pass literals, texts and errors as they are")]
    pub(crate) fn new(code: Code, line: impl ToString) -> Self {
        Self { code, line: line.to_string() }
    }

    /// A wrong argument.
    pub(crate) fn argument(line: impl ToString) -> Self {
        Self::new(Code::ErrorArgument, line)
    }

    /// For `map_err`.
    pub(crate) fn of<E: ToString>(code: Code) -> impl Fn(E) -> Self {
        move |error| Self::new(code, error.to_string())
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        let code = match error {
            SendError::Full(_) => Code::ErrorFull,
            SendError::Closed => Code::ErrorClosed,
            _ => Code::ErrorArgument,
        };
        Self::new(code, error)
    }
}

impl From<&ConnectError> for Failure {
    fn from(error: &ConnectError) -> Self {
        let code = match error {
            ConnectError::Untrusted { .. } | ConnectError::WrongPin { .. } | ConnectError::Tls(_) => {
                Code::ErrorTrust
            }
            _ => Code::ErrorConnect,
        };
        Self::new(code, error)
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// One line for C.
pub(crate) fn one_line(text: &str) -> CString {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    CString::new(line).unwrap_or_default()
}

/// Keeps the line of a failure for [`last`], and returns its code.
fn note(failure: &Failure) -> Code {
    // Not while the thread ends.
    let _ = LAST.try_with(|last| *last.borrow_mut() = one_line(&failure.line));
    failure.code
}

/// The line of this thread's last failure.
pub(crate) fn last() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Runs a call of C's. A failure is noted, and a panic does not leave the library.
pub(crate) fn guard(work: impl FnOnce() -> Result<Code, Failure>) -> Code {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => note(&failure),
        Err(payload) => note(&defect(payload.as_ref())),
    }
}

fn defect(payload: &(dyn Any + Send)) -> Failure {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    Failure::new(Code::ErrorInternal, format!("defect in Squall: {}", text.unwrap_or_default()))
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
