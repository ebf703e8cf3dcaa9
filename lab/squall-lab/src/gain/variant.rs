//! A scenario with other radios, and otherwise the same.

use squall_units::Span;

use super::{Parameter, study::GainError};
use crate::scenario::Scenario;

/// The scenario with all its radios at one value; with none, as it is. `lowest` is the smallest lead of the study
/// in microseconds: there the flows begin with the run, and later by what another lead is above it.
pub(super) fn variant(scenario: &Scenario, set: Option<(Parameter, f64)>, lowest: i64) -> Scenario {
    let mut variant = scenario.clone();
    // A check is about what the file says.
    variant.checks.clear();
    if let Some((parameter, value)) = set {
        for radio in variant.paths.iter_mut().filter_map(|path| path.radio.as_mut()) {
            parameter.set(radio, value);
        }
    }
    let moved = leads(&variant).max().map_or(0, |lead| lead.saturating_sub(lowest).max(0) as u64);
    delay(&mut variant, moved);
    variant
}

/// The leads in microseconds by which links are moved.
pub(super) fn leads(scenario: &Scenario) -> impl Iterator<Item = i64> {
    let radios = scenario.paths.iter().filter_map(|path| path.radio.as_ref());
    radios.filter(|radio| !radio.is_trace()).map(|radio| radio.lead.micros())
}

/// Refuses what cannot be moved as one.
///
/// # Errors
/// If there is no radio, or some links are moved by a lead and others are not.
pub(super) fn check(scenario: &Scenario) -> Result<(), GainError> {
    let traces = scenario.paths.iter().filter_map(|path| path.radio.as_ref());
    let traces = traces.filter(|radio| radio.is_trace()).count();
    match (traces, leads(scenario).count()) {
        (0, 0) => Err(GainError::NoRadio(scenario.name.clone())),
        (0, _) | (_, 0) => Ok(()),
        _ => Err(GainError::Mixed(scenario.name.clone())),
    }
}

/// The beginning of a scenario, if all flows have begun by then; else all of it.
pub(super) fn cut(scenario: &Scenario, duration_us: u64) -> Scenario {
    let mut scenario = scenario.clone();
    if duration_us >= scenario.duration_us || scenario.flows.iter().any(|flow| flow.start_us >= duration_us) {
        return scenario;
    }
    scenario.duration_us = duration_us;
    for flow in &mut scenario.flows {
        flow.end_us = flow.end_us.min(duration_us);
    }
    for path in &mut scenario.paths {
        path.events.retain(|event| event.at.micros() < duration_us);
        for link in [&mut path.up, &mut path.down] {
            link.events.retain(|event| event.at.micros() < duration_us);
        }
    }
    scenario
}

/// Everything that has a time begins so many microseconds later.
fn delay(scenario: &mut Scenario, by: u64) {
    scenario.duration_us += by;
    for flow in &mut scenario.flows {
        flow.start_us += by;
        flow.end_us += by;
    }
    for path in &mut scenario.paths {
        let links = path.up.events.iter_mut().chain(&mut path.down.events).map(|event| &mut event.at);
        for at in links.chain(path.events.iter_mut().map(|event| &mut event.at)) {
            *at = Span::from_micros(at.micros() + by);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(second: &str) -> Scenario {
        let text = format!(
            "name = \"s\"\nduration = \"2s\"\nschedulers = [\"ras\"]\n\
             [[path]]\nname = \"a\"\nrate = \"10mbps\"\nevents = [{{ at = \"1s\", outage = \"100ms\" }}]\n\
             [path.radio]\nlead = \"300ms\"\nnoise = 1.0\nwalk = {{}}\n\
             [[path]]\nname = \"b\"\nrate = \"10mbps\"\n{second}\n\
             [[flow]]\nname = \"f\"\nkind = \"blocks\"\nsize = \"1kB\"\ninterval = \"10ms\"\n\
             [[check]]\nflow = \"f\"\nmeasure = \"in_time_ratio\"\nat_least = \"1%\"\n"
        );
        Scenario::parse(&text, "s.toml").expect("is a scenario")
    }

    #[test]
    fn flows_and_events_go_with_the_links() {
        let scenario = scenario("");
        let moved = variant(&scenario, Some((Parameter::Lead, 1_000.0)), -500_000);
        assert_eq!(moved.paths[0].radio.as_ref().map(|radio| radio.lead.micros()), Some(1_000_000));
        assert_eq!((moved.flows[0].start_us, moved.flows[0].end_us), (1_500_000, 3_500_000));
        assert_eq!(moved.duration_us, 3_500_000);
        assert_eq!(moved.paths[0].events[0].at.micros(), 2_500_000);
        assert!(moved.checks.is_empty());
        let least = variant(&scenario, Some((Parameter::Lead, -500.0)), -500_000);
        assert_eq!((least.flows[0].start_us, least.duration_us), (0, 2_000_000));
        let own = variant(&scenario, None, -500_000);
        let noisy = variant(&scenario, Some((Parameter::Noise, 4.0)), -500_000);
        assert_eq!((own.duration_us, noisy.duration_us), (2_800_000, 2_800_000));
        assert_eq!(own.paths[0].radio, scenario.paths[0].radio);
    }

    #[test]
    fn a_part_ends_early() {
        let part = cut(&scenario(""), 900_000);
        assert_eq!((part.duration_us, part.flows[0].end_us), (900_000, 900_000));
        assert!(part.paths[0].events.is_empty());
        let mut late = scenario("");
        late.flows[0].start_us = 1_000_000;
        assert_eq!(cut(&late, 900_000), late);
        assert_eq!(cut(&late, 5_000_000), late);
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let trace = "radio = { trace = { rsrp = [[\"0s\", -90]] } }";
        assert!(matches!(check(&scenario(trace)), Err(GainError::Mixed(_))));
        check(&scenario("radio = { canyon = {} }")).expect("both are moved");
        let mut silent = scenario("");
        silent.paths[0].radio = None;
        assert!(matches!(check(&silent), Err(GainError::NoRadio(_))));
        silent.paths[1] = scenario(trace).paths[1].clone();
        check(&silent).expect("none is moved");
    }
}
