/*
 * Squall: multipath QUIC for real-time media. Generated from bindings/c/src by cbindgen; do not edit.
 *
 * Endpoints and sessions are numbers. A number that was freed is an error (SQUALL_ERROR_HANDLE), never a crash, and is not
 * used again.
 *
 * Structs begin with size. Set it to sizeof, and everything that is not needed to 0, which is the default of every option:
 *
 *     squall_block block = {.size = sizeof block, .data = frame, .len = len};
 *
 * A program that was compiled with an older header runs with a newer library, and with an older library if it leaves the
 * fields at 0 that the library does not have.
 *
 * Pointers: an argument points to what its type says, or is NULL where the function allows it. Texts are UTF-8 and end with
 * a zero. Unless a function says otherwise, it uses what an argument points to only while it runs, and no other thread
 * changes it meanwhile.
 *
 * Threads: every function can be called from every thread, also for the same session at the same time. The library calls no
 * function of the program. It starts one thread with the first squall_listen or squall_connect. Do not call it from a signal
 * handler.
 *
 * Processes: a child of fork() can listen and connect; it has a thread and numbers of its own. Numbers of its parent are the
 * error SQUALL_ERROR_FORKED there, and what it does leaves the parent's sessions alone. Ports of the parent stay in use until
 * the child has ended, too.
 *
 * Errors: functions return SQUALL_OK, SQUALL_NOTHING, or a negative code, which squall_last_error explains in one line. A
 * result is written on success only.
 *
 * Times are in microseconds.
 */


#ifndef SQUALL_H
#define SQUALL_H

#include <stddef.h>
#include <stdint.h>

/**
 * Size in bytes for any address with its port as text, including the final zero.
 */
#define SQUALL_ADDRESS_SIZE 72

/**
 * Size in bytes for a fingerprint as text, including the final zero.
 */
#define SQUALL_FINGERPRINT_SIZE 65

/**
 * Size in bytes for the name of an interface, including the final zero. Longer names are
 * truncated.
 */
#define SQUALL_INTERFACE_SIZE 32

/**
 * Maximum number of paths of a session.
 */
#define SQUALL_MAX_PATHS 8

/**
 * As a time: wait without end. As a number of bytes or a time left: no limit.
 */
#define SQUALL_NO_LIMIT UINT64_MAX

/**
 * Result of a call. Errors are negative; squall_last_error explains them.
 */
enum squall_code
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * Success.
     */
    SQUALL_OK = 0,
    /**
     * Success, but nothing arrived before the timeout.
     */
    SQUALL_NOTHING = 1,
    /**
     * An argument is invalid: NULL where it must not be, text that is not UTF-8, a number out of
     * range, a file that cannot be read.
     */
    SQUALL_ERROR_ARGUMENT = -1,
    /**
     * The number does not refer to an endpoint or a session: it was freed, or never existed.
     */
    SQUALL_ERROR_HANDLE = -2,
    /**
     * The size field of a struct is wrong, a buffer is too small, or a block too large.
     */
    SQUALL_ERROR_SIZE = -3,
    /**
     * There is no room. After squall_send, SQUALL_EVENT_WRITABLE follows when there is.
     */
    SQUALL_ERROR_FULL = -4,
    /**
     * The session has ended.
     */
    SQUALL_ERROR_CLOSED = -5,
    /**
     * The session that squall_connect_start began is not connected yet.
     */
    SQUALL_ERROR_CONNECTING = -6,
    /**
     * No connection: no answer, no usable interface, an unknown host, or the server refused it.
     */
    SQUALL_ERROR_CONNECT = -7,
    /**
     * The certificate of the server is not trusted, or is not the pinned one.
     */
    SQUALL_ERROR_TRUST = -8,
    /**
     * The endpoint cannot listen.
     */
    SQUALL_ERROR_LISTEN = -9,
    /**
     * No path uses this interface now; or the session was accepted, and its peer selects the
     * interfaces.
     */
    SQUALL_ERROR_INTERFACE = -10,
    /**
     * The timeout has expired.
     */
    SQUALL_ERROR_TIMEOUT = -11,
    /**
     * The system has no descriptors or threads left.
     */
    SQUALL_ERROR_SYSTEM = -12,
    /**
     * A defect in the library.
     */
    SQUALL_ERROR_INTERNAL = -13,
    /**
     * The endpoint or session belongs to the process that this one was forked from.
     */
    SQUALL_ERROR_FORKED = -14,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum squall_code squall_code;
#else
typedef int32_t squall_code;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Kind of an event. A later release can add kinds: ignore unknown ones.
 */
enum squall_event_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * None: the struct was cleared by squall_event_free.
     */
    SQUALL_EVENT_NONE = 0,
    /**
     * The session started by squall_connect_start is connected.
     */
    SQUALL_EVENT_CONNECTED = 1,
    /**
     * A block of the peer arrived: block, channel, priority, data, len, missing, missing_count,
     * elapsed_us (from its first byte to its end), remaining_us (until its deadline; negative
     * after it).
     */
    SQUALL_EVENT_RECEIVED = 2,
    /**
     * A block of the peer will not arrive: block, channel, priority, text.
     */
    SQUALL_EVENT_MISSED = 3,
    /**
     * The peer received the whole block: block, elapsed_us (from squall_send until its last byte
     * left first), text. This and the next four are the outcomes of blocks that were sent with
     * report_outcome.
     */
    SQUALL_EVENT_DELIVERED = 4,
    /**
     * The deadline passed, or the paths could not meet it: block, bytes (that arrived).
     */
    SQUALL_EVENT_EXPIRED = 5,
    /**
     * The block is unreliable and part of it was lost: block, bytes (that arrived).
     */
    SQUALL_EVENT_LOST = 6,
    /**
     * squall_cancel or the scheduler cancelled the block, or the session ended first: block, text.
     */
    SQUALL_EVENT_CANCELLED = 7,
    /**
     * The peer refused the block: block, text.
     */
    SQUALL_EVENT_REFUSED = 8,
    /**
     * There is room to send again, after SQUALL_ERROR_FULL.
     */
    SQUALL_EVENT_WRITABLE = 9,
    /**
     * A path is up: path, text.
     */
    SQUALL_EVENT_PATH_UP = 10,
    /**
     * A path is silent and not used: path, elapsed_us (of silence), text.
     */
    SQUALL_EVENT_PATH_SUSPECTED = 11,
    /**
     * A suspected path works again: path, elapsed_us (without it), text.
     */
    SQUALL_EVENT_PATH_READMITTED = 12,
    /**
     * The radio of a path reports a fade or its end: path, text.
     */
    SQUALL_EVENT_PATH_SIGNAL = 13,
    /**
     * A path has another address of the peer: path, text.
     */
    SQUALL_EVENT_PATH_REBOUND = 14,
    /**
     * A path was closed: path.
     */
    SQUALL_EVENT_PATH_DOWN = 15,
    /**
     * The capacity changed: see squall_get_capacity. Further changes are merged into this event
     * until it is taken.
     */
    SQUALL_EVENT_CAPACITY = 16,
    /**
     * The session has ended, or could not be set up: cause, code (of the peer), text. The last
     * event.
     */
    SQUALL_EVENT_CLOSED = 17,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum squall_event_kind squall_event_kind;
#else
typedef uint32_t squall_event_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Cause of the end of a session.
 */
enum squall_cause
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * Not ended.
     */
    SQUALL_CAUSE_NONE = 0,
    /**
     * This side closed it.
     */
    SQUALL_CAUSE_LOCAL = 1,
    /**
     * The peer closed it.
     */
    SQUALL_CAUSE_PEER = 2,
    /**
     * Nothing was received for idle_timeout_us.
     */
    SQUALL_CAUSE_TIMEOUT = 3,
    /**
     * The last path has used its budget.
     */
    SQUALL_CAUSE_BUDGET = 4,
    /**
     * The peer broke the protocol.
     */
    SQUALL_CAUSE_PROTOCOL = 5,
    /**
     * An error of QUIC or TLS.
     */
    SQUALL_CAUSE_TRANSPORT = 6,
    /**
     * The session could not be set up.
     */
    SQUALL_CAUSE_CONNECT = 7,
    /**
     * The certificate of the server is not trusted.
     */
    SQUALL_CAUSE_TRUST = 8,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum squall_cause squall_cause;
#else
typedef uint32_t squall_cause;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Dependencies of a block of a video, for schedulers that select among blocks. Default: none.
 */
enum squall_depends
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * None.
     */
    SQUALL_DEPENDS_NOTHING = 0,
    /**
     * None, and it starts a group of pictures on its channel.
     */
    SQUALL_DEPENDS_KEY = 1,
    /**
     * The key or reference before it on its channel; later blocks need it.
     */
    SQUALL_DEPENDS_REFERENCE = 2,
    /**
     * The key or reference before it on its channel; no block needs it.
     */
    SQUALL_DEPENDS_DISPOSABLE = 3,
    /**
     * The one or two blocks in depends_on.
     */
    SQUALL_DEPENDS_ON = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum squall_depends squall_depends;
#else
typedef uint32_t squall_depends;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Use of the paths in hint_path by a block. Default: no hint.
 */
enum squall_hint
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * No hint.
     */
    SQUALL_HINT_NONE = 0,
    /**
     * Prefer these paths, while one of them is usable.
     */
    SQUALL_HINT_PREFER = 1,
    /**
     * Prefer other paths, while one of those is usable.
     */
    SQUALL_HINT_AVOID = 2,
    /**
     * Only these paths: if there are none, the block ends.
     */
    SQUALL_HINT_ONLY = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum squall_hint squall_hint;
#else
typedef uint32_t squall_hint;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Role of the paths of an interface. Default: primary.
 */
enum squall_role
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * Everything.
     */
    SQUALL_ROLE_PRIMARY = 0,
    /**
     * Data only while no primary path is usable.
     */
    SQUALL_ROLE_BACKUP = 1,
    /**
     * Retransmissions, parity and copies; data only while no other path is usable.
     */
    SQUALL_ROLE_REPAIR = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum squall_role squall_role;
#else
typedef uint32_t squall_role;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * State of a path.
 */
enum squall_path_state
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * In use.
     */
    SQUALL_PATH_STATE_ACTIVE = 0,
    /**
     * Silent, and only probed.
     */
    SQUALL_PATH_STATE_SUSPECT = 1,
    /**
     * Disabled by a radio alert.
     */
    SQUALL_PATH_STATE_DEACTIVATED = 2,
    /**
     * Opened by this side, and not answered by the peer yet.
     */
    SQUALL_PATH_STATE_OPENING = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum squall_path_state squall_path_state;
#else
typedef uint32_t squall_path_state;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Cause that limits the capacity.
 */
enum squall_limit
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * No path is in use.
     */
    SQUALL_LIMIT_OUT_OF_USE = 0,
    /**
     * A radio.
     */
    SQUALL_LIMIT_RADIO = 1,
    /**
     * A budget.
     */
    SQUALL_LIMIT_BUDGET = 2,
    /**
     * The network.
     */
    SQUALL_LIMIT_NETWORK = 3,
    /**
     * The application: there is spare capacity.
     */
    SQUALL_LIMIT_APPLICATION = 4,
    /**
     * The receiver, by squall_request_bitrate.
     */
    SQUALL_LIMIT_RECEIVER = 5,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum squall_limit squall_limit;
#else
typedef uint32_t squall_limit;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Settings of sessions. 0 and NULL mean the default.
 */
typedef struct squall_config {
    /**
     * sizeof(squall_config).
     */
    uintptr_t size;
    /**
     * Scheduler by name, with options: "minrtt", "sp(path=1)". Default: "squall".
     */
    const char *scheduler;
    /**
     * Congestion control by name: "steady", "cubic", "bbr3". Default: "steady".
     */
    const char *congestion;
    /**
     * Timeout of the handshake in microseconds. Default: 10 s.
     */
    uint64_t connect_timeout_us;
    /**
     * Time without received packets after which a session ends, in microseconds. Default: 30 s.
     */
    uint64_t idle_timeout_us;
    /**
     * Maximum size of a block in bytes, sent or received. Default and maximum: 16 MiB.
     */
    uint64_t max_block;
    /**
     * Maximum of bytes sent and not known to have arrived. Default: 64 MiB.
     */
    uint64_t max_queued_bytes;
    /**
     * Maximum of bytes in arriving blocks that were not taken; beyond it the sender waits.
     * Default: 64 MiB.
     */
    uint64_t max_received_bytes;
    /**
     * Maximum of open blocks, in each direction. Default: 65,536; maximum: 1,048,576.
     */
    uint64_t max_open_blocks;
    /**
     * Maximum of paths of a session. Default and maximum: 8.
     */
    uint64_t max_paths;
    /**
     * Maximum of sessions of a listening endpoint. Default: 4,096.
     */
    uint64_t max_sessions;
    /**
     * Maximum of handshakes in progress at a listening endpoint. Default: 1,024.
     */
    uint64_t max_handshakes;
} squall_config;

/**
 * Addresses and certificate of a listening endpoint.
 */
typedef struct squall_listen_options {
    /**
     * sizeof(squall_listen_options).
     */
    uintptr_t size;
    /**
     * Addresses with ports. "[::]:4433" accepts IPv4 too; port 0 uses a free port, see
     * squall_endpoint_address. Required.
     */
    const char *const *addresses;
    /**
     * Number of addresses.
     */
    uintptr_t address_count;
    /**
     * PEM file with the certificate chain, and with the key unless key_file is given.
     */
    const char *certificate_file;
    /**
     * PEM file with the key.
     */
    const char *key_file;
    /**
     * Host name for a self-signed certificate. It is written to certificate_file if that file is
     * missing, and read from there otherwise; if certificate_file is NULL, it is used only by this
     * endpoint.
     */
    const char *self_signed_name;
    /**
     * Settings. NULL: the defaults.
     */
    const struct squall_config *config;
} squall_listen_options;

/**
 * Number of a listening endpoint; always above 0. It is not reused after squall_endpoint_free.
 */
typedef int64_t squall_endpoint;

/**
 * Number of a session; always above 0. It is not reused after squall_session_free.
 */
typedef int64_t squall_session;

/**
 * A local and a remote address, each with a port: "192.0.2.1:0", "198.51.100.7:4433". Local port 0
 * uses any.
 */
typedef struct squall_pair {
    /**
     * Local address.
     */
    const char *local;
    /**
     * Address of the peer.
     */
    const char *remote;
} squall_pair;

/**
 * Interfaces of a session. All zero: every interface with a route to the server, including those
 * that appear later. Otherwise exactly one of the three lists.
 */
typedef struct squall_interfaces {
    /**
     * sizeof(squall_interfaces).
     */
    uintptr_t size;
    /**
     * Names of interfaces, used whenever they are available: "wlan0".
     */
    const char *const *names;
    /**
     * Number of names.
     */
    uintptr_t name_count;
    /**
     * Local IP addresses: "192.0.2.1".
     */
    const char *const *addresses;
    /**
     * Number of addresses.
     */
    uintptr_t address_count;
    /**
     * Exact pairs of addresses, one for each path.
     */
    const struct squall_pair *pairs;
    /**
     * Number of pairs.
     */
    uintptr_t pair_count;
} squall_interfaces;

/**
 * A server to connect to. Its certificate is trusted if an authority of the operating system
 * signed it, unless fingerprint, authorities_file or insecure is set; at most one of these.
 */
typedef struct squall_connect_options {
    /**
     * sizeof(squall_connect_options).
     */
    uintptr_t size;
    /**
     * "host:port"; the host is a name, an IPv4 address, or an IPv6 address in brackets. Required.
     */
    const char *host;
    /**
     * Name that the certificate must have. Default: the host.
     */
    const char *server_name;
    /**
     * Addresses with ports to try instead of those to which the host resolves, the preferred
     * first.
     */
    const char *const *addresses;
    /**
     * Number of addresses.
     */
    uintptr_t address_count;
    /**
     * Interfaces to connect over. NULL: every interface.
     */
    const struct squall_interfaces *interfaces;
    /**
     * SHA-256 of the certificate of the server, as squall_endpoint_fingerprint writes it.
     */
    const char *fingerprint;
    /**
     * PEM file with authorities.
     */
    const char *authorities_file;
    /**
     * Settings. NULL: the defaults.
     */
    const struct squall_config *config;
    /**
     * Not 0: trust any server. The session is encrypted, but vulnerable to a man in the middle.
     * For tests.
     */
    uint64_t insecure;
} squall_connect_options;

/**
 * Bytes of a block: from start to before end. An end of 16777216 beyond the data: the length was
 * never received.
 */
typedef struct squall_range {
    /**
     * First byte.
     */
    uint32_t start;
    /**
     * One past the last byte.
     */
    uint32_t end;
} squall_range;

/**
 * An event, filled in by squall_next. Fields not listed for its kind are 0; text is never NULL.
 */
typedef struct squall_event {
    /**
     * sizeof(squall_event), set before squall_next.
     */
    uintptr_t size;
    /**
     * One of squall_event_kind.
     */
    uint32_t kind;
    /**
     * Path, as in squall_path.
     */
    uint32_t path;
    /**
     * Block: numbered by squall_send if it is of this side, otherwise by the peer.
     */
    uint64_t block;
    /**
     * Bytes of a block, until squall_event_free.
     */
    const uint8_t *data;
    /**
     * Number of bytes.
     */
    uintptr_t len;
    /**
     * One-line description of the event, valid until squall_event_free.
     */
    const char *text;
    /**
     * Channel of a block.
     */
    uint32_t channel;
    /**
     * Priority of a block.
     */
    uint32_t priority;
    /**
     * Bytes of a block that arrived.
     */
    uint64_t bytes;
    /**
     * A duration in microseconds.
     */
    uint64_t elapsed_us;
    /**
     * Microseconds left; INT64_MAX without a deadline.
     */
    int64_t remaining_us;
    /**
     * Code with which the peer closed the session; 0 is a normal end.
     */
    uint64_t code;
    /**
     * One of squall_cause.
     */
    uint32_t cause;
    /**
     * Always 0.
     */
    uint32_t reserved;
    /**
     * Memory that squall_event_free releases.
     */
    void *owner;
    /**
     * Ranges of a partial block that did not arrive, ascending, valid until squall_event_free;
     * data has zeros there. NULL if it is complete.
     */
    const struct squall_range *missing;
    /**
     * Number of ranges.
     */
    uintptr_t missing_count;
} squall_event;

/**
 * A block to send.
 */
typedef struct squall_block {
    /**
     * sizeof(squall_block).
     */
    uintptr_t size;
    /**
     * The bytes; copied before squall_send returns.
     */
    const uint8_t *data;
    /**
     * Number of bytes, 1 to squall_max_block.
     */
    uintptr_t len;
    /**
     * Microseconds from now after which the block is worthless, at most a year; both ends then cancel it. 0 and
     * SQUALL_NO_LIMIT: none.
     */
    uint64_t deadline_us;
    /**
     * Blocks without which the block is useless, for SQUALL_DEPENDS_ON.
     */
    uint64_t depends_on[2];
    /**
     * Number of these blocks, 1 or 2.
     */
    uint32_t depends_count;
    /**
     * One of squall_depends.
     */
    uint32_t depends;
    /**
     * 0 (sent first) to 7 (sent last).
     */
    uint32_t priority;
    /**
     * 0 to 1023.
     */
    uint32_t channel;
    /**
     * Loss if only this block is missing, relative to other blocks, 1 to 65535. 0: 4 to the power
     * of (7 - priority).
     */
    uint32_t value;
    /**
     * Not 0: lost bytes are not sent again.
     */
    uint32_t unreliable;
    /**
     * Not 0: delivered after the previous ordered block on the same channel.
     */
    uint32_t ordered;
    /**
     * Not 0: the outcome of the block becomes an event.
     */
    uint32_t report_outcome;
    /**
     * One of squall_hint.
     */
    uint32_t hint;
    /**
     * Paths, by the name or the local address of their interface, or "#2" for the path with that
     * number. NULL without a hint.
     */
    const char *hint_path;
    /**
     * Not 0: if the block ends incomplete, by its deadline or by losses, the peer gets the part
     * that arrived.
     */
    uint32_t partial;
} squall_block;

/**
 * Capacity of a session, for an encoder to follow. All 0 before the session is connected and after
 * it has ended.
 */
typedef struct squall_capacity {
    /**
     * sizeof(squall_capacity), set before squall_get_capacity.
     */
    uintptr_t size;
    /**
     * Bits per second of blocks now, if the application sends enough.
     */
    uint64_t now;
    /**
     * Bits per second of blocks over the next second, reached with probability 0.9.
     */
    uint64_t safe;
    /**
     * Bits per second of UDP payload: now, with headers.
     */
    uint64_t link;
    /**
     * Bytes queued and not yet sent.
     */
    uint64_t waiting;
    /**
     * Share of the last minute's forecasts that were met, 0 to 1.
     */
    double confidence;
    /**
     * One of squall_limit.
     */
    uint32_t limit;
    /**
     * Always 0.
     */
    uint32_t reserved;
} squall_capacity;

/**
 * A path of a session and its counters since it was opened. Bytes are UDP payload, including QUIC
 * headers.
 */
typedef struct squall_path {
    /**
     * sizeof(squall_path), set in the first element before squall_get_paths.
     */
    uintptr_t size;
    /**
     * Number of the path, as in events.
     */
    uint32_t id;
    /**
     * One of squall_path_state.
     */
    uint32_t state;
    /**
     * 1 if its bytes cost money, as declared by either side.
     */
    uint32_t metered;
    /**
     * Cause that limits its capacity: one of squall_limit.
     */
    uint32_t limit;
    /**
     * Name of the interface, if the path was opened over a named one.
     */
    char interface_name[SQUALL_INTERFACE_SIZE];
    /**
     * Local address.
     */
    char local[SQUALL_ADDRESS_SIZE];
    /**
     * Address of the peer.
     */
    char remote[SQUALL_ADDRESS_SIZE];
    /**
     * 1, or less (but above 0) while a radio at either end reports a fade.
     */
    double signal_factor;
    /**
     * Quality of the radio at this end, 0 to 1; NaN if there is no reading.
     */
    double signal_quality;
    /**
     * Share of packets lost over the last two seconds.
     */
    double loss;
    /**
     * Remaining bytes of its budget; SQUALL_NO_LIMIT without one.
     */
    uint64_t budget;
    /**
     * Smoothed round-trip time in microseconds.
     */
    uint64_t srtt_us;
    /**
     * Smallest round-trip time in microseconds.
     */
    uint64_t min_rtt_us;
    /**
     * Mean deviation of the round-trip time in microseconds.
     */
    uint64_t rtt_deviation_us;
    /**
     * One-way delay to the peer in microseconds; differences between paths are exact.
     */
    uint64_t one_way_delay_us;
    /**
     * Capacity now, in bits per second of blocks.
     */
    uint64_t capacity_now;
    /**
     * Capacity over the next second, reached with probability 0.9, in bits per second of blocks.
     */
    uint64_t capacity_safe;
    /**
     * Delivery rate in bits per second.
     */
    uint64_t delivery_rate;
    /**
     * Congestion window in bytes.
     */
    uint64_t window;
    /**
     * Bytes in flight.
     */
    uint64_t in_flight;
    /**
     * Bytes sent.
     */
    uint64_t sent_bytes;
    /**
     * UDP datagrams sent.
     */
    uint64_t sent_packets;
    /**
     * Bytes received.
     */
    uint64_t received_bytes;
    /**
     * UDP datagrams received.
     */
    uint64_t received_packets;
    /**
     * Packets with data that were acknowledged.
     */
    uint64_t acked_packets;
    /**
     * Packets with data that were declared lost.
     */
    uint64_t lost_packets;
    /**
     * Block bytes sent for the first time.
     */
    uint64_t fresh_bytes;
    /**
     * Block bytes sent again after a loss.
     */
    uint64_t repair_bytes;
    /**
     * Block bytes sent as a copy of bytes in flight on another path.
     */
    uint64_t copy_bytes;
    /**
     * Bytes of parity sent.
     */
    uint64_t parity_bytes;
    /**
     * Block bytes received, duplicates included.
     */
    uint64_t data_received;
    /**
     * Bytes of data_received that had been received before.
     */
    uint64_t duplicate_bytes;
    /**
     * Times the path was suspected.
     */
    uint64_t suspicions;
} squall_path;

/**
 * Counters of a session since it began.
 */
typedef struct squall_stats {
    /**
     * sizeof(squall_stats), set before squall_get_stats.
     */
    uintptr_t size;
    /**
     * Blocks sent by the application.
     */
    uint64_t blocks_offered;
    /**
     * Blocks offered and delivered whole.
     */
    uint64_t blocks_delivered;
    /**
     * Blocks offered and ended by their deadline.
     */
    uint64_t blocks_expired;
    /**
     * Unreliable blocks offered and lost in part.
     */
    uint64_t blocks_lost;
    /**
     * Blocks offered and cancelled by the application or the scheduler.
     */
    uint64_t blocks_cancelled;
    /**
     * Blocks offered and still open when the session ended.
     */
    uint64_t blocks_closed;
    /**
     * Blocks offered and refused by the peer.
     */
    uint64_t blocks_refused;
    /**
     * Blocks of the peer received whole.
     */
    uint64_t blocks_received;
    /**
     * Blocks received that were completed with parity.
     */
    uint64_t blocks_rebuilt;
    /**
     * Blocks of the peer that did not arrive.
     */
    uint64_t blocks_missed;
    /**
     * Bytes of blocks sent by the application.
     */
    uint64_t bytes_offered;
    /**
     * Bytes of blocks delivered whole.
     */
    uint64_t bytes_delivered;
    /**
     * Bytes of blocks received whole.
     */
    uint64_t bytes_received;
    /**
     * Bytes received more than once.
     */
    uint64_t duplicates;
    /**
     * Bytes that the peer received more than once.
     */
    uint64_t peer_duplicates;
    /**
     * Bytes sent by the application and not known to have arrived.
     */
    uint64_t queued_bytes;
    /**
     * Blocks sent by the application that are still open.
     */
    uint64_t open_blocks;
    /**
     * Memory of incoming blocks, in bytes.
     */
    uint64_t held_bytes;
    /**
     * Path events dropped because they were not taken; the latest 256 are kept in addition to
     * those in the queue.
     */
    uint64_t path_events_dropped;
} squall_stats;

/**
 * Levels of a radio. A level that is not reported is NaN.
 */
typedef struct squall_reading {
    /**
     * sizeof(squall_reading).
     */
    uintptr_t size;
    /**
     * 0 unknown, 1 Wi-Fi, 2 GSM, 3 UMTS, 4 LTE, 5 5G with LTE (non-standalone), 6 5G.
     */
    uint32_t technology;
    /**
     * Not 0: the radio is in no network; the levels are then ignored.
     */
    uint32_t disconnected;
    /**
     * Microseconds since the radio measured.
     */
    uint64_t age_us;
    /**
     * Reference signal received power in dBm.
     */
    double rsrp;
    /**
     * Reference signal received quality in dB.
     */
    double rsrq;
    /**
     * Signal to interference and noise ratio in dB.
     */
    double sinr;
    /**
     * Received signal strength in dBm; the only level of Wi-Fi.
     */
    double rssi;
} squall_reading;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the version of the library, such as "0.1.0", as a constant.
 */
const char *squall_version(void);

/**
 * Returns one line that explains the last failed call of this thread; empty if none has failed.
 * Successful calls do not change it. It belongs to the library, and is valid until the next failed
 * call of this thread, or until the thread ends.
 */
const char *squall_last_error(void);

/**
 * Sets the number of threads that drive all sessions, 1 to 64. Default: 1. Must be called before
 * the first squall_listen or squall_connect.
 *
 * Errors: SQUALL_ERROR_ARGUMENT for another number, or if the threads have started.
 */
squall_code squall_set_threads(uint32_t threads);

/**
 * Listens. On success *endpoint must be freed with squall_endpoint_free. The options are copied.
 * May wait for a name server if addresses have host names, and up to half a second for an address
 * in use, such as that of a freed endpoint.
 *
 * Errors: SQUALL_ERROR_ARGUMENT and SQUALL_ERROR_SIZE for invalid options or an unreadable
 * certificate, SQUALL_ERROR_LISTEN if an address is in use or does not belong to this machine,
 * SQUALL_ERROR_SYSTEM.
 */
squall_code squall_listen(const struct squall_listen_options *options, squall_endpoint *endpoint);

/**
 * Writes the fingerprint of the endpoint's certificate, for clients to pin: 64 hexadecimal digits
 * and a zero. room is the size of the buffer: SQUALL_FINGERPRINT_SIZE is enough.
 *
 * Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_ARGUMENT, SQUALL_ERROR_SIZE.
 */
squall_code squall_endpoint_fingerprint(squall_endpoint endpoint, char *to, uintptr_t room);

/**
 * Writes an address on which the endpoint listens, with its port; index counts from 0. room is the
 * size of the buffer: SQUALL_ADDRESS_SIZE is enough.
 *
 * Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_ARGUMENT if there are not that many addresses, SQUALL_ERROR_SIZE.
 */
squall_code squall_endpoint_address(squall_endpoint endpoint,
                                    uintptr_t index,
                                    char *to,
                                    uintptr_t room);

/**
 * Returns a descriptor that is readable while squall_accept has a session; for poll, select and
 * epoll. It belongs to the library, which closes it in squall_endpoint_free. It must be neither
 * read nor closed.
 *
 * Errors: -1.
 */
int squall_endpoint_fd(squall_endpoint endpoint);

/**
 * Takes the next session; waits for one for up to timeout_us microseconds: 0 does not wait,
 * SQUALL_NO_LIMIT waits without end. On success *session must be freed with squall_session_free.
 *
 * Returns SQUALL_NOTHING after the timeout. Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_ARGUMENT,
 * SQUALL_ERROR_CLOSED if the endpoint is freed meanwhile, SQUALL_ERROR_SYSTEM.
 */
squall_code squall_accept(squall_endpoint endpoint, uint64_t timeout_us, squall_session *session);

/**
 * Stops listening and frees the endpoint. Accepted sessions continue; a thread in squall_accept
 * returns. The addresses are free at most 0.3 s after the last session was freed or has ended;
 * squall_listen waits for that.
 *
 * Errors: SQUALL_ERROR_HANDLE.
 */
squall_code squall_endpoint_free(squall_endpoint endpoint);

/**
 * Connects, and waits until the session is connected or has failed, at most connect_timeout_us of
 * the settings (10 s). On success *session must be freed with squall_session_free. The options are
 * copied.
 *
 * Errors: SQUALL_ERROR_ARGUMENT and SQUALL_ERROR_SIZE for invalid options, SQUALL_ERROR_CONNECT,
 * SQUALL_ERROR_TRUST, SQUALL_ERROR_SYSTEM.
 */
squall_code squall_connect(const struct squall_connect_options *options, squall_session *session);

/**
 * Starts to connect, and returns at once: the first event is SQUALL_EVENT_CONNECTED, or
 * SQUALL_EVENT_CLOSED with the reason. On success *session must be freed with squall_session_free.
 * The options are copied.
 *
 * Errors: SQUALL_ERROR_ARGUMENT and SQUALL_ERROR_SIZE for invalid options, SQUALL_ERROR_SYSTEM.
 */
squall_code squall_connect_start(const struct squall_connect_options *options,
                                 squall_session *session);

/**
 * Returns a descriptor that is readable while squall_next has an event; for poll, select and
 * epoll. It belongs to the library, which closes it in squall_session_free. It must be neither
 * read nor closed.
 *
 * Errors: -1.
 */
int squall_session_fd(squall_session session);

/**
 * Takes the next event; waits for one for up to timeout_us microseconds: 0 does not wait,
 * SQUALL_NO_LIMIT waits without end. event->size must be set. On success the event must be
 * released with squall_event_free.
 *
 * While 256 events or 1 MiB are queued, further blocks stay in the session, within
 * max_received_bytes, and the peer waits.
 *
 * Returns SQUALL_NOTHING after the timeout; *event is then cleared. Errors: SQUALL_ERROR_HANDLE,
 * SQUALL_ERROR_ARGUMENT, SQUALL_ERROR_SIZE, SQUALL_ERROR_CLOSED after SQUALL_EVENT_CLOSED was
 * taken.
 */
squall_code squall_next(squall_session session, uint64_t timeout_us, struct squall_event *event);

/**
 * Releases an event of squall_next and clears it; data and text must not be used afterwards.
 * Releasing it again has no effect. Only one of several copies of an event may be released. NULL
 * is allowed.
 */
void squall_event_free(struct squall_event *event);

/**
 * Sends a block. Never waits. The bytes are copied; if id is not NULL, *id receives the number of
 * the block, as used in events and by squall_cancel.
 *
 * Errors: SQUALL_ERROR_FULL if there is no room: drop the block, or send it again after
 * SQUALL_EVENT_WRITABLE. SQUALL_ERROR_CLOSED, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_HANDLE,
 * SQUALL_ERROR_ARGUMENT (an empty block, options out of range), SQUALL_ERROR_SIZE (also for a
 * block that is too large).
 */
squall_code squall_send(squall_session session, const struct squall_block *block, uint64_t *id);

/**
 * Cancels a block, unless it has ended. Its outcome is SQUALL_EVENT_CANCELLED.
 *
 * Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED.
 */
squall_code squall_cancel(squall_session session, uint64_t block);

/**
 * Reads the size in bytes of the largest block that can be sent; 0 after the session has ended.
 *
 * Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT.
 */
squall_code squall_max_block(squall_session session, uintptr_t *bytes);

/**
 * Reads the capacity of the session. capacity->size must be set.
 *
 * Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT, SQUALL_ERROR_SIZE.
 */
squall_code squall_get_capacity(squall_session session,
                                struct squall_capacity *capacity);

/**
 * Reads the number of further bytes that, sent now, arrive within within_us microseconds with a
 * probability from 0 to 1, in addition to those already queued: the size for the next frame. 0
 * after the session has ended.
 *
 * Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT.
 */
squall_code squall_deliverable(squall_session session,
                               uint64_t within_us,
                               double probability,
                               uint64_t *bytes);

/**
 * Requests that the peer send at most this many bits per second of blocks; SQUALL_NO_LIMIT lifts
 * the limit. The capacity at the peer reports at most that value, for its encoder to follow;
 * blocks beyond it still arrive.
 *
 * Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED.
 */
squall_code squall_request_bitrate(squall_session session, uint64_t bits_per_second);

/**
 * Reads the open paths; after the session has ended, the last ones. paths is an array of room
 * elements, the first of which has its size set: SQUALL_MAX_PATHS elements are enough. *count
 * receives the number of paths, which can be more than room; with room 0 paths may be NULL.
 *
 * Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT, SQUALL_ERROR_SIZE.
 */
squall_code squall_get_paths(squall_session session,
                             struct squall_path *paths,
                             uintptr_t room,
                             uintptr_t *count);

/**
 * Reads the counters of a session; after it has ended, the last ones. stats->size must be set.
 *
 * Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT, SQUALL_ERROR_SIZE.
 */
squall_code squall_get_stats(squall_session session,
                             struct squall_stats *stats);

/**
 * Changes the interfaces of a session that this side started: paths over other interfaces are
 * closed, new ones opened. NULL: every interface. The lists are copied. SQUALL_EVENT_PATH_UP and
 * SQUALL_EVENT_PATH_DOWN follow.
 *
 * Errors: SQUALL_ERROR_INTERFACE if the session was accepted, SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING,
 * SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT, SQUALL_ERROR_SIZE.
 */
squall_code squall_set_interfaces(squall_session session,
                                  const struct squall_interfaces *interfaces);

/**
 * Declares whether the bytes of an interface, given by name or by local address, cost money. The
 * setting is announced to the peer: schedulers at both ends use it.
 *
 * Errors: SQUALL_ERROR_INTERFACE, SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT.
 */
squall_code squall_set_metered(squall_session session,
                               const char *interface_name,
                               uint32_t metered);

/**
 * Limits the bytes of UDP payload that this side may send over an interface in this session, given
 * by name or by local address; SQUALL_NO_LIMIT lifts the limit.
 *
 * Errors: SQUALL_ERROR_INTERFACE, SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT.
 */
squall_code squall_set_budget(squall_session session,
                              const char *interface_name,
                              uint64_t bytes);

/**
 * Sets the role of the paths of an interface, given by name or by local address, as one of
 * squall_role. The peer follows.
 *
 * Errors: SQUALL_ERROR_INTERFACE, SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT.
 */
squall_code squall_set_role(squall_session session,
                            const char *interface_name,
                            uint32_t role);

/**
 * Limits the bits of UDP payload per second that each side may send on each path of an interface,
 * given by name or by local address; SQUALL_NO_LIMIT lifts the limit. burst is the number of bytes
 * that may leave at once; 0: 100 ms at that rate, at least 15000.
 *
 * Errors: SQUALL_ERROR_INTERFACE, SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING, SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT.
 */
squall_code squall_set_rate_limit(squall_session session,
                                  const char *interface_name,
                                  uint64_t bits_per_second,
                                  uint64_t burst);

/**
 * Sets the latest reading of the radio of an interface, given by name or by local address. It is
 * evaluated every 100 ms, and is valid until the next. NULL removes the radio, whose effect ends
 * after five seconds. reading->size must be set, and levels that the radio does not report are
 * NaN.
 *
 * Errors: SQUALL_ERROR_INTERFACE, SQUALL_ERROR_FULL beyond 64 interfaces, SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING,
 * SQUALL_ERROR_CLOSED, SQUALL_ERROR_ARGUMENT, SQUALL_ERROR_SIZE.
 */
squall_code squall_set_signal(squall_session session,
                              const char *interface_name,
                              const struct squall_reading *reading);

/**
 * Waits until every block has ended, at most timeout_us microseconds, then closes the session with
 * code 0. Events can still be taken, and the session must still be freed.
 *
 * Errors: SQUALL_ERROR_TIMEOUT if blocks were still open after the timeout, SQUALL_ERROR_CLOSED if
 * the session ended before its blocks, SQUALL_ERROR_HANDLE, SQUALL_ERROR_CONNECTING.
 */
squall_code squall_finish(squall_session session, uint64_t timeout_us);

/**
 * Closes the session at once; blocks in flight end with it. The peer receives the code and the
 * reason, which may be NULL; code 0 is a normal end. SQUALL_EVENT_CLOSED follows, and the session
 * must still be freed. The close is sent in the background: a program that exits at once calls
 * squall_finish instead, which waits until it is sent.
 *
 * Errors: SQUALL_ERROR_HANDLE, SQUALL_ERROR_ARGUMENT.
 */
squall_code squall_close(squall_session session, uint32_t code, const char *reason);

/**
 * Frees the session, closes it with code 0 if it is open, and drops events that were not taken.
 * Events that were taken remain until squall_event_free. A thread in squall_next returns.
 *
 * Errors: SQUALL_ERROR_HANDLE.
 */
squall_code squall_session_free(squall_session session);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SQUALL_H */
