/* The ring of the application: it wraps, messages and tags are told, a slow reader holds the sender back, a hole in an iso
 * stream is told, and sockets that do not block. Both ends in one process. */
#include "xtp_common.h"

#define RING 5000

static struct end sender, receiver;
static int soc;

static void begin(int service, uint32_t ring, uint32_t mode) {
    soc = bound_socket();
    CHECK(fcntl(soc, F_SETFL, O_NONBLOCK) == 0);
    listen_on(&receiver, soc, service, ring, mode);
    call_to(&sender, port_of(soc), service, ring, mode);
    CHECK(fcntl(sender.ctx.soc, F_SETFL, O_NONBLOCK) == 0);
    IS(xf_input(&receiver.ctx), XTP_AGAIN);
    CHECK(receiver.ctx.cstate == XTP_LISTENING);
}

static void over(void) {
    tear_down(&sender);
    tear_down(&receiver);
    close(soc);
}

/* The sender takes what has come for it. */
static void answers(void) {
    int code;
    while ((code = xd_input(&sender.ctx)) == XTP_OK)
        ;
    CHECK(code == XTP_AGAIN || code == XTP_CLOSED);
}

/* The next packet, first or not, when it is there. */
static int next(void) {
    int code, tries = 0;
    do {
        struct pollfd entry;
        entry.fd = soc;
        entry.events = POLLIN;
        poll(&entry, 1, 10);
        answers();
        code = receiver.ctx.cstate == XTP_LISTENING ? xf_input(&receiver.ctx) : xd_input(&receiver.ctx);
    } while (code == XTP_AGAIN && ++tries < 500);
    return code;
}

static void messages_wrap(uint32_t mode) {
    char data[3000];
    uint64_t sent = 0, seen = 0;
    int i;
    begin(XTP_CONNECTION, RING, mode);
    for (i = 0; i < 40; i++) {
        /* Sizes that have nothing to do with the ring's. */
        size_t size = 1 + (size_t)(i * 773) % 2900;
        uint64_t last;
        char tag[8];
        int code;
        memset(data, i, 8);
        fill(data + 8, sent, size);
        while ((code = xoutput(&sender.ctx, data, size + 8, XTP_EOM | XTP_BTAG | XTP_SREQ)) == XTP_AGAIN) {
            /* The answer to the last one may still be on its way. */
            IS(xd_input(&receiver.ctx), XTP_AGAIN);
            answers();
        }
        IS(code, XTP_OK);
        sent += size;
        while ((code = next()) == XTP_OK)
            IS(xtp_message(&receiver.ctx, &last, NULL), XTP_OK);
        IS(code, XTP_EOM);
        IS(xtp_message(&receiver.ctx, &last, (uint8_t *)tag), XTP_EOM);
        CHECK(last == receiver.ctx.rseq && tag[0] == i && tag[7] == i);
        CHECK(verify(&receiver) == size);
        CHECK(distance(&receiver.ctx, receiver.ctx.init_seq, receiver.ctx.dseq) == seen);
        seen += size;
        /* In two steps. */
        receiver.ctx.dseq = mode & XTP_MODE_36 ? (uint32_t)(receiver.ctx.dseq + size / 2) : receiver.ctx.dseq + size / 2;
        IS(xtp_message(&receiver.ctx, &last, NULL), XTP_EOM);
        receiver.ctx.dseq = receiver.ctx.rseq;
        /* What was consumed is told with the next call. */
        IS(xd_input(&receiver.ctx), XTP_AGAIN);
    }
    CHECK(seen > 5 * RING);
    /* dseq goes forward, and not beyond what has come. */
    receiver.ctx.dseq += 1;
    IS(xd_input(&receiver.ctx), -EINVAL);
    CHECK(receiver.ctx.dseq == receiver.ctx.rseq);
    receiver.ctx.dseq -= 1;
    IS(xd_input(&receiver.ctx), -EINVAL);
    IS(xd_input(&receiver.ctx), XTP_AGAIN);
    over();
}

/* Nothing is consumed: the sender is held back, and nothing of what it may not send is taken. */
static void window_is_used_up(uint32_t mode) {
    static char data[1000];
    uint64_t sent = 0, seen = 0;
    int code, tries;
    begin(XTP_CONNECTION, RING, mode);
    fill(data, 0, 1000);
    IS(xoutput(&sender.ctx, data, 1000, XTP_SREQ), XTP_OK);
    sent = 1000;
    IS(next(), XTP_OK);
    for (tries = 0; tries < 20; tries++) {
        answers();
        usleep(1000);
    }
    /* The window is the ring now. */
    for (;;) {
        fill(data, sent, 1000);
        code = xoutput(&sender.ctx, data, 1000, 0);
        if (code != XTP_OK)
            break;
        sent += 1000;
        CHECK(sent <= 10 * RING);
    }
    IS(code, XTP_AGAIN);
    CHECK(sent == RING);
    IS(xoutput(&sender.ctx, data, 1000, 0), XTP_AGAIN);
    CHECK(distance(&sender.ctx, sender.ctx.init_seq, sender.ctx.lseq) == RING);
    while (distance(&receiver.ctx, receiver.ctx.init_seq, receiver.ctx.rseq) < RING)
        IS(next(), XTP_OK);
    CHECK(verify(&receiver) == RING && at(&receiver, 0) == expected(0));
    receiver.ctx.dseq = receiver.ctx.rseq;
    seen = RING;
    /* It tells that there is room again, without being asked. */
    IS(xd_input(&receiver.ctx), XTP_AGAIN);
    for (tries = 0; tries < 20; tries++) {
        answers();
        usleep(1000);
    }
    IS(xoutput(&sender.ctx, data, 1000, XTP_SREQ), XTP_OK);
    while (distance(&receiver.ctx, receiver.ctx.init_seq, receiver.ctx.rseq) < seen + 1000)
        IS(next(), XTP_OK);
    CHECK(verify(&receiver) == 1000);
    /* Whoever has closed is not told to wait for room. */
    while ((code = xoutput(&sender.ctx, data, 1000, 0)) == XTP_OK)
        ;
    IS(code, XTP_AGAIN);
    IS(xtp_close(&sender.ctx, 1), XTP_OK);
    IS(xoutput(&sender.ctx, data, 1000, 0), -EPIPE);
    over();
}

/* What is kept until it is acknowledged is bounded, too. */
static void copies_are_bounded(void) {
    static char data[4000];
    int i, taken = 0;
    begin(XTP_CONNECTION, 65536, 0);
    sender.ctx.cbloc->wbufsize = 10000;
    IS(xoutput(&sender.ctx, data, 10001, 0), -EMSGSIZE);
    for (i = 0; i < 5; i++) {
        int code = xoutput(&sender.ctx, data, 4000, 0);
        CHECK(code == XTP_OK || code == XTP_AGAIN);
        taken += code == XTP_OK;
    }
    CHECK(taken == 2);
    over();
}

static void holes(uint32_t mode) {
    char data[3000];
    struct xtpspan *span;
    begin(XTP_ISO_STREAM, 65536, mode);
    fill(data, 0, 3000);
    IS(xoutput(&sender.ctx, data, 1000, XTP_EOM), XTP_OK);
    IS(next(), XTP_EOM);
    CHECK(verify(&receiver) == 1000 && receiver.ctx.nspans == 0);
    /* This one does not arrive. */
    IS(xoutput(&sender.ctx, data + 1000, 1000, XTP_EOM), XTP_OK);
    CHECK(recv(soc, data, 0, MSG_DONTWAIT) >= 0);
    IS(xoutput(&sender.ctx, data + 2000, 1000, XTP_EOM), XTP_OK);
    IS(next(), XTP_EOM);
    CHECK(distance(&receiver.ctx, receiver.ctx.init_seq, receiver.ctx.rseq) == 3000);
    CHECK(receiver.ctx.nspans == 2);
    span = receiver.ctx.span;
    CHECK(span->prev == NULL && distance(&receiver.ctx, receiver.ctx.init_seq, span->low) == 0);
    CHECK(distance(&receiver.ctx, span->low, span->high) == 1000);
    CHECK(span->next->prev == span && span->next->next == NULL && span->next->high == receiver.ctx.rseq);
    CHECK(distance(&receiver.ctx, span->high, span->next->low) == 1000);
    CHECK(at(&receiver, 2500) == expected(2500));
    receiver.ctx.dseq = receiver.ctx.rseq;
    IS(xd_input(&receiver.ctx), XTP_AGAIN);
    CHECK(receiver.ctx.nspans == 0 && receiver.ctx.span == NULL);
    IS(xtp_close(&sender.ctx, 0), XTP_OK);
    IS(next(), XTP_CLOSED);
    over();
}

/* A gap in a reliable stream shows as a span, until it is filled. */
static void spans(uint32_t mode) {
    char data[4000];
    int code;
    begin(XTP_CONNECTION, 65536, mode);
    fill(data, 0, 4000);
    IS(xoutput(&sender.ctx, data, 1000, 0), XTP_OK);
    IS(next(), XTP_OK);
    IS(xoutput(&sender.ctx, data + 1000, 1000, 0), XTP_OK);
    CHECK(recv(soc, data, 0, MSG_DONTWAIT) >= 0);
    fill(data, 0, 4000);
    IS(xoutput(&sender.ctx, data + 2000, 1000, 0), XTP_OK);
    code = xd_input(&receiver.ctx);
    IS(code, XTP_OK);
    CHECK(receiver.ctx.nspans == 1 && receiver.ctx.span->high == receiver.ctx.hseq);
    CHECK(distance(&receiver.ctx, receiver.ctx.rseq, receiver.ctx.span->low) == 1000);
    while (distance(&receiver.ctx, receiver.ctx.init_seq, receiver.ctx.rseq) < 3000) {
        code = next();
        CHECK(code == XTP_OK);
    }
    CHECK(receiver.ctx.nspans == 0 && receiver.ctx.hseq == receiver.ctx.rseq && verify(&receiver) == 3000);
    over();
}

int main(void) {
    const uint32_t modes[] = {0, XTP_MODE_36};
    size_t i;
    for (i = 0; i < 2; i++) {
        messages_wrap(modes[i]);
        window_is_used_up(modes[i]);
        holes(modes[i]);
        spans(modes[i]);
    }
    copies_are_bounded();
    puts("the ring is right");
    return 0;
}
