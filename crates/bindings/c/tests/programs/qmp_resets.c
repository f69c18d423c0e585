/* A reset is told, also by a call that had moved some bytes before it came: then by the next. */
#include "qmp_common.h"

#define LARGE (32 << 20)

/* Closes a socket so that the peer finds a reset. */
static void reset(int fd) {
    struct linger linger = {1, 0};
    CHECK(qmp_setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    CHECK(qmp_close(fd) == 0);
}

static void *reset_soon(void *fd) {
    pause_ms(300);
    reset(*(int *)fd);
    return NULL;
}

int main(void) {
    int ends[2], way;
    char data[1000];
    char *much = (char *)calloc(1, LARGE);
    pthread_t thread;
    CHECK(much != NULL);
    memset(data, 7, sizeof data);
    for (way = 0; way < 2; way++) {
        struct iovec parts[2] = {{data, 50}, {data + 50, 500}};
        struct msghdr message;
        memset(&message, 0, sizeof message);
        message.msg_iov = parts;
        message.msg_iovlen = 2;
        pair(ends);
        CHECK(qmp_send(ends[1], data, 100, 0) == 100);
        CHECK(events_of(ends[0], POLLIN, 20000) == POLLIN);
        CHECK(pthread_create(&thread, NULL, reset_soon, &ends[1]) == 0);
        if (way == 0)
            CHECK(qmp_recv(ends[0], data, sizeof data, MSG_WAITALL) == 100);
        else
            CHECK(qmp_recvmsg(ends[0], &message, MSG_WAITALL) == 100);
        CHECK(pthread_join(thread, NULL) == 0);
        FAILS(qmp_recv(ends[0], data, sizeof data, 0), ECONNRESET);
        CHECK(qmp_recv(ends[0], data, sizeof data, 0) == 0);
        CHECK(qmp_close(ends[0]) == 0);
    }

    /* Told once, by whichever call is next. */
    pair(ends);
    CHECK(qmp_send(ends[1], data, 100, 0) == 100);
    CHECK(events_of(ends[0], POLLIN, 20000) == POLLIN);
    CHECK(pthread_create(&thread, NULL, reset_soon, &ends[1]) == 0);
    CHECK(qmp_recv(ends[0], data, sizeof data, MSG_WAITALL) == 100);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(events_of(ends[0], POLLIN, 20000) & POLLERR);
    CHECK(error_of(ends[0]) == ECONNRESET && error_of(ends[0]) == 0);
    CHECK(!(events_of(ends[0], POLLIN, 0) & POLLERR));
    CHECK(qmp_close(ends[0]) == 0);

    {
        struct iovec parts[2] = {{data, sizeof data}, {much, LARGE}};
        struct msghdr message;
        ssize_t sent;
        memset(&message, 0, sizeof message);
        message.msg_iov = parts;
        message.msg_iovlen = 2;
        pair(ends);
        CHECK(pthread_create(&thread, NULL, reset_soon, &ends[1]) == 0);
        sent = qmp_sendmsg(ends[0], &message, MSG_NOSIGNAL);
        CHECK(sent > 0 && sent < LARGE);
        CHECK(pthread_join(thread, NULL) == 0);
        FAILS(qmp_send(ends[0], data, 1, MSG_NOSIGNAL), ECONNRESET);
        FAILS(qmp_send(ends[0], data, 1, MSG_NOSIGNAL), EPIPE);
        CHECK(qmp_close(ends[0]) == 0);
    }
    free(much);
    printf("every reset is told\n");
    return 0;
}
