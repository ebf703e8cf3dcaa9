//! Names of local interfaces, by which hints select paths.

use std::{collections::BTreeMap, sync::Arc};

use crate::Interface;

/// The names of local interfaces.
#[derive(Debug, Default)]
pub(super) struct Labels(BTreeMap<Interface, Vec<Arc<str>>>);

impl Labels {
    pub(super) fn set(&mut self, local: Interface, labels: Vec<Arc<str>>) {
        self.0.insert(local, labels);
    }

    pub(super) fn is_of(&self, local: Interface, name: &str) -> bool {
        self.0.get(&local).is_some_and(|labels| labels.iter().any(|label| **label == *name))
    }
}
