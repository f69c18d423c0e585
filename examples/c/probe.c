/* Waiting without blocking: zcrp_probe in a loop, with other work in between. One process is sender and receiver here,
 * each on a socket of its own. */
#include "common.h"

#define SIZE 3000000u

int main(void) {
    int pair[2], sender[2], receiver[2];
    unsigned long rounds = 0;
    struct zcrp_msg *out = zcrp_alloc_msg(SIZE), *in = zcrp_alloc_msg(SIZE);
    CHECK(out != NULL && in != NULL);
    udp_pair(pair);
    sender[0] = sender[1] = pair[0];
    receiver[0] = receiver[1] = pair[1];
    CHECK(zcrp_send_init(sender));
    CHECK(zcrp_rcv_init(receiver));

    fill(out, 0, SIZE);
    CHECK(zcrp_rcv(in, SIZE));
    CHECK(zcrp_send(out, SIZE));
    while (!zcrp_probe(in) || !zcrp_probe(out))
        rounds++; /* Other work goes here. */
    CHECK(zcrp_probe(in) && zcrp_probe(out));
    CHECK(zcrp_wait(in) && zcrp_wait(out));
    CHECK(in->message_size == SIZE && is_intact(in, 0, SIZE));

    CHECK(zcrp_rcv_close());
    CHECK(zcrp_send_close());
    zcrp_free_msg(in);
    zcrp_free_msg(out);
    printf("received %u bytes%s\n", SIZE, rounds > 0 ? " while working" : "");
    return 0;
}
