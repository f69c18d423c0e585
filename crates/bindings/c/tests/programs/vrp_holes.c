/* A path that loses packets: the handler is told what was lost, packet by packet, and its contract holds. */
#include "vrp_common.h"

#include "lossy.h"

enum { PACKET = 1000, SIZE = 200500, PACKETS = 201, RATE = 102, RUN = 3, CRITICAL_LOW = 50000, CRITICAL_HIGH = 50001 };

static struct {
    int frames, lost, longest;
} seen;
static int told[2];

static void take(vrp_in_buffer_t frame) {
    unsigned char *data = frame->data;
    int next = 0, run = 0, packet, window_lost = 0;
    CHECK(frame->size == SIZE && frame->loss_granularity == PACKET);
    CHECK((frame->loss_num == 0) == (frame->lost == NULL));
    for (packet = 0; packet < PACKETS; packet++) {
        size_t low = (size_t)packet * PACKET, high = low + PACKET < SIZE ? low + PACKET : SIZE, at;
        int missing = next < frame->loss_num && frame->lost[next] == data + low;
        next += missing;
        for (at = low; at < high; at++)
            CHECK(data[at] == (missing ? 0 : expected(0, at)));
        run = missing ? run + 1 : 0;
        if (run > seen.longest)
            seen.longest = run;
        CHECK(run <= RUN);
        CHECK(!missing || packet != CRITICAL_LOW / PACKET);
        /* The rate, in any window of 64 packets: 102 / 255 of them are 26 (the sender's window may be larger: 256 at most,
         * but the frame has 201, of which 80 may be lost). */
        window_lost += missing;
        CHECK(window_lost <= 80);
    }
    /* Every pointer was one of a packet, each in its turn. */
    CHECK(next == frame->loss_num);
    seen.frames++;
    seen.lost += next;
    CHECK(write(told[1], &next, sizeof next) == (ssize_t)sizeof next);
}

static int sender(int relay) {
    unsigned char *data = filled(0, SIZE);
    vrp_buffer_t buffer = vrp_buffer_construct(data, SIZE);
    vrp_outgoing_t outgoing = vrp_outgoing_construct("127.0.0.1", relay, RATE, -1, PACKET);
    int round;
    CHECK(buffer != NULL && outgoing != NULL);
    /* The run is the buffer's, the rate the endpoint's default. */
    vrp_buffer_set_loss_rate(buffer, -1, RUN * PACKET + 999);
    vrp_buffer_add_critical(buffer, data + CRITICAL_LOW, CRITICAL_HIGH - CRITICAL_LOW);
    vrp_buffer_add_critical(buffer, data + SIZE, 0);
    for (round = 0; round < 12; round++)
        CHECK(vrp_outgoing_send_frame(outgoing, buffer) == 0);
    /* The rate alone allows nothing: nor does nothing. */
    vrp_buffer_set_loss_rate(buffer, -1, -1);
    CHECK(vrp_outgoing_send_frame(outgoing, buffer) == 0);
    vrp_buffer_set_loss_rate(buffer, 0, 100000);
    CHECK(vrp_outgoing_send_frame(outgoing, buffer) == 0);
    vrp_buffer_destroy(buffer);
    free(data);
    vrp_outgoing_close(outgoing);
    return 0;
}

int main(void) {
    vrp_incoming_t incoming;
    int port = 0, ports[2], frame, lost, relay;
    pid_t child;
    CHECK(pipe(told) == 0 && pipe(ports) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        await(ports[0], &relay, sizeof relay);
        return sender(relay);
    }
    incoming = vrp_incoming_construct(&port, take);
    CHECK(incoming != NULL);
    relay = relay_to(port, 300, 51);
    CHECK(write(ports[1], &relay, sizeof relay) == (ssize_t)sizeof relay);
    for (frame = 0; frame < 14; frame++) {
        await(told[0], &lost, sizeof lost);
        CHECK(frame < 12 || lost == 0);
    }
    CHECK(child_succeeded(child));
    vrp_incoming_close(incoming);
    CHECK(seen.frames == 14 && seen.lost > 12 * 10 && seen.longest > 1);
    puts("all holes are known");
    return 0;
}
