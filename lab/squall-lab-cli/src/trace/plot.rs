//! `squall-lab trace plot`: recorded links over time in one picture.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use squall_report::{MAX_LINKS, links};
use squall_terminal::{error::usage, output};
use squall_trace::Quantity;

use super::reading::ReadingArgs;

/// Draws the rates of recorded links over time, all on the same axes, with the round-trip times
/// below if any file has some.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  squall-lab trace plot scenarios/traces/drive.csv -o out/drive.svg\n  \
    squall-lab trace plot scenarios/traces/* -o out/links.svg\n\n\
    Lines differ by dash and marker as well as by colour. Times are put together in steps, as the picture says")]
pub(crate) struct PlotArgs {
    /// Recorded links, at most 8
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// File of the picture; - for standard output
    #[arg(short, long, value_name = "FILE.svg")]
    output: PathBuf,
    #[command(flatten)]
    reading: ReadingArgs,
}

/// Runs the command.
pub(crate) fn run(args: &PlotArgs) -> anyhow::Result<ExitCode> {
    if args.files.len() > MAX_LINKS {
        let given = args.files.len();
        return Err(usage(format!("a picture has room for {MAX_LINKS} files, not for {given}")));
    }
    let mut all = Vec::new();
    for file in &args.files {
        let link = args.reading.load(file)?;
        if link.rate().is_none() && link.numbers(Quantity::Rtt).next().is_none() {
            return Err(usage(format!(
                "{}: there is neither a rate nor a round trip to draw",
                file.display()
            )));
        }
        all.push((file.display().to_string(), link));
    }
    output::write(&args.output, &links(&all, args.reading.gaps()))?;
    if !output::is_stdout(&args.output) {
        output::print(&format!("picture: {}\n", args.output.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
