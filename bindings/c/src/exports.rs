//! Functions of the header. Each reads its arguments, delegates the work to another module, and
//! writes the result.

#![expect(unsafe_code, reason = "C finds functions by their unmangled names, and passes pointers")]
#![expect(clippy::missing_safety_doc, reason = "the header begins with one contract for all functions")]

use std::{
    ffi::{c_char, c_int},
    time::Duration,
};

use squall::{BlockId, RateLimit};
use squall_bindings::{Failure, Session, set_threads};

use crate::{
    connect::{self, Named, Wishes},
    convert,
    endpoint::Endpoint,
    error::{self, guard},
    flatten::{empty, flatten},
    handle, memory,
    types::{self, Code, SQUALL_MAX_PATHS, SQUALL_NO_LIMIT},
};

/// Converts a time from C; SQUALL_NO_LIMIT never ends.
fn time(micros: u64) -> Duration {
    if micros == SQUALL_NO_LIMIT { Duration::MAX } else { Duration::from_micros(micros) }
}

/// # Safety
/// The contract of the header for `options`.
unsafe fn config(options: *const types::Config) -> Result<squall::Config, Failure> {
    // SAFETY: by the contract of the header.
    let Some(numbers) = unsafe { memory::read_optional(options) }? else {
        return Ok(squall::Config::default());
    };
    // SAFETY: by the contract of the header.
    let names = unsafe {
        (memory::text("scheduler", numbers.scheduler)?, memory::text("congestion", numbers.congestion)?)
    };
    connect::config(&numbers, names.0, names.1)
}

/// # Safety
/// The contract of the header for `options`.
unsafe fn interfaces(options: *const types::Interfaces) -> Result<squall::Interfaces, Failure> {
    // SAFETY: by the contract of the header.
    let Some(lists) = unsafe { memory::read_optional(options) }? else { return Ok(squall::Interfaces::Auto) };
    // SAFETY: by the contract of the header.
    let named = unsafe {
        let pairs = memory::list("pairs", lists.pairs, lists.pair_count)?.iter();
        let pairs = pairs.map(|pair| {
            Ok((memory::required("local", pair.local)?, memory::required("remote", pair.remote)?))
        });
        Named {
            names: memory::texts("names", lists.names, lists.name_count)?,
            addresses: memory::texts("addresses", lists.addresses, lists.address_count)?,
            pairs: pairs.collect::<Result<_, Failure>>()?,
        }
    };
    named.resolve()
}

/// # Safety
/// The contract of the header for `options`.
unsafe fn connecting(options: *const types::ConnectOptions) -> Result<Session, Failure> {
    // SAFETY: by the contract of the header, also for everything that the options point to.
    let (wishes, config) = unsafe {
        let options = memory::read(options)?;
        let wishes = Wishes {
            host: memory::required("host", options.host)?,
            server_name: memory::text("server_name", options.server_name)?,
            addresses: memory::texts("addresses", options.addresses, options.address_count)?,
            interfaces: interfaces(options.interfaces)?,
            fingerprint: memory::text("fingerprint", options.fingerprint)?,
            authorities_file: memory::text("authorities_file", options.authorities_file)?,
            insecure: options.insecure != 0,
        };
        (wishes, config(options.config)?)
    };
    Session::connect(wishes.resolve()?, config)
}

/// Returns the version of the library, such as "0.1.0", as a constant.
#[unsafe(no_mangle)]
pub extern "C" fn squall_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Returns one line that explains the last failed call of this thread; empty if none has failed.
/// Successful calls do not change it. It belongs to the library, and is valid until the next failed
/// call of this thread, or until the thread ends.
#[unsafe(no_mangle)]
pub extern "C" fn squall_last_error() -> *const c_char {
    error::last()
}

/// Sets the number of threads that drive all sessions, 1 to 64. Default: 1. Must be called before
/// the first squall_listen or squall_connect.
///
/// Errors: SQUALL_ERROR_ARGUMENT for another number, or if the threads have started.
#[unsafe(no_mangle)]
pub extern "C" fn squall_set_threads(threads: u32) -> Code {
    guard(|| set_threads(threads).map(|()| Code::Ok))
}

/// Listens. On success *endpoint must be freed with squall_endpoint_free. The options are copied.
/// May wait for a name server if addresses have host names, and up to half a second for an address
/// in use, such as that of a freed endpoint.
///
/// Errors: SQUALL_ERROR_ARGUMENT and SQUALL_ERROR_SIZE for invalid options or an unreadable
/// certificate, SQUALL_ERROR_LISTEN if an address is in use or does not belong to this machine,
/// SQUALL_ERROR_SYSTEM.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_listen(
    options: *const types::ListenOptions,
    endpoint: *mut types::Endpoint,
) -> Code {
    guard(|| {
        // SAFETY: by the contract of the header, also for everything that the options point to.
        let (to, addresses, identity, config) = unsafe {
            let to = memory::variable("endpoint", endpoint)?;
            let options = memory::read(options)?;
            let identity = connect::identity(
                memory::text("certificate_file", options.certificate_file)?,
                memory::text("key_file", options.key_file)?,
                memory::text("self_signed_name", options.self_signed_name)?,
            )?;
            let addresses = memory::texts("addresses", options.addresses, options.address_count)?;
            (to, addresses, identity, config(options.config)?)
        };
        to.write(handle::insert_endpoint(Endpoint::listen(&addresses, &identity, &config)?));
        Ok(Code::Ok)
    })
}

/// Writes the fingerprint of the endpoint's certificate, for clients to pin: 64 hexadecimal digits
/// and a zero. room is the size of the buffer: SQUALL_FINGERPRINT_SIZE is enough.
///
/// Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_ARGUMENT, SQUALL_ERROR_SIZE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_endpoint_fingerprint(
    endpoint: types::Endpoint,
    to: *mut c_char,
    room: usize,
) -> Code {
    // SAFETY: by the contract of the header.
    guard(|| unsafe {
        memory::put_text(to, room, handle::endpoint(endpoint)?.fingerprint())?;
        Ok(Code::Ok)
    })
}

/// Writes an address on which the endpoint listens, with its port; index counts from 0. room is the
/// size of the buffer: SQUALL_ADDRESS_SIZE is enough.
///
/// Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_ARGUMENT if there are not that many addresses, SQUALL_ERROR_SIZE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_endpoint_address(
    endpoint: types::Endpoint,
    index: usize,
    to: *mut c_char,
    room: usize,
) -> Code {
    // SAFETY: by the contract of the header.
    guard(|| unsafe {
        memory::put_text(to, room, &handle::endpoint(endpoint)?.address(index)?)?;
        Ok(Code::Ok)
    })
}

/// Returns a descriptor that is readable while squall_accept has a session; for poll, select and
/// epoll. It belongs to the library, which closes it in squall_endpoint_free. It must be neither
/// read nor closed.
///
/// Errors: -1.
#[unsafe(no_mangle)]
pub extern "C" fn squall_endpoint_fd(endpoint: types::Endpoint) -> c_int {
    let mut fd = -1;
    guard(|| {
        fd = handle::endpoint(endpoint)?.fd();
        Ok(Code::Ok)
    });
    fd
}

/// Takes the next session; waits for one for up to timeout_us microseconds: 0 does not wait,
/// SQUALL_NO_LIMIT waits without end. On success *session must be freed with squall_session_free.
///
/// Returns SQUALL_NOTHING after the timeout. Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_ARGUMENT,
/// SQUALL_ERROR_CLOSED if the endpoint is freed meanwhile, SQUALL_ERROR_SYSTEM.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_accept(
    endpoint: types::Endpoint,
    timeout_us: u64,
    session: *mut types::Session,
) -> Code {
    guard(|| {
        // SAFETY: by the contract of the header.
        let to = unsafe { memory::variable("session", session) }?;
        let accepted = handle::endpoint(endpoint)?.accept(time(timeout_us))?;
        Ok(accepted.map_or(Code::Nothing, |session| {
            to.write(handle::insert_session(session));
            Code::Ok
        }))
    })
}

/// Stops listening and frees the endpoint. Accepted sessions continue; a thread in squall_accept
/// returns. The addresses are free at most 0.3 s after the last session was freed or has ended;
/// squall_listen waits for that.
///
/// Errors: SQUALL_ERROR_HANDLE.
#[unsafe(no_mangle)]
pub extern "C" fn squall_endpoint_free(endpoint: types::Endpoint) -> Code {
    guard(|| {
        handle::remove_endpoint(endpoint)?.end();
        Ok(Code::Ok)
    })
}

/// Connects, and waits until the session is connected or has failed, at most connect_timeout_us of
/// the settings (10 s). On success *session must be freed with squall_session_free. The options are
/// copied.
///
/// Errors: SQUALL_ERROR_ARGUMENT and SQUALL_ERROR_SIZE for invalid options, SQUALL_ERROR_CONNECT,
/// SQUALL_ERROR_TRUST, SQUALL_ERROR_SYSTEM.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_connect(
    options: *const types::ConnectOptions,
    session: *mut types::Session,
) -> Code {
    guard(|| {
        // SAFETY: by the contract of the header.
        let (to, connecting) = unsafe { (memory::variable("session", session)?, connecting(options)?) };
        connecting.wait_connected()?;
        to.write(handle::insert_session(connecting));
        Ok(Code::Ok)
    })
}

/// Starts to connect, and returns at once: the first event is SQUALL_EVENT_CONNECTED, or
/// SQUALL_EVENT_CLOSED with the reason. On success *session must be freed with squall_session_free.
/// The options are copied.
///
/// Errors: SQUALL_ERROR_ARGUMENT and SQUALL_ERROR_SIZE for invalid options, SQUALL_ERROR_SYSTEM.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_connect_start(
    options: *const types::ConnectOptions,
    session: *mut types::Session,
) -> Code {
    guard(|| {
        // SAFETY: by the contract of the header.
        let (to, connecting) = unsafe { (memory::variable("session", session)?, connecting(options)?) };
        to.write(handle::insert_session(connecting));
        Ok(Code::Ok)
    })
}

/// Returns a descriptor that is readable while squall_next has an event; for poll, select and
/// epoll. It belongs to the library, which closes it in squall_session_free. It must be neither
/// read nor closed.
///
/// Errors: -1.
#[unsafe(no_mangle)]
pub extern "C" fn squall_session_fd(session: types::Session) -> c_int {
    let mut fd = -1;
    guard(|| {
        fd = handle::session(session)?.session.fd();
        Ok(Code::Ok)
    });
    fd
}

/// Takes the next event; waits for one for up to timeout_us microseconds: 0 does not wait,
/// SQUALL_NO_LIMIT waits without end. event->size must be set. On success the event must be
/// released with squall_event_free.
///
/// While 256 events or 1 MiB are queued, further blocks stay in the session, within
/// max_received_bytes, and the peer waits.
///
/// Returns SQUALL_NOTHING after the timeout; *event is then cleared. Errors: SQUALL_ERROR_HANDLE,
/// SQUALL_ERROR_ARGUMENT, SQUALL_ERROR_SIZE, SQUALL_ERROR_CLOSED after SQUALL_EVENT_CLOSED was
/// taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_next(
    session: types::Session,
    timeout_us: u64,
    event: *mut types::Event,
) -> Code {
    guard(|| {
        // SAFETY: by the contract of the header.
        let mut place = unsafe { memory::place(event) }?;
        let session = handle::session(session)?;
        let event = session.session.next(time(timeout_us))?;
        let code = if event.is_some() { Code::Ok } else { Code::Nothing };
        place.write(0, &event.map_or_else(empty, flatten));
        Ok(code)
    })
}

/// Releases an event of squall_next and clears it; data and text must not be used afterwards.
/// Releasing it again has no effect. Only one of several copies of an event may be released. NULL
/// is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_event_free(event: *mut types::Event) {
    if event.is_null() {
        return;
    }
    guard(|| {
        // SAFETY: by the contract of the header, `owner` is the one written by `squall_next`, or
        // null.
        unsafe {
            let owner = memory::read(event.cast_const())?.owner;
            memory::place(event)?.write(0, &empty());
            memory::release(owner);
        }
        Ok(Code::Ok)
    });
}

/// Sends a block. Never waits. The bytes are copied; if id is not NULL, *id receives the number of
/// the block, as used in events and by squall_cancel.
///
/// Errors: SQUALL_ERROR_FULL if there is no room: drop the block, or send it again after
/// SQUALL_EVENT_WRITABLE. SQUALL_ERROR_CLOSED, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_HANDLE,
/// SQUALL_ERROR_ARGUMENT (an empty block, options out of range), SQUALL_ERROR_SIZE (also for a
/// block that is too large).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_send(
    session: types::Session,
    block: *const types::Block,
    id: *mut u64,
) -> Code {
    guard(|| {
        let session = handle::session(session)?;
        // SAFETY: by the contract of the header.
        let (to, (block, report)) = unsafe {
            let to = if id.is_null() { None } else { Some(memory::variable("id", id)?) };
            let options = memory::read(block)?;
            let hint_path = memory::text("hint_path", options.hint_path)?;
            (to, convert::block(&options, memory::bytes(options.data, options.len)?, hint_path)?)
        };
        let sent = session.session.send(block, report)?;
        if let Some(to) = to {
            to.write(sent.0);
        }
        Ok(Code::Ok)
    })
}

/// Cancels a block, unless it has ended. Its outcome is SQUALL_EVENT_CANCELLED.
///
/// Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED.
#[unsafe(no_mangle)]
pub extern "C" fn squall_cancel(session: types::Session, block: u64) -> Code {
    guard(|| {
        handle::session(session)?.session.up()?.cancel(BlockId(block));
        Ok(Code::Ok)
    })
}

/// Reads the size in bytes of the largest block that can be sent; 0 after the session has ended.
///
/// Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_max_block(session: types::Session, bytes: *mut usize) -> Code {
    guard(|| {
        // SAFETY: by the contract of the header.
        let to = unsafe { memory::variable("bytes", bytes) }?;
        to.write(handle::session(session)?.session.up()?.max_block_len());
        Ok(Code::Ok)
    })
}

/// Reads the capacity of the session. capacity->size must be set.
///
/// Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT, SQUALL_ERROR_SIZE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_get_capacity(
    session: types::Session,
    capacity: *mut types::Capacity,
) -> Code {
    guard(|| {
        // SAFETY: by the contract of the header.
        let mut place = unsafe { memory::place(capacity) }?;
        let current = handle::session(session)?.session.up()?.capacity();
        let size = size_of::<types::Capacity>();
        let squall::Capacity { now, safe, confidence, link, waiting, .. } = current;
        let limit = convert::limit(current.limit);
        place.write(0, &types::Capacity { size, now, safe, link, waiting, confidence, limit, reserved: 0 });
        Ok(Code::Ok)
    })
}

/// Reads the number of further bytes that, sent now, arrive within within_us microseconds with a
/// probability from 0 to 1, in addition to those already queued: the size for the next frame. 0
/// after the session has ended.
///
/// Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_deliverable(
    session: types::Session,
    within_us: u64,
    probability: f64,
    bytes: *mut u64,
) -> Code {
    guard(|| {
        // SAFETY: by the contract of the header.
        let to = unsafe { memory::variable("bytes", bytes) }?;
        if !(0.0..=1.0).contains(&probability) {
            return Err(Failure::argument(format!("{probability} is no probability")));
        }
        to.write(
            handle::session(session)?
                .session
                .up()?
                .deliverable(Duration::from_micros(within_us), probability),
        );
        Ok(Code::Ok)
    })
}

/// Requests that the peer send at most this many bits per second of blocks; SQUALL_NO_LIMIT lifts
/// the limit. The capacity at the peer reports at most that value, for its encoder to follow;
/// blocks beyond it still arrive.
///
/// Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED.
#[unsafe(no_mangle)]
pub extern "C" fn squall_request_bitrate(session: types::Session, bits_per_second: u64) -> Code {
    guard(|| {
        let limit = Some(bits_per_second).filter(|limit| *limit != SQUALL_NO_LIMIT);
        handle::session(session)?.session.up()?.request_bitrate(limit);
        Ok(Code::Ok)
    })
}

/// Reads the open paths; after the session has ended, the last ones. paths is an array of room
/// elements, the first of which has its size set: SQUALL_MAX_PATHS elements are enough. *count
/// receives the number of paths, which can be more than room; with room 0 paths may be NULL.
///
/// Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT, SQUALL_ERROR_SIZE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_get_paths(
    session: types::Session,
    paths: *mut types::Path,
    room: usize,
    count: *mut usize,
) -> Code {
    guard(|| {
        // SAFETY: by the contract of the header.
        let (mut places, count) = unsafe {
            (memory::places(paths, room.min(SQUALL_MAX_PATHS))?, memory::variable("count", count)?)
        };
        let session = handle::session(session)?.session.up()?;
        let (all, capacity) = (session.paths(), session.capacity());
        for (index, info) in all.iter().enumerate() {
            places.write(index, &convert::path(info, &capacity));
        }
        count.write(all.len());
        Ok(Code::Ok)
    })
}

/// Reads the counters of a session; after it has ended, the last ones. stats->size must be set.
///
/// Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT, SQUALL_ERROR_SIZE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_get_stats(session: types::Session, stats: *mut types::Stats) -> Code {
    guard(|| {
        // SAFETY: by the contract of the header.
        let mut place = unsafe { memory::place(stats) }?;
        place.write(0, &convert::stats(&handle::session(session)?.session.up()?.stats()));
        Ok(Code::Ok)
    })
}

/// Changes the interfaces of a session that this side started: paths over other interfaces are
/// closed, new ones opened. NULL: every interface. The lists are copied. SQUALL_EVENT_PATH_UP and
/// SQUALL_EVENT_PATH_DOWN follow.
///
/// Errors: SQUALL_ERROR_INTERFACE if the session was accepted, SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING,
/// SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT, SQUALL_ERROR_SIZE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_set_interfaces(
    session: types::Session,
    interfaces: *const types::Interfaces,
) -> Code {
    guard(|| {
        let session = handle::session(session)?;
        // SAFETY: by the contract of the header.
        session.session.set_interfaces(unsafe { self::interfaces(interfaces) }?)?;
        Ok(Code::Ok)
    })
}

/// Returns an interface of a session.
fn interface(session: types::Session, name: &str) -> Result<squall::InterfaceHandle, Failure> {
    let found = handle::session(session)?.session.up()?.interface(name);
    found.map_err(Failure::of(Code::ErrorInterface))
}

/// Declares whether the bytes of an interface, given by name or by local address, cost money. The
/// setting is announced to the peer: schedulers at both ends use it.
///
/// Errors: SQUALL_ERROR_INTERFACE, SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_set_metered(
    session: types::Session,
    interface_name: *const c_char,
    metered: u32,
) -> Code {
    guard(|| {
        // SAFETY: by the contract of the header.
        let name = unsafe { memory::required("interface_name", interface_name) }?;
        interface(session, name)?.set_metered(metered != 0);
        Ok(Code::Ok)
    })
}

/// Limits the bytes of UDP payload that this side may send over an interface in this session, given
/// by name or by local address; SQUALL_NO_LIMIT lifts the limit.
///
/// Errors: SQUALL_ERROR_INTERFACE, SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_set_budget(
    session: types::Session,
    interface_name: *const c_char,
    bytes: u64,
) -> Code {
    guard(|| {
        // SAFETY: by the contract of the header.
        let name = unsafe { memory::required("interface_name", interface_name) }?;
        let budget = Some(bytes).filter(|bytes| *bytes != SQUALL_NO_LIMIT);
        interface(session, name)?.set_budget(budget);
        Ok(Code::Ok)
    })
}

/// Sets the role of the paths of an interface, given by name or by local address, as one of
/// squall_role. The peer follows.
///
/// Errors: SQUALL_ERROR_INTERFACE, SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_set_role(
    session: types::Session,
    interface_name: *const c_char,
    role: u32,
) -> Code {
    guard(|| {
        // SAFETY: by the contract of the header.
        let name = unsafe { memory::required("interface_name", interface_name) }?;
        let role = convert::role(role)?;
        interface(session, name)?.set_role(role);
        Ok(Code::Ok)
    })
}

/// Limits the bits of UDP payload per second that each side may send on each path of an interface,
/// given by name or by local address; SQUALL_NO_LIMIT lifts the limit. burst is the number of bytes
/// that may leave at once; 0: 100 ms at that rate, at least 15000.
///
/// Errors: SQUALL_ERROR_INTERFACE, SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_set_rate_limit(
    session: types::Session,
    interface_name: *const c_char,
    bits_per_second: u64,
    burst: u64,
) -> Code {
    guard(|| {
        // SAFETY: by the contract of the header.
        let name = unsafe { memory::required("interface_name", interface_name) }?;
        let limit = Some(bits_per_second).filter(|rate| *rate != SQUALL_NO_LIMIT).map(|rate| {
            let limit = RateLimit::new(rate);
            if burst > 0 { RateLimit { burst, ..limit } } else { limit }
        });
        interface(session, name)?.set_rate_limit(limit);
        Ok(Code::Ok)
    })
}

/// Sets the latest reading of the radio of an interface, given by name or by local address. It is
/// evaluated every 100 ms, and is valid until the next. NULL removes the radio, whose effect ends
/// after five seconds. reading->size must be set, and levels that the radio does not report are
/// NaN.
///
/// Errors: SQUALL_ERROR_INTERFACE, SQUALL_ERROR_FULL beyond 64 interfaces, SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING,
/// SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT, SQUALL_ERROR_SIZE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_set_signal(
    session: types::Session,
    interface_name: *const c_char,
    reading: *const types::Reading,
) -> Code {
    guard(|| {
        // SAFETY: by the contract of the header.
        let (name, levels) =
            unsafe { (memory::required("interface_name", interface_name)?, memory::read_optional(reading)?) };
        let open = handle::session(session)?;
        open.radios.set(&open.session, name, levels.as_ref().map(convert::reading))?;
        Ok(Code::Ok)
    })
}

/// Waits until every block has ended, at most timeout_us microseconds, then closes the session with
/// code 0. Events can still be taken, and the session must still be freed.
///
/// Errors: SQUALL_ERROR_TIMEOUT if blocks were still open after the timeout, SQUALL_ERROR_CLOSED if
/// the session ended before its blocks, SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING.
#[unsafe(no_mangle)]
pub extern "C" fn squall_finish(session: types::Session, timeout_us: u64) -> Code {
    guard(|| handle::session(session)?.session.finish(Duration::from_micros(timeout_us)).map(|()| Code::Ok))
}

/// Closes the session at once; blocks in flight end with it. The peer receives the code and the
/// reason, which may be NULL; code 0 is a normal end. SQUALL_EVENT_CLOSED follows, and the session
/// must still be freed. The close is sent in the background: a program that exits at once calls
/// squall_finish instead, which waits until it is sent.
///
/// Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_close(session: types::Session, code: u32, reason: *const c_char) -> Code {
    guard(|| {
        // SAFETY: by the contract of the header.
        let reason = unsafe { memory::text("reason", reason) }?;
        handle::session(session)?.session.close(code, reason.unwrap_or_default());
        Ok(Code::Ok)
    })
}

/// Frees the session, closes it with code 0 if it is open, and drops events that were not taken.
/// Events that were taken remain until squall_event_free. A thread in squall_next returns.
///
/// Errors: SQUALL_ERROR_HANDLE.
#[unsafe(no_mangle)]
pub extern "C" fn squall_session_free(session: types::Session) -> Code {
    guard(|| {
        handle::remove_session(session)?.session.end();
        Ok(Code::Ok)
    })
}
