/* The number of a socket in the system's own poll and epoll, and two threads that wait for one socket. */
#include "qmp_common.h"
#include <sys/epoll.h>

static int readable(int fd, int timeout) {
    struct pollfd entry;
    entry.fd = fd;
    entry.events = POLLIN;
    return poll(&entry, 1, timeout) == 1;
}

static int woken;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *wait_for(void *fd) {
    CHECK(events_of(*(int *)fd, POLLIN, 20000) & POLLIN);
    pthread_mutex_lock(&lock);
    woken++;
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(void) {
    int ends[2], port, listener = listening(&port), set = epoll_create1(EPOLL_CLOEXEC), round, at;
    struct sockaddr_in there = loopback(port);
    struct epoll_event event;
    pthread_t threads[8];
    char data[100];
    /* Before the socket has anything to do: registrations stay. */
    int client = qmp_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(client >= 0 && set >= 0);
    memset(&event, 0, sizeof event);
    event.events = EPOLLIN;
    event.data.fd = client;
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, client, &event) == 0);
    CHECK(qmp_fcntl(listener, F_SETFL, O_NONBLOCK) == 0);
    while (readable(listener, 0)) {
        FAILS(qmp_accept(listener, NULL, NULL), EAGAIN);
    }
    FAILS(qmp_connect(client, (struct sockaddr *)&there, sizeof there), EINPROGRESS);
    CHECK(readable(listener, 20000));
    ends[1] = qmp_accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    CHECK(ends[1] >= 0 && !readable(listener, 0));
    while (qmp_connect(client, (struct sockaddr *)&there, sizeof there) != 0) {
        CHECK(errno == EALREADY);
        CHECK(epoll_wait(set, &event, 1, 20000) == 1 && event.data.fd == client);
    }
    for (round = 0; round < 100; round++) {
        ssize_t size = 0;
        while ((size = qmp_recv(client, data, sizeof data, 0)) < 0 && errno == EAGAIN) {
            CHECK(qmp_send(ends[1], "ahoy", 4, 0) == 4);
            CHECK(epoll_wait(set, &event, 1, 20000) == 1);
        }
        CHECK(size > 0);
    }
    /* Nothing is there, and the number says so, once everybody has looked. */
    while (qmp_recv(client, data, sizeof data, 0) > 0)
        ;
    CHECK(errno == EAGAIN);
    for (round = 0; readable(client, 50); round++) {
        CHECK(round < 100);
        FAILS(qmp_recv(client, data, sizeof data, 0), EAGAIN);
    }
    /* Something is left, and the number says so. */
    CHECK(qmp_send(ends[1], "ahoy", 4, 0) == 4);
    CHECK(readable(client, 20000));
    while (qmp_recv(client, data, 1, 0) != 1)
        CHECK(errno == EAGAIN && readable(client, 20000));
    CHECK(readable(client, 0));
    CHECK(qmp_recv(client, data, 3, MSG_WAITALL) == 3);
    /* Eight threads wait for the same byte, and none is forgotten. */
    for (at = 0; at < 8; at++)
        CHECK(pthread_create(&threads[at], NULL, wait_for, &client) == 0);
    pause_ms(100);
    CHECK(qmp_send(ends[1], "!", 1, 0) == 1);
    for (at = 0; at < 8; at++)
        CHECK(pthread_join(threads[at], NULL) == 0);
    CHECK(woken == 8 && readable(client, 0));
    /* They use no time while they wait. */
    CHECK(qmp_recv(client, data, sizeof data, 0) == 1);
    for (at = 0; at < 8; at++)
        CHECK(pthread_create(&threads[at], NULL, wait_for, &client) == 0);
    pause_ms(50);
    {
        clock_t before = clock();
        pause_ms(300);
        CHECK(clock() - before < CLOCKS_PER_SEC / 5);
    }
    CHECK(qmp_close(ends[1]) == 0);
    for (at = 0; at < 8; at++)
        CHECK(pthread_join(threads[at], NULL) == 0);
    CHECK((events_of(client, POLLIN, 20000) & POLLIN) && qmp_recv(client, data, 1, 0) == 0);
    CHECK(qmp_close(client) == 0 && qmp_close(listener) == 0);
    printf("poll and epoll understand the number\n");
    return 0;
}
