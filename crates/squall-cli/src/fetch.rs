//! Requests to the status server of a tunnel.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context as _, bail};
use serde::de::DeserializeOwned;
use squall_observe::{Status, status::printable};

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum length of an answer in bytes.
const MAX_ANSWER: u64 = 8 << 20;

/// Requests the current status.
pub(crate) fn status(address: SocketAddr) -> anyhow::Result<Status> {
    of_path(address, "/status")
}

/// Requests the stories of a flow in the status.
#[cfg(feature = "tunnel")]
pub(crate) fn why(address: SocketAddr, flow: &str) -> anyhow::Result<squall_observe::status::WhyStatus> {
    of_path(address, &format!("/why?flow={flow}"))
}

fn of_path<T: DeserializeOwned>(address: SocketAddr, path: &str) -> anyhow::Result<T> {
    let answer = get(address, path).with_context(|| {
        format!(
            "no tunnel answers on {address} (--metrics {address}, or metrics = \"{address}\" in its file)"
        )
    })?;
    let Some((head, body)) = answer.split_once("\r\n\r\n") else {
        bail!("what answers on {address} is no tunnel");
    };
    if head.starts_with("HTTP/1.1 404 ") && path != "/status" {
        bail!(
            "the tunnel on {address} does not explain its blocks: it is of an earlier version, or the flow has ended"
        );
    }
    if !head.starts_with("HTTP/1.1 200 ") {
        let first = printable(head.lines().next().unwrap_or_default().to_owned());
        bail!("what answers on {address} is no tunnel: {first}");
    }
    read(body).with_context(|| format!("what answers on {address} is no tunnel of this version"))
}

/// Parses an answer, and makes its texts safe for a terminal.
fn read<T: DeserializeOwned>(body: &str) -> serde_json::Result<T> {
    let mut value = serde_json::from_str(body)?;
    clean(&mut value);
    serde_json::from_value(value)
}

/// Makes all texts safe for a terminal.
pub(crate) fn clean(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) => *text = printable(std::mem::take(text)),
        serde_json::Value::Array(all) => all.iter_mut().for_each(clean),
        serde_json::Value::Object(all) => {
            *all = std::mem::take(all)
                .into_iter()
                .map(|(key, mut value)| {
                    clean(&mut value);
                    (printable(key), value)
                })
                .collect();
        }
        _ => {}
    }
}

fn get(address: SocketAddr, path: &str) -> std::io::Result<String> {
    // The system reports a timeout as "Resource temporarily unavailable".
    ask(address, path).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => std::io::Error::new(ErrorKind::TimedOut, "no answer in time"),
        _ => error,
    })
}

fn ask(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(MAX_ANSWER).read_to_string(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use squall_observe::status::{EventStatus, SentStatus};

    use super::*;

    #[test]
    fn a_server_does_not_write_to_the_terminal() {
        let mut status = Status { role: "entry\u{1b}]0;title\u{7}".to_owned(), ..Status::default() };
        status.events.push(EventStatus { words: "\u{1b}[2Jgone\n".to_owned(), ..EventStatus::default() });
        let mut flow = squall_observe::status::FlowStatus::default();
        flow.sent.insert("\u{9b}31m".to_owned(), SentStatus::default());
        status.flows.push(flow);
        let read: Status = read(&serde_json::to_string(&status).expect("is written")).expect("is read");
        assert_eq!(read.role, "entry\u{fffd}]0;title\u{fffd}");
        assert_eq!(read.events[0].words, "\u{fffd}[2Jgone\u{fffd}");
        assert_eq!(read.flows[0].sent.keys().next().expect("one"), "\u{fffd}31m");
    }
}
