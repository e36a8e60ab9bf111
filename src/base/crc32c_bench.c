#include "base/crc32c.h"
#include "harness/bench.h"

static uint8_t block[4096];
static volatile uint32_t result; /* keeps the work from being optimised away */

static void hardware(void *context, uint64_t times)
{
    (void)context;
    for (uint64_t i = 0; i < times; i++)
        result = crc32c(result, bytes_of(block, sizeof(block)));
}

static void portable(void *context, uint64_t times)
{
    (void)context;
    for (uint64_t i = 0; i < times; i++)
        result = crc32c_portable(result, bytes_of(block, sizeof(block)));
}

BENCH(crc32c_4k)
{
    if (crc32c_is_hardware())
        bench_run(&(struct bench_work){
            .suffix = "hardware", .body = hardware, .bytes_each = sizeof(block)});
    bench_run(
        &(struct bench_work){.suffix = "portable", .body = portable, .bytes_each = sizeof(block)});
}
