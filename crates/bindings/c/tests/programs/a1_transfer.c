/* Two processes: messages of many sizes each way, read at once, by parts, and in their buffers. */
#include "a1_common.h"

#define MESSAGES 200
#define LARGEST (1 << 20)

static char data[LARGEST];

static size_t size_of(int message) {
    static const size_t sizes[] = {0, 1, 7, 65475, 65476, 200000, LARGEST, 3000};
    return message % 25 == 0 ? sizes[message / 25 % 8] : (size_t)message * 97;
}

static void server(int listener) {
    int message, c = a1_accept(listener, NULL, 0, NULL);
    uint32_t status;
    CHECK(c >= 0);
    for (message = 0; message < MESSAGES; message++) {
        size_t size = size_of(message), got = 0;
        if (message % 3 == 0) {
            struct a1_buffer *buffer;
            IS(a1_recv_buffer(c, &buffer, 0, &status), size);
            CHECK(buffer != NULL && buffer->len == size && is_intact(buffer->data, (size_t)message, size));
            CHECK((status & (A1_START | A1_END | A1_LOST)) == (A1_START | A1_END));
            buffer->free_fn(buffer);
        } else {
            /* By parts: START with the first, END with the last. */
            size_t room = message % 3 == 1 ? sizeof data : 10007;
            do {
                ssize_t part = a1_recv(c, data, room, 0, &status);
                CHECK(part >= 0 && (part > 0 || size == 0));
                CHECK(!(status & A1_START) == (got > 0));
                CHECK(is_intact(data, (size_t)message + got, (size_t)part));
                got += (size_t)part;
                CHECK(!(status & A1_END) == (got < size));
                CHECK(got == size || (size_t)part == room);
            } while (got < size);
        }
        fill(data, (size_t)message, size);
        IS(a1_send(c, data, size, 0, &status), size);
    }
    IS(a1_recv(c, data, sizeof data, 0, &status), 0);
    CHECK((status & (A1_PEER_CLOSED | A1_START)) == A1_PEER_CLOSED);
    IS(a1_send(c, data, 1, 0, &status), -EPIPE);
    CHECK(status & A1_PEER_CLOSED);
    IS(a1_close(c, 1000), 0);
    IS(a1_close(listener, 1000), 0);
}

static void client(uint64_t there) {
    struct a1_qos qos = reliable();
    int message, s = bound(qos);
    uint32_t status = 99;
    IS(a1_add_sink(s, there, &qos, &status), 0);
    CHECK((status & (A1_PEER_CLOSED | A1_ABORTED)) == 0);
    for (message = 0; message < MESSAGES; message++) {
        size_t size = size_of(message);
        fill(data, (size_t)message, size);
        IS(a1_send(s, data, size, 0, &status), size);
        /* Every tenth is waited for. */
        if (message % 10 == 9) {
            int answer;
            for (answer = message - 9; answer <= message; answer++) {
                IS(a1_recv(s, data, sizeof data, 0, &status), size_of(answer));
                CHECK((status & (A1_START | A1_END)) == (A1_START | A1_END));
                CHECK(is_intact(data, (size_t)answer, size_of(answer)));
            }
        }
    }
    IS(a1_close(s, 5000), 0);
}

int main(void) {
    struct a1_qos qos = reliable();
    int ports[2];
    uint64_t there;
    pid_t child;
    CHECK(pipe(ports) == 0);
    child = fork();
    if (child == 0) {
        CHECK(read(ports[0], &there, sizeof there) == sizeof there);
        client(there);
        return 0;
    }
    {
        int listener = listening(qos, &there);
        CHECK(write(ports[1], &there, sizeof there) == sizeof there);
        server(listener);
    }
    CHECK(child_succeeded(child));
    puts("200 messages each way");
    return 0;
}
