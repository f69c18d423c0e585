/* The paper's loop: select() on the descriptors, and a callback when one is readable. Two processes, each with one thread of
 * its own. */
#include "vrp_common.h"

enum { FRAMES = 60 };
static const size_t sizes[] = {0, 1, 255, 256, 5000, 100000, 1000000};
enum { SIZES = sizeof sizes / sizeof *sizes };

static int frames;
static pthread_t loop;

static void take(vrp_in_buffer_t frame) {
    size_t size = sizes[frames % SIZES];
    CHECK(pthread_equal(pthread_self(), loop));
    CHECK(frame->source == &frames && frame->size == size);
    CHECK(frame->loss_num == 0 && frame->loss_granularity == 2048);
    CHECK(is_intact(frame->data, (size_t)frames, size));
    frames++;
}

static int sender(int port) {
    vrp_outgoing_t outgoing;
    int fd = -1, i;
    vrp_init();
    outgoing = vrp_outgoing_construct("127.0.0.1", port, -1, -1, -1);
    CHECK(outgoing != NULL && vrp_outgoing_connect(outgoing) == 0);
    for (i = 0; i < FRAMES; i++) {
        if (i == FRAMES / 2) {
            /* From here on nobody else reads: a send has to do it by itself. */
            fd = vrp_outgoing_fd(outgoing);
            CHECK(fd >= 0 && fd == vrp_outgoing_fd(outgoing));
        }
        CHECK(send_frame(outgoing, (size_t)i, sizes[i % SIZES]) == 0);
        if (i >= FRAMES / 2 && is_readable(fd, 0))
            vrp_outgoing_read_callback(fd, outgoing);
    }
    vrp_outgoing_close(outgoing);
    vrp_shutdown();
    return 0;
}

int main(void) {
    vrp_incoming_t incoming;
    int port = 0, fd, told[2], i;
    double begin;
    pid_t child;
    CHECK(pipe(told) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        await(told[0], &port, sizeof port);
        return sender(port);
    }
    loop = pthread_self();
    vrp_init();
    incoming = vrp_incoming_construct(&port, take);
    CHECK(incoming != NULL && port > 0 && port < 65536);
    vrp_incoming_set_source(incoming, &frames);
    fd = vrp_incoming_fd(incoming);
    CHECK(fd >= 0 && fd < FD_SETSIZE && !is_readable(fd, 20));
    CHECK(write(told[1], &port, sizeof port) == (ssize_t)sizeof port);

    /* The first datagram waits for us, however long we take. */
    CHECK(is_readable(fd, 30000));
    usleep(50000);
    CHECK(is_readable(fd, 0) && frames == 0);

    begin = now();
    while (frames < FRAMES) {
        fd_set set;
        struct timeval timeout = {1, 0};
        CHECK(now() - begin < 30);
        FD_ZERO(&set);
        FD_SET(fd, &set);
        CHECK(select(fd + 1, &set, NULL, NULL, &timeout) >= 0);
        if (FD_ISSET(fd, &set))
            vrp_incoming_read_callback(fd, incoming);
    }
    /* The sender says good-bye; and there is no end of readability without a reason. */
    CHECK(child_succeeded(child));
    for (i = 0; i < 100 && is_readable(fd, 150); i++)
        vrp_incoming_read_callback(fd, incoming);
    CHECK(i < 100);
    vrp_incoming_close(incoming);
    vrp_shutdown();
    printf("%d frames in the loop\n", frames);
    return 0;
}
