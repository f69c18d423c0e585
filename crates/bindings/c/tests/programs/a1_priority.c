/* Of the connections that a socket has accepted, the more urgent one goes first where the socket knows what the link carries. */
#include "a1_common.h"

#include <unistd.h>

#define MESSAGES 100
#define LINK 2000000

static char data[10000];

/* Connects a socket of its own, and takes it at the listener. */
static int join(int listener, uint64_t there, struct a1_qos qos, int *accepted) {
    int s = bound(qos);
    IS(a1_add_sink(s, there, &qos, NULL), 0);
    *accepted = a1_accept(listener, NULL, 0, NULL);
    CHECK(*accepted >= 0);
    return s;
}

int main(void) {
    struct a1_qos qos = reliable(), found;
    int listener = a1_socket(), urgent, patient, to_urgent, to_patient, message, waits, early = 0;
    uint64_t there;
    uint32_t status;
    qos.largest_sent = qos.largest_received = sizeof data;
    qos.outstanding = MESSAGES;
    IS(a1_set_link(listener, LINK, 20000), 0);
    IS(a1_bind(listener, NEAR, &qos), 0);
    IS(a1_set_link(listener, 0, 0), -EINVAL);
    IS(a1_listen(listener, 2), 0);
    IS(a1_name(listener, &there), 0);
    urgent = join(listener, there, qos, &to_urgent);
    patient = join(listener, there, qos, &to_patient);
    qos.priority = 200;
    IS(a1_setqos(to_patient, &qos, NULL), 0);
    for (waits = 0;; waits++) {
        IS(a1_getqos(to_patient, &found), 0);
        if (found.priority == 200)
            break;
        CHECK(waits < 5000);
        usleep(1000);
    }

    /* Half a second's for each, and all of it at once. */
    for (message = 0; message < MESSAGES; message++)
        IS(a1_send(to_patient, data, sizeof data, A1_DONTWAIT, &status), sizeof data);
    for (message = 0; message < MESSAGES; message++)
        IS(a1_send(to_urgent, data, sizeof data, A1_DONTWAIT, &status), sizeof data);
    for (message = 0; message < MESSAGES; message++)
        IS(a1_recv(urgent, data, sizeof data, 0, &status), sizeof data);
    while (a1_recv(patient, data, sizeof data, A1_DONTWAIT, &status) == sizeof data)
        early++;
    CHECK(early < MESSAGES * 2 / 3);
    /* It was late, not lost. */
    for (message = early; message < MESSAGES; message++)
        IS(a1_recv(patient, data, sizeof data, 0, &status), sizeof data);
    IS(a1_close(urgent, 5000), 0);
    IS(a1_close(patient, 5000), 0);
    IS(a1_close(to_urgent, 5000), 0);
    IS(a1_close(to_patient, 5000), 0);
    IS(a1_close(listener, 0), 0);
    puts("the urgent one first");
    return 0;
}
