/* What the programs about A1 share. */
#ifndef A1_COMMON_H
#define A1_COMMON_H

#include "bytes.h"

#include <pthread.h>
#include <signal.h>

#include "a1.h"

#define NEAR ((uint64_t)INADDR_LOOPBACK << 32)

UNUSED static struct a1_qos record(int options) {
    struct a1_qos qos;
    memset(&qos, 0, sizeof qos);
    qos.options = (uint16_t)options;
    qos.priority = 128;
    qos.largest_sent = qos.largest_received = 1 << 20;
    qos.outstanding = 16;
    return qos;
}

UNUSED static struct a1_qos reliable(void) {
    return record(A1_CHECKSUM | A1_RETRANSMISSION);
}

UNUSED static struct a1_qos raw(void) {
    return record(A1_CHECKSUM);
}

/* A socket at a port of this host that is chosen. */
UNUSED static int bound(struct a1_qos max) {
    int s = a1_socket();
    CHECK(s >= 0);
    IS(a1_bind(s, NEAR, &max), 0);
    return s;
}

/* One that listens, for more at a time than any of these programs connects before it accepts. */
UNUSED static int listening(struct a1_qos max, uint64_t *addr) {
    int s = bound(max);
    IS(a1_listen(s, 32), 0);
    IS(a1_name(s, addr), 0);
    CHECK(*addr >> 32 == INADDR_LOOPBACK && (uint32_t)*addr > 0);
    return s;
}

/* Two ends of a connection: a socket with one sink, and one that was accepted. */
UNUSED static void pair(struct a1_qos qos, int ends[2]) {
    uint64_t there, peer, here;
    int listener = listening(qos, &there);
    ends[0] = bound(qos);
    IS(a1_add_sink(ends[0], there, &qos, NULL), 0);
    ends[1] = a1_accept(listener, &peer, 0, NULL);
    CHECK(ends[1] >= 0);
    IS(a1_name(ends[0], &here), 0);
    CHECK(peer == here);
    IS(a1_close(listener, 0), 0);
}

#endif
