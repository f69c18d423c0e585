/* What a close gives up: the memory of every message is C's again, a thread that flushes waits no longer, although the peer
 * receives nothing, and the descriptors of both ends go soon. */
#include "unified_common.h"

#include <dirent.h>

#define MOST 200
#define SIZE 65536

static int descriptors(void) {
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;
    CHECK(directory != NULL);
    while (readdir(directory) != NULL)
        count++;
    CHECK(closedir(directory) == 0);
    return count;
}

struct flushing {
    pinnace_connection_t *connection;
    int result;
};

static void *flush(void *argument) {
    struct flushing *flushing = argument;
    flushing->result = pinnace_flush(flushing->connection);
    return NULL;
}

static void given_up(const char *method) {
    static char memory[MOST][SIZE];
    struct pinnace_send_options options = PINNACE_SEND_OPTIONS_INIT;
    pinnace_delivery_t *deliveries[MOST];
    struct flushing flushing;
    pinnace_connection_t *server;
    pthread_t thread;
    int count = 0, failed = 0;
    pair_of(method, "direction=duplex", &flushing.connection, &server);
    options.flags = PINNACE_DONT_WAIT;
    for (; count < MOST; count++) {
        struct iovec part = {memory[count], SIZE};
        if (pinnace_sendv(flushing.connection, &part, 1, &options, &deliveries[count]) != 0)
            break;
    }
    CHECK(count > 1);
    CHECK(pthread_create(&thread, NULL, flush, &flushing) == 0);
    usleep(50000);
    /* With all methods but ZCRP everything may have arrived by now. */
    CHECK(pinnace_close(flushing.connection, 0) == 0 ? strcmp(method, "zcrp") != 0 : errno == ETIMEDOUT);
    CHECK(pthread_join(thread, NULL) == 0);
    for (int at = 0; at < count; at++) {
        int ended = pinnace_delivery_wait(deliveries[at], NULL, LONG);
        CHECK(ended == 0 || errno != EAGAIN);
        failed += ended != 0;
    }
    CHECK(failed == 0 || flushing.result == -1);
    CHECK(failed > 0 || strcmp(method, "zcrp") != 0);
    CHECK(pinnace_abort(server) == 0);
    printf("%s ", method);
}

int main(int argc, char **argv) {
    const char *network[] = {"zcrp", "xtp", "qmp", "a1"};
    const char *const *methods = argc > 1 ? (const char *const *)argv + 1 : network;
    size_t count = argc > 1 ? (size_t)argc - 1 : sizeof network / sizeof *network;
    int before = descriptors();
    for (size_t at = 0; at < count; at++)
        given_up(methods[at]);
    printf("gave up\n");
    for (int waited = 0; descriptors() > before + 1; waited++) {
        CHECK(waited < LONG / 10);
        usleep(10000);
    }
    printf("no descriptors are left\n");
    return 0;
}
