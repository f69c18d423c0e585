/* An echo server on sockets of QMP, in one loop around qmp_poll, and five clients in processes of their own. What a BSD program
 * does, with qmp_ before every call. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "qmp.h"

#define CLIENTS 5

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void client(struct sockaddr_in server, int number) {
    char text[64], answer[64];
    ssize_t size;
    int fd = qmp_socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || qmp_connect(fd, (struct sockaddr *)&server, sizeof server) != 0)
        fail("qmp_connect");
    snprintf(text, sizeof text, "ahoy from client %d", number);
    if (qmp_send(fd, text, strlen(text), 0) < 0 || qmp_shutdown(fd, SHUT_WR) != 0)
        fail("qmp_send");
    size = qmp_recv(fd, answer, sizeof answer, MSG_WAITALL);
    if (size < 0)
        fail("qmp_recv");
    printf("%.*s, and back\n", (int)size, answer);
    qmp_close(fd);
    exit((size_t)size == strlen(text) && memcmp(text, answer, strlen(text)) == 0 ? 0 : 1);
}

int main(void) {
    struct pollfd entries[CLIENTS + 1];
    struct sockaddr_in here;
    socklen_t length = sizeof here;
    int listener, count = 1, served = 0, at, status;

    memset(&here, 0, sizeof here);
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = qmp_socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || qmp_bind(listener, (struct sockaddr *)&here, sizeof here) != 0 ||
        qmp_listen(listener, CLIENTS) != 0 || qmp_getsockname(listener, (struct sockaddr *)&here, &length) != 0)
        fail("qmp_listen");
    for (at = 0; at < CLIENTS; at++)
        if (fork() == 0)
            client(here, at);

    entries[0].fd = listener;
    entries[0].events = POLLIN;
    while (served < CLIENTS) {
        if (qmp_poll(entries, (nfds_t)count, -1) < 0)
            fail("qmp_poll");
        if ((entries[0].revents & POLLIN) && count <= CLIENTS) {
            entries[count].fd = qmp_accept(listener, NULL, NULL);
            if (entries[count].fd < 0)
                fail("qmp_accept");
            entries[count].events = POLLIN;
            entries[count].revents = 0;
            count++;
        }
        for (at = 1; at < count; at++) {
            char data[4096];
            ssize_t size;
            if (entries[at].revents == 0)
                continue;
            size = qmp_recv(entries[at].fd, data, sizeof data, 0);
            if (size > 0 && qmp_send(entries[at].fd, data, (size_t)size, MSG_NOSIGNAL) == size)
                continue;
            if (size < 0)
                perror("qmp_recv");
            qmp_close(entries[at].fd);
            entries[at].fd = -1; /* passed over by poll */
            served++;
        }
    }
    while (wait(&status) > 0)
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            return 1;
    qmp_close(listener);
    printf("%d clients have been served\n", served);
    return 0;
}
