/* What each call says of a peer that is not there any more: the same number by every method. The peer is another process, which
 * closes in order, exits (also with what it has not read), breaks off, or is killed; whoever stays sends, receives, flushes, waits for a delivery, or only asks. */
#include "unified_common.h"

#include <signal.h>

/* EPIPE or ECONNRESET, or the end: what was not read may make it no end in order. */
#define NO_TIME_OUT (-1)

/* How the peer goes, and what the one that stays is told of it: by what sends, and by what receives (0: the end). */
static const struct end {
    char how;
    int sending, receiving;
} ends[] = {{'c', EPIPE, 0}, {'x', EPIPE, 0}, {'u', NO_TIME_OUT, NO_TIME_OUT}, {'a', ECONNRESET, ECONNRESET}, {'k', ETIMEDOUT, ETIMEDOUT}};

static const char *const methods[] = {"zcrp", "vrp", "xtp", "qmp", "a1"};

#define ENDS (sizeof ends / sizeof *ends)
#define METHODS (sizeof methods / sizeof *methods)

/* Which case this is. */
static char which[64];

static int is_so(int told, int why) {
    return told == why || (why == NO_TIME_OUT && (told == EPIPE || told == ECONNRESET));
}

#define CHECK_ERRNO(why)                                                                                              \
    do {                                                                                                              \
        if (!is_so(errno, why)) {                                                                                     \
            fprintf(stderr, "%s, line %d: %s, not %s: %s\n", which, __LINE__, strerror(errno), strerror(why), WORDS); \
            exit(1);                                                                                                  \
        }                                                                                                             \
    } while (0)

/* What is done first when the peer has gone. */
enum { SENDS, RECEIVES, FLUSHES, WAITS, CHECKS, WAYS };

static pinnace_connection_t *listening(int to) {
    struct pinnace_options options = PINNACE_OPTIONS_INIT;
    pinnace_endpoint_t *endpoint;
    pinnace_listener_t *listener;
    pinnace_connection_t *connection;
    char there[64] = {0};
    options.peer_timeout_ms = 1500;
    endpoint = pinnace_endpoint_open("127.0.0.1:0", &options);
    listener = pinnace_endpoint_listen(endpoint, NULL);
    CHECK(pinnace_listener_address(listener, there, sizeof there) > 0);
    CHECK(write(to, there, sizeof there) == sizeof there);
    connection = pinnace_accept(listener, LONG);
    CHECK(connection != NULL && pinnace_listener_close(listener) == 0 && pinnace_endpoint_close(endpoint) == 0);
    return connection;
}

static pinnace_connection_t *connecting(int from, const char *method) {
    struct pinnace_options options = PINNACE_OPTIONS_INIT;
    pinnace_endpoint_t *endpoint;
    pinnace_connection_t *connection;
    char there[64];
    options.force = method;
    options.peer_timeout_ms = 1500;
    CHECK(read(from, there, sizeof there) == sizeof there);
    endpoint = pinnace_endpoint_open(NULL, &options);
    connection = pinnace_endpoint_connect(endpoint, there, "direction=duplex");
    CHECK(connection != NULL && pinnace_endpoint_close(endpoint) == 0);
    return connection;
}

static void go(pinnace_connection_t *connection, int from, int to, char how) {
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    char byte;
    /* Nobody may be left to end it. */
    alarm(50);
    CHECK(pinnace_recv(connection, &m, LONG) == 1 && pinnace_received_free(&m) == 0);
    CHECK(pinnace_send(connection, "ahoy", 4) == 0 && pinnace_flush(connection) == 0);
    CHECK(write(to, "!", 1) == 1 && read(from, &byte, 1) == 1);
    if (how == 'c')
        CHECK(pinnace_close(connection, LONG) == 0);
    if (how == 'x' || how == 'u')
        exit(0);
    if (how == 'a')
        CHECK(pinnace_abort(connection) == 0);
    if (how == 'k')
        raise(SIGKILL);
    for (;;)
        pause();
}

/* So many milliseconds, in which a call has to fail. */
#define SOON 15000

static void send_until_it_fails(pinnace_connection_t *connection, int why) {
    double begin = now();
    while (pinnace_send(connection, "x", 1) == 0) {
        CHECK(now() - begin < SOON / 1000.0);
        usleep(10000);
    }
    CHECK_ERRNO(why);
}

/* `all`: by each call that receives. */
static void receives(pinnace_connection_t *connection, int why, int all) {
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    char room[16];
    /* Short waits count as much as a long one. */
    double begin = now();
    int came;
    while ((came = pinnace_recv(connection, &m, 50)) < 0 && errno == EAGAIN)
        CHECK(now() - begin < SOON / 1000.0);
    CHECK(came == (why == 0 ? 0 : -1) || (why == NO_TIME_OUT && came == 0));
    if (came < 0)
        CHECK_ERRNO(why);
    if (!all || why == NO_TIME_OUT)
        return;
    if (why == 0) {
        CHECK(pinnace_recv(connection, &m, LONG) == 0);
        CHECK(pinnace_recv_into(connection, room, sizeof room, &m, LONG) == 0);
        CHECK(pinnace_read(connection, room, sizeof room, LONG) == 0);
        return;
    }
    CHECK(pinnace_recv_into(connection, room, sizeof room, &m, SOON) < 0);
    CHECK_ERRNO(why);
    CHECK(pinnace_read(connection, room, sizeof room, SOON) < 0);
    CHECK_ERRNO(why);
}

/* What is under way when the peer goes, and does not arrive. */
static void flushes(pinnace_connection_t *connection, int why) {
    double begin = now();
    for (;;) {
        CHECK(now() - begin < SOON / 1000.0);
        if (pinnace_send(connection, "x", 1) < 0 || pinnace_flush_within(connection, SOON) < 0)
            break;
        usleep(10000);
    }
    CHECK_ERRNO(why);
}

static void waits(pinnace_connection_t *connection, int why) {
    struct pinnace_completion completion = PINNACE_COMPLETION_INIT;
    struct iovec part = {NULL, 4};
    char bytes[] = "ahoy";
    double begin = now();
    part.iov_base = bytes;
    for (;;) {
        pinnace_delivery_t *delivery = NULL;
        CHECK(now() - begin < SOON / 1000.0);
        if (pinnace_sendv(connection, &part, 1, NULL, &delivery) < 0)
            break;
        if (pinnace_delivery_wait(delivery, &completion, SOON) < 0) {
            CHECK_ERRNO(why);
            CHECK(is_so(completion.error, why));
            break;
        }
        usleep(10000);
    }
    CHECK_ERRNO(why);
}

static void checks(pinnace_connection_t *connection, int why) {
    double begin = now();
    while (pinnace_check(connection) == 0) {
        CHECK(now() - begin < SOON / 1000.0);
        usleep(50000);
    }
    CHECK_ERRNO(why);
}

static void stay(pinnace_connection_t *connection, int from, int to, const struct end *end, int way) {
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    char byte;
    CHECK(pinnace_send(connection, "ahoy", 4) == 0);
    CHECK(pinnace_recv(connection, &m, LONG) == 1 && pinnace_received_free(&m) == 0);
    CHECK(read(from, &byte, 1) == 1 && pinnace_check(connection) == 0);
    if (end->how == 'u')
        /* More than A1 takes ahead of whoever receives. */
        for (int sent = 0; sent < 100 && pinnace_try_send(connection, "unread", 6) == 0; sent++)
            continue;
    CHECK(write(to, "!", 1) == 1);
    /* What is sent so soon may come before the peer has gone. */
    usleep(way % 2 == 0 ? 300000 : 0);
    switch (way) {
    case SENDS: send_until_it_fails(connection, end->sending); break;
    case RECEIVES: receives(connection, end->receiving, 1); break;
    case FLUSHES: flushes(connection, end->sending); break;
    case WAITS: waits(connection, end->sending); break;
    default: checks(connection, end->sending);
    }
    /* Whatever was done before. */
    send_until_it_fails(connection, end->sending);
    receives(connection, end->receiving, 0);
    CHECK(pinnace_shutdown(connection, LONG) == 0 || is_so(errno, end->sending));
    FAILS(pinnace_send(connection, "x", 1) == 0, EPIPE, "closed at this end");
    pinnace_close(connection, 0);
}

/* Two processes, of which one goes. */
static void both(const char *method, const struct end *end, int way, int accepts) {
    int up[2], down[2];
    pid_t peer;
    CHECK(pipe(up) == 0 && pipe(down) == 0);
    peer = fork();
    CHECK(peer >= 0);
    if (peer == 0)
        go(accepts ? connecting(down[0], method) : listening(up[1]), down[0], up[1], end->how);
    stay(accepts ? listening(down[1]) : connecting(up[0], method), up[0], down[1], end, way);
    kill(peer, SIGKILL);
    CHECK(waitpid(peer, NULL, 0) == peer);
}

int main(void) {
    int running = 0, failed = 0, status;
    for (size_t method = 0; method < METHODS; method++)
        for (size_t end = 0; end < ENDS; end++)
            for (int way = 0; way < WAYS; way++) {
                pid_t child;
                for (; running >= 50; running--) {
                    CHECK(wait(&status) > 0);
                    failed += status != 0;
                }
                child = fork();
                CHECK(child >= 0);
                if (child == 0) {
                    snprintf(which, sizeof which, "%s, peer %c, way %d", methods[method], ends[end].how, way);
                    both(methods[method], &ends[end], way, (int)(method + end + (size_t)way) % 2);
                    _exit(0);
                }
                running++;
            }
    for (; running > 0; running--) {
        CHECK(wait(&status) > 0);
        failed += status != 0;
    }
    if (failed == 0)
        puts("all say the same");
    return failed != 0;
}
