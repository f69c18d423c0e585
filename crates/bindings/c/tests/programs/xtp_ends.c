/* How associations end, and that it is told: refused, abandoned, reset, closed from either side. */
#include "xtp_common.h"

#define RING 65536

static void refused(void) {
    struct end listener, caller;
    int soc = bound_socket();
    int port = port_of(soc);
    int first;
    CHECK(fcntl(soc, F_SETFL, O_NONBLOCK) == 0);
    listen_on(&listener, soc, XTP_TRANSACTION, RING, 0);
    IS(xf_input(&listener.ctx), XTP_AGAIN);
    for (first = 0; first < 2; first++) {
        call_to(&caller, port, first ? XTP_CONNECTION : XTP_TRANSACTION, RING, 0);
        if (!first)
            /* The segment names another port than the datagram goes to. */
            caller.ctx.cbloc->address_segment.dport = (uint16_t)(port ^ 1);
        IS(xoutput(&caller.ctx, "hello", 5, XTP_EOM), XTP_OK);
        IS(xf_input(&listener.ctx), XTP_AGAIN);
        IS(xd_input(&caller.ctx), XTP_REFUSED);
        CHECK(caller.ctx.cbloc->code == 1 && caller.ctx.cbloc->value == (first ? 8u : 1u));
        CHECK(caller.ctx.cstate == XTP_ENDED);
        IS(xd_input(&caller.ctx), XTP_REFUSED);
        IS(xoutput(&caller.ctx, "hello", 5, XTP_EOM), XTP_REFUSED);
        IS(xtp_close(&caller.ctx, 0), XTP_REFUSED);
        tear_down(&caller);
    }
    tear_down(&listener);
    close(soc);
}

static void nobody(void) {
    struct end caller;
    int soc = bound_socket();
    double before = now();
    call_to(&caller, port_of(soc), XTP_CONNECTION, RING, 0);
    caller.ctx.cbloc->wtimer = 20;
    caller.ctx.cbloc->retry_count = 2;
    close(soc);
    IS(xoutput(&caller.ctx, "hello", 5, XTP_EOM), XTP_OK);
    IS(xd_input(&caller.ctx), XTP_ABANDONED);
    /* 20, 40 and 80 ms. */
    CHECK(now() - before > 0.13 && now() - before < 20);
    /* It gives way to a new one, whose socket is new as well, whatever number still stands there. */
    IS(xtp_ctx_init(&caller.ctx), XTP_OK);
    CHECK(caller.ctx.cstate == XTP_QUIESCENT && fcntl(caller.ctx.soc, F_GETFL) >= 0);
    IS(xtp_ctx_init(&caller.ctx), -EBUSY);
    tear_down(&caller);
}

static void peer_is_killed(void) {
    struct end end;
    int soc = bound_socket();
    int port = port_of(soc);
    pid_t child = fork();
    int code, i;
    if (child == 0) {
        listen_on(&end, soc, XTP_CONNECTION, RING, 0);
        IS(xf_input(&end.ctx), XTP_EOM);
        for (;;)
            xd_input(&end.ctx);
    }
    close(soc);
    call_to(&end, port, XTP_CONNECTION, RING, 0);
    end.ctx.cbloc->wtimer = 20;
    end.ctx.cbloc->retry_count = 3;
    IS(xoutput(&end.ctx, "hello", 5, XTP_EOM | XTP_SREQ), XTP_OK);
    while (end.ctx.bseq != end.ctx.lseq)
        IS(xd_input(&end.ctx), XTP_OK);
    CHECK(kill(child, SIGKILL) == 0);
    waitpid(child, &i, 0);
    IS(xoutput(&end.ctx, "anybody there?", 14, XTP_EOM), XTP_OK);
    while ((code = xd_input(&end.ctx)) == XTP_OK)
        ;
    IS(code, XTP_ABANDONED);
    IS(xtp_close(&end.ctx, 1), XTP_ABANDONED);
    tear_down(&end);
}

/* The responder closes fully, after the initiator has: both have said all they had to say. */
static void both_ways(uint32_t mode) {
    static char data[30000];
    struct end end;
    int soc = bound_socket();
    int port = port_of(soc);
    pid_t child = fork();
    int code;
    fill(data, 0, sizeof data);
    if (child == 0) {
        uint64_t seen = 0;
        call_to(&end, port, XTP_CONNECTION, RING, mode);
        IS(xoutput(&end.ctx, data, sizeof data, XTP_EOM | XTP_WCLOSE), XTP_OK);
        IS(xoutput(&end.ctx, data, 1, 0), -EPIPE);
        while ((code = xd_input(&end.ctx)) == XTP_OK || code == XTP_EOM) {
            seen += verify(&end);
            end.ctx.dseq = end.ctx.rseq;
        }
        IS(code, XTP_CLOSED);
        CHECK(seen == sizeof data);
        IS(finish(&end.ctx), XTP_CLOSED);
        tear_down(&end);
        exit(0);
    }
    listen_on(&end, soc, XTP_CONNECTION, RING, mode);
    code = xf_input(&end.ctx);
    while (code == XTP_OK)
        code = xd_input(&end.ctx);
    IS(code, XTP_EOM);
    CHECK(verify(&end) == sizeof data);
    end.ctx.dseq = end.ctx.rseq;
    IS(xd_input(&end.ctx), XTP_CLOSED);
    CHECK(end.ctx.cstate == XTP_ACTIVE);
    IS(xoutput(&end.ctx, data, sizeof data, XTP_EOM), XTP_OK);
    /* The close, as an output without data. */
    IS(xoutput(&end.ctx, NULL, 0, XTP_WCLOSE), XTP_OK);
    IS(finish(&end.ctx), XTP_CLOSED);
    CHECK(end.ctx.bseq == end.ctx.lseq);
    CHECK(linger(&end.ctx, child));
    tear_down(&end);
    close(soc);
}

/* In the middle: what was whole has been delivered, and both know. */
static void forced(int by_output) {
    struct end end;
    int soc = bound_socket();
    int port = port_of(soc);
    pid_t child = fork();
    int code;
    if (child == 0) {
        call_to(&end, port, XTP_CONNECTION, RING, 0);
        IS(xoutput(&end.ctx, "hello", 5, XTP_EOM | XTP_SREQ), XTP_OK);
        while (end.ctx.bseq != end.ctx.lseq)
            IS(xd_input(&end.ctx), XTP_OK);
        if (by_output) {
            IS(xoutput(&end.ctx, NULL, 0, XTP_END), XTP_OK);
            IS(xd_input(&end.ctx), XTP_CLOSED);
        }
        tear_down(&end);
        exit(0);
    }
    listen_on(&end, soc, XTP_CONNECTION, RING, 0);
    IS(xf_input(&end.ctx), XTP_EOM);
    CHECK(memcmp(end.ring, "hello", 5) == 0);
    while ((code = xd_input(&end.ctx)) == XTP_OK)
        ;
    IS(code, -ECONNRESET);
    CHECK(end.ctx.cstate == XTP_ENDED && child_succeeded(child));
    tear_down(&end);
    close(soc);
}

/* Control packets for their own sake: an empty FIRST, and statuses that are asked for. */
static void pure_control(void) {
    struct end listener, caller;
    int soc = bound_socket();
    uint32_t before;
    listen_on(&listener, soc, XTP_CONNECTION, RING, 0);
    call_to(&caller, port_of(soc), XTP_CONNECTION, RING, 0);
    IS(xoutput(&caller.ctx, NULL, 0, 0), XTP_OK);
    CHECK(caller.ctx.cstate == XTP_ACTIVE && caller.ctx.lseq == caller.ctx.init_seq);
    IS(xf_input(&listener.ctx), XTP_OK);
    CHECK(listener.ctx.should_xkey == 1 && listener.ctx.rem_key == caller.ctx.my_key);
    IS(xd_input(&caller.ctx), XTP_OK);
    CHECK(caller.ctx.rem_key == listener.ctx.my_key);
    before = caller.ctx.saved_sync;
    IS(xoutput(&caller.ctx, NULL, 0, XTP_SREQ), XTP_OK);
    CHECK(caller.ctx.saved_sync == before + 1);
    IS(xd_input(&listener.ctx), XTP_OK);
    CHECK(listener.ctx.recv_sync == caller.ctx.saved_sync && listener.ctx.should_xkey == 0);
    IS(xd_input(&caller.ctx), XTP_OK);
    IS(xoutput(&caller.ctx, NULL, 0, 0), XTP_OK);
    CHECK(caller.ctx.saved_sync == before + 1);
    IS(xd_input(&listener.ctx), XTP_OK);
    IS(xoutput(&caller.ctx, NULL, 0, XTP_RCLOSE), XTP_OK);
    IS(xd_input(&listener.ctx), XTP_OK);
    IS(xoutput(&listener.ctx, "nobody listens", 14, 0), -EPIPE);
    tear_down(&caller);
    tear_down(&listener);
    close(soc);
}

/* Sockets that the library makes become IPv6 ones, under the same number and with the same flags. */
static void over_ipv6(void) {
    struct end listener, caller;
    struct sockaddr_in6 *to = (struct sockaddr_in6 *)&caller.ctx.paddr, name;
    socklen_t length = sizeof name;
    struct in6_addr self = IN6ADDR_LOOPBACK_INIT;
    int soc = bound_socket(), number, code;
    int port = port_of(soc);
    close(soc);
    set_up(&listener, -1, XTP_CONNECTION, RING, 0);
    number = listener.ctx.soc;
    CHECK(fcntl(number, F_SETFL, O_NONBLOCK) == 0);
    listener.ctx.cbloc->address_segment.dport = (uint16_t)port;
    listener.ctx.cbloc->address_segment.aformat = 6;
    memcpy(listener.ctx.cbloc->address_segment.dst, &self, sizeof self);
    IS(xf_input(&listener.ctx), XTP_AGAIN);
    CHECK(listener.ctx.soc == number && getsockname(number, (struct sockaddr *)&name, &length) == 0);
    CHECK(name.sin6_family == AF_INET6 && ntohs(name.sin6_port) == port);
    set_up(&caller, -1, XTP_CONNECTION, RING, 0);
    to->sin6_family = AF_INET6;
    to->sin6_port = htons((uint16_t)port);
    to->sin6_addr = self;
    IS(xoutput(&caller.ctx, "hello", 5, XTP_EOM | XTP_WCLOSE | XTP_RCLOSE), XTP_OK);
    while ((code = xf_input(&listener.ctx)) == XTP_AGAIN)
        usleep(1000);
    IS(code, XTP_EOM);
    CHECK(memcmp(listener.ring, "hello", 5) == 0 && listener.ctx.paddr.ss_family == AF_INET6);
    CHECK(memcmp(listener.ctx.cbloc->address_segment.src, &self, sizeof self) == 0);
    IS(finish(&caller.ctx), XTP_CLOSED);
    tear_down(&caller);
    tear_down(&listener);
}

int main(void) {
    int v6 = socket(AF_INET6, SOCK_DGRAM, 0);
    struct sockaddr_in6 self;
    memset(&self, 0, sizeof self);
    self.sin6_family = AF_INET6;
    self.sin6_addr.s6_addr[15] = 1;
    if (v6 >= 0 && bind(v6, (struct sockaddr *)&self, sizeof self) == 0)
        over_ipv6();
    else
        puts("skipped: there is no IPv6");
    close(v6);
    refused();
    nobody();
    peer_is_killed();
    both_ways(0);
    both_ways(XTP_MODE_36);
    forced(0);
    forced(1);
    pure_control();
    puts("every end is told");
    return 0;
}
