//! `squall-lab schedulers`: what can be picked, and a picture of what each does.

mod listing;

use std::{
    io::{IsTerminal as _, stderr},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex},
};

use clap::Args;
use squall::sched::{Entry, Registry};
use squall_lab::{Contender, picture};

use squall_terminal::{
    error::{usage, whole},
    list, output,
    progress::Progress,
    wrap,
};

/// Lists the schedulers that can be picked, with their options and where they come from, or draws what each
/// does.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  squall-lab schedulers\n  squall-lab schedulers dams ras\n  \
    squall-lab schedulers --json - | jq -r '.[].name'\n  squall-lab schedulers --draw out/schedulers.svg\n  \
    squall-lab schedulers minrtt minrtt-R 'rr(cap=35kB)' --draw out/few.svg\n\n\
    The picture shows the same three blocks on the same two paths, one of which loses packets for a moment: \
    when each packet occupies which path, and when each block is whole at the receiver. A cap counts from the \
    handing over.\n\n\
    A scheduler is picked by its name, with options in brackets: sp(path=1)\n\
    Scenarios and `squall-lab run` take it with -R at the end, too: the same with every block reliable")]
pub(crate) struct SchedulersArgs {
    /// Only these; with options and suffix, for the picture. Default: all
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Draw what they do instead of listing them, as SVG; - for standard output
    #[arg(long, value_name = "FILE.svg")]
    draw: Option<PathBuf>,
    /// Write the list as JSON; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &SchedulersArgs, registry: &Arc<Registry>) -> anyhow::Result<ExitCode> {
    let names = names(args, registry)?;
    let to_stdout = |file: &Option<PathBuf>| file.as_deref().is_some_and(output::is_stdout);
    if to_stdout(&args.draw) && to_stdout(&args.json) {
        return Err(usage("--draw and --json: only one of them can have standard output"));
    }
    if let Some(file) = &args.json {
        output::write(file, &listing::json(&entries(&names, registry))?)?;
    }
    if let Some(file) = &args.draw {
        draw(&names, registry, file)?;
    }
    let quiet = to_stdout(&args.draw) || to_stdout(&args.json);
    match &args.draw {
        _ if quiet => {}
        Some(file) => output::print(&format!("picture: {}\n", file.display()))?,
        None => output::print(&listing::text(&entries(&names, registry), wrap::width()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What was named, if all of it can be built; everything, if nothing was.
fn names(args: &SchedulersArgs, registry: &Registry) -> anyhow::Result<Vec<String>> {
    if args.names.is_empty() {
        return Ok(picture::reading_order(registry));
    }
    let names: Vec<String> =
        args.names.iter().flat_map(|names| list::split(names)).map(str::to_owned).collect();
    if names.is_empty() {
        return Err(usage("name a scheduler; `squall-lab schedulers` lists them"));
    }
    for name in &names {
        Contender::of(name).check(registry).map_err(usage)?;
    }
    Ok(names)
}

/// The entries behind the names, each once.
fn entries<'a>(names: &[String], registry: &'a Registry) -> Vec<&'a Entry> {
    let mut entries: Vec<&Entry> = Vec::new();
    for name in names.iter().map(|name| Contender::of(name).name()) {
        if entries.iter().all(|entry| entry.name != name) {
            entries.extend(registry.entries().find(|entry| entry.name == name));
        }
    }
    entries
}

fn draw(names: &[String], registry: &Arc<Registry>, file: &Path) -> anyhow::Result<()> {
    let shown = stderr().is_terminal().then(|| Mutex::new((0, Progress::default())));
    let svg = picture::svg(names, registry, &|| {
        let Some(Ok(mut shown)) = shown.as_ref().map(Mutex::lock) else { return };
        shown.0 += 1;
        let words = format!("{} of {} drawn", shown.0, names.len());
        shown.1.show(&words);
    });
    drop(shown);
    output::write(file, &svg.map_err(whole)?)
}
