//! Interruptions that a viewer sees behind a tunnel: the times of decoded pictures, and the periods
//! without one.
//!
//! Reads raw pictures of a fixed size from standard input and records when each is complete. An
//! interruption is the time between two pictures in excess of the frame interval. ffmpeg before it
//! plays the output of a tunnel:
//!
//! ```sh
//! ffmpeg -fflags nobuffer -i udp://127.0.0.1:6000 -map 0:v -vf scale=64:36,format=gray -fps_mode passthrough \
//!     -flush_packets 1 -f rawvideo - | cargo run --release -p squall-testkit --bin interruptions -- --picture 2304
//! ```
//!
//! Pictures of this size take no noticeable time in the pipe; `passthrough` keeps ffmpeg from
//! repeating pictures to replace missing ones. It is not a command of `squall`, because it measures
//! any player and does not depend on tunnels.

use std::{
    io::{self, Read},
    process::ExitCode,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use clap::Parser;
use serde::Serialize;

/// Lengths above which interruptions are counted.
const BOUNDS: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(200), Duration::from_millis(300)];

/// Maximum number of interruptions listed; further ones are only counted.
const LISTED: usize = 1000;

/// Reports when decoded pictures arrive, and how often none arrives for longer than a frame
#[derive(Parser)]
struct Options {
    /// Bytes of a picture
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    picture: u64,
    /// Pictures per second
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1000))]
    fps: u32,
    /// Print one object of JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let mut view = View::new(Duration::from_secs(1) / options.fps);
    let ended = watch(&mut io::stdin().lock(), options.picture, &mut view);
    let report = view.report();
    if options.json {
        println!("{}", serde_json::to_string(&report).expect("numbers can be written"));
    } else {
        print!("{report}");
    }
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("interruptions: standard input: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Reads to the end of the input. An incomplete picture does not count.
fn watch(input: &mut impl Read, picture: u64, view: &mut View) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    let mut bytes = 0;
    loop {
        let read = match input.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => read as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        bytes += read;
        for _ in 0..bytes / picture {
            view.picture(Instant::now(), SystemTime::now());
        }
        bytes %= picture;
    }
}

/// Arrivals of pictures so far.
struct View {
    /// Nominal time between pictures.
    interval: Duration,
    pictures: u64,
    /// Arrival of the first and of the last picture.
    seen: Option<(Instant, Instant)>,
    longest: Duration,
    counts: [u64; BOUNDS.len()],
    listed: Vec<Interruption>,
}

/// A period without pictures.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Interruption {
    /// Time of its end, in seconds since the first picture.
    at_s: f64,
    /// Time of its end, in seconds since 1970.
    unix_s: f64,
    /// Number of the picture that ended it, from 0.
    picture: u64,
    /// Time between the picture before and that one.
    between_ms: f64,
}

impl View {
    fn new(interval: Duration) -> Self {
        Self {
            interval,
            pictures: 0,
            seen: None,
            longest: Duration::ZERO,
            counts: [0; BOUNDS.len()],
            listed: Vec::new(),
        }
    }

    /// Records a complete picture.
    fn picture(&mut self, now: Instant, time: SystemTime) {
        let (first, last) = self.seen.unwrap_or((now, now));
        let between = now - last;
        self.longest = self.longest.max(between);
        let beyond = between.saturating_sub(self.interval);
        for (count, bound) in self.counts.iter_mut().zip(BOUNDS) {
            *count += u64::from(beyond > bound);
        }
        if beyond > BOUNDS[0] && self.listed.len() < LISTED {
            self.listed.push(Interruption {
                at_s: (now - first).as_secs_f64(),
                unix_s: time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
                picture: self.pictures,
                between_ms: between.as_secs_f64() * 1e3,
            });
        }
        self.pictures += 1;
        self.seen = Some((first, now));
    }

    fn report(self) -> Report {
        let [over_100_ms, over_200_ms, over_300_ms] = self.counts;
        Report {
            pictures: self.pictures,
            seconds: self.seen.map_or(0.0, |(first, last)| (last - first).as_secs_f64()),
            longest_ms: self.longest.as_secs_f64() * 1e3,
            over_100_ms,
            over_200_ms,
            over_300_ms,
            interruptions: self.listed,
        }
    }
}

/// Summary of a measurement. The counts are cumulative: an interruption over 300 ms counts as one
/// over 100 ms too.
#[derive(Debug, Serialize)]
struct Report {
    pictures: u64,
    /// Time from the first picture to the last.
    seconds: f64,
    /// Maximum time between two pictures.
    longest_ms: f64,
    over_100_ms: u64,
    over_200_ms: u64,
    over_300_ms: u64,
    /// The first thousand interruptions over 100 ms.
    interruptions: Vec<Interruption>,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} pictures in {:.1} s", self.pictures, self.seconds)?;
        writeln!(f, "longest time between two: {:.0} ms", self.longest_ms)?;
        writeln!(
            f,
            "interruptions (beyond the frame interval): {} over 100 ms, {} over 200 ms, {} over 300 ms",
            self.over_100_ms, self.over_200_ms, self.over_300_ms
        )?;
        for one in &self.interruptions {
            writeln!(f, "  at {:8.2} s: {:.0} ms, before picture {}", one.at_s, one.between_ms, one.picture)?;
        }
        let more = self.over_100_ms - self.interruptions.len() as u64;
        if more > 0 {
            writeln!(f, "  and {more} more")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pictures of ten bytes that arrive in pieces.
    struct Pieces(Vec<usize>);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.0.pop().unwrap_or(0);
            buffer[..length].fill(1);
            Ok(length)
        }
    }

    #[test]
    fn pictures_count_when_they_are_complete() {
        let mut view = View::new(Duration::from_millis(33));
        watch(&mut Pieces(vec![9, 25, 1, 9]), 10, &mut view).expect("reads");
        assert_eq!(view.report().pictures, 4, "44 bytes are four pictures and a part of one");
    }

    #[test]
    fn an_interruption_is_what_goes_beyond_the_interval() {
        let begin = Instant::now();
        let mut view = View::new(Duration::from_millis(40));
        for ms in [0, 40, 180, 221, 562, 602] {
            view.picture(begin + Duration::from_millis(ms), UNIX_EPOCH + Duration::from_millis(ms));
        }
        let report = view.report();
        assert_eq!((report.over_100_ms, report.over_200_ms, report.over_300_ms), (1, 1, 1));
        assert!((report.longest_ms - 341.0).abs() < 1e-6, "{report}");
        let [one] = &report.interruptions[..] else { panic!("{report}") };
        assert_eq!((one.picture, one.at_s, one.unix_s), (4, 0.562, 0.562));
        assert!(report.to_string().contains("at     0.56 s: 341 ms, before picture 4"), "{report}");
    }

    #[test]
    fn what_is_listed_is_bounded() {
        let begin = Instant::now();
        let mut view = View::new(Duration::from_millis(40));
        for second in 0..=LISTED as u64 + 5 {
            view.picture(begin + Duration::from_secs(second), UNIX_EPOCH);
        }
        let report = view.report();
        assert_eq!((report.over_300_ms, report.interruptions.len()), (LISTED as u64 + 5, LISTED));
        assert!(report.to_string().ends_with("  and 5 more\n"));
    }
}
