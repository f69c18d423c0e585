/* Threads that pass buffers to one socket, and want the same room: what is refused is the caller's again. */
#include "qbuf_common.h"

#define THREADS 3
#define EACH 600
#define SIZE 60000

static int ends[2], pool;

static void *give(void *nothing) {
    double until = now() + 40;
    int at;
    (void)nothing;
    for (at = 0; at < EACH; at++) {
        char *p;
        while ((p = (char *)qb_alloc(pool, SIZE)) == NULL) {
            CHECK(errno == ENOMEM && now() < until);
            usleep(50);
        }
        while (qb_write(ends[0], p, SIZE) != SIZE) {
            /* Otherwise it is not a buffer of ours any more, and this is EPERM. */
            CHECK(errno == EAGAIN);
            CHECK(now() < until);
        }
    }
    return NULL;
}

static void *take(void *nothing) {
    size_t all = 0, size;
    void *in;
    (void)nothing;
    while (all < (size_t)THREADS * EACH * SIZE) {
        CHECK(qb_read(ends[1], &in, &size) > 0);
        all += size;
        CHECK(qb_free(ends[1], in) == 0);
    }
    return NULL;
}

/* There is room again while something else is asked: the number of the socket says so. */
static void find_room(void) {
    size_t written = 0, size;
    void *in;
    char *p;
    int refused = 0;
    CHECK((p = (char *)qb_alloc(pool, SIZE)) != NULL);
    while (refused < 3) {
        if (qb_write(ends[0], p, SIZE) == SIZE) {
            written += SIZE;
            refused = 0;
            CHECK((p = (char *)qb_alloc(pool, SIZE)) != NULL);
            continue;
        }
        CHECK(errno == EAGAIN);
        refused++;
        /* What was on its way has told its room by now. */
        pause_ms(100);
    }
    while (written > 0) {
        CHECK(qb_read(ends[1], &in, &size) > 0);
        written -= size;
        CHECK(qb_free(ends[1], in) == 0);
    }
    pause_ms(300);
    FAILS(qb_read(ends[0], &in, &size), EAGAIN);
    CHECK(is_readable(ends[0], 5000));
    CHECK(qb_write(ends[0], p, SIZE) == SIZE && qb_read(ends[1], &in, &size) > 0 && qb_free(ends[1], in) == 0);
    while (size < SIZE) {
        size_t more;
        CHECK(qb_read(ends[1], &in, &more) > 0 && qb_free(ends[1], in) == 0);
        size += more;
    }
}

int main(void) {
    struct qb_options options;
    struct sockaddr_in there = loopback(0);
    socklen_t length = sizeof there;
    pthread_t givers[THREADS], taker;
    int listener, at, window = 65536;
    memset(&options, 0, sizeof options);
    options.block_size = 65536;
    options.zones = 8;
    pool = qb_open(NULL, &options);
    listener = qmp_socket(AF_INET, SOCK_STREAM, 0);
    ends[0] = qmp_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(pool >= 0 && listener >= 0 && ends[0] >= 0);
    CHECK(qmp_setsockopt(listener, SOL_QMP, QMP_POOL, &pool, sizeof pool) == 0);
    CHECK(qmp_setsockopt(ends[0], SOL_QMP, QMP_POOL, &pool, sizeof pool) == 0);
    CHECK(qmp_setsockopt(ends[0], SOL_QMP, QMP_WINDOW, &window, sizeof window) == 0);
    CHECK(qmp_bind(listener, (struct sockaddr *)&there, length) == 0 && qmp_listen(listener, 1) == 0);
    CHECK(qmp_getsockname(listener, (struct sockaddr *)&there, &length) == 0);
    CHECK(qmp_connect(ends[0], (struct sockaddr *)&there, length) == 0);
    ends[1] = qmp_accept(listener, NULL, NULL);
    CHECK(ends[1] >= 0 && qmp_fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
    find_room();
    CHECK(pthread_create(&taker, NULL, take, NULL) == 0);
    for (at = 0; at < THREADS; at++)
        CHECK(pthread_create(&givers[at], NULL, give, NULL) == 0);
    for (at = 0; at < THREADS; at++)
        CHECK(pthread_join(givers[at], NULL) == 0);
    CHECK(pthread_join(taker, NULL) == 0);
    CHECK(qmp_close(ends[0]) == 0 && qmp_close(ends[1]) == 0 && qmp_close(listener) == 0 && qb_close(pool) == 0);
    printf("what is refused is given back\n");
    return 0;
}
