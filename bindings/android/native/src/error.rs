//! Failures, and the exceptions that report them to Java.

use std::any::Any;

use jni::{Env, errors::ErrorPolicy, jni_str, strings::JNIString};
use squall_bindings::{Code, defect};

/// Failure of a call.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of JNI itself, or an exception that is pending already.
    Jni(jni::errors::Error),
    /// A `SquallException` with this line.
    Squall(String),
    /// A `QueueFullException`.
    Full,
    /// An `IllegalArgumentException` with this line.
    Argument(String),
}

impl Failure {
    /// The number does not refer to an open object.
    pub(crate) fn closed(what: &str) -> Self {
        Self::Squall(format!("{what} is closed"))
    }

    /// Converts any error with a one-line description.
    #[expect(clippy::needless_pass_by_value, reason = "passed to `map_err`")]
    pub(crate) fn of(error: impl ToString) -> Self {
        Self::Squall(error.to_string())
    }
}

impl From<jni::errors::Error> for Failure {
    fn from(error: jni::errors::Error) -> Self {
        Self::Jni(error)
    }
}

impl From<squall_bindings::Failure> for Failure {
    fn from(failure: squall_bindings::Failure) -> Self {
        match failure.code {
            Code::ErrorFull => Self::Full,
            Code::ErrorArgument => Self::Argument(failure.line),
            _ => Self::Squall(failure.line),
        }
    }
}

/// Throws the failure as an exception, and returns null or 0.
pub(crate) struct Throw;

impl<T: Default> ErrorPolicy<T, Failure> for Throw {
    type Captures<'unowned_env_local: 'native_method, 'native_method> = ();

    fn on_error<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        (): &mut (),
        failure: Failure,
    ) -> jni::errors::Result<T> {
        if env.exception_check() {
            return Ok(T::default());
        }
        let (class, line) = match failure {
            Failure::Jni(error) => (jni_str!("java/lang/IllegalStateException"), error.to_string()),
            Failure::Squall(line) => (jni_str!("dev/squall/core/SquallException"), line),
            Failure::Full => {
                (jni_str!("dev/squall/core/QueueFullException"), "send queue is full".to_owned())
            }
            Failure::Argument(line) => (jni_str!("java/lang/IllegalArgumentException"), line),
        };
        throw(env, class, line)
    }

    fn on_panic<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        (): &mut (),
        payload: Box<dyn Any + Send + 'static>,
    ) -> jni::errors::Result<T> {
        let line = defect(payload.as_ref()).line;
        throw(env, jni_str!("java/lang/IllegalStateException"), line)
    }
}

/// JNI reports a thrown exception as an error; here it is the intended result.
fn throw<T: Default>(
    env: &mut Env<'_>,
    class: &jni::strings::JNIStr,
    line: String,
) -> jni::errors::Result<T> {
    match env.throw_new(class, JNIString::from(line)) {
        Ok(()) | Err(jni::errors::Error::JavaException) => Ok(T::default()),
        Err(error) => Err(error),
    }
}
