/* Two-way talk on one descriptor: each process is a sender and a receiver, and both of its halves use the same socket.
 * The client asks, the server answers with what it was asked. */
#include "common.h"

#define COUNT 20
#define SIZE 200000u

static struct zcrp_msg *in, *out;

static int serve(int *channel) {
    nlong i;
    /* The other order than the client's: either half may come first. */
    CHECK(zcrp_send_init(channel));
    CHECK(zcrp_rcv_init(channel));
    for (i = 0; i < COUNT; i++) {
        CHECK(zcrp_rcv(in, SIZE));
        CHECK(zcrp_wait(in));
        memcpy(out->buffer, in->buffer, in->message_size);
        CHECK(zcrp_send(out, in->message_size));
        CHECK(zcrp_wait(out));
    }
    return 0;
}

int main(void) {
    int pair[2], channel[2];
    nlong i;
    pid_t server;
    in = zcrp_alloc_msg(SIZE);
    out = zcrp_alloc_msg(SIZE);
    CHECK(in != NULL && out != NULL);
    udp_pair(pair);
    server = fork();
    CHECK(server >= 0);
    channel[0] = channel[1] = server == 0 ? pair[1] : pair[0];
    if (server == 0)
        return serve(channel);
    CHECK(zcrp_rcv_init(channel));
    CHECK(zcrp_send_init(channel));
    for (i = 0; i < COUNT; i++) {
        nlong size = i * 10007u;
        fill(out, i, size);
        /* The receive first: then the answer finds its buffer. */
        CHECK(zcrp_rcv(in, SIZE));
        CHECK(zcrp_send(out, size));
        CHECK(zcrp_wait(out));
        CHECK(zcrp_wait(in));
        CHECK(in->message_size == size && is_intact(in, i, size));
    }
    CHECK(zcrp_get("messages_sent") == COUNT && zcrp_get("messages_received") == COUNT);
    zcrp_free_msg(in);
    zcrp_free_msg(out);
    CHECK(child_succeeded(server));
    printf("%d questions answered\n", COUNT);
    return 0;
}
