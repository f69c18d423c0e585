/* To who looks for leaks at the exit of a child, what its parent has open is none. */
#include "qmp_common.h"

#include "qbuf.h"
#include "xtp.h"

int main(void) {
    int generation;
    xtpctx ctx;
    ctx.soc = -1;
    CHECK(xtp_ctx_init(&ctx) == XTP_OK);
    CHECK(qb_open(NULL, NULL) >= 0 && qmp_socket(AF_INET, SOCK_STREAM, 0) >= 0);
    for (generation = 0; generation < 2; generation++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            /* One of its own. */
            int fd = qb_open(NULL, NULL);
            CHECK(fd >= 0 && (generation == 0 || qb_close(fd) == 0));
            exit(0);
        }
        CHECK(child_succeeded(child));
    }
    printf("nothing leaks\n");
    return 0;
}
