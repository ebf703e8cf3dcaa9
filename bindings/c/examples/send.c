/*
 * Sends 300 blocks over several paths, with poll: one every 5 ms, each with a deadline.
 *
 *     send HOST:PORT FINGERPRINT SCHEDULER [LOCAL ADDRESS]...
 *
 * Without local addresses every interface with a route to the host is used. Prints each path with the bytes of blocks that it
 * carried, and then the number of blocks, their bytes, and the sum of their bytes. Ends with 0 if all were delivered.
 */

#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "squall.h"

enum { BLOCKS = 300, LENGTH = 4000, INTERVAL_MS = 5 };

static void check(const char *what, squall_code code) {
    if (code < 0) {
        fprintf(stderr, "%s: %s\n", what, squall_last_error());
        exit(1);
    }
}

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct progress {
    int sent, ended, delivered, is_full;
};

static void handle(const squall_event *event, struct progress *progress) {
    switch (event->kind) {
    case SQUALL_EVENT_DELIVERED:
        progress->delivered++;
        progress->ended++;
        break;
    case SQUALL_EVENT_EXPIRED:
    case SQUALL_EVENT_LOST:
    case SQUALL_EVENT_CANCELLED:
    case SQUALL_EVENT_REFUSED:
        fprintf(stderr, "block %" PRIu64 " was not delivered: %s\n", event->block, event->text);
        progress->ended++;
        break;
    case SQUALL_EVENT_WRITABLE:
        progress->is_full = 0;
        break;
    case SQUALL_EVENT_PATH_UP:
        fprintf(stderr, "path %" PRIu32 " is up: %s\n", event->path, event->text);
        break;
    case SQUALL_EVENT_CLOSED:
        fprintf(stderr, "closed: %s\n", event->text);
        exit(1);
    default:
        break;
    }
}

/* Sends the next block, if there is room; adds its bytes to the sum. */
static void send_next(squall_session session, struct progress *progress, uint64_t *sum) {
    unsigned char data[LENGTH];
    for (int i = 0; i < LENGTH; i++)
        data[i] = (unsigned char)(progress->sent + i);
    squall_block block = {
        .size = sizeof block,
        .data = data,
        .len = sizeof data,
        .deadline_us = 5000000,
        .report_outcome = 1,
    };
    squall_code code = squall_send(session, &block, NULL);
    progress->is_full = code == SQUALL_ERROR_FULL;
    if (progress->is_full)
        return;
    check("send", code);
    progress->sent++;
    for (int i = 0; i < LENGTH; i++)
        *sum += data[i];
}

static void print_paths(squall_session session) {
    squall_path paths[SQUALL_MAX_PATHS];
    size_t count;
    memset(paths, 0, sizeof paths);
    paths[0].size = sizeof paths[0];
    check("paths", squall_get_paths(session, paths, SQUALL_MAX_PATHS, &count));
    for (size_t i = 0; i < count && i < SQUALL_MAX_PATHS; i++)
        printf("path %s %" PRIu64 "\n", paths[i].local, paths[i].fresh_bytes + paths[i].copy_bytes);
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: send HOST:PORT FINGERPRINT SCHEDULER [LOCAL ADDRESS]...\n");
        return 2;
    }
    squall_config config = {.size = sizeof config, .scheduler = argv[3]};
    squall_interfaces interfaces = {
        .size = sizeof interfaces,
        .addresses = (const char *const *)(argv + 4),
        .address_count = (size_t)argc - 4,
    };
    squall_connect_options options = {
        .size = sizeof options,
        .host = argv[1],
        .fingerprint = argv[2],
        .interfaces = &interfaces,
        .config = &config,
    };
    squall_session session;
    check("connect", squall_connect(&options, &session));

    struct progress progress = {0, 0, 0, 0};
    uint64_t sum = 0;
    int64_t due = now_ms();
    struct pollfd ready = {.fd = squall_session_fd(session), .events = POLLIN};
    while (progress.ended < BLOCKS) {
        int64_t wait = due - now_ms();
        int may_send = progress.sent < BLOCKS && !progress.is_full;
        if (may_send && wait <= 0) {
            send_next(session, &progress, &sum);
            due += INTERVAL_MS;
            continue;
        }
        if (poll(&ready, 1, may_send ? (int)wait : 30000) < 0)
            return 1;
        squall_event event = {.size = sizeof event};
        while (squall_next(session, 0, &event) == SQUALL_OK) {
            handle(&event, &progress);
            squall_event_free(&event);
        }
    }
    print_paths(session);
    check("finish", squall_finish(session, 5000000));
    check("free", squall_session_free(session));
    printf("sent %d %d %" PRIu64 "\n", progress.sent, progress.sent * LENGTH, sum);
    return progress.delivered == BLOCKS ? 0 : 1;
}
