/* Messages that are larger than the memory that there is. */
#ifndef HUGE_H
#define HUGE_H

#include <sys/mman.h>
#include <sys/resource.h>

/* So many bytes to read, which take no memory. */
UNUSED static void *huge(size_t size) {
    void *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(p != MAP_FAILED);
    return p;
}

/* From now on this program gets so many bytes more, and then none. */
UNUSED static void limit_memory(size_t bytes) {
    struct rlimit limit;
    unsigned long pages;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1 && fclose(file) == 0);
    limit.rlim_cur = limit.rlim_max = pages * (size_t)sysconf(_SC_PAGESIZE) + bytes;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

#endif
