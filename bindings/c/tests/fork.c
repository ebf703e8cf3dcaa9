/*
 * A session that continues while children of fork() end, listen, connect, and use objects of the parent,
 * which is an error there. Exits with 0 and prints "ok".
 */

#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static squall_endpoint endpoint;
static squall_session client, server;
static char address[SQUALL_ADDRESS_SIZE];

static squall_endpoint listens_anywhere(char *at) {
    const char *const addresses[] = {"127.0.0.1:0"};
    squall_listen_options listen = {
        .size = sizeof listen, .addresses = addresses, .address_count = 1, .self_signed_name = "localhost"};
    squall_endpoint made;
    CHECK(squall_listen(&listen, &made) == SQUALL_OK);
    CHECK(squall_endpoint_address(made, 0, at, SQUALL_ADDRESS_SIZE) == SQUALL_OK);
    return made;
}

static squall_session connects_to(const char *host) {
    squall_connect_options connect = {.size = sizeof connect, .host = host, .insecure = 1};
    squall_session made;
    CHECK(squall_connect(&connect, &made) == SQUALL_OK);
    return made;
}

/*
 * Sends a block every 10 ms, until most or more have arrived or the time is over; returns the number of
 * arrived blocks.
 */
static int stream(int most, int ms) {
    int arrived = 0;
    for (; ms > 0 && arrived < most; ms -= 10) {
        squall_block block = {.size = sizeof block, .data = (const uint8_t *)"a frame", .len = 7};
        squall_event event = {.size = sizeof event};
        CHECK(squall_send(client, &block, NULL) == SQUALL_OK);
        while (squall_next(server, 0, &event) == SQUALL_OK) {
            arrived += event.kind == SQUALL_EVENT_RECEIVED;
            squall_event_free(&event);
        }
        while (squall_next(client, 0, &event) == SQUALL_OK)
            squall_event_free(&event);
        struct timespec pause = {.tv_nsec = 10000000};
        nanosleep(&pause, NULL);
    }
    return arrived;
}

static void ends(void) { exit(0); }

static void listens(void) {
    char at[SQUALL_ADDRESS_SIZE];
    listens_anywhere(at);
}

static void connects(void) {
    squall_session session = connects_to(address);
    CHECK(squall_finish(session, 1000000) == SQUALL_OK);
}

static void listens_and_connects(void) {
    char at[SQUALL_ADDRESS_SIZE];
    CHECK(squall_set_threads(2) == SQUALL_OK);
    squall_endpoint own = listens_anywhere(at);
    squall_session session = connects_to(at), accepted;
    CHECK(squall_accept(own, SQUALL_NO_LIMIT, &accepted) == SQUALL_OK);
    squall_block block = {.size = sizeof block, .data = (const uint8_t *)"x", .len = 1};
    CHECK(squall_send(session, &block, NULL) == SQUALL_OK);
    squall_event event = {.size = sizeof event};
    do {
        squall_event_free(&event);
        CHECK(squall_next(accepted, SQUALL_NO_LIMIT, &event) == SQUALL_OK);
    } while (event.kind != SQUALL_EVENT_RECEIVED);
    squall_event_free(&event);
    CHECK(squall_session_free(session) == SQUALL_OK && squall_session_free(accepted) == SQUALL_OK);
    CHECK(squall_endpoint_free(own) == SQUALL_OK);
}

#define FORKED(call)                                                                                                     \
    do {                                                                                                                 \
        CHECK((call) == SQUALL_ERROR_FORKED);                                                                            \
        CHECK(strstr(squall_last_error(), "this process was forked from the one that has the ") != NULL);               \
    } while (0)

static void uses_what_the_parent_has(void) {
    squall_block block = {.size = sizeof block, .data = (const uint8_t *)"x", .len = 1};
    squall_event event = {.size = sizeof event};
    squall_stats stats = {.size = sizeof stats};
    squall_session accepted;
    char at[SQUALL_ADDRESS_SIZE];
    FORKED(squall_send(client, &block, NULL));
    FORKED(squall_next(server, SQUALL_NO_LIMIT, &event));
    FORKED(squall_get_stats(client, &stats));
    FORKED(squall_finish(client, SQUALL_NO_LIMIT));
    FORKED(squall_close(client, 0, NULL));
    FORKED(squall_session_free(client));
    FORKED(squall_accept(endpoint, SQUALL_NO_LIMIT, &accepted));
    FORKED(squall_endpoint_address(endpoint, 0, at, sizeof at));
    FORKED(squall_endpoint_free(endpoint));
    CHECK(squall_session_fd(client) == -1 && squall_endpoint_fd(endpoint) == -1);
    /* Its own numbers are different, and invalid ones are errors as usual. */
    squall_endpoint own = listens_anywhere(at);
    CHECK(own > endpoint && own > client && own > server);
    CHECK(squall_endpoint_free(own) == SQUALL_OK && squall_endpoint_free(own) == SQUALL_ERROR_HANDLE);
    FORKED(squall_session_free(server));
}

int main(void) {
    void (*const children[])(void) = {ends, listens, connects, listens_and_connects, uses_what_the_parent_has};
    endpoint = listens_anywhere(address);
    client = connects_to(address);
    CHECK(squall_accept(endpoint, SQUALL_NO_LIMIT, &server) == SQUALL_OK);
    CHECK(stream(10, 10000) >= 10);
    for (size_t i = 0; i < sizeof children / sizeof *children; i++) {
        pid_t child = fork();
        int status = 0;
        CHECK(child >= 0);
        if (child == 0) {
            alarm(20);
            children[i]();
            _exit(0);
        }
        while (waitpid(child, &status, WNOHANG) == 0)
            stream(1, 100);
        if (status != 0 || stream(50, 10000) < 50) {
            fprintf(stderr, "child %zu: status %d, or the session of the parent stalls\n", i, status);
            abort();
        }
    }
    CHECK(squall_finish(client, 5000000) == SQUALL_OK && squall_session_free(client) == SQUALL_OK);
    CHECK(squall_session_free(server) == SQUALL_OK && squall_endpoint_free(endpoint) == SQUALL_OK);
    printf("ok\n");
    return 0;
}
