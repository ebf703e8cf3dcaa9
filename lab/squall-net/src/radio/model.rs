//! Declaration of radio models.

use crate::error::ConfigError;

/// Rejects a number outside its bounds (both inclusive), and NaN.
pub(super) fn within(field: &str, value: f64, least: f64, most: f64) -> Result<(), ConfigError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let problem = format!("{value} is not between {least} and {most}");
    Err(ConfigError::Field { field: field.to_owned(), problem })
}

/// Declares a model of numbers with optional fields in files: each field with its default and its
/// bounds, so that the three stay together. The model has [`Default`], serde, and `check`, which
/// returns the first field that is out of bounds.
///
/// Errors name a field as `radio.walk.near`. Bounds include both ends, and may use other fields of
/// the model:
///
/// ```text
/// model! {
///     pub struct Walk in "radio.walk" as walk {
///         near: f64 = 2.0, within [0.0, 10_000.0];
///         far: f64 = 30.0, within [walk.near + 0.1, 20_000.0];
///     }
/// }
/// ```
macro_rules! model {
    (
        $(#[$about:meta])*
        pub struct $name:ident in $key:literal as $model:ident {
            $(
                $(#[$doc:meta])*
                $field:ident: $type:ty = $default:expr $(, within [$least:expr, $most:expr])?;
            )*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $name {
            pub(in crate::radio) fn check(&self) -> Result<(), crate::error::ConfigError> {
                let $model = self;
                $($(
                    let field = concat!($key, ".", stringify!($field));
                    crate::radio::model::within(field, $model.$field, $least, $most)?;
                )?)*
                Ok(())
            }
        }
    };
}

pub(super) use model;
