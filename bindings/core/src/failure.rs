//! Why calls fail.

use std::any::Any;

use squall::{ConnectError, SendError};

use crate::Code;

/// Why a call fails.
#[derive(Debug, PartialEq)]
pub struct Failure {
    /// Its kind.
    pub code: Code,
    /// One line that explains it.
    pub line: String,
}

impl Failure {
    /// A failure with its line.
    #[expect(clippy::needless_pass_by_value, reason = "callers pass literals, texts and errors as they are")]
    pub fn new(code: Code, line: impl ToString) -> Self {
        Self { code, line: line.to_string() }
    }

    /// A wrong argument.
    pub fn argument(line: impl ToString) -> Self {
        Self::new(Code::ErrorArgument, line)
    }

    /// The use of an object that belongs to the parent of a forked process.
    pub fn forked(name: &str) -> Self {
        let line = format!("this process was forked from the one that has the {name}: make another one here");
        Self::new(Code::ErrorForked, line)
    }

    /// For `map_err`.
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

/// The failure that a panic becomes at the border of the library.
pub fn defect(payload: &(dyn Any + Send)) -> Failure {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    Failure::new(Code::ErrorInternal, format!("defect in Squall: {}", text.unwrap_or_default()))
}
