/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * XTP, the Xpress Transport Protocol, with the interface of the paper: a context is a structure that the application sees,
 * programmed by its control block; what is received lands in the application's own memory.
 *
 *     sender                                            receiver
 *
 *     xtpctx ctx;                                       xtpctx ctx;
 *     ctx.soc = -1;                                     ctx.soc = -1;
 *     xtp_ctx_init(&ctx);                               xtp_ctx_init(&ctx);
 *     ctx.recv_buf = small;                             ctx.recv_buf = ring;
 *     ctx.cbloc->rbufsize = sizeof small;               ctx.cbloc->rbufsize = sizeof ring;
 *     memcpy(&ctx.paddr, receiver, length);             ctx.cbloc->address_segment.dport = 4000;
 *
 *     xoutput(&ctx, data, size, XTP_EOM | XTP_SREQ);    code = xf_input(&ctx);
 *     ...                                               while (code == XTP_OK || code == XTP_EOM) {
 *     xoutput(&ctx, data, size,                             ... take bytes dseq to rseq: byte s of the stream is
 *             XTP_EOM | XTP_WCLOSE | XTP_RCLOSE);               ring[(s - ctx.init_seq) % sizeof ring]
 *     while ((code = xd_input(&ctx)) == XTP_OK)             ctx.dseq = ctx.rseq;
 *         ;                                                 code = xd_input(&ctx);
 *                                                       }
 *     xtp_close(&ctx, 2);                               xtp_close(&ctx, 2);
 *
 * Rules
 * - The library has no thread here: packets are read, answered, repeated and sent in calls only. So keep calling: xd_input()
 *   while you wait for something, or xtp_timer_init() and select().
 * - A context belongs to one thread at a time. Its structure stays where it is, with its control block and recv_buf, until
 *   xtp_close(ctx, 2). xtp_timer_init() uses all contexts of the process that no other thread is using.
 * - You write recv_buf and paddr (before the first call but xtp_ctx_init), dseq (forward, up to rseq), and the control block;
 *   everything else is written by the library, and is true after every call.
 * - A socket carries one context. O_NONBLOCK on it is looked at in every call.
 * - Functions return one of XTP_OK to XTP_ABANDONED, or a negative error number (-EINVAL, ...). Wrong arguments are refused.
 * - A child process made by fork() has none of its parent's contexts.
 *
 * Link with -lpinnace, or with libpinnace.a and what `pkg-config --static --libs pinnace` says.
 */

#ifndef XTP_H
#define XTP_H

#include <stddef.h>
#include <stdint.h>
#include <sched.h> /* struct timespec, in strict C99 as well */
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

/* cbloc->service: the paper's numbers, not those of the wire. */
enum {
    XTP_CONNECTION = 1,  /* a reliable stream each way */
    XTP_TRANSACTION,     /* a request and its response, in one round trip with set-up and close */
    XTP_UNACK_DGRAM,     /* a message in one packet, and no answer */
    XTP_ACK_DGRAM,       /* a message in one packet, repeated until it is acknowledged */
    XTP_ISO_STREAM,      /* a stream of which nothing is repeated: the spans say what has come */
    XTP_BULK_DATA        /* a reliable stream into recv_buf, whose room alone is the window */
};

#ifdef XTP_PAPER_NAMES
#define Connection XTP_CONNECTION
#define Transaction XTP_TRANSACTION
#define UnackDgram XTP_UNACK_DGRAM
#define AckDgram XTP_ACK_DGRAM
#define IsoStream XTP_ISO_STREAM
#define BulkData XTP_BULK_DATA
#endif

/* What functions return, if not a negative error number. */
enum {
    XTP_OK = 0,
    XTP_EOM = 1,       /* done, and a message is complete between dseq and rseq (more than one may be: xtp_message) */
    XTP_AGAIN = 2,     /* nothing has been done: not now */
    XTP_CLOSED = 3,    /* the peer's stream has ended (cstate is XTP_ACTIVE still), or the association */
    XTP_REFUSED = 4,   /* the peer refused, with the DIAG in cbloc->code and cbloc->value */
    XTP_ABANDONED = 5  /* the peer does not answer, or has given up */
};

/* cstate. */
enum {
    XTP_QUIESCENT = 0,  /* initialised, or closed */
    XTP_LISTENING,      /* waits for a FIRST */
    XTP_ACTIVE,         /* packets go and come */
    XTP_TIME_WAIT,      /* the association has ended, and late packets are still answered: in calls */
    XTP_ENDED           /* it has ended */
};

/* Options: of xoutput(), of cbloc->mode_flags (all packets of the stream: the first seven but EDGE and MULTI), and
 * XTP_FASTNAK of cbloc->listen_flags. */
#define XTP_NOCHECK UINT32_C(0x400000) /* the data are not summed */
#define XTP_EDGE UINT32_C(0x200000)    /* ignored */
#define XTP_NOERR UINT32_C(0x100000)   /* nothing is repeated: part of XTP_ISO_STREAM and XTP_UNACK_DGRAM */
#define XTP_MULTI UINT32_C(0x080000)   /* multicast: refused (-EINVAL), the calls here have one peer each */
#define XTP_RES UINT32_C(0x040000)     /* part of XTP_BULK_DATA */
#define XTP_SORT UINT32_C(0x020000)    /* cbloc->sort_value counts */
#define XTP_NOFLOW UINT32_C(0x010000)  /* the peer's window is ignored: part of XTP_ISO_STREAM and XTP_UNACK_DGRAM */
#define XTP_FASTNAK UINT32_C(0x008000) /* a new gap is reported unasked */
#define XTP_SREQ UINT32_C(0x004000)    /* asks for a status, at once */
#define XTP_DREQ UINT32_C(0x002000)    /* asks for a status when the data have been delivered: dseq has passed them */
#define XTP_RCLOSE UINT32_C(0x001000)  /* no more of the peer's stream is wanted */
#define XTP_WCLOSE UINT32_C(0x000800)  /* our stream ends here; with XTP_RCLOSE: abbreviated close */
#define XTP_EOM_BIT UINT32_C(0x000400) /* a message ends; XTP_EOM means the same in options */
#define XTP_END UINT32_C(0x000200)     /* the association ends, at once */
#define XTP_BTAG UINT32_C(0x000100)    /* a message begins; the first eight bytes of the data are its tag, not data */

/* More of cbloc->mode_flags. */
#define XTP_MODE_GO_BACK_N UINT32_C(0x01000000) /* go-back-N, both ways, instead of selective retransmission */
#define XTP_MODE_36 UINT32_C(0x02000000)        /* packets as in revision 3.6 (a reconstruction), with CXOR */
#define XTP_MODE_OWN_SREQ UINT32_C(0x04000000)  /* SREQ is yours: none every 16 packets, or while you go on with xoutput() */
#define XTP_MODE_FIXED UINT32_C(0x08000000)     /* no congestion control: the paper's behaviour (always so on loopback) */
#define XTP_MODE_BINDING UINT32_C(0x10000000)   /* refuse who would send faster than input_rate, instead of slowing him down */

/* cbloc->field_flags: which of the members behind it count. The others are as xtp_bloc_init() wrote them, whatever stands
 * there. Other bits say nothing. code and value are the library's. */
#define XTP_FIELD_SERVICE UINT32_C(0x0001)
#define XTP_FIELD_RBUFSIZE UINT32_C(0x0002)
#define XTP_FIELD_WBUFSIZE UINT32_C(0x0004)
#define XTP_FIELD_MAXDATA UINT32_C(0x0008)
#define XTP_FIELD_RWINDOW UINT32_C(0x0010)
#define XTP_FIELD_RETRY_COUNT UINT32_C(0x0020)
#define XTP_FIELD_INPUT UINT32_C(0x0040)  /* input_burst, input_rate */
#define XTP_FIELD_OUTPUT UINT32_C(0x0080) /* output_burst, output_rate */
#define XTP_FIELD_CTIMEOUT UINT32_C(0x0100)
#define XTP_FIELD_CTIMER UINT32_C(0x0200)
#define XTP_FIELD_WTIMER UINT32_C(0x0400)
#define XTP_FIELD_ADDRESS UINT32_C(0x0800)
#define XTP_FIELD_MULTICAST UINT32_C(0x1000) /* the four of multicast, which do nothing here */
#define XTP_FIELD_ALL UINT32_C(0x1fff)

/* Two hosts and their ports. */
typedef struct {
    uint16_t alen;            /* bytes on the wire: not looked at */
    uint8_t adomain, aformat; /* 1; 1 (IPv4) or 6 (IPv6); 0: not said, and the same as 1 */
    uint8_t dst[16], src[16]; /* IPv4 in the first 4 bytes; 0: not said */
    uint16_t dport, sport;    /* in host order */
} adrseg;

/* A stretch of the incoming stream: bytes low to high - 1. */
struct xtpspan {
    uint64_t low, high;
    struct xtpspan *next, *prev;
};

/* The control block. With the first xoutput(), or with listening, mode_flags, service, rbufsize and address_segment are
 * settled (-EINVAL for a change); maxdata, rwindow and listen_flags count then; the others also later, from the next call on. */
typedef struct {
    uint32_t mode_flags;   /* options of the stream, and XTP_MODE_* */
    uint32_t sort_value;   /* priority, as the packets say it to others; at most 65535 but with XTP_MODE_36 */
    uint32_t listen_flags; /* XTP_FASTNAK: gaps are reported unasked (default) */
    uint32_t field_flags;  /* which of the following count: XTP_FIELD_ALL by default */
    uint8_t service;       /* wanted, or offered */
    uint32_t rbufsize;     /* bytes at recv_buf (262144) */
    uint32_t wbufsize;     /* bytes of output that are kept until they are acknowledged, in one copy (1048576) */
    uint32_t maxdata;      /* most user bytes of a packet, out and in (1400) */
    uint32_t rwindow;      /* how far the peer may send beyond dseq (262144); no more than rbufsize */
    uint32_t retry_count;  /* expiries of wtimer in a row before the peer is given up (6) */
    int64_t input_burst, input_rate;   /* what we take: bytes, and bytes a second; 0: no limit */
    int64_t output_burst, output_rate; /* what we send */
    uint32_t ctimeout, ctimer, wtimer; /* milliseconds (10000, 60000, 250) */
    adrseg address_segment; /* listening: dport, and dst if it is one of ours; else what the FIRST is to say, if not paddr */
    uint16_t mc_drops, mc_sreqs, mc_rttgain, mc_rttvgain;
    uint32_t code, value; /* of the DIAG that ended the association */
} xtpcbloc;

/* A context. Numbers are those of the packets: 64 bits, or 32 with XTP_MODE_36. */
typedef struct {
    char *recv_buf;                               /* yours: rbufsize bytes; byte s lies at (s - init_seq) mod rbufsize */
    uint32_t saved_sync, recv_sync;               /* our newest sync, and the peer's */
    uint32_t should_xkey;                         /* our statuses carry my_key: the peer has not used it yet */
    uint64_t my_key, rem_key;                     /* our key, and the peer's, 0 if it is not known */
    uint32_t sort;                                /* sort_value, if it counts */
    uint64_t hseq, rseq, dseq;                    /* received: one past the highest; one past the last without a gap; taken */
    uint64_t bseq, last_sent, xseq, lseq;         /* sent: the first without an acknowledgement; the last; the first that is
                                                     under way (or lost, and repeated next); one past the last put out */
    int64_t first_seq;                            /* the number of the FIRST */
    uint64_t init_seq;                            /* where both streams start */
    uint32_t nspans;                              /* how many spans there are: stretches beyond rseq that have come; in an */
    struct xtpspan *span;                         /* iso stream with holes, those from dseq to rseq that have. Or NULL */
    xtpcbloc *cbloc;                              /* the control block, the library's or one of yours */
    int32_t cstate, soc;                          /* XTP_QUIESCENT to XTP_ENDED; the socket */
    struct sockaddr_storage paddr;                /* yours: the peer; if you listen, the library's */
    struct timespec t_start, t_end;               /* first and last data received (or sent, and acknowledged): CLOCK_MONOTONIC */
} xtpctx;

#ifdef __cplusplus
extern "C" {
#endif

/* Writes the defaults. */
void xtp_bloc_init(xtpcbloc *block);

/* Initialises a context: a control block with defaults, a key, and a socket: a new one if ctx->soc is negative, otherwise the
 * one that ctx->soc names, which stays yours. Everything but ctx->soc is overwritten. The new socket is for IPv4, and becomes
 * one for IPv6, under the same number, when that is needed. A context whose association has ended gives way to the new one.
 * -EBUSY: the context, or the socket, is in use already; -EBADF, -ENOTSOCK, -EPROTOTYPE, -EAFNOSUPPORT: no socket of UDP. */
int xtp_ctx_init(xtpctx *ctx);

/* The paper's other name of it. */
int xtp_init(xtpctx *ctx);

/* Puts out size bytes with these options. The first call connects the socket to ctx->paddr and sends a FIRST. The data are
 * copied and kept, up to wbufsize bytes, until they are acknowledged. XTP_AGAIN, and nothing has been taken: the peer's window
 * is used up (or has no room for all of it, and an acknowledgement is to come), wbufsize is, or, in services of one message,
 * the one before is under way: go on with xd_input().
 *
 * Without data: XTP_WCLOSE closes as xtp_close(ctx, 1) does, with XTP_RCLOSE as xtp_close(ctx, 0); XTP_RCLOSE says that no
 * more is read; XTP_END ends at once; otherwise a control packet goes out, which asks if XTP_SREQ or XTP_DREQ is there.
 * Services of one message end it with XTP_EOM (datagrams always), and it may be empty; the next one is a new association.
 * -EMSGSIZE: more than wbufsize, or than a datagram; -EPIPE: our stream has ended; -ENOTCONN: nobody has come yet. */
int xoutput(xtpctx *ctx, const void *data, size_t size, uint32_t options);

/* Listens at cbloc->address_segment.dport, if this is the first call, and waits for a FIRST. XTP_OK or XTP_EOM: it has come, and
 * paddr is its sender. A context that listens for datagrams takes one with each call, and it lies at recv_buf; others take
 * one association, and go on with xd_input() (-EISCONN). XTP_AGAIN with O_NONBLOCK: none yet; one datagram was looked at.
 * -EINVAL: no recv_buf, no dport, or paddr is set; -EADDRINUSE: the port is taken; -EMSGSIZE: a datagram was longer than rbufsize
 * and is gone (with XTP_DREQ it is not acknowledged, and comes again). The next call counts as taking the datagram before. */
int xf_input(xtpctx *ctx);

/* Waits for the next packet and processes it, one datagram. Tells also what has happened otherwise: XTP_CLOSED when the peer's
 * stream has ended, once; and when the association has, the way it did, from then on without waiting: XTP_CLOSED, XTP_REFUSED,
 * XTP_ABANDONED, or -ECONNRESET: the peer has ended it in the middle, or knows nothing of it; -EPIPE: the peer stopped reading;
 * -EPROTO: it broke the protocol. XTP_AGAIN with O_NONBLOCK: nothing has come. -ENOTCONN: nothing was put out, and nobody has
 * come; -EINVAL: dseq is none of dseq to rseq, or there is no recv_buf (whoever called needs none until data come). */
int xd_input(xtpctx *ctx);

/* Lets happen what is due in all contexts, tells peers of dseq that was moved since the last call on a context, and listens
 * where that is wanted. Then *next is the context whose date is next, and *wait how long that is: for select(). 0: it has
 * something to tell; call xd_input(). XTP_AGAIN, and *next is NULL: none has a date. */
int xtp_timer_init(xtpctx **next, struct timeval *wait);

/* how 0: abbreviated: what was put out is sent, and no more is wanted of the peer (if we were called, as 1). 1: full: what
 * was put out is sent, and the peer goes on until it closes. Both only begin it: go on with xd_input() until XTP_CLOSED and
 * cstate is no more XTP_ACTIVE. If the association has ended, they say how.
 * 2: forced: ends an association that is alive, and the context: what xtp_ctx_init() made is freed, nothing is answered
 * any more, and ctx is no context until it is initialised again. */
int xtp_close(xtpctx *ctx, int how);

/* Not the paper's: where the message ends that begins at dseq. XTP_EOM: *end is one past its last byte; XTP_OK: it is not
 * complete, and *end is rseq. btag, if not NULL, are eight bytes: the tag that it begins with, or 0. */
int xtp_message(xtpctx *ctx, uint64_t *end, uint8_t *btag);

#ifdef __cplusplus
}
#endif

#endif
