//! A link with optional fields.

use std::{fmt::Display, str::FromStr};

use serde::Deserialize;
use squall_units::{Ratio, Size};

use super::LinkConfig;
use crate::{
    delay::{DelayConfig, JitterConfig},
    ecn::EcnTreatment,
    error::ConfigError,
    loss::LossConfig,
    policer::PolicerConfig,
    queue::QueueConfig,
    rate::RateConfig,
    script::{LinkEvent, OutageMode},
};

/// The fields of a [`LinkConfig`], each optional.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LinkPatch {
    pub(crate) rate: Option<RateConfig>,
    pub(crate) delay: Option<DelayConfig>,
    pub(crate) jitter: Option<JitterConfig>,
    pub(crate) loss: Option<LossConfig>,
    pub(crate) duplicate: Option<Ratio>,
    pub(crate) corrupt: Option<Ratio>,
    pub(crate) ecn: Option<EcnTreatment>,
    pub(crate) mtu: Option<Size>,
    pub(crate) queue: Option<QueueConfig>,
    pub(crate) policer: Option<PolicerConfig>,
    pub(crate) outage: Option<OutageMode>,
    pub(crate) delay_first: Option<bool>,
    pub(crate) events: Option<Vec<LinkEvent>>,
    /// `reorder` of the comma form, which may come before the `jitter` that it belongs to.
    #[serde(skip)]
    pub(super) reorder: Option<bool>,
}

impl LinkPatch {
    /// Sets a field from a key and a value of the comma form.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        match key {
            "rate" => self.rate = Some(parse(key, value)?),
            "mahimahi" => {
                self.rate = Some(RateConfig::Mahimahi { file: Some(value.into()), trace: None, once: false });
            }
            "delay" => self.delay = Some(parse(key, value)?),
            "jitter" => self.jitter = Some(parse(key, value)?),
            "reorder" => self.reorder = Some(flag(key, value)?),
            "loss" => self.loss = Some(parse(key, value)?),
            "duplicate" => self.duplicate = Some(parse(key, value)?),
            "corrupt" => self.corrupt = Some(parse(key, value)?),
            "ecn" => self.ecn = Some(parse(key, value)?),
            "mtu" => self.mtu = Some(parse(key, value)?),
            "queue" => self.queue = Some(parse(key, value)?),
            "policer" => self.policer = Some(parse(key, value)?),
            "outage" => self.outage = Some(outage(key, value)?),
            "delay_first" => self.delay_first = Some(flag(key, value)?),
            _ => return Err(ConfigError::Key(key.to_owned())),
        }
        Ok(())
    }

    /// Returns these fields, with those of `other` for the missing ones.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            rate: self.rate.or(other.rate),
            delay: self.delay.or(other.delay),
            jitter: self.jitter.or(other.jitter),
            loss: self.loss.or(other.loss),
            duplicate: self.duplicate.or(other.duplicate),
            corrupt: self.corrupt.or(other.corrupt),
            ecn: self.ecn.or(other.ecn),
            mtu: self.mtu.or(other.mtu),
            queue: self.queue.or(other.queue),
            policer: self.policer.or(other.policer),
            outage: self.outage.or(other.outage),
            delay_first: self.delay_first.or(other.delay_first),
            events: self.events.or(other.events),
            reorder: self.reorder.or(other.reorder),
        }
    }
}

impl From<LinkPatch> for LinkConfig {
    fn from(patch: LinkPatch) -> Self {
        let base = Self::default();
        let mut jitter = patch.jitter.unwrap_or(base.jitter);
        jitter.reorder = patch.reorder.unwrap_or(jitter.reorder);
        Self {
            rate: patch.rate.unwrap_or(base.rate),
            delay: patch.delay.unwrap_or(base.delay),
            jitter,
            loss: patch.loss.unwrap_or(base.loss),
            duplicate: patch.duplicate.unwrap_or(base.duplicate),
            corrupt: patch.corrupt.unwrap_or(base.corrupt),
            ecn: patch.ecn.unwrap_or(base.ecn),
            mtu: patch.mtu.unwrap_or(base.mtu),
            queue: patch.queue.unwrap_or(base.queue),
            policer: patch.policer.or(base.policer),
            outage: patch.outage.unwrap_or(base.outage),
            delay_first: patch.delay_first.unwrap_or(base.delay_first),
            events: patch.events.unwrap_or(base.events),
        }
    }
}

fn parse<V: FromStr<Err: Display>>(field: &str, value: &str) -> Result<V, ConfigError> {
    value.parse().map_err(|problem: V::Err| ConfigError::Field {
        field: field.to_owned(),
        problem: problem.to_string(),
    })
}

pub(crate) fn flag(field: &str, value: &str) -> Result<bool, ConfigError> {
    value.parse().map_err(|_| ConfigError::Field {
        field: field.to_owned(),
        problem: format!("\"{value}\" is not true or false"),
    })
}

fn outage(field: &str, value: &str) -> Result<OutageMode, ConfigError> {
    match value {
        "drop" => Ok(OutageMode::Drop),
        "hold" => Ok(OutageMode::Hold),
        _ => Err(ConfigError::Field {
            field: field.to_owned(),
            problem: format!("\"{value}\" is not drop or hold"),
        }),
    }
}
