/* To who looks for leaks at the exit of a process, what it has open is none, nor what its ancestors had. */
#include "qmp_common.h"

#include "a1.h"
#include "qbuf.h"
#include "xtp.h"

static void open_a1(void) {
    struct a1_qos qos;
    int s = a1_socket();
    memset(&qos, 0, sizeof qos);
    qos.options = 2;
    qos.block_size = 1000;
    qos.largest_sent = qos.largest_received = 10000;
    qos.outstanding = 4;
    CHECK(s >= 0 && a1_bind(s, (uint64_t)0x7f000001 << 32, &qos) == 0);
}

int main(void) {
    int generation;
    xtpctx ctx;
    open_a1();
    ctx.soc = -1;
    CHECK(xtp_ctx_init(&ctx) == XTP_OK);
    CHECK(qb_open(NULL, NULL) >= 0 && qmp_socket(AF_INET, SOCK_STREAM, 0) >= 0);
    for (generation = 0; generation < 3; generation++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            /* One of its own. */
            int fd = qb_open(NULL, NULL);
            CHECK(fd >= 0 && (generation == 0 || qb_close(fd) == 0));
            if (generation == 2) {
                open_a1();
                child = fork();
                CHECK(child >= 0);
                if (child == 0) {
                    /* Its own child has none, and that one's has. */
                    child = fork();
                    CHECK(child >= 0);
                    if (child == 0) {
                        open_a1();
                        exit(0);
                    }
                }
                CHECK(child_succeeded(child));
            }
            exit(0);
        }
        CHECK(child_succeeded(child));
    }
    printf("nothing leaks\n");
    return 0;
}
