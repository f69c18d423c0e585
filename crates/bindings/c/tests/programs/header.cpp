// The header is C++ too, twice over.
#include "zcrp.h"
#include "zcrp.h"

#include <cstdio>

int main() {
    zcrp_msg *message = zcrp_alloc_msg(10);
    if (message == nullptr || message->message_size != 10 || zcrp_wait(message) != 0)
        return 1;
    zcrp_free_msg(message);
    std::puts("from C++");
    return 0;
}
