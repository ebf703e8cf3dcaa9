//! The functions of the header. Each reads its arguments, has another module do the work, and writes the result.

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

/// A time of C; one that does not end for SQUALL_NO_LIMIT.
fn time(micros: u64) -> Duration {
    if micros == SQUALL_NO_LIMIT { Duration::MAX } else { Duration::from_micros(micros) }
}

/// # Safety
/// As the header says of `options`.
unsafe fn config(options: *const types::Config) -> Result<squall::Config, Failure> {
    // SAFETY: as the header says.
    let Some(numbers) = unsafe { memory::read_optional(options) }? else {
        return Ok(squall::Config::default());
    };
    // SAFETY: as the header says.
    let names = unsafe {
        (memory::text("scheduler", numbers.scheduler)?, memory::text("congestion", numbers.congestion)?)
    };
    connect::config(&numbers, names.0, names.1)
}

/// # Safety
/// As the header says of `options`.
unsafe fn interfaces(options: *const types::Interfaces) -> Result<squall::Interfaces, Failure> {
    // SAFETY: as the header says.
    let Some(lists) = unsafe { memory::read_optional(options) }? else { return Ok(squall::Interfaces::Auto) };
    // SAFETY: as the header says.
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
/// As the header says of `options`.
unsafe fn connecting(options: *const types::ConnectOptions) -> Result<Session, Failure> {
    // SAFETY: as the header says, here and of all that the options point to.
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

/// The version of the library, such as "0.1.0". It is constant.
#[unsafe(no_mangle)]
pub extern "C" fn squall_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// One line that explains the last call of this thread that failed; empty if none did. Calls that succeed leave it.
/// It belongs to the library, and lasts until the next call of this thread that fails, or until the thread ends.
#[unsafe(no_mangle)]
pub extern "C" fn squall_last_error() -> *const c_char {
    error::last()
}

/// Sets the number of threads that drive all sessions, 1 to 64. Default: 1. To be
/// called before the first squall_listen or squall_connect.
///
/// Errors: SQUALL_ERROR_ARGUMENT for another number, or if the threads have started.
#[unsafe(no_mangle)]
pub extern "C" fn squall_set_threads(threads: u32) -> Code {
    guard(|| set_threads(threads).map(|()| Code::Ok))
}

/// Listens. On success *endpoint is to be freed with squall_endpoint_free. The options are copied. May wait for a name server
/// if addresses have host names, and up to half a second for an address that is in use, as that of an endpoint that was freed.
///
/// Errors: SQUALL_ERROR_ARGUMENT and SQUALL_ERROR_SIZE for wrong options or an unreadable certificate, SQUALL_ERROR_LISTEN if
/// an address is taken or none of this machine, SQUALL_ERROR_SYSTEM.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_listen(
    options: *const types::ListenOptions,
    endpoint: *mut types::Endpoint,
) -> Code {
    guard(|| {
        // SAFETY: as the header says, here and of all that the options point to.
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

/// Writes the fingerprint of the endpoint's certificate, for clients to pin: 64 hexadecimal digits and a zero. room is the size
/// of the buffer: SQUALL_FINGERPRINT_SIZE is enough.
///
/// Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_ARGUMENT, SQUALL_ERROR_SIZE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_endpoint_fingerprint(
    endpoint: types::Endpoint,
    to: *mut c_char,
    room: usize,
) -> Code {
    // SAFETY: as the header says.
    guard(|| unsafe {
        memory::put_text(to, room, handle::endpoint(endpoint)?.fingerprint())?;
        Ok(Code::Ok)
    })
}

/// Writes an address that the endpoint listens on, with its port; index counts from 0. room is the size of the buffer:
/// SQUALL_ADDRESS_SIZE is enough.
///
/// Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_ARGUMENT if there are not that many addresses, SQUALL_ERROR_SIZE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_endpoint_address(
    endpoint: types::Endpoint,
    index: usize,
    to: *mut c_char,
    room: usize,
) -> Code {
    // SAFETY: as the header says.
    guard(|| unsafe {
        memory::put_text(to, room, &handle::endpoint(endpoint)?.address(index)?)?;
        Ok(Code::Ok)
    })
}

/// A descriptor that is readable while squall_accept has a session; for poll, select and epoll. It belongs to the library, which
/// closes it in squall_endpoint_free. Neither read from it nor close it.
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

/// Takes the next session; waits for one for up to timeout_us microseconds: 0 does not wait, SQUALL_NO_LIMIT waits without end.
/// On success *session is to be freed with squall_session_free.
///
/// Returns SQUALL_NOTHING if none came. Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_ARGUMENT, SQUALL_ERROR_CLOSED if the endpoint
/// is freed meanwhile, SQUALL_ERROR_SYSTEM.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_accept(
    endpoint: types::Endpoint,
    timeout_us: u64,
    session: *mut types::Session,
) -> Code {
    guard(|| {
        // SAFETY: as the header says.
        let to = unsafe { memory::variable("session", session) }?;
        let accepted = handle::endpoint(endpoint)?.accept(time(timeout_us))?;
        Ok(accepted.map_or(Code::Nothing, |session| {
            to.write(handle::insert_session(session));
            Code::Ok
        }))
    })
}

/// Stops to listen and frees the endpoint. Sessions that were accepted go on; a thread in squall_accept returns. The addresses
/// are free at most 0.3 s after the last session was freed or has ended; squall_listen waits for that.
///
/// Errors: SQUALL_ERROR_HANDLE.
#[unsafe(no_mangle)]
pub extern "C" fn squall_endpoint_free(endpoint: types::Endpoint) -> Code {
    guard(|| {
        handle::remove_endpoint(endpoint)?.end();
        Ok(Code::Ok)
    })
}

/// Connects, and waits until the session is up or has failed, at most connect_timeout_us of the settings (10 s). On success
/// *session is to be freed with squall_session_free. The options are copied.
///
/// Errors: SQUALL_ERROR_ARGUMENT and SQUALL_ERROR_SIZE for wrong options, SQUALL_ERROR_CONNECT, SQUALL_ERROR_TRUST,
/// SQUALL_ERROR_SYSTEM.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_connect(
    options: *const types::ConnectOptions,
    session: *mut types::Session,
) -> Code {
    guard(|| {
        // SAFETY: as the header says.
        let (to, connecting) = unsafe { (memory::variable("session", session)?, connecting(options)?) };
        connecting.wait_connected()?;
        to.write(handle::insert_session(connecting));
        Ok(Code::Ok)
    })
}

/// Starts to connect, and returns at once: the first event is SQUALL_EVENT_CONNECTED, or SQUALL_EVENT_CLOSED with the reason.
/// On success *session is to be freed with squall_session_free. The options are copied.
///
/// Errors: SQUALL_ERROR_ARGUMENT and SQUALL_ERROR_SIZE for wrong options, SQUALL_ERROR_SYSTEM.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_connect_start(
    options: *const types::ConnectOptions,
    session: *mut types::Session,
) -> Code {
    guard(|| {
        // SAFETY: as the header says.
        let (to, connecting) = unsafe { (memory::variable("session", session)?, connecting(options)?) };
        to.write(handle::insert_session(connecting));
        Ok(Code::Ok)
    })
}

/// A descriptor that is readable while squall_next has an event; for poll, select and epoll. It belongs to the library, which
/// closes it in squall_session_free. Neither read from it nor close it.
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

/// Takes the next event; waits for one for up to timeout_us microseconds: 0 does not wait, SQUALL_NO_LIMIT waits without end.
/// event->size has to be set. On success the event is to be released with squall_event_free.
///
/// While 256 events or 1 MiB wait, further blocks stay in the session, within max_received_bytes, and the peer waits.
///
/// Returns SQUALL_NOTHING if none came; *event is then cleared. Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_ARGUMENT,
/// SQUALL_ERROR_SIZE, SQUALL_ERROR_CLOSED after SQUALL_EVENT_CLOSED was taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_next(
    session: types::Session,
    timeout_us: u64,
    event: *mut types::Event,
) -> Code {
    guard(|| {
        // SAFETY: as the header says.
        let mut place = unsafe { memory::place(event) }?;
        let session = handle::session(session)?;
        let event = session.session.next(time(timeout_us))?;
        let code = if event.is_some() { Code::Ok } else { Code::Nothing };
        place.write(0, &event.map_or_else(empty, flatten));
        Ok(code)
    })
}

/// Releases an event of squall_next and clears it; data and text are not to be used afterwards. Releasing it again does
/// nothing. Of several copies of an event only one is to be released. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_event_free(event: *mut types::Event) {
    if event.is_null() {
        return;
    }
    guard(|| {
        // SAFETY: as the header says: `owner` is what `squall_next` wrote, or null.
        unsafe {
            let owner = memory::read(event.cast_const())?.owner;
            memory::place(event)?.write(0, &empty());
            memory::release(owner);
        }
        Ok(Code::Ok)
    });
}

/// Sends a block. Never waits. The bytes are copied; if id is not NULL, *id receives the number of the block, as in events and
/// for squall_cancel.
///
/// Errors: SQUALL_ERROR_FULL if there is no room: drop the block, or send it again after SQUALL_EVENT_WRITABLE.
/// SQUALL_ERROR_CLOSED, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_HANDLE, SQUALL_ERROR_ARGUMENT (an empty block, options out of
/// range), SQUALL_ERROR_SIZE (also a block that is too large).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_send(
    session: types::Session,
    block: *const types::Block,
    id: *mut u64,
) -> Code {
    guard(|| {
        let session = handle::session(session)?;
        // SAFETY: as the header says.
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

/// Largest block in bytes that can be sent; 0 when the session is over.
///
/// Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_max_block(session: types::Session, bytes: *mut usize) -> Code {
    guard(|| {
        // SAFETY: as the header says.
        let to = unsafe { memory::variable("bytes", bytes) }?;
        to.write(handle::session(session)?.session.up()?.max_block_len());
        Ok(Code::Ok)
    })
}

/// Reads what the session can carry. capacity->size has to be set.
///
/// Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT, SQUALL_ERROR_SIZE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_get_capacity(
    session: types::Session,
    capacity: *mut types::Capacity,
) -> Code {
    guard(|| {
        // SAFETY: as the header says.
        let mut place = unsafe { memory::place(capacity) }?;
        let current = handle::session(session)?.session.up()?.capacity();
        let size = size_of::<types::Capacity>();
        let squall::Capacity { now, safe, confidence, link, waiting, .. } = current;
        let limit = convert::limit(current.limit);
        place.write(0, &types::Capacity { size, now, safe, link, waiting, confidence, limit, reserved: 0 });
        Ok(Code::Ok)
    })
}

/// Reads how many more bytes, sent now, arrive within within_us microseconds with a probability from 0 to 1, beside those that
/// wait: the size for the next frame. 0 when the session is over.
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
        // SAFETY: as the header says.
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

/// Requests that the peer send at most this many bits per second of blocks; SQUALL_NO_LIMIT lifts it. The capacity of the peer
/// reports no more than that, for its encoder to follow; blocks beyond it still arrive.
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

/// Reads the open paths; the last ones when the session is over. paths is an array of room elements, of which the first has its
/// size set: SQUALL_MAX_PATHS elements are enough. *count receives the number of paths, which can be more than room; with
/// room 0 paths may be NULL.
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
        // SAFETY: as the header says.
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

/// Reads the counters of a session; the last ones when it is over. stats->size has to be set.
///
/// Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT, SQUALL_ERROR_SIZE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_get_stats(session: types::Session, stats: *mut types::Stats) -> Code {
    guard(|| {
        // SAFETY: as the header says.
        let mut place = unsafe { memory::place(stats) }?;
        place.write(0, &convert::stats(&handle::session(session)?.session.up()?.stats()));
        Ok(Code::Ok)
    })
}

/// Changes what a session that this side started runs over: paths over other interfaces are closed, new ones opened. NULL: every
/// interface. The lists are copied. SQUALL_EVENT_PATH_UP and SQUALL_EVENT_PATH_DOWN follow.
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
        // SAFETY: as the header says.
        session.session.set_interfaces(unsafe { self::interfaces(interfaces) }?)?;
        Ok(Code::Ok)
    })
}

/// An interface of a session.
fn interface(session: types::Session, name: &str) -> Result<squall::InterfaceHandle, Failure> {
    let found = handle::session(session)?.session.up()?.interface(name);
    found.map_err(Failure::of(Code::ErrorInterface))
}

/// Declares the bytes of an interface, given by name or by local address, to cost money or not. The setting is announced to the
/// peer: schedulers at both ends see it.
///
/// Errors: SQUALL_ERROR_INTERFACE, SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_set_metered(
    session: types::Session,
    interface_name: *const c_char,
    metered: u32,
) -> Code {
    guard(|| {
        // SAFETY: as the header says.
        let name = unsafe { memory::required("interface_name", interface_name) }?;
        interface(session, name)?.set_metered(metered != 0);
        Ok(Code::Ok)
    })
}

/// Sets how many bytes of UDP payload this side may send over an interface in this session, given by name or by local address;
/// SQUALL_NO_LIMIT lifts it.
///
/// Errors: SQUALL_ERROR_INTERFACE, SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_set_budget(
    session: types::Session,
    interface_name: *const c_char,
    bytes: u64,
) -> Code {
    guard(|| {
        // SAFETY: as the header says.
        let name = unsafe { memory::required("interface_name", interface_name) }?;
        let budget = Some(bytes).filter(|bytes| *bytes != SQUALL_NO_LIMIT);
        interface(session, name)?.set_budget(budget);
        Ok(Code::Ok)
    })
}

/// Sets what the paths of an interface are used for, given by name or by local address, as one of squall_role. The peer follows.
///
/// Errors: SQUALL_ERROR_INTERFACE, SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_set_role(
    session: types::Session,
    interface_name: *const c_char,
    role: u32,
) -> Code {
    guard(|| {
        // SAFETY: as the header says.
        let name = unsafe { memory::required("interface_name", interface_name) }?;
        let role = convert::role(role)?;
        interface(session, name)?.set_role(role);
        Ok(Code::Ok)
    })
}

/// Sets how many bits of UDP payload per second each side may send on each path of an interface, given by name or by local
/// address; SQUALL_NO_LIMIT lifts it. burst is how many bytes may leave at once; 0: what leaves in 100 ms, at least 15000.
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
        // SAFETY: as the header says.
        let name = unsafe { memory::required("interface_name", interface_name) }?;
        let limit = Some(bits_per_second).filter(|rate| *rate != SQUALL_NO_LIMIT).map(|rate| {
            let limit = RateLimit::new(rate);
            if burst > 0 { RateLimit { burst, ..limit } } else { limit }
        });
        interface(session, name)?.set_rate_limit(limit);
        Ok(Code::Ok)
    })
}

/// Makes a reading the latest of the radio of an interface, given by name or by local address. It is evaluated every 100 ms, and
/// holds until the next. NULL removes the radio, which has no effect after five seconds. reading->size has to be set, and
/// levels that the radio does not report are NaN.
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
        // SAFETY: as the header says.
        let (name, levels) =
            unsafe { (memory::required("interface_name", interface_name)?, memory::read_optional(reading)?) };
        let open = handle::session(session)?;
        open.radios.set(&open.session, name, levels.as_ref().map(convert::reading))?;
        Ok(Code::Ok)
    })
}

/// Waits until every block has ended, at most timeout_us microseconds, then closes the session with code 0. Events can still be
/// taken, and the session is still to be freed.
///
/// Errors: SQUALL_ERROR_TIMEOUT if blocks were open when the time was up, SQUALL_ERROR_CLOSED if the session ended before its
/// blocks, SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING.
#[unsafe(no_mangle)]
pub extern "C" fn squall_finish(session: types::Session, timeout_us: u64) -> Code {
    guard(|| handle::session(session)?.session.finish(Duration::from_micros(timeout_us)).map(|()| Code::Ok))
}

/// Closes the session at once; blocks on their way end with it. The peer receives the code and the reason, which may be NULL;
/// code 0 is a normal end. SQUALL_EVENT_CLOSED follows, and the session is still to be freed. The close leaves in the
/// background: a program that ends at once calls squall_finish instead, which waits until it is sent.
///
/// Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn squall_close(session: types::Session, code: u32, reason: *const c_char) -> Code {
    guard(|| {
        // SAFETY: as the header says.
        let reason = unsafe { memory::text("reason", reason) }?;
        handle::session(session)?.session.close(code, reason.unwrap_or_default());
        Ok(Code::Ok)
    })
}

/// Frees the session, which is closed with code 0 if it is not yet, and drops events that were not taken. Events that were taken
/// stay until squall_event_free. A thread in squall_next returns.
///
/// Errors: SQUALL_ERROR_HANDLE.
#[unsafe(no_mangle)]
pub extern "C" fn squall_session_free(session: types::Session) -> Code {
    guard(|| {
        handle::remove_session(session)?.session.end();
        Ok(Code::Ok)
    })
}
