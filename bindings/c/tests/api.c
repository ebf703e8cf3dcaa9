/*
 * Misuses the library, and checks the codes and messages; then uses each function once as intended. Exits
 * with 0 and prints "ok", or aborts at the first difference.
 */

#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* Asserts that the call fails with a code, and that the message contains a text. */
#define FAILS(call, expected, text)                                                                                      \
    do {                                                                                                                 \
        squall_code code_ = (call);                                                                                      \
        if (code_ != (expected) || strstr(squall_last_error(), text) == NULL) {                                          \
            fprintf(stderr, "line %d: %s: %d, '%s'\n", __LINE__, #call, (int)code_, squall_last_error());                \
            abort();                                                                                                     \
        }                                                                                                                \
    } while (0)

static const uint64_t SECOND = 1000000;

static squall_endpoint listen_at(const char *address, char *bound, char *fingerprint) {
    const char *const addresses[] = {address};
    squall_listen_options options = {
        .size = sizeof options, .addresses = addresses, .address_count = 1, .self_signed_name = "localhost"};
    squall_endpoint endpoint = 0;
    CHECK(squall_listen(&options, &endpoint) == SQUALL_OK && endpoint != 0);
    CHECK(squall_endpoint_address(endpoint, 0, bound, SQUALL_ADDRESS_SIZE) == SQUALL_OK);
    CHECK(squall_endpoint_fingerprint(endpoint, fingerprint, SQUALL_FINGERPRINT_SIZE) == SQUALL_OK);
    CHECK(strlen(fingerprint) == SQUALL_FINGERPRINT_SIZE - 1);
    return endpoint;
}

/* Waits for an event of a kind, skips others, and releases it. Returns a copy, whose pointers are invalid. */
static squall_event wait_for(squall_session session, uint32_t kind) {
    for (;;) {
        squall_event event = {.size = sizeof event};
        CHECK(squall_next(session, 10 * SECOND, &event) == SQUALL_OK);
        squall_event copy = event;
        squall_event_free(&event);
        CHECK(event.owner == NULL && event.kind == SQUALL_EVENT_NONE);
        squall_event_free(&event);
        if (copy.kind == kind)
            return copy;
        CHECK(copy.kind != SQUALL_EVENT_CLOSED);
    }
}

static int is_readable(int fd) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    return poll(&ready, 1, 0) == 1;
}

static void misuse_without_sessions(void) {
    FAILS(squall_set_threads(0), SQUALL_ERROR_ARGUMENT, "not 0");
    CHECK(squall_set_threads(2) == SQUALL_OK);
    squall_endpoint endpoint = 77;
    squall_session session = 77;
    squall_listen_options listen = {.size = sizeof listen};
    FAILS(squall_listen(NULL, &endpoint), SQUALL_ERROR_ARGUMENT, "squall_listen_options is NULL");
    FAILS(squall_listen(&listen, NULL), SQUALL_ERROR_ARGUMENT, "endpoint");
    FAILS(squall_listen(&listen, &endpoint), SQUALL_ERROR_ARGUMENT, "neither certificate_file nor self_signed_name");
    listen.self_signed_name = "localhost";
    FAILS(squall_listen(&listen, &endpoint), SQUALL_ERROR_LISTEN, "no address");
    listen.address_count = 1;
    FAILS(squall_listen(&listen, &endpoint), SQUALL_ERROR_ARGUMENT, "addresses");
    const char *addresses[] = {"192.0.2.1:1"};
    listen.addresses = addresses;
    FAILS(squall_listen(&listen, &endpoint), SQUALL_ERROR_LISTEN, "192.0.2.1:1");
    addresses[0] = NULL;
    FAILS(squall_listen(&listen, &endpoint), SQUALL_ERROR_ARGUMENT, "addresses is NULL");
    addresses[0] = "\xff";
    FAILS(squall_listen(&listen, &endpoint), SQUALL_ERROR_ARGUMENT, "not UTF-8");
    listen.certificate_file = "/nonexistent/a.pem";
    listen.self_signed_name = NULL;
    FAILS(squall_listen(&listen, &endpoint), SQUALL_ERROR_ARGUMENT, "/nonexistent/a.pem: no such file");
    listen.size = 0;
    FAILS(squall_listen(&listen, &endpoint), SQUALL_ERROR_SIZE, "set it to sizeof(squall_listen_options)");
    CHECK(endpoint == 77);

    squall_config config = {.size = sizeof config};
    squall_connect_options connect = {.size = sizeof connect, .config = &config};
    FAILS(squall_connect(&connect, &session), SQUALL_ERROR_ARGUMENT, "host is NULL");
    connect.host = "127.0.0.1:1";
    connect.fingerprint = "12:34";
    FAILS(squall_connect(&connect, &session), SQUALL_ERROR_ARGUMENT, "12:34");
    connect.insecure = 1;
    FAILS(squall_connect(&connect, &session), SQUALL_ERROR_ARGUMENT, "only one of these");
    connect.fingerprint = NULL;
    config.scheduler = "fastest";
    FAILS(squall_connect(&connect, &session), SQUALL_ERROR_ARGUMENT, "'fastest'");
    config.scheduler = NULL;
    config.congestion = "vegas";
    FAILS(squall_connect(&connect, &session), SQUALL_ERROR_ARGUMENT, "'vegas'");
    config.congestion = NULL;
    config.max_paths = 99;
    FAILS(squall_connect(&connect, &session), SQUALL_ERROR_ARGUMENT, "max_paths = 99");
    config.max_paths = 0;
    const char *const names[] = {"lo", "127.0.0.1"};
    squall_interfaces both = {
        .size = sizeof both, .names = names, .name_count = 1, .addresses = names + 1, .address_count = 1};
    connect.interfaces = &both;
    FAILS(squall_connect(&connect, &session), SQUALL_ERROR_ARGUMENT, "only one of these");
    both.name_count = 0;
    both.addresses = names;
    FAILS(squall_connect(&connect, &session), SQUALL_ERROR_ARGUMENT, "'lo' is not an IP address");
    connect.interfaces = NULL;

    /* A struct of a later release: its additional fields must be 0 here. */
    struct {
        squall_connect_options known;
        uint64_t later;
    } newer = {.known = connect, .later = 1};
    newer.known.size = sizeof newer;
    FAILS(squall_connect(&newer.known, &session), SQUALL_ERROR_SIZE, "does not have");
    newer.later = 0;
    newer.known.host = NULL;
    FAILS(squall_connect(&newer.known, &session), SQUALL_ERROR_ARGUMENT, "host is NULL");
    CHECK(session == 77);
}

static void misuse_of_numbers(squall_endpoint endpoint, squall_session session) {
    squall_event event = {.size = sizeof event};
    squall_block block = {.size = sizeof block, .data = (const uint8_t *)"x", .len = 1};
    const squall_session wrong[] = {0, -1, endpoint};
    for (size_t i = 0; i < 3; i++) {
        FAILS(squall_next(wrong[i], 0, &event), SQUALL_ERROR_HANDLE, "is no session");
        FAILS(squall_send(wrong[i], &block, NULL), SQUALL_ERROR_HANDLE, "is no session");
        FAILS(squall_session_free(wrong[i]), SQUALL_ERROR_HANDLE, "is no session");
        CHECK(squall_session_fd(wrong[i]) == -1);
    }
    FAILS(squall_endpoint_free(session), SQUALL_ERROR_HANDLE, "is no endpoint");
    CHECK(squall_endpoint_fd(session) == -1);
    char text[SQUALL_FINGERPRINT_SIZE];
    FAILS(squall_endpoint_address(endpoint, 1, text, sizeof text), SQUALL_ERROR_ARGUMENT, "there is no address 1");
    FAILS(squall_endpoint_fingerprint(endpoint, text, 64), SQUALL_ERROR_SIZE, "needs 65");
    FAILS(squall_endpoint_fingerprint(endpoint, NULL, 65), SQUALL_ERROR_ARGUMENT, "NULL");
}

static void misuse_of_a_session(squall_session session) {
    FAILS(squall_send(session, NULL, NULL), SQUALL_ERROR_ARGUMENT, "squall_block is NULL");
    squall_block block = {.size = sizeof block};
    FAILS(squall_send(session, &block, NULL), SQUALL_ERROR_ARGUMENT, "at least one byte");
    block.len = 1;
    FAILS(squall_send(session, &block, NULL), SQUALL_ERROR_ARGUMENT, "data is NULL");
    block.data = (const uint8_t *)"x";
    block.priority = 8;
    FAILS(squall_send(session, &block, NULL), SQUALL_ERROR_ARGUMENT, "8");
    block.priority = 7;
    block.channel = 1024;
    FAILS(squall_send(session, &block, NULL), SQUALL_ERROR_ARGUMENT, "1024");
    block.channel = 65536;
    FAILS(squall_send(session, &block, NULL), SQUALL_ERROR_ARGUMENT, "65536");
    block.channel = 0;
    block.value = 65536;
    FAILS(squall_send(session, &block, NULL), SQUALL_ERROR_ARGUMENT, "65536");
    block.value = 0;
    block.depends = SQUALL_DEPENDS_ON;
    FAILS(squall_send(session, &block, NULL), SQUALL_ERROR_ARGUMENT, "depends_count is 0");
    block.depends = 99;
    FAILS(squall_send(session, &block, NULL), SQUALL_ERROR_ARGUMENT, "99");
    block.depends = SQUALL_DEPENDS_NOTHING;
    block.deadline_us = 366 * 86400 * SECOND;
    FAILS(squall_send(session, &block, NULL), SQUALL_ERROR_ARGUMENT, "more than a year");
    block.size = 12345;
    FAILS(squall_send(session, &block, NULL), SQUALL_ERROR_SIZE, "12345");

    FAILS(squall_next(session, 0, NULL), SQUALL_ERROR_ARGUMENT, "squall_event is NULL");
    squall_event event = {.size = 8};
    FAILS(squall_next(session, 0, &event), SQUALL_ERROR_SIZE, "is 8");
    squall_event_free(NULL);
    FAILS(squall_get_stats(session, NULL), SQUALL_ERROR_ARGUMENT, "squall_stats is NULL");
    FAILS(squall_get_capacity(session, NULL), SQUALL_ERROR_ARGUMENT, "squall_capacity is NULL");
    FAILS(squall_get_paths(session, NULL, 1, NULL), SQUALL_ERROR_ARGUMENT, "squall_path is NULL");
    FAILS(squall_get_paths(session, NULL, 0, NULL), SQUALL_ERROR_ARGUMENT, "count");
    FAILS(squall_set_metered(session, "wlan77", 1), SQUALL_ERROR_INTERFACE, "wlan77");
    FAILS(squall_set_metered(session, NULL, 1), SQUALL_ERROR_ARGUMENT, "interface_name is NULL");
    FAILS(squall_set_budget(session, "wlan77", 1), SQUALL_ERROR_INTERFACE, "wlan77");
    FAILS(squall_set_role(session, "wlan77", SQUALL_ROLE_BACKUP), SQUALL_ERROR_INTERFACE, "wlan77");
    FAILS(squall_set_role(session, "127.0.0.1", 3), SQUALL_ERROR_ARGUMENT, "there is no role 3");
    FAILS(squall_set_rate_limit(session, "wlan77", 1000000, 0), SQUALL_ERROR_INTERFACE, "wlan77");
    squall_reading reading = {.size = sizeof reading, .technology = 1};
    FAILS(squall_set_signal(session, "wlan77", &reading), SQUALL_ERROR_INTERFACE, "wlan77");
    uint64_t bytes;
    FAILS(squall_deliverable(session, SECOND, 1.5, &bytes), SQUALL_ERROR_ARGUMENT, "1.5");
    FAILS(squall_deliverable(session, SECOND, (double)NAN, &bytes), SQUALL_ERROR_ARGUMENT, "probability");
    FAILS(squall_set_threads(3), SQUALL_ERROR_ARGUMENT, "have started");
}

/* Sends blocks in both directions, with every option, and checks the outcomes at the sender. */
static void exchange(squall_session client, squall_session server) {
    uint64_t first, second;
    squall_block block = {.size = sizeof block,
                          .data = (const uint8_t *)"key frame",
                          .len = 9,
                          .deadline_us = 10 * SECOND,
                          .priority = 1,
                          .channel = 5,
                          .value = 100,
                          .ordered = 1,
                          .depends = SQUALL_DEPENDS_KEY,
                          .report_outcome = 1};
    CHECK(squall_send(client, &block, &first) == SQUALL_OK);
    block.depends = SQUALL_DEPENDS_ON;
    block.depends_on[0] = first;
    block.depends_count = 1;
    CHECK(squall_send(client, &block, &second) == SQUALL_OK && second != first);
    for (int i = 0; i < 2; i++) {
        squall_event event = {.size = sizeof event};
        do {
            squall_event_free(&event);
            CHECK(squall_next(server, 10 * SECOND, &event) == SQUALL_OK);
        } while (event.kind != SQUALL_EVENT_RECEIVED);
        CHECK(event.block == (i == 0 ? first : second) && event.len == 9 && memcmp(event.data, "key frame", 9) == 0);
        CHECK(event.channel == 5 && event.priority == 1 && event.text[0] == '\0');
        CHECK(event.remaining_us > 0 && event.remaining_us < (int64_t)(11 * SECOND));
        squall_event_free(&event);
    }
    uint64_t ended = 0;
    for (int i = 0; i < 2; i++)
        ended += wait_for(client, SQUALL_EVENT_DELIVERED).block;
    CHECK(ended == first + second);

    /* The descriptor is readable exactly while events wait. */
    squall_block back = {.size = sizeof back, .data = (const uint8_t *)"back", .len = 4, .unreliable = 1, .partial = 1};
    back.deadline_us = SQUALL_NO_LIMIT;
    CHECK(squall_send(server, &back, NULL) == SQUALL_OK);
    struct pollfd ready = {.fd = squall_session_fd(client), .events = POLLIN};
    CHECK(poll(&ready, 1, 10000) == 1);
    squall_event whole = wait_for(client, SQUALL_EVENT_RECEIVED);
    CHECK(whole.len == 4 && whole.missing == NULL && whole.missing_count == 0);
    squall_event event = {.size = sizeof event};
    do {
        squall_event_free(&event);
    } while (squall_next(client, SECOND / 5, &event) == SQUALL_OK);
    CHECK(event.kind == SQUALL_EVENT_NONE && !is_readable(ready.fd));
    CHECK(squall_cancel(client, 123456) == SQUALL_OK);
}

static void settings(squall_session client, squall_session server) {
    const char *const addresses[] = {"127.0.0.2"};
    squall_interfaces interfaces = {.size = sizeof interfaces, .addresses = addresses, .address_count = 1};
    FAILS(squall_set_interfaces(server, &interfaces), SQUALL_ERROR_INTERFACE, "only the side that connects");
    size_t count = 0;
    for (int i = 0; i < 500 && count < 2; i++) {
        CHECK(squall_get_paths(client, NULL, 0, &count) == SQUALL_OK);
        poll(NULL, 0, 10);
    }
    CHECK(count == 2);
    CHECK(squall_set_metered(client, "127.0.0.3", 1) == SQUALL_OK);
    CHECK(squall_set_budget(client, "127.0.0.3", 1000000) == SQUALL_OK);
    CHECK(squall_set_role(client, "127.0.0.3", SQUALL_ROLE_BACKUP) == SQUALL_OK);
    CHECK(squall_set_rate_limit(client, "127.0.0.3", 5000000, 20000) == SQUALL_OK);
    CHECK(squall_set_rate_limit(client, "127.0.0.3", SQUALL_NO_LIMIT, 0) == SQUALL_OK);
    squall_block hinted = {.size = sizeof hinted, .data = (const uint8_t *)"x", .len = 1, .hint = SQUALL_HINT_ONLY};
    FAILS(squall_send(client, &hinted, NULL), SQUALL_ERROR_ARGUMENT, "hint_path is NULL");
    hinted.hint_path = "127.0.0.3";
    CHECK(squall_send(client, &hinted, NULL) == SQUALL_OK);
    hinted.hint = 4;
    FAILS(squall_send(client, &hinted, NULL), SQUALL_ERROR_ARGUMENT, "there is no hint 4");
    squall_reading reading = {.size = sizeof reading,
                              .technology = 4,
                              .age_us = 1000,
                              .rsrp = -80,
                              .rsrq = (double)NAN,
                              .sinr = 15,
                              .rssi = (double)NAN};
    CHECK(squall_set_signal(client, "127.0.0.3", &reading) == SQUALL_OK);
    CHECK(squall_set_signal(client, "127.0.0.3", &reading) == SQUALL_OK);
    squall_path paths[SQUALL_MAX_PATHS + 1];
    squall_path *metered = NULL;
    for (int i = 0; i < 500 && (metered == NULL || isnan(metered->signal_quality)); i++) {
        poll(NULL, 0, 10);
        memset(paths, 0, sizeof paths);
        paths[0].size = sizeof paths[0];
        CHECK(squall_get_paths(client, paths, SQUALL_MAX_PATHS + 1, &count) == SQUALL_OK && count == 2);
        metered = strncmp(paths[0].local, "127.0.0.3:", 10) == 0 ? &paths[0] : &paths[1];
    }
    CHECK(metered->metered == 1 && metered->budget < 1000000 && metered->signal_quality > 0);
    CHECK(strncmp(metered->local, "127.0.0.3:", 10) == 0 && metered->sent_bytes > 0 && metered->srtt_us > 0);
    CHECK(squall_set_signal(client, "127.0.0.3", NULL) == SQUALL_OK);

    /* A struct of an earlier release is smaller. Fields of a later release become 0. */
    struct {
        squall_capacity known;
        uint64_t later;
    } newer;
    memset(&newer, 0x5a, sizeof newer);
    newer.known.size = sizeof newer;
    CHECK(squall_get_capacity(client, &newer.known) == SQUALL_OK);
    CHECK(newer.known.size == sizeof newer && newer.later == 0 && newer.known.confidence <= 1);
    uint64_t bytes = 0;
    CHECK(squall_deliverable(client, SECOND, 0.9, &bytes) == SQUALL_OK);
    size_t most = 0;
    CHECK(squall_max_block(client, &most) == SQUALL_OK && most == 16 << 20);
    squall_block large = {.size = sizeof large, .data = malloc(most + 1), .len = most + 1};
    CHECK(large.data != NULL);
    memset((void *)(uintptr_t)large.data, 0, large.len);
    FAILS(squall_send(client, &large, NULL), SQUALL_ERROR_SIZE, "exceeds the limit");
    free((void *)(uintptr_t)large.data);
    CHECK(squall_request_bitrate(client, 3000000) == SQUALL_OK);
    CHECK(squall_request_bitrate(client, SQUALL_NO_LIMIT) == SQUALL_OK);

    CHECK(squall_set_interfaces(client, &interfaces) == SQUALL_OK);
    wait_for(client, SQUALL_EVENT_PATH_DOWN);
    squall_stats stats = {.size = sizeof stats};
    CHECK(squall_get_stats(client, &stats) == SQUALL_OK);
    CHECK(stats.blocks_offered == 3 && stats.blocks_delivered >= 2 && stats.blocks_received == 1);
}

/* A session that was started without waiting, and attempts that fail. */
static void connecting(squall_endpoint endpoint, const char *address, const char *fingerprint) {
    squall_connect_options options = {.size = sizeof options, .host = address, .fingerprint = fingerprint};
    squall_session client, server;
    CHECK(squall_connect_start(&options, &client) == SQUALL_OK);
    struct pollfd ready = {.fd = squall_session_fd(client), .events = POLLIN};
    CHECK(poll(&ready, 1, 10000) == 1);
    squall_event event = {.size = sizeof event};
    CHECK(squall_next(client, 0, &event) == SQUALL_OK && event.kind == SQUALL_EVENT_CONNECTED);
    squall_event_free(&event);
    CHECK(squall_accept(endpoint, 10 * SECOND, &server) == SQUALL_OK);
    CHECK(squall_close(client, 9, "enough") == SQUALL_OK);
    event = wait_for(client, SQUALL_EVENT_CLOSED);
    CHECK(event.cause == SQUALL_CAUSE_LOCAL);
    FAILS(squall_next(client, SQUALL_NO_LIMIT, &event), SQUALL_ERROR_CLOSED, "all events were taken");
    CHECK(!is_readable(squall_session_fd(client)));
    squall_block block = {.size = sizeof block, .data = (const uint8_t *)"x", .len = 1};
    FAILS(squall_send(client, &block, NULL), SQUALL_ERROR_CLOSED, "");
    event = wait_for(server, SQUALL_EVENT_CLOSED);
    CHECK(event.cause == SQUALL_CAUSE_PEER && event.code == 9);
    CHECK(squall_session_free(client) == SQUALL_OK && squall_session_free(server) == SQUALL_OK);
    FAILS(squall_session_free(client), SQUALL_ERROR_HANDLE, "was freed");

    char other[SQUALL_FINGERPRINT_SIZE];
    memset(other, 'a', sizeof other - 1);
    other[sizeof other - 1] = '\0';
    options.fingerprint = other;
    FAILS(squall_connect(&options, &client), SQUALL_ERROR_TRUST, "not the pinned one");

    /* A port without a server, and a session that is closed before it is connected. */
    squall_config config = {.size = sizeof config, .connect_timeout_us = 200000};
    options.config = &config;
    options.host = "127.0.0.1:9";
    FAILS(squall_connect(&options, &client), SQUALL_ERROR_CONNECT, "127.0.0.1:9");
    CHECK(squall_connect_start(&options, &client) == SQUALL_OK);
    FAILS(squall_send(client, &block, NULL), SQUALL_ERROR_CONNECTING, "not connected yet");
    CHECK(wait_for(client, SQUALL_EVENT_CLOSED).cause == SQUALL_CAUSE_CONNECT);
    CHECK(squall_session_free(client) == SQUALL_OK);
    CHECK(squall_connect_start(&options, &client) == SQUALL_OK);
    CHECK(squall_close(client, 0, NULL) == SQUALL_OK);
    CHECK(wait_for(client, SQUALL_EVENT_CLOSED).cause == SQUALL_CAUSE_LOCAL);
    CHECK(squall_session_free(client) == SQUALL_OK);
    CHECK(squall_connect_start(&options, &client) == SQUALL_OK);
    CHECK(squall_session_free(client) == SQUALL_OK);
}

int main(void) {
    CHECK(squall_version()[0] != '\0' && squall_last_error()[0] == '\0');
    misuse_without_sessions();

    char address[SQUALL_ADDRESS_SIZE], fingerprint[SQUALL_FINGERPRINT_SIZE];
    squall_endpoint endpoint = listen_at("127.0.0.1:0", address, fingerprint);
    squall_session client, server;
    CHECK(squall_accept(endpoint, 0, &server) == SQUALL_NOTHING && !is_readable(squall_endpoint_fd(endpoint)));
    const char *const locals[] = {"127.0.0.2", "127.0.0.3"};
    squall_interfaces interfaces = {.size = sizeof interfaces, .addresses = locals, .address_count = 2};
    squall_connect_options options = {
        .size = sizeof options, .host = address, .fingerprint = fingerprint, .interfaces = &interfaces};
    CHECK(squall_connect(&options, &client) == SQUALL_OK);
    CHECK(squall_accept(endpoint, 10 * SECOND, &server) == SQUALL_OK && server != client);

    misuse_of_numbers(endpoint, client);
    misuse_of_a_session(client);
    exchange(client, server);
    settings(client, server);
    CHECK(squall_finish(client, 5 * SECOND) == SQUALL_OK);
    CHECK(wait_for(server, SQUALL_EVENT_CLOSED).cause == SQUALL_CAUSE_PEER);
    CHECK(squall_session_free(client) == SQUALL_OK && squall_session_free(server) == SQUALL_OK);

    connecting(endpoint, address, fingerprint);
    CHECK(squall_endpoint_free(endpoint) == SQUALL_OK);
    FAILS(squall_accept(endpoint, 0, &server), SQUALL_ERROR_HANDLE, "is no endpoint");
    printf("ok\n");
    return 0;
}
