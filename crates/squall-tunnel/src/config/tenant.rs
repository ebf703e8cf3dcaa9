//! Tenants of an exit. Each has its own token, flows and limits. `docs/tenants.md` describes every
//! key.

use std::{
    fmt::Display,
    fs, io,
    net::IpAddr,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use hyper::Uri;
use serde::Deserialize;
use squall_observe::status::TenantLimits;
use squall_units::{Rate, Size, Span};

use super::{
    flow::{FlowConfig, FlowTable, MAX_FLOWS, bounded, check_flows, check_name},
    text::{ConfigError, Mistake, Parsed, one_line, parse},
    token::TokenHash,
};

/// Maximum number of tenants of an exit, from all sources together.
pub const MAX_TENANTS: usize = 256;

/// Maximum number of flows of all tenants together. Each occupies a socket.
pub const MAX_TENANT_FLOWS: usize = 1024;

/// Maximum length of a tenant name in bytes.
const MAX_TENANT_NAME: usize = 48;

/// Size limit of a file or list of tenants in bytes.
pub(crate) const MAX_LIST: u64 = 1 << 20;

/// Size limit of the file with the bearer token of a list, in bytes.
const MAX_BEARER: u64 = 4096;

/// Permitted rates: slower ones carry no media, faster ones are no limit.
const RATES: RangeInclusive<Rate> = Rate::from_bps(10_000)..=Rate::from_bps(100_000_000_000);

/// Permitted byte limits of a period.
const BYTES: RangeInclusive<Size> = Size::from_bytes(1_000)..=Size::from_bytes(1_000_000_000_000_000);

/// Permitted intervals between two requests of a list.
const INTERVALS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);
/// Default interval between two requests of a list.
const INTERVAL: Duration = Duration::from_secs(30);

/// Tenants of an exit, and the sources of further ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TenantsConfig {
    /// Tenants in the configuration file and in its folder.
    pub list: Vec<TenantConfig>,
    /// List that is requested periodically.
    pub url: Option<TenantsUrl>,
    /// Folder for data that survives a restart: counted bytes, the last list of the URL, changes
    /// over the control socket.
    pub state: Option<PathBuf>,
}

/// A list of tenants on a web server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantsUrl {
    /// Address: `http` or `https`.
    pub url: String,
    /// File with the bearer token of requests (RFC 6750). It is read for every request.
    pub token_file: Option<PathBuf>,
    /// Time between two requests. Default: 30 s.
    pub interval: Duration,
}

impl TenantsUrl {
    /// Returns the address for messages, without its query, which may contain a secret.
    pub fn shown(&self) -> &str {
        without_query(&self.url)
    }

    /// Reads the bearer token of requests.
    ///
    /// # Errors
    /// If the file cannot be read or contains no valid token, in one line with its name.
    pub(crate) fn bearer(&self) -> Result<Option<String>, String> {
        let Some(file) = &self.token_file else { return Ok(None) };
        let named = |problem: &dyn Display| format!("{}: {problem}", file.display());
        let text = squall_file::read_text(file, MAX_BEARER).map_err(|error| named(&error))?;
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(named(&"expected one word of printable ASCII characters"));
        }
        Ok(Some(text.to_owned()))
    }

    /// `true` if third parties cannot read the requests: TLS or loopback.
    fn is_private(&self) -> bool {
        let uri = self.url.parse::<Uri>().ok();
        let host = uri.as_ref().and_then(Uri::host).unwrap_or_default().trim_matches(['[', ']']);
        let is_loopback = host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        self.url.starts_with("https://") || host == "localhost" || is_loopback
    }
}

/// A tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantConfig {
    /// Name of the tenant.
    pub name: String,
    /// Hash of its token.
    pub token: TokenHash,
    /// Flows, at most [`MAX_FLOWS`]. Their names begin with that of the tenant: `TENANT/FLOW`.
    pub flows: Vec<FlowConfig>,
    /// Limits of the tenant.
    pub limits: TenantLimits,
}

/// Checks that the limits of a tenant are within bounds.
pub(crate) fn check_limits(limits: &TenantLimits) -> Result<(), Mistake> {
    within("max_sessions", limits.max_sessions, &(1..=1024))?;
    within("rate_in", limits.rate_in, &RATES)?;
    within("rate_out", limits.rate_out, &RATES)?;
    within("bytes", limits.bytes, &BYTES)
}

fn within<T: PartialOrd + Display>(
    key: &str,
    value: Option<T>,
    bounds: &RangeInclusive<T>,
) -> Result<(), Mistake> {
    let Some(value) = value.filter(|value| !bounds.contains(value)) else { return Ok(()) };
    Err(Mistake::new(key, format!("{value} is not between {} and {}", bounds.start(), bounds.end())))
}

impl TenantConfig {
    /// Parses a text with the keys of `[[tenant]]`, called `name` in errors.
    ///
    /// # Errors
    /// If its content is wrong; with line and column.
    pub fn parse(name: &str, text: &str) -> Result<Self, ConfigError> {
        parse::<TenantTable>(name, text)?.check().map_err(|mistake| mistake.locate(name, text))
    }

    /// Reads a JSON object with the keys of `[[tenant]]`.
    pub(crate) fn from_json(value: &serde_json::Value) -> Result<Self, String> {
        let table = TenantTable::deserialize(value).map_err(|error| error.to_string())?;
        table.check().map_err(|mistake| mistake.to_string())
    }
}

/// `[[tenant]]` as written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TenantTable {
    name: String,
    token_sha256: Parsed<TokenHash>,
    #[serde(default)]
    flow: Vec<FlowTable>,
    #[serde(default)]
    limits: TenantLimits,
}

impl TenantTable {
    fn check(self) -> Result<TenantConfig, Mistake> {
        let named = check_name(&self.name, "a tenant's name", MAX_TENANT_NAME);
        named.map_err(|problem| Mistake::new("name", problem))?;
        check_limits(&self.limits).map_err(|mistake| mistake.within("limits"))?;
        let mut flows = Vec::new();
        for (index, table) in self.flow.into_iter().enumerate() {
            let flow = table.check().map_err(|mistake| mistake.within(&format!("flow.{index}")))?;
            flows.push(FlowConfig { name: format!("{}/{}", self.name, flow.name), ..flow });
        }
        let at_fault = |(index, problem)| Mistake::new(format!("flow.{index}.name"), problem);
        check_flows(&flows, MAX_FLOWS).map_err(at_fault)?;
        let Parsed(token) = self.token_sha256;
        Ok(TenantConfig { name: self.name, token, flows, limits: self.limits })
    }
}

/// Keys of a file that concern tenants.
pub(super) struct TenantsTable {
    pub(super) tenant: Vec<TenantTable>,
    pub(super) folder: Option<PathBuf>,
    pub(super) url: Option<Parsed<ListUrl>>,
    pub(super) token_file: Option<PathBuf>,
    pub(super) interval: Option<Span>,
    pub(super) state: Option<PathBuf>,
}

impl TenantsTable {
    /// `true` if entries with their own tokens may exist.
    pub(super) fn has_source(&self) -> bool {
        !self.tenant.is_empty() || self.folder.is_some() || self.url.is_some()
    }

    /// Checks the tenants. Also returns the files of the folder; their tenants are the last of the
    /// list.
    pub(super) fn check(
        self,
        is_entry: bool,
        folder: &Path,
    ) -> Result<(TenantsConfig, Vec<TenantFile>), Mistake> {
        let keys = [
            ("tenant", !self.tenant.is_empty()),
            ("tenants", self.folder.is_some()),
            ("tenants_url", self.url.is_some()),
            ("tenants_state", self.state.is_some()),
        ];
        if let Some((key, _)) = keys.iter().find(|(_, is_set)| *is_set && is_entry) {
            return Err(Mistake::new(*key, "tenants belong to an exit"));
        }
        let (mut list, mut files) = (tenants(self.tenant)?, Vec::new());
        if let Some(tenants) = &self.folder {
            let read = read_folder(&folder.join(tenants));
            for (file, tenant) in read.map_err(|problem| Mistake::new("tenants", problem))? {
                list.push(tenant);
                files.push(file);
            }
        }
        let of_url = [
            ("tenants_interval", self.interval.is_some()),
            ("tenants_token_file", self.token_file.is_some()),
        ];
        if let Some((key, _)) = of_url.iter().find(|(_, is_set)| *is_set && self.url.is_none()) {
            return Err(Mistake::new(*key, "tenants_url is missing"));
        }
        let interval = bounded("tenants_interval", self.interval.map(Span::duration), INTERVALS, INTERVAL)?;
        let token_file = self.token_file.map(|file| folder.join(file));
        let url = self.url.map(|Parsed(ListUrl(url))| TenantsUrl { url, token_file, interval });
        if let Some(url) = &url {
            let secret = url.bearer().map_err(|problem| Mistake::new("tenants_token_file", problem))?;
            if secret.is_some() && !url.is_private() {
                return Err(Mistake::new("tenants_token_file", "needs a tenants_url with https"));
            }
        }
        let state = self.state.map(|state| folder.join(state));
        if url.is_some() && state.is_none() {
            return Err(Mistake::new(
                "tenants_url",
                "tenants_state is missing: the folder that keeps the list",
            ));
        }
        Ok((TenantsConfig { list, url, state }, files))
    }
}

fn tenants(tables: Vec<TenantTable>) -> Result<Vec<TenantConfig>, Mistake> {
    let checked = |(index, table): (usize, TenantTable)| {
        table.check().map_err(|mistake| mistake.within(&format!("tenant.{index}")))
    };
    tables.into_iter().enumerate().map(checked).collect()
}

/// A conflict of a tenant with others.
#[derive(Debug)]
pub(crate) struct Clash {
    /// Indices of the tenants at fault; empty if there are too many tenants.
    tenants: Vec<usize>,
    /// Key at fault.
    key: &'static str,
    pub(crate) problem: String,
}

impl Clash {
    pub(super) fn new(tenants: &[usize], key: &'static str, problem: String) -> Self {
        Self { tenants: tenants.to_vec(), key, problem }
    }

    /// Returns the conflict as a mistake in a configuration with this number of tenants, of which
    /// these files contain the last.
    pub(super) fn locate(self, tenants: usize, files: &[TenantFile]) -> Mistake {
        let Self { tenants: at_fault, key, problem } = self;
        let file = |tenant: &usize| files.get(tenant.checked_sub(tenants - files.len())?);
        let Some(last) = at_fault.last() else { return Mistake::new("tenant", problem) };
        let others: Vec<&str> =
            at_fault.iter().rev().skip(1).filter_map(file).map(|file| &*file.name).collect();
        let problem = match others[..] {
            [] => problem,
            _ => format!("{problem}, see {}", others.join(", ")),
        };
        match file(last) {
            Some(TenantFile { name, text }) => {
                let mistake = Mistake::new(key, problem).locate(name, text);
                Mistake::new("tenants", mistake.to_string())
            }
            None => Mistake::new(format!("tenant.{last}.{key}"), problem),
        }
    }
}

/// Checks that these tenants can coexist.
///
/// # Errors
/// If two have one name or one token, there are too many, or there is no folder for counted bytes.
pub(crate) fn check_tenants(all: &[TenantConfig], has_state: bool) -> Result<(), Clash> {
    for (index, tenant) in all.iter().enumerate() {
        let TenantConfig { name, token, limits, .. } = tenant;
        let before = &all[..index];
        if let Some(other) = before.iter().position(|other| other.name == *name) {
            return Err(Clash::new(&[other, index], "name", format!("there are two tenants '{name}'")));
        }
        if let Some(other) = before.iter().position(|other| other.token == *token) {
            let problem = format!("the tenants '{}' and '{name}' have the same token", all[other].name);
            return Err(Clash::new(&[other, index], "token_sha256", problem));
        }
        if limits.bytes.is_some() && !has_state {
            let problem =
                format!("tenant '{name}': limits.bytes needs tenants_state, the folder for the count");
            return Err(Clash::new(&[index], "limits.bytes", problem));
        }
    }
    let too_many = |problem| Err(Clash::new(&[], "", problem));
    if all.len() > MAX_TENANTS {
        return too_many(format!("{} tenants; at most {MAX_TENANTS} are possible", all.len()));
    }
    let flows: usize = all.iter().map(|tenant| tenant.flows.len()).sum();
    if flows > MAX_TENANT_FLOWS {
        return too_many(format!("{flows} flows of tenants; at most {MAX_TENANT_FLOWS} are possible"));
    }
    Ok(())
}

/// A file of the folder.
pub(super) struct TenantFile {
    name: String,
    text: String,
}

/// Reads all `*.toml` of a folder, each with the keys of one tenant.
fn read_folder(folder: &Path) -> Result<Vec<(TenantFile, TenantConfig)>, String> {
    let failed = |error: io::Error| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        if file.extension().is_some_and(|extension| extension == "toml") {
            files.push(file);
        }
        if files.len() > MAX_TENANTS {
            return Err(format!("{}: more than {MAX_TENANTS} files", folder.display()));
        }
    }
    files.sort();
    files.iter().map(|file| read_file(file).map_err(|error| error.to_string())).collect()
}

fn read_file(file: &Path) -> Result<(TenantFile, TenantConfig), ConfigError> {
    let failed = |source| ConfigError::Read { path: file.to_owned(), source };
    let text = squall_file::read_text(file, MAX_LIST).map_err(failed)?;
    let name = file.display().to_string();
    let tenant = TenantConfig::parse(&name, &text)?;
    Ok((TenantFile { name, text }, tenant))
}

/// A list of tenants as TOML or JSON: `[[tenant]]`, or an object with the key `tenant`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    tenant: Vec<TenantTable>,
}

/// Reads a list of tenants. A text that begins with `{` is JSON, any other TOML.
///
/// # Errors
/// A description of the first mistake, with its place.
pub(crate) fn read_list(name: &str, text: &str) -> Result<Vec<TenantConfig>, String> {
    if text.trim_start().starts_with('{') {
        let wrong = |problem: String| format!("{name}: {}", one_line(&problem));
        let list: List = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        return tenants(list.tenant).map_err(|mistake| wrong(mistake.to_string()));
    }
    let list: List = parse(name, text).map_err(|error| error.to_string())?;
    tenants(list.tenant).map_err(|mistake| mistake.locate(name, text).to_string())
}

/// Returns an address without its query, which may contain a secret.
pub(crate) fn without_query(url: &str) -> &str {
    url.split_once('?').map_or(url, |(url, _)| url)
}

/// `http://HOST…` or `https://HOST…`.
pub(super) struct ListUrl(String);

impl FromStr for ListUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let is_plain = !text.contains(|c: char| c.is_whitespace() || c.is_control());
        let host = rest.and_then(|rest| rest.split(['/', '?']).next());
        if host.is_some_and(|host| host.contains('@')) {
            return Err("a user name or password is not sent; there is tenants_token_file".to_owned());
        }
        match rest.filter(|rest| is_plain && !rest.is_empty() && !rest.starts_with('/')) {
            Some(_) => Ok(Self(text.to_owned())),
            None => Err("expected http://HOST/PATH or https://HOST/PATH".to_owned()),
        }
    }
}
