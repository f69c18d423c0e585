/* What is not to be touched, and what is not to be believed. */
#include "harness.h"
#include <net/if.h>
#include <sched.h>

static socklen_t unix_name(struct sockaddr_un *out, const char *name)
{
    memset(out, 0, sizeof *out);
    out->sun_family = AF_UNIX;
    size_t len = strlen(name);
    CHECK(len < sizeof out->sun_path);
    memcpy(out->sun_path + 1, name, len);
    return offsetof(struct sockaddr_un, sun_path) + 1 + len;
}

static void nobody(void)
{
    CHECK(setgid(65534) == 0 && setuid(65534) == 0);
}

/* Calls that are none of this library's business. */
static void others(void)
{
    int one = socket(AF_INET, SOCK_DGRAM, 0), other = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) }, from;
    socklen_t len = sizeof at;
    char bytes[8];
    CHECK(bind(one, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(getsockname(one, (struct sockaddr *)&at, &len) == 0);
    CHECK(sendto(other, "datagram", 8, 0, (struct sockaddr *)&at, sizeof at) == 8);
    len = sizeof from;
    CHECK(recvfrom(one, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &len) == 8);
    CHECK(len == sizeof from && from.sin_family == AF_INET && from.sin_port != 0);
    CHECK(connect(other, (struct sockaddr *)&at, sizeof at) == 0 && below(other) == AF_INET);
    CHECK(send(other, "again", 5, 0) == 5);
    struct iovec part = { bytes, sizeof bytes };
    struct mmsghdr many = { .msg_hdr = { .msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part, .msg_iovlen = 1 } };
    CHECK(recvmmsg(one, &many, 1, 0, NULL) == 1 && many.msg_len == 5 && many.msg_hdr.msg_namelen == sizeof from);

    struct sockaddr_un name, seen;
    char text[64];
    snprintf(text, sizeof text, "somebody-else/%d", getpid());
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    len = unix_name(&name, text);
    CHECK(bind(listener, (struct sockaddr *)&name, len) == 0 && listen(listener, 4) == 0);
    FAILS(setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one), EOPNOTSUPP);
    CHECK(connect(client, (struct sockaddr *)&name, len) == 0);
    socklen_t seen_len = sizeof seen;
    int accepted = accept(listener, (struct sockaddr *)&seen, &seen_len);
    CHECK(accepted >= 0 && seen.sun_family == AF_UNIX && seen_len == sizeof(sa_family_t));
    seen_len = sizeof seen;
    CHECK(getpeername(client, (struct sockaddr *)&seen, &seen_len) == 0);
    CHECK(seen_len == len && memcmp(&seen, &name, len) == 0);
    int value;
    len = sizeof value;
    CHECK(getsockopt(client, SOL_SOCKET, SO_DOMAIN, &value, &len) == 0 && value == AF_UNIX);
    CHECK(sendto(client, "x", 1, 0, (struct sockaddr *)&name, sizeof name) == -1 && errno == EISCONN);

    FAILS(connect(-1, (struct sockaddr *)&at, sizeof at), EBADF);
    FAILS(connect(0, (struct sockaddr *)&at, sizeof at), ENOTSOCK);
    FAILS(listen(-1, 1), EBADF);
    FAILS(accept(-1, NULL, NULL), EBADF);
    int epoll = epoll_create1(0), pipes[2];
    FAILS(accept(epoll, NULL, NULL), ENOTSOCK);
    FAILS(listen(epoll, 1), ENOTSOCK);
    CHECK(pipe(pipes) == 0);
    CHECK(dup2(pipes[0], 99) == 99 && close(99) == 0);
    FAILS(close(99), EBADF);
    /* Not connected yet, and a family that does not fit. */
    int fresh = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in6 wide = { .sin6_family = AF_INET6, .sin6_port = htons(1), .sin6_addr = in6addr_loopback };
    FAILS(connect(fresh, (struct sockaddr *)&wide, sizeof wide), EAFNOSUPPORT);
    FAILS(connect(fresh, (struct sockaddr *)&at, 4), EINVAL);
    len = sizeof seen;
    FAILS(getpeername(fresh, (struct sockaddr *)&seen, &len), ENOTCONN);
    FAILS(accept(fresh, NULL, NULL), EINVAL);
}

/* Nobody listens. */
static void refused(void)
{
    int fd = bound(0), at = port(fd), fresh = socket(family(), SOCK_STREAM, 0);
    struct sockaddr_storage to;
    socklen_t len = address(&to, at, 0);
    FAILS(connect(fresh, (struct sockaddr *)&to, len), ECONNREFUSED);
    CHECK(close(fresh) == 0);
    fresh = socket(family(), SOCK_STREAM | SOCK_NONBLOCK, 0);
    int value = connect(fresh, (struct sockaddr *)&to, len);
    CHECK(value == -1 && (errno == EINPROGRESS || errno == ECONNREFUSED));
    if (errno == EINPROGRESS) {
        struct pollfd one = { .fd = fresh, .events = POLLOUT };
        CHECK(poll(&one, 1, PATIENCE) == 1);
        len = sizeof value;
        CHECK(getsockopt(fresh, SOL_SOCKET, SO_ERROR, &value, &len) == 0 && value == ECONNREFUSED);
    }
}

/* Too few descriptors for more than TCP: TCP. */
static void poor(void)
{
    int listener = bound(0);
    struct rlimit limit = { listener + 2, listener + 2 };
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(listen(listener, 4) == 0);
    CHECK(below(listener) == family());
    int fd = dial(port(listener));
    CHECK(below(fd) == family());
    FAILS(accept(listener, NULL, NULL), EMFILE);
    CHECK(close(fd) == 0);
    CHECK(accept(listener, NULL, NULL) >= 0);
}

/* A client that goes behind the library's back, with a name of its own choice. */
static int pretend(const char *own, const char *to)
{
    struct sockaddr_un name;
    int fd = syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0);
    socklen_t len = unix_name(&name, own);
    if (*own)
        CHECK(syscall(SYS_bind, fd, &name, len) == 0);
    len = unix_name(&name, to);
    CHECK(syscall(SYS_connect, fd, &name, len) == 0);
    return fd;
}

/* Names that nobody is entitled to are not believed; whoever has them is closed. */
static void liars(void)
{
    int listener = bound(SOCK_NONBLOCK), at;
    CHECK(listen(listener, 16) == 0);
    at = port(listener);
    char to[64], own[108];
    snprintf(to, sizeof to, "pinnace/1L4/127.0.0.1:%d", at);
    if (fork() == 0) {
        if (getuid() == 0)
            nobody();
        const char *const names[] = {
            "",                              "pinnace/1C4/8.8.8.8:40001>127.0.0.1:%d",
            "hello",                         "pinnace/1C4/127.0.0.1:22>127.0.0.1:%d",
            "pinnace/1C4/127.0.0.1:40001>127.0.0.1:1", "pinnace/1C6/[::1]:40001>[::1]:%d",
            "pinnace/2C4/127.0.0.1:40002>127.0.0.1:%d", "pinnace/1L4/127.0.0.1:7",
            "pinnace/1C4/127.0.0.1:40003>8.8.8.8:%d",
        };
        for (size_t index = 0; index < sizeof names / sizeof *names; index++) {
            snprintf(own, sizeof own, names[index], at);
            int fd = pretend(own, to);
            char byte;
            CHECK(syscall(SYS_read, fd, &byte, 1) == 0 || errno == ECONNRESET);
        }
        if (getuid() == 65534) {
            snprintf(own, sizeof own, "pinnace/1R4/9.9.9.9:40001>127.0.0.1:%d", at);
            char byte;
            CHECK(syscall(SYS_read, pretend(own, to), &byte, 1) == 0);
        }
        _exit(0);
    }
    int status, reaped = 0;
    while (!reaped) {
        FAILS(accept(listener, NULL, NULL), EAGAIN);
        reaped = waitpid(-1, &status, WNOHANG) > 0;
        usleep(1000);
    }
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    FAILS(accept(listener, NULL, NULL), EAGAIN);
    /* Root and the listener's own user hand over connections from elsewhere. */
    snprintf(own, sizeof own, "pinnace/1R4/192.0.2.9:40001>192.0.2.1:%d", at);
    int fd = dial(at), taken = take(listener);
    CHECK(below(fd) == AF_UNIX && below(taken) == AF_UNIX);
    struct sockaddr_in peer;
    socklen_t len = sizeof peer;
    CHECK(getpeername(taken, (struct sockaddr *)&peer, &len) == 0 && peer.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
}

/* Those who are not believed come in such numbers that there are always some: neither TCP nor the program waits for the last. */
static void horde(void)
{
    enum { HORDE = 300 };
    int listener = bound(SOCK_NONBLOCK), aborted = 0, fd;
    CHECK(listen(listener, 2 * HORDE) == 0);
    char to[64];
    snprintf(to, sizeof to, "pinnace/1L4/127.0.0.1:%d", port(listener));
    for (int index = 0; index < HORDE; index++)
        CHECK(close(pretend("", to)) == 0);
    int last = dial(port(listener));
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port(listener)) };
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int by_tcp = syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
    CHECK(syscall(SYS_connect, by_tcp, &at, sizeof at) == 0);
    CHECK((fd = accept(listener, NULL, NULL)) >= 0 && below(fd) == AF_INET);
    /* Not that nobody is there: behind them somebody is. */
    while ((fd = accept(listener, NULL, NULL)) == -1) {
        CHECK(errno == ECONNABORTED);
        aborted++;
    }
    CHECK(aborted > 1 && below(fd) == AF_UNIX);
    put(last, "honest", 6);
    want(fd, "honest");
    FAILS(accept(listener, NULL, NULL), EAGAIN);
}

/* A TCP listener that has nothing to do with the library, and a name beside it. */
static void squatter(int same_owner, int expected)
{
    int pipes[2], at;
    CHECK(pipe(pipes) == 0);
    int listener = syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
    if (!same_owner) {
        struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        CHECK(syscall(SYS_bind, listener, &here, sizeof here) == 0 && syscall(SYS_listen, listener, 4) == 0);
    }
    pid_t child = fork();
    if (child == 0) {
        nobody();
        struct sockaddr_un name;
        char text[64];
        if (same_owner) {
            struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
            listener = syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
            CHECK(syscall(SYS_bind, listener, &here, sizeof here) == 0 && syscall(SYS_listen, listener, 4) == 0);
        }
        at = port(listener);
        snprintf(text, sizeof text, "pinnace/1L4/127.0.0.1:%d", at);
        int fd = syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0);
        socklen_t len = unix_name(&name, text);
        CHECK(syscall(SYS_bind, fd, &name, len) == 0 && syscall(SYS_listen, fd, 4) == 0);
        put(pipes[1], &at, sizeof at);
        pause();
        _exit(1);
    }
    get(pipes[0], &at, sizeof at);
    CHECK(below(dial(at)) == expected);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
}

/* Whoever gives up its rights and listens once more leaves the name to whose it was. */
static void heir(void)
{
    struct ucred owner;
    socklen_t len = sizeof owner;
    int listener = bound(0);
    CHECK(listen(listener, 4) == 0);
    nobody();
    CHECK(listen(listener, 8) == 0);
    int fd = dial(port(listener));
    CHECK(below(fd) == AF_UNIX && syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &owner, &len) == 0);
    CHECK(owner.uid == 0 && accept(listener, NULL, NULL) >= 0);
}

static void squatters(void)
{
    if (getuid() != 0) {
        printf("skipped: only root can be two users\n");
        return;
    }
    squatter(0, AF_INET);
    squatter(1, AF_UNIX);
    heir();
}

/* A host of its own, with an address that is not a loopback one. */
static void another_host(const char *address)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq request = { .ifr_name = "lo:1" };
    struct sockaddr_in at = { .sin_family = AF_INET };
    CHECK(inet_pton(AF_INET, address, &at.sin_addr) == 1);
    memcpy(&request.ifr_addr, &at, sizeof at);
    CHECK(ioctl(fd, SIOCSIFADDR, &request) == 0);
    struct ifreq up = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
    CHECK(ioctl(fd, SIOCSIFFLAGS, &up) == 0);
    CHECK(close(fd) == 0);
}

/* The last descriptor is the connection's own: none is left to ask whether its addresses are this host's. */
static void crowded(void)
{
    if (getuid() != 0 || unshare(CLONE_NEWNET) != 0) {
        printf("skipped: only root makes network namespaces\n");
        return;
    }
    another_host("10.98.7.6");
    struct sockaddr_in at = { .sin_family = AF_INET };
    int listener = socket(AF_INET, SOCK_STREAM, 0), last = -1, fd;
    CHECK(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 4) == 0);
    int to = port(listener);
    if (fork() == 0) {
        fd = socket(AF_INET, SOCK_STREAM, 0);
        at.sin_port = htons(to);
        CHECK(inet_pton(AF_INET, "10.98.7.6", &at.sin_addr) == 1);
        CHECK(connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
        want(fd, "room");
        _exit(0);
    }
    struct rlimit limit = { 60, 1000 };
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    while ((fd = dup(2)) >= 0)
        last = fd;
    CHECK(errno == EMFILE && last >= 0 && close(last) == 0);
    alarm(10);
    fd = accept(listener, NULL, NULL);
    CHECK(fd == last);
    put(fd, "room", 4);
    reap(1);
}

static int registered(int fd)
{
    int epoll = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN | EPOLLOUT, .data.fd = fd };
    CHECK(epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
    return epoll;
}

static void is_registered(int epoll, int fd)
{
    struct epoll_event event;
    CHECK(epoll_wait(epoll, &event, 1, PATIENCE) == 1 && event.data.fd == fd && (event.events & EPOLLOUT));
    event.events = EPOLLIN;
    CHECK(epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event) == 0);
}

static int fresh(int high)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0);
    if (!high)
        return fd;
    int moved = fcntl(fd, F_DUPFD, high);
    CHECK(moved >= high && close(fd) == 0);
    return moved;
}

static void come(int fd, int to)
{
    struct sockaddr_storage at;
    socklen_t len = address(&at, to, 0);
    CHECK(connect(fd, (struct sockaddr *)&at, len) == 0 || errno == EINPROGRESS);
}

/* Whoever waits for a socket before it is connected is told, also where the kernel does not say who waits. */
static void waiters(void)
{
    int listener = bound(0), to = port(listener), fd = fresh(0);
    CHECK(listen(listener, 16) == 0);
    int one = registered(fd), other = registered(fd);
    come(fd, to);
    is_registered(one, fd);
    is_registered(other, fd);
    /* In one of them no more. */
    fd = fresh(0);
    one = registered(fd);
    other = registered(fd);
    CHECK(epoll_ctl(one, EPOLL_CTL_DEL, fd, NULL) == 0);
    come(fd, to);
    is_registered(other, fd);
    fd = fresh(0);
    one = registered(fd);
    other = dup(one);
    CHECK(close(one) == 0);
    come(fd, to);
    is_registered(other, fd);
    struct rlimit limit = { 70000, 70000 };
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0) {
        fd = fresh(66000);
        one = registered(fd);
        come(fd, to);
        is_registered(one, fd);
        int high = fcntl(bound(0), F_DUPFD, 66000);
        one = epoll_create1(0);
        struct epoll_event event = { .events = EPOLLIN, .data.fd = high };
        CHECK(epoll_ctl(one, EPOLL_CTL_ADD, high, &event) == 0 && listen(high, 4) == 0);
        come(fresh(0), port(high));
        do
            CHECK(epoll_wait(one, &event, 1, PATIENCE) == 1 && event.data.fd == high);
        while (!(event.events & EPOLLIN));
        CHECK(accept(high, NULL, NULL) >= 0);
    } else {
        printf("skipped: no descriptors above 65535 here\n");
    }
    fd = fresh(0);
    one = registered(fd);
    /* No /proc there. */
    if (getuid() != 0 || chroot("/dev") != 0) {
        printf("skipped: only root changes its root\n");
        return;
    }
    come(fd, to);
    is_registered(one, fd);
}

/* How often this process has read something. */
static long reads(void)
{
    char text[512] = "", *found;
    int fd = open("/proc/self/io", O_RDONLY);
    if (fd < 0)
        return 0;
    CHECK(read(fd, text, sizeof text - 1) > 0 && close(fd) == 0);
    found = strstr(text, "syscr: ");
    return found ? atol(found + 7) : 0;
}

static void expect_event(int epoll, uint64_t data)
{
    struct epoll_event event;
    CHECK(epoll_wait(epoll, &event, 1, PATIENCE) == 1 && event.data.u64 == data && (event.events & EPOLLOUT));
}

/* To be waited for among many costs a connection no more than to be waited for alone, and is as it was set at last. */
static void many(void)
{
    enum { MANY = 900 };
    int listener = bound(0), to = port(listener), epoll = epoll_create1(0), pipes[2], fd;
    uint64_t high = (uint64_t)7 << 40;
    struct rlimit limit = { 4096, 4096 };
    setrlimit(RLIMIT_NOFILE, &limit);
    CHECK(listen(listener, 64) == 0 && pipe(pipes) == 0);
    for (int index = 0; index < MANY; index++) {
        struct epoll_event event = { .events = EPOLLIN, .data.u64 = 1 };
        CHECK((fd = dup(pipes[0])) >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
    }
    struct epoll_event first = { .events = EPOLLIN, .data.u64 = 2 }, then = { .events = EPOLLOUT, .data.u64 = high };
    fd = fresh(0);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &first) == 0 && epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &then) == 0);
    long before = reads();
    come(fd, to);
    CHECK(reads() - before < 8);
    expect_event(epoll, high);
    CHECK(close(fd) == 0);
    /* An event that comes once has come: it is not set again. */
    then.events = EPOLLOUT | EPOLLONESHOT;
    fd = fresh(0);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &then) == 0);
    expect_event(epoll, high);
    come(fd, to);
    CHECK(epoll_wait(epoll, &first, 1, 50) == 0);
    then.events = EPOLLOUT;
    CHECK(epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &then) == 0);
    expect_event(epoll, high);
    CHECK(close(fd) == 0);
    /* Another instance has the number now. */
    int gone = epoll_create1(0), again;
    fd = fresh(0);
    CHECK(epoll_ctl(gone, EPOLL_CTL_ADD, fd, &then) == 0 && close(gone) == 0 && (again = epoll_create1(0)) == gone);
    come(fd, to);
    CHECK(epoll_wait(again, &first, 1, 50) == 0);
    CHECK(epoll_ctl(again, EPOLL_CTL_ADD, fd, &then) == 0);
    expect_event(again, high);
    /* A child changes what its parent has set. */
    fd = fresh(0);
    CHECK(epoll_ctl(again, EPOLL_CTL_ADD, fd, &then) == 0);
    if (fork() == 0) {
        then.data.u64 = 5;
        CHECK(epoll_ctl(again, EPOLL_CTL_MOD, fd, &then) == 0);
        _exit(0);
    }
    reap(1);
    come(fd, to);
    int seen = 0;
    for (int round = 0; round < 10; round++) {
        struct epoll_event events[2];
        for (int count = epoll_wait(again, events, 2, 1000); count > 0; count--)
            seen |= events[count - 1].data.u64 == 5;
    }
    CHECK(seen);
}

/* What the library says goes where it went at first, and never into a file of the application's. */
static void words(void)
{
    enum { LISTENER = 40, FILE_OF_MINE = 41, OTHERS = 42 };
    int listener = bound(0), file = memfd_create("file", 0);
    struct stat facts;
    CHECK(listen(listener, 4) == 0 && dup2(listener, LISTENER) == LISTENER && dup2(file, FILE_OF_MINE) == FILE_OF_MINE);
    for (int fd = OTHERS; fd < 1024; fd++)
        close(fd);
    CHECK(close_range(OTHERS, ~0u, 0) == 0);
    CHECK(dup2(FILE_OF_MINE, 896) == 896);
    CHECK(below(dial(port(LISTENER))) == AF_UNIX);
    /* Now behind the library's back. */
    for (int fd = OTHERS; fd < 1024; fd++)
        syscall(SYS_close, fd);
    for (int fd = 890; fd < 910; fd++)
        CHECK(syscall(SYS_dup3, FILE_OF_MINE, fd, 0) == fd);
    CHECK(listen(bound(0), 4) == 0);
    CHECK(fstat(FILE_OF_MINE, &facts) == 0 && facts.st_size == 0);
}

/* libuv closes what it has by a system call of its own: when the number is given again its port is free. */
static void unheard(void)
{
    int listener = bound(0), at = port(listener);
    CHECK(listen(listener, 4) == 0);
    CHECK(syscall(SYS_close, listener) == 0);
    int again = socket(family(), SOCK_STREAM, 0), one = 1;
    CHECK(again == listener);
    CHECK(setsockopt(again, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    struct sockaddr_storage to;
    socklen_t len = address(&to, at, 0);
    CHECK(bind(again, (struct sockaddr *)&to, len) == 0 && listen(again, 4) == 0);
    int fd = dial(at);
    CHECK(accept(again, NULL, NULL) >= 0 && close(fd) == 0);
}

enum { WAYS = 6 };

static int delay;

/* Stands for the companion: gives streams to another host, of which every other one is cut off after a few bytes. */
static void give(int control, int round)
{
    struct sockaddr_un name;
    char text[108], line[256];
    int asked = accept(control, NULL, NULL);
    CHECK(asked >= 0 && recv(asked, line, sizeof line, 0) > 0 && memcmp(line, "1 CONNECT 4 192.0.2.1:7", 23) == 0);
    usleep(delay);
    snprintf(text, sizeof text, "pinnace/1R4/192.0.2.9:%d>192.0.2.1:7", 40000 + round);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), own = socket(AF_UNIX, SOCK_STREAM, 0);
    socklen_t len = unix_name(&name, text);
    CHECK(bind(listener, (struct sockaddr *)&name, len) == 0 && listen(listener, 1) == 0);
    CHECK(syscall(SYS_connect, own, &name, len) == 0);
    int theirs = syscall(SYS_accept, listener, NULL, NULL);
    CHECK(theirs >= 0);
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } with = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
    memcpy(CMSG_DATA(&with.header), &theirs, sizeof theirs);
    struct iovec part = { "OK", 2 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &with, .msg_controllen = sizeof with };
    CHECK(sendmsg(asked, &message, 0) == 2);
    put(own, "bytes", 5);
    if (round % 2 == 0) {
        snprintf(text, sizeof text, "pinnace/1E/%d-%d", getpid(), round);
        len = unix_name(&name, text);
        CHECK(bind(own, (struct sockaddr *)&name, len) == 0);
    }
    CHECK(close(own) == 0 && close(theirs) == 0 && close(listener) == 0 && close(asked) == 0);
}

/* The same descriptor, as another process would receive it. */
static int passed(int fd)
{
    int pair[2];
    char byte;
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } with = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
    memcpy(CMSG_DATA(&with.header), &fd, sizeof fd);
    struct iovec part = { "x", 1 }, room = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &with, .msg_controllen = sizeof with };
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && sendmsg(pair[0], &message, 0) == 1 && close(fd) == 0);
    message.msg_iov = &room;
    CHECK(recvmsg(pair[1], &message, 0) == 1 && message.msg_controllen >= CMSG_LEN(sizeof(int)));
    memcpy(&fd, CMSG_DATA(&with.header), sizeof fd);
    CHECK(close(pair[0]) == 0 && close(pair[1]) == 0);
    return fd;
}

static void tick(int number)
{
    (void)number;
}

/* Signals come while the companion is asked. */
static void interrupted(void)
{
    struct sockaddr_un name;
    int control = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    socklen_t len = unix_name(&name, getenv("PINNACE_COMPANION"));
    CHECK(bind(control, (struct sockaddr *)&name, len) == 0 && listen(control, 4) == 0);
    if (fork() == 0) {
        delay = 200000;
        give(control, 0);
        _exit(0);
    }
    struct sigaction action = { .sa_handler = tick, .sa_flags = SA_RESTART };
    struct itimerval often = { { 0, 10000 }, { 0, 10000 } }, never = { { 0, 0 }, { 0, 0 } };
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(7) };
    CHECK(inet_pton(AF_INET, "192.0.2.1", &to.sin_addr) == 1);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0 && below(fd) == AF_UNIX);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    reap(1);
}

/* A companion that hears nobody keeps nobody waiting for long: there is TCP. */
static void deaf(void)
{
    struct sockaddr_un name;
    int control = socket(AF_UNIX, SOCK_SEQPACKET, 0), callers[8], count = 0;
    socklen_t len = unix_name(&name, getenv("PINNACE_COMPANION"));
    CHECK(bind(control, (struct sockaddr *)&name, len) == 0 && listen(control, 0) == 0);
    do
        callers[count] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    while (syscall(SYS_connect, callers[count++], &name, len) == 0 && count < 8);
    CHECK(count < 8 && errno == EAGAIN);
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(7) };
    CHECK(inet_pton(AF_INET, "192.0.2.1", &to.sin_addr) == 1);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == -1 && below(fd) == AF_INET);
}

/* The end of a stream from another host is an end only if the companion says so; otherwise it has died. */
static void ends(void)
{
    struct sockaddr_un name;
    int control = socket(AF_UNIX, SOCK_SEQPACKET, 0), pipes[2];
    socklen_t len = unix_name(&name, getenv("PINNACE_COMPANION"));
    CHECK(bind(control, (struct sockaddr *)&name, len) == 0 && listen(control, 4) == 0 && pipe(pipes) == 0);
    if (fork() == 0) {
        alarm(20);
        for (int round = 0; round < 2 * WAYS; round++)
            give(control, round);
        _exit(0);
    }
    for (int round = 0; round < 2 * WAYS; round++) {
        struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(7) };
        CHECK(inet_pton(AF_INET, "192.0.2.1", &to.sin_addr) == 1);
        int fd = socket(AF_INET, SOCK_STREAM, 0), way = round / 2, is_cut = round % 2, pair[2];
        CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0 && below(fd) == AF_UNIX);
        char bytes[2][5];
        struct iovec parts[2] = { { bytes[0], 5 }, { bytes[1], 5 } };
        struct mmsghdr many[2] = { { .msg_hdr = { .msg_iov = parts, .msg_iovlen = 1 } },
                                   { .msg_hdr = { .msg_iov = parts + 1, .msg_iovlen = 1 } } };
        ssize_t got = 0;
        /* No end, as nothing is asked for. */
        struct iovec empty[2] = { { bytes, 0 }, { bytes, 0 } };
        struct mmsghdr nothing = { .msg_hdr = { .msg_iov = empty, .msg_iovlen = 2 } };
        CHECK(readv(fd, empty, 2) == 0 && recvmsg(fd, &nothing.msg_hdr, 0) == 0);
        CHECK(recvmmsg(fd, &nothing, 1, 0, NULL) == 1 && nothing.msg_len == 0);
        errno = 0;
        if (way == 0) {
            want(fd, "bytes");
            got = read(fd, bytes, 1);
        } else if (way == 1) {
            want(fd, "bytes");
            got = recvmsg(fd, &many[0].msg_hdr, 0);
        } else if (way == 2) {
            CHECK(recvmmsg(fd, many, 2, 0, NULL) == (is_cut ? 1 : 2) && many[0].msg_len == 5);
            got = recvmmsg(fd, many, 1, 0, NULL) == 1 ? (ssize_t)many[0].msg_len : -1;
        } else if (way == 3) {
            CHECK(splice(fd, NULL, pipes[1], NULL, 100, 0) == 5);
            got = splice(fd, NULL, pipes[1], NULL, 100, 0);
        } else if (way == 4) {
            fd = passed(fd);
            want(fd, "bytes");
            got = read(fd, bytes, 1);
        } else {
            /* What the application ends itself is no reset, whoever looks. */
            int copy = dup(fd);
            want(fd, "bytes");
            CHECK(shutdown(fd, SHUT_RDWR) == 0);
            end(fd);
            end(copy);
            CHECK(close(copy) == 0);
            is_cut = 0;
        }
        CHECK(is_cut ? got == -1 && errno == ECONNRESET : got == 0);
        CHECK(close(fd) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
        /* Whatever has the number next ends as it ever did. */
        CHECK(pair[0] == fd && close(pair[1]) == 0);
        end(pair[0]);
        CHECK(close(pair[0]) == 0);
    }
    reap(1);
}

/* A port that this process listens at. */
static int listening(int level, int option, const void *value, socklen_t size, int *at)
{
    int fd = bound(0);
    if (value != NULL && setsockopt(fd, level, option, value, size) != 0)
        return close(fd), -1;
    CHECK(listen(fd, 4) == 0);
    *at = port(fd);
    return fd;
}

#define MD5_OF_ANY_PEER 32 /* TCP_MD5SIG_EXT */

/* What chooses a route, guards a connection or counts buffers is TCP's; an option that says nothing is not. */
static void routes(void)
{
    struct tcp_md5sig key = { .tcpm_keylen = 3, .tcpm_key = "key", .tcpm_flags = TCP_MD5SIG_FLAG_PREFIX };
    ((struct sockaddr_in *)&key.tcpm_addr)->sin_family = AF_INET;
    int one = 1, mark = 7, zero = 0, hops = 1, at, keyed;
    const struct {
        int level, name;
        const void *value;
        socklen_t size;
        int is_tcp;
    } options[] = {
        { SOL_SOCKET, SO_BINDTODEVICE, "lo", 3, 1 }, { SOL_SOCKET, SO_BINDTODEVICE, "", 0, 0 },
        { SOL_SOCKET, SO_MARK, &mark, sizeof mark, 1 }, { SOL_SOCKET, SO_MARK, &zero, sizeof zero, 0 },
        { IPPROTO_IP, IP_TRANSPARENT, &one, sizeof one, 1 }, { IPPROTO_IP, IP_MINTTL, &hops, sizeof hops, 1 },
        { SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one, 1 },
        { IPPROTO_TCP, MD5_OF_ANY_PEER, &key, sizeof key, 1 },
    };
    int plain = listening(0, 0, NULL, 0, &at), made = below(plain) == -1;
    for (size_t index = 0; index < sizeof options / sizeof *options; index++) {
        int level = options[index].level, name = options[index].name;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (setsockopt(fd, level, name, options[index].value, options[index].size) != 0) {
            /* Not root's, or not this kernel's. */
            CHECK(close(fd) == 0);
            continue;
        }
        struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(at) };
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0 || errno == EINPROGRESS);
        if ((below(fd) == AF_INET) != (options[index].is_tcp || !made)) {
            fprintf(stderr, "option %zu of a client\n", index);
            CHECK(!"its way");
        }
        CHECK(close(fd) == 0);
        fd = listening(level, name, options[index].value, options[index].size, &keyed);
        if ((below(fd) == AF_INET) != (options[index].is_tcp || !made)) {
            fprintf(stderr, "option %zu of a listener\n", index);
            CHECK(!"its way");
        }
        CHECK(close(fd) == 0);
    }
    /* Too late: it is refused, and not forgotten. */
    if (made)
        FAILS(setsockopt(plain, IPPROTO_TCP, MD5_OF_ANY_PEER, &key, sizeof key), ENOPROTOOPT);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    { "others", others }, { "refused", refused },     { "poor", poor },
    { "liars", liars },   { "horde", horde },         { "squatters", squatters },
    { "ends", ends },
    { "routes", routes },
    { "interrupted", interrupted },
    { "deaf", deaf },
    { "crowded", crowded },
    { "waiters", waiters },
    { "many", many },
    { "words", words },
    { "unheard", unheard },
};

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    alarm(60);
    for (size_t index = 0; argc > 1 && index < sizeof cases / sizeof *cases; index++) {
        if (strcmp(argv[1], cases[index].name) == 0) {
            cases[index].run();
            return 0;
        }
    }
    return 2;
}
