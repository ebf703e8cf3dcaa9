//! A table of the file, read key by key; what is left over is a mistake.

use std::{fmt::Display, str::FromStr};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::fault::Fault;

/// How like a name must be to another one to be taken for a slip, from 0 to 1 (Jaro-Winkler).
const NEAR: f64 = 0.8;

/// A table, and which of its keys were asked for.
pub(super) struct Section<'t, 'i> {
    /// What it is called in errors: `[connect]`.
    name: String,
    /// Where it stands.
    at: usize,
    table: &'t DeTable<'i>,
    known: Vec<&'static str>,
}

/// A value, and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Placed<T> {
    pub(super) value: T,
    pub(super) at: usize,
}

impl<'t, 'i> Section<'t, 'i> {
    pub(super) fn new(name: impl Into<String>, at: usize, table: &'t DeTable<'i>) -> Self {
        Self { name: name.into(), at, table, known: Vec::new() }
    }

    /// Where it stands.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// A mistake of the table as a whole.
    pub(super) fn fault(&self, words: impl Display) -> Fault {
        Fault::new(self.at, format!("{}: {words}", self.name))
    }

    /// A text.
    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<Placed<String>>, Fault> {
        self.get(key, "a text", |value| value.as_str().map(str::to_owned))
    }

    /// A text that is read as something else.
    pub(super) fn parse<T: FromStr<Err: Display>>(
        &mut self,
        key: &'static str,
    ) -> Result<Option<Placed<T>>, Fault> {
        let Some(Placed { value, at }) = self.text(key)? else { return Ok(None) };
        let read = value.parse().map_err(|error| Fault::new(at, format!("{key}: {error}")))?;
        Ok(Some(Placed { value: read, at }))
    }

    /// One of several words.
    pub(super) fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&'static str, T)],
    ) -> Result<Option<T>, Fault> {
        let Some(Placed { value, at }) = self.text(key)? else { return Ok(None) };
        choose(key, &value, words).map(Some).map_err(|problem| Fault::new(at, problem))
    }

    /// A whole number within bounds.
    pub(super) fn number(&mut self, key: &'static str, least: u64, most: u64) -> Result<Option<u64>, Fault> {
        let read = |value: &DeValue<'_>| {
            value.as_integer().and_then(|number| i128::from_str_radix(number.as_str(), number.radix()).ok())
        };
        let Some(Placed { value, at }) = self.get(key, "a whole number", read)? else { return Ok(None) };
        let within = u64::try_from(value).ok().filter(|value| (least..=most).contains(value));
        within
            .map(Some)
            .ok_or_else(|| Fault::new(at, format!("{key}: {value} is not between {least} and {most}")))
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, key: &'static str) -> Result<Option<bool>, Fault> {
        Ok(self.get(key, "true or false", DeValue::as_bool)?.map(|placed| placed.value))
    }

    /// A list of texts.
    pub(super) fn list(&mut self, key: &'static str) -> Result<Option<Placed<Vec<String>>>, Fault> {
        self.get(key, "a list of texts", |value| {
            value.as_array()?.iter().map(|one| one.get_ref().as_str().map(str::to_owned)).collect()
        })
    }

    /// A table in it.
    pub(super) fn section(&mut self, key: &'static str) -> Result<Option<Section<'t, 'i>>, Fault> {
        let placed = self.get(key, "a table", |value| value.as_table())?;
        Ok(placed.map(|Placed { value, at }| Section::new(format!("[{key}]"), at, value)))
    }

    /// A list of tables in it.
    pub(super) fn sections(&mut self, key: &'static str) -> Result<Vec<Section<'t, 'i>>, Fault> {
        let read = |value: &'t DeValue<'i>| {
            let tables =
                value.as_array()?.iter().map(|one| Some((one.get_ref().as_table()?, one.span().start)));
            tables.collect::<Option<Vec<_>>>()
        };
        let Some(Placed { value, .. }) = self.get(key, "a list of tables", read)? else {
            return Ok(Vec::new());
        };
        let named = |(table, at)| Section::new(format!("[[{key}]]"), at, table);
        Ok(value.into_iter().map(named).collect())
    }

    /// Everything must have been asked for by now.
    pub(super) fn finish(self) -> Result<(), Fault> {
        let strange = self.table.iter().find(|(key, _)| !self.known.contains(&key.get_ref().as_ref()));
        let Some((key, _)) = strange else { return Ok(()) };
        let known: Vec<_> = self.known.iter().map(|name| (*name, ())).collect();
        let words = format!("{}: unknown key '{}'{}", self.name, key.get_ref(), hint(key.get_ref(), &known));
        Err(Fault::new(key.span().start, words))
    }

    fn get<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        read: impl FnOnce(&'t DeValue<'i>) -> Option<T>,
    ) -> Result<Option<Placed<T>>, Fault> {
        self.known.push(key);
        let Some((_, value)) = self.table.iter().find(|(name, _)| name.get_ref() == key) else {
            return Ok(None);
        };
        let at = start(value);
        match read(value.get_ref()) {
            Some(value) => Ok(Some(Placed { value, at })),
            None => Err(Fault::new(at, format!("{key}: expected {expected}"))),
        }
    }
}

fn start(value: &Spanned<DeValue<'_>>) -> usize {
    value.span().start
}

/// The one that is called so, or what is wrong with the name.
pub(super) fn choose<T: Copy>(key: &str, given: &str, words: &[(&'static str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| *word == given);
    found
        .map(|(_, value)| *value)
        .ok_or_else(|| format!("{key}: unknown word '{given}'{}", hint(given, words)))
}

/// What may have been meant, or what there is.
fn hint<T>(given: &str, words: &[(&'static str, T)]) -> String {
    let near = words.iter().map(|(word, _)| (strsim::jaro_winkler(given, word), word));
    match near.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((likeness, word)) if likeness > NEAR => format!("; did you mean '{word}'?"),
        _ => {
            let all: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            format!("; there are {}", all.join(", "))
        }
    }
}
