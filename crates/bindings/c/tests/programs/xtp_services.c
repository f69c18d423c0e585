/* Each of the six services between two processes, in both layouts of packets. */
#include "xtp_common.h"

#define RING 65536

/* Reads a stream to its end. */
static uint64_t read_all(struct end *end, int code) {
    uint64_t total = 0;
    for (;;) {
        CHECK(code == XTP_OK || code == XTP_EOM);
        CHECK(end->ctx.cstate == XTP_ACTIVE || end->ctx.cstate == XTP_TIME_WAIT || end->ctx.cstate == XTP_ENDED);
        total += verify(end);
        end->ctx.dseq = end->ctx.rseq;
        code = xd_input(&end->ctx);
        if (code == XTP_CLOSED)
            return total;
    }
}

static void put(struct end *end, uint64_t from, size_t size, uint32_t options) {
    static char data[RING];
    int code;
    fill(data, from, size);
    while ((code = xoutput(&end->ctx, data, size, options)) == XTP_AGAIN) {
        uint64_t before = end->ctx.lseq;
        code = xd_input(&end->ctx);
        CHECK(code == XTP_OK && end->ctx.lseq == before);
    }
    IS(code, XTP_OK);
}

/* A stream of messages of these services is closed by the caller, abbreviated or fully. */
static void stream(int service, uint32_t mode, int how) {
    enum { MESSAGES = 60, SIZE = 10000 };
    int soc = bound_socket();
    int port = port_of(soc);
    pid_t child = fork();
    struct end end;
    int i;
    CHECK(child >= 0);
    if (child == 0) {
        call_to(&end, port, service, RING, mode);
        for (i = 0; i < MESSAGES; i++)
            put(&end, (uint64_t)i * SIZE, SIZE, XTP_EOM | (i % 5 == 4 ? XTP_SREQ : 0));
        CHECK(end.ctx.lseq - end.ctx.init_seq == (uint64_t)MESSAGES * SIZE || mode & XTP_MODE_36);
        IS(xtp_close(&end.ctx, how), XTP_OK);
        IS(finish(&end.ctx), XTP_CLOSED);
        if (service != XTP_ISO_STREAM)
            CHECK(end.ctx.bseq == end.ctx.lseq);
        CHECK(end.ctx.last_sent + 1 == end.ctx.lseq || mode & XTP_MODE_36);
        CHECK(end.ctx.rem_key != 0 && end.ctx.xseq == end.ctx.bseq);
        IS(xoutput(&end.ctx, "x", 1, 0), -EPIPE);
        tear_down(&end);
        exit(0);
    }
    listen_on(&end, soc, service, RING, mode);
    {
        int code = xf_input(&end.ctx);
        uint64_t total;
        struct sockaddr_in *peer = (struct sockaddr_in *)&end.ctx.paddr;
        CHECK(peer->sin_family == AF_INET && peer->sin_addr.s_addr == htonl(INADDR_LOOPBACK) && peer->sin_port != 0);
        CHECK(end.ctx.cbloc->address_segment.sport == ntohs(peer->sin_port));
        CHECK(end.ctx.first_seq == (int64_t)end.ctx.init_seq && end.ctx.cstate == XTP_ACTIVE);
        total = read_all(&end, code);
        CHECK(total == (uint64_t)MESSAGES * SIZE);
        CHECK(end.ctx.t_end.tv_sec >= end.ctx.t_start.tv_sec);
        if (end.ctx.cstate == XTP_ACTIVE) {
            /* Only the peer's stream has ended. */
            CHECK(how == 1);
            IS(xtp_close(&end.ctx, 1), XTP_OK);
            IS(finish(&end.ctx), XTP_CLOSED);
        }
        CHECK(end.ctx.nspans == 0 && end.ctx.span == NULL && end.ctx.hseq == end.ctx.rseq);
    }
    CHECK(linger(&end.ctx, child));
    tear_down(&end);
    close(soc);
}

static void transaction(uint32_t mode, size_t request, size_t response) {
    static char data[RING];
    int soc = bound_socket();
    int port = port_of(soc);
    pid_t child = fork();
    struct end end;
    CHECK(child >= 0);
    if (child == 0) {
        int code;
        call_to(&end, port, XTP_TRANSACTION, RING, mode);
        fill(data, 0, request);
        IS(xoutput(&end.ctx, data, request, XTP_EOM), XTP_OK);
        IS(xoutput(&end.ctx, data, 1, XTP_EOM), XTP_AGAIN);
        while ((code = xd_input(&end.ctx)) == XTP_OK)
            ;
        IS(code, XTP_EOM);
        CHECK(verify(&end) == response);
        end.ctx.dseq = end.ctx.rseq;
        IS(finish(&end.ctx), XTP_CLOSED);
        tear_down(&end);
        exit(0);
    }
    listen_on(&end, soc, XTP_TRANSACTION, RING, mode);
    {
        int code = xf_input(&end.ctx);
        while (code == XTP_OK)
            code = xd_input(&end.ctx);
        IS(code, XTP_EOM);
        CHECK(verify(&end) == request);
        end.ctx.dseq = end.ctx.rseq;
        fill(data, 0, response);
        IS(xoutput(&end.ctx, data, response, XTP_EOM), XTP_OK);
        IS(finish(&end.ctx), XTP_CLOSED);
    }
    CHECK(linger(&end.ctx, child));
    tear_down(&end);
    close(soc);
}

/* Several datagrams from one context, which is a new association each. */
static void datagrams(int service, uint32_t mode, uint32_t options) {
    enum { COUNT = 20 };
    static char data[2000];
    int soc = bound_socket();
    int port = port_of(soc);
    pid_t child = fork();
    struct end end;
    int i;
    CHECK(child >= 0);
    if (child == 0) {
        call_to(&end, port, service, RING, mode);
        /* Nothing comes back that would need room. */
        if (options == 0)
            end.ctx.recv_buf = NULL;
        IS(xoutput(&end.ctx, data, 1401, 0), -EMSGSIZE);
        for (i = 0; i < COUNT; i++) {
            size_t size = (size_t)i * 70;
            memcpy(data, "eight---", 8);
            fill(data + 8, 0, size);
            if (i % 2 == 0)
                IS(xoutput(&end.ctx, data, size + 8, options | XTP_BTAG), XTP_OK);
            else
                IS(xoutput(&end.ctx, data + 8, size, options), XTP_OK);
            IS(finish(&end.ctx), XTP_CLOSED);
            CHECK(end.ctx.cstate == XTP_ENDED || end.ctx.cstate == XTP_TIME_WAIT);
        }
        tear_down(&end);
        exit(0);
    }
    listen_on(&end, soc, service, RING, mode);
    for (i = 0; i < COUNT; i++) {
        char tag[8];
        uint64_t last;
        IS(xf_input(&end.ctx), XTP_EOM);
        IS(xtp_message(&end.ctx, &last, (uint8_t *)tag), XTP_EOM);
        CHECK(last == end.ctx.rseq && end.ctx.hseq == last);
        CHECK(memcmp(tag, i % 2 == 0 ? "eight---" : "\0\0\0\0\0\0\0\0", 8) == 0);
        CHECK(verify(&end) == (uint64_t)i * 70);
        end.ctx.dseq = end.ctx.rseq;
        IS(xtp_message(&end.ctx, &last, NULL), i == 0 ? XTP_EOM : XTP_OK);
        CHECK(end.ctx.dseq == end.ctx.rseq);
    }
    CHECK(child_succeeded(child));
    tear_down(&end);
    close(soc);
}

/* A datagram that its receiver has no room for is not acknowledged as delivered. */
static void too_large(uint32_t mode) {
    static char data[1000];
    int soc = bound_socket();
    int port = port_of(soc);
    pid_t child = fork();
    struct end end;
    CHECK(child >= 0);
    if (child == 0) {
        call_to(&end, port, XTP_ACK_DGRAM, RING, mode);
        end.ctx.cbloc->wtimer = 20;
        end.ctx.cbloc->retry_count = 2;
        IS(xoutput(&end.ctx, data, sizeof data, XTP_DREQ), XTP_OK);
        IS(finish(&end.ctx), XTP_ABANDONED);
        tear_down(&end);
        exit(0);
    }
    listen_on(&end, soc, XTP_ACK_DGRAM, sizeof data - 1, mode);
    IS(xf_input(&end.ctx), -EMSGSIZE);
    CHECK(child_succeeded(child));
    tear_down(&end);
    close(soc);
}

/* A stream without errors, at its pace. What is lost is told; here it is hardly anything. */
static void iso(uint32_t mode) {
    enum { COUNT = 100, SIZE = 1000 };
    static char data[SIZE];
    int soc = bound_socket();
    int port = port_of(soc);
    pid_t child = fork();
    struct end end;
    int i, code;
    CHECK(child >= 0);
    if (child == 0) {
        double before;
        call_to(&end, port, XTP_ISO_STREAM, RING, mode);
        end.ctx.cbloc->output_rate = 1000000;
        end.ctx.cbloc->output_burst = 5000;
        before = now();
        for (i = 0; i < COUNT; i++) {
            fill(data, (uint64_t)i * SIZE, SIZE);
            while ((code = xoutput(&end.ctx, data, SIZE, XTP_EOM)) == XTP_AGAIN)
                IS(xd_input(&end.ctx), XTP_OK);
            IS(code, XTP_OK);
        }
        IS(xtp_close(&end.ctx, 0), XTP_OK);
        IS(finish(&end.ctx), XTP_CLOSED);
        CHECK(now() - before > 0.09);
        tear_down(&end);
        exit(0);
    }
    listen_on(&end, soc, XTP_ISO_STREAM, RING, mode);
    code = xf_input(&end.ctx);
    {
        uint64_t total = 0, lost = 0;
        while (code == XTP_OK || code == XTP_EOM) {
            total += distance(&end.ctx, end.ctx.dseq, end.ctx.rseq);
            if (end.ctx.nspans == 0) {
                CHECK(verify(&end) == distance(&end.ctx, end.ctx.dseq, end.ctx.rseq));
            } else {
                struct xtpspan *span = end.ctx.span;
                lost += distance(&end.ctx, end.ctx.dseq, end.ctx.rseq);
                for (; span != NULL; span = span->next)
                    lost -= distance(&end.ctx, span->low, span->high);
            }
            end.ctx.dseq = end.ctx.rseq;
            code = xd_input(&end.ctx);
        }
        IS(code, XTP_CLOSED);
        CHECK(total <= COUNT * SIZE && lost < COUNT * SIZE / 2);
    }
    CHECK(linger(&end.ctx, child));
    tear_down(&end);
    close(soc);
}

int main(void) {
    const uint32_t modes[] = {0, XTP_MODE_36, XTP_MODE_GO_BACK_N | XTP_NOCHECK, XTP_MODE_OWN_SREQ | XTP_SORT};
    size_t i;
    for (i = 0; i < sizeof modes / sizeof *modes; i++) {
        stream(XTP_CONNECTION, modes[i], 0);
        stream(XTP_CONNECTION, modes[i], 1);
        stream(XTP_BULK_DATA, modes[i], 1);
        transaction(modes[i], 100, 100);
        transaction(modes[i], 20000, 30000);
        iso(modes[i]);
        datagrams(XTP_ACK_DGRAM, modes[i], 0);
        datagrams(XTP_ACK_DGRAM, modes[i], XTP_DREQ);
        datagrams(XTP_UNACK_DGRAM, modes[i], 0);
        too_large(modes[i]);
    }
    puts("six services work");
    return 0;
}
