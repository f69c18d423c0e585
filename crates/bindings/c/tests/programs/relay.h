/* A path that loses, doubles and reorders datagrams: a relay in a process of its own. */
#ifndef RELAY_H
#define RELAY_H

#include "checks.h"

#include <stdint.h>

static uint32_t relay_seed = 12345;

static uint32_t draw(uint32_t below) {
    relay_seed = relay_seed * 1664525u + 1013904223u;
    return (relay_seed >> 8) % below;
}

/* A socket at a port of 127.0.0.`last`; 0 is a free one. */
static int datagram_socket(int last, int port) {
    struct sockaddr_in here = loopback_of(last, port);
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(s >= 0 && bind(s, (struct sockaddr *)&here, sizeof here) == 0);
    return s;
}

/* Hands datagrams on between whoever wrote last to `front` and `port`. */
static void relay(int front, int port) {
    struct sockaddr_in caller, server = loopback(port);
    int back = datagram_socket(1, 0), known = 0;
    char held[3000];
    ssize_t held_size = 0;
    int held_way = 0;
    memset(&caller, 0, sizeof caller);
    for (;;) {
        struct pollfd entries[2];
        char datagram[3000];
        int way;
        entries[0].fd = front;
        entries[1].fd = back;
        entries[0].events = entries[1].events = POLLIN;
        poll(entries, 2, -1);
        for (way = 0; way < 2; way++) {
            socklen_t length = sizeof caller;
            ssize_t size;
            int copies;
            if (!(entries[way].revents & POLLIN))
                continue;
            size = recvfrom(entries[way].fd, datagram, sizeof datagram, 0, way == 0 ? (struct sockaddr *)&caller : NULL,
                            way == 0 ? &length : NULL);
            known |= way == 0;
            if (size <= 0 || !known || draw(100) < 5)
                continue;
            if (held_size == 0 && draw(100) < 5) {
                memcpy(held, datagram, (size_t)size);
                held_size = size;
                held_way = way;
                continue;
            }
            for (copies = draw(100) < 5 ? 2 : 1; copies > 0; copies--)
                sendto(way == 0 ? back : front, datagram, (size_t)size, 0,
                       (struct sockaddr *)(way == 0 ? &server : &caller), sizeof server);
            if (held_size > 0 && draw(3) == 0) {
                sendto(held_way == 0 ? back : front, held, (size_t)held_size, 0,
                       (struct sockaddr *)(held_way == 0 ? &server : &caller), sizeof server);
                held_size = 0;
            }
        }
    }
}

#endif
