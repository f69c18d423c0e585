/* The quality of service changes while messages flow; what lies beyond the maximum is refused. */
#include "a1_common.h"

static char data[10000];

static void *reader(void *argument) {
    int c = *(int *)argument, message;
    uint32_t status;
    for (message = 0;; message++) {
        ssize_t size = a1_recv(c, data, sizeof data, 0, &status);
        if (size == 0)
            break;
        IS(size, sizeof data);
        CHECK((status & (A1_START | A1_END | A1_LOST)) == (A1_START | A1_END));
        CHECK(data[0] == (char)message && data[sizeof data - 1] == (char)message);
    }
    IS(message, 300);
    return NULL;
}

int main(void) {
    struct a1_qos max = reliable(), qos, found;
    static char out[sizeof data];
    uint64_t there;
    int listener, s, c, message, is_pending = 0, is_changed = 0;
    uint32_t status, rtt;
    pthread_t thread;
    double before = 0, took;
    max.send_average = 50000000;
    max.send_burst = 100000;
    max.block_size = 10000;
    max.priority = 10;
    listener = listening(max, &there);
    s = bound(max);
    IS(a1_getqos(s, &found), 0);
    CHECK(found.send_average == 50000000 && found.block_size == 10000 && found.options == max.options);
    /* Beyond the maximum. */
    qos = max;
    qos.send_average = 60000000;
    IS(a1_add_sink(s, there, &qos, &status), -EPERM);
    qos = max;
    qos.largest_sent++;
    IS(a1_add_sink(s, there, &qos, &status), -EPERM);
    IS(a1_add_sink(s, there, &max, &status), 0);
    c = a1_accept(listener, NULL, 0, &status);
    CHECK(c >= 0);
    qos = max;
    qos.send_average = 0;
    IS(a1_setqos(s, &qos, &status), -EPERM);
    qos = max;
    qos.options = A1_CHECKSUM;
    IS(a1_setqos(s, &qos, NULL), -EPERM);
    qos = max;
    qos.block_size = 5000;
    IS(a1_setqos(s, &qos, NULL), -EPERM);
    qos = max;
    qos.options = 4;
    IS(a1_setqos(s, &qos, NULL), -EINVAL);
    IS(a1_getqos(s, &found), 0);
    CHECK(found.send_average == 50000000);

    CHECK(pthread_create(&thread, NULL, reader, &c) == 0);
    for (message = 0; message < 300; message++) {
        memset(out, message, sizeof out);
        if (message == 100) {
            qos = max;
            qos.block_size = 0;
            qos.send_average = 1000000;
            qos.send_burst = 10000;
            IS(a1_setqos(s, &qos, &status), 0);
            is_pending |= (status & A1_QOS_PENDING) != 0;
            is_changed |= (status & A1_QOS_CHANGED) != 0;
        }
        if (message == 150)
            before = now();
        IS(a1_send(s, out, sizeof out, 0, &status), sizeof out);
        is_pending |= (status & A1_QOS_PENDING) != 0;
        is_changed |= (status & A1_QOS_CHANGED) != 0;
    }
    /* 150 messages of 10 kB at 1 MB/s, of which at most 16 are still queued. */
    took = now() - before;
    CHECK(took > 1.2 && took < 10);
    CHECK(is_pending && is_changed);
    IS(a1_getqos(s, &found), 0);
    CHECK(found.send_average == 1000000 && found.send_burst == 10000 && found.block_size == 10000);
    IS(a1_rtt(s, &rtt), 0);
    CHECK(rtt < 1000000);
    IS(a1_close(s, 5000), 0);
    pthread_join(thread, NULL);
    IS(a1_getqos(c, &found), 0);
    IS(a1_close(c, 0), 0);
    IS(a1_close(listener, 0), 0);
    puts("slower on demand");
    return 0;
}
