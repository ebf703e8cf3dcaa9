//! Conversion of paths to Java objects.

use jni::{
    Env, jni_sig, jni_str,
    objects::{JObject, JObjectArray, JValue},
};
use squall::PathInfo;

use crate::error::Failure;

/// Creates an array of `dev.squall.core.PathInfo`.
pub(crate) fn to_java<'local>(
    env: &mut Env<'local>,
    paths: &[PathInfo],
) -> Result<JObjectArray<'local>, Failure> {
    let length = i32::try_from(paths.len()).unwrap_or(i32::MAX);
    let array = env.new_object_array(length, jni_str!("dev/squall/core/PathInfo"), JObject::null())?;
    for (index, path) in paths.iter().enumerate() {
        let object = one(env, path)?;
        array.set_element(env, index, object)?;
    }
    Ok(array)
}

fn one<'local>(env: &mut Env<'local>, path: &PathInfo) -> Result<JObject<'local>, Failure> {
    let stats = &path.stats;
    let count = |value: u64| JValue::Long(i64::try_from(value).unwrap_or(i64::MAX));
    let network = env.new_string(path.interface.as_deref().unwrap_or_default())?;
    let local = env.new_string(path.local.to_string())?;
    let remote = env.new_string(path.remote.to_string())?;
    let state = env.new_string(stats.state.name())?;
    let arguments = [
        JValue::Int(path.id.0.into()),
        JValue::Object(&network),
        JValue::Object(&local),
        JValue::Object(&remote),
        JValue::Object(&state),
        JValue::Bool(stats.metered),
        JValue::Double(stats.signal_factor),
        JValue::Double(stats.signal_quality.unwrap_or(f64::NAN)),
        count(stats.srtt.as_micros() as u64),
        count(stats.delivery_rate),
        JValue::Double(stats.loss),
        count(stats.sent_bytes),
        count(stats.received_bytes),
        count(stats.fresh_bytes + stats.repair_bytes + stats.copy_bytes + stats.parity_bytes),
        count(stats.data_received),
    ];
    let constructor =
        jni_sig!("(ILjava/lang/String;Ljava/lang/String;Ljava/lang/String;Ljava/lang/String;ZDDJJDJJJJ)V");
    Ok(env.new_object(jni_str!("dev/squall/core/PathInfo"), constructor, &arguments)?)
}
