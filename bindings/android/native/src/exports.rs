//! The functions behind `dev.squall.core.Native`, in its order. Each turns arguments into Rust's and has
//! another module do the work.

#![expect(unsafe_code, reason = "Java finds functions by their unmangled names")]

use std::time::Duration;

use jni::{
    Env, EnvUnowned,
    objects::{JByteArray, JByteBuffer, JClass, JDoubleArray, JLongArray, JObject, JObjectArray, JString},
    sys::{jboolean, jdouble, jint, jlong},
};
use squall::signal::{Reading, Technology};

use crate::{
    buffer,
    connect::Wishes,
    error::{Failure, Throw},
    event, network, paths, radio,
    session::{self, Options},
};

/// Runs what may fail, and throws if it does.
fn run<'local, T: Default>(
    env: &mut EnvUnowned<'local>,
    work: impl FnOnce(&mut Env<'local>) -> Result<T, Failure>,
) -> T {
    env.with_env(work).resolve::<Throw>()
}

fn string(env: &Env<'_>, text: &JString<'_>) -> Result<String, Failure> {
    optional(env, text)?.ok_or_else(|| Failure::Argument("a string is null".into()))
}

fn optional(env: &Env<'_>, text: &JString<'_>) -> Result<Option<String>, Failure> {
    if text.is_null() { Ok(None) } else { Ok(Some(text.try_to_string(env)?)) }
}

fn longs(env: &Env<'_>, array: &JLongArray<'_>) -> Result<Vec<i64>, Failure> {
    let mut numbers = vec![0; array.len(env)?];
    array.get_region(env, 0, &mut numbers)?;
    Ok(numbers)
}

/// A time span; none if negative.
fn micros(micros: jlong) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

#[unsafe(no_mangle)]
extern "system" fn Java_dev_squall_core_Native_radioOpen(mut env: EnvUnowned<'_>, _: JClass<'_>) -> jlong {
    run(&mut env, |_| radio::open().ok_or_else(|| Failure::Squall("too many radios are open".into())))
}

#[unsafe(no_mangle)]
extern "system" fn Java_dev_squall_core_Native_radioClose(
    mut env: EnvUnowned<'_>,
    _: JClass<'_>,
    radio: jlong,
) {
    run(&mut env, |_| {
        radio::close(radio);
        Ok(())
    });
}

/// The one that callbacks of the system run through: no object is made, nothing waited for, Java not called.
#[unsafe(no_mangle)]
extern "system" fn Java_dev_squall_core_Native_radioPush(
    _: EnvUnowned<'_>,
    _: JClass<'_>,
    radio: jlong,
    technology: jint,
    disconnected: jboolean,
    age: jlong,
    rsrp: jdouble,
    rsrq: jdouble,
    sinr: jdouble,
    rssi: jdouble,
) -> jboolean {
    let told = |level: f64| (!level.is_nan()).then_some(level);
    let technology = Technology::from_code(u8::try_from(technology).unwrap_or(0));
    let (rsrp, rsrq, sinr, rssi) = (told(rsrp), told(rsrq), told(sinr), told(rssi));
    let reading = Reading { at: 0, technology, disconnected, rsrp, rsrq, sinr, rssi };
    std::panic::catch_unwind(|| radio::push(radio, micros(age), reading)).unwrap_or(false)
}

#[unsafe(no_mangle)]
extern "system" fn Java_dev_squall_core_Native_radioLatest<'local>(
    mut env: EnvUnowned<'local>,
    _: JClass<'local>,
    radio: jlong,
) -> JDoubleArray<'local> {
    run(&mut env, |env| {
        let subscriber = radio::subscriber(radio).ok_or_else(|| Failure::closed("the radio"))?;
        let Some(reading) = subscriber.latest() else { return Ok(JDoubleArray::default()) };
        let level = |level: Option<f64>| level.unwrap_or(f64::NAN);
        let values = [
            f64::from(reading.technology.code()),
            f64::from(u8::from(reading.disconnected)),
            radio::now().saturating_sub(reading.at) as f64,
            level(reading.rsrp),
            level(reading.rsrq),
            level(reading.sinr),
            level(reading.rssi),
        ];
        let array = JDoubleArray::new(env, values.len())?;
        array.set_region(env, 0, &values)?;
        Ok(array)
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_dev_squall_core_Native_networkOpen<'local>(
    mut env: EnvUnowned<'local>,
    _: JClass<'local>,
    name: JString<'local>,
    binder: JObject<'local>,
) -> jlong {
    run(&mut env, |env| network::open(env, string(env, &name)?, &binder))
}

#[unsafe(no_mangle)]
extern "system" fn Java_dev_squall_core_Native_networkUpdate<'local>(
    mut env: EnvUnowned<'local>,
    _: JClass<'local>,
    network: jlong,
    addresses: JString<'local>,
    metered: jboolean,
) {
    run(&mut env, |env| network::update(network, &string(env, &addresses)?, metered));
}

#[unsafe(no_mangle)]
extern "system" fn Java_dev_squall_core_Native_networkClose(
    mut env: EnvUnowned<'_>,
    _: JClass<'_>,
    network: jlong,
) {
    run(&mut env, |_| {
        network::close(network);
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_dev_squall_core_Native_connect<'local>(
    mut env: EnvUnowned<'local>,
    _: JClass<'local>,
    host: JString<'local>,
    server_name: JString<'local>,
    fingerprint: JString<'local>,
    roots: JObjectArray<'local, JByteArray<'local>>,
    networks: JLongArray<'local>,
    scheduler: JString<'local>,
    congestion: JString<'local>,
    connect_timeout: jlong,
    idle_timeout: jlong,
) -> jlong {
    run(&mut env, |env| {
        let wishes = Wishes {
            host: string(env, &host)?,
            server_name: optional(env, &server_name)?,
            fingerprint: optional(env, &fingerprint)?,
            roots: certificates(env, &roots)?,
            scheduler: optional(env, &scheduler)?,
            congestion: optional(env, &congestion)?,
            connect_timeout,
            idle_timeout,
        };
        session::connect(wishes, &longs(env, &networks)?)
    })
}

fn certificates<'local>(
    env: &mut Env<'local>,
    roots: &JObjectArray<'local, JByteArray<'local>>,
) -> Result<Vec<Vec<u8>>, Failure> {
    if roots.is_null() {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for index in 0..roots.len(env)? {
        // One at a time: there are more than a hundred, and room for few references.
        let one = env.with_local_frame(4, |env| {
            let bytes = roots.get_element(env, index)?;
            env.convert_byte_array(&bytes)
        })?;
        all.push(one);
    }
    Ok(all)
}

#[unsafe(no_mangle)]
extern "system" fn Java_dev_squall_core_Native_sendDirect<'local>(
    mut env: EnvUnowned<'local>,
    _: JClass<'local>,
    session: jlong,
    data: JByteBuffer<'local>,
    position: jint,
    length: jint,
    deadline: jlong,
    priority: jint,
    reliable: jboolean,
    channel: jint,
    ordered: jboolean,
) -> jlong {
    run(&mut env, |env| {
        let data = buffer::of_direct(env, &data, position, length)?;
        session::send(session, data, &Options { deadline, priority, reliable, channel, ordered })
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_dev_squall_core_Native_sendArray<'local>(
    mut env: EnvUnowned<'local>,
    _: JClass<'local>,
    session: jlong,
    data: JByteArray<'local>,
    position: jint,
    length: jint,
    deadline: jlong,
    priority: jint,
    reliable: jboolean,
    channel: jint,
    ordered: jboolean,
) -> jlong {
    run(&mut env, |env| {
        let data = buffer::of_array(env, &data, position, length)?;
        session::send(session, data, &Options { deadline, priority, reliable, channel, ordered })
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_dev_squall_core_Native_cancel(
    mut env: EnvUnowned<'_>,
    _: JClass<'_>,
    session: jlong,
    block: jlong,
) {
    run(&mut env, |_| session::cancel(session, block));
}

#[unsafe(no_mangle)]
extern "system" fn Java_dev_squall_core_Native_next<'local>(
    mut env: EnvUnowned<'local>,
    _: JClass<'local>,
    session: jlong,
    timeout: jlong,
) -> JObject<'local> {
    run(&mut env, |env| {
        let event = session::next(session, micros(timeout))?;
        event::to_java(env, event)
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_dev_squall_core_Native_setNetworks<'local>(
    mut env: EnvUnowned<'local>,
    _: JClass<'local>,
    session: jlong,
    networks: JLongArray<'local>,
) {
    run(&mut env, |env| session::set_networks(session, &longs(env, &networks)?));
}

#[unsafe(no_mangle)]
extern "system" fn Java_dev_squall_core_Native_setSignal<'local>(
    mut env: EnvUnowned<'local>,
    _: JClass<'local>,
    session: jlong,
    network: JString<'local>,
    radio: jlong,
) {
    run(&mut env, |env| session::set_signal(session, &string(env, &network)?, radio));
}

#[unsafe(no_mangle)]
extern "system" fn Java_dev_squall_core_Native_setBudget<'local>(
    mut env: EnvUnowned<'local>,
    _: JClass<'local>,
    session: jlong,
    network: JString<'local>,
    bytes: jlong,
) {
    run(&mut env, |env| session::set_budget(session, &string(env, &network)?, bytes));
}

#[unsafe(no_mangle)]
extern "system" fn Java_dev_squall_core_Native_paths<'local>(
    mut env: EnvUnowned<'local>,
    _: JClass<'local>,
    session: jlong,
) -> JObjectArray<'local> {
    run(&mut env, |env| {
        let all = session::paths(session)?;
        paths::to_java(env, &all)
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_dev_squall_core_Native_finish(
    mut env: EnvUnowned<'_>,
    _: JClass<'_>,
    session: jlong,
    timeout: jlong,
) {
    run(&mut env, |_| session::finish(session, micros(timeout)));
}

#[unsafe(no_mangle)]
extern "system" fn Java_dev_squall_core_Native_close<'local>(
    mut env: EnvUnowned<'local>,
    _: JClass<'local>,
    session: jlong,
    code: jint,
    reason: JString<'local>,
) {
    run(&mut env, |env| {
        session::close(session, code, &string(env, &reason)?);
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_dev_squall_core_Native_release(
    mut env: EnvUnowned<'_>,
    _: JClass<'_>,
    session: jlong,
) {
    run(&mut env, |_| {
        session::release(session);
        Ok(())
    });
}
