// The header is C++ as well: a buffer of a pool.
#include "qbuf.h"

#include <cstdio>
#include <cstring>

int main() {
    qb_options options;
    std::memset(&options, 0, sizeof options);
    int fd = qb_open(nullptr, &options);
    char *text = static_cast<char *>(qb_alloc(fd, 100));
    struct qb_stats stats;
    if (fd < 0 || text == nullptr || qb_stats(fd, &stats) != 0 || stats.user_blocks != 1)
        return 1;
    std::strcpy(text, "from C++");
    std::puts(text);
    return qb_free(fd, text) + qb_close(fd);
}
