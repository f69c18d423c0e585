/* The paper's loop: xtp_timer_init() says which context is next, and when; select() waits for packets meanwhile. Many
 * contexts in one process, their peers in another; all sockets block, and no call does. */
#include "xtp_common.h"

#define PAIRS 24
#define RING 40000
#define TOTAL 200000

static struct end ends[PAIRS];
static uint64_t done[PAIRS];
static int is_over[PAIRS];

static int index_of(const xtpctx *ctx) {
    int i;
    for (i = 0; i < PAIRS; i++)
        if (&ends[i].ctx == ctx)
            return i;
    CHECK(0);
    return -1;
}

/* One packet, or what there is to tell. */
static void input(int i) {
    struct end *end = &ends[i];
    int code = end->ctx.cstate == XTP_LISTENING ? xf_input(&end->ctx) : xd_input(&end->ctx);
    if (code == XTP_CLOSED) {
        is_over[i] = 1;
        return;
    }
    CHECK(code == XTP_OK || code == XTP_EOM);
    done[i] += verify(end);
    end->ctx.dseq = end->ctx.rseq;
}

static void output(int i) {
    static char data[7000];
    struct end *end = &ends[i];
    while (done[i] < TOTAL) {
        size_t size = TOTAL - done[i] < sizeof data ? (size_t)(TOTAL - done[i]) : sizeof data;
        uint32_t options = done[i] + size == TOTAL ? XTP_EOM | XTP_WCLOSE | XTP_RCLOSE : XTP_EOM;
        int code;
        fill(data, done[i], size);
        code = xoutput(&end->ctx, data, size, options);
        if (code == XTP_AGAIN)
            return;
        IS(code, XTP_OK);
        done[i] += size;
    }
}

/* Until all are over; `outputs`: this is the side that sends. */
static void loop(int outputs, int stays) {
    double until = now() + 40, quiet = 0;
    for (;;) {
        xtpctx *next;
        struct timeval wait;
        fd_set set;
        int i, left = 0, highest = -1, code;
        CHECK(now() < until);
        code = xtp_timer_init(&next, &wait);
        CHECK(code == XTP_OK || (code == XTP_AGAIN && next == NULL));
        if (code == XTP_AGAIN || wait.tv_sec > 0) {
            wait.tv_sec = 1;
            wait.tv_usec = 0;
        }
        CHECK(wait.tv_usec >= 0 && wait.tv_usec < 1000000);
        if (code == XTP_OK && wait.tv_sec == 0 && wait.tv_usec == 0 && !is_over[index_of(next)]) {
            input(index_of(next));
            continue;
        }
        FD_ZERO(&set);
        for (i = 0; i < PAIRS; i++) {
            left += !is_over[i];
            FD_SET(ends[i].ctx.soc, &set);
            if (ends[i].ctx.soc > highest)
                highest = ends[i].ctx.soc;
        }
        if (left == 0 && !stays)
            return;
        if (left == 0 && quiet == 0)
            quiet = now() + 0.3;
        if (left == 0) {
            if (now() > quiet)
                return;
            if (wait.tv_sec > 0 || wait.tv_usec > 50000) {
                wait.tv_sec = 0;
                wait.tv_usec = 50000;
            }
        }
        CHECK(select(highest + 1, &set, NULL, NULL, &wait) >= 0);
        for (i = 0; i < PAIRS; i++) {
            if (FD_ISSET(ends[i].ctx.soc, &set))
                input(i);
            if (outputs && !is_over[i])
                output(i);
        }
    }
}

/* A timer fires in the loop: a FIRST that nobody hears is repeated, and given up. */
static void timers(void) {
    struct end end;
    int soc = bound_socket(), fired = 0;
    double before = now();
    xtpctx *next;
    struct timeval wait;
    call_to(&end, port_of(soc), XTP_CONNECTION, RING, 0);
    IS(xtp_timer_init(&next, &wait), XTP_AGAIN);
    CHECK(next == NULL);
    end.ctx.cbloc->wtimer = 30;
    end.ctx.cbloc->retry_count = 3;
    IS(xoutput(&end.ctx, "hello", 5, XTP_EOM), XTP_OK);
    for (;;) {
        IS(xtp_timer_init(&next, &wait), XTP_OK);
        CHECK(next == &end.ctx && wait.tv_sec == 0 && wait.tv_usec <= 250000);
        if (wait.tv_usec == 0)
            break;
        CHECK(select(0, NULL, NULL, NULL, &wait) == 0);
        fired++;
    }
    IS(xd_input(&end.ctx), XTP_ABANDONED);
    /* 30, 60, 120 and 240 ms. */
    CHECK(now() - before > 0.44 && fired >= 4 && fired < 60);
    IS(xtp_timer_init(&next, &wait), XTP_AGAIN);
    CHECK(next == NULL);
    {
        /* Four FIRSTs, and the DIAG that says good-bye. */
        char packet[2000];
        int count = 0;
        while (recv(soc, packet, sizeof packet, MSG_DONTWAIT) > 0)
            count++;
        CHECK(count == 5);
    }
    tear_down(&end);
    close(soc);
}

int main(void) {
    int socs[PAIRS], i;
    pid_t child;
    timers();
    for (i = 0; i < PAIRS; i++)
        socs[i] = bound_socket();
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (i = 0; i < PAIRS; i++) {
            call_to(&ends[i], port_of(socs[i]), XTP_CONNECTION, RING, i % 2 ? XTP_MODE_36 : 0);
            close(socs[i]);
            output(i);
        }
        loop(1, 0);
        exit(0);
    }
    for (i = 0; i < PAIRS; i++)
        listen_on(&ends[i], socs[i], XTP_CONNECTION, RING, i % 2 ? XTP_MODE_36 : 0);
    loop(0, 1);
    for (i = 0; i < PAIRS; i++)
        CHECK(done[i] == TOTAL);
    CHECK(child_succeeded(child));
    for (i = 0; i < PAIRS; i++)
        tear_down(&ends[i]);
    printf("%d contexts in the loop\n", PAIRS);
    return 0;
}
