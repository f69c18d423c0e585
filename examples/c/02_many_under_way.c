/* Many messages under way at once: the way to use the whole of a network. Nothing is copied: the memory of a message is the
 * library's until its delivery says that it is ours again, and then it carries another one. */
#include "both_ends.h"

#include <time.h>

#define SIZE 65536
#define COUNT 1000
#define WINDOW 32

static void *receive(void *argument) {
    pinnace_connection_t *from = argument;
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    int count = 0;
    /* 0 is the end: the sender has closed, and all was received. */
    while (pinnace_recv(from, &m, -1) == 1) {
        MUST(m.length == SIZE && ((char *)m.data)[0] == (char)count);
        count++;
        pinnace_received_free(&m);
    }
    printf("%d messages of %d bytes arrived\n", count, SIZE);
    return NULL;
}

int main(void) {
    static char memory[WINDOW][SIZE];
    pinnace_delivery_t *deliveries[WINDOW];
    pinnace_connection_t *to, *from;
    struct timespec begin, end;
    pthread_t thread;
    double seconds;
    connect_both("size=64KiB prefer=throughput", &to, &from);
    MUST(pthread_create(&thread, NULL, receive, from) == 0);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int number = 0; number < COUNT + WINDOW; number++) {
        int at = number % WINDOW;
        struct iovec part = {NULL, SIZE};
        part.iov_base = memory[at];
        if (number >= WINDOW)
            MUST(pinnace_delivery_wait(deliveries[at], NULL, -1) == 0);
        if (number < COUNT) {
            memory[at][0] = (char)number;
            MUST(pinnace_sendv(to, &part, 1, NULL, &deliveries[at]) == 0);
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    MUST(pinnace_close(to, 1000) == 0 && pthread_join(thread, NULL) == 0);
    MUST(pinnace_close(from, 1000) == 0);
    seconds = (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    printf("%.2f Gbit/s\n", 8e-9 * SIZE * COUNT / seconds);
    return 0;
}
