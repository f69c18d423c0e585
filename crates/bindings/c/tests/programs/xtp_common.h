/* What the programs about XTP share. */
#ifndef XTP_COMMON_H
#define XTP_COMMON_H

#include "checks.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/select.h>

#include "xtp.h"

UNUSED static int port_of(int socket) {
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    CHECK(getsockname(socket, (struct sockaddr *)&address, &length) == 0);
    return ntohs(address.sin_port);
}

/* A socket on a free port of the loopback, so that a port is known before anybody listens. */
UNUSED static int bound_socket(void) {
    struct sockaddr_in address = loopback(0);
    int made = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(made >= 0 && bind(made, (struct sockaddr *)&address, sizeof address) == 0);
    return made;
}

/* A context with its memory. */
struct end {
    xtpctx ctx;
    char *ring;
};

UNUSED static void set_up(struct end *end, int soc, int service, uint32_t ring, uint32_t mode) {
    end->ctx.soc = soc;
    IS(xtp_ctx_init(&end->ctx), XTP_OK);
    CHECK(end->ctx.my_key != 0 && end->ctx.soc >= 0 && end->ctx.cbloc != NULL);
    end->ring = (char *)calloc(1, ring);
    CHECK(end->ring != NULL);
    end->ctx.recv_buf = end->ring;
    end->ctx.cbloc->rbufsize = ring;
    end->ctx.cbloc->service = (uint8_t)service;
    end->ctx.cbloc->mode_flags |= mode;
}

UNUSED static void listen_on(struct end *end, int soc, int service, uint32_t ring, uint32_t mode) {
    set_up(end, soc, service, ring, mode);
    end->ctx.cbloc->address_segment.dport = (uint16_t)port_of(soc);
}

UNUSED static void call_to(struct end *end, int port, int service, uint32_t ring, uint32_t mode) {
    struct sockaddr_in address = loopback(port);
    set_up(end, -1, service, ring, mode);
    memcpy(&end->ctx.paddr, &address, sizeof address);
}

UNUSED static void tear_down(struct end *end) {
    IS(xtp_close(&end->ctx, 2), XTP_OK);
    free(end->ring);
}

/* Bytes that tell where they are; never 0. */
UNUSED static unsigned char expected(uint64_t at) {
    return (unsigned char)((at * 2654435761u) >> 13) | 1;
}

UNUSED static void fill(char *data, uint64_t from, size_t size) {
    size_t at;
    for (at = 0; at < size; at++)
        data[at] = (char)expected(from + at);
}

/* Difference of two numbers of a stream. */
UNUSED static uint64_t distance(const xtpctx *ctx, uint64_t from, uint64_t to) {
    return ctx->cbloc->mode_flags & XTP_MODE_36 ? (uint32_t)(to - from) : to - from;
}

/* The byte at a distance from the beginning. */
UNUSED static unsigned char at(const struct end *end, uint64_t offset) {
    return (unsigned char)end->ring[offset % end->ctx.cbloc->rbufsize];
}

/* Bytes that can be read: how many lie before them, and how many they are. They must be right. */
UNUSED static uint64_t verify(const struct end *end) {
    uint64_t low = distance(&end->ctx, end->ctx.init_seq, end->ctx.dseq);
    uint64_t high = distance(&end->ctx, end->ctx.init_seq, end->ctx.rseq);
    uint64_t offset;
    for (offset = low; offset < high; offset++)
        CHECK(at(end, offset) == expected(offset));
    return high - low;
}

/* Goes on until the association has ended; how it did. */
UNUSED static int finish(xtpctx *ctx) {
    for (;;) {
        int code = xd_input(ctx);
        if (code < 0 || code > XTP_CLOSED || (code == XTP_CLOSED && ctx->cstate != XTP_ACTIVE))
            return code;
    }
}

/* Answers late packets until a child has ended: whether it was content. */
UNUSED static int linger(xtpctx *ctx, pid_t child) {
    int status = 0;
    double until = now() + 30;
    while (now() < until) {
        struct pollfd entry;
        entry.fd = ctx->soc;
        entry.events = POLLIN;
        if (waitpid(child, &status, WNOHANG) == child)
            return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (poll(&entry, 1, 5) == 1)
            xd_input(ctx);
    }
    return 0;
}

#endif
