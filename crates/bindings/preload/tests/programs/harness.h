/* Both ends of a test: `PROGRAM CASE server` prints its port, `PROGRAM CASE client PORT` connects to it.
 *
 * PINNACE_EXPECT says what a connection has to be underneath (unix or tcp): the bare system call is asked, which no
 * library replaces. PINNACE_FAMILY is 4, 6, or mapped (an IPv6 listener for all, and a client that comes by IPv4).
 */
#ifndef HARNESS_H
#define HARNESS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: %s (errno %d: %s)\n", file, line, what, errno, strerror(errno));
    _exit(1);
}

#define CHECK(condition) do { if (!(condition)) fail(__FILE__, __LINE__, #condition); } while (0)
#define FAILS(call, error) do { errno = 0; CHECK((call) == -1 && errno == (error)); } while (0)

/* How long what has to come is waited for, in milliseconds: more than a busy machine needs, and less than the alarm. */
enum { PATIENCE = 30000 };

struct side {
    const char *name;
    void (*server)(int listener, int port);
    void (*client)(int port);
};

static inline const char *setting(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value ? value : otherwise;
}

static inline int family(void)
{
    return strcmp(setting("PINNACE_FAMILY", "4"), "4") == 0 ? AF_INET : AF_INET6;
}

static inline socklen_t address(struct sockaddr_storage *out, int port, int any)
{
    memset(out, 0, sizeof *out);
    if (family() == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)out;
        in->sin_family = AF_INET;
        in->sin_port = htons(port);
        in->sin_addr.s_addr = htonl(any ? INADDR_ANY : INADDR_LOOPBACK);
        return sizeof *in;
    }
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(port);
    if (any)
        in6->sin6_addr = in6addr_any;
    else if (strcmp(setting("PINNACE_FAMILY", "4"), "mapped") == 0)
        CHECK(inet_pton(AF_INET6, "::ffff:127.0.0.1", &in6->sin6_addr) == 1);
    else
        in6->sin6_addr = in6addr_loopback;
    return sizeof *in6;
}

static inline int is_any(void)
{
    return strcmp(setting("PINNACE_FAMILY", "4"), "mapped") == 0 || getenv("PINNACE_ANY") != NULL;
}

static inline int bound(int type)
{
    struct sockaddr_storage at;
    int fd = socket(family(), SOCK_STREAM | type, 0), one = 1;
    CHECK(fd >= 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    socklen_t len = address(&at, 0, is_any());
    CHECK(bind(fd, (struct sockaddr *)&at, len) == 0);
    return fd;
}

static inline int port_of(const struct sockaddr_storage *at)
{
    return ntohs(at->ss_family == AF_INET ? ((const struct sockaddr_in *)at)->sin_port
                                          : ((const struct sockaddr_in6 *)at)->sin6_port);
}

static inline int port(int fd)
{
    struct sockaddr_storage at;
    socklen_t len = sizeof at;
    CHECK(getsockname(fd, (struct sockaddr *)&at, &len) == 0);
    CHECK(at.ss_family == family());
    return port_of(&at);
}

/* What a descriptor is underneath. */
static inline int below(int fd)
{
    struct sockaddr_storage at;
    socklen_t len = sizeof at;
    if (syscall(SYS_getsockname, fd, &at, &len) != 0)
        return -1;
    return at.ss_family;
}

static inline void expect_way(int fd)
{
    const char *expected = setting("PINNACE_EXPECT", "any");
    if (strcmp(expected, "unix") == 0)
        CHECK(below(fd) == AF_UNIX);
    if (strcmp(expected, "tcp") == 0)
        CHECK(below(fd) == family());
}

static inline int expects_unix(void)
{
    return strcmp(setting("PINNACE_EXPECT", "any"), "unix") == 0;
}

static inline int dial(int to)
{
    struct sockaddr_storage at;
    socklen_t len = address(&at, to, 0);
    int fd = socket(family(), SOCK_STREAM, 0);
    CHECK(fd >= 0);
    errno = 7777;
    CHECK(connect(fd, (struct sockaddr *)&at, len) == 0);
    CHECK(errno == 7777);
    expect_way(fd);
    return fd;
}

static inline int take(int listener)
{
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    expect_way(fd);
    return fd;
}

static inline void put(int fd, const void *bytes, size_t len)
{
    while (len > 0) {
        ssize_t count = write(fd, bytes, len);
        CHECK(count > 0);
        bytes = (const char *)bytes + count;
        len -= count;
    }
}

static inline void get(int fd, void *bytes, size_t len)
{
    while (len > 0) {
        ssize_t count = read(fd, bytes, len);
        CHECK(count > 0);
        bytes = (char *)bytes + count;
        len -= count;
    }
}

static inline void want(int fd, const char *text)
{
    char buffer[256];
    size_t len = strlen(text);
    CHECK(len <= sizeof buffer);
    get(fd, buffer, len);
    CHECK(memcmp(buffer, text, len) == 0);
}

static inline void end(int fd)
{
    char byte;
    CHECK(read(fd, &byte, 1) == 0);
}

static inline double now(void)
{
    struct timespec time;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static inline void block(int fd, int on)
{
    int flags = fcntl(fd, F_GETFL);
    CHECK(flags >= 0);
    CHECK(fcntl(fd, F_SETFL, on ? flags & ~O_NONBLOCK : flags | O_NONBLOCK) == 0);
}

static inline void reap(int count)
{
    while (count-- > 0) {
        int status;
        CHECK(wait(&status) > 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

/* Says the port, only once both the listener and whatever the case needs is there. */
static inline void ready(int at)
{
    printf("%d\n", at);
    CHECK(fflush(stdout) == 0);
}

static inline int harness(int argc, char **argv, const struct side *sides, size_t count)
{
    CHECK(argc >= 3);
    signal(SIGPIPE, SIG_IGN);
    alarm(60);
    for (size_t index = 0; index < count; index++) {
        if (strcmp(argv[1], sides[index].name) != 0)
            continue;
        if (strcmp(argv[2], "client") == 0) {
            sides[index].client(atoi(argv[3]));
        } else {
            int listener = bound(0), one = 1;
            /* What is inherited has to be there before anybody can connect. */
            CHECK(setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
            CHECK(setsockopt(listener, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one) == 0);
            int interval = 33, timeout = 44444;
            CHECK(setsockopt(listener, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval) == 0);
            CHECK(setsockopt(listener, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout) == 0);
            CHECK(listen(listener, 64) == 0);
            ready(port(listener));
            sides[index].server(listener, port(listener));
        }
        return 0;
    }
    fprintf(stderr, "no such case: %s\n", argv[1]);
    return 2;
}

#define HARNESS(sides) \
    int main(int argc, char **argv) { return harness(argc, argv, sides, sizeof sides / sizeof *sides); }

#endif
