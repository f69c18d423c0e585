// The header is C++ too, twice over; with the paper's names.
#define XTP_PAPER_NAMES
#include "xtp.h"
#include "xtp.h"

#include <cstdio>
#include <cstring>

static_assert(Connection == 1 && Transaction == 2 && UnackDgram == 3 && AckDgram == 4 && IsoStream == 5 && BulkData == 6,
              "the paper's numbers");

int main() {
    xtpctx ctx;
    ctx.soc = -1;
    if (xtp_init(&ctx) != XTP_OK || ctx.cbloc->service != Connection)
        return 1;
    ctx.cbloc->service = BulkData;
    xtpspan span = {0, 0, nullptr, nullptr};
    ctx.span = &span;
    xtpctx *next = &ctx;
    timeval wait;
    if (xtp_timer_init(&next, &wait) != XTP_AGAIN || next != nullptr || xtp_close(&ctx, 2) != XTP_OK)
        return 2;
    std::puts("from C++");
    return 0;
}
