/* A child that sleeps in qmp_poll is woken by a descriptor of its own, and takes no signal that is meant for its parent. */
#include "qmp_common.h"

enum { MOST = 64 };

/* The numbers that the system gives event descriptors: those of a child's that were its parent's are the same. */
static int events_here(int ids[MOST]) {
    int count = 0, fd;
    for (fd = 0; fd < 256 && count < MOST; fd++) {
        char path[64], line[128];
        FILE *file;
        snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
        file = fopen(path, "r");
        while (file && fgets(line, sizeof line, file))
            count += sscanf(line, "eventfd-id: %d", &ids[count]) == 1;
        if (file)
            fclose(file);
    }
    return count;
}

int main(void) {
    int ends[2], theirs[MOST], own[MOST], count, at;
    pid_t child;
    CHECK(pipe(ends) == 0 && events_of(ends[0], POLLIN, 10) == 0);
    count = events_here(theirs);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(events_of(ends[0], POLLIN, 10) == 0);
        CHECK(events_here(own) == count);
        for (at = 0; at < count; at++)
            CHECK(own[at] != theirs[at]);
        return 0;
    }
    CHECK(child_succeeded(child));
    CHECK(write(ends[1], "x", 1) == 1 && events_of(ends[0], POLLIN, 20000) == POLLIN);
    printf(count > 0 ? "each has its own\n" : "each has its own, for all that this system tells\n");
    return 0;
}
