/*
 * Receives blocks from one session, with epoll.
 *
 *     receive ADDRESS:PORT
 *
 * Prints "listening ADDRESS FINGERPRINT", which send.c needs, and after the end of the session the number of
 * blocks, their bytes, and the sum of their bytes. Exits with 0 if the sender closed the session normally.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "squall.h"

static void check(const char *what, squall_code code) {
    if (code < 0) {
        fprintf(stderr, "%s: %s\n", what, squall_last_error());
        exit(1);
    }
}

/* Adds a descriptor of the library to an epoll instance. */
static void watch(int epoll, int fd) {
    struct epoll_event interest = {.events = EPOLLIN, .data.fd = fd};
    if (fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &interest) != 0) {
        fprintf(stderr, "cannot watch a descriptor\n");
        exit(1);
    }
}

struct total {
    uint64_t blocks, bytes, sum;
};

/* Takes an event; returns 0 after the end of the session. */
static int handle(const squall_event *event, struct total *total) {
    switch (event->kind) {
    case SQUALL_EVENT_RECEIVED:
        total->blocks++;
        total->bytes += event->len;
        for (size_t i = 0; i < event->len; i++)
            total->sum += event->data[i];
        return 1;
    case SQUALL_EVENT_PATH_UP:
        fprintf(stderr, "path %" PRIu32 " is up: %s\n", event->path, event->text);
        return 1;
    case SQUALL_EVENT_CLOSED:
        fprintf(stderr, "closed: %s\n", event->text);
        printf("received %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", total->blocks, total->bytes, total->sum);
        if (event->cause != SQUALL_CAUSE_PEER || event->code != 0)
            exit(1);
        return 0;
    default:
        return 1;
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: receive ADDRESS:PORT\n");
        return 2;
    }
    const char *const addresses[] = {argv[1]};
    squall_listen_options options = {
        .size = sizeof options,
        .addresses = addresses,
        .address_count = 1,
        .self_signed_name = "localhost",
    };
    squall_endpoint endpoint;
    check("listen", squall_listen(&options, &endpoint));
    char address[SQUALL_ADDRESS_SIZE], fingerprint[SQUALL_FINGERPRINT_SIZE];
    check("address", squall_endpoint_address(endpoint, 0, address, sizeof address));
    check("fingerprint", squall_endpoint_fingerprint(endpoint, fingerprint, sizeof fingerprint));
    printf("listening %s %s\n", address, fingerprint);
    fflush(stdout);

    int epoll = epoll_create1(EPOLL_CLOEXEC);
    watch(epoll, squall_endpoint_fd(endpoint));
    squall_session session = 0;
    struct total total = {0, 0, 0};
    int goes_on = 1;
    while (goes_on) {
        struct epoll_event ready;
        if (epoll_wait(epoll, &ready, 1, 30000) != 1) {
            fprintf(stderr, "nothing happened for 30 s\n");
            return 1;
        }
        if (session == 0) {
            squall_code code = squall_accept(endpoint, 0, &session);
            check("accept", code);
            if (code == SQUALL_OK)
                watch(epoll, squall_session_fd(session));
            continue;
        }
        squall_event event = {.size = sizeof event};
        while (goes_on && squall_next(session, 0, &event) == SQUALL_OK) {
            goes_on = handle(&event, &total);
            squall_event_free(&event);
        }
    }
    close(epoll);
    check("free", squall_session_free(session));
    check("free", squall_endpoint_free(endpoint));
    return 0;
}
