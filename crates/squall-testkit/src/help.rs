//! Help texts of programs, which users read and copy.

/// Maximum length of a line in an example, so that no terminal wraps it.
const WIDEST: usize = 80;

/// Checks that the examples in the help of a command and of its subcommands can be copied: each
/// line fits a terminal, and begins with one of `programs` or continues the line before. Returns
/// the number of lines.
///
/// # Panics
/// If an example cannot be copied.
pub fn check_help(mut command: clap::Command, programs: &[&str]) -> usize {
    let mut all = Vec::new();
    let name = command.get_name().to_owned();
    helps(&mut command, &name, &mut all);
    let (mut count, mut wrong) = (0, Vec::new());
    for (name, help) in &all {
        let mut continues = false;
        for line in examples(help) {
            count += 1;
            let begins = programs.iter().any(|program| line.starts_with(program));
            if !(continues || begins) || line.chars().count() >= WIDEST {
                wrong.push(format!("{name} --help: {line}"));
            }
            continues = line.ends_with('\\');
        }
        if continues {
            wrong.push(format!("{name} --help: the last example is cut"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    count
}

/// Collects the help of a command and of its subcommands, each with its name.
fn helps(command: &mut clap::Command, name: &str, all: &mut Vec<(String, String)>) {
    all.push((name.to_owned(), command.clone().term_width(WIDEST).render_long_help().to_string()));
    let below: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    for below in below.iter().filter(|name| *name != "help") {
        let command = command.find_subcommand_mut(below).expect("it is listed");
        helps(command, &format!("{name} {below}"), all);
    }
}

/// Returns the examples of a help text, line by line without their indent.
fn examples(help: &str) -> impl Iterator<Item = &str> {
    let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
    lines.take_while(|line| !line.is_empty()).map(str::trim)
}
