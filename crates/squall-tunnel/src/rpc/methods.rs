//! Methods of the control socket.

use serde::{Deserialize as _, Serialize};
use serde_json::{Map, Value, json};

use super::{
    Controlled,
    request::{Call, Failure, LimitsParams},
};
use crate::{
    config::{TenantConfig, TenantLimits, check_limits},
    shared::{ChangeError, Sources},
};

/// Runs a method.
pub(super) fn run(tunnel: &Controlled, call: Call) -> Result<Value, Failure> {
    match call {
        Call::List => Ok(list(tunnel)),
        Call::Add(tenant) => add(tunnel, tenant),
        Call::Remove(params) => remove(tunnel, &params.name),
        Call::Limits(params) => limits(tunnel, &params),
        Call::Why(params) => tunnel.source.why(&params.flow).map(|why| json(&why)).map_err(Failure::params),
        Call::Drain => drain(tunnel),
    }
}

fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Returns sessions, flows and tenants, as in the status.
fn list(tunnel: &Controlled) -> Value {
    let status = tunnel.source.status();
    json!({ "sessions": status.sessions, "flows": status.flows, "tenants": status.tenants })
}

/// Changes the tenants, if the change can be stored.
fn change(
    tunnel: &Controlled,
    change: impl FnOnce(&mut Sources) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Some(exit) = tunnel.exit.as_ref().filter(|exit| exit.tenants.state.is_some()) else {
        return Err(Failure::failed(
            "tenants_state is missing in the configuration: the folder that keeps the change",
        ));
    };
    let mut refused = None;
    let changed = exit.change_tenants(|sources| {
        change(sources).map_err(|failure| ChangeError::Conflict(refused.insert(failure).to_string()))
    });
    changed.map(drop).map_err(|error| refused.unwrap_or_else(|| Failure::failed(error)))
}

fn unknown(name: &str) -> Failure {
    Failure::params(format!("no tenant is named '{name}'"))
}

fn add(tunnel: &Controlled, tenant: Value) -> Result<Value, Failure> {
    let config = TenantConfig::from_json(&tenant).map_err(Failure::params)?;
    let name = config.name.clone();
    change(tunnel, |sources| match sources.changes.added.insert(config.name, tenant) {
        None => Ok(()),
        Some(_) => Err(Failure::failed(format!("there is a tenant '{name}' already"))),
    })?;
    Ok(json!({ "added": name }))
}

fn remove(tunnel: &Controlled, name: &str) -> Result<Value, Failure> {
    change(tunnel, |sources| {
        let is_it = |tenant: &TenantConfig| tenant.name == name;
        let elsewhere = |place: &str| {
            Err(Failure::failed(format!("tenant '{name}' is listed in {place}: remove it there")))
        };
        if sources.changes.added.remove(name).is_some() {
            sources.changes.limits.remove(name);
            return Ok(());
        }
        match (sources.configured.iter().any(is_it), sources.fetched.iter().any(is_it)) {
            (true, _) => elsewhere("the configuration or its folder"),
            (_, true) => elsewhere("the list of tenants_url"),
            _ => Err(unknown(name)),
        }
    })?;
    Ok(json!({ "removed": name }))
}

/// Starts to drain: the sessions move to other exits, then this exit ends.
fn drain(tunnel: &Controlled) -> Result<Value, Failure> {
    let exit = tunnel.exit.as_ref();
    let exit = exit.ok_or_else(|| Failure::failed("an entry has no sessions of others to move"))?;
    let left = exit.drain();
    Ok(json!({ "sessions": exit.shared.session_count(), "left_s": left.as_secs_f64() }))
}

/// Returns the limits of a tenant, after applying changes to them.
fn limits(tunnel: &Controlled, params: &LimitsParams) -> Result<Value, Failure> {
    let LimitsParams { name, set, reset } = params;
    let tenants = tunnel.exit.as_ref().map(|exit| &exit.tenants);
    let status = || {
        let tenant = tenants.and_then(|tenants| tenants.get(name)?.status());
        tenant.ok_or_else(|| unknown(name))
    };
    let current = match status() {
        Err(_) if *reset && set.is_empty() => return forget(tunnel, name),
        current => current?,
    };
    if set.is_empty() && !reset {
        return Ok(json(&current));
    }
    merged(current.limits, set)?;
    change(tunnel, |sources| {
        let before = sources.changes.limits.remove(name).filter(|_| !reset);
        if set.is_empty() {
            return Ok(());
        }
        let before = before.or_else(|| sources.own_limits(name)).unwrap_or_default();
        sources.changes.limits.insert(name.clone(), merged(before, set)?);
        Ok(())
    })?;
    Ok(json(&status()?))
}

/// Removes the limits of a tenant that no source lists any more.
fn forget(tunnel: &Controlled, name: &str) -> Result<Value, Failure> {
    change(tunnel, |sources| sources.changes.limits.remove(name).map(drop).ok_or_else(|| unknown(name)))?;
    Ok(Value::Null)
}

/// Returns the limits with new values for these keys; `null` selects the default.
fn merged(limits: TenantLimits, set: &Map<String, Value>) -> Result<TenantLimits, Failure> {
    let (Value::Object(mut all), default) = (json(&limits), json(&TenantLimits::default())) else {
        return Ok(limits);
    };
    let mut limits = limits;
    for (key, value) in set {
        let value = if value.is_null() { &default[key] } else { value };
        all.insert(key.clone(), value.clone());
        limits = TenantLimits::deserialize(Value::Object(all.clone()))
            .map_err(|error| Failure::params(format!("{key}: {error}")))?;
    }
    check_limits(&limits).map_err(Failure::params)?;
    Ok(limits)
}
