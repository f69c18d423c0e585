/* A connection is reset while the pool of its reader is empty: that there is no memory is said of the call, not of the connection. */
#include "qbuf_common.h"

int main(void) {
    struct qb_options options;
    struct sockaddr_in there = loopback(0);
    struct linger none = {1, 0};
    socklen_t length = sizeof there;
    int pool, listener, ends[2], held = 0;
    char *all[64];
    void *in;
    size_t size;
    char data[1000];
    memset(&options, 0, sizeof options);
    options.block_size = 4096;
    options.zones = 1;
    pool = qb_open(NULL, &options);
    listener = qmp_socket(AF_INET, SOCK_STREAM, 0);
    ends[0] = qmp_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(pool >= 0 && listener >= 0 && ends[0] >= 0);
    CHECK(qmp_setsockopt(listener, SOL_QMP, QMP_POOL, &pool, sizeof pool) == 0);
    CHECK(qmp_bind(listener, (struct sockaddr *)&there, length) == 0 && qmp_listen(listener, 1) == 0);
    CHECK(qmp_getsockname(listener, (struct sockaddr *)&there, &length) == 0);
    CHECK(qmp_connect(ends[0], (struct sockaddr *)&there, length) == 0);
    ends[1] = qmp_accept(listener, NULL, NULL);
    CHECK(ends[1] >= 0);
    while (held < 64 && (all[held] = (char *)qb_alloc(pool, 4096)) != NULL)
        held++;
    CHECK(held > 0 && held < 64);
    fill(data, 0, sizeof data);
    CHECK(qmp_send(ends[0], data, sizeof data, 0) == sizeof data);
    CHECK(events_of(ends[1], POLLIN, 20000) == POLLIN);
    CHECK(qmp_setsockopt(ends[0], SOL_SOCKET, SO_LINGER, &none, sizeof none) == 0 && qmp_close(ends[0]) == 0);
    while (!(events_of(ends[1], POLLIN, 20000) & POLLERR))
        pause_ms(5);
    FAILS(qb_read(ends[1], &in, &size), ENOMEM);
    FAILS(qb_read(ends[1], &in, &size), ENOMEM);
    for (; held > 0; held--)
        CHECK(qb_free(pool, all[held - 1]) == 0);
    CHECK(qb_read(ends[1], &in, &size) == sizeof data && is_intact((char *)in, 0, sizeof data));
    CHECK(qb_free(pool, in) == 0);
    FAILS(qb_read(ends[1], &in, &size), ECONNRESET);
    CHECK(qb_read(ends[1], &in, &size) == 0);
    CHECK(qmp_close(ends[1]) == 0 && qmp_close(listener) == 0 && qb_close(pool) == 0);
    printf("no memory, and then a reset\n");
    return 0;
}
