/* Buffers into and out of QMP sockets: nothing is copied, and everything comes back to the pool. */
#include "qbuf_common.h"

#define COUNT 300
#define SIZE 50000

static int ends[2];

static void *take(void *nothing) {
    size_t all = 0;
    void *in;
    size_t size;
    (void)nothing;
    while (qb_read(ends[1], &in, &size) > 0) {
        CHECK(is_intact((char *)in, all, size));
        all += size;
        CHECK(qb_free(ends[1], in) == 0);
    }
    CHECK(all == (size_t)COUNT * SIZE && in == NULL);
    return NULL;
}

int main(void) {
    struct qb_options options;
    struct sockaddr_in there = loopback(0);
    struct timeval time = {0, 200000};
    socklen_t length = sizeof there;
    double until;
    pthread_t taker;
    int pool, listener, at;
    char data[100], *p;
    void *in;
    size_t size;
    memset(&options, 0, sizeof options);
    options.block_size = 65536;
    options.zones = 8;
    pool = qb_open(NULL, &options);
    listener = qmp_socket(AF_INET, SOCK_STREAM, 0);
    ends[0] = qmp_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(pool >= 0 && listener >= 0 && ends[0] >= 0);
    FAILS(qmp_setsockopt(listener, SOL_QMP, QMP_POOL, &listener, sizeof listener), EBADF);
    CHECK(qmp_setsockopt(listener, SOL_QMP, QMP_POOL, &pool, sizeof pool) == 0);
    CHECK(qmp_setsockopt(ends[0], SOL_QMP, QMP_POOL, &pool, sizeof pool) == 0);
    CHECK(qmp_getsockopt(ends[0], SOL_QMP, QMP_POOL, &at, &length) == 0 && at == pool);
    length = sizeof there;
    CHECK(qmp_bind(listener, (struct sockaddr *)&there, length) == 0 && qmp_listen(listener, 1) == 0);
    CHECK(qmp_getsockname(listener, (struct sockaddr *)&there, &length) == 0);
    p = (char *)qb_alloc(ends[0], 10);
    CHECK(p != NULL);
    FAILS(qb_write(ends[0], p, 10), ENOTCONN);
    CHECK(qmp_connect(ends[0], (struct sockaddr *)&there, length) == 0);
    ends[1] = qmp_accept(listener, NULL, NULL);
    CHECK(ends[1] >= 0 && qb_free(ends[0], p) == 0);

    /* Out of buffers, into buffers; and the pool is used again and again. */
    CHECK(pthread_create(&taker, NULL, take, NULL) == 0);
    for (at = 0; at < COUNT; at++) {
        while ((p = (char *)qb_alloc(pool, SIZE)) == NULL)
            CHECK(errno == ENOMEM && usleep(1000) == 0);
        fill(p, (size_t)at * SIZE, SIZE);
        CHECK(qb_write(ends[0], p, SIZE) == SIZE);
        FAILS(qb_free(pool, p), EPERM);
    }
    /* Bytes and buffers are one stream, the other way. */
    CHECK(qmp_send(ends[1], "bytes", 5, 0) == 5);
    p = (char *)qb_alloc(ends[1], 5);
    CHECK(p != NULL);
    memcpy(p, "qbufs", 5);
    FAILS(qb_write(ends[1], p, 70000), EMSGSIZE);
    FAILS(qb_write(ends[1], p, 0), EINVAL);
    CHECK(qb_write(ends[1], p, 5) == 5);
    CHECK(qmp_recv(ends[0], data, 10, MSG_WAITALL) == 10 && memcmp(data, "bytesqbufs", 10) == 0);
    CHECK(qmp_shutdown(ends[0], SHUT_WR) == 0);
    p = (char *)qb_alloc(pool, 5);
    CHECK(p != NULL);
    FAILS(qb_write(ends[0], p, 5), EPIPE);
    FAILS(qb_free(pool, p), EPERM);
    CHECK(pthread_join(taker, NULL) == 0);

    /* Nothing to read, and no room: without waiting, and with a time. */
    CHECK(qmp_setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
    FAILS(qb_read(ends[0], &in, &size), EAGAIN);
    CHECK(qmp_fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0 && qmp_fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    FAILS(qb_read(ends[0], &in, &size), EAGAIN);
    for (at = 0; at < 100000; at++) {
        while ((p = (char *)qb_alloc(pool, 8)) == NULL)
            CHECK(at > 0);
        fill(p, (size_t)at * 8, 8);
        if (qb_write(ends[1], p, 8) < 0)
            break;
        if (stats_of(pool).free_blocks < 40)
            break;
    }
    CHECK(at > 0);
    if (stats_of(pool).free_blocks >= 40) {
        CHECK(errno == EAGAIN && qb_free(pool, p) == 0);
    } else {
        at++;
    }
    for (size = 0; size < (size_t)at * 8;) {
        char look[64];
        ssize_t got;
        CHECK(events_of(ends[0], POLLIN, 20000) == POLLIN);
        got = qmp_recv(ends[0], look, sizeof look, 0);
        CHECK(got > 0 && is_intact(look, size, (size_t)got));
        size += (size_t)got;
    }

    /* Everything is acknowledged, and free. */
    CHECK(qmp_close(ends[0]) == 0 && qmp_close(ends[1]) == 0 && qmp_close(listener) == 0);
    until = now() + 20;
    while (stats_of(pool).free_blocks < stats_of(pool).blocks) {
        CHECK(now() < until);
        pause_ms(5);
    }
    CHECK(stats_of(pool).corrupt_words == 0 && qb_close(pool) == 0);
    printf("sent and received without a copy\n");
    return 0;
}
