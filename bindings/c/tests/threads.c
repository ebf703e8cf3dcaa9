/*
 * One session used by five threads at once: two send, one takes events, one reads counters, and the main thread frees the
 * session while the third waits for an event. Ends with 0 and prints "ok".
 */

#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"

enum { SENDERS = 2, BLOCKS = 200 };

static squall_session client, server;
static unsigned char received[SENDERS][BLOCKS];

static void *send_blocks(void *argument) {
    unsigned char sender = *(const unsigned char *)argument;
    for (int i = 0; i < BLOCKS; i++) {
        unsigned char data[1000] = {sender, (unsigned char)i};
        squall_block block = {.size = sizeof block, .data = data, .len = sizeof data, .report_outcome = 1};
        CHECK(squall_send(client, &block, NULL) == SQUALL_OK);
    }
    /* The message of an error belongs to this thread. */
    CHECK(squall_send(client, NULL, NULL) == SQUALL_ERROR_ARGUMENT);
    CHECK(strstr(squall_last_error(), "squall_block is NULL") != NULL);
    return NULL;
}

static void *take_events(void *argument) {
    int delivered = 0;
    (void)argument;
    for (;;) {
        squall_event event = {.size = sizeof event};
        squall_code code = squall_next(client, SQUALL_NO_LIMIT, &event);
        if (code != SQUALL_OK) {
            /* Freed during the wait, or before it. */
            CHECK(code == SQUALL_ERROR_CLOSED || code == SQUALL_ERROR_HANDLE);
            CHECK(delivered == SENDERS * BLOCKS);
            return NULL;
        }
        delivered += event.kind == SQUALL_EVENT_DELIVERED;
        squall_event_free(&event);
    }
}

static void *read_counters(void *argument) {
    squall_stats stats = {.size = sizeof stats};
    (void)argument;
    do {
        squall_path paths[SQUALL_MAX_PATHS];
        size_t count;
        memset(paths, 0, sizeof paths);
        paths[0].size = sizeof paths[0];
        CHECK(squall_get_paths(client, paths, SQUALL_MAX_PATHS, &count) == SQUALL_OK && count >= 1);
        CHECK(squall_get_stats(client, &stats) == SQUALL_OK);
    } while (stats.blocks_delivered < SENDERS * BLOCKS);
    return NULL;
}

int main(void) {
    const char *const addresses[] = {"127.0.0.1:0"};
    squall_listen_options listen = {
        .size = sizeof listen, .addresses = addresses, .address_count = 1, .self_signed_name = "localhost"};
    squall_endpoint endpoint;
    char address[SQUALL_ADDRESS_SIZE];
    CHECK(squall_listen(&listen, &endpoint) == SQUALL_OK);
    CHECK(squall_endpoint_address(endpoint, 0, address, sizeof address) == SQUALL_OK);
    squall_connect_options connect = {.size = sizeof connect, .host = address, .insecure = 1};
    CHECK(squall_connect(&connect, &client) == SQUALL_OK);
    CHECK(squall_accept(endpoint, SQUALL_NO_LIMIT, &server) == SQUALL_OK);

    pthread_t senders[SENDERS], taker, reader;
    static const unsigned char numbers[SENDERS] = {0, 1};
    for (int i = 0; i < SENDERS; i++)
        CHECK(pthread_create(&senders[i], NULL, send_blocks, (void *)&numbers[i]) == 0);
    CHECK(pthread_create(&taker, NULL, take_events, NULL) == 0);
    CHECK(pthread_create(&reader, NULL, read_counters, NULL) == 0);
    for (int blocks = 0; blocks < SENDERS * BLOCKS;) {
        squall_event event = {.size = sizeof event};
        CHECK(squall_next(server, 10000000, &event) == SQUALL_OK);
        if (event.kind == SQUALL_EVENT_RECEIVED) {
            CHECK(event.len == 1000 && event.data[0] < SENDERS && event.data[1] < BLOCKS);
            CHECK(received[event.data[0]][event.data[1]]++ == 0);
            blocks++;
        }
        squall_event_free(&event);
    }
    for (int i = 0; i < SENDERS; i++)
        CHECK(pthread_join(senders[i], NULL) == 0);
    CHECK(pthread_join(reader, NULL) == 0);
    /* The thread that takes events is waiting for one by now. */
    struct timespec pause = {.tv_nsec = 300000000};
    nanosleep(&pause, NULL);
    CHECK(squall_session_free(client) == SQUALL_OK);
    CHECK(pthread_join(taker, NULL) == 0);
    squall_event end = {.size = sizeof end};
    do {
        squall_event_free(&end);
        CHECK(squall_next(server, 10000000, &end) == SQUALL_OK);
    } while (end.kind != SQUALL_EVENT_CLOSED);
    CHECK(end.cause == SQUALL_CAUSE_PEER && end.code == 0);
    squall_event_free(&end);
    CHECK(squall_session_free(server) == SQUALL_OK && squall_endpoint_free(endpoint) == SQUALL_OK);
    printf("ok\n");
    return 0;
}
