//! Failures of calls.

use std::any::Any;

use squall::{ConnectError, SendError};

use crate::Code;

/// Failure of a call.
#[derive(Debug, PartialEq)]
pub struct Failure {
    /// Kind of the failure.
    pub code: Code,
    /// One-line explanation.
    pub line: String,
}

impl Failure {
    /// Creates a failure with its message.
    #[expect(clippy::needless_pass_by_value, reason = "callers pass literals, texts and errors as they are")]
    pub fn new(code: Code, line: impl ToString) -> Self {
        Self { code, line: line.to_string() }
    }

    /// Creates a failure for an invalid argument.
    pub fn argument(line: impl ToString) -> Self {
        Self::new(Code::ErrorArgument, line)
    }

    /// Creates a failure for the use of an object that belongs to the parent of a forked process.
    pub fn forked(name: &str) -> Self {
        let line = format!("this process was forked from the one that has the {name}: make another one here");
        Self::new(Code::ErrorForked, line)
    }

    /// Returns a conversion of errors, for `map_err`.
    pub fn of<E: ToString>(code: Code) -> impl Fn(E) -> Self {
        move |error| Self::new(code, error.to_string())
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        let code = match error {
            SendError::Full(_) => Code::ErrorFull,
            SendError::Closed(_) => Code::ErrorClosed,
            SendError::TooLarge { .. } => Code::ErrorSize,
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

/// Converts a panic to a failure at the boundary of the library.
pub fn defect(payload: &(dyn Any + Send)) -> Failure {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    Failure::new(Code::ErrorInternal, format!("defect in Squall: {}", text.unwrap_or_default()))
}
