/* The descriptors stay the caller's: the library changes no flag and no option, and the caller may close them. */
#include "common.h"
#include <fcntl.h>

#define OPTIONS 10
#define SIZE 2000000u

/* Everything about a socket that the library might have been tempted to change. */
struct settings {
    int status_flags, descriptor_flags, options[OPTIONS];
};

static struct settings look(int socket) {
    /* UDP_GRO is 104, in <linux/udp.h>. */
    static const int levels[OPTIONS] = {SOL_SOCKET, SOL_SOCKET, SOL_SOCKET, SOL_SOCKET, SOL_SOCKET,
                                        IPPROTO_IP, IPPROTO_IP, IPPROTO_IP, IPPROTO_IP, IPPROTO_UDP};
    static const int names[OPTIONS] = {SO_RCVBUF, SO_SNDBUF, SO_RXQ_OVFL, SO_BUSY_POLL, SO_TIMESTAMP,
                                       IP_MTU_DISCOVER, IP_PKTINFO, IP_RECVTOS, IP_RECVERR, 104};
    struct settings settings;
    int i;
    settings.status_flags = fcntl(socket, F_GETFL);
    settings.descriptor_flags = fcntl(socket, F_GETFD);
    for (i = 0; i < OPTIONS; i++) {
        socklen_t length = sizeof settings.options[i];
        settings.options[i] = -1;
        (void)getsockopt(socket, levels[i], names[i], &settings.options[i], &length);
    }
    return settings;
}

int main(void) {
    int pair[2], sender[2], receiver[2], i, open_before;
    struct settings before[2];
    struct zcrp_msg *out = zcrp_alloc_msg(SIZE), *in = zcrp_alloc_msg(SIZE);
    CHECK(out != NULL && in != NULL);
    udp_pair(pair);
    for (i = 0; i < 2; i++)
        before[i] = look(pair[i]);
    sender[0] = sender[1] = pair[0];
    receiver[0] = receiver[1] = pair[1];
    CHECK(zcrp_send_init(sender) && zcrp_rcv_init(receiver));
    fill(out, 0, SIZE);
    CHECK(zcrp_rcv(in, SIZE) && zcrp_send(out, SIZE) && zcrp_wait(in) && zcrp_wait(out));
    CHECK(is_intact(in, 0, SIZE));
    for (i = 0; i < 2; i++) {
        struct settings after = look(pair[i]);
        CHECK(memcmp(&before[i], &after, sizeof after) == 0);
    }

    /* Ours to close, even while the protocol runs. */
    close(pair[0]);
    close(pair[1]);
    CHECK(zcrp_rcv(in, SIZE) && zcrp_send(out, SIZE - 1) && zcrp_wait(in) && zcrp_wait(out));
    CHECK(in->message_size == SIZE - 1);
    CHECK(zcrp_send_close() && zcrp_rcv_close());

    /* And nothing is left open when all is closed: what is opened next gets the lowest number that was free before. */
    open_before = dup(0);
    for (i = 0; i < 100; i++) {
        udp_pair(pair);
        sender[0] = sender[1] = pair[0];
        CHECK(zcrp_send_init(sender));
        CHECK(zcrp_send(out, 1));
        CHECK(zcrp_send_close());
        CHECK(!zcrp_wait(out));
        close(pair[0]);
        close(pair[1]);
    }
    i = dup(0);
    CHECK(i == open_before + 1);
    zcrp_free_msg(in);
    zcrp_free_msg(out);
    printf("flags and options are as they were\n");
    return 0;
}
