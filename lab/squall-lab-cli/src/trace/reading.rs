//! Reading options of `squall-lab trace`.

use std::path::Path;

use clap::{
    Args, ValueEnum,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use squall_trace::{Format, Gaps, Recording, Wishes};

use squall_terminal::{error::usage, input};

/// Properties of the input that the files do not contain.
#[derive(Args, Clone, Debug)]
pub(super) struct ReadingArgs {
    /// Format of the input; recognised by its first line if omitted
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    from: Option<Format>,
    /// Rate to use: down_mbps, up_mbps, or any column of a CSV file that ends with _bps, _kbps or
    /// _mbps. Default: down_mbps, or up_mbps if there is no other
    #[arg(long, value_name = "NAME")]
    column: Option<String>,
    /// Part to use of a log with several
    #[arg(long, value_name = "NAME")]
    part: Option<String>,
    /// State of the link during gaps in the recording (the event "gap")
    #[arg(long, value_name = "WHAT", default_value = "hold")]
    gaps: GapsArg,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum GapsArg {
    /// The previous rate continued
    Hold,
    /// The link delivered nothing
    Stall,
}

impl ReadingArgs {
    /// Loads a file.
    pub(super) fn load(&self, file: &Path) -> anyhow::Result<Recording> {
        input::check(file)?;
        let wishes =
            Wishes { format: self.from, column: self.column.clone(), part: self.part.clone(), tech: None };
        Recording::load(file, &wishes).map_err(usage)
    }

    pub(super) fn gaps(&self) -> Gaps {
        match self.gaps {
            GapsArg::Hold => Gaps::Hold,
            GapsArg::Stall => Gaps::Stall,
        }
    }
}

/// All formats, with their descriptions for `--help`.
pub(crate) fn formats() -> impl TypedValueParser<Value = Format> {
    let values = Format::ALL.map(|format| PossibleValue::new(format.name()).help(format.about()));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Format>())
}
