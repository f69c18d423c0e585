/* What becomes of descriptors: waited for, duplicated, inherited, closed. */
#include "harness.h"

enum { MUCH = 4 << 20 };

static void fill(unsigned char *bytes, size_t len, unsigned seed)
{
    for (size_t place = 0; place < len; place++)
        bytes[place] = (unsigned char)((place + seed) * 2654435761u >> 11);
}

/* Sends all of it and receives as much, whichever is possible; `wait` waits for both. */
static void exchange(int fd, unsigned seed, unsigned other, void (*wait)(int fd, int *in, int *out))
{
    unsigned char *out = malloc(MUCH), *in = malloc(MUCH), *expected = malloc(MUCH);
    CHECK(out && in && expected);
    fill(out, MUCH, seed);
    fill(expected, MUCH, other);
    size_t sent = 0, received = 0;
    block(fd, 0);
    while (sent < MUCH || received < MUCH) {
        int readable = received < MUCH, writable = sent < MUCH;
        wait(fd, &readable, &writable);
        CHECK(readable || writable);
        /* Until it would block: edges come once. */
        while (readable && received < MUCH) {
            ssize_t count = read(fd, in + received, MUCH - received);
            if (count == -1) {
                CHECK(errno == EAGAIN);
                break;
            }
            CHECK(count > 0);
            received += count;
        }
        while (writable && sent < MUCH) {
            ssize_t count = write(fd, out + sent, MUCH - sent);
            if (count == -1) {
                CHECK(errno == EAGAIN);
                break;
            }
            sent += count;
        }
    }
    CHECK(memcmp(in, expected, MUCH) == 0);
    block(fd, 1);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    end(fd);
    free(out);
    free(in);
    free(expected);
}

static void by_poll(int fd, int *in, int *out)
{
    struct pollfd one = { .fd = fd, .events = (*in ? POLLIN : 0) | (*out ? POLLOUT : 0) };
    CHECK(poll(&one, 1, PATIENCE) == 1);
    CHECK(!(one.revents & (POLLERR | POLLNVAL)));
    *in = one.revents & POLLIN;
    *out = one.revents & POLLOUT;
}

static void by_select(int fd, int *in, int *out)
{
    fd_set readable, writable;
    FD_ZERO(&readable);
    FD_ZERO(&writable);
    if (*in)
        FD_SET(fd, &readable);
    if (*out)
        FD_SET(fd, &writable);
    struct timeval limit = { 10, 0 };
    CHECK(select(fd + 1, &readable, &writable, NULL, &limit) >= 1);
    *in = FD_ISSET(fd, &readable);
    *out = FD_ISSET(fd, &writable);
}

static int epoll_of_exchange = -1;
static unsigned edge;

static void by_epoll(int fd, int *in, int *out)
{
    struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | edge, .data.fd = fd };
    if (epoll_of_exchange < 0) {
        epoll_of_exchange = epoll_create1(EPOLL_CLOEXEC);
        CHECK(epoll_ctl(epoll_of_exchange, EPOLL_CTL_ADD, fd, &event) == 0);
    }
    if (!edge) {
        event.events = (*in ? EPOLLIN : 0) | (*out ? EPOLLOUT : 0);
        CHECK(epoll_ctl(epoll_of_exchange, EPOLL_CTL_MOD, fd, &event) == 0);
    }
    CHECK(epoll_wait(epoll_of_exchange, &event, 1, PATIENCE) == 1 && event.data.fd == fd);
    *in = event.events & EPOLLIN;
    *out = event.events & EPOLLOUT;
}

#define EXCHANGE(way, wait, set_edge) \
    static void way##_server(int listener, int at) { (void)at; edge = set_edge; exchange(take(listener), 1, 2, wait); } \
    static void way##_client(int to) { edge = set_edge; exchange(dial(to), 2, 1, wait); }

EXCHANGE(poll, by_poll, 0)
EXCHANGE(select, by_select, 0)
EXCHANGE(level, by_epoll, 0)
EXCHANGE(edge, by_epoll, EPOLLET)

/* Listeners among other descriptors: poll, select, epoll, each before and after there is somebody. */
static void await_server(int listener, int at)
{
    (void)at;
    int control = take(listener);
    for (int way = 0; way < 5; way++) {
        int fd = -1, epoll = epoll_create1(0);
        struct epoll_event event = { .events = EPOLLIN, .data.u64 = 42 };
        if (way == 3)
            event.events |= EPOLLET;
        if (way == 4)
            event.events |= EPOLLEXCLUSIVE;
        CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) == 0);
        FAILS(epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event), EEXIST);
        block(listener, 0);
        FAILS(accept4(listener, NULL, NULL, SOCK_CLOEXEC), EAGAIN);
        struct pollfd one = { .fd = listener, .events = POLLIN };
        CHECK(poll(&one, 1, 0) == 0);
        put(control, "go", 2);
        if (way == 0) {
            CHECK(poll(&one, 1, PATIENCE) == 1 && one.revents == POLLIN);
        } else if (way == 1) {
            fd_set set;
            FD_ZERO(&set);
            FD_SET(listener, &set);
            CHECK(select(listener + 1, &set, NULL, NULL, NULL) == 1 && FD_ISSET(listener, &set));
        } else {
            CHECK(epoll_wait(epoll, &event, 1, PATIENCE) == 1 && event.data.u64 == 42 && event.events == EPOLLIN);
        }
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        CHECK(fd >= 0);
        CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC && (fcntl(fd, F_GETFL) & O_NONBLOCK));
        expect_way(fd);
        FAILS(accept(listener, NULL, NULL), EAGAIN);
        CHECK(poll(&one, 1, 0) == 0);
        CHECK(epoll_ctl(epoll, EPOLL_CTL_DEL, listener, NULL) == 0);
        block(listener, 1);
        block(fd, 1);
        put(fd, "next", 4);
        CHECK(close(fd) == 0 && close(epoll) == 0);
    }
}

static void await_client(int to)
{
    int control = dial(to);
    for (int way = 0; way < 5; way++) {
        /* And a moment later, when the server waits. */
        want(control, "go");
        usleep(50000);
        int fd = dial(to);
        want(fd, "next");
        end(fd);
        CHECK(close(fd) == 0);
    }
}

/* Registered before connect() and before listen(). */
static void early_server(int listener, int at)
{
    (void)at;
    int fresh = bound(0), epoll = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = 0x1122334455667788 };
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fresh, &event) == 0);
    CHECK(listen(fresh, 8) == 0);
    int fd = take(listener), to = port(fresh);
    put(fd, &to, sizeof to);
    do
        CHECK(epoll_wait(epoll, &event, 1, PATIENCE) == 1 && event.data.u64 == 0x1122334455667788);
    while (!(event.events & EPOLLIN));
    CHECK(epoll_ctl(epoll, EPOLL_CTL_MOD, fresh, &event) == 0);
    put(take(fresh), "early", 5);
    end(fd);
    /* It is registered once, and then no more, also for those who come by TCP. */
    struct sockaddr_storage here;
    struct epoll_event events[2];
    socklen_t len = address(&here, to, 0);
    fd = syscall(SYS_socket, family(), SOCK_STREAM, 0);
    CHECK(syscall(SYS_connect, fd, &here, len) == 0);
    CHECK(epoll_wait(epoll, events, 2, PATIENCE) == 1);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_DEL, fresh, NULL) == 0 && epoll_wait(epoll, events, 2, 50) == 0);
}

static void early_client(int to)
{
    int first = dial(to), second = socket(family(), SOCK_STREAM | SOCK_NONBLOCK, 0), epoll = epoll_create1(0);
    struct sockaddr_storage at;
    get(first, &to, sizeof to);
    socklen_t len = address(&at, to, 0);
    struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.u64 = 99 };
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, second, &event) == 0);
    CHECK(connect(second, (struct sockaddr *)&at, len) == 0 || errno == EINPROGRESS);
    for (int done = 0; !done;) {
        CHECK(epoll_wait(epoll, &event, 1, PATIENCE) == 1 && event.data.u64 == 99);
        int error;
        socklen_t size = sizeof error;
        CHECK(getsockopt(second, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0);
        char bytes[8];
        ssize_t count = read(second, bytes, sizeof bytes);
        if (count == -1) {
            CHECK(errno == EAGAIN || errno == ENOTCONN);
        } else if (count > 0) {
            CHECK(count == 5 && memcmp(bytes, "early", 5) == 0);
            done = 1;
        }
    }
    expect_way(second);
    CHECK(fcntl(second, F_GETFL) & O_NONBLOCK);
    /* TCP says once that it is done, if it was not done at once. */
    CHECK(connect(second, (struct sockaddr *)&at, len) == 0 || errno == EISCONN);
    FAILS(connect(second, (struct sockaddr *)&at, len), EISCONN);
}

enum { WORKERS = 4, VISITS = 40 };

/* Several processes take from one listener, as web servers do. */
static void fork_server(int listener, int at)
{
    (void)at;
    block(listener, 0);
    for (int worker = 0; worker < WORKERS; worker++) {
        if (fork() == 0) {
            int epoll = epoll_create1(0);
            struct epoll_event event = { .events = EPOLLIN | EPOLLEXCLUSIVE };
            CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) == 0);
            for (;;) {
                CHECK(epoll_wait(epoll, &event, 1, PATIENCE) == 1);
                int fd = accept(listener, NULL, NULL);
                if (fd == -1) {
                    CHECK(errno == EAGAIN);
                    continue;
                }
                expect_way(fd);
                char byte;
                get(fd, &byte, 1);
                pid_t own = getpid();
                put(fd, &own, sizeof own);
                end(fd);
                CHECK(close(fd) == 0);
                if (byte == 'q')
                    _exit(0);
            }
        }
    }
    CHECK(close(listener) == 0);
    FAILS(close(listener), EBADF);
    reap(WORKERS);
}

static void fork_client(int to)
{
    pid_t seen;
    for (int visit = 0; visit < VISITS + WORKERS; visit++) {
        int fd = dial(to);
        if (visit < 2) {
            /* A child goes on with its parent's connection. */
            if (fork() == 0) {
                put(fd, "x", 1);
                get(fd, &seen, sizeof seen);
                _exit(0);
            }
            reap(1);
        } else {
            put(fd, visit < VISITS ? "x" : "q", 1);
            get(fd, &seen, sizeof seen);
        }
        CHECK(shutdown(fd, SHUT_WR) == 0);
        end(fd);
        CHECK(close(fd) == 0);
    }
}

/* Which TCP socket is behind a listener. A port that it leaves may be anybody's the next moment: it is not looked at. */
static unsigned long behind(int listener)
{
    struct stat facts;
    CHECK(fstat(listener, &facts) == 0 && S_ISSOCK(facts.st_mode));
    return facts.st_ino;
}

/* Whether some process of this host has it, and it listens. */
static int is_there(unsigned long socket)
{
    static const char *const tables[] = { "/proc/net/tcp", "/proc/net/tcp6" };
    int found = 0;
    for (int index = 0; index < 2; index++) {
        FILE *table = fopen(tables[index], "re");
        char line[512];
        unsigned long inode;
        while (table && fgets(line, sizeof line, table))
            found |= sscanf(line, " %*s %*s %*s 0A %*s %*s %*s %*s %*s %lu", &inode) == 1 && inode == socket;
        if (table)
            fclose(table);
    }
    return found;
}

static int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += syscall(SYS_fcntl, fd, F_GETFD) != -1;
    return count;
}

/* The listener lives as long as one of its descriptors, and leaves nothing behind. */
static void dup_server(int listener, int at)
{
    int other = bound(0);
    CHECK(listen(other, 4) == 0 && close(other) == 0);
    int before = open_descriptors();
    unsigned long socket = behind(listener);
    int copies[4];
    copies[0] = dup(listener);
    copies[1] = fcntl(listener, F_DUPFD, 40);
    CHECK(copies[1] >= 40);
    copies[2] = dup2(listener, 77);
    copies[3] = dup3(listener, 78, O_CLOEXEC);
    CHECK(copies[2] == 77 && copies[3] == 78 && dup2(78, 78) == 78);
    CHECK(fcntl(78, F_GETFD) == FD_CLOEXEC && fcntl(77, F_GETFD) == 0);
    CHECK(close(listener) == 0);
    for (int copy = 0; copy < 4; copy++) {
        CHECK(port(copies[copy]) == at);
        int fd = take(copies[copy]);
        put(fd, "copy", 4);
        CHECK(close(fd) == 0);
    }
    CHECK(is_there(socket) && close(copies[0]) == 0 && close(copies[1]) == 0 && close(copies[2]) == 0);
    CHECK(is_there(socket));
    /* The last one is overwritten. */
    int null = open("/dev/null", O_RDONLY);
    CHECK(dup2(null, 78) == 78);
    CHECK(!is_there(socket));
    CHECK(close(null) == 0 && close(78) == 0);
    CHECK(open_descriptors() < before);
    FAILS(accept(78, NULL, NULL), EBADF);
}

static void dup_client(int to)
{
    for (int copy = 0; copy < 4; copy++) {
        int fd = dial(to);
        int other = dup(fd);
        CHECK(close(fd) == 0);
        want(other, "copy");
        end(other);
        CHECK(close(other) == 0);
    }
}

/* A program that is started anew with its listener. */
static void exec_server(int listener, int at)
{
    (void)at;
    char *step = getenv("STEP");
    if (step) {
        int inherited = atoi(getenv("LISTENER"));
        unsigned long socket = behind(inherited);
        put(take(inherited), "after exec", 10);
        /* The one that was closed on exec left no socket behind. */
        CHECK(!is_there(strtoul(getenv("GONE"), NULL, 10)));
        struct epoll_event event = { .events = EPOLLIN | EPOLLEXCLUSIVE };
        CHECK(epoll_ctl(epoll_create1(0), EPOLL_CTL_ADD, inherited, &event) == 0);
        int copy = dup(inherited);
        CHECK(close(inherited) == 0);
        put(take(copy), "and again", 9);
        CHECK(close(copy) == 0);
        CHECK(!is_there(socket));
        return;
    }
    int gone = bound(0), kept = bound(SOCK_CLOEXEC), flagged = bound(0);
    CHECK(listen(gone, 4) == 0 && listen(kept, 4) == 0 && listen(flagged, 4) == 0);
    CHECK(fcntl(gone, F_SETFD, FD_CLOEXEC) == 0);
    CHECK(ioctl(flagged, FIOCLEX) == 0);
    CHECK(fcntl(kept, F_GETFD) == FD_CLOEXEC);
    char text[32];
    snprintf(text, sizeof text, "%lu", behind(gone));
    CHECK(setenv("GONE", text, 1) == 0 && setenv("STEP", "2", 1) == 0);
    snprintf(text, sizeof text, "%d", listener);
    CHECK(setenv("LISTENER", text, 1) == 0);
    int fd = take(listener);
    put(fd, "before exec", 11);
    CHECK(fcntl(fd, F_SETFD, FD_CLOEXEC) == 0);
    CHECK(fflush(stdout) == 0);
    /* The port is said only once. */
    CHECK(dup2(open("/dev/null", O_WRONLY), 1) == 1);
    /* Some mark all that they do not know. */
    for (int other = 3; other < 1024; other++)
        if (other != listener && fcntl(other, F_GETFD) >= 0)
            CHECK(fcntl(other, F_SETFD, FD_CLOEXEC) == 0 && ioctl(other, FIOCLEX) == 0);
    execl("/proc/self/exe", "program", "exec", "server", NULL);
    CHECK(!"exec");
}

static void exec_client(int to)
{
    int fd = dial(to);
    want(fd, "before exec");
    end(fd);
    fd = dial(to);
    want(fd, "after exec");
    fd = dial(to);
    want(fd, "and again");
}

/* A program that is started anew with its listener, and an environment that says nothing of the library. */
static void emptied_server(int listener, int at)
{
    (void)at;
    int step = atoi(setting("STEP", "0")), inherited = step ? atoi(getenv("LISTENER")) : listener;
    char step_text[32], listener_text[32], expect[64], other[64];
    char *environment[] = { step_text, listener_text, expect, other, NULL };
    char *words[] = { "program", "emptied", "server", NULL };
    snprintf(step_text, sizeof step_text, "STEP=%d", step + 1);
    snprintf(listener_text, sizeof listener_text, "LISTENER=%d", inherited);
    snprintf(expect, sizeof expect, "PINNACE_EXPECT=%s", setting("PINNACE_EXPECT", "any"));
    snprintf(other, sizeof other, "PINNACE_FAMILY=%s", setting("PINNACE_FAMILY", "4"));
    CHECK(step == 0 || close(listener) == 0);
    int fd = take(inherited);
    put(fd, &step, sizeof step);
    CHECK(close(fd) == 0);
    /* The port is said only once. */
    CHECK(fflush(stdout) == 0 && dup2(open("/dev/null", O_WRONLY), 1) == 1);
    switch (step) {
    case 0:
        execve("/proc/self/exe", words, environment);
        break;
    case 1:
        environ = environment;
        execvp("/proc/self/exe", words);
        break;
    case 2:
        execvpe("/proc/self/exe", words, environment);
        break;
    case 3:
        CHECK(posix_spawn(&(pid_t){ 0 }, "/proc/self/exe", NULL, NULL, words, environment) == 0);
        reap(1);
        return;
    case 4:
        CHECK(posix_spawnp(&(pid_t){ 0 }, "/proc/self/exe", NULL, NULL, words, environment) == 0);
        reap(1);
        return;
    case 5:
        execle("/proc/self/exe", "program", "emptied", "server", "4", "5", "6", "7", "8", "9", NULL, environment);
        break;
    case 6: {
        /* So many words that some of them were on the stack. */
        static const char expected[] = "program\0emptied\0server\0004\0005\0006\0007\08\09";
        char given[100];
        CHECK(read(open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC), given, sizeof given) == sizeof expected);
        CHECK(memcmp(given, expected, sizeof expected) == 0);
        environ = environment;
        FAILS(execl("/nonexistent", "program", "1", "2", "3", "4", "5", "6", NULL), ENOENT);
        execl("/proc/self/exe", "program", "emptied", "server", NULL);
        break;
    }
    case 7:
        environ = environment;
        execlp("/proc/self/exe", "program", "emptied", "server", NULL);
        break;
    case 8:
        execveat(AT_FDCWD, "/proc/self/exe", words, environment, 0);
        break;
    case 9:
        fexecve(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), words, environment);
        break;
    case 10:
        if (vfork() == 0) {
            execve("/proc/self/exe", words, environment);
            _exit(1);
        }
        reap(1);
        return;
    case 11:
        /* Whoever is given no listener has what it was given. */
        CHECK(fcntl(inherited, F_SETFD, FD_CLOEXEC) == 0);
        char *test[] = { "sh", "-c", "test -z \"$LD_PRELOAD\"", NULL };
        execve("/bin/sh", test, environment);
        break;
    }
    CHECK(!"exec");
}

static void emptied_client(int to)
{
    for (int step = 0; step < 12; step++) {
        int fd = dial(to), got;
        get(fd, &got, sizeof got);
        CHECK(got == step && close(fd) == 0);
    }
}

/* A process that closes everything it does not know, before and after fork. */
static void sweep_server(int listener, int at)
{
    unsigned long socket = behind(listener);
    (void)at;
    if (fork() == 0) {
        for (int fd = listener + 1; fd < 1024; fd++)
            close(fd);
        put(take(listener), "one by one", 10);
        _exit(0);
    }
    reap(1);
    if (fork() == 0) {
        CHECK(close_range(listener + 1, ~0u, 0) == 0);
        put(take(listener), "by range", 8);
        _exit(0);
    }
    reap(1);
    if (fork() == 0) {
        /* Numbers that the library uses are the application's as well. */
        int null = open("/dev/null", O_RDONLY);
        for (int fd = 890; fd < 910; fd++)
            CHECK(dup2(null, fd) == fd);
        put(take(listener), "moved", 5);
        for (int fd = 890; fd < 910; fd++)
            CHECK(close(fd) == 0);
        CHECK(close(listener) == 0);
        _exit(0);
    }
    reap(1);
    if (fork() == 0) {
        closefrom(3);
        _exit(open_descriptors() == 3 ? 0 : 1);
    }
    reap(1);
    CHECK(close_range(listener, listener, 0) == 0);
    FAILS(accept(listener, NULL, NULL), EBADF);
    CHECK(!is_there(socket));
}

static void sweep_client(int to)
{
    want(dial(to), "one by one");
    want(dial(to), "by range");
    want(dial(to), "moved");
}

/* Threads that take and threads that come, at once. */
static int shared_listener, visits;

static void *taker(void *unused)
{
    (void)unused;
    for (;;) {
        int fd = accept(shared_listener, NULL, NULL);
        if (fd == -1) {
            CHECK(errno == EINVAL);
            return NULL;
        }
        expect_way(fd);
        char byte;
        get(fd, &byte, 1);
        put(fd, &byte, 1);
        end(fd);
        CHECK(close(fd) == 0);
        __atomic_fetch_add(&visits, 1, __ATOMIC_SEQ_CST);
    }
}

static void *comer(void *to)
{
    for (int visit = 0; visit < 50; visit++) {
        int fd = dial((int)(intptr_t)to);
        put(fd, "t", 1);
        want(fd, "t");
        CHECK(close(fd) == 0);
    }
    return NULL;
}

static void threads_server(int listener, int at)
{
    (void)at;
    pthread_t takers[4];
    shared_listener = listener;
    for (int index = 0; index < 4; index++)
        CHECK(pthread_create(&takers[index], NULL, taker, NULL) == 0);
    while (__atomic_load_n(&visits, __ATOMIC_SEQ_CST) < 200)
        usleep(1000);
    /* Whoever waits in accept() wakes up. */
    CHECK(shutdown(listener, SHUT_RDWR) == 0);
    for (int index = 0; index < 4; index++)
        CHECK(pthread_join(takers[index], NULL) == 0);
}

static void threads_client(int to)
{
    pthread_t comers[4];
    for (int index = 0; index < 4; index++)
        CHECK(pthread_create(&comers[index], NULL, comer, (void *)(intptr_t)to) == 0);
    for (int index = 0; index < 4; index++)
        CHECK(pthread_join(comers[index], NULL) == 0);
}

static int called = -1;

/* A thread that waits in accept() can be cancelled, and a signal interrupts it as its handler was installed. */
static void on_signal(int number)
{
    (void)number;
    if (called >= 0)
        CHECK(syscall(SYS_write, called, "go", 2) == 2);
}

static void *waiter(void *unused)
{
    (void)unused;
    accept(shared_listener, NULL, NULL);
    return NULL;
}

static void signal_server(int listener, int at)
{
    (void)at;
    int control = take(listener);
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = 0 };
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    /* Again and again: the first may come before anybody waits. */
    struct itimerval often = { { 0, 100000 }, { 0, 100000 } }, once = { { 0, 0 }, { 0, 100000 } };
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    FAILS(accept(listener, NULL, NULL), EINTR);
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    called = control;
    CHECK(setitimer(ITIMER_REAL, &once, NULL) == 0);
    /* The client comes after the signal. */
    put(take(listener), "restarted", 9);
    pthread_t thread;
    void *result;
    shared_listener = listener;
    CHECK(pthread_create(&thread, NULL, waiter, NULL) == 0);
    usleep(100000);
    CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
}

static void signal_client(int to)
{
    int control = dial(to);
    want(control, "go");
    want(dial(to), "restarted");
}

/* A port that several listeners share. */
static void share_server(int listener, int at)
{
    int first = bound(0), one = 1, listeners[3];
    CHECK(setsockopt(first, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) == 0);
    struct sockaddr_storage here;
    (void)at;
    listeners[0] = socket(family(), SOCK_STREAM, 0);
    CHECK(setsockopt(listeners[0], SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) == 0);
    socklen_t len = address(&here, 0, is_any());
    CHECK(bind(listeners[0], (struct sockaddr *)&here, len) == 0 && listen(listeners[0], 64) == 0);
    int shared = port(listeners[0]);
    for (int index = 1; index < 3; index++) {
        listeners[index] = socket(family(), SOCK_STREAM, 0);
        CHECK(setsockopt(listeners[index], SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) == 0);
        len = address(&here, shared, is_any());
        CHECK(bind(listeners[index], (struct sockaddr *)&here, len) == 0 && listen(listeners[index], 64) == 0);
    }
    int control = take(listener), counts[3] = { 0, 0, 0 };
    put(control, &shared, sizeof shared);
    for (int visit = 0; visit < 300; visit++) {
        struct pollfd polled[3];
        for (int index = 0; index < 3; index++)
            polled[index] = (struct pollfd){ .fd = listeners[index], .events = POLLIN };
        CHECK(poll(polled, 3, PATIENCE) >= 1);
        for (int index = 0; index < 3; index++) {
            if (polled[index].revents) {
                int fd = take(listeners[index]);
                put(fd, "s", 1);
                CHECK(close(fd) == 0);
                counts[index]++;
                break;
            }
        }
    }
    /* Each has its third, as far as chance goes. */
    for (int index = 0; index < 3; index++)
        CHECK(counts[index] >= 60);
    end(control);
}

static void share_client(int to)
{
    int control = dial(to), shared;
    get(control, &shared, sizeof shared);
    for (int visit = 0; visit < 300; visit++) {
        int fd = dial(shared);
        want(fd, "s");
        CHECK(close(fd) == 0);
    }
}

/* What survives exec is what has a descriptor that does, whatever became of its duplicates. */
static void flags_server(int listener, int at)
{
    (void)at;
    char *step = getenv("STEP"), text[64];
    if (step) {
        unsigned long gone[3];
        CHECK(sscanf(getenv("GONE"), "%lu %lu %lu", &gone[0], &gone[1], &gone[2]) == 3);
        CHECK(!is_there(gone[0]) && !is_there(gone[1]) && !is_there(gone[2]));
        put(take(atoi(getenv("LISTENER"))), "kept", 4);
        return;
    }
    int kept = bound(SOCK_CLOEXEC), gone[3] = { bound(SOCK_CLOEXEC), bound(SOCK_CLOEXEC), bound(0) };
    CHECK(listen(kept, 4) == 0);
    for (int index = 0; index < 3; index++)
        CHECK(listen(gone[index], 4) == 0);
    int control = take(listener), to = port(kept), copy = dup(kept);
    CHECK(fcntl(control, F_SETFD, FD_CLOEXEC) == 0 && fcntl(copy, F_GETFD) == 0);
    put(control, &to, sizeof to);
    snprintf(text, sizeof text, "%d", copy);
    CHECK(setenv("LISTENER", text, 1) == 0);
    CHECK(close(dup(gone[0])) == 0);
    copy = fcntl(gone[1], F_DUPFD, 0);
    CHECK(dup3(control, copy, O_CLOEXEC) == copy);
    CHECK(syscall(SYS_fcntl, gone[2], F_GETFD) == 0);
    CHECK(close_range(gone[2], gone[2], CLOSE_RANGE_CLOEXEC) == 0);
    snprintf(text, sizeof text, "%lu %lu %lu", behind(gone[0]), behind(gone[1]), behind(gone[2]));
    CHECK(is_there(behind(gone[0])));
    CHECK(setenv("GONE", text, 1) == 0 && setenv("STEP", "2", 1) == 0);
    CHECK(dup2(open("/dev/null", O_WRONLY), 1) == 1);
    execl("/proc/self/exe", "program", "flags", "server", NULL);
    CHECK(!"exec");
}

static void flags_client(int to)
{
    int fd = dial(to);
    get(fd, &to, sizeof to);
    want(dial(to), "kept");
}

/* A listener that exec would close is given to a child, which is made in one step. */
static void spawn_server(int listener, int at)
{
    (void)at;
    if (getenv("STEP")) {
        put(take(99), "spawned", 7);
        return;
    }
    posix_spawn_file_actions_t actions;
    char *words[] = { "program", "spawn", "server", NULL };
    int given = bound(SOCK_CLOEXEC), control = take(listener), to = port(given);
    pid_t child;
    CHECK(listen(given, 4) == 0 && fcntl(control, F_SETFD, FD_CLOEXEC) == 0);
    CHECK(posix_spawn_file_actions_init(&actions) == 0);
    CHECK(posix_spawn_file_actions_adddup2(&actions, given, 99) == 0);
    CHECK(posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0) == 0);
    CHECK(setenv("STEP", "2", 1) == 0);
    CHECK(posix_spawn(&child, "/proc/self/exe", &actions, NULL, words, environ) == 0);
    CHECK(posix_spawn_file_actions_destroy(&actions) == 0 && close(given) == 0);
    put(control, &to, sizeof to);
    reap(1);
}

static void spawn_client(int to)
{
    int fd = dial(to);
    get(fd, &to, sizeof to);
    want(dial(to), "spawned");
}

static void resume(int listener)
{
    CHECK(shutdown(listener, SHUT_WR) == 0 && listen(listener, 64) == 0 && shutdown(listener, SHUT_RD) == 0);
    FAILS(accept(listener, NULL, NULL), EINVAL);
    CHECK(listen(listener, 64) == 0);
    struct pollfd one = { .fd = listener, .events = POLLIN };
    CHECK(poll(&one, 1, 100) == 0);
    for (int round = 0; round < 4; round++)
        FAILS(accept(listener, NULL, NULL), EAGAIN);
}

/* A listener is closed for a while and opened again, alone and while a child has it, too. */
static void pause_server(int listener, int at)
{
    (void)at;
    int control = take(listener), one = 1, to = 0;
    /* A port that the kernel chose would be another one afterwards. Somebody else may be quicker to have it. */
    for (int is_ours = 0; !is_ours;) {
        struct sockaddr_storage here;
        int probe = bound(0);
        socklen_t len = address(&here, to = port(probe), is_any());
        CHECK(close(probe) == 0);
        listener = socket(family(), SOCK_STREAM | SOCK_NONBLOCK, 0);
        CHECK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
        is_ours = bind(listener, (struct sockaddr *)&here, len) == 0 && listen(listener, 64) == 0;
        CHECK(is_ours || (errno == EADDRINUSE && close(listener) == 0));
    }
    put(control, &to, sizeof to);
    pid_t child = 0;
    for (int round = 0; round < 3; round++) {
        resume(listener);
        put(control, "go", 2);
        struct pollfd one = { .fd = listener, .events = POLLIN };
        CHECK(poll(&one, 1, PATIENCE) == 1);
        int fd = take(listener);
        put(fd, "resumed", 7);
        CHECK(close(fd) == 0);
        if (round == 0 && (child = fork()) == 0) {
            pause();
            _exit(0);
        }
    }
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    end(control);
}

static void pause_client(int to)
{
    int control = dial(to);
    get(control, &to, sizeof to);
    for (int round = 0; round < 3; round++) {
        want(control, "go");
        int fd = dial(to);
        want(fd, "resumed");
        CHECK(close(fd) == 0);
    }
}

/* A child that has its parent's memory closes a listener: its own descriptor, and nothing of the parent's. */
static void borrow_server(int listener, int at)
{
    unsigned long socket = behind(getenv("STEP") ? 99 : listener);
    (void)at;
    int pipes[2], null = open("/dev/null", O_WRONLY);
    if (getenv("STEP")) {
        put(take(99), "by a child", 10);
        return;
    }
    CHECK(pipe2(pipes, O_CLOEXEC) == 0);
    pid_t child = vfork();
    if (child == 0) {
        close(listener);
        dup2(pipes[0], 0);
        execlp("cat", "cat", NULL);
        _exit(1);
    }
    CHECK(child > 0 && close(pipes[0]) == 0);
    /* Another one, which passes it on under another number. */
    CHECK(setenv("STEP", "2", 1) == 0 && fcntl(listener, F_SETFD, FD_CLOEXEC) == 0);
    pid_t other = vfork();
    if (other == 0) {
        dup2(listener, 99);
        close(listener);
        dup2(null, 1);
        execl("/proc/self/exe", "program", "borrow", "server", NULL);
        _exit(1);
    }
    int status;
    CHECK(other > 0 && waitpid(other, &status, 0) == other && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(behind(listener) == socket);
    put(take(listener), "still there", 11);
    CHECK(close(listener) == 0);
    /* Neither the parent nor what the child became has it. */
    CHECK(!is_there(socket));
    CHECK(close(pipes[1]) == 0);
    reap(1);
}

static void borrow_client(int to)
{
    want(dial(to), "by a child");
    want(dial(to), "still there");
}

static const struct side sides[] = {
    { "poll", poll_server, poll_client },
    { "select", select_server, select_client },
    { "level", level_server, level_client },
    { "edge", edge_server, edge_client },
    { "await", await_server, await_client },
    { "early", early_server, early_client },
    { "fork", fork_server, fork_client },
    { "dup", dup_server, dup_client },
    { "exec", exec_server, exec_client },
    { "emptied", emptied_server, emptied_client },
    { "sweep", sweep_server, sweep_client },
    { "threads", threads_server, threads_client },
    { "signal", signal_server, signal_client },
    { "share", share_server, share_client },
    { "flags", flags_server, flags_client },
    { "borrow", borrow_server, borrow_client },
    { "pause", pause_server, pause_client },
    { "spawn", spawn_server, spawn_client },
};

HARNESS(sides)
