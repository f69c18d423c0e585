/* The use of the protocol that figure 1 of the paper shows: several sends and several receives that do not block, other
 * work, and then a wait for each. Sender and receiver are two processes; a simplex channel leads in each direction. */
#include "common.h"

#define COUNT 6
/* Nothing, a byte, one unit, several units, and more than the window. */
static const nlong sizes[COUNT] = {0, 1, 1000, 65507, 300000, 5000000};

static int receive_all(int control, int units) {
    int file_descriptors[2];
    struct zcrp_msg *messages[COUNT];
    int i;
    file_descriptors[0] = control;
    file_descriptors[1] = units;
    CHECK(zcrp_rcv_init(file_descriptors));
    for (i = 0; i < COUNT; i++) {
        messages[i] = zcrp_alloc_msg(sizes[i] + 10);
        CHECK(messages[i] != NULL);
        CHECK(zcrp_rcv(messages[i], sizes[i] + 10));
        CHECK(messages[i]->number == (nlong)i);
    }
    /* Other work goes here; the protocol runs meanwhile. */
    for (i = 0; i < COUNT; i++) {
        CHECK(zcrp_wait(messages[i]));
        CHECK(messages[i]->message_size == sizes[i]);
        CHECK(is_intact(messages[i], messages[i]->number, sizes[i]));
        printf("received message %u: %u bytes, intact\n", (unsigned)messages[i]->number,
               (unsigned)messages[i]->message_size);
        zcrp_free_msg(messages[i]);
    }
    /* The paper has no call that ends the protocol. At exit the library says once more what has arrived. */
    return 0;
}

static int send_all(int control, int units) {
    int file_descriptors[2];
    struct zcrp_msg *messages[COUNT];
    int i;
    file_descriptors[0] = control;
    file_descriptors[1] = units;
    CHECK(zcrp_send_init(file_descriptors));
    for (i = 0; i < COUNT; i++) {
        messages[i] = zcrp_alloc_msg(sizes[i]);
        CHECK(messages[i] != NULL);
        CHECK(messages[i]->message_size == sizes[i] && messages[i]->buffer_size > sizes[i]);
        fill(messages[i], (nlong)i, sizes[i]);
        CHECK(zcrp_send(messages[i], sizes[i]));
        CHECK(messages[i]->number == (nlong)i);
    }
    /* Other work goes here. */
    for (i = 0; i < COUNT; i++) {
        CHECK(zcrp_wait(messages[i]));
        zcrp_free_msg(messages[i]);
    }
    return 0;
}

int main(void) {
    int control[2], units[2];
    pid_t receiver;
    udp_pair(control);
    udp_pair(units);
    receiver = fork();
    CHECK(receiver >= 0);
    if (receiver == 0)
        return receive_all(control[1], units[1]);
    send_all(control[0], units[0]);
    CHECK(child_succeeded(receiver));
    printf("sent %d messages\n", COUNT);
    return 0;
}
