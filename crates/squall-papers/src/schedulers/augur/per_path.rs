//! An option with one value for all paths, and values for single ones: `3.5`, `1:2`, `3.5;1:2;2:8`.

use std::{fmt::Display, str::FromStr};

use squall_sched::{MAX_PATHS, PathId};

/// Values by path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PerPath<T> {
    /// Value of all paths without their own.
    pub(super) all: Option<T>,
    own: [Option<T>; MAX_PATHS],
}

impl<T> Default for PerPath<T> {
    fn default() -> Self {
        Self { all: None, own: [const { None }; MAX_PATHS] }
    }
}

impl<T: Copy> PerPath<T> {
    /// Returns the value for this path only.
    pub(super) fn own(&self, path: PathId) -> Option<T> {
        self.own.get(usize::from(path.0)).copied().flatten()
    }
}

impl<T: FromStr<Err: Display>> FromStr for PerPath<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut values = Self::default();
        let is_list = text.contains([';', ':']);
        for item in text.split(';').map(str::trim) {
            let wrong = |why: &str| if is_list { format!("in '{item}': {why}") } else { why.to_owned() };
            let (place, value) = match item.split_once(':') {
                None => (&mut values.all, item),
                Some((path, value)) => {
                    let place = path.trim().parse().ok().and_then(|id: usize| values.own.get_mut(id));
                    (place.ok_or_else(|| wrong("a path id is from 0 to 7"))?, value.trim())
                }
            };
            let value = value.parse().map_err(|error: T::Err| wrong(&error.to_string()))?;
            if place.replace(value).is_some() {
                return Err(wrong("it is given twice"));
            }
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::btree_map, option, prelude::*};

    use super::*;

    fn read(text: &str) -> Result<PerPath<u32>, String> {
        text.parse()
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, why) in [
            ("", "cannot parse integer from empty string"),
            ("x", "invalid digit found in string"),
            ("1:x", "in '1:x': invalid digit found in string"),
            ("3;8:1", "in '8:1': a path id is from 0 to 7"),
            ("wifi:1", "in 'wifi:1': a path id is from 0 to 7"),
            ("1:2;1:3", "in '1:3': it is given twice"),
            ("2;3", "in '3': it is given twice"),
            ("1:2;", "in '': cannot parse integer from empty string"),
            ("1:2:3", "in '1:2:3': invalid digit found in string"),
        ] {
            assert_eq!(read(text), Err(why.to_owned()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(
            all in option::of(any::<u32>()), own in btree_map(0..MAX_PATHS as u8, any::<u32>(), 0..=MAX_PATHS),
        ) {
            prop_assume!(all.is_some() || !own.is_empty());
            let items = own.iter().map(|(path, value)| format!("{path}:{value}"));
            let text = items.chain(all.map(|value| value.to_string())).collect::<Vec<_>>().join(" ; ");
            let values = read(&text).expect("is valid");
            prop_assert_eq!(values.all, all);
            for path in 0..MAX_PATHS as u8 {
                prop_assert_eq!(values.own(PathId(path)), own.get(&path).copied());
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9:; x.]{0,12}") {
            let _ = read(&text);
        }
    }
}
