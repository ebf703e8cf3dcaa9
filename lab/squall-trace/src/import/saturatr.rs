//! Logs of Saturator (Winstein et al., NSDI 2013, <https://github.com/keithw/multisend>), which
//! keeps a link full in both directions and records arrivals.
//!
//! A line is `INCOMING DATA RECEIVED` for a packet that arrived over the measured link, or
//! `OUTGOING ACK RECEIVED` for an answer that returned over the other one; then follow `senderid=`,
//! `seq=`, `send_time=`, `recv_time=` in nanoseconds, and `1delay=` or `rtt=` in seconds. Packets
//! fill an MTU of 1,500 bytes, so each is an opportunity of mahimahi, in whole milliseconds since
//! the first, rounded down as in the tool's own script. In a client's log (`client-TIME-ID`) they
//! are the downlink, in a server's (`server-TIME-ID`) the uplink. Answers measure the round trip:
//! over the measured link, and back over the other.

use super::input::Input;
use crate::{MAX_ROWS, Quantity, Recording, RecordingError, Row, TraceError, mahimahi, sheet::lines};

/// The values of a line.
struct Arrival<'t> {
    sender: &'t str,
    nanos: i64,
    /// In milliseconds; only for answers.
    rtt: Option<f64>,
}

/// Reads a log.
pub(super) fn read(input: &Input) -> Result<Recording, TraceError> {
    let (mut packets, mut answers): (Vec<i64>, Vec<(i64, f64)>) = (Vec::new(), Vec::new());
    let mut session: Option<&str> = None;
    for (line, text) in lines(&input.text) {
        let fault = |problem: String| TraceError::line(&input.name, line, problem);
        if packets.len().max(answers.len()) == MAX_ROWS {
            return Err(fault(RecordingError::TooManyRows.to_string()));
        }
        let arrival = arrival(text).map_err(fault)?;
        if let Some(rtt) = arrival.rtt {
            answers.push((arrival.nanos, rtt));
            continue;
        }
        let known = *session.get_or_insert(arrival.sender);
        if known != arrival.sender {
            let sender = arrival.sender;
            return Err(fault(format!(
                "a packet of session {sender} after those of {known}; keep the lines of one"
            )));
        }
        if packets.last().is_some_and(|&before| arrival.nanos < before) {
            return Err(fault("its recv_time is before that of the packet above".to_owned()));
        }
        packets.push(arrival.nanos);
    }
    let Some(&origin) = packets.first() else {
        return Err(TraceError::file(&input.name, "no packet was received"));
    };
    let since = |nanos: i64| nanos.abs_diff(origin);
    let millis = packets.iter().map(|&nanos| since(nanos) / 1_000_000).collect();
    let trace =
        mahimahi::Trace::new(millis).map_err(|error| TraceError::file(&input.name, error.to_string()))?;
    let end = trace.period() * 1_000;
    let answers = answers.into_iter().filter(|(nanos, _)| *nanos >= origin);
    let mut rows: Vec<Row> =
        answers.map(|(nanos, rtt)| Row::new(since(nanos) / 1_000).with(Quantity::Rtt, rtt)).collect();
    rows.retain(|row| row.at <= end);
    rows.sort_by_key(|row| row.at);
    Ok(Recording::of_opportunities(trace.millis().to_vec(), end, rows))
}

fn arrival(text: &str) -> Result<Arrival<'_>, String> {
    let kind = text.split_whitespace().next();
    let answer = match kind {
        Some("INCOMING") => false,
        Some("OUTGOING") => true,
        _ => return Err("the line begins with neither INCOMING nor OUTGOING".to_owned()),
    };
    let value = |name: &str| {
        let mut words = text.split([' ', ',', '\t']);
        let found = words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        found.ok_or_else(|| format!("there is no {name}="))
    };
    let time = value("recv_time")?;
    let nanos = time.parse().ok().filter(|nanos| *nanos >= 0);
    let nanos = nanos.ok_or_else(|| format!("recv_time \"{time}\" is not a number of nanoseconds"))?;
    let rtt = answer.then(|| value("rtt")).transpose()?.map(|word| {
        let rtt = word.parse().ok().map(|seconds: f64| (seconds * 1e9).round() / 1e6);
        rtt.filter(|rtt| Quantity::Rtt.bounds().contains(rtt))
            .ok_or_else(|| format!("rtt \"{word}\" is no time"))
    });
    Ok(Arrival { sender: value("senderid")?, nanos, rtt: rtt.transpose()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str) -> Result<Recording, TraceError> {
        read(&Input::new("client-9-9", text))
    }

    fn packet(session: u32, nanos: u64) -> String {
        format!(
            "INCOMING DATA RECEIVED senderid={session}, seq=7, send_time=5, recv_time={nanos}, 1delay=0.1 \n"
        )
    }

    fn answer(nanos: u64, rtt: &str) -> String {
        format!(
            "OUTGOING ACK RECEIVED senderid=9, seq=7, send_time=5,  recv_time={nanos}, rtt={rtt}, 10 => 11\n"
        )
    }

    #[test]
    fn packets_are_opportunities_and_answers_round_trips() {
        let text =
            answer(900, "0.9") + &packet(9, 1_000_000) + &answer(1_500_000, "0.0421") + &packet(9, 4_900_000);
        let list = log(&(text + &answer(9_000_000, "0.2"))).unwrap();
        let rtts: Vec<_> = list.numbers(Quantity::Rtt).collect();
        assert_eq!((list.opportunities, list.end, rtts), (Some(vec![0, 3]), 3_000, vec![(500, 42.1)]));
    }

    #[test]
    fn errors_name_the_line() {
        let refused = |text: String| log(&text).map(drop).unwrap_err().to_string();
        assert_eq!(refused(answer(1, "0.1")), "client-9-9: no packet was received");
        assert_eq!(refused(packet(9, 1)), "client-9-9: line 1: the last time must be above 0");
        assert_eq!(
            refused(packet(9, 5) + "MARTIAN!\n"),
            "client-9-9:2: the line begins with neither INCOMING nor OUTGOING"
        );
        assert_eq!(refused("OUTGOING ACK RECEIVED\n".to_owned()), "client-9-9:1: there is no recv_time=");
        assert_eq!(refused(answer(1, "-1")), "client-9-9:1: rtt \"-1\" is no time");
        let mixed = packet(9, 5) + &packet(8, 6);
        assert_eq!(
            refused(mixed),
            "client-9-9:2: a packet of session 8 after those of 9; keep the lines of one"
        );
        assert_eq!(
            refused(packet(9, 5) + &packet(9, 4)),
            "client-9-9:2: its recv_time is before that of the packet above"
        );
    }
}
