//! Options of schedulers outside their names: `[options.NAME]` of the file, so that an axis can
//! vary them under one name.

use super::{Problem, Scenario};
use crate::variant::Variant;

impl Scenario {
    /// Adds the scenario's options to the label of a scheduler, except those that the label itself
    /// sets.
    pub(crate) fn configured(&self, label: &str) -> String {
        let variant = Variant::of(label);
        let Some(options) = self.options.get(variant.name()) else { return label.to_owned() };
        let (label, scheduler) = (label.trim(), variant.scheduler);
        let (_, own) = scheduler.split_once('(').unwrap_or((scheduler, ""));
        let own: Vec<&str> =
            own.trim_end_matches(')').split(',').map(str::trim).filter(|one| !one.is_empty()).collect();
        let is_own = |name: &str| own.iter().any(|one| one.split('=').next().map(str::trim) == Some(name));
        let added = options
            .iter()
            .filter(|(name, _)| !is_own(name))
            .map(|(name, value)| format!("{name}={}", value.0));
        let all: Vec<String> = own.iter().map(|one| (*one).to_owned()).chain(added).collect();
        format!("{}({}){}", variant.name(), all.join(","), &label[scheduler.len()..])
    }

    /// Checks that options belong to schedulers that are compared.
    pub(super) fn check_options(&self) -> Result<(), Problem> {
        let is_run =
            |name: &&String| self.schedulers.iter().any(|label| Variant::of(label).name() == name.as_str());
        match self.options.keys().find(|name| !is_run(name)) {
            Some(name) => {
                Err(Problem::at_key("options", format!("options: no scheduler is called {name:?}")))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(options: &str) -> Result<Scenario, String> {
        let text = format!(
            "name = \"a\"\nduration = \"1s\"\nschedulers = [\"dams-robust+late\", \"rr\"]\n[options]\n{options}\n\
             [[path]]\nname = \"a\"\nrate = \"1mbps\"\ndelay = \"5ms\"\n[[flow]]\nname = \"f\"\nkind = \"bulk\"\n"
        );
        Scenario::parse(&text, "a.toml").map_err(|error| error.problem())
    }

    #[test]
    fn options_are_added_to_the_label_unless_it_has_them() {
        let scenario = scenario("dams-robust = { alpha = 4, credit = \"steep\" }").expect("is valid");
        let configured = |label| scenario.configured(label);
        assert_eq!(configured("dams-robust"), "dams-robust(alpha=4,credit=steep)");
        assert_eq!(configured("dams-robust+late-R"), "dams-robust(alpha=4,credit=steep)+late-R");
        assert_eq!(configured(" dams-robust( alpha=2 )+late"), "dams-robust(alpha=2,credit=steep)+late");
        assert_eq!(configured("rr+late"), "rr+late");
    }

    #[test]
    fn options_name_a_scheduler_that_is_run_and_are_known_to_it() {
        assert_eq!(
            scenario("storm = { alpha = 1 }").unwrap_err(),
            "options: no scheduler is called \"storm\""
        );
        assert!(scenario("rr = { cap = [1] }").unwrap_err().contains("expected a text, number or boolean"));
        let known =
            scenario("rr = { nonsense = 1 }").expect("is read").check_schedulers(&squall_papers::registry());
        assert!(known.is_err_and(|problem| problem.words.contains("nonsense")));
    }
}
