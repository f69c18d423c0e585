/* Requests and responses in one call each, then a stream of bytes on the same connection. */
#include "both_ends.h"

#include <ctype.h>

static void *serve(void *argument) {
    pinnace_connection_t *client = argument;
    struct pinnace_received request = PINNACE_RECEIVED_INIT;
    char byte;
    int lines = 0;
    for (int count = 0; count < 2; count++) {
        char *text;
        MUST(pinnace_recv(client, &request, -1) == 1);
        text = request.data;
        for (size_t at = 0; at < request.length; at++)
            text[at] = (char)toupper((unsigned char)text[at]);
        /* The response is a message like any other. */
        MUST(pinnace_send(client, text, request.length) == 0);
        pinnace_received_free(&request);
    }
    /* From here on the messages are read as one stream; where one ends says nothing. */
    while (pinnace_read(client, &byte, 1, -1) == 1)
        lines += byte == '\n';
    printf("%d lines\n", lines);
    return NULL;
}

int main(void) {
    static const char *requests[2] = {"ahoy", "mizzen mast"};
    pinnace_connection_t *client, *server;
    pthread_t thread;
    char why[8192];
    connect_both("size=100 direction=duplex", &client, &server);
    MUST(pthread_create(&thread, NULL, serve, server) == 0);
    for (int at = 0; at < 2; at++) {
        struct pinnace_received response = PINNACE_RECEIVED_INIT;
        MUST(pinnace_transact(client, requests[at], strlen(requests[at]), &response, 8000) == 0);
        printf("%s -> %.*s\n", requests[at], (int)response.length, (char *)response.data);
        pinnace_received_free(&response);
    }
    MUST(pinnace_write(client, "haul\naway\n", 10) == 10);
    /* What carries it, and why. */
    MUST(pinnace_explain_connection(client, why, sizeof why) > 0);
    fputs(why, stdout);
    MUST(pinnace_close(client, 1000) == 0 && pthread_join(thread, NULL) == 0);
    MUST(pinnace_close(server, 1000) == 0);
    return 0;
}
