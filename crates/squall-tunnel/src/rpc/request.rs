//! Requests of JSON-RPC 2.0 and their answers, one per line. `docs/tenants.md` describes the methods.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use squall_observe::status::printable;

/// Maximum length of a request in bytes.
pub(crate) const MAX_REQUEST: usize = 64 << 10;

/// Maximum length of an error message in characters. A message may repeat a part of the request.
const MAX_MESSAGE: usize = 300;

/// Error codes (JSON-RPC 2.0, section 5.1).
pub(crate) mod code {
    /// The line is not JSON.
    pub(crate) const PARSE: i32 = -32_700;
    /// The JSON is not a request.
    pub(crate) const REQUEST: i32 = -32_600;
    /// The method does not exist.
    pub(crate) const METHOD: i32 = -32_601;
    /// The parameters do not fit the method.
    pub(crate) const PARAMS: i32 = -32_602;
    /// The method failed; from the range for codes of the server.
    pub(crate) const FAILED: i32 = -32_000;
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    /// `None` for a notification, which has no answer.
    pub(crate) id: Option<Value>,
    pub(crate) call: Call,
}

/// A method with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    List,
    /// Parameters with the keys of `[[tenant]]`.
    Add(Value),
    Remove(Named),
    Limits(LimitsParams),
    Why(WhyParams),
    Drain,
}

/// Parameters of `remove`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Named {
    pub(crate) name: String,
}

/// Parameters of `limits`. Without `set` and `reset` the limits are only read.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitsParams {
    pub(crate) name: String,
    /// Keys of `limits` with new values; `null` selects the default.
    #[serde(default)]
    pub(crate) set: Map<String, Value>,
    /// Restore the limits of the tenant's source before applying `set`.
    #[serde(default)]
    pub(crate) reset: bool,
}

/// Parameters of `why`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WhyParams {
    pub(crate) flow: String,
}

/// An error response.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    code: i32,
    message: String,
}

impl Failure {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        let message = printable(message.into().chars().take(MAX_MESSAGE).collect());
        Self { code, message }
    }

    pub(crate) fn failed(error: impl std::fmt::Display) -> Self {
        Self::new(code::FAILED, error.to_string())
    }

    /// Creates an error for invalid parameters.
    pub(crate) fn params(error: impl std::fmt::Display) -> Self {
        Self::new(code::PARAMS, error.to_string())
    }
}

/// Parses a line. An error has the id of the request, `null` if it is unknown, and `None` for a
/// notification.
pub(crate) fn parse(line: &[u8]) -> Result<Request, (Option<Value>, Failure)> {
    let unknown = |code, message: String| (Some(Value::Null), Failure::new(code, message));
    let value = serde_json::from_slice(line).map_err(|error| unknown(code::PARSE, error.to_string()))?;
    let Value::Object(mut request) = value else {
        return Err(unknown(
            code::REQUEST,
            "a request is one object per line; there are no batches".to_owned(),
        ));
    };
    let id = request.remove("id");
    if matches!(id, Some(Value::Bool(_) | Value::Array(_) | Value::Object(_))) {
        return Err(unknown(code::REQUEST, "id is a string, a number or null".to_owned()));
    }
    match call(&mut request) {
        Ok(call) => Ok(Request { id, call }),
        // Without these members it is not a notification either.
        Err(failure) if failure.code == code::REQUEST => Err((Some(id.unwrap_or_default()), failure)),
        Err(failure) => Err((id, failure)),
    }
}

fn call(request: &mut Map<String, Value>) -> Result<Call, Failure> {
    if request.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(Failure::new(code::REQUEST, "jsonrpc is \"2.0\""));
    }
    let params = request.remove("params").unwrap_or_else(|| json!({}));
    let Some(method) = request.get("method").and_then(Value::as_str) else {
        return Err(Failure::new(code::REQUEST, "method is a string"));
    };
    if !params.is_object() {
        return Err(Failure::params("params is an object"));
    }
    match method {
        "list" => Ok(Call::List),
        "add" => Ok(Call::Add(params)),
        "remove" => read(params).map(Call::Remove),
        "limits" => read(params).map(Call::Limits),
        "why" => read(params).map(Call::Why),
        "drain" => Ok(Call::Drain),
        other => {
            let words =
                format!("no method is named '{other}'; there are list, add, remove, limits, why, drain");
            Err(Failure::new(code::METHOD, words))
        }
    }
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, Failure> {
    serde_json::from_value(params).map_err(Failure::params)
}

/// Formats an answer as a line.
pub(crate) fn answer(id: &Value, result: Result<Value, Failure>) -> String {
    let answer = match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(Failure { code, message }) => {
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
        }
    };
    format!("{answer}\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn code_of(line: &str) -> (Option<Value>, i32) {
        let (id, failure) = parse(line.as_bytes()).expect_err(line);
        (id, failure.code)
    }

    #[test]
    fn requests_are_read() {
        let request = parse(br#"{"jsonrpc":"2.0","id":7,"method":"remove","params":{"name":"a"}}"#);
        let call = Call::Remove(Named { name: "a".to_owned() });
        assert_eq!(request, Ok(Request { id: Some(json!(7)), call }));
        let request = parse(br#"{"jsonrpc":"2.0","method":"list"}"#);
        assert_eq!(request, Ok(Request { id: None, call: Call::List }));
        let line =
            br#"{"jsonrpc":"2.0","id":"x","method":"limits","params":{"name":"a","set":{"bytes":null}}}"#;
        let Ok(Request { call: Call::Limits(limits), .. }) = parse(line) else { panic!("it is right") };
        assert_eq!((limits.set.get("bytes"), limits.reset), (Some(&Value::Null), false));
    }

    #[test]
    fn mistakes_have_the_codes_of_the_specification() {
        let null = Some(Value::Null);
        assert_eq!(code_of("{"), (null.clone(), code::PARSE));
        assert_eq!(code_of("[]"), (null.clone(), code::REQUEST));
        assert_eq!(code_of(r#"{"jsonrpc":"1.0","id":1,"method":"list"}"#), (Some(json!(1)), code::REQUEST));
        assert_eq!(code_of(r#"{"jsonrpc":"2.0"}"#), (null.clone(), code::REQUEST));
        assert_eq!(code_of(r#"{"jsonrpc":"2.0","id":{},"method":"list"}"#), (null, code::REQUEST));
        assert_eq!(code_of(r#"{"jsonrpc":"2.0","id":1,"method":"lst"}"#), (Some(json!(1)), code::METHOD));
        let why = |params: &str| {
            code_of(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"why","params":{params}}}"#)).1
        };
        assert!(
            ["[]", "{}", r#"{"flow":1}"#, r#"{"flow":"x","more":1}"#]
                .iter()
                .all(|params| why(params) == code::PARAMS)
        );
        let notification = code_of(r#"{"jsonrpc":"2.0","method":"why"}"#);
        assert_eq!(notification, (None, code::PARAMS), "a notification has no answer");
    }

    proptest! {
        #[test]
        fn any_line_has_an_answer_in_one_line(line in "\\PC*|[{}\\[\\]\":,a-z0-9\u{0}-\u{20}]*") {
            crate::fuzz::rpc(line.as_bytes());
        }

        #[test]
        fn any_method_and_params_have_an_answer(
            method in "list|add|remove|limits|why|\\PC{0,40}",
            key in "name|set|reset|flow|limits|token_sha256",
            value in "null|true|3|\"x\"|\\{\\}|\\[\\]|\\{\"bytes\":\"1kB\"\\}",
        ) {
            let method = Value::String(method);
            let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":{method},"params":{{"name":"a","{key}":{value}}}}}"#);
            crate::fuzz::rpc(line.as_bytes());
        }
    }
}
