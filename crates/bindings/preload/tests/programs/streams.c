/* What a connection does: bytes, ends, flags, addresses. */
#include "harness.h"

static void names_of(int fd, int peer_port, int own_port)
{
    struct sockaddr_storage own, peer;
    socklen_t len = sizeof own;
    CHECK(getsockname(fd, (struct sockaddr *)&own, &len) == 0);
    CHECK(own.ss_family == family());
    CHECK(len == (family() == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)));
    len = sizeof peer;
    CHECK(getpeername(fd, (struct sockaddr *)&peer, &len) == 0);
    CHECK(peer.ss_family == family());
    struct sockaddr_storage here;
    len = address(&here, own_port ? own_port : port_of(&own), 0);
    CHECK(memcmp(&own, &here, len) == 0);
    len = address(&here, peer_port ? peer_port : port_of(&peer), 0);
    CHECK(memcmp(&peer, &here, len) == 0);
    CHECK(port_of(&own) != 0 && port_of(&peer) != 0 && port_of(&own) != port_of(&peer));
    /* Cut as the kernel cuts. */
    char cut[4];
    len = sizeof cut;
    CHECK(getpeername(fd, (struct sockaddr *)cut, &len) == 0);
    CHECK(len > sizeof cut && memcmp(cut, &peer, sizeof cut) == 0);
    int value;
    len = sizeof value;
    CHECK(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &value, &len) == 0 && value == family() && len == sizeof value);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &len) == 0 && value == SOCK_STREAM);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &value, &len) == 0 && value == IPPROTO_TCP);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &len) == 0 && value == 0);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &len) == 0 && value == 0);
    struct stat facts;
    CHECK(fstat(fd, &facts) == 0 && S_ISSOCK(facts.st_mode));
}

static void names_server(int listener, int at)
{
    struct sockaddr_storage peer, asked;
    socklen_t len = sizeof peer, asked_len = sizeof asked;
    int fd = accept(listener, (struct sockaddr *)&peer, &len);
    CHECK(fd >= 0);
    expect_way(fd);
    names_of(fd, 0, at);
    CHECK(getpeername(fd, (struct sockaddr *)&asked, &asked_len) == 0);
    CHECK(asked_len == len && memcmp(&asked, &peer, len) == 0);
    int value;
    len = sizeof value;
    CHECK(getsockopt(listener, SOL_SOCKET, SO_ACCEPTCONN, &value, &len) == 0 && value == 1);
    CHECK(getsockopt(listener, SOL_SOCKET, SO_TYPE, &value, &len) == 0 && value == SOCK_STREAM);
    CHECK(getsockopt(listener, SOL_SOCKET, SO_DOMAIN, &value, &len) == 0 && value == family());
    CHECK(getsockopt(listener, SOL_SOCKET, SO_PROTOCOL, &value, &len) == 0 && value == IPPROTO_TCP);
    struct stat facts;
    CHECK(fstat(listener, &facts) == 0 && S_ISSOCK(facts.st_mode));
    len = sizeof peer;
    FAILS(getpeername(listener, (struct sockaddr *)&peer, &len), ENOTCONN);
    len = address(&peer, 0, 0);
    FAILS(bind(listener, (struct sockaddr *)&peer, len), EINVAL);
    /* Both ends say the same of each other. */
    int theirs = port_of(&asked);
    put(fd, &theirs, sizeof theirs);
    end(fd);
    names_of(fd, 0, at);
}

static void names_client(int to)
{
    int fd = dial(to), seen;
    names_of(fd, to, 0);
    get(fd, &seen, sizeof seen);
    CHECK(seen == port(fd));
    struct sockaddr_storage at;
    socklen_t len = address(&at, to, 0);
    FAILS(connect(fd, (struct sockaddr *)&at, len), EISCONN);
    len = 2;
    FAILS(getsockname(fd, NULL, NULL), EFAULT);
}

/* A port that the client chose is the one that the server sees. */
static void chosen_server(int listener, int at)
{
    (void)at;
    int fd = take(listener), theirs;
    get(fd, &theirs, sizeof theirs);
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    CHECK(getpeername(fd, (struct sockaddr *)&peer, &len) == 0);
    CHECK(port_of(&peer) == theirs);
    put(fd, "x", 1);
}

static void chosen_client(int to)
{
    struct sockaddr_storage at;
    int fd = bound(0), mine = port(fd);
    socklen_t len = address(&at, to, 0);
    CHECK(connect(fd, (struct sockaddr *)&at, len) == 0);
    expect_way(fd);
    CHECK(port(fd) == mine);
    put(fd, &mine, sizeof mine);
    want(fd, "x");
}

static void options_of(int fd)
{
    int value, one = 1, zero = 0;
    socklen_t len = sizeof value;
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &len) == 0 && value != 0 && len == sizeof value);
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &zero, sizeof zero) == 0);
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &len) == 0 && value == 0);
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &one, sizeof one) == 0);
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &zero, sizeof zero) == 0);
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof one) == 0);
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &value, &len) == 0 && value > 500);
    int idle = 321, interval = 12, count = 5;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one) == 0);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, &len) == 0 && value == 1);
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &value, &len) == 0 && value == 7200);
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle) == 0);
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval) == 0);
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count) == 0);
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &value, &len) == 0 && value == idle);
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &value, &len) == 0 && value == interval);
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &value, &len) == 0 && value == count);
    FAILS(setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &zero, sizeof zero), EINVAL);
    int timeout = 98765, negative = -1;
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout) == 0);
    FAILS(setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &negative, sizeof negative), EINVAL);
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &len) == 0 && value == timeout);
    FAILS(setsockopt(fd, IPPROTO_TCP, 9999, &one, sizeof one), ENOPROTOOPT);
    FAILS(getsockopt(fd, IPPROTO_TCP, 9999, &value, &len), ENOPROTOOPT);
    char name[16] = "";
    len = sizeof name;
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len) == 0 && name[0] != 0);
    struct tcp_info info;
    len = sizeof info;
    /* A TCP peer may have closed by now. */
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0);
    CHECK(info.tcpi_state == TCP_ESTABLISHED || info.tcpi_state == TCP_CLOSE_WAIT);
    CHECK(info.tcpi_snd_mss > 500);
    len = sizeof value;
    if (family() == AF_INET) {
        int tos = 0x10;
        CHECK(setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof tos) == 0);
        CHECK(getsockopt(fd, IPPROTO_IP, IP_TTL, &value, &len) == 0 && value > 0);
    } else {
        CHECK(getsockopt(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, &value, &len) == 0 && value != 0);
    }
    int size = 40000;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size) == 0);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, &len) == 0 && value >= size);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    unsigned char byte;
    len = sizeof byte;
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &byte, &len) == 0 && len == 1 && byte == 0);
    len = sizeof value;
    FAILS(getsockopt(-1, IPPROTO_TCP, TCP_NODELAY, &value, &len), EBADF);
    FAILS(getsockopt(0, IPPROTO_TCP, TCP_NODELAY, &value, &len), ENOTSOCK);
}

static void options_server(int listener, int at)
{
    (void)at;
    int value;
    socklen_t len = sizeof value;
    int fd = take(listener);
    /* Inherited from the listener (see harness()). */
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &len) == 0 && value != 0);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, &len) == 0 && value == 1);
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &value, &len) == 0 && value == 33);
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &len) == 0 && value == 44444);
    options_of(fd);
    end(fd);
}

static void options_client(int to)
{
    struct sockaddr_storage at;
    socklen_t len = address(&at, to, 0);
    int fd = socket(family(), SOCK_STREAM, 0), one = 1, value;
    struct timeval half = { 0, 500000 }, got;
    struct linger linger = { 1, 3 }, lingers;
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &half, sizeof half) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    CHECK(fcntl(fd, F_SETFD, FD_CLOEXEC) == 0);
    CHECK(connect(fd, (struct sockaddr *)&at, len) == 0);
    expect_way(fd);
    /* Kept across connect(). */
    CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
    len = sizeof value;
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &len) == 0 && value != 0);
    len = sizeof got;
    CHECK(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &got, &len) == 0 && got.tv_usec == half.tv_usec);
    len = sizeof lingers;
    CHECK(getsockopt(fd, SOL_SOCKET, SO_LINGER, &lingers, &len) == 0 && lingers.l_onoff && lingers.l_linger == 3);
    usleep(300000);
    int again = dup(fd);
    len = sizeof value;
    CHECK(getsockopt(again, IPPROTO_TCP, TCP_NODELAY, &value, &len) == 0 && value != 0);
    CHECK(close(again) == 0);
    options_of(fd);
}

static void shutdown_server(int listener, int at)
{
    (void)at;
    int fd = take(listener);
    want(fd, "question");
    end(fd);
    put(fd, "answer", 6);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    FAILS(write(fd, "x", 1), EPIPE);
    FAILS(send(fd, "x", 1, MSG_NOSIGNAL), EPIPE);
}

static void shutdown_client(int to)
{
    int fd = dial(to);
    put(fd, "question", 8);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    want(fd, "answer");
    end(fd);
    end(fd);
    struct pollfd poll_one = { .fd = fd, .events = POLLIN | POLLRDHUP };
    CHECK(poll(&poll_one, 1, PATIENCE) == 1 && (poll_one.revents & POLLIN) && (poll_one.revents & POLLRDHUP));
}

/* Whoever closes with unread bytes resets the connection. */
static void reset_server(int listener, int at)
{
    (void)at;
    int fd = take(listener);
    char byte;
    CHECK(recv(fd, &byte, 1, MSG_PEEK) == 1);
    CHECK(close(fd) == 0);
}

static void reset_client(int to)
{
    int fd = dial(to);
    char byte;
    put(fd, "never read", 10);
    FAILS(read(fd, &byte, 1), ECONNRESET);
    end(fd);
}

/* Linger 0 with bytes that nobody read: a reset, and without delay. */
static void linger_server(int listener, int at)
{
    (void)at;
    int fd = take(listener);
    struct linger linger = { 1, 0 }, got;
    socklen_t len = sizeof got;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_LINGER, &got, &len) == 0 && got.l_onoff == 1 && got.l_linger == 0);
    char byte;
    CHECK(recv(fd, &byte, 1, MSG_PEEK) == 1);
    double begin = now();
    CHECK(close(fd) == 0);
    CHECK(now() - begin < 5);
    /* Linger with time: what was written arrives. */
    fd = take(listener);
    linger.l_linger = 5;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    put(fd, "last words", 10);
    CHECK(close(fd) == 0);
}

static void linger_client(int to)
{
    int fd = dial(to);
    char byte;
    put(fd, "x", 1);
    FAILS(read(fd, &byte, 1), ECONNRESET);
    CHECK(close(fd) == 0);
    fd = dial(to);
    want(fd, "last words");
    end(fd);
}

/* The other end is gone: writing fails sooner or later, with the signal switched off. */
static void gone_server(int listener, int at)
{
    (void)at;
    CHECK(close(take(listener)) == 0);
}

static void gone_client(int to)
{
    int fd = dial(to);
    end(fd);
    for (int count = 0; count < 100; count++) {
        if (write(fd, "x", 1) == -1) {
            CHECK(errno == EPIPE || errno == ECONNRESET);
            return;
        }
        usleep(10000);
    }
    CHECK(!"writing failed");
}

/* The server reads when another connection comes: after a pause it might do so before a slow client has filled all. */
static void timeout_client(int to)
{
    int fd = dial(to);
    struct timeval time = { 0, 200000 };
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
    char byte;
    double begin = now();
    FAILS(recv(fd, &byte, 1, 0), EAGAIN);
    CHECK(now() - begin > 0.15 && now() - begin < 20);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time) == 0);
    static char much[1 << 20];
    begin = now();
    while (send(fd, much, sizeof much, 0) > 0)
        CHECK(now() - begin < 20);
    CHECK(errno == EAGAIN);
    dial(to);
    /* The bytes that are under way: nobody reads them. */
    _exit(0);
}

static void timeout_server(int listener, int at)
{
    (void)at;
    int fd = take(listener);
    CHECK(close(take(listener)) == 0);
    static char bytes[1 << 16];
    while (read(fd, bytes, sizeof bytes) > 0)
        ;
    struct timeval time = { 0, 200000 };
    CHECK(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
    double begin = now();
    FAILS(accept(listener, NULL, NULL), EAGAIN);
    CHECK(now() - begin > 0.15 && now() - begin < 20);
}

static void flags_server(int listener, int at)
{
    (void)at;
    int fd = take(listener), count;
    char bytes[64];
    FAILS(recv(fd, bytes, sizeof bytes, MSG_DONTWAIT), EAGAIN);
    put(fd, "go", 2);
    struct pollfd one = { .fd = fd, .events = POLLIN };
    CHECK(poll(&one, 1, PATIENCE) == 1);
    CHECK(recv(fd, bytes, sizeof bytes, MSG_PEEK) == 4 && memcmp(bytes, "1234", 4) == 0);
    CHECK(ioctl(fd, FIONREAD, &count) == 0 && count == 4);
    put(fd, "go", 2);
    /* The second half comes later. */
    CHECK(recv(fd, bytes, 8, MSG_WAITALL) == 8 && memcmp(bytes, "12345678", 8) == 0);
    CHECK(ioctl(fd, FIONREAD, &count) == 0 && count == 0);
    end(fd);
}

static void flags_client(int to)
{
    int fd = dial(to);
    want(fd, "go");
    put(fd, "1234", 4);
    want(fd, "go");
    usleep(100000);
    put(fd, "5678", 4);
}

/* Calls with addresses, which TCP does not look at. */
static void messages_server(int listener, int at)
{
    (void)at;
    int fd = take(listener);
    char first[8], second[8];
    struct sockaddr_storage from;
    socklen_t len = sizeof from;
    memset(&from, 0x55, sizeof from);
    CHECK(recvfrom(fd, first, 8, MSG_WAITALL, (struct sockaddr *)&from, &len) == 8);
    CHECK(memcmp(first, "sendto.1", 8) == 0 && len == 0);
    struct iovec parts[2] = { { first, 4 }, { second, 4 } };
    struct msghdr message = { .msg_name = &from, .msg_namelen = sizeof from, .msg_iov = parts, .msg_iovlen = 2 };
    CHECK(recvmsg(fd, &message, MSG_WAITALL) == 8);
    CHECK(memcmp(first, "send", 4) == 0 && memcmp(second, "msg2", 4) == 0);
    CHECK(message.msg_namelen == 0 && message.msg_controllen == 0);
    struct mmsghdr many[2];
    memset(many, 0, sizeof many);
    struct iovec one = { first, 8 }, other = { second, 8 };
    many[0].msg_hdr = (struct msghdr){ .msg_iov = &one, .msg_iovlen = 1 };
    many[1].msg_hdr = (struct msghdr){ .msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &other, .msg_iovlen = 1 };
    CHECK(recvmmsg(fd, many, 2, MSG_WAITALL, NULL) == 2);
    CHECK(many[0].msg_len == 8 && many[1].msg_len == 8 && many[1].msg_hdr.msg_namelen == 0);
    CHECK(memcmp(first, "mmsg.one", 8) == 0 && memcmp(second, "mmsg.two", 8) == 0);
    want(fd, "named.1.named.2.");
    end(fd);
}

static void messages_client(int to)
{
    int fd = dial(to);
    struct sockaddr_storage at;
    socklen_t len = address(&at, to, 0);
    CHECK(sendto(fd, "sendto.1", 8, 0, (struct sockaddr *)&at, len) == 8);
    struct iovec parts[2] = { { "send", 4 }, { "msg2", 4 } };
    struct msghdr message = { .msg_name = &at, .msg_namelen = len, .msg_iov = parts, .msg_iovlen = 2 };
    CHECK(sendmsg(fd, &message, 0) == 8);
    struct mmsghdr many[2];
    memset(many, 0, sizeof many);
    struct iovec one = { "mmsg.one", 8 }, other = { "mmsg.two", 8 };
    many[0].msg_hdr = (struct msghdr){ .msg_iov = &one, .msg_iovlen = 1 };
    many[1].msg_hdr = (struct msghdr){ .msg_iov = &other, .msg_iovlen = 1 };
    CHECK(sendmmsg(fd, many, 2, 0) == 2 && many[0].msg_len == 8 && many[1].msg_len == 8);
    struct iovec third = { "named.1.", 8 }, fourth = { "named.2.", 8 };
    many[0].msg_hdr = (struct msghdr){ .msg_name = &at, .msg_namelen = len, .msg_iov = &third, .msg_iovlen = 1 };
    many[1].msg_hdr = (struct msghdr){ .msg_name = &at, .msg_namelen = len, .msg_iov = &fourth, .msg_iovlen = 1 };
    CHECK(sendmmsg(fd, many, 2, 0) == 2 && many[1].msg_len == 8);
}

static struct msghdr with_control(struct iovec *part, void *control, size_t len)
{
    memset(control, 0, len);
    return (struct msghdr){ .msg_iov = part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = len };
}

/* Descriptors do not come with the bytes, whoever sends some. */
static void rights_server(int listener, int at)
{
    (void)at;
    int fd = take(listener), next = dup(fd);
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec part = { &byte, 1 };
    CHECK(close(next) == 0);
    for (int round = 0; round < 3; round++) {
        /* Where there is no room for any as well. */
        struct mmsghdr message = { .msg_hdr = with_control(&part, control, round == 2 ? 0 : sizeof control) };
        if (round == 0)
            CHECK(recvmsg(fd, &message.msg_hdr, 0) == 1);
        else
            CHECK(recvmmsg(fd, &message, 1, 0, NULL) == 1 && message.msg_len == 1);
        CHECK(message.msg_hdr.msg_controllen == 0 && !(message.msg_hdr.msg_flags & MSG_CTRUNC));
        FAILS(fcntl(next, F_GETFD), EBADF);
    }
    put(fd, "done", 4);
    end(fd);
}

static void rights_client(int to)
{
    int fd = dial(to), pipes[2];
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } with;
    struct iovec part = { "x", 1 };
    CHECK(pipe(pipes) == 0);
    for (int round = 0; round < 3; round++) {
        struct msghdr message = with_control(&part, &with, sizeof with);
        with.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(&with.header), pipes + 1, sizeof(int));
        CHECK(sendmsg(fd, &message, 0) == 1);
    }
    want(fd, "done");
    /* Nobody else has it. */
    CHECK(close(pipes[1]) == 0);
    struct pollfd one = { .fd = pipes[0], .events = POLLIN };
    CHECK(poll(&one, 1, 0) == 1 && (one.revents & POLLHUP));
}

/* Connects with the first bytes. */
static void fast_server(int listener, int at)
{
    (void)at;
    int fd = take(listener);
    want(fd, "fast");
    end(fd);
}

static void fast_client(int to)
{
    struct sockaddr_storage at;
    socklen_t len = address(&at, to, 0);
    int fd = socket(family(), SOCK_STREAM, 0);
    CHECK(sendto(fd, "fast", 4, MSG_FASTOPEN, (struct sockaddr *)&at, len) == 4);
    expect_way(fd);
}

enum { MUCH = 8 << 20 };

static unsigned char byte_at(size_t place)
{
    return (unsigned char)(place * 2654435761u >> 13);
}

static void sendfile_server(int listener, int at)
{
    (void)at;
    int fd = take(listener), file = memfd_create("file", 0);
    static unsigned char bytes[MUCH];
    for (size_t place = 0; place < MUCH; place++)
        bytes[place] = byte_at(place);
    put(file, bytes, MUCH);
    off_t offset = 0;
    while (offset < MUCH)
        CHECK(sendfile(fd, file, &offset, MUCH - offset) > 0);
    struct iovec parts[2] = { { "read", 4 }, { "v", 1 } };
    CHECK(writev(fd, parts, 2) == 5);
    CHECK(close(fd) == 0);
}

static void sendfile_client(int to)
{
    int fd = dial(to);
    static unsigned char bytes[MUCH];
    get(fd, bytes, MUCH);
    for (size_t place = 0; place < MUCH; place++)
        CHECK(bytes[place] == byte_at(place));
    char one[3], two[2];
    struct iovec parts[2] = { { one, 3 }, { two, 2 } };
    ssize_t count = readv(fd, parts, 2);
    CHECK(count == 5 && memcmp(one, "rea", 3) == 0 && memcmp(two, "dv", 2) == 0);
    end(fd);
}

/* Says everything before it listens: an echo has to find room for it, as between TCP's buffers. */
enum { AHEAD = 3000000 };

/* Or less, where the system does not allow so much, and we may not pass that. */
static size_t ahead(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), size = AHEAD;
    socklen_t len = sizeof size;
    CHECK(fd >= 0);
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) != 0)
        CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size) == 0);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, &len) == 0 && close(fd) == 0);
    return size / 2;
}

static void ahead_server(int listener, int at)
{
    (void)at;
    int fd = take(listener);
    static char bytes[1 << 16];
    ssize_t count;
    while ((count = read(fd, bytes, sizeof bytes)) > 0)
        put(fd, bytes, count);
    CHECK(count == 0);
}

static void ahead_client(int to)
{
    int fd = dial(to);
    static unsigned char bytes[AHEAD];
    size_t len = ahead();
    CHECK(len <= AHEAD);
    for (size_t place = 0; place < len; place++)
        bytes[place] = byte_at(place);
    put(fd, bytes, len);
    memset(bytes, 0, len);
    get(fd, bytes, len);
    for (size_t place = 0; place < len; place++)
        CHECK(bytes[place] == byte_at(place));
    CHECK(shutdown(fd, SHUT_WR) == 0);
    end(fd);
}

/* Without room for an address its length is not looked at. */
static void nameless_server(int listener, int at)
{
    (void)at;
    socklen_t len = 77;
    for (int visit = 0; visit < 2; visit++) {
        int fd = visit ? accept4(listener, NULL, &len, SOCK_CLOEXEC) : accept(listener, NULL, &len);
        CHECK(fd >= 0 && len == 77);
        expect_way(fd);
        put(fd, "taken", 5);
    }
}

static void nameless_client(int to)
{
    for (int visit = 0; visit < 2; visit++)
        want(dial(to), "taken");
}

/* Bytes that nobody wants: counted, not stored, and there need be no place for them. */
static void discard_server(int listener, int at)
{
    (void)at;
    int fd = take(listener);
    char bytes[8] = "";
    struct pollfd one = { .fd = fd, .events = POLLIN };
    CHECK(poll(&one, 1, PATIENCE) == 1);
    CHECK(recv(fd, NULL, 4, MSG_TRUNC) == 4);
    CHECK(recv(fd, NULL, 100, MSG_TRUNC | MSG_PEEK) == 96);
    CHECK(recvfrom(fd, NULL, 6, MSG_TRUNC, NULL, NULL) == 6);
    struct iovec parts[2] = { { NULL, 5 }, { NULL, 5 } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    CHECK(recvmsg(fd, &message, MSG_TRUNC) == 10 && message.msg_flags == 0);
    want(fd, "1011");
    /* All that is there, and not more. */
    CHECK(recv(fd, NULL, 1 << 20, MSG_TRUNC) == 76);
    FAILS(recv(fd, NULL, 1, MSG_TRUNC | MSG_DONTWAIT), EAGAIN);
    put(fd, "go", 2);
    CHECK(recv(fd, NULL, 100000, MSG_TRUNC | MSG_WAITALL) == 100000);
    CHECK(recv(fd, bytes, 2, MSG_WAITALL) == 2 && memcmp(bytes, "go", 2) == 0);
    CHECK(recv(fd, NULL, 5, MSG_TRUNC) == 0);
}

static void discard_client(int to)
{
    int fd = dial(to);
    char bytes[101];
    for (int number = 0; number < 50; number++)
        snprintf(bytes + 2 * number, 3, "%02d", number);
    put(fd, bytes, 100);
    want(fd, "go");
    for (int count = 0; count < 1000; count++)
        put(fd, bytes, 100);
    put(fd, "go", 2);
}

static int state(int fd)
{
    struct tcp_info info;
    socklen_t len = sizeof info;
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0);
    return info.tcpi_state;
}

/* Looking at more bytes than are there yet, and at the queue of errors. */
static void ahead_of_time_server(int listener, int at)
{
    (void)at;
    int fd = take(listener);
    char bytes[16], control[64];
    struct iovec parts[2] = { { bytes, 3 }, { bytes + 3, 5 } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2, .msg_control = control, .msg_controllen = sizeof control };
    struct pollfd one = { .fd = fd, .events = POLLIN };
    put(fd, "go", 2);
    CHECK(poll(&one, 1, PATIENCE) == 1);
    CHECK(recv(fd, bytes, 8, MSG_PEEK | MSG_WAITALL | MSG_DONTWAIT) == 4);
    /* The second half comes only now, and some time later: on a busy machine it could be there before one looks. */
    put(fd, "go", 2);
    CHECK(recv(fd, bytes, 8, MSG_PEEK | MSG_WAITALL) == 8 && memcmp(bytes, "12345678", 8) == 0);
    FAILS(recvmsg(fd, &message, MSG_ERRQUEUE), EAGAIN);
    FAILS(recv(fd, bytes, 8, MSG_ERRQUEUE), EAGAIN);
    want(fd, "12345678");
    put(fd, "go", 2);
    CHECK(recvmsg(fd, &message, MSG_PEEK | MSG_WAITALL) == 8 && memcmp(bytes, "abcdefgh", 8) == 0);
    want(fd, "abcdefgh");
    CHECK(state(fd) == TCP_ESTABLISHED);
    /* No more come for a while, and then never. */
    struct timeval time = { 0, 200000 };
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
    put(fd, "go", 2);
    CHECK(poll(&one, 1, PATIENCE) == 1);
    double begin = now();
    CHECK(recv(fd, bytes, 8, MSG_PEEK | MSG_WAITALL) == 2);
    CHECK(now() - begin > 0.15 && now() - begin < 20);
    put(fd, "go", 2);
    one.events = POLLRDHUP;
    CHECK(poll(&one, 1, PATIENCE) == 1);
    CHECK(recv(fd, bytes, 8, MSG_PEEK | MSG_WAITALL) == 2 && memcmp(bytes, "xy", 2) == 0);
    want(fd, "xy");
    CHECK(recv(fd, bytes, 8, MSG_PEEK | MSG_WAITALL) == 0);
    CHECK(state(fd) == TCP_CLOSE_WAIT);
}

static void ahead_of_time_client(int to)
{
    int fd = dial(to);
    want(fd, "go");
    put(fd, "1234", 4);
    want(fd, "go");
    usleep(100000);
    put(fd, "5678", 4);
    want(fd, "go");
    put(fd, "abcd", 4);
    usleep(100000);
    put(fd, "efgh", 4);
    want(fd, "go");
    put(fd, "xy", 2);
    want(fd, "go");
    CHECK(shutdown(fd, SHUT_WR) == 0);
    end(fd);
}

static const struct side sides[] = {
    { "names", names_server, names_client },
    { "chosen", chosen_server, chosen_client },
    { "options", options_server, options_client },
    { "shutdown", shutdown_server, shutdown_client },
    { "reset", reset_server, reset_client },
    { "linger", linger_server, linger_client },
    { "gone", gone_server, gone_client },
    { "timeout", timeout_server, timeout_client },
    { "flags", flags_server, flags_client },
    { "messages", messages_server, messages_client },
    { "fast", fast_server, fast_client },
    { "rights", rights_server, rights_client },
    { "sendfile", sendfile_server, sendfile_client },
    { "ahead", ahead_server, ahead_client },
    { "nameless", nameless_server, nameless_client },
    { "discard", discard_server, discard_client },
    { "ahead-of-time", ahead_of_time_server, ahead_of_time_client },
};

HARNESS(sides)
