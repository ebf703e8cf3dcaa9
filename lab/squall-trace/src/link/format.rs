//! The formats of recordings, and how they are told apart.

use std::{fmt, str::FromStr};

use crate::Format as Log;

/// How a recording is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Delivery opportunities: a whole number of milliseconds a line.
    Mahimahi,
    /// A table with a line of names, `time_s` among them.
    Csv,
    /// Lines of six numbers: clock, milliseconds, latitude, longitude, bytes, milliseconds of the interval. HSDPA
    /// commute logs (Riiser et al., MMSys 2013) and the 4G logs of Ghent (van der Hooft et al., 2016).
    Hsdpa,
    /// A JSON list of intervals with `duration_ms` and `bandwidth_kbps`, as the simulator Sabre takes it
    /// (Spiteri et al., MMSys 2018).
    Sabre,
    /// The log of Saturator: a line for each packet that arrived (Winstein et al., NSDI 2013).
    Saturatr,
    /// A measurement log that [`crate::import()`] reads.
    Log(Log),
}

impl Format {
    /// Every format that can be read from a single file.
    pub const ALL: [Self; 11] = [
        Self::Mahimahi,
        Self::Csv,
        Self::Hsdpa,
        Self::Sabre,
        Self::Saturatr,
        Self::Log(Log::Plain),
        Self::Log(Log::Ucc),
        Self::Log(Log::Kingston),
        Self::Log(Log::Mtu),
        Self::Log(Log::Cicv),
        Self::Log(Log::Sigcomm),
    ];

    /// Its name, in one lower-case word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mahimahi => "mahimahi",
            Self::Csv => "csv",
            Self::Hsdpa => "hsdpa",
            Self::Sabre => "sabre",
            Self::Saturatr => "saturatr",
            Self::Log(log) => log.name(),
        }
    }

    /// What it is, in a line.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Mahimahi => "delivery opportunities of 1500 bytes, a whole number of milliseconds a line",
            Self::Csv => {
                "table with a line of names: time_s, down_mbps, up_mbps, rtt_ms, levels, tech, event"
            }
            Self::Hsdpa => "HSDPA commute logs (Riiser) and 4G logs of Ghent: six numbers a line",
            Self::Sabre => "JSON list of duration_ms and bandwidth_kbps (Sabre's 3G and 4G logs)",
            Self::Saturatr => "log of Saturator: a line for each packet received",
            Self::Log(Log::Plain) => {
                "lines of seconds and Mbit/s, with a space or a comma (Lumos5G, Zhuge, Solis)"
            }
            Self::Log(log) => log.about(),
        }
    }

    /// The format of a text, told by its first line. `None` if it is none of these.
    pub fn detect(text: &str) -> Option<Self> {
        let first = text.lines().map(str::trim).find(|line| !line.is_empty())?;
        if first.starts_with('[') {
            return text.contains("\"bandwidth_kbps\"").then_some(Self::Sabre);
        }
        let cells: Vec<&str> = first.split(',').map(str::trim).collect();
        if cells.contains(&"time_s") {
            return Some(Self::Csv);
        }
        let number = |word: &&str| word.parse::<f64>().is_ok();
        let words: Vec<&str> = first.split_whitespace().collect();
        match words[..] {
            ["INCOMING" | "OUTGOING", ..] => return Some(Self::Saturatr),
            [only] if only.bytes().all(|byte| byte.is_ascii_digit()) => return Some(Self::Mahimahi),
            [_, _, _, _, _, _] if words.iter().all(number) => return Some(Self::Hsdpa),
            _ => {}
        }
        if let [time, rate] = cells[..]
            && (number(&time) && number(&rate) || rate.to_ascii_lowercase().contains("mbps"))
        {
            return Some(Self::Log(Log::Plain));
        }
        Log::detect(text).map(Self::Log)
    }

    /// Whether a recording of this format is one file that tells all.
    pub(super) fn is_readable(self) -> bool {
        Self::ALL.contains(&self)
    }

    /// The names of all formats, for those who wrote something else.
    pub(super) fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| format!("\"{name}\" is not a format; there are {}", Self::names()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_names_of_their_own() {
        for format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(format));
        }
        assert!("pcap".parse::<Format>().unwrap_err().contains("there are mahimahi, csv, "));
    }

    #[test]
    fn a_first_line_tells_the_format() {
        let plain = Some(Format::Log(Log::Plain));
        for (text, format) in [
            ("0\n3\n", Some(Format::Mahimahi)),
            ("\n 17\n", Some(Format::Mahimahi)),
            ("time_s,down_mbps\n", Some(Format::Csv)),
            ("up_mbps, time_s\n", Some(Format::Csv)),
            ("1289406399 549692 59.8 10.7 248069 1008\n", Some(Format::Hsdpa)),
            ("[\n {\"duration_ms\": 1, \"bandwidth_kbps\": 2}]", Some(Format::Sabre)),
            ("INCOMING DATA RECEIVED senderid=1, seq=0, send_time=1, recv_time=2\n", Some(Format::Saturatr)),
            ("0 1.5\n", plain),
            ("0.2,1.5\n", plain),
            ("time,throughput_Mbps\n0,1\n", plain),
            ("Timestamp,NetworkMode,RSRP,DL_bitrate,UL_bitrate\n", Some(Format::Log(Log::Ucc))),
            ("time,throughput\n0,1\n", None),
            ("1.5\n2.5\n", None),
            ("[1, 2]", None),
            ("1 2 3\n", None),
            ("frame,pts_ms,type\n", None),
            ("", None),
        ] {
            assert_eq!(Format::detect(text), format, "{text}");
        }
    }
}
