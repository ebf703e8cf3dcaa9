/*
 * Twenty servers, one after another on the same port, each with a session. Exits with 0 and prints "ok".
 */

#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <unistd.h>

#include "check.h"

int main(void) {
    /* A separate address, on which no other program takes the port in between. */
    char address[SQUALL_ADDRESS_SIZE];
    snprintf(address, sizeof address, "127.1.%d.%d:0", (int)getpid() / 250 % 250, (int)getpid() % 250 + 1);
    for (int i = 0; i < 20; i++) {
        const char *const addresses[] = {address};
        squall_listen_options listen = {
            .size = sizeof listen, .addresses = addresses, .address_count = 1, .self_signed_name = "localhost"};
        squall_connect_options connect = {.size = sizeof connect, .insecure = 1};
        squall_endpoint endpoint, other;
        squall_session client, server;
        CHECK(squall_listen(&listen, &endpoint) == SQUALL_OK);
        CHECK(squall_endpoint_address(endpoint, 0, address, sizeof address) == SQUALL_OK);
        connect.host = address;
        CHECK(squall_connect(&connect, &client) == SQUALL_OK);
        CHECK(squall_accept(endpoint, SQUALL_NO_LIMIT, &server) == SQUALL_OK);
        if (i == 0) {
            /* An endpoint in use keeps its address. */
            CHECK(squall_listen(&listen, &other) == SQUALL_ERROR_LISTEN);
        }
        CHECK(squall_session_free(i % 2 ? client : server) == SQUALL_OK);
        CHECK(squall_session_free(i % 2 ? server : client) == SQUALL_OK);
        CHECK(squall_endpoint_free(endpoint) == SQUALL_OK);
    }
    printf("ok\n");
    return 0;
}
