/* Addresses that many hosts have: nobody can connect there, so nobody can listen there. */
#include "unified_common.h"

int main(void) {
    static const char *const many[] = {"255.255.255.255:0", "224.0.0.1:0", "239.1.2.3:4747", "[ff02::1]:0", "[::ffff:224.0.0.1]:0"};
    for (size_t at = 0; at < sizeof many / sizeof *many; at++) {
        FAILS(pinnace_listen(many[at], NULL) != NULL, EADDRNOTAVAIL, "many hosts");
        FAILS(pinnace_endpoint_open(many[at], NULL) != NULL, EADDRNOTAVAIL, "many hosts");
    }
    printf("nobody listens there\n");
    return 0;
}
