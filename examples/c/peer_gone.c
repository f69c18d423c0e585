/* A peer that is killed is reported, at either end, within the time that was set. */
#include "common.h"
#include <time.h>

#define SIZE 200000000u

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* The child takes part until the message is well under way, and is killed then. `sends`: the child is the sender. */
static void lose_peer(int sends) {
    int pair[2], channel[2], told[2];
    char byte;
    double before;
    pid_t child;
    struct zcrp_msg *message = zcrp_alloc_msg(SIZE);
    CHECK(message != NULL);
    udp_pair(pair);
    CHECK(pipe(told) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        channel[0] = channel[1] = pair[1];
        CHECK(sends ? zcrp_send_init(channel) : zcrp_rcv_init(channel));
        CHECK(sends ? zcrp_send(message, SIZE) : zcrp_rcv(message, SIZE));
        while (zcrp_get(sends ? "units_sent" : "bytes_received") < 10)
            (void)zcrp_probe(message);
        raise(SIGKILL);
    }
    channel[0] = channel[1] = pair[0];
    CHECK(sends ? zcrp_rcv_init(channel) : zcrp_send_init(channel));
    CHECK(sends ? zcrp_rcv(message, SIZE) : zcrp_send(message, SIZE));
    /* Readable when the child is gone, with nothing to read. */
    close(told[1]);
    close(pair[1]);
    CHECK(read(told[0], &byte, 1) == 0);
    close(told[0]);
    before = now();
    errno = 0;
    CHECK(!zcrp_wait(message) && errno == ETIMEDOUT);
    CHECK(now() - before < 5.0);
    CHECK(zcrp_probe(message) == 1);
    CHECK(!(sends ? zcrp_rcv(message, 1) : zcrp_send(message, 1)));
    CHECK(errno == ETIMEDOUT);
    zcrp_free_msg(message);
    CHECK(sends ? zcrp_rcv_close() : zcrp_send_close());
    CHECK(waitpid(child, NULL, 0) == child);
    close(pair[0]);
    printf("the %s is gone\n", sends ? "sender" : "receiver");
}

int main(void) {
    CHECK(zcrp_set("peer_timeout_ms", 500) == 1);
    lose_peer(0);
    lose_peer(1);
    return 0;
}
