/* What goes wrong, and how it is told. */
#include "common.h"

/* The call must fail, and say why. */
#define FAILS(call, why)            \
    do {                            \
        errno = 0;                  \
        CHECK(!(call));             \
        CHECK(errno == (why));      \
    } while (0)

int main(void) {
    int pair[2], sender[2], receiver[2], pipes[2], unconnected[2], crossed[2];
    nlong i;
    struct zcrp_msg *out, *in, *late, copy;

    /* Before init, nothing can be sent or received; null pointers and messages of one's own making are refused. */
    out = zcrp_alloc_msg(100);
    in = zcrp_alloc_msg(100);
    late = zcrp_alloc_msg(0);
    CHECK(out != NULL && in != NULL && late != NULL);
    CHECK(out->message_size == 100 && out->buffer_size >= 100 && late->message_size == 0);
    FAILS(zcrp_send(out, 10), ENOTCONN);
    FAILS(zcrp_rcv(in, 10), ENOTCONN);
    FAILS(zcrp_recv(in, 10), ENOTCONN);
    FAILS(zcrp_send_close(), ENOTCONN);
    FAILS(zcrp_rcv_close(), ENOTCONN);
    FAILS(zcrp_wait(out), EINVAL);
    FAILS(zcrp_probe(out), EINVAL);
    FAILS(zcrp_wait(NULL), EINVAL);
    FAILS(zcrp_probe(NULL), EINVAL);
    FAILS(zcrp_send_init(NULL), EINVAL);
    FAILS(zcrp_rcv_init(NULL), EINVAL);
    FAILS(zcrp_sender_open(NULL) != NULL, EINVAL);
    FAILS(zcrp_receiver_open(NULL) != NULL, EINVAL);
    zcrp_free_msg(NULL);
    zcrp_sender_close(NULL);
    zcrp_receiver_close(NULL);

    /* Descriptors that are none of a connected datagram socket. */
    CHECK(pipe(pipes) == 0);
    FAILS(zcrp_send_init(pipes), ENOTSOCK);
    unconnected[0] = unconnected[1] = socket(AF_INET, SOCK_DGRAM, 0);
    FAILS(zcrp_rcv_init(unconnected), EINVAL);
    unconnected[1] = -1;
    FAILS(zcrp_rcv_init(unconnected), EBADF);

    /* Settings. */
    FAILS(zcrp_set(NULL, 1), EINVAL);
    FAILS(zcrp_set("speed", 1), ENOENT);
    FAILS(zcrp_set("unit_bytes", 28), EINVAL);
    FAILS(zcrp_set("unit_bytes", 65508), EINVAL);
    FAILS(zcrp_set("congestion_bbr", 51), EINVAL);
    FAILS(zcrp_get("speed") != -1, ENOENT);
    FAILS(zcrp_get(NULL) != -1, EINVAL);
    CHECK(zcrp_get("unit_bytes") == 0 && zcrp_set("unit_bytes", 1000) == 1 && zcrp_get("unit_bytes") == 1000);
    CHECK(zcrp_set("unit_bytes", 0) == 1);
    CHECK(zcrp_get("units_sent") == 0);

    udp_pair(pair);
    sender[0] = sender[1] = pair[0];
    receiver[0] = receiver[1] = pair[1];
    CHECK(zcrp_send_init(sender));
    CHECK(zcrp_rcv_init(receiver));
    CHECK(zcrp_get("unit_bytes") == 65507);

    FAILS(zcrp_send(NULL, 1), EINVAL);
    FAILS(zcrp_rcv(NULL, 1), EINVAL);
    copy = *out;
    FAILS(zcrp_send(&copy, 1), EINVAL);
    memset(&copy, 0, sizeof copy);
    FAILS(zcrp_rcv(&copy, 1), EINVAL);

    /* One sender and one receiver a process, and one reader a socket. */
    FAILS(zcrp_send_init(sender), EALREADY);
    FAILS(zcrp_rcv_init(receiver), EALREADY);
    FAILS(zcrp_sender_open(sender) != NULL, EBUSY);
    crossed[0] = pair[0];
    crossed[1] = pair[1];
    FAILS(zcrp_sender_open(crossed) != NULL, EBUSY);

    /* Too large for the message: no number is taken. While it is under way: neither. */
    FAILS(zcrp_send(out, 101), EMSGSIZE);
    FAILS(zcrp_rcv(in, 101), EMSGSIZE);
    FAILS(zcrp_rcv(late, 1), EMSGSIZE);
    memset(in->buffer, 7, 100);
    CHECK(zcrp_rcv(in, 40));
    CHECK(in->number == 0);
    FAILS(zcrp_rcv(in, 40), EBUSY);
    FAILS(zcrp_send(in, 40), EBUSY);
    CHECK(!zcrp_probe(in));
    fill(out, 0, 40);
    CHECK(zcrp_send(out, 40));
    CHECK(out->number == 0);

    /* After the end, the same answer for ever; what is beyond the size was not touched. */
    for (i = 0; i < 3; i++)
        CHECK(zcrp_wait(in) == 1 && zcrp_wait(out) == 1 && zcrp_probe(in) == 1);
    CHECK(in->message_size == 40 && is_intact(in, 0, 40));
    for (i = 40; i < 100; i++)
        CHECK(in->buffer[i] == 7);

    /* Longer than the receiver's buffer: both are told, always again, and the next messages go on. The capacity is what
     * was allocated, whatever was received before. */
    CHECK(zcrp_rcv(in, 50));
    CHECK(zcrp_send(out, 100));
    for (i = 0; i < 2; i++) {
        FAILS(zcrp_wait(in), EMSGSIZE);
        FAILS(zcrp_wait(out), EMSGSIZE);
    }
    CHECK(zcrp_probe(in) && zcrp_probe(out));
    FAILS(zcrp_send(out, 101), EMSGSIZE);
    FAILS(zcrp_wait(out), EMSGSIZE);
    CHECK(zcrp_rcv(in, 100) && zcrp_send(out, 100));
    CHECK(in->number == 2 && out->number == 2);
    CHECK(zcrp_wait(in) && zcrp_wait(out) && in->message_size == 100);

    /* Never waited for, but ended: it can be used again. */
    CHECK(zcrp_rcv(late, 0) && zcrp_send(out, 0));
    CHECK(zcrp_wait(out));
    while (!zcrp_rcv(late, 0))
        CHECK(errno == EBUSY);
    CHECK(late->number == 4);

    /* Freed under way: it goes on without its owner. */
    fill(out, 4, 0);
    zcrp_free_msg(late);
    CHECK(zcrp_send(out, 0));
    CHECK(zcrp_wait(out));
    late = zcrp_alloc_msg(1000000);
    CHECK(late != NULL);
    fill(late, 5, 1000000);
    CHECK(zcrp_send(late, 1000000));
    zcrp_free_msg(late);
    late = zcrp_alloc_msg(1000000);
    CHECK(late != NULL && zcrp_rcv(late, 1000000) && zcrp_wait(late));
    CHECK(late->message_size == 1000000 && is_intact(late, 5, 1000000));
    zcrp_free_msg(late);
    CHECK(zcrp_get("sender.messages_failed") == 1 && zcrp_get("receiver.messages_failed") == 1);
    CHECK(zcrp_get("messages_failed") == 2);

    /* Closing fails what is under way. Then everything can be opened again, and starts from 0. */
    CHECK(zcrp_rcv(in, 100));
    CHECK(zcrp_rcv_close());
    FAILS(zcrp_wait(in), ECANCELED);
    CHECK(zcrp_probe(in));
    FAILS(zcrp_rcv(in, 100), ENOTCONN);
    CHECK(zcrp_send(out, 100));
    CHECK(zcrp_send_close());
    FAILS(zcrp_wait(out), ECANCELED);
    CHECK(zcrp_get("sender.messages_failed") == 2);

    udp_pair(pair);
    sender[0] = sender[1] = pair[0];
    receiver[0] = receiver[1] = pair[1];
    CHECK(zcrp_rcv_init(receiver));
    CHECK(zcrp_send_init(sender));
    CHECK(zcrp_rcv(in, 100) && zcrp_send(out, 99));
    CHECK(in->number == 0 && out->number == 0);
    CHECK(zcrp_wait(in) && zcrp_wait(out) && in->message_size == 99);
    CHECK(zcrp_send_close() && zcrp_rcv_close());
    zcrp_free_msg(in);
    zcrp_free_msg(out);
    printf("every error was told\n");
    return 0;
}
