/* An event loop: a connection has one descriptor, which poll, select and epoll take; and what is sent is told by a callback. */
#include "both_ends.h"

#include <poll.h>

/* Runs on a thread of the library's. */
static void arrived(const struct pinnace_completion *completion, void *text) {
    if (completion->error != 0)
        fprintf(stderr, "%s did not arrive: %s\n", (char *)text, completion->text);
}

int main(void) {
    static char *texts[3] = {"ahoy", "who goes there?", "a pinnace"};
    pinnace_connection_t *to, *from;
    struct pollfd entry = {-1, POLLIN, 0};
    int count = 0;
    connect_both("size=100", &to, &from);
    MUST((entry.fd = pinnace_fd(from)) >= 0);
    for (int at = 0; at < 3; at++) {
        struct iovec part = {NULL, 0};
        struct pinnace_send_options options = PINNACE_SEND_OPTIONS_INIT;
        part.iov_base = texts[at];
        part.iov_len = strlen(texts[at]);
        options.done = arrived;
        options.argument = texts[at];
        /* All three travel together. */
        MUST(pinnace_sendv(to, &part, 1, &options, NULL) == 0);
    }
    while (count < 3) {
        struct pinnace_received m = PINNACE_RECEIVED_INIT;
        MUST(poll(&entry, 1, 8000) == 1);
        /* Take what is there, without waiting, until there is no more (EAGAIN); then the descriptor is quiet again. */
        while (pinnace_recv(from, &m, 0) == 1) {
            printf("%.*s\n", (int)m.length, (char *)m.data);
            pinnace_received_free(&m);
            count++;
        }
    }
    printf("received %d messages by %s\n", count, pinnace_method(from));
    MUST(pinnace_close(to, 1000) == 0 && pinnace_close(from, 1000) == 0);
    return 0;
}
