/* There is room again for what could not be sent: the descriptor says so, whatever was received meanwhile. */
#include "a1_common.h"

#define SIZE 50000

static char data[SIZE];

/* Sends until nothing more is taken, also when some time has passed. Returns how many were. */
static int fill_window(int s) {
    int refused = 0, sent = 0;
    while (refused < 3) {
        ssize_t size = a1_send(s, data, SIZE, A1_DONTWAIT, NULL);
        if (size == SIZE) {
            sent++;
            refused = 0;
            continue;
        }
        IS(size, -EAGAIN);
        refused++;
        /* What was on its way has told its room by now; it is not what is looked for. */
        pause_ms(100);
    }
    return sent;
}

static void drain(int s, int messages) {
    for (; messages > 0; messages--)
        IS(a1_recv(s, data, SIZE, 0, NULL), SIZE);
    pause_ms(200);
}

static void between(int from, int to) {
    int fd = a1_fd(from), calls, sent;
    CHECK(fd >= 0);

    drain(to, fill_window(from));
    for (calls = 0; calls < 3; calls++)
        IS(a1_recv(from, data, SIZE, A1_DONTWAIT, NULL), -EAGAIN);
    CHECK(is_readable(fd, 5000));

    /* The same if something is received. */
    sent = fill_window(from);
    IS(a1_send(to, "ahoy", 4, 0, NULL), 4);
    drain(to, sent);
    IS(a1_recv(from, data, SIZE, 0, NULL), 4);
    CHECK(is_readable(fd, 5000));

    /* Who has sent is told no more, but of what happens. */
    IS(a1_send(from, data, SIZE, A1_DONTWAIT, NULL), SIZE);
    drain(to, 1);
    IS(a1_recv(from, data, SIZE, A1_DONTWAIT, NULL), -EAGAIN);
    for (calls = 0; is_readable(fd, 200); calls++) {
        CHECK(calls < 50);
        IS(a1_recv(from, data, SIZE, A1_DONTWAIT, NULL), -EAGAIN);
    }

    /* Who has given up sending does not turn round for ever. */
    drain(to, fill_window(from));
    for (calls = 0; is_readable(fd, 200); calls++) {
        CHECK(calls < 100000);
        IS(a1_recv(from, data, SIZE, A1_DONTWAIT, NULL), -EAGAIN);
    }
    CHECK(calls > 0);
}

int main(void) {
    struct a1_qos qos = reliable();
    int ends[2];
    qos.outstanding = 4;
    qos.largest_sent = qos.largest_received = SIZE;
    pair(qos, ends);
    between(ends[1], ends[0]);
    between(ends[0], ends[1]);
    IS(a1_close(ends[0], 1000), 0);
    IS(a1_close(ends[1], 1000), 0);
    puts("room is told");
    return 0;
}
