//! The functions behind `dev.squall.core.Native`, in its order. Each converts its arguments to Rust and calls
//! another module.

#![expect(unsafe_code, reason = "Java finds functions by their unmangled names")]

use std::time::Duration;

use jni::{
    Env, EnvUnowned,
    objects::{JByteArray, JByteBuffer, JClass, JDoubleArray, JLongArray, JObject, JObjectArray, JString},
    sys::{jboolean, jdouble, jint, jlong},
};
use squall::signal::{Reading, Technology, Time};

use crate::{
    buffer,
    connect::Wishes,
    error::{Failure, Throw},
    event, network, paths, radio, ready,
    session::{self, Options},
};

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

/// Converts microseconds to a duration; zero if negative.
fn micros(micros: jlong) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
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
        // One frame per certificate: there can be more than a hundred, but there is room for few
        // local references.
        let one = env.with_local_frame(4, |env| {
            let bytes = roots.get_element(env, index)?;
            env.convert_byte_array(&bytes)
        })?;
        all.push(one);
    }
    Ok(all)
}

/// Called from Android's callbacks: creates no objects, never waits, and does not call Java.
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
    let level = |value: f64| (!value.is_nan()).then_some(value);
    let technology = Technology::from_code(u8::try_from(technology).unwrap_or(0));
    let (rsrp, rsrq, sinr, rssi) = (level(rsrp), level(rsrq), level(sinr), level(rssi));
    let reading = Reading { at: Time::EPOCH, technology, disconnected, rsrp, rsrq, sinr, rssi };
    std::panic::catch_unwind(|| radio::push(radio, micros(age), reading)).unwrap_or(false)
}

/// Functions of `dev.squall.core.Native`, with the environment as the first argument. An error or a panic
/// becomes an exception.
macro_rules! exports {
    ($(fn $name:ident($env:tt $(, $arg:ident: $kind:ty)* $(,)?) $(-> $result:ty)? $work:block)*) => { $(
        #[unsafe(no_mangle)]
        extern "system" fn $name<'local>(
            mut env: EnvUnowned<'local>,
            _: JClass<'local>,
            $($arg: $kind),*
        ) $(-> $result)? {
            env.with_env(|$env| -> Result<_, Failure> { $work }).resolve::<Throw>()
        }
    )* };
}

exports! {
    fn Java_dev_squall_core_Native_radioOpen(_) -> jlong {
        radio::open().ok_or_else(|| Failure::Squall("too many radios are open".into()))
    }

    fn Java_dev_squall_core_Native_radioClose(_, radio: jlong) {
        radio::close(radio);
        Ok(())
    }

    fn Java_dev_squall_core_Native_radioLatest(env, radio: jlong) -> JDoubleArray<'local> {
        let subscriber = radio::subscriber(radio).ok_or_else(|| Failure::closed("the radio"))?;
        let Some(reading) = subscriber.latest() else { return Ok(JDoubleArray::default()) };
        let level = |level: Option<f64>| level.unwrap_or(f64::NAN);
        let values = [
            f64::from(reading.technology.code()),
            f64::from(u8::from(reading.disconnected)),
            (radio::now() - reading.at).micros() as f64,
            level(reading.rsrp),
            level(reading.rsrq),
            level(reading.sinr),
            level(reading.rssi),
        ];
        let array = JDoubleArray::new(env, values.len())?;
        array.set_region(env, 0, &values)?;
        Ok(array)
    }

    fn Java_dev_squall_core_Native_networkOpen(env, name: JString<'local>, binder: JObject<'local>) -> jlong {
        network::open(env, string(env, &name)?, &binder)
    }

    fn Java_dev_squall_core_Native_networkUpdate(
        env,
        network: jlong,
        addresses: JString<'local>,
        metered: jboolean,
    ) {
        network::update(network, &string(env, &addresses)?, metered)
    }

    fn Java_dev_squall_core_Native_networkClose(_, network: jlong) {
        network::close(network);
        Ok(())
    }

    fn Java_dev_squall_core_Native_connect(
        env,
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
    }

    fn Java_dev_squall_core_Native_awaitConnected(_, session: jlong, timeout: jlong) -> jboolean {
        session::await_connected(session, micros(timeout))
    }

    fn Java_dev_squall_core_Native_sendDirect(
        env,
        session: jlong,
        data: JByteBuffer<'local>,
        position: jint,
        length: jint,
        deadline: jlong,
        priority: jint,
        reliable: jboolean,
        channel: jint,
        ordered: jboolean,
        partial: jboolean,
    ) -> jlong {
        let data = buffer::of_direct(env, &data, position, length)?;
        session::send(session, data, &Options { deadline, priority, reliable, channel, ordered, partial })
    }

    fn Java_dev_squall_core_Native_sendArray(
        env,
        session: jlong,
        data: JByteArray<'local>,
        position: jint,
        length: jint,
        deadline: jlong,
        priority: jint,
        reliable: jboolean,
        channel: jint,
        ordered: jboolean,
        partial: jboolean,
    ) -> jlong {
        let data = buffer::of_array(env, &data, position, length)?;
        session::send(session, data, &Options { deadline, priority, reliable, channel, ordered, partial })
    }

    fn Java_dev_squall_core_Native_cancel(_, session: jlong, block: jlong) {
        session::cancel(session, block)
    }

    fn Java_dev_squall_core_Native_next(env, session: jlong, timeout: jlong) -> JObject<'local> {
        let event = session::next(session, micros(timeout))?;
        event::to_java(env, event)
    }

    fn Java_dev_squall_core_Native_take(env, session: jlong, arrivals: jboolean) -> JObject<'local> {
        let event = session::take(session, arrivals)?;
        event::to_java(env, event)
    }

    fn Java_dev_squall_core_Native_watch(_, session: jlong) {
        session::watch(session)
    }

    fn Java_dev_squall_core_Native_ready(_, timeout: jlong) -> jlong {
        Ok(ready::next(micros(timeout)).unwrap_or(0))
    }

    fn Java_dev_squall_core_Native_setNetworks(env, session: jlong, networks: JLongArray<'local>) {
        session::set_networks(session, &longs(env, &networks)?)
    }

    fn Java_dev_squall_core_Native_setSignal(env, session: jlong, network: JString<'local>, radio: jlong) {
        session::set_signal(session, &string(env, &network)?, radio)
    }

    fn Java_dev_squall_core_Native_setBudget(env, session: jlong, network: JString<'local>, bytes: jlong) {
        session::set_budget(session, &string(env, &network)?, bytes)
    }

    fn Java_dev_squall_core_Native_paths(env, session: jlong) -> JObjectArray<'local> {
        let all = session::paths(session)?;
        paths::to_java(env, &all)
    }

    fn Java_dev_squall_core_Native_finish(_, session: jlong, timeout: jlong) {
        session::finish(session, micros(timeout))
    }

    fn Java_dev_squall_core_Native_close(env, session: jlong, code: jint, reason: JString<'local>) {
        session::close(session, code, &string(env, &reason)?);
        Ok(())
    }

    fn Java_dev_squall_core_Native_release(_, session: jlong) {
        session::release(session);
        Ok(())
    }
}
