//! The formats of recordings, by name.

use std::{fmt, str::FromStr};

/// Defines the formats with their names and descriptions.
macro_rules! formats {
    ($($format:ident $name:literal $about:literal,)*) => {
        /// Format of a recording.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Format {
            $(#[doc = $about] $format,)*
        }

        impl Format {
            /// Every format.
            pub const ALL: [Self; 13] = [$(Self::$format),*];

            /// Returns its name, in one lower-case word.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$format => $name),* }
            }

            /// Returns its description, in one line.
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
    /// Returns the number of files of one recording.
    pub const fn files(self) -> usize {
        if matches!(self, Self::Perama) { 2 } else { 1 }
    }

    /// Returns advice for a file of this format if one in the format `wanted` is required.
    pub(crate) fn advice(self, wanted: &str) -> String {
        format!("this is {self}, of which `squall-lab trace convert --to {wanted}` makes such a file")
    }

    /// Returns the names of all formats, for error messages.
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
