/* Both ways on one connection: a client asks, a server answers. */
#include "both_ends.h"

#include <ctype.h>

static void *serve(void *argument) {
    pinnace_connection_t *client = argument;
    struct pinnace_received question = PINNACE_RECEIVED_INIT;
    while (pinnace_recv(client, &question, -1) == 1) {
        /* The memory of a message is ours until it is freed: the answer is made in it. */
        char *text = question.data;
        for (size_t at = 0; at < question.length; at++)
            text[at] = (char)toupper((unsigned char)text[at]);
        MUST(pinnace_send(client, text, question.length) == 0);
        pinnace_received_free(&question);
    }
    return NULL;
}

int main(void) {
    static const char *questions[3] = {"ahoy", "mizzen mast", "keel"};
    pinnace_connection_t *client, *server;
    pthread_t thread;
    connect_both("size=100 direction=duplex", &client, &server);
    MUST(pthread_create(&thread, NULL, serve, server) == 0);
    for (int at = 0; at < 3; at++) {
        struct pinnace_received answer = PINNACE_RECEIVED_INIT;
        MUST(pinnace_send(client, questions[at], strlen(questions[at])) == 0);
        MUST(pinnace_recv(client, &answer, -1) == 1);
        printf("%s -> %.*s\n", questions[at], (int)answer.length, (char *)answer.data);
        pinnace_received_free(&answer);
    }
    MUST(pinnace_close(client, 1000) == 0 && pthread_join(thread, NULL) == 0);
    MUST(pinnace_close(server, 1000) == 0);
    return 0;
}
