/* A camera and three sinks in processes of their own: pictures at a rate that was agreed on, to all of them. In the middle the
 * camera slows down, and the sinks notice nothing but that. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "a1.h"

#define SINKS 3
#define PICTURES 60
#define PICTURE 40000

static int ok(int result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", what, strerror(-result));
        exit(1);
    }
    return result;
}

static struct a1_qos quality(void) {
    struct a1_qos qos;
    memset(&qos, 0, sizeof qos);
    qos.options = A1_CHECKSUM | A1_RETRANSMISSION;
    qos.priority = 64;
    qos.send_average = 4000000;
    qos.send_burst = 2 * PICTURE;
    qos.largest_sent = qos.largest_received = PICTURE;
    qos.outstanding = 8;
    return qos;
}

/* Looks at pictures where they arrived, until the camera closes. */
static void sink(int out) {
    struct a1_qos max = quality();
    struct a1_buffer *picture;
    uint64_t here;
    uint32_t status;
    int pictures = 0, c, s = ok(a1_socket(), "a1_socket");
    ssize_t size;
    ok(a1_bind(s, (uint64_t)INADDR_LOOPBACK << 32, &max), "a1_bind");
    ok(a1_listen(s, 1), "a1_listen");
    ok(a1_name(s, &here), "a1_name");
    if (write(out, &here, sizeof here) != sizeof here)
        exit(1);
    c = ok(a1_accept(s, NULL, 0, NULL), "a1_accept");
    while ((size = a1_recv_buffer(c, &picture, 0, &status)) > 0) {
        if (picture->len != PICTURE || ((char *)picture->data)[PICTURE - 1] != (char)pictures)
            exit(1);
        pictures++;
        picture->free_fn(picture);
    }
    ok((int)size, "a1_recv_buffer");
    a1_close(c, 1000);
    exit(pictures == PICTURES ? 0 : 1);
}

int main(void) {
    static char picture[PICTURE];
    struct a1_qos qos = quality();
    int s, number, pipes[2], waited = 0, content = 0, status_of_child;
    uint32_t status, microseconds = 0;
    uint64_t sinks[SINKS];
    if (pipe(pipes) != 0)
        return 1;
    for (number = 0; number < SINKS; number++) {
        if (fork() == 0)
            sink(pipes[1]);
        if (read(pipes[0], &sinks[number], sizeof sinks[number]) != sizeof sinks[number])
            return 1;
    }

    s = ok(a1_socket(), "a1_socket");
    ok(a1_bind(s, (uint64_t)INADDR_LOOPBACK << 32, &qos), "a1_bind");
    for (number = 0; number < SINKS; number++)
        ok(a1_add_sink(s, sinks[number], &qos, &status), "a1_add_sink");
    for (number = 0; number < PICTURES; number++) {
        if (number == PICTURES / 2) {
            qos.send_average = 2000000;
            ok(a1_setqos(s, &qos, NULL), "a1_setqos");
        }
        memset(picture, number, sizeof picture);
        /* A live camera would drop the picture; this one has time. */
        if (a1_send(s, picture, sizeof picture, A1_DONTWAIT, &status) == -EAGAIN) {
            waited++;
            ok((int)a1_send(s, picture, sizeof picture, 0, &status), "a1_send");
        }
    }
    a1_rtt(s, &microseconds);
    ok(a1_close(s, 5000), "a1_close");
    while (wait(&status_of_child) > 0)
        content += WIFEXITED(status_of_child) && WEXITSTATUS(status_of_child) == 0;
    printf("%d pictures to %d sinks, of which %d are content; the window was full %d times; round trip %u us\n", PICTURES,
           SINKS, content, waited, (unsigned)microseconds);
    return content == SINKS ? 0 : 1;
}
