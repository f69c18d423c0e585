/* One sender, three sinks in processes of their own: the same messages for all; sinks answer, die, are removed and come late. */
#include "a1_common.h"

#define MESSAGES 300

static char data[70000];

static size_t size_of(int message) {
    return (size_t)(message * 4099 % 70000);
}

/* Receives what the others do, from message `first` on, and answers each hundredth. One dies in the middle. */
static void sink(int number, int out) {
    struct a1_qos qos = reliable();
    uint64_t addr;
    int c, message, listener = listening(qos, &addr);
    uint32_t status;
    CHECK(write(out, &addr, sizeof addr) == sizeof addr);
    c = a1_accept(listener, NULL, 0, NULL);
    CHECK(c >= 0);
    for (message = 0; message < MESSAGES; message++) {
        if (message == MESSAGES / 2 && number == 1)
            kill(getpid(), SIGKILL);
        IS(a1_recv(c, data, sizeof data, 0, &status), size_of(message));
        CHECK((status & (A1_START | A1_END)) == (A1_START | A1_END));
        CHECK(is_intact(data, (size_t)message, size_of(message)));
        if (message % 100 == 99) {
            memset(data, 'a' + number, 50000);
            IS(a1_send(c, data, 50000, 0, NULL), 50000);
        }
    }
    IS(a1_recv(c, data, sizeof data, 0, &status), 0);
    CHECK(status & A1_PEER_CLOSED);
    IS(a1_close(c, 1000), 0);
    exit(0);
}

int main(void) {
    struct a1_qos qos = reliable(), found;
    uint64_t addrs[3], late;
    pid_t children[3];
    int number, message, s, pipes[2], listener, c, answers[3] = {0, 0, 0};
    uint32_t status, rtt;
    double removed = 0;
    CHECK(pipe(pipes) == 0);
    for (number = 0; number < 3; number++) {
        children[number] = fork();
        if (children[number] == 0)
            sink(number, pipes[1]);
        CHECK(read(pipes[0], &addrs[number], sizeof addrs[number]) == sizeof addrs[number]);
    }
    qos.outstanding = 4;
    s = bound(qos);
    IS(a1_send(s, data, 1, 0, NULL), -ENOTCONN);
    IS(a1_recv(s, data, 1, 0, NULL), -ENOTCONN);
    IS(a1_rtt(s, &rtt), -ENOTCONN);
    IS(a1_setqos(s, &qos, NULL), -ENOTCONN);
    for (number = 0; number < 3; number++) {
        IS(a1_add_sink(s, addrs[number], &qos, &status), 0);
        IS(a1_add_sink(s, addrs[number], &qos, &status), -EEXIST);
    }
    IS(a1_getqos(s, &found), 0);
    CHECK(found.outstanding == 4 && found.block_size > 1000);
    IS(a1_rtt(s, &rtt), 0);
    for (message = 0; message < MESSAGES; message++) {
        fill(data, (size_t)message, size_of(message));
        if (message == MESSAGES / 2 + 4) {
            /* One has died, and holds up the others until it is removed. */
            IS(a1_remove_sink(s, addrs[1]), 0);
            IS(a1_remove_sink(s, addrs[1]), -ENOENT);
            removed = now();
        }
        /* The one that dies has read all before that, perhaps with the help of the time. */
        if (message >= MESSAGES / 2 && message < MESSAGES / 2 + 4) {
            double until = now() + 20;
            ssize_t sent;
            while ((sent = a1_send(s, data, size_of(message), A1_DONTWAIT, &status)) == -EAGAIN && now() < until)
                pause_ms(1);
            IS(sent, size_of(message));
        } else {
            IS(a1_send(s, data, size_of(message), 0, &status), size_of(message));
        }
    }
    /* Nobody waited for its linger. */
    CHECK(now() - removed < 4);
    /* Two have answered three times; each message is read to its end before the next. (What the dead one had said went with it.) */
    for (message = 0; message < 6; message++) {
        size_t got = 0;
        char who = 0;
        do {
            ssize_t size = a1_recv(s, data, 20000, 0, &status);
            size_t at;
            CHECK(size > 0 && !(status & A1_START) == (got > 0));
            if (got == 0)
                who = data[0];
            for (at = 0; at < (size_t)size; at++)
                CHECK(data[at] == who);
            got += (size_t)size;
        } while (!(status & A1_END));
        CHECK(got == 50000 && who >= 'a' && who <= 'c');
        answers[who - 'a']++;
    }
    IS(a1_recv(s, data, 20000, A1_DONTWAIT, &status), -EAGAIN);
    CHECK(answers[0] == 3 && answers[2] == 3);
    /* One that comes late gets what is sent from then on. */
    listener = listening(qos, &late);
    IS(a1_remove_sink(s, addrs[2]), 0);
    CHECK(child_succeeded(children[2]));
    IS(a1_add_sink(s, late, &qos, NULL), 0);
    c = a1_accept(listener, NULL, 0, NULL);
    IS(a1_remove_sink(s, addrs[0]), 0);
    CHECK(child_succeeded(children[0]));
    IS(a1_send(s, "late", 4, 0, NULL), 4);
    IS(a1_recv(c, data, sizeof data, 0, NULL), 4);
    CHECK(memcmp(data, "late", 4) == 0);
    IS(a1_close(c, 1000), 0);
    /* Its only sink has closed. */
    IS(a1_recv(s, data, sizeof data, 0, &status), 0);
    CHECK(status & A1_PEER_CLOSED);
    IS(a1_send(s, data, 1, 0, &status), -EPIPE);
    IS(a1_close(s, 1000), 0);
    IS(a1_close(listener, 1000), 0);
    waitpid(children[1], &number, 0);
    puts("three sinks, and one that came late");
    return 0;
}
