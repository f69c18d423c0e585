/* One half of a duplex channel is closed and opened again at both ends, while the other half goes on. */
#include "common.h"

#define SIZE 300000u

int main(void) {
    int pair[2], here[2], there[2], round;
    zcrp_sender_t *sender;
    zcrp_receiver_t *receiver;
    struct zcrp_msg *out = zcrp_alloc_msg(SIZE), *in = zcrp_alloc_msg(SIZE);
    struct zcrp_msg *back_out = zcrp_alloc_msg(SIZE), *back_in = zcrp_alloc_msg(SIZE);
    CHECK(out != NULL && in != NULL && back_out != NULL && back_in != NULL);
    udp_pair(pair);
    here[0] = here[1] = pair[0];
    /* Another descriptor of the same socket is the same channel. */
    there[0] = pair[1];
    there[1] = dup(pair[1]);
    CHECK(there[1] >= 0);
    /* This half stays open all the time. */
    CHECK(zcrp_rcv_init(here));
    sender = zcrp_sender_open(there);
    CHECK(sender != NULL);
    for (round = 0; round < 3; round++) {
        receiver = zcrp_receiver_open(there);
        CHECK(receiver != NULL && zcrp_send_init(here));
        errno = 0;
        CHECK(zcrp_receiver_open(there) == NULL && errno == EBUSY);
        fill(out, 3, SIZE);
        fill(back_out, 4, SIZE);
        CHECK(zcrp_receiver_rcv(receiver, in, SIZE) && zcrp_rcv(back_in, SIZE));
        CHECK(zcrp_send(out, SIZE) && zcrp_sender_send(sender, back_out, SIZE));
        CHECK(out->number == 0 && in->number == 0);
        CHECK(back_out->number == (nlong)round && back_in->number == (nlong)round);
        CHECK(zcrp_wait(out) && zcrp_wait(in) && zcrp_wait(back_out) && zcrp_wait(back_in));
        CHECK(is_intact(in, 3, SIZE) && is_intact(back_in, 4, SIZE));
        memset(in->buffer, 0, SIZE);
        memset(back_in->buffer, 0, SIZE);
        zcrp_receiver_close(receiver);
        CHECK(zcrp_send_close());
        CHECK(zcrp_wait(out) && zcrp_wait(in));
    }
    zcrp_sender_close(sender);
    CHECK(zcrp_rcv_close());
    zcrp_free_msg(out);
    zcrp_free_msg(in);
    zcrp_free_msg(back_out);
    zcrp_free_msg(back_in);
    printf("opened three times\n");
    return 0;
}
