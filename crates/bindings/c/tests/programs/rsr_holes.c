/* A path that loses packets: what VRP loses is what the buffer lets it, and the handler is told. */
#include "rsr_common.h"

#include "lossy.h"

enum { FRAME = 9, NUMBERS = 50000 };

static void take(rsr_request_t *request, void *argument) {
    static uint32_t numbers[NUMBERS];
    const char *title;
    uint64_t last;
    const struct rsr_range *holes = NULL, *hole = NULL;
    size_t count, index, ranges, lost = 0;
    int result;
    CHECK(rsr_request_get_str(request, &title) == 0 && strcmp(title, "a picture") == 0);
    errno = 0;
    result = rsr_request_get_u32_array(request, numbers, NUMBERS, &count);
    ranges = rsr_request_lost(request, &hole);
    CHECK(count == NUMBERS && (result == 0) == (ranges == 0) && (result == 0 || errno == ENODATA));
    for (index = 0; index < count; index++) {
        while (ranges > 0 && index >= hole->high) {
            hole++;
            ranges--;
        }
        if (ranges > 0 && index >= hole->low)
            lost++;
        else
            CHECK(numbers[index] == index);
    }
    CHECK((rsr_request_holes(request, &holes) > 0) == (lost > 0));
    CHECK(lost == 0 || (holes[0].low > 4 && holes[0].high > holes[0].low));
    CHECK(rsr_request_get_u64(request, &last) == 0 && last == 99);
    CHECK(write(*(int *)argument, &lost, sizeof lost) == (ssize_t)sizeof lost);
}

int main(void) {
    static uint32_t numbers[NUMBERS];
    struct rsr_handler handler = {FRAME, take, NULL};
    int told[2], round;
    size_t lost, all = 0;
    char name[200], *colon;
    rsr_endpoint_t *endpoint;
    rsr_startpoint_t *startpoint;
    rsr_buffer_t *buffer = rsr_buffer_create();
    uint32_t index;
    for (index = 0; index < NUMBERS; index++)
        numbers[index] = index;
    CHECK(pipe(told) == 0);
    handler.argument = &told[1];
    endpoint = rsr_endpoint_open("vrp=127.0.0.1:0", &handler, 1);
    CHECK(endpoint != NULL);
    startpoint = rsr_endpoint_startpoint(endpoint);
    CHECK(rsr_startpoint_to_string(startpoint, name, sizeof name) > 0);
    rsr_startpoint_free(startpoint);
    colon = strrchr(name, ':');
    CHECK(colon != NULL);
    sprintf(name, "rsr:vrp=127.0.0.1:%d", relay_to(atoi(colon + 1), 500, 40));
    startpoint = rsr_startpoint_from_string(name);
    CHECK(startpoint != NULL);
    for (round = 0; round < 6; round++) {
        int exact = round == 5;
        CHECK(rsr_buffer_clear(buffer) == 0);
        CHECK(rsr_buffer_allow_loss(buffer, exact ? 0 : 40, 20000) == 0);
        CHECK(rsr_buffer_begin_critical(buffer) == 0);
        CHECK(rsr_buffer_begin_critical(buffer) == 0 && rsr_buffer_end_critical(buffer) == 0);
        CHECK(rsr_buffer_put_str(buffer, "a picture") == 0);
        CHECK(rsr_buffer_end_critical(buffer) == 0);
        CHECK(rsr_buffer_put_u32_array(buffer, numbers, NUMBERS) == 0);
        CHECK(rsr_buffer_begin_critical(buffer) == 0);
        /* Ends with the buffer. */
        CHECK(rsr_buffer_put_u64(buffer, 99) == 0);
        CHECK(rsr_send(startpoint, FRAME, buffer) == 0);
        await(told[0], &lost, sizeof lost);
        CHECK(!exact || lost == 0);
        all += lost;
    }
    CHECK(all > 0);
    rsr_endpoint_close(endpoint);
    rsr_startpoint_free(startpoint);
    rsr_buffer_free(buffer);
    puts("both ends know the holes");
    return 0;
}
