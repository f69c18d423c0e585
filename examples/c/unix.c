/* Two processes on one machine, over a pair of AF_UNIX sockets. A message is used again for the next one. */
#include "common.h"

#define COUNT 50
#define SIZE 1048576u

int main(void) {
    int pair[2], channel[2];
    nlong i;
    pid_t receiver;
    struct zcrp_msg *message = zcrp_alloc_msg(SIZE);
    CHECK(message != NULL);
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    receiver = fork();
    CHECK(receiver >= 0);
    if (receiver == 0) {
        channel[0] = channel[1] = pair[1];
        CHECK(zcrp_rcv_init(channel));
        for (i = 0; i < COUNT; i++) {
            CHECK(zcrp_rcv(message, SIZE));
            CHECK(zcrp_wait(message));
            CHECK(message->number == i && message->message_size == SIZE - i && is_intact(message, i, SIZE - i));
        }
        printf("received %d messages; %ld units in place, %ld copied\n", COUNT, zcrp_get("units_in_place"),
               zcrp_get("units_copied"));
        zcrp_free_msg(message);
        CHECK(zcrp_rcv_close());
        return 0;
    }
    channel[0] = channel[1] = pair[0];
    CHECK(zcrp_send_init(channel));
    CHECK(zcrp_get("unit_bytes") == 65507);
    for (i = 0; i < COUNT; i++) {
        fill(message, i, SIZE - i);
        CHECK(zcrp_send(message, SIZE - i));
        CHECK(zcrp_wait(message));
    }
    zcrp_free_msg(message);
    CHECK(zcrp_send_close());
    CHECK(child_succeeded(receiver));
    return 0;
}
