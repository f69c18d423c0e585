/* Everything that can be done wrong, and can be found out: an error each, never a crash. */
#include "unified_common.h"

static pinnace_connection_t *waiting_on;
/* How often the thread that waits there has called the library. */
static int calls;

/* Between two calls nobody waits, and after a close the next call is told that its handle is none: this returns when the
 * other thread has been in one call for a while. */
static void until_somebody_waits(void) {
    int before;
    do {
        before = __atomic_load_n(&calls, __ATOMIC_SEQ_CST);
        usleep(200000);
    } while (before == 0 || before != __atomic_load_n(&calls, __ATOMIC_SEQ_CST));
    __atomic_store_n(&calls, 0, __ATOMIC_SEQ_CST);
}

static void *wait_for_ever(void *unused) {
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    FAILS(pinnace_recv(waiting_on, &m, -1) >= 0, ECANCELED, "another thread");
    return unused;
}

static void nothing(const struct pinnace_completion *completion, void *argument) {
    (void)completion;
    (void)argument;
}

/* Every function with a handle that is none. */
static void handles(void *none, int why, const char *words) {
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    struct pinnace_completion completion = PINNACE_COMPLETION_INIT;
    struct iovec part = {NULL, 0};
    pinnace_delivery_t *delivery;
    char text[16];
    FAILS(pinnace_endpoint_address(none, text, sizeof text) >= 0, why, words);
    FAILS(pinnace_endpoint_listen(none, NULL) != NULL, why, words);
    FAILS(pinnace_endpoint_connect(none, "127.0.0.1:1", NULL) != NULL, why, words);
    FAILS(pinnace_endpoint_connect_all(none, NULL, 0, NULL) != NULL, why, words);
    FAILS(pinnace_receiver_at(none, 0, NULL) >= 0, why, words);
    FAILS(pinnace_add_receiver(none, "127.0.0.1:1") == 0, why, words);
    FAILS(pinnace_remove_receiver(none, "127.0.0.1:1", 0) == 0, why, words);
    FAILS(pinnace_endpoint_close(none) == 0, why, words);
    FAILS(pinnace_listener_address(none, text, sizeof text) >= 0, why, words);
    FAILS(pinnace_listener_port(none) >= 0, why, words);
    FAILS(pinnace_listener_fd(none) >= 0, why, words);
    FAILS(pinnace_accept(none, 0) != NULL, why, words);
    FAILS(pinnace_listener_close(none) == 0, why, words);
    FAILS(pinnace_method(none) != NULL, why, words);
    FAILS(pinnace_peer(none, text, sizeof text) >= 0, why, words);
    FAILS(pinnace_service(none, text, sizeof text) >= 0, why, words);
    FAILS(pinnace_set_service(none, NULL) == 0, why, words);
    FAILS(pinnace_explain_connection(none, text, sizeof text) >= 0, why, words);
    FAILS(pinnace_fd(none) >= 0, why, words);
    FAILS(pinnace_flush(none) == 0, why, words);
    FAILS(pinnace_flush_within(none, 0) == 0, why, words);
    FAILS(pinnace_check(none) == 0, why, words);
    FAILS(pinnace_shutdown(none, 0) == 0, why, words);
    FAILS(pinnace_close(none, 0) == 0, why, words);
    FAILS(pinnace_send(none, "x", 1) == 0, why, words);
    FAILS(pinnace_sendv(none, &part, 1, NULL, &delivery) == 0, why, words);
    FAILS(pinnace_write(none, "x", 1) >= 0, why, words);
    FAILS(pinnace_recv(none, &m, 0) >= 0, why, words);
    FAILS(pinnace_recv_into(none, text, sizeof text, &m, 0) >= 0, why, words);
    FAILS(pinnace_transact(none, "x", 1, &m, 0) >= 0, why, words);
    FAILS(pinnace_read(none, text, sizeof text, 0) >= 0, why, words);
    FAILS(pinnace_delivery_wait(none, &completion, 0) == 0, why, words);
}

static void beginnings(void) {
    struct pinnace_options options = PINNACE_OPTIONS_INIT;
    struct {
        struct pinnace_options options;
        long more;
    } later = {PINNACE_OPTIONS_INIT, 0};
    pinnace_endpoint_t *endpoint;
    pinnace_listener_t *listener;
    char text[64], address[80];
    CHECK(strcmp(pinnace_version(), PINNACE_VERSION) == 0);
    CHECK(pinnace_error()[0] == 0);

    FAILS(pinnace_service_text("los=5%", text, sizeof text) >= 0, EINVAL, "loss=5%");
    FAILS(pinnace_service_text("\xff\xfe", text, sizeof text) >= 0, EINVAL, "UTF-8");
    FAILS(pinnace_service_text("loss=5%", NULL, 10) >= 0, EINVAL, "");
    CHECK(pinnace_service_text("run=4096 loss=5%", text, sizeof text) == 16 && strcmp(text, "loss=5% run=4KiB") == 0);
    CHECK(pinnace_service_text("run=4096 loss=5%", text, 5) == 16 && strcmp(text, "loss") == 0);
    CHECK(pinnace_service_text("pinnace://h:1?loss=5%", NULL, 0) == 7);
    CHECK(pinnace_service_text(NULL, text, sizeof text) == 0 && text[0] == 0);
    CHECK(pinnace_explain("deadline=1us", NULL, text, sizeof text) > 63 && strncmp(text, "no method", 9) == 0);
    CHECK(pinnace_explain("loss=5% size=2MB", "127.0.0.1", text, sizeof text) > 63);
    FAILS(pinnace_explain("loss", NULL, text, sizeof text) >= 0, EINVAL, "loss");
    FAILS(pinnace_explain(NULL, "no such host", text, sizeof text) >= 0, EADDRNOTAVAIL, "no such host");

    options.size = 0;
    FAILS(pinnace_endpoint_open(NULL, &options) != NULL, EINVAL, "PINNACE_OPTIONS_INIT");
    options.size = 1 << 20;
    FAILS(pinnace_endpoint_open(NULL, &options) != NULL, EINVAL, "PINNACE_OPTIONS_INIT");
    options.size = sizeof options;
    options.force = "tcp";
    FAILS(pinnace_endpoint_open(NULL, &options) != NULL, EINVAL, "tcp");
    options.force = NULL;
    options.exclude = "vrp,,smoke";
    FAILS(pinnace_endpoint_open(NULL, &options) != NULL, EINVAL, "smoke");
    /* A program of a later version, that says nothing new, and that does. */
    later.options.size = sizeof later;
    endpoint = pinnace_endpoint_open(NULL, &later.options);
    CHECK(endpoint != NULL && pinnace_endpoint_close(endpoint) == 0);
    later.more = 1;
    FAILS(pinnace_endpoint_open(NULL, &later.options) != NULL, E2BIG, "does not know");

    FAILS(pinnace_endpoint_open("203.0.113.1:0", NULL) != NULL, EADDRNOTAVAIL, "203.0.113.1");
    FAILS(pinnace_endpoint_open("127.0.0.1", NULL) != NULL, EINVAL, "");
    /* One of the first version has the members up to backlog. */
    later.more = 0;
    later.options.size = offsetof(struct pinnace_options, slow_receiver_ms);
    endpoint = pinnace_endpoint_open(NULL, &later.options);
    CHECK(endpoint != NULL && pinnace_endpoint_close(endpoint) == 0);
    struct pinnace_options control = PINNACE_OPTIONS_INIT;
    control.congestion = "bbr:51%";
    FAILS(pinnace_endpoint_open(NULL, &control) != NULL, EINVAL, "`bbr:51%`: a congestion controller is one of");
    control.congestion = "bbr:50%";
    endpoint = pinnace_endpoint_open(NULL, &control);
    CHECK(endpoint != NULL && pinnace_endpoint_close(endpoint) == 0);

    FAILS(pinnace_listen(NULL, NULL) != NULL, EINVAL, "address is NULL");
    FAILS(pinnace_connect(NULL) != NULL, EINVAL, "peer is NULL");
    FAILS(pinnace_connect("pinnace://127.0.0.1?loss=5%") != NULL, EINVAL, "no port");
    FAILS(pinnace_connect("pinnace://127.0.0.1:1?loss=5%&burst=1") != NULL, EINVAL, "rate");
    FAILS(pinnace_connect("pinnace://127.0.0.1:1?deadline=1us&path=internet") != NULL, ENOTSUP, "deadline");
    FAILS(pinnace_connect("pinnace://127.0.0.1:1") != NULL, ETIMEDOUT, "127.0.0.1:1");
    /* A chain of calls may be checked at its end. */
    FAILS(pinnace_send(NULL, "x", 1) == 0, EINVAL, "the connection is NULL; what failed before: 127.0.0.1:1");
    FAILS(pinnace_send(NULL, "x", 1) == 0, EINVAL, "the connection is NULL; what failed before: 127.0.0.1:1");

    endpoint = pinnace_endpoint_open(NULL, NULL);
    CHECK(endpoint != NULL && pinnace_endpoint_address(endpoint, text, sizeof text) == 0);
    FAILS(pinnace_endpoint_listen(endpoint, NULL) != NULL, EINVAL, "pinnace_endpoint_open was given no address");
    CHECK(pinnace_endpoint_close(endpoint) == 0);
    endpoint = pinnace_endpoint_open("127.0.0.1:0", NULL);
    CHECK(endpoint != NULL && pinnace_endpoint_address(endpoint, text, sizeof text) > 0);
    FAILS(pinnace_endpoint_open(text, NULL) != NULL, EADDRINUSE, "");
    snprintf(address, sizeof address, "%s", text);
    FAILS(pinnace_connect(address) != NULL, ECONNREFUSED, text);
    listener = pinnace_endpoint_listen(endpoint, "largest=1KiB");
    CHECK(listener != NULL);
    FAILS(pinnace_endpoint_listen(endpoint, NULL) != NULL, EADDRINUSE, "listens");
    FAILS(pinnace_endpoint_connect(endpoint, address, "size=1MiB") != NULL, ECONNREFUSED, "1024");
    /* Each kind is its own. */
    FAILS(pinnace_accept((pinnace_listener_t *)(void *)endpoint, 0) != NULL, EBADF, "listener");
    FAILS(pinnace_accept(listener, 30) != NULL, EAGAIN, "30 ms");
    CHECK(pinnace_endpoint_close(endpoint) == 0 && pinnace_listener_close(listener) == 0);
    FAILS(pinnace_endpoint_close(endpoint) == 0, EBADF, "closed");
    FAILS(pinnace_listener_close(listener) == 0, EBADF, "closed");
}

/* Addresses that are none: what is wrong, and what is possible. */
static void addresses(void) {
    static const struct {
        const char *text, *wrong;
    } peers[] = {
        {"", "empty"},
        {" ", "empty"},
        {"tcp://127.0.0.1:1", "the scheme `tcp` is not known"},
        {"http://127.0.0.1", "the scheme `http` is not known"},
        {"127.0.0.1", "has no port"},
        {"ship", "has no port"},
        {"[::1]", "has no port"},
        {"127.0.0.1:", "is no port"},
        {"127.0.0.1:70000", "`70000` is no port"},
        {"127.0.0.1:http", "`http` is no port"},
        {"127.0.0.1:0", "port 0"},
        {"::1:4747", "brackets"},
        {":4747", "has no host"},
        {"pinnace://127.0.0.1:0", "port 0"},
        {"pinnace://127.0.0.1", "has no port"},
        {"pinnace://:4747", "host"},
    };
    pinnace_endpoint_t *endpoint = pinnace_endpoint_open(NULL, NULL);
    const char *all[2] = {"127.0.0.1:9", NULL};
    CHECK(endpoint != NULL);
    for (size_t at = 0; at < sizeof peers / sizeof *peers; at++) {
        FAILS(pinnace_connect(peers[at].text) != NULL, EINVAL, peers[at].wrong);
        CHECK(strstr(WORDS, "pinnace://HOST:PORT") != NULL);
        FAILS(pinnace_endpoint_connect(endpoint, peers[at].text, NULL) != NULL, EINVAL, peers[at].wrong);
        all[1] = peers[at].text;
        FAILS(pinnace_connect_all(all, 2, NULL) != NULL, EINVAL, peers[at].wrong);
        if (strstr(peers[at].wrong, "scheme") == NULL && strncmp(peers[at].text, "pinnace:", 8) != 0 &&
            strcmp(peers[at].wrong, "port 0") != 0) {
            FAILS(pinnace_listen(peers[at].text, NULL) != NULL, EINVAL, peers[at].wrong);
            FAILS(pinnace_endpoint_open(peers[at].text, NULL) != NULL, EINVAL, "HOST:PORT");
        }
    }
    FAILS(pinnace_listen("tcp://127.0.0.1:0", NULL) != NULL, EINVAL, "no URI (allowed: HOST:PORT");
    FAILS(pinnace_endpoint_open("pinnace://127.0.0.1:0", NULL) != NULL, EINVAL, "no URI (allowed: HOST:PORT");
    FAILS(pinnace_connect("nobody.invalid:1") != NULL, EADDRNOTAVAIL, "nobody.invalid");
    FAILS(pinnace_listen("nobody.invalid:1", NULL) != NULL, EADDRNOTAVAIL, "resolve");
    CHECK(pinnace_endpoint_close(endpoint) == 0);
}

/* Messages that are too long, for a buffer or for an endpoint: how long they are, and what may be. */
static void too_long(const char *method) {
    static char bytes[3 << 20];
    struct pinnace_options options = PINNACE_OPTIONS_INIT;
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    pinnace_connection_t *client, *server;
    pinnace_endpoint_t *endpoint;
    pinnace_listener_t *listener;
    char there[64];
    pair_of(method, "", &client, &server);
    CHECK(pinnace_send(client, bytes, 4000) == 0 && pinnace_flush(client) == 0);
    FAILS(pinnace_recv_into(server, bytes, 16, &m, LONG) >= 0, EMSGSIZE, "the buffer 16: receive it again");
    CHECK(strstr(WORDS, "the message has 4000 bytes") != NULL && strstr(WORDS, "pinnace_recv") != NULL);
    FAILS(pinnace_recv_into(server, bytes, 3999, &m, LONG) >= 0, EMSGSIZE, "at least 4000 bytes");
    CHECK(pinnace_recv_into(server, bytes, 4000, &m, LONG) == 1 && m.length == 4000);
    CHECK(pinnace_close(client, LONG) == 0 && pinnace_close(server, LONG) == 0);

    /* A1 and VRP agree before on what the receiver takes. */
    if (strcmp(method, "a1") == 0 || strcmp(method, "vrp") == 0)
        return;
    options.longest_message = 1 << 20;
    endpoint = pinnace_endpoint_open("127.0.0.1:0", &options);
    listener = pinnace_endpoint_listen(endpoint, NULL);
    CHECK(pinnace_listener_address(listener, there, sizeof there) > 0 && pinnace_endpoint_close(endpoint) == 0);
    options.longest_message = 0;
    options.force = method;
    endpoint = pinnace_endpoint_open(NULL, &options);
    client = pinnace_endpoint_connect(endpoint, there, NULL);
    CHECK(client != NULL);
    server = pinnace_accept(listener, LONG);
    CHECK(server != NULL && pinnace_send(client, bytes, sizeof bytes) == 0);
    FAILS(pinnace_recv(server, &m, LONG) >= 0, EMSGSIZE, "longer than 1048576 bytes");
    CHECK(strstr(WORDS, "longest_message of struct pinnace_options") != NULL);
    CHECK(pinnace_abort(client) == 0 && pinnace_abort(server) == 0);
    CHECK(pinnace_listener_close(listener) == 0 && pinnace_endpoint_close(endpoint) == 0);
}

static char megabyte[1 << 20];

/* Who waits for room, for what was sent to arrive, or for a message. */
static void *waiting(void *how) {
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    int result = 0;
    errno = 0;
    do {
        __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
        switch (*(char *)how) {
        case 's': result = pinnace_send(waiting_on, megabyte, sizeof megabyte); break;
        case 'f': result = pinnace_flush(waiting_on); break;
        default: result = pinnace_recv(waiting_on, &m, -1);
        }
    } while (*(char *)how == 's' && result == 0);
    /* Where the other end takes all that finds room, everything may have arrived before. */
    if (result != 0 || *(char *)how != 'f')
        CHECK(result == -1 && errno == ECANCELED && strstr(WORDS, "another thread") != NULL);
    return NULL;
}

/* Whatever the method, and however another thread closes. */
static void closed_meanwhile(const char *method, int (*end)(pinnace_connection_t *)) {
    for (const char *how = "sfr"; *how != 0; how++) {
        pinnace_connection_t *server;
        pthread_t thread;
        pair_of(method, "direction=duplex", &waiting_on, &server);
        while (*how == 'f' && pinnace_try_send(waiting_on, megabyte, sizeof megabyte) == 0)
            continue;
        CHECK(pthread_create(&thread, NULL, waiting, (void *)(uintptr_t)how) == 0);
        until_somebody_waits();
        end(waiting_on);
        CHECK(pthread_join(thread, NULL) == 0 && pinnace_abort(server) == 0);
    }
}

static int close_at_once(pinnace_connection_t *connection) {
    return pinnace_close(connection, 0);
}

/* What does not arrive in the time that there is for it. */
static void flushing(void) {
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    pinnace_connection_t *client, *server;
    char *bytes = calloc(1, 8 << 20);
    double begin;
    CHECK(bytes != NULL);
    pair_of("qmp", "", &client, &server);
    CHECK(pinnace_flush_within(client, 0) == 0 && pinnace_check(client) == 0 && pinnace_check(server) == 0);
    /* Nobody reads so much. */
    while (pinnace_try_send(client, bytes, 8 << 20) == 0)
        continue;
    FAILS(pinnace_flush_within(client, 0) == 0, EAGAIN, "within 0 ms");
    begin = now();
    FAILS(pinnace_flush_within(client, 300) == 0, EAGAIN, "within 300 ms");
    CHECK(now() - begin > 0.25 && now() - begin < 5);
    while (pinnace_flush_within(client, 0) != 0)
        CHECK(errno == EAGAIN && pinnace_recv(server, &m, LONG) == 1 && pinnace_received_free(&m) == 0);
    CHECK(pinnace_flush_within(client, -1) == 0 && pinnace_flush(client) == 0);
    CHECK(pinnace_abort(client) == 0 && pinnace_abort(server) == 0);
    free(bytes);
}

static void sending(pinnace_connection_t *client) {
    struct pinnace_send_options options = PINNACE_SEND_OPTIONS_INIT;
    struct pinnace_range range = {UINT64_MAX, 2};
    pinnace_delivery_t *delivery = NULL;
    struct iovec part = {NULL, 3};
    char byte = 'x';
    FAILS(pinnace_send(client, NULL, 1) == 0, EINVAL, "NULL");
    FAILS(pinnace_send(client, &byte, (size_t)1 << 33) == 0, EMSGSIZE, "4,294,967,295");
    FAILS(pinnace_sendv(client, &part, 1, NULL, &delivery) == 0, EINVAL, "part 0");
    FAILS(pinnace_sendv(client, NULL, 1, NULL, &delivery) == 0, EINVAL, "parts are NULL");
    FAILS(pinnace_sendv(client, &part, -1, NULL, &delivery) == 0, EINVAL, "-1");
    FAILS(pinnace_sendv(client, &part, 2000, NULL, &delivery) == 0, EINVAL, "2000");
    part.iov_base = &byte;
    part.iov_len = (size_t)1 << 33;
    FAILS(pinnace_sendv(client, &part, 1, NULL, &delivery) == 0, EMSGSIZE, "4,294,967,295");
    part.iov_len = 1;
    FAILS(pinnace_sendv(client, &part, 1, NULL, NULL) == 0, EINVAL, "nobody");
    options.done = nothing;
    FAILS(pinnace_sendv(client, &part, 1, &options, &delivery) == 0, EINVAL, "once");
    options.done = NULL;
    options.flags = 6;
    FAILS(pinnace_sendv(client, &part, 1, &options, &delivery) == 0, EINVAL, "0x6");
    options.flags = 0;
    options.loss_percent = 5;
    FAILS(pinnace_sendv(client, &part, 1, &options, &delivery) == 0, EINVAL, "PINNACE_OWN_CONTRACT");
    options.flags = PINNACE_OWN_CONTRACT;
    options.loss_percent = -1;
    FAILS(pinnace_sendv(client, &part, 1, &options, &delivery) == 0, EINVAL, "-1 %");
    options.loss_percent = 5;
    options.critical_count = 1;
    FAILS(pinnace_sendv(client, &part, 1, &options, &delivery) == 0, EINVAL, "critical ranges are NULL");
    options.critical = &range;
    FAILS(pinnace_sendv(client, &part, 1, &options, &delivery) == 0, EINVAL, "critical range 0");
    options.critical_count = 0;
    options.lifespan_us = 5;
    FAILS(pinnace_sendv(client, &part, 1, &options, &delivery) == 0, ENOTSUP, "zcrp");
    options.size = 3;
    FAILS(pinnace_sendv(client, &part, 1, &options, &delivery) == 0, EINVAL, "PINNACE_SEND_OPTIONS_INIT");
    CHECK(delivery == NULL);
}

static void receiving(pinnace_connection_t *client, pinnace_connection_t *server) {
    struct pinnace_received m = PINNACE_RECEIVED_INIT, copy;
    struct pinnace_completion completion = PINNACE_COMPLETION_INIT;
    pinnace_delivery_t *delivery;
    struct iovec part = {NULL, 4};
    char text[8] = "ahoy";
    part.iov_base = text;
    FAILS(pinnace_recv(server, NULL, 0) >= 0, EINVAL, "NULL");
    memset(&m, 0xAA, sizeof m);
    FAILS(pinnace_recv(server, &m, 0) >= 0, EINVAL, "PINNACE_RECEIVED_INIT");
    FAILS(pinnace_received_free(&m) == 0, EINVAL, "PINNACE_RECEIVED_INIT");
    FAILS(pinnace_received_free(NULL) == 0, EINVAL, "NULL");
    m.size = sizeof m;
    FAILS(pinnace_received_free(&m) == 0, EBADF, "message");
    CHECK(m.data == NULL && pinnace_received_free(&m) == 0);
    FAILS(pinnace_recv(server, &m, 0) >= 0, EAGAIN, "0 ms");
    FAILS(pinnace_recv_into(server, NULL, 5, &m, 0) >= 0, EINVAL, "no memory");
    FAILS(pinnace_read(server, NULL, 5, 0) >= 0, EINVAL, "no memory");

    CHECK(pinnace_sendv(client, &part, 1, NULL, &delivery) == 0);
    completion.size = 1;
    FAILS(pinnace_delivery_wait(delivery, &completion, LONG) == 0, EINVAL, "PINNACE_COMPLETION_INIT");
    CHECK(pinnace_recv(server, &m, LONG) == 1 && m.length == 4);
    FAILS(pinnace_recv(server, &m, 0) >= 0, EBUSY, "pinnace_received_free");
    FAILS(pinnace_recv_into(server, text, sizeof text, &m, 0) >= 0, EBUSY, "pinnace_received_free");
    copy = m;
    CHECK(pinnace_received_free(&m) == 0 && pinnace_received_free(&m) == 0);
    FAILS(pinnace_received_free(&copy) == 0, EBADF, "freed");
    CHECK(pinnace_delivery_wait(delivery, NULL, LONG) == 0);
    FAILS(pinnace_delivery_wait(delivery, NULL, 0) == 0, EBADF, "freed");
}

int main(void) {
    const char *const methods[] = {"zcrp", "vrp", "xtp", "qmp", "a1"};
    pinnace_connection_t *client, *server;
    pthread_t thread;
    int status;
    pid_t child;
    beginnings();
    addresses();
    for (size_t at = 0; at < sizeof methods / sizeof *methods; at++) {
        too_long(methods[at]);
        closed_meanwhile(methods[at], close_at_once);
        closed_meanwhile(methods[at], pinnace_abort);
    }
    flushing();
    handles(NULL, EINVAL, "is NULL");
    handles(&status, EBADF, "this is no ");
    handles((void *)7, EBADF, "this is no ");
    pair_of("zcrp", "direction=duplex", &client, &server);
    sending(client);
    receiving(client, server);

    /* A child has none of its parent's. */
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        handles(client, EBADF, "");
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);

    /* Closing is noticed by who waits. */
    waiting_on = server;
    CHECK(pthread_create(&thread, NULL, wait_for_ever, NULL) == 0);
    until_somebody_waits();
    CHECK(pinnace_close(server, LONG) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pinnace_close(client, LONG) == 0);
    handles(client, EBADF, "");
    handles(server, EBADF, "");

    /* A service that may lose something is no stream, and one way is one way. */
    pair_of("vrp", "loss=5% run=4KiB", &client, &server);
    FAILS(pinnace_write(client, "x", 1) >= 0, ENOTSUP, "stream");
    FAILS(pinnace_read(server, NULL, 0, 0) >= 0, ENOTSUP, "stream");
    FAILS(pinnace_send(server, "x", 1) == 0, ENOTSUP, "one");
    /* Left open: the exit closes them. */
    puts("every error was told");
    return 0;
}
