//! Positions of values in the text.

use std::fmt::Display;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A step from a table or list to one of its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Key(&'static str),
    Index(usize),
    /// A byte offset in the text that is already determined.
    Offset(usize),
}

/// A problem and its position.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) place: Vec<Step>,
    pub(crate) words: String,
}

impl Problem {
    /// Creates a problem at a place.
    pub(crate) fn at(place: Place, words: impl Into<String>) -> Self {
        Self { place: place.0, words: words.into() }
    }

    /// Creates a problem at a top-level field.
    pub(super) fn at_key(key: &'static str, words: impl Into<String>) -> Self {
        Self { place: vec![Step::Key(key)], words: words.into() }
    }
}

/// Sequence of steps to a value.
#[derive(Debug, Clone)]
pub(crate) struct Place(Vec<Step>);

impl Place {
    /// A top-level field.
    pub(crate) fn of(key: &'static str) -> Self {
        Self(vec![Step::Key(key)])
    }

    /// A field of the table at this place.
    pub(crate) fn key(mut self, key: &'static str) -> Self {
        self.0.push(Step::Key(key));
        self
    }

    /// An entry of the list at this place.
    pub(crate) fn index(mut self, index: usize) -> Self {
        self.0.push(Step::Index(index));
        self
    }
}

/// Creates a problem with a field of the `index`th entry of a list, or with the entry itself if
/// `field` is empty.
pub(super) fn problem(
    list: &[&'static str],
    index: usize,
    field: &[&'static str],
    words: impl Display,
) -> Problem {
    let keys = |names: &[&'static str]| names.iter().copied().map(Step::Key).collect::<Vec<_>>();
    let mut place = keys(list);
    place.push(Step::Index(index));
    place.extend(keys(field));
    Problem { place, words: words.to_string() }
}

/// The text as a tree with positions.
#[derive(Debug)]
pub(super) struct Outline<'a>(Option<Spanned<DeTable<'a>>>);

impl<'a> Outline<'a> {
    /// Parses the text. If it is not valid TOML, all offsets are 0.
    pub(super) fn of(text: &'a str) -> Self {
        Self(DeTable::parse(text).ok())
    }

    /// Returns the byte offset of the key or entry at this place, or of the nearest enclosing one
    /// that exists.
    pub(super) fn offset(&self, place: &[Step]) -> usize {
        self.follow(place).1
    }

    /// Returns the `index`th entry of a top-level list of tables, with positions, if it exists.
    pub(super) fn entry(&self, list: &'static str, index: usize) -> Option<DeTable<'a>> {
        match self.follow(&[Step::Key(list), Step::Index(index)]).0 {
            Some(Node::Table(table)) => Some(table.clone()),
            _ => None,
        }
    }

    fn follow(&self, place: &[Step]) -> (Option<Node<'_, 'a>>, usize) {
        let Some(root) = &self.0 else { return (None, 0) };
        let (mut node, mut offset) = (Node::Table(root.get_ref()), 0);
        for step in place {
            if let Step::Offset(at) = step {
                return (None, *at);
            }
            let Some((next, at)) = node.child(*step) else { return (None, offset) };
            (node, offset) = (next, at);
        }
        (Some(node), offset)
    }
}

#[derive(Debug, Clone, Copy)]
enum Node<'o, 'a> {
    Table(&'o DeTable<'a>),
    Value(&'o DeValue<'a>),
}

impl<'o, 'a> Node<'o, 'a> {
    fn child(self, step: Step) -> Option<(Self, usize)> {
        match (self, step) {
            (Node::Table(table), Step::Key(name)) => {
                let (key, value) = table.iter().find(|(key, _)| key.get_ref() == name)?;
                Some((Node::of(value), key.span().start))
            }
            (Node::Value(DeValue::Array(list)), Step::Index(index)) => {
                let value = list.get(index)?;
                Some((Node::of(value), value.span().start))
            }
            _ => None,
        }
    }

    fn of(value: &'o Spanned<DeValue<'a>>) -> Self {
        match value.get_ref() {
            DeValue::Table(table) => Node::Table(table),
            other => Node::Value(other),
        }
    }
}
