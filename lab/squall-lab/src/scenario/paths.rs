//! Checks of paths in addition to those of the emulator: names, count, dead links, events after the
//! end.

use squall_net::{ConfigError, Direction, LinkConfig, PathConfig, RateConfig};
use squall_units::Rate;

use super::definition::{MAX_PATHS, check_name};
use super::place::{Problem, Step, problem};

/// Returns the first problem with the paths of a run of this length.
pub(super) fn check(paths: &[PathConfig], duration_us: u64) -> Result<(), Problem> {
    if !(1..=MAX_PATHS).contains(&paths.len()) {
        let words = format!("{} [[path]] tables, expected 1 to {MAX_PATHS}", paths.len());
        return Err(Problem::at_key("path", words));
    }
    for (index, path) in paths.iter().enumerate() {
        check_name(&path.name).map_err(|words| at(index, &["name"], words))?;
        if paths[..index].iter().any(|other| other.name == path.name) {
            return Err(at(index, &["name"], format!("name: two paths are called {:?}", path.name)));
        }
        check_rate(index, path)?;
        check_event_times(index, path, duration_us)?;
        path.check().map_err(|error| emulator_problem(index, path, &error))?;
        if let Some(bottleneck) = &path.bottleneck
            && (*bottleneck == path.name || paths.iter().all(|other| other.name != *bottleneck))
        {
            let words = format!("bottleneck: no other path is called {bottleneck:?}");
            return Err(at(index, &["bottleneck"], words));
        }
    }
    Ok(())
}

fn at(index: usize, field: &[&'static str], words: impl std::fmt::Display) -> Problem {
    problem(&["path"], index, field, words)
}

/// Slowest rate of a link, in bits per second. Anything below is a missing unit, as in `rate = 30`.
const SLOWEST: u64 = 1_000;

/// Checks that a link has a rate, at first or through a later event.
fn check_rate(index: usize, path: &PathConfig) -> Result<(), Problem> {
    for (direction, word) in [(Direction::Down, "down"), (Direction::Up, "up")] {
        let link: LinkConfig = path.link(direction);
        if let RateConfig::Fixed(rate) = link.rate
            && (1..SLOWEST).contains(&rate.bps())
        {
            let words = format!(
                "rate: {} bit/s {word} is below 1 kbps; units are written as in \"30mbps\"",
                rate.bps()
            );
            return Err(at(index, &["rate"], words));
        }
        let dead = link.rate == RateConfig::Fixed(Rate::from_bps(0));
        if dead && link.events.iter().all(|event| event.rate.is_none()) {
            return Err(at(index, &["rate"], format!("rate: 0 {word} for the whole run carries nothing")));
        }
    }
    Ok(())
}

fn check_event_times(index: usize, path: &PathConfig, duration_us: u64) -> Result<(), Problem> {
    let both = path.events.iter().map(|event| event.at).enumerate().map(|event| (None, event));
    let down = path.down.events.iter().map(|event| event.at).enumerate().map(|event| (Some("down"), event));
    let up = path.up.events.iter().map(|event| event.at).enumerate().map(|event| (Some("up"), event));
    for (link, (number, time)) in both.chain(down).chain(up) {
        if time.micros() >= duration_us {
            let words = format!("events: {time} is not before the end of the run");
            let mut found = at(index, &[], words);
            found.place.extend(link.map(Step::Key));
            found.place.extend([Step::Key("events"), Step::Index(number), Step::Key("at")]);
            return Err(found);
        }
    }
    Ok(())
}

/// Locates an error of the emulator at its field, if the error names it.
fn emulator_problem(index: usize, path: &PathConfig, error: &ConfigError) -> Problem {
    let error = match error {
        ConfigError::Path { problem, .. } => problem,
        other => other,
    };
    let field = match error {
        ConfigError::Mtu(_) => "mtu",
        ConfigError::Event(_) => "events",
        _ => return at(index, &[], error),
    };
    let mut found = at(index, &[field], error);
    // The emulator identifies an event by its time.
    let words = found.words.clone();
    let event = path.events.iter().position(|event| words.contains(&format!("event at {}:", event.at)));
    found.place.extend(event.map(Step::Index));
    found
}
