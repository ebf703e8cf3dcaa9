//! What a scenario does to a link at a moment, in words.

use squall_net::{LinkEvent, radio::Air};
use squall_units::Micros;

/// In a few words, for a line on the screen: what happens by script, or else what the radio makes of the link.
pub(super) fn words(events: &[LinkEvent], air: Option<&Air>, now: Micros) -> String {
    let back = events.iter().filter_map(|event| {
        let (from, to) = (event.at.micros(), event.at.micros() + event.outage?.micros());
        (from..to).contains(&now).then_some(to)
    });
    if let Some(back) = back.max() {
        return format!("no signal, back in {:.1} s", (back - now) as f64 / 1e6);
    }
    let moving = events.iter().rev().find(|event| {
        let over = event.over.map_or(0, squall_units::Span::micros);
        (event.at.micros()..event.at.micros() + over).contains(&now)
    });
    let Some(event) = moving else {
        return air.map_or_else(|| "steady".to_owned(), air_words);
    };
    let rate = event.rate.map(|rate| format!("rate on its way to {rate}"));
    let delay = event.delay.map(|delay| format!("delay on its way to {delay}"));
    [rate, delay].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The level that decides, and what it leaves of the rate.
fn air_words(air: &Air) -> String {
    let levels = &air.levels;
    let told = [("SINR", levels.sinr, "dB"), ("RSRP", levels.rsrp, "dBm"), ("RSSI", levels.rssi, "dBm")];
    let told = told.into_iter().find_map(|(name, level, unit)| Some(format!("{name} {:.0} {unit}", level?)));
    match told.filter(|_| !levels.detached) {
        None => "in no network".to_owned(),
        Some(level) if air.conditions.outage => format!("{level}, nothing passes"),
        Some(level) => format!("{level} gives {:.0} %", air.conditions.share.as_f64() * 100.0),
    }
}

#[cfg(test)]
mod tests {
    use squall_net::radio::{Levels, WifiMap};

    use super::*;

    #[test]
    fn the_script_is_told_in_words() {
        let path: squall_net::PathConfig =
            squall_lab::Scenario::parse(include_str!("../../../../scenarios/fading.toml"), "fading.toml")
                .expect("is valid")
                .paths
                .swap_remove(0);
        let events = path.link(squall_net::Direction::Down).events;
        for (at_ms, expected) in [
            (1_000, "steady"),
            (3_100, "rate on its way to 10mbps"),
            (5_200, "no signal, back in 1.0 s"),
            (6_300, "steady"),
        ] {
            assert_eq!(words(&events, None, at_ms * 1_000), expected);
        }
    }

    #[test]
    fn where_no_script_acts_the_radio_is_told() {
        let levels = |rssi, detached| Levels { rssi: Some(rssi), detached, ..Levels::default() };
        for (levels, expected) in [
            (levels(-70.0, false), "RSSI -70 dBm gives 50 %"),
            (levels(-92.0, false), "RSSI -92 dBm, nothing passes"),
            (levels(-92.0, true), "in no network"),
        ] {
            let conditions = WifiMap::default().conditions(&levels);
            assert_eq!(words(&[], Some(&Air { levels, conditions, quality: None }), 0), expected);
        }
    }
}
