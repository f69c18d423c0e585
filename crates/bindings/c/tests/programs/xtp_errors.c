/* Wrong arguments are refused, and nothing crashes. */
#include "xtp_common.h"

#define RING 4096

static void wrong_block(struct end *end, int port) {
    const xtpcbloc good = *end->ctx.cbloc;
    xtpcbloc *block = end->ctx.cbloc;
    struct sockaddr_in address = loopback(port);
    memcpy(&end->ctx.paddr, &address, sizeof address);
#define REFUSES(change)                                     \
    do {                                                    \
        *block = good;                                      \
        change;                                             \
        IS(xoutput(&end->ctx, "x", 1, XTP_EOM), -EINVAL);   \
        CHECK(end->ctx.cstate == XTP_QUIESCENT);            \
    } while (0)
    REFUSES(block->service = 0);
    REFUSES(block->service = 7);
    REFUSES(block->rbufsize = 0);
    REFUSES(block->wbufsize = 0);
    REFUSES(block->rbufsize = UINT32_MAX);
    REFUSES(block->maxdata = 0);
    REFUSES(block->maxdata = 70000);
    REFUSES(block->rwindow = 0);
    REFUSES(block->rwindow = (UINT32_C(1) << 30) + 1);
    REFUSES(block->sort_value = 65536);
    REFUSES(block->input_rate = -1);
    REFUSES(block->output_burst = INT64_C(1) << 32);
    REFUSES(block->wtimer = 0);
    REFUSES(block->mode_flags = XTP_MULTI);
    REFUSES(block->mode_flags = 1);
    REFUSES(block->mode_flags = XTP_SREQ);
    REFUSES(block->listen_flags = XTP_SORT);
    REFUSES(block->mode_flags = 1u << 31);
    REFUSES(block->listen_flags = 1u << 24);
    REFUSES(block->address_segment.aformat = 2);
    REFUSES(block->address_segment.adomain = 2);
    *block = good;
    end->ctx.cbloc = NULL;
    IS(xoutput(&end->ctx, "x", 1, XTP_EOM), -EINVAL);
    end->ctx.cbloc = block;
    memset(&end->ctx.paddr, 0, sizeof end->ctx.paddr);
#undef REFUSES
}

/* What field_flags does not enable does not count. */
static void fields(int port) {
    struct end end;
    xtpcbloc own;
    call_to(&end, port, XTP_CONNECTION, RING, 0);
    xtp_bloc_init(&own);
    CHECK(own.field_flags == XTP_FIELD_ALL && own.service == XTP_CONNECTION && own.rbufsize == 262144);
    CHECK(own.rwindow == 262144 && own.maxdata == 1400 && own.retry_count == 6 && own.wtimer == 250);
    CHECK(own.ctimer == 60000 && own.ctimeout == 10000 && own.wbufsize == 1048576 && own.sort_value == 0);
    CHECK(own.listen_flags == XTP_FASTNAK && own.mode_flags == 0);
    own.service = 99;
    own.rbufsize = RING;
    own.wbufsize = 3000;
    own.field_flags = XTP_FIELD_RBUFSIZE | XTP_FIELD_WBUFSIZE;
    /* A control block of one's own. */
    end.ctx.cbloc = &own;
    IS(xoutput(&end.ctx, "hello", 5, XTP_EOM), XTP_OK);
    /* It counts later, too, where it can. */
    own.wbufsize = 4;
    IS(xoutput(&end.ctx, "hello", 5, XTP_EOM), -EMSGSIZE);
    own.field_flags |= XTP_FIELD_SERVICE;
    IS(xoutput(&end.ctx, "hello", 5, XTP_EOM), -EINVAL);
    own.service = XTP_TRANSACTION;
    IS(xoutput(&end.ctx, "hello", 5, XTP_EOM), -EINVAL);
    own.service = XTP_CONNECTION;
    own.wbufsize = 3000;
    IS(xoutput(&end.ctx, "hello", 5, XTP_EOM), XTP_OK);
    /* Whoever says all says enough. */
    own.field_flags = UINT32_MAX;
    IS(xoutput(&end.ctx, "hello", 5, XTP_EOM), XTP_OK);
    end.ctx.recv_buf++;
    IS(xd_input(&end.ctx), -EINVAL);
    tear_down(&end);
}

/* Whoever only sends needs no memory to receive into. */
static void only_sends(void) {
    struct end listener, caller;
    int soc = bound_socket();
    listen_on(&listener, soc, XTP_CONNECTION, RING, 0);
    call_to(&caller, port_of(soc), XTP_CONNECTION, RING, 0);
    caller.ctx.recv_buf = NULL;
    IS(xoutput(&caller.ctx, "x", 1, XTP_EOM), XTP_OK);
    IS(xf_input(&listener.ctx), XTP_EOM);
    IS(xd_input(&caller.ctx), XTP_OK);
    /* What comes all the same is nowhere, and it is too late for a place. */
    IS(xoutput(&listener.ctx, "x", 1, XTP_EOM), XTP_OK);
    IS(xd_input(&caller.ctx), XTP_EOM);
    IS(xd_input(&caller.ctx), -EINVAL);
    caller.ctx.recv_buf = caller.ring;
    IS(xd_input(&caller.ctx), -EINVAL);
    IS(xd_input(&caller.ctx), -EINVAL);
    tear_down(&caller);
    tear_down(&listener);
    close(soc);
}

int main(void) {
    struct end end, other;
    xtpctx blank;
    xtpctx *next;
    struct timeval wait;
    uint64_t last;
    uint8_t tag[8];
    int soc = bound_socket();
    int files[2];

    /* Nothing at all. */
    xtp_bloc_init(NULL);
    IS(xtp_ctx_init(NULL), -EINVAL);
    IS(xtp_init(NULL), -EINVAL);
    IS(xoutput(NULL, "x", 1, 0), -EINVAL);
    IS(xf_input(NULL), -EINVAL);
    IS(xd_input(NULL), -EINVAL);
    IS(xtp_close(NULL, 0), -EINVAL);
    IS(xtp_close(NULL, 2), -EINVAL);
    IS(xtp_timer_init(NULL, &wait), -EINVAL);
    IS(xtp_timer_init(&next, NULL), -EINVAL);
    IS(xtp_message(NULL, &last, NULL), -EINVAL);
    next = &blank;
    IS(xtp_timer_init(&next, &wait), XTP_AGAIN);
    CHECK(next == NULL);

    /* What is no context. */
    memset(&blank, 0x55, sizeof blank);
    IS(xoutput(&blank, "x", 1, 0), -EINVAL);
    IS(xf_input(&blank), -EINVAL);
    IS(xd_input(&blank), -EINVAL);
    IS(xtp_close(&blank, 1), -EINVAL);

    /* What is no socket. */
    blank.soc = 987;
    IS(xtp_ctx_init(&blank), -EBADF);
    CHECK(pipe(files) == 0);
    blank.soc = files[0];
    IS(xtp_ctx_init(&blank), -ENOTSOCK);
    blank.soc = socket(AF_INET, SOCK_STREAM, 0);
    IS(xtp_ctx_init(&blank), -EPROTOTYPE);
    close(blank.soc);
    blank.soc = socket(AF_UNIX, SOCK_DGRAM, 0);
    IS(xtp_ctx_init(&blank), -EAFNOSUPPORT);
    close(blank.soc);

    /* Twice. */
    listen_on(&end, soc, XTP_CONNECTION, RING, 0);
    IS(xtp_ctx_init(&end.ctx), -EBUSY);
    other.ctx.soc = soc;
    IS(xtp_ctx_init(&other.ctx), -EBUSY);

    /* Too early, or in the wrong place. */
    IS(xd_input(&end.ctx), -ENOTCONN);
    IS(xoutput(&end.ctx, "x", 1, 0), -EDESTADDRREQ);
    IS(xtp_close(&end.ctx, 0), -ENOTCONN);
    IS(xtp_close(&end.ctx, 3), -EINVAL);
    IS(xtp_close(&end.ctx, -1), -EINVAL);
    IS(xtp_message(&end.ctx, &last, tag), -ENOTCONN);
    wrong_block(&end, port_of(soc));
    end.ctx.recv_buf = NULL;
    IS(xf_input(&end.ctx), -EINVAL);
    end.ctx.recv_buf = end.ring;
    end.ctx.cbloc->address_segment.dport = 0;
    IS(xf_input(&end.ctx), -EINVAL);
    end.ctx.cbloc->address_segment.dport = (uint16_t)(port_of(soc) ^ 1);
    IS(xf_input(&end.ctx), -EINVAL);
    end.ctx.cbloc->address_segment.dport = (uint16_t)port_of(soc);
    CHECK(fcntl(soc, F_SETFL, O_NONBLOCK) == 0);
    IS(xf_input(&end.ctx), XTP_AGAIN);
    IS(xoutput(&end.ctx, "x", 1, 0), -ENOTCONN);
    IS(xd_input(&end.ctx), -ENOTCONN);

    /* The port is taken: by a socket of its own. */
    set_up(&other, -1, XTP_CONNECTION, RING, 0);
    other.ctx.cbloc->address_segment.dport = (uint16_t)port_of(soc);
    IS(xf_input(&other.ctx), -EADDRINUSE);
    tear_down(&other);

    /* Outputs. */
    call_to(&other, port_of(soc), XTP_CONNECTION, RING, 0);
    IS(xoutput(&other.ctx, NULL, 1, 0), -EINVAL);
    IS(xoutput(&other.ctx, "x", SIZE_MAX, 0), -EINVAL);
    IS(xoutput(&other.ctx, "x", (size_t)1 << 40, 0), -EMSGSIZE);
    IS(xoutput(&other.ctx, "x", 1, XTP_MULTI), -EINVAL);
    IS(xoutput(&other.ctx, "x", 1, 0x80), -EINVAL);
    IS(xoutput(&other.ctx, "x", 1, XTP_BTAG), -EINVAL);
    IS(xoutput(&other.ctx, "12345678", 8, XTP_BTAG), -EINVAL);
    IS(xoutput(&other.ctx, "x", 1, XTP_END), -EINVAL);
    IS(xoutput(&other.ctx, NULL, 0, XTP_EOM), -EINVAL);
    IS(xf_input(&other.ctx), -EINVAL);
    other.ctx.recv_buf = NULL;
    IS(xoutput(&other.ctx, "x", 1, XTP_EOM), XTP_OK);
    IS(xd_input(&other.ctx), -EINVAL);
    IS(xtp_message(&other.ctx, NULL, NULL), -EINVAL);
    other.ctx.recv_buf = other.ring;
    IS(xf_input(&end.ctx), XTP_EOM);
    IS(xf_input(&end.ctx), -EISCONN);
    IS(xd_input(&other.ctx), XTP_OK);

    /* The application may close the socket under it. */
    close(other.ctx.soc);
    IS(xd_input(&other.ctx), -EBADF);
    IS(xtp_close(&other.ctx, 2), XTP_OK);
    CHECK(other.ctx.soc == -1 && other.ctx.cbloc == NULL && other.ctx.cstate == XTP_QUIESCENT);
    free(other.ring);

    /* Closed twice, and used after. */
    tear_down(&end);
    CHECK(end.ctx.soc == soc);
    IS(xtp_close(&end.ctx, 2), -EINVAL);
    IS(xtp_close(&end.ctx, 0), -EINVAL);
    IS(xoutput(&end.ctx, "x", 1, 0), -EINVAL);
    IS(xd_input(&end.ctx), -EINVAL);

    /* A structure, and a socket, serve again. */
    fields(port_of(soc));
    only_sends();
    listen_on(&end, soc, XTP_CONNECTION, RING, 0);
    tear_down(&end);
    puts("every error was told");
    return 0;
}
