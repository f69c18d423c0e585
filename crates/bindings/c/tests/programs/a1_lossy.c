/* Over a path that loses, doubles and reorders datagrams: a relay in a third process, at the listener's port of 127.0.0.2. With
 * retransmission everything arrives; without, what arrives is right, and what was lost is told. */
#include "a1_common.h"
#include "relay.h"

#define MESSAGES 400
#define SIZE 5000
#define BLOCK 1000

/* A message is its number again and again. */
static void number(char *data, uint32_t message) {
    size_t at;
    for (at = 0; at < SIZE; at += 4)
        memcpy(data + at, &message, 4);
}

static void transfer(struct a1_qos qos) {
    static char data[SIZE], right[SIZE];
    int is_raw = !(qos.options & A1_RETRANSMISSION);
    uint64_t there;
    int listener, front, c;
    uint32_t status, next = 0;
    size_t got = 0, total = 0, losses = 0;
    pid_t between, child;
    qos.block_size = BLOCK;
    qos.largest_sent = qos.largest_received = SIZE;
    listener = listening(qos, &there);
    front = datagram_socket(2, (int)(uint32_t)there);
    between = fork();
    if (between == 0)
        relay(front, (int)(uint32_t)there);
    close(front);
    child = fork();
    if (child == 0) {
        int s = bound(qos);
        uint32_t message;
        IS(a1_add_sink(s, there + ((uint64_t)1 << 32), &qos, NULL), 0);
        for (message = 0; message < MESSAGES; message++) {
            number(data, message);
            IS(a1_send(s, data, SIZE, 0, NULL), SIZE);
        }
        IS(a1_close(s, 20000), 0);
        exit(0);
    }
    c = a1_accept(listener, NULL, 0, NULL);
    CHECK(c >= 0);
    for (;;) {
        ssize_t size = a1_recv(c, data, SIZE, 0, &status);
        uint32_t message;
        CHECK(size >= 0);
        losses += (status & A1_LOST) != 0;
        if (size == 0 && !(status & A1_START)) {
            CHECK(status & A1_PEER_CLOSED);
            break;
        }
        memcpy(&message, data, 4);
        /* Never back, and over nothing in silence. */
        CHECK(message >= next && message < MESSAGES);
        CHECK((status & A1_LOST) || (message == next && !(status & A1_START) == (got > 0)));
        number(right, message);
        CHECK(memcmp(data, right, (size_t)size) == 0);
        got = (status & A1_END) ? 0 : (message == next ? got : 0) + (size_t)size;
        next = (status & A1_END) ? message + 1 : message;
        total += (size_t)size;
    }
    if (is_raw) {
        CHECK(losses > 20 && total > (size_t)MESSAGES * SIZE / 2 && total < (size_t)MESSAGES * SIZE);
    } else {
        CHECK(losses == 0 && total == (size_t)MESSAGES * SIZE);
    }
    CHECK(child_succeeded(child));
    IS(a1_close(c, 100), 0);
    IS(a1_close(listener, 100), 0);
    kill(between, SIGKILL);
    waitpid(between, NULL, 0);
}

int main(void) {
    transfer(reliable());
    transfer(raw());
    puts("everything arrived, or was told to be lost");
    return 0;
}
