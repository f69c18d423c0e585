/* Whatever is passed, the call says what is wrong with it. */
#include "a1_common.h"

static char data[100];

static void numbers(void) {
    static const int wrong[] = {-1, 0, 1, 2, 1000000, 0x7fffffff, -0x7fffffff - 1};
    struct a1_qos qos = reliable();
    struct a1_buffer *buffer;
    uint64_t addr;
    uint32_t status;
    size_t at;
    for (at = 0; at < sizeof wrong / sizeof *wrong; at++) {
        int s = wrong[at];
        IS(a1_bind(s, 0, &qos), -EBADF);
        IS(a1_set_link(s, 1000000, 10000), -EBADF);
        IS(a1_name(s, &addr), -EBADF);
        IS(a1_listen(s, 1), -EBADF);
        IS(a1_accept(s, &addr, 0, &status), -EBADF);
        IS(a1_add_sink(s, NEAR | 1, &qos, &status), -EBADF);
        IS(a1_remove_sink(s, NEAR | 1), -EBADF);
        IS(a1_send(s, data, 1, 0, &status), -EBADF);
        IS(a1_recv(s, data, 1, 0, &status), -EBADF);
        IS(a1_recv_buffer(s, &buffer, 0, &status), -EBADF);
        IS(a1_setqos(s, &qos, &status), -EBADF);
        IS(a1_getqos(s, &qos), -EBADF);
        IS(a1_rtt(s, &status), -EBADF);
        IS(a1_close(s, 0), -EBADF);
        IS(a1_fd(s), -EBADF);
    }
}

/* A socket that is nothing yet. */
static void fresh(void) {
    struct a1_qos qos = reliable();
    struct a1_buffer *buffer;
    uint64_t addr;
    uint32_t status;
    int s = a1_socket(), fd = a1_fd(s);
    CHECK(s >= 0 && fd >= 0 && !is_readable(fd, 0));
    IS(a1_name(s, &addr), -EINVAL);
    IS(a1_listen(s, 1), -EINVAL);
    IS(a1_accept(s, NULL, 0, NULL), -EINVAL);
    IS(a1_add_sink(s, NEAR | 1, &qos, &status), -EINVAL);
    IS(a1_remove_sink(s, NEAR | 1), -EINVAL);
    IS(a1_send(s, data, 1, 0, &status), -ENOTCONN);
    IS(a1_recv(s, data, 1, 0, &status), -ENOTCONN);
    IS(a1_recv_buffer(s, &buffer, 0, &status), -ENOTCONN);
    IS(a1_setqos(s, &qos, &status), -ENOTCONN);
    IS(a1_getqos(s, &qos), -EINVAL);
    IS(a1_rtt(s, &status), -ENOTCONN);
    IS(a1_bind(s, 0, NULL), -EFAULT);
    IS(a1_bind(s, NEAR | 65536, &qos), -EINVAL);
    IS(a1_bind(s, (uint64_t)0xF0000077 << 32, &qos), -EADDRNOTAVAIL);
    IS(a1_bind(s, (uint64_t)0x08080808 << 32, &qos), -EADDRNOTAVAIL);
    qos.options = 8;
    IS(a1_bind(s, NEAR, &qos), -EINVAL);
    qos = reliable();
    qos.reserved = 1;
    IS(a1_bind(s, NEAR, &qos), -EINVAL);
    qos = reliable();
    qos.block_size = 65476;
    IS(a1_bind(s, NEAR, &qos), -EINVAL);
    qos.block_size = 1;
    qos.outstanding = 2;
    IS(a1_bind(s, NEAR, &qos), -EINVAL);
    memset(&qos, 0xff, sizeof qos);
    IS(a1_bind(s, NEAR, &qos), -EINVAL);
    qos = reliable();
    IS(a1_bind(s, NEAR, &qos), 0);
    IS(a1_bind(s, NEAR, &qos), -EINVAL);
    IS(a1_close(s, 0), 0);
    IS(a1_close(s, 0), -EBADF);
    IS(a1_send(s, data, 1, 0, &status), -EBADF);
}

static void bound_ones(void) {
    struct a1_qos qos = reliable(), other = raw();
    uint64_t there, here;
    uint32_t status = 99;
    int listener = listening(qos, &there), s = bound(qos), twin = a1_socket(), c;
    IS(a1_bind(twin, there, &qos), -EADDRINUSE);
    IS(a1_listen(listener, 1), -EADDRINUSE);
    IS(a1_accept(s, NULL, 0, NULL), -EINVAL);
    IS(a1_accept(listener, NULL, 2, NULL), -EINVAL);
    IS(a1_name(s, NULL), -EFAULT);
    IS(a1_name(s, &here), 0);
    IS(a1_getqos(s, NULL), -EFAULT);
    IS(a1_rtt(s, NULL), -ENOTCONN);
    IS(a1_add_sink(s, there, NULL, &status), -EFAULT);
    IS(a1_add_sink(s, 0, &qos, &status), -EINVAL);
    IS(a1_add_sink(s, NEAR, &qos, &status), -EINVAL);
    IS(a1_add_sink(s, (uint64_t)(uint32_t)there, &qos, &status), -EINVAL);
    IS(a1_add_sink(s, NEAR | 65536, &qos, &status), -EINVAL);
    IS(a1_add_sink(s, (uint64_t)0xF0000077 << 32 | 1, &qos, &status), -EHOSTUNREACH);
    IS(a1_remove_sink(s, there), -ENOENT);
    IS(a1_add_sink(s, there, &qos, NULL), 0);
    c = a1_accept(listener, NULL, 0, NULL);
    CHECK(c >= 0);
    /* Nobody listens at `here`; the one that listens wants retransmission. */
    IS(a1_bind(twin, NEAR, &other), 0);
    IS(a1_add_sink(twin, here, &other, &status), -ECONNREFUSED);
    CHECK(!(status & (A1_START | A1_END)));
    IS(a1_add_sink(twin, there, &other, NULL), -ECONNREFUSED);
    IS(a1_send(twin, data, 1, 0, &status), -ENOTCONN);
    IS(a1_close(twin, 0), 0);

    IS(a1_bind(c, NEAR, &qos), -EINVAL);
    IS(a1_listen(c, 1), -EINVAL);
    IS(a1_accept(c, NULL, 0, NULL), -EINVAL);
    IS(a1_add_sink(c, there, &qos, NULL), -EINVAL);
    IS(a1_remove_sink(c, there), -EINVAL);
    IS(a1_send(s, NULL, 1, 0, &status), -EFAULT);
    IS(a1_send(s, data, 1, 4, NULL), -EINVAL);
    IS(a1_send(s, data, SIZE_MAX, 0, NULL), -EMSGSIZE);
    {
        static char large[(1 << 20) + 1];
        IS(a1_send(s, large, sizeof large, 0, NULL), -EMSGSIZE);
        IS(a1_send(c, large, sizeof large, 0, NULL), -EMSGSIZE);
    }
    IS(a1_recv(c, NULL, 1, 0, &status), -EFAULT);
    IS(a1_recv(c, data, 0, 0, &status), -EINVAL);
    IS(a1_recv(c, data, SIZE_MAX, 0, &status), -EINVAL);
    IS(a1_recv(c, data, 1, -1, &status), -EINVAL);
    IS(a1_recv_buffer(c, NULL, 0, NULL), -EFAULT);
    IS(a1_setqos(s, NULL, NULL), -EFAULT);
    IS(a1_setqos(c, NULL, NULL), -EFAULT);
    IS(a1_rtt(s, NULL), -EFAULT);
    /* Nobody wants a status. */
    IS(a1_send(s, data, 3, 0, NULL), 3);
    IS(a1_recv(c, data, sizeof data, 0, NULL), 3);
    IS(a1_send(c, data, 2, 0, NULL), 2);
    IS(a1_recv(s, data, sizeof data, 0, NULL), 2);
    IS(a1_setqos(c, &qos, NULL), 0);
    IS(a1_close(s, 1000), 0);
    IS(a1_close(c, 1000), 0);
    IS(a1_close(c, 1000), -EBADF);
    IS(a1_close(listener, 0), 0);
}

static void hosts(void) {
    struct a1_qos qos = reliable();
    struct sockaddr_in6 to;
    uint64_t here, peer;
    int listener, s, c;
    memset(&to, 0, sizeof to);
    IS(a1_map_host(0xF0000001, NULL), -EFAULT);
    IS(a1_map_host(0xF0000001, &to), -EAFNOSUPPORT);
    to.sin6_family = AF_INET6;
    to.sin6_addr = in6addr_loopback;
    IS(a1_map_host(INADDR_LOOPBACK, &to), -EINVAL);
    IS(a1_map_host(0xF0000001, &to), 0);
    /* All addresses of both families. */
    listener = a1_socket();
    IS(a1_bind(listener, 0, &qos), 0);
    IS(a1_listen(listener, 0), 0);
    IS(a1_name(listener, &here), 0);
    CHECK(here >> 32 == 0 && here > 0);
    s = bound(qos);
    IS(a1_add_sink(s, NEAR | here, &qos, NULL), 0);
    c = a1_accept(listener, &peer, 0, NULL);
    CHECK(c >= 0 && peer >> 32 == INADDR_LOOPBACK);
    IS(a1_close(s, 1000), 0);
    IS(a1_close(c, 1000), 0);
    s = a1_socket();
    if (a1_bind(s, (uint64_t)0xF0000001 << 32, &qos) == 0) {
        IS(a1_add_sink(s, (uint64_t)0xF0000001 << 32 | here, &qos, NULL), 0);
        c = a1_accept(listener, &peer, 0, NULL);
        CHECK(c >= 0 && peer >> 32 == 0xF0000001);
        IS(a1_name(s, &here), 0);
        CHECK(peer == here);
        IS(a1_send(c, "six", 3, 0, NULL), 3);
        IS(a1_recv(s, data, sizeof data, 0, NULL), 3);
        IS(a1_close(c, 1000), 0);
    } else {
        puts("(this host has no IPv6)");
    }
    IS(a1_close(s, 1000), 0);
    IS(a1_close(listener, 0), 0);
}

static void *receive(void *argument) {
    uint32_t status = 0;
    ssize_t size = a1_recv(*(int *)argument, data, sizeof data, 0, &status);
    CHECK(size <= 0);
    return NULL;
}

/* Somebody waits on a socket that is closed; a process dies, another has forked. */
static void ends(void) {
    struct a1_qos qos = reliable();
    int pairs[2], number, status;
    pthread_t thread;
    pid_t child;
    uint64_t there;
    uint32_t bits;
    for (number = 0; number < 2; number++) {
        pair(qos, pairs);
        CHECK(pthread_create(&thread, NULL, receive, &pairs[number]) == 0);
        pause_ms(50);
        a1_close(pairs[number], 1000);
        pthread_join(thread, NULL);
        a1_close(pairs[1 - number], 1000);
    }
    pair(qos, pairs);
    child = fork();
    if (child == 0) {
        IS(a1_send(pairs[0], data, 1, 0, NULL), -EBADF);
        IS(a1_close(pairs[1], 0), -EBADF);
        number = bound(qos);
        CHECK(number != pairs[0] && number != pairs[1]);
        exit(0);
    }
    CHECK(child_succeeded(child));
    IS(a1_send(pairs[0], data, 1, 0, NULL), 1);
    IS(a1_recv(pairs[1], data, 1, 0, NULL), 1);
    IS(a1_close(pairs[0], 1000), 0);
    IS(a1_close(pairs[1], 1000), 0);
    /* A process that exits without a word has said everything. */
    number = listening(qos, &there);
    child = fork();
    if (child == 0) {
        int s = bound(qos), message;
        IS(a1_add_sink(s, there, &qos, NULL), 0);
        for (message = 0; message < 10; message++) {
            static char large[1 << 20];
            IS(a1_send(s, large, sizeof large, 0, NULL), sizeof large);
        }
        exit(0);
    }
    pairs[1] = a1_accept(number, NULL, 0, NULL);
    for (status = 0; status < 10; status++) {
        struct a1_buffer *buffer;
        IS(a1_recv_buffer(pairs[1], &buffer, 0, NULL), 1 << 20);
        a1_free_buffer(buffer);
    }
    IS(a1_recv(pairs[1], data, 1, 0, &bits), 0);
    CHECK(bits & A1_PEER_CLOSED);
    CHECK(child_succeeded(child));
    IS(a1_close(pairs[1], 1000), 0);
    IS(a1_close(number, 0), 0);
}

int main(void) {
    numbers();
    fresh();
    bound_ones();
    hosts();
    ends();
    puts("every error was told");
    return 0;
}
