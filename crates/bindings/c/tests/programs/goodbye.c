/* A receiver that exits at once still says what has arrived, three times, and answers repetitions meanwhile: nothing else
 * saves the sender when the only acknowledgement is lost. The sender is played by hand, byte for byte. */
#include "common.h"

#include <poll.h>

static void put(unsigned char *at, unsigned long value) {
    at[0] = (unsigned char)(value >> 24);
    at[1] = (unsigned char)(value >> 16);
    at[2] = (unsigned char)(value >> 8);
    at[3] = (unsigned char)value;
}

/* Message 0, unit 0, the only one: "ahoy". */
static void send_unit(int socket, unsigned long sequence) {
    unsigned char unit[4 + 28] = {'a', 'h', 'o', 'y'};
    put(unit + 12, sequence);
    put(unit + 24, 4);
    unit[28] = 2; /* is-last */
    CHECK(send(socket, unit, sizeof unit, 0) == (ssize_t)sizeof unit);
}

/* The type of the next control datagram; 0 after a second of silence. */
static int next_type(int socket) {
    unsigned char datagram[65536];
    struct pollfd entry;
    ssize_t size;
    entry.fd = socket;
    entry.events = POLLIN;
    if (poll(&entry, 1, 1000) <= 0)
        return 0;
    size = recv(socket, datagram, sizeof datagram, 0);
    if (size < 0)
        return 0;
    CHECK(size >= 12);
    return datagram[size - 4];
}

int main(void) {
    int pair[2], channel[2], type, acknowledgements = 0;
    pid_t receiver;
    /* AF_UNIX, so that nobody is told that the receiver has closed its socket. */
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    receiver = fork();
    CHECK(receiver >= 0);
    if (receiver == 0) {
        struct zcrp_msg *message = zcrp_alloc_msg(10);
        channel[0] = channel[1] = pair[1];
        CHECK(message != NULL && zcrp_rcv_init(channel));
        close(pair[0]);
        close(pair[1]);
        CHECK(zcrp_rcv(message, 10) && zcrp_wait(message));
        CHECK(message->message_size == 4 && memcmp(message->buffer, "ahoy", 4) == 0);
        return 0;
    }
    close(pair[1]);
    while ((type = next_type(pair[0])) != 0x83)
        CHECK(type != 0);
    send_unit(pair[0], 1000);
    while ((type = next_type(pair[0])) != 0) {
        CHECK(type == 0x81 || type == 0x83 || type == 0x84);
        acknowledgements += type == 0x81;
    }
    CHECK(acknowledgements >= 3);
    CHECK(child_succeeded(receiver));
    printf("acknowledged three times\n");
    return 0;
}
