/* VRP: pictures of which a tenth may be lost, in runs of at most 4 kB, and nothing of their headers. The receiver has a loop
 * of its own, around select(), and fills the holes with the line above; the sender lets the library drive itself. Two
 * processes.
 *
 * To see holes, let the network lose packets: `tc qdisc add dev lo root netem loss 2%`. */
#define _DEFAULT_SOURCE

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vrp.h"

enum { WIDTH = 320, HEIGHT = 240, PICTURES = 30 };

struct picture {
    struct {
        unsigned number, width, height;
    } header;
    unsigned char pixels[WIDTH * HEIGHT];
};

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static unsigned seen, with_holes;

/* Runs for every picture that has arrived within its contract. */
static void show(vrp_in_buffer_t frame) {
    struct picture *picture = frame->data;
    const char *name = frame->source;
    unsigned char *begin = frame->data;
    int i;
    if (frame->size != sizeof *picture || picture->header.width != WIDTH || picture->header.height != HEIGHT) {
        fprintf(stderr, "%s: not a picture\n", name);
        exit(1);
    }
    for (i = 0; i < frame->loss_num; i++) {
        /* A hole is a packet, or what the frame has of it. Nothing critical is in it. */
        size_t low = (size_t)((unsigned char *)frame->lost[i] - begin), at;
        size_t high = low + frame->loss_granularity < frame->size ? low + frame->loss_granularity : frame->size;
        for (at = low; at < high; at++)
            begin[at] = at >= WIDTH ? begin[at - WIDTH] : 128;
    }
    with_holes += frame->loss_num > 0;
    seen++;
}

static int send_pictures(int port) {
    static struct picture picture;
    unsigned number, at;
    vrp_buffer_t buffer = vrp_buffer_construct(&picture, sizeof picture);
    vrp_outgoing_t outgoing = vrp_outgoing_construct("localhost", port, -1, -1, 1400);
    if (buffer == NULL || outgoing == NULL || vrp_outgoing_connect(outgoing) != 0)
        fail("connecting");
    vrp_buffer_set_loss_rate(buffer, 26, 4200);
    vrp_buffer_add_critical(buffer, &picture.header, sizeof picture.header);
    picture.header.width = WIDTH;
    picture.header.height = HEIGHT;
    for (number = 0; number < PICTURES; number++) {
        picture.header.number = number;
        for (at = 0; at < sizeof picture.pixels; at++)
            picture.pixels[at] = (unsigned char)(at % WIDTH + at / WIDTH + number);
        if (vrp_outgoing_send_frame(outgoing, buffer) != 0)
            fail("sending");
    }
    vrp_outgoing_close(outgoing);
    vrp_buffer_destroy(buffer);
    return 0;
}

int main(void) {
    int told[2], port = 0, fd, status;
    vrp_incoming_t incoming;
    pid_t child;
    if (pipe(told) != 0 || (child = fork()) < 0)
        fail("a second process");
    if (child == 0)
        /* After fork() each process opens its own endpoints. */
        return read(told[0], &port, sizeof port) == (ssize_t)sizeof port ? send_pictures(port) : 1;

    vrp_init();
    incoming = vrp_incoming_construct(&port, show);
    if (incoming == NULL)
        fail("listening");
    vrp_incoming_set_source(incoming, "camera 1");
    fd = vrp_incoming_fd(incoming);
    if (fd < 0 || write(told[1], &port, sizeof port) != (ssize_t)sizeof port)
        fail("starting");
    while (seen < PICTURES) {
        fd_set set;
        struct timeval timeout = {10, 0};
        FD_ZERO(&set);
        FD_SET(fd, &set);
        /* Other descriptors go in here, too. */
        if (select(fd + 1, &set, NULL, NULL, &timeout) <= 0)
            fail("waiting for pictures");
        vrp_incoming_read_callback(fd, incoming);
    }
    /* The sender knows that its last picture has arrived; until it has gone, it may have questions. */
    while (waitpid(child, &status, WNOHANG) == 0) {
        vrp_incoming_read_callback(fd, incoming);
        usleep(1000);
    }
    vrp_incoming_close(incoming);
    vrp_shutdown();
    printf("%u pictures, of which %u have holes\n", seen, with_holes);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
