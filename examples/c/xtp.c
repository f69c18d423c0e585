/* XTP: the test of the paper, between two processes.
 *
 * "(1) xtp_ctx_init(), loop on recvfrom at the server, (2) xtp_ctx_init(), then call xoutput(), (3) exit when the last packet
 * is received correctly at the server." The application asks for the statuses (SREQ), the last packet closes the association
 * (abbreviated). "The throughput is defined as the number of received bits divided by the time interval between the
 * reception of the first and the last packet at the server."
 *
 *     ./xtp [megabytes [bytes of a message]...]
 */
#define _DEFAULT_SOURCE /* for strict C99 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "xtp.h"

#define RING 262144u
/* Messages from one SREQ to the next. */
#define SREQ_EVERY 8

static char ring[RING];

static void fail(const char *what, int code) {
    fprintf(stderr, "%s: %s\n", what, code < 0 ? strerror(-code) : "ended too early");
    exit(1);
}

static unsigned char expected(uint64_t at) {
    return (unsigned char)(at % 251);
}

static void server(int soc, int port, uint64_t total, unsigned size) {
    xtpctx ctx;
    uint64_t offset, seen = 0;
    double seconds;
    int code;
    ctx.soc = soc;
    if ((code = xtp_ctx_init(&ctx)) != XTP_OK)
        fail("xtp_ctx_init", code);
    ctx.recv_buf = ring;
    ctx.cbloc->rbufsize = RING;
    ctx.cbloc->service = XTP_CONNECTION;
    ctx.cbloc->maxdata = 16384; /* a message in a packet, as far as the path carries it */
    ctx.cbloc->address_segment.dport = (uint16_t)port;
    for (code = xf_input(&ctx); code == XTP_OK || code == XTP_EOM; code = xd_input(&ctx)) {
        uint64_t count = ctx.rseq - ctx.dseq;
        /* Look at a byte here and there: the throughput is the protocol's, not this loop's. */
        for (offset = 0; offset < count; offset += 997)
            if ((unsigned char)ring[(seen + offset) % RING] != expected(seen + offset))
                fail("a byte is wrong", 0);
        seen += count;
        ctx.dseq = ctx.rseq;
    }
    if (code != XTP_CLOSED || seen != total)
        fail("xd_input", code);
    seconds = (double)(ctx.t_end.tv_sec - ctx.t_start.tv_sec) + 1e-9 * (double)(ctx.t_end.tv_nsec - ctx.t_start.tv_nsec);
    printf("messages of %5u bytes: %8.1f Mbps\n", size, 8e-6 * (double)total / seconds);
    fflush(stdout);
    xtp_close(&ctx, 2);
}

static void client(int port, uint64_t total, unsigned size) {
    struct sockaddr_in to;
    xtpctx ctx;
    char nothing[1];
    char *data = malloc(size + 251);
    uint64_t sent = 0;
    unsigned at, messages = 0;
    int code;
    if (data == NULL)
        fail("malloc", 0);
    for (at = 0; at < size + 251; at++)
        data[at] = (char)expected(at);
    ctx.soc = -1;
    if ((code = xtp_ctx_init(&ctx)) != XTP_OK)
        fail("xtp_ctx_init", code);
    memset(&to, 0, sizeof to);
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)port);
    memcpy(&ctx.paddr, &to, sizeof to);
    ctx.recv_buf = nothing; /* nothing comes back but statuses */
    ctx.cbloc->rbufsize = sizeof nothing;
    ctx.cbloc->mode_flags |= XTP_MODE_OWN_SREQ;
    ctx.cbloc->maxdata = 16384;
    while (sent < total) {
        size_t count = total - sent < size ? (size_t)(total - sent) : size;
        uint32_t options = XTP_EOM;
        if (++messages % SREQ_EVERY == 0)
            options |= XTP_SREQ;
        if (sent + count == total)
            options |= XTP_WCLOSE | XTP_RCLOSE | XTP_SREQ;
        while ((code = xoutput(&ctx, data + sent % 251, count, options)) == XTP_AGAIN)
            if ((code = xd_input(&ctx)) != XTP_OK)
                fail("xd_input", code);
        if (code != XTP_OK)
            fail("xoutput", code);
        sent += count;
    }
    while ((code = xd_input(&ctx)) == XTP_OK)
        ;
    if (code != XTP_CLOSED)
        fail("closing", code);
    xtp_close(&ctx, 2);
    free(data);
}

int main(int argc, char **argv) {
    static const unsigned usual[] = {2000, 4096, 8192, 16384};
    uint64_t total = (uint64_t)(argc > 1 ? atof(argv[1]) * 1e6 : 8e6);
    int count = argc > 2 ? argc - 2 : (int)(sizeof usual / sizeof *usual);
    int i;
    for (i = 0; i < count; i++) {
        unsigned size = argc > 2 ? (unsigned)atoi(argv[i + 2]) : usual[i];
        int soc = socket(AF_INET, SOCK_DGRAM, 0);
        int room = 4 << 20, status = 0;
        struct sockaddr_in any;
        socklen_t length = sizeof any;
        pid_t child;
        if (size == 0 || total == 0)
            fail("a size", -22);
        memset(&any, 0, sizeof any);
        any.sin_family = AF_INET;
        any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (soc < 0 || bind(soc, (struct sockaddr *)&any, sizeof any) != 0 ||
            getsockname(soc, (struct sockaddr *)&any, &length) != 0)
            fail("a socket", 0);
        setsockopt(soc, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
        fflush(stdout);
        child = fork();
        if (child == 0) {
            close(soc);
            client(ntohs(any.sin_port), total, size);
            exit(0);
        }
        server(soc, ntohs(any.sin_port), total, size);
        if (waitpid(child, &status, 0) != child || status != 0)
            return 1;
        close(soc);
    }
    return 0;
}
