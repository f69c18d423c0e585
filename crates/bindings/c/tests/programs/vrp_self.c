/* No loop: the library drives itself, in both processes. */
#include "vrp_common.h"

enum { FRAMES = 40 };

static int told[2], frames;
static pthread_t first;

static void take(vrp_in_buffer_t frame) {
    CHECK(!pthread_equal(pthread_self(), first));
    CHECK(*(int *)frame->source == 17);
    CHECK(frame->size == (size_t)frames * 10007);
    CHECK(is_intact(frame->data, (size_t)frames, frame->size));
    CHECK(frame->loss_num == 0 && frame->loss_granularity == 1000);
    /* The storage is the handler's. */
    memset(frame->data, 0, frame->size);
    frames++;
    CHECK(write(told[1], "x", 1) == 1);
}

static int sender(int port) {
    vrp_outgoing_t outgoing = vrp_outgoing_construct("localhost", port, -1, -1, 1000);
    int i;
    CHECK(outgoing != NULL);
    /* A send before connect connects; and the paper's name does as well. */
    CHECK(send_frame(outgoing, 0, 0) == 0);
    CHECK(vrp_outgoing_open(outgoing) == 0 && vrp_outgoing_connect(outgoing) == 0);
    for (i = 1; i < FRAMES; i++)
        CHECK(send_frame(outgoing, (size_t)i, (size_t)i * 10007) == 0);
    /* Neither closed nor shut down: the library says good-bye at exit. */
    return 0;
}

int main(void) {
    vrp_incoming_t incoming;
    int port = 0, ports[2], i, seventeen = 17;
    char byte;
    pid_t child;
    CHECK(pipe(told) == 0 && pipe(ports) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        await(ports[0], &port, sizeof port);
        return sender(port);
    }
    first = pthread_self();
    incoming = vrp_incoming_construct(&port, take);
    CHECK(incoming != NULL && port > 0);
    vrp_incoming_set_source(incoming, &seventeen);
    CHECK(write(ports[1], &port, sizeof port) == (ssize_t)sizeof port);
    for (i = 0; i < FRAMES; i++)
        await(told[0], &byte, 1);
    CHECK(child_succeeded(child));
    vrp_incoming_close(incoming);
    CHECK(frames == FRAMES);
    printf("%d frames by themselves\n", frames);
    return 0;
}
