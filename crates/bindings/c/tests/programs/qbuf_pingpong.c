/* Buffers pass between two processes, and back: the bytes are the same, and so is the place in the pool. */
#include "qbuf_common.h"

#define ROUNDS 2000

static void respond(const char *name, unsigned flags) {
    struct qb_options options;
    void *p;
    size_t size;
    int fd;
    memset(&options, 0, sizeof options);
    options.flags = flags;
    fd = qb_open(name, &options);
    CHECK(fd >= 0);
    for (;;) {
        ssize_t got = qb_read(fd, &p, &size);
        if (got < 0 && errno == EAGAIN) {
            struct pollfd entry;
            entry.fd = fd;
            entry.events = POLLIN;
            CHECK(poll(&entry, 1, 20000) == 1);
            continue;
        }
        if (got == 0)
            break;
        CHECK(got == (ssize_t)size && is_intact((char *)p, size, size));
        ((char *)p)[0] ^= 0x55;
        CHECK(qb_write(fd, p, size) == (ssize_t)size);
    }
    CHECK(p == NULL && size == 0 && qb_close(fd) == 0);
    exit(0);
}

int main(void) {
    static const size_t sizes[] = {1, 48, 49, 4096, 5000, 131072, 2000000};
    int round, way;
    for (way = 0; way < 3; way++) {
        struct qb_options options;
        const char *name = fresh_name(way == 0 ? "blocking" : way == 1 ? "polling" : "spinning");
        pid_t child = fork();
        int fd;
        CHECK(child >= 0);
        if (child == 0)
            respond(name, way == 1 ? QB_NONBLOCK : 0);
        /* Who comes first decides; here either may. */
        if (way == 2)
            pause_ms(50);
        memset(&options, 0, sizeof options);
        options.block_size = 65536;
        options.zones = 4;
        options.timeout_ms = 20000;
        options.spin_us = way == 2 ? 50 : 0;
        fd = qb_open(name, &options);
        CHECK(fd >= 0);
        for (round = 0; round < ROUNDS; round++) {
            size_t size = sizes[round % 7], got = 0;
            char *out;
            void *in = NULL;
            /* The child may have been first, with small blocks. */
            if (stats_of(fd).block_size * 32 < size)
                size = stats_of(fd).block_size * 32;
            out = (char *)qb_alloc(fd, size);
            CHECK(out != NULL);
            fill(out, size, size);
            CHECK(qb_write(fd, out, size) == (ssize_t)size);
            CHECK(qb_read(fd, &in, &got) == (ssize_t)size && got == size);
            /* It is the same memory. */
            CHECK(in == (void *)out);
            out[0] ^= 0x55;
            CHECK(is_intact(out, size, size));
            CHECK(qb_free(fd, in) == 0);
        }
        /* Many at once. */
        for (round = 0; round < 60; round++) {
            char *out = (char *)qb_alloc(fd, 1000);
            CHECK(out != NULL);
            fill(out, 1000, 1000);
            CHECK(qb_write(fd, out, 1000) == 1000);
        }
        for (round = 0; round < 60; round++) {
            void *in;
            size_t size;
            CHECK(qb_read(fd, &in, &size) == 1000 && qb_free(fd, in) == 0);
        }
        CHECK(stats_of(fd).free_blocks == stats_of(fd).blocks && stats_of(fd).corrupt_words == 0);
        CHECK(qb_close(fd) == 0);
        CHECK(child_succeeded(child));
    }
    printf("the same buffers went to and fro\n");
    return 0;
}
