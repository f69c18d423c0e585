/* A path that loses large datagrams: a relay in threads of this process. */
#ifndef LOSSY_H
#define LOSSY_H

#include "checks.h"

#include <pthread.h>
#include <stdint.h>

static struct {
    int near, far;
    ssize_t large;
    uint32_t lost;
    struct sockaddr_in client;
    socklen_t client_size;
} path;

static void *relay_forth(void *unused) {
    static char datagram[65536];
    uint32_t state = 1;
    (void)unused;
    for (;;) {
        struct sockaddr_in from;
        socklen_t from_size = sizeof from;
        ssize_t size = recvfrom(path.near, datagram, sizeof datagram, 0, (struct sockaddr *)&from, &from_size);
        if (size < 0)
            return NULL;
        path.client = from;
        path.client_size = from_size;
        state = state * 1664525u + 1013904223u;
        if (size < path.large || state >> 24 >= path.lost)
            (void)!send(path.far, datagram, (size_t)size, 0);
    }
}

static void *relay_back(void *unused) {
    static char datagram[65536];
    (void)unused;
    for (;;) {
        ssize_t size = recv(path.far, datagram, sizeof datagram, 0);
        if (size < 0)
            return NULL;
        (void)!sendto(path.near, datagram, (size_t)size, 0, (struct sockaddr *)&path.client, path.client_size);
    }
}

/* Relays to a port of this host, and loses `lost` of 256 datagrams that have at least `large` bytes. Returns the relay's port. */
static int relay_to(int port, ssize_t large, uint32_t lost) {
    struct sockaddr_in name = loopback(0);
    socklen_t size = sizeof name;
    pthread_t thread;
    path.large = large;
    path.lost = lost;
    path.near = socket(AF_INET, SOCK_DGRAM, 0);
    path.far = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(path.near >= 0 && path.far >= 0 && bind(path.near, (struct sockaddr *)&name, sizeof name) == 0);
    name.sin_port = htons((uint16_t)port);
    CHECK(connect(path.far, (struct sockaddr *)&name, sizeof name) == 0);
    CHECK(getsockname(path.near, (struct sockaddr *)&name, &size) == 0);
    CHECK(pthread_create(&thread, NULL, relay_forth, NULL) == 0 && pthread_detach(thread) == 0);
    CHECK(pthread_create(&thread, NULL, relay_back, NULL) == 0 && pthread_detach(thread) == 0);
    return ntohs(name.sin_port);
}

#endif
