//! What a scenario's script does to a link at a moment, in words.

use squall_net::{LinkEvent, Micros};

/// In a few words, for a line on the screen.
pub(super) fn words(events: &[LinkEvent], now: Micros) -> String {
    let back = events.iter().filter_map(|event| {
        let (from, to) = (event.at.micros(), event.at.micros() + event.outage?.micros());
        (from..to).contains(&now).then_some(to)
    });
    if let Some(back) = back.max() {
        return format!("no signal, back in {:.1} s", (back - now) as f64 / 1e6);
    }
    let moving = events.iter().rev().find(|event| {
        let over = event.over.map_or(0, squall_net::Span::micros);
        (event.at.micros()..event.at.micros() + over).contains(&now)
    });
    let Some(event) = moving else { return "steady".to_owned() };
    let rate = event.rate.map(|rate| format!("rate on its way to {rate}"));
    let delay = event.delay.map(|delay| format!("delay on its way to {delay}"));
    [rate, delay].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
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
            assert_eq!(words(&events, at_ms * 1_000), expected);
        }
    }
}
