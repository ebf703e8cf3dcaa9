//! Congestion controllers by name.

use super::CongestionControl;

type Find = Box<dyn Fn(&str) -> Option<CongestionControl> + Send + Sync>;

/// The congestion controllers that are available by name.
pub struct Registry(Vec<(CongestionControl, Find)>);

/// No congestion controller has that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown congestion control '{name}'; there are {known}")]
pub struct UnknownController {
    /// The requested name.
    pub name: String,
    /// The available names.
    pub known: String,
}

impl Registry {
    /// Creates a registry with the controllers of this crate.
    pub fn standard() -> Self {
        let mut registry = Self(Vec::new());
        registry.register(CongestionControl::default());
        registry.register(CongestionControl::CUBIC);
        registry.register(CongestionControl::CUBIC_TOLERANT);
        registry.register(CongestionControl::NEW_RENO);
        registry.register(CongestionControl::BBR3);
        registry
    }

    /// Adds a controller, or replaces the one with its name.
    pub fn register(&mut self, control: CongestionControl) {
        let only = control.clone();
        self.register_family(control, move |name| (name == only.name()).then(|| only.clone()));
    }

    /// Adds controllers whose names have a parameter: `example` is listed, `find` returns that of a
    /// name.
    pub fn register_family(
        &mut self,
        example: CongestionControl,
        find: impl Fn(&str) -> Option<CongestionControl> + Send + Sync + 'static,
    ) {
        self.0.retain(|(known, _)| *known != example);
        self.0.push((example, Box::new(find)));
    }

    /// Iterates over the controllers, in the order in which they were added.
    pub fn controls(&self) -> impl Iterator<Item = &CongestionControl> {
        self.0.iter().map(|(control, _)| control)
    }

    /// Returns the names as a list in a sentence: `steady, cubic, …`.
    pub fn names(&self) -> String {
        self.controls().map(CongestionControl::name).collect::<Vec<_>>().join(", ")
    }

    /// Returns the controller with that name.
    ///
    /// # Errors
    /// If there is none.
    pub fn build(&self, name: &str) -> Result<CongestionControl, UnknownController> {
        self.0
            .iter()
            .find_map(|(_, find)| find(name))
            .ok_or_else(|| UnknownController { name: name.into(), known: self.names() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::SteadyConfig;

    #[test]
    fn controllers_are_picked_by_name_and_others_are_refused() {
        let mut registry = Registry::standard();
        assert_eq!(registry.build("cubic"), Ok(CongestionControl::CUBIC));
        assert_eq!(registry.build("steady"), Ok(CongestionControl::default()));
        let own = |n: u8| CongestionControl::new(format!("own({n})"), SteadyConfig::default());
        registry.register_family(own(2), move |name| {
            Some(own(name.strip_prefix("own(")?.strip_suffix(')')?.parse().ok()?))
        });
        registry.register(CongestionControl::CUBIC);
        assert_eq!(registry.build("own(7)").map(|own| own.to_string()), Ok("own(7)".into()));
        let error = registry.build("own(x)").map_err(|error| error.to_string());
        let known = "steady, cubic-tolerant, newreno, bbr3, own(2), cubic";
        assert_eq!(error, Err(format!("unknown congestion control 'own(x)'; there are {known}")));
    }
}
