//! The formats of recordings, and how they are recognised.

use std::{fmt, str::FromStr};

use crate::{
    import::{cicv, feup, gnettrack, mtu, perama, plain, sigcomm},
    own::TIME,
    sheet::{lines, names},
};

/// The formats with their names and what they are.
macro_rules! formats {
    ($($format:ident $name:literal $about:literal,)*) => {
        /// How a recording is written.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Format {
            $(#[doc = $about] $format,)*
        }

        impl Format {
            /// Every format.
            pub const ALL: [Self; 13] = [$(Self::$format),*];

            /// Its name, in one lower-case word.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$format => $name),* }
            }

            /// What it is, in a line.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$format => $about),* }
            }
        }
    };
}

formats! {
    Mahimahi "mahimahi" "delivery opportunities of 1500 bytes, a whole number of milliseconds a line",
    Csv "csv" "table with a line of names: time_s, down_mbps, up_mbps, rtt_ms, levels, tech, event",
    Hsdpa "hsdpa" "HSDPA commute logs (Riiser) and 4G logs of Ghent: six numbers a line",
    Sabre "sabre" "JSON list of duration_ms and bandwidth_kbps (Sabre's 3G and 4G logs)",
    Saturatr "saturatr" "log of Saturator: a line for each packet received",
    Plain "plain" "lines of seconds and Mbit/s, with a space or a comma (Lumos5G, Zhuge, Solis)",
    Ucc "ucc" "UCC 4G and 5G datasets (G-NetTrack): rates, levels, ping",
    Kingston "kingston" "city bus in Kingston (G-NetTrack): rates and levels of LTE",
    Mtu "mtu" "MTU Cork Measurements5G: uplink rate and levels of 5G, LTE or UMTS modems",
    Cicv "cicv5g" "CICV5G: round trips and levels of vehicles",
    Sigcomm "sigcomm21" "SIGCOMM 2021 5G walking loops, merged logs: rate and levels",
    Feup "feup" "FEUP wifi-vehicles, final-exp-log.csv: rate and RSSI; takes a part, sender-receiver",
    Perama "perama" "shipyard Wi-Fi: two files, of iPerf3 (JSON) and of iw link (JSON lines)",
}

impl Format {
    /// How many files make one recording.
    pub const fn files(self) -> usize {
        if matches!(self, Self::Perama) { 2 } else { 1 }
    }

    /// The format of a text, recognised by its first line. `None` if it is none of these.
    pub fn detect(text: &str) -> Option<Self> {
        let (_, first) = lines(text).next()?;
        match first.as_bytes()[0] {
            b'[' => return text.contains("\"bandwidth_kbps\"").then_some(Self::Sabre),
            b'{' => return perama::is_its(first).then_some(Self::Perama),
            _ => {}
        }
        let number = |word: &str| word.parse::<f64>().is_ok();
        let words: Vec<&str> = first.split_whitespace().collect();
        let all_numbers = words.iter().all(|word| number(word));
        let (cells, _) = names(first);
        match words[..] {
            _ if cells.iter().any(|name| name.eq_ignore_ascii_case(TIME)) => return Some(Self::Csv),
            ["INCOMING" | "OUTGOING", ..] => return Some(Self::Saturatr),
            [cicv::SENT, ..] => return Some(Self::Cicv),
            [only] if only.bytes().all(|byte| byte.is_ascii_digit()) => return Some(Self::Mahimahi),
            [_, _, _, _, _, _] if all_numbers => return Some(Self::Hsdpa),
            _ => {}
        }
        if plain::is_its(first) {
            return Some(Self::Plain);
        }
        let tables = [
            (Self::Ucc, gnettrack::UCC),
            (Self::Kingston, gnettrack::KINGSTON),
            (Self::Mtu, mtu::MARKS),
            (Self::Sigcomm, sigcomm::MARKS),
            (Self::Feup, feup::MARKS),
        ];
        let is_there = |name: &&str| cells.iter().any(|cell| cell.eq_ignore_ascii_case(name));
        tables.into_iter().find(|(_, names)| names.iter().all(is_there)).map(|(format, _)| format)
    }

    /// What to do with a file of this format where one of the form `wanted` is needed.
    pub(crate) fn advice(self, wanted: &str) -> String {
        format!("this is {self}, of which `squall-lab trace convert --to {wanted}` makes such a file")
    }

    /// The names of all formats, for those who wrote something else.
    pub(crate) fn names() -> String {
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
        found.ok_or_else(|| format!("{name:?} is not a format; there are {}", Self::names()))
    }
}
