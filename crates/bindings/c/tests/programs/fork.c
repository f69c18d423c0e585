/* A child process has nothing of its parent's conversations, disturbs none of them, and may have its own. */
#include "common.h"

int main(void) {
    int pair[2], sender[2], receiver[2], i;
    struct zcrp_msg *out = zcrp_alloc_msg(100000), *in = zcrp_alloc_msg(100000);
    zcrp_sender_t *other;
    pid_t child;
    CHECK(out != NULL && in != NULL);
    CHECK(zcrp_set("peer_timeout_ms", 3000) == 1 && zcrp_set("rate", 100000000) == 1);
    udp_pair(pair);
    sender[0] = sender[1] = pair[0];
    receiver[0] = receiver[1] = pair[1];
    CHECK(zcrp_rcv_init(receiver));
    other = zcrp_sender_open(sender);
    CHECK(other != NULL);
    CHECK(zcrp_rcv(in, 100000));
    for (i = 0; i < 3; i++) {
        child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            /* Inherited messages are none of the child's business. */
            errno = 0;
            CHECK(zcrp_probe(in) == 1 && zcrp_wait(in) == 0 && errno == ECANCELED);
            CHECK(!zcrp_rcv(out, 1) && errno == ENOTCONN);
            CHECK(!zcrp_sender_send(other, out, 1) && errno == ENOTCONN);
            zcrp_sender_close(other);
            CHECK(zcrp_get("peer_timeout_ms") == 3000 && zcrp_get("rate") == 100000000);
            /* A conversation of its own. */
            udp_pair(pair);
            sender[0] = sender[1] = pair[0];
            receiver[0] = receiver[1] = pair[1];
            CHECK(zcrp_rcv_init(receiver) && zcrp_send_init(sender));
            fill(out, 5, 100000);
            CHECK(zcrp_rcv(in, 100000) && zcrp_send(out, 100000) && zcrp_wait(in) && zcrp_wait(out));
            CHECK(is_intact(in, 5, 100000));
            if (i == 0)
                return 0;
            zcrp_free_msg(in);
            zcrp_free_msg(out);
            exit(0);
        }
        CHECK(child_succeeded(child));
    }
    fill(out, 9, 100000);
    CHECK(zcrp_sender_send(other, out, 100000) && zcrp_wait(out) && zcrp_wait(in) && is_intact(in, 9, 100000));
    zcrp_sender_close(other);
    zcrp_free_msg(in);
    zcrp_free_msg(out);
    printf("parent and children do not meet\n");
    return 0;
}
