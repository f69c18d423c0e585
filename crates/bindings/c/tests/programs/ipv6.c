/* Over IPv6, whose headers are larger, on two simplex channels. */
#include "common.h"

#define SIZE 1000000u

static int pair_of(int pair[2]) {
    struct sockaddr_in6 names[2];
    int i;
    for (i = 0; i < 2; i++) {
        socklen_t length = sizeof names[i];
        memset(&names[i], 0, sizeof names[i]);
        names[i].sin6_family = AF_INET6;
        names[i].sin6_addr = in6addr_loopback;
        pair[i] = socket(AF_INET6, SOCK_DGRAM, 0);
        if (pair[i] < 0 || bind(pair[i], (struct sockaddr *)&names[i], sizeof names[i]) != 0)
            return 0;
        CHECK(getsockname(pair[i], (struct sockaddr *)&names[i], &length) == 0);
    }
    for (i = 0; i < 2; i++)
        CHECK(connect(pair[i], (struct sockaddr *)&names[1 - i], sizeof names[i]) == 0);
    return 1;
}

int main(void) {
    int control[2], units[2], sender[2], receiver[2];
    struct zcrp_msg *out = zcrp_alloc_msg(SIZE), *in = zcrp_alloc_msg(SIZE);
    CHECK(out != NULL && in != NULL);
    if (!pair_of(control) || !pair_of(units)) {
        printf("this host has no IPv6; over IPv6\n");
        return 0;
    }
    sender[0] = control[0];
    sender[1] = units[0];
    receiver[0] = control[1];
    receiver[1] = units[1];
    CHECK(zcrp_send_init(sender) && zcrp_rcv_init(receiver));
    CHECK(zcrp_get("unit_bytes") > 0 && zcrp_get("unit_bytes") <= 65507);
    fill(out, 1, SIZE);
    CHECK(zcrp_rcv(in, SIZE) && zcrp_send(out, SIZE) && zcrp_wait(in) && zcrp_wait(out));
    CHECK(is_intact(in, 1, SIZE));
    printf("units of %ld bytes over IPv6\n", zcrp_get("unit_bytes"));
    zcrp_free_msg(out);
    zcrp_free_msg(in);
    return 0;
}
