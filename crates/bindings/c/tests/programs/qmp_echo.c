/* Echo on sockets that block: a thread for each end, and the calls of every BSD program. */
#include "qmp_common.h"

#define SIZE 3000000

static int listener;

static void *serve(void *nothing) {
    struct sockaddr_in peer, seen;
    socklen_t length = sizeof peer, other = sizeof seen;
    static char data[100000];
    ssize_t size;
    int fd = qmp_accept(listener, (struct sockaddr *)&peer, &length);
    (void)nothing;
    CHECK(fd >= 0 && length == sizeof peer && peer.sin_family == AF_INET && peer.sin_port != 0);
    CHECK(peer.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    CHECK(qmp_getpeername(fd, (struct sockaddr *)&seen, &other) == 0 && seen.sin_port == peer.sin_port);
    CHECK(port_of(fd) == port_of(listener));
    while ((size = qmp_recv(fd, data, sizeof data, 0)) > 0)
        send_all(fd, data, (size_t)size);
    CHECK(size == 0);
    CHECK(qmp_close(fd) == 0);
    return NULL;
}

static int client;

static void *speak(void *data) {
    CHECK(qmp_send(client, data, SIZE, 0) == SIZE);
    CHECK(qmp_shutdown(client, SHUT_WR) == 0);
    return NULL;
}

int main(void) {
    pthread_t server, speaker;
    char *data = (char *)malloc(SIZE), *back = (char *)malloc(SIZE);
    int port, waiting = 0;
    CHECK(data != NULL && back != NULL);
    fill(data, 0, SIZE);
    listener = listening(&port);
    CHECK(pthread_create(&server, NULL, serve, NULL) == 0);
    client = connected(port);
    CHECK(qmp_send(client, "ahoy", 4, 0) == 4);
    CHECK(qmp_recv(client, back, 4, MSG_WAITALL) == 4 && memcmp(back, "ahoy", 4) == 0);
    CHECK(pthread_create(&speaker, NULL, speak, data) == 0);
    /* A look, which takes nothing. */
    CHECK(qmp_recv(client, back, 10, MSG_PEEK) > 0 && back[0] == data[0]);
    CHECK(qmp_ioctl(client, FIONREAD, &waiting) == 0 && waiting > 0);
    CHECK(qmp_recv(client, back, SIZE, MSG_WAITALL) == SIZE && memcmp(data, back, SIZE) == 0);
    CHECK(qmp_recv(client, back, 1, 0) == 0);
    CHECK(qmp_recv(client, back, 1, MSG_WAITALL) == 0);
    CHECK(pthread_join(speaker, NULL) == 0 && pthread_join(server, NULL) == 0);
    CHECK(qmp_close(client) == 0 && qmp_close(listener) == 0);
    free(data);
    free(back);
    printf("echoed on sockets that block\n");
    return 0;
}
