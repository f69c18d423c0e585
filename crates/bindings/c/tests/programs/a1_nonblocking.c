/* A1_DONTWAIT and the status: a full window, a rate that is exceeded, nothing to accept or to receive. */
#include "a1_common.h"

static char data[100000];

static void window(void) {
    struct a1_qos qos = reliable();
    int ends[2], sent = 0;
    uint32_t status;
    double until;
    qos.outstanding = 4;
    qos.largest_sent = qos.largest_received = sizeof data;
    pair(qos, ends);
    IS(a1_recv(ends[1], data, sizeof data, A1_DONTWAIT, &status), -EAGAIN);
    CHECK((status & (A1_START | A1_END | A1_PEER_CLOSED | A1_ABORTED)) == 0);
    IS(a1_recv(ends[0], data, sizeof data, A1_DONTWAIT, NULL), -EAGAIN);
    /* The peer does not read: what it has not consumed fills the window, however long one waits. */
    until = now() + 0.5;
    while (now() < until) {
        ssize_t size = a1_send(ends[0], data, sizeof data, A1_DONTWAIT, &status);
        if (size == -EAGAIN) {
            CHECK(status & A1_WINDOW_FULL);
            pause_ms(1);
            continue;
        }
        IS(size, sizeof data);
        sent++;
    }
    CHECK(sent >= 4 && sent <= 8);
    IS(a1_send(ends[0], data, 1, A1_DONTWAIT, NULL), -EAGAIN);
    /* One is read: there is room again. */
    IS(a1_recv(ends[1], data, sizeof data, 0, NULL), sizeof data);
    until = now() + 10;
    while (a1_send(ends[0], data, sizeof data, A1_DONTWAIT, &status) == -EAGAIN)
        CHECK(now() < until);
    for (; sent > 0; sent--) {
        IS(a1_recv(ends[1], data, sizeof data, 0, &status), sizeof data);
        CHECK((status & (A1_START | A1_END)) == (A1_START | A1_END));
    }
    IS(a1_close(ends[0], 1000), 0);
    IS(a1_close(ends[1], 1000), 0);
}

static void rate(void) {
    struct a1_qos qos = reliable();
    int ends[2], is_exceeded = 0;
    uint32_t status;
    double before;
    size_t total = 0;
    qos.send_average = 1000000;
    qos.send_burst = 100000;
    qos.largest_sent = qos.largest_received = 10000;
    qos.block_size = 10000;
    pair(qos, ends);
    before = now();
    while (now() < before + 1) {
        /* As much as goes, however seldom we get to run. */
        ssize_t size = a1_send(ends[0], data, 10000, A1_DONTWAIT, &status);
        is_exceeded |= (status & A1_RATE_EXCEEDED) != 0;
        while (a1_recv(ends[1], data, sizeof data, A1_DONTWAIT, NULL) == 10000)
            total += 10000;
        if (size == -EAGAIN) {
            CHECK(status & (A1_WINDOW_FULL | A1_RATE_EXCEEDED));
            pause_ms(1);
        } else
            IS(size, 10000);
    }
    CHECK(is_exceeded);
    CHECK((double)total <= 100000 + 1000000 * (now() - before) + 10000);
    CHECK(total >= 500000);
    IS(a1_close(ends[0], 1000), 0);
    IS(a1_close(ends[1], 1000), 0);
}

/* With room for the whole message, a part of one is not enough; a blocking call gets all of it. */
static void whole(void) {
    struct a1_qos qos = reliable();
    int ends[2], again = 0;
    uint32_t status;
    ssize_t size;
    double until = now() + 20;
    qos.block_size = 1000;
    qos.send_average = 200000;
    qos.send_burst = 2000;
    pair(qos, ends);
    IS(a1_send(ends[0], data, 40000, 0, NULL), 40000);
    while ((size = a1_recv(ends[1], data, sizeof data, A1_DONTWAIT, &status)) == -EAGAIN && now() < until) {
        again++;
        pause_ms(1);
    }
    IS(size, 40000);
    CHECK(again > 10 && (status & A1_END));
    IS(a1_send(ends[0], data, 40000, 0, NULL), 40000);
    IS(a1_recv(ends[1], data, sizeof data, 0, &status), 40000);
    IS(a1_close(ends[0], 1000), 0);
    IS(a1_close(ends[1], 1000), 0);
}

int main(void) {
    struct a1_qos qos = reliable();
    uint64_t there;
    uint32_t status;
    int listener = listening(qos, &there);
    IS(a1_accept(listener, NULL, A1_DONTWAIT, &status), -EAGAIN);
    IS(a1_close(listener, 0), 0);
    window();
    rate();
    whole();
    puts("nobody waited");
    return 0;
}
