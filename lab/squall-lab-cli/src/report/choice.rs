//! Selection of a run to show over time, on the command line.

use std::str::FromStr;

use squall_lab::experiment::Point;

/// `EXPERIMENT[AXIS=POINT,…]:SCHEDULER:SEED`; only the experiment is required.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Name of the experiment.
    pub(super) experiment: String,
    /// Points of some axes.
    pub(super) at: Point,
    /// Scheduler; `None`: all.
    pub(super) scheduler: Option<String>,
    /// Seed; `None`: the first.
    pub(super) seed: Option<u64>,
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let end = text.find(['[', ':']).unwrap_or(text.len());
        let (experiment, rest) = text.split_at(end);
        if experiment.is_empty() {
            return Err("it begins with the name of an experiment".into());
        }
        let (at, rest) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (inside, rest) = rest.split_once(']').ok_or("a ] is missing")?;
                (points(inside)?, rest)
            }
            None => (Point::new(), rest),
        };
        let mut parts = match (rest, rest.strip_prefix(':')) {
            ("", _) => "",
            (_, Some(parts)) => parts,
            _ => return Err(format!("expected a : where {rest:?} begins")),
        }
        .splitn(2, ':');
        let scheduler = parts.next().filter(|name| !name.is_empty()).map(str::to_owned);
        let seed =
            parts.next().map(|seed| seed.parse().map_err(|_| format!("{seed:?} is no seed"))).transpose()?;
        Ok(Self { experiment: experiment.to_owned(), at, scheduler, seed })
    }
}

fn points(text: &str) -> Result<Point, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (axis, point) = part.split_once('=').ok_or_else(|| format!("{part:?} is no AXIS=POINT"))?;
            Ok((axis.trim().to_owned(), point.trim().to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_the_name_is_optional() {
        let whole: Choice = "fig10[bandwidth=5+10, rtt=30]:storm(alpha=0.5,x=1)+late:3".parse().unwrap();
        assert_eq!((whole.experiment.as_str(), whole.seed), ("fig10", Some(3)));
        assert_eq!(whole.scheduler.as_deref(), Some("storm(alpha=0.5,x=1)+late"));
        assert_eq!((whole.at["bandwidth"].as_str(), whole.at["rtt"].as_str()), ("5+10", "30"));
        let bare: Choice = "fig10".parse().unwrap();
        assert_eq!((bare.at.len(), &bare.scheduler, bare.seed), (0, &None, None));
        let seed: Choice = "fig10::7".parse().unwrap();
        assert_eq!((seed.scheduler, seed.seed), (None, Some(7)));
    }

    #[test]
    fn mistakes_are_reported() {
        let error = |text: &str| text.parse::<Choice>().unwrap_err();
        assert_eq!(error(":dams"), "it begins with the name of an experiment");
        assert_eq!(error("fig10[rtt=30"), "a ] is missing");
        assert_eq!(error("fig10[rtt]"), "\"rtt\" is no AXIS=POINT");
        assert_eq!(error("fig10[rtt=30]dams"), "expected a : where \"dams\" begins");
        assert_eq!(error("fig10:dams:x"), "\"x\" is no seed");
    }
}
