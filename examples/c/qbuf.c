/* Pictures pass from one process to another without being copied: a camera draws into buffers of a shared pool, and a viewer
 * looks at them where they are. Each buffer has one owner at a time. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "qbuf.h"

#define PICTURES 100
#define SIZE (1280 * 720)

/* Whoever comes first makes the pool, so both say the same: 16 zones of 32 blocks of 32 KiB. */
static int open_pool(const char *name) {
    struct qb_options options;
    memset(&options, 0, sizeof options);
    options.zones = 16;
    options.block_size = 32768;
    return qb_open(name, &options);
}

static void camera(const char *name) {
    struct timespec moment = {0, 100000};
    int number, fd = open_pool(name);
    if (fd < 0) {
        perror("the camera");
        exit(1);
    }
    for (number = 0; number < PICTURES; number++) {
        unsigned char *picture;
        /* The viewer has them all at the moment. */
        while ((picture = (unsigned char *)qb_alloc(fd, SIZE)) == NULL)
            nanosleep(&moment, NULL);
        memset(picture, number, SIZE);
        if (qb_write(fd, picture, SIZE) < 0) {
            perror("qb_write");
            exit(1);
        }
        /* From here on the picture is the viewer's. */
    }
    qb_close(fd);
    exit(0);
}

int main(void) {
    struct qb_stats stats;
    char name[40];
    void *picture;
    size_t size;
    int fd, number = 0, status = 0;

    snprintf(name, sizeof name, "example-%ld", (long)getpid());
    if (fork() == 0)
        camera(name);
    fd = open_pool(name);
    if (fd < 0) {
        perror("the viewer");
        return 1;
    }
    while (qb_read(fd, &picture, &size) > 0) {
        unsigned char *bytes = (unsigned char *)picture;
        if (bytes[0] != number || bytes[size - 1] != number)
            return 1;
        qb_free(fd, picture);
        number++;
    }
    if (qb_stats(fd, &stats) != 0 || wait(&status) < 0 || status != 0)
        return 1;
    printf("%d pictures of %d bytes; %llu of %llu blocks are free\n", number, SIZE,
           (unsigned long long)stats.free_blocks, (unsigned long long)stats.blocks);
    qb_close(fd);
    return number == PICTURES ? 0 : 1;
}
