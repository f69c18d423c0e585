/* Messages of many buffers: gathered when they are sent, scattered when they are received. */
#include "qmp_common.h"
#include <sys/uio.h>

#define SIZE 1000000

static int ends[2];
static char out[SIZE], in[SIZE];

static void *send_parts(void *nothing) {
    struct iovec parts[40];
    struct msghdr message;
    size_t at = 0, count;
    (void)nothing;
    memset(&message, 0, sizeof message);
    message.msg_iov = parts;
    while (at < SIZE) {
        size_t all = 0;
        for (count = 0; count < 40 && at + all < SIZE; count++) {
            size_t size = (at + all) * 7919 % (at < SIZE / 2 ? 1000 : 50000);
            if (size > SIZE - at - all)
                size = SIZE - at - all;
            parts[count].iov_base = out + at + all;
            parts[count].iov_len = size == 0 ? count % 2 : size;
            all += parts[count].iov_len;
        }
        message.msg_iovlen = count;
        /* All of it: the socket blocks. */
        CHECK(qmp_sendmsg(ends[0], &message, 0) == (ssize_t)all);
        at += all;
    }
    return NULL;
}

int main(void) {
    struct iovec parts[7];
    struct msghdr message;
    pthread_t sender;
    size_t at = 0, part;
    fill(out, 3, SIZE);
    pair(ends);
    CHECK(pthread_create(&sender, NULL, send_parts, NULL) == 0);
    memset(&message, 0, sizeof message);
    message.msg_iov = parts;
    message.msg_iovlen = 7;
    while (at < SIZE) {
        size_t all = 0;
        ssize_t size;
        for (part = 0; part < 7; part++) {
            size_t wanted = part * 1009 % 5000;
            if (wanted > SIZE - at - all)
                wanted = SIZE - at - all;
            parts[part].iov_base = in + at + all;
            parts[part].iov_len = wanted;
            all += wanted;
        }
        if (at % 3 == 0) {
            message.msg_controllen = 0;
            size = qmp_recvmsg(ends[1], &message, MSG_PEEK);
            CHECK(size > 0 && (size_t)size <= all && is_intact(in + at, at + 3, (size_t)size));
        }
        message.msg_flags = 77;
        size = qmp_recvmsg(ends[1], &message, at % 2 == 0 ? MSG_WAITALL : 0);
        CHECK(size > 0 && (size_t)size <= all && message.msg_flags == 0);
        CHECK(at % 2 != 0 || (size_t)size == all);
        at += (size_t)size;
    }
    CHECK(pthread_join(sender, NULL) == 0 && memcmp(in, out, SIZE) == 0);

    /* A socket that does not block takes what fits. */
    parts[0].iov_base = parts[1].iov_base = out;
    parts[0].iov_len = parts[1].iov_len = SIZE;
    message.msg_iovlen = 2;
    for (at = 0; at < 1000; at++)
        if (qmp_sendmsg(ends[0], &message, MSG_DONTWAIT) < 0)
            break;
    CHECK(errno == EAGAIN && at < 1000);
    FAILS(qmp_recvmsg(ends[0], &message, MSG_DONTWAIT), EAGAIN);

    /* Errors. */
    FAILS(qmp_sendmsg(ends[0], NULL, 0), EFAULT);
    FAILS(qmp_recvmsg(ends[0], NULL, 0), EFAULT);
    message.msg_iov = NULL;
    FAILS(qmp_sendmsg(ends[0], &message, 0), EFAULT);
    message.msg_iov = parts;
    message.msg_iovlen = 1025;
    FAILS(qmp_sendmsg(ends[0], &message, 0), EMSGSIZE);
    FAILS(qmp_recvmsg(ends[0], &message, 0), EMSGSIZE);
    message.msg_iovlen = 2;
    parts[1].iov_len = (size_t)-1;
    FAILS(qmp_recvmsg(ends[0], &message, 0), EINVAL);
    parts[1].iov_base = NULL;
    parts[1].iov_len = 1;
    FAILS(qmp_recvmsg(ends[0], &message, 0), EFAULT);
    message.msg_name = parts;
    message.msg_namelen = 16;
    message.msg_iovlen = 0;
    FAILS(qmp_sendmsg(ends[0], &message, 0), EISCONN);
    message.msg_name = NULL;
    CHECK(qmp_sendmsg(ends[1], &message, 0) == 0 && qmp_recvmsg(ends[1], &message, 0) == 0);
    CHECK(qmp_close(ends[0]) == 0 && qmp_close(ends[1]) == 0);
    printf("scattered and gathered\n");
    return 0;
}
