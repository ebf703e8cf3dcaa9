//! `squall ctl`: controls a running tunnel over its control socket.

use std::{
    fmt::Write as _,
    io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use squall_observe::status::{FlowStatus, SessionStatus, TenantStatus, WhyStatus};
use squall_terminal::{error::usage, output, wrap};
use squall_tunnel::config::TenantConfig;

use crate::{
    fetch,
    table::{Table, span},
    tenants::{self, megabytes},
    why,
};

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum length of an answer in bytes.
const MAX_ANSWER: u64 = 8 << 20;

/// Size limit of a tenant's file in bytes.
const MAX_FILE: u64 = 60 << 10;

/// Code of an error in the parameters (JSON-RPC 2.0, section 5.1).
const PARAMS: i64 = -32_602;

/// Controls a running tunnel over its control socket.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  squall ctl list\n  squall ctl add acme.toml\n  \
                        squall ctl limits acme --rate-in 20Mbps --bytes none\n  \
                        squall ctl --json why acme/cam | jq '.stories[].cause'\n\n\
                        The tunnel must have a socket: see `control` in docs/tenants.md.")]
pub(crate) struct CtlArgs {
    /// Control socket of the tunnel; also read from SQUALL_CONTROL
    #[arg(
        long,
        value_name = "PATH",
        env = "SQUALL_CONTROL",
        default_value = "/run/squall/site/control.sock"
    )]
    socket: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Lists sessions, flows and tenants
    List,
    /// Adds a tenant; it stays until it is removed here
    Add {
        /// TOML file with the keys of one [[tenant]]; - for standard input
        file: PathBuf,
    },
    /// Removes a tenant that was added here; its sessions end
    Remove {
        /// Name of the tenant
        name: String,
    },
    /// Shows the limits of a tenant, or changes some of them
    Limits(LimitsArgs),
    /// Explains why blocks of a flow were late or lost
    Why {
        /// Name of the flow; TENANT/FLOW for that of a tenant
        flow: String,
    },
    /// Moves the sessions of an exit to other exits; then the exit ends
    Drain,
}

#[derive(Args, Debug)]
struct LimitsArgs {
    /// Name of the tenant
    name: String,
    /// Maximum number of sessions at a time; none for max_sessions of the exit. With the other
    /// options, none is no limit
    #[arg(long, value_name = "N")]
    max_sessions: Option<String>,
    /// Maximum rate from the tenant's entries to the exit
    #[arg(long, value_name = "RATE")]
    rate_in: Option<String>,
    /// Maximum rate from the exit to the tenant's entries
    #[arg(long, value_name = "RATE")]
    rate_out: Option<String>,
    /// Maximum bytes in a period, both directions together
    #[arg(long, value_name = "SIZE")]
    bytes: Option<String>,
    /// Period of the calendar, in UTC
    #[arg(long, value_name = "PERIOD", value_parser = ["day", "month"])]
    period: Option<String>,
    /// Restore the limits of the tenant's source
    #[arg(long)]
    reset: bool,
}

/// Runs the command.
pub(crate) fn run(args: &CtlArgs) -> anyhow::Result<ExitCode> {
    let (method, params) = request(&args.command)?;
    let result = call(&args.socket, method, &params)?;
    let text = match &args.command {
        _ if args.json => format!("{}\n", serde_json::to_string_pretty(&result)?),
        Command::List => list(&result)?,
        Command::Add { .. } => format!("added tenant {}\n", result["added"].as_str().unwrap_or_default()),
        Command::Remove { name } => format!("removed tenant {name}\n"),
        Command::Limits(LimitsArgs { name, .. }) if result.is_null() => {
            format!("removed the limits of {name}, a tenant that no source lists\n")
        }
        Command::Limits(_) => limits(&read(&result)?),
        Command::Drain => drained(&result),
        Command::Why { .. } => why::text(&read::<WhyStatus>(&result)?, why::LAST, wrap::width()),
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the method of a command, with its parameters.
fn request(command: &Command) -> anyhow::Result<(&'static str, Value)> {
    Ok(match command {
        Command::List => ("list", json!({})),
        Command::Add { file } => ("add", tenant(file)?),
        Command::Remove { name } => ("remove", json!({ "name": name })),
        Command::Limits(limits) => {
            ("limits", json!({ "name": limits.name, "set": limits.set()?, "reset": limits.reset }))
        }
        Command::Why { flow } => ("why", json!({ "flow": flow })),
        Command::Drain => ("drain", json!({})),
    })
}

fn drained(result: &Value) -> String {
    let (sessions, left) =
        (result["sessions"].as_u64().unwrap_or(0), result["left_s"].as_f64().unwrap_or(0.0));
    let noun = match sessions {
        0 => return "draining: there is no session to move\n".to_owned(),
        1 => "session moves",
        _ => "sessions move",
    };
    format!("draining: {sessions} {noun} to other exits, within {left:.0} s\n")
}

/// Reads the keys of a tenant from a file.
fn tenant(file: &Path) -> anyhow::Result<Value> {
    let (name, text) = if output::is_stdout(file) {
        ("standard input".to_owned(), read_input())
    } else {
        (file.display().to_string(), squall_file::read_text(file, MAX_FILE))
    };
    let text = text.map_err(|error| usage(format!("{name}: {error}")))?;
    // Check here first: an error of the exit would not name a place in the file.
    TenantConfig::parse(&name, &text).map_err(usage)?;
    Ok(toml::from_str(&text)?)
}

/// Reads standard input, with the size limit of a file: truncated input may be a valid tenant too.
fn read_input() -> std::io::Result<String> {
    let mut bytes = Vec::new();
    let length = std::io::stdin().take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if length as u64 > MAX_FILE {
        return Err(std::io::Error::new(ErrorKind::FileTooLarge, format!("more than {MAX_FILE} bytes")));
    }
    squall_file::text(bytes).map_err(|error| std::io::Error::new(ErrorKind::InvalidData, error))
}

impl LimitsArgs {
    /// Returns the limits to change.
    fn set(&self) -> anyhow::Result<Map<String, Value>> {
        let mut set = Map::new();
        let texts = [("rate_in", &self.rate_in), ("rate_out", &self.rate_out), ("bytes", &self.bytes)];
        for (key, value) in texts.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?))) {
            set.insert(key.to_owned(), if value == "none" { Value::Null } else { json!(value) });
        }
        if let Some(sessions) = &self.max_sessions {
            let number =
                || sessions.parse::<usize>().map_err(|error| usage(format!("--max-sessions: {error}")));
            set.insert(
                "max_sessions".to_owned(),
                if sessions == "none" { Value::Null } else { json!(number()?) },
            );
        }
        set.extend(self.period.iter().map(|period| ("period".to_owned(), json!(period))));
        Ok(set)
    }
}

/// Calls a method. An error in the parameters is a usage error.
fn call(socket: &Path, method: &str, params: &Value) -> anyhow::Result<Value> {
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let answer = ask(socket, &request).map_err(|error| match error.kind() {
        // The system reports a timeout as "Resource temporarily unavailable".
        ErrorKind::WouldBlock => std::io::Error::new(ErrorKind::TimedOut, "no answer in time"),
        // A broken pipe would be mistaken for the end of the output's reader.
        ErrorKind::BrokenPipe => std::io::Error::new(ErrorKind::ConnectionReset, "it closed the connection"),
        _ => error,
    });
    let answer = answer.with_context(|| format!("no tunnel answers on {}", socket.display()))?;
    let mut answer: Value = serde_json::from_str(&answer)
        .with_context(|| format!("what answers on {} is no tunnel", socket.display()))?;
    fetch::clean(&mut answer);
    if let Some(error) = answer.get("error") {
        let message = error["message"].as_str().unwrap_or("it gave no reason").to_owned();
        return Err(if error["code"] == PARAMS { usage(message) } else { anyhow::Error::msg(message) });
    }
    match answer.get_mut("result") {
        Some(result) => Ok(result.take()),
        None => bail!("what answers on {} is no tunnel", socket.display()),
    }
}

fn ask(socket: &Path, request: &Value) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(format!("{request}\n").as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream.take(MAX_ANSWER)).read_line(&mut answer)?;
    Ok(answer)
}

fn read<T: serde::de::DeserializeOwned>(result: &Value) -> anyhow::Result<T> {
    T::deserialize(result).context("the tunnel is of another version")
}

/// Formats sessions, flows and tenants as tables.
fn list(result: &Value) -> anyhow::Result<String> {
    let sessions: Vec<SessionStatus> = read(&result["sessions"])?;
    let flows: Vec<FlowStatus> = read(&result["flows"])?;
    let all: Vec<TenantStatus> = read(&result["tenants"])?;
    let session = |one: &SessionStatus| {
        let tenant = one.tenant.clone().unwrap_or_default();
        vec![one.peer.clone(), tenant, one.id.to_string(), span(one.age_s), one.paths.len().to_string()]
    };
    let flow = |one: &FlowStatus| {
        let state = if one.attached { "carried" } else { "waiting" };
        vec![one.name.clone(), one.end.clone(), one.address.clone(), state.to_owned()]
    };
    let tables = [
        Table {
            head: vec!["peer", "tenant", "session", "age", "paths"],
            rows: sessions.iter().map(session).collect(),
            left: 2,
            spare: &[],
        },
        Table {
            head: vec!["flow", "end", "address", "state"],
            rows: flows.iter().map(flow).collect(),
            left: 4,
            spare: &[],
        },
        tenants::table(&all),
    ];
    let shown = tables.into_iter().filter(|table| !table.rows.is_empty());
    let text = shown.map(|table| table.text()).collect::<Vec<_>>().join("\n");
    Ok(if text.is_empty() { "no session, no flow and no tenant\n".to_owned() } else { text })
}

/// Formats the limits of a tenant, one per line.
fn limits(tenant: &TenantStatus) -> String {
    let TenantStatus { limits, period, period_bytes, sessions, .. } = tenant;
    let shown = |limit: Option<String>| limit.unwrap_or_else(|| "none".to_owned());
    let mut text = String::new();
    // Writing to a string cannot fail.
    let mut line = |key: &str, value: String| _ = writeln!(text, "{key:<13} {value}");
    line(
        "max_sessions",
        match limits.max_sessions {
            Some(most) => format!("{most} ({sessions} now)"),
            None => format!("that of the exit ({sessions} now)"),
        },
    );
    line("rate_in", shown(limits.rate_in.map(|rate| rate.to_string())));
    line("rate_out", shown(limits.rate_out.map(|rate| rate.to_string())));
    line(
        "bytes",
        format!(
            "{} ({} in {period})",
            shown(limits.bytes.map(|most| most.to_string())),
            megabytes(*period_bytes)
        ),
    );
    line("period", limits.period.name().to_owned());
    text
}
