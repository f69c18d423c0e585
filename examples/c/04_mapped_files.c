/* From file to file through mapped pages: no buffer of the program's ever holds the content. It is sent straight from the
 * pages, and received into them (by some methods with one copy, from where the message has come to). */
#include "both_ends.h"

#include <sys/mman.h>
#include <unistd.h>

#define SIZE (8 << 20)

static char *mapped(FILE *file, size_t size) {
    char *pages;
    MUST(ftruncate(fileno(file), (off_t)size) == 0);
    pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    MUST(pages != MAP_FAILED);
    return pages;
}

static void *receive(void *argument) {
    pinnace_connection_t *from = argument;
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    uint64_t size;
    FILE *target = tmpfile();
    char *pages;
    /* First a message that says how long the file is, so that we can make room for it. */
    MUST(pinnace_recv_into(from, &size, sizeof size, &m, -1) == 1 && m.length == sizeof size);
    MUST(target != NULL);
    pages = mapped(target, size);
    /* The second message's memory is the file itself. */
    MUST(pinnace_recv_into(from, pages, size, &m, -1) == 1 && m.length == size);
    return pages;
}

int main(void) {
    pinnace_connection_t *to, *from;
    pinnace_delivery_t *delivery;
    struct iovec part = {NULL, SIZE};
    uint64_t size = SIZE;
    pthread_t thread;
    void *copy;
    FILE *source = tmpfile();
    char *pages;
    MUST(source != NULL);
    pages = mapped(source, SIZE);
    for (size_t at = 0; at < SIZE; at++)
        pages[at] = (char)(at ^ at >> 8);
    connect_both("size=8MiB", &to, &from);
    MUST(pthread_create(&thread, NULL, receive, from) == 0);
    MUST(pinnace_send(to, &size, sizeof size) == 0);
    part.iov_base = pages;
    MUST(pinnace_sendv(to, &part, 1, NULL, &delivery) == 0);
    MUST(pinnace_delivery_wait(delivery, NULL, -1) == 0);
    MUST(pthread_join(thread, &copy) == 0 && memcmp(copy, pages, SIZE) == 0);
    puts("the files are the same");
    MUST(pinnace_close(to, 1000) == 0 && pinnace_close(from, 1000) == 0);
    return 0;
}
