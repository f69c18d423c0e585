/* Over a path that loses, doubles and reorders packets: a relay in a third process. Selective and go-back-N, both layouts. */
#include "relay.h"
#include "xtp_common.h"

#define RING 65536
#define TOTAL 400000

static void transfer(int service, uint32_t mode, int how) {
    static char data[16000];
    int soc = bound_socket(), front = bound_socket();
    int port = port_of(soc);
    pid_t between = fork(), child;
    struct end end;
    uint64_t total = 0;
    int code;
    if (between == 0) {
        close(soc);
        relay(front, port);
    }
    child = fork();
    if (child == 0) {
        uint64_t sent = 0;
        close(soc);
        call_to(&end, port_of(front), service, RING, mode);
        close(front);
        /* The segment names the port that listens, the datagrams go to the relay. */
        end.ctx.cbloc->address_segment.dport = (uint16_t)port;
        end.ctx.cbloc->wtimer = 50;
        end.ctx.cbloc->retry_count = 12;
        while (sent < TOTAL) {
            size_t size = 2000 + (size_t)(sent % 14001);
            if (size > TOTAL - sent)
                size = (size_t)(TOTAL - sent);
            fill(data, sent, size);
            while ((code = xoutput(&end.ctx, data, size, XTP_EOM)) == XTP_AGAIN)
                IS(xd_input(&end.ctx), XTP_OK);
            IS(code, XTP_OK);
            sent += size;
        }
        IS(xtp_close(&end.ctx, how), XTP_OK);
        IS(finish(&end.ctx), XTP_CLOSED);
        CHECK(end.ctx.bseq == end.ctx.lseq);
        /* The other end may not have got the last packet. */
        while (how == 1 && end.ctx.cstate == XTP_TIME_WAIT) {
            struct pollfd entry;
            entry.fd = end.ctx.soc;
            entry.events = POLLIN;
            if (poll(&entry, 1, 1500) != 1)
                break;
            xd_input(&end.ctx);
        }
        tear_down(&end);
        exit(0);
    }
    close(front);
    listen_on(&end, soc, service, RING, mode);
    end.ctx.cbloc->wtimer = 50;
    end.ctx.cbloc->retry_count = 12;
    code = xf_input(&end.ctx);
    while (code == XTP_OK || code == XTP_EOM) {
        total += verify(&end);
        end.ctx.dseq = end.ctx.rseq;
        code = xd_input(&end.ctx);
    }
    IS(code, XTP_CLOSED);
    CHECK(total == TOTAL);
    if (end.ctx.cstate == XTP_ACTIVE) {
        IS(xtp_close(&end.ctx, 1), XTP_OK);
        IS(finish(&end.ctx), XTP_CLOSED);
    }
    CHECK(linger(&end.ctx, child));
    tear_down(&end);
    kill(between, SIGKILL);
    waitpid(between, &code, 0);
    close(soc);
}

int main(void) {
    transfer(XTP_CONNECTION, 0, 0);
    transfer(XTP_CONNECTION, XTP_MODE_36, 1);
    transfer(XTP_CONNECTION, XTP_MODE_GO_BACK_N, 0);
    transfer(XTP_CONNECTION, XTP_MODE_GO_BACK_N | XTP_MODE_36, 0);
    transfer(XTP_BULK_DATA, 0, 1);
    puts("everything arrived over a lossy path");
    return 0;
}
