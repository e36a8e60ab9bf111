#include "base/crc32c.h"

#include "base/assert.h"

#include <pthread.h>

#define POLYNOMIAL 0x82F63B78 /* reflected */

/*
 * table[0] advances the crc by one byte; table[k] by one byte followed by k zero bytes, which lets
 * the portable loop take eight bytes a step.
 */
static uint32_t table[8][256];

static uint64_t load64(const uint8_t *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof(word));
    return word;
}

static void table_fill(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
        table[0][byte] = crc;
    }
    for (uint32_t byte = 0; byte < 256; byte++)
        for (int k = 1; k < 8; k++)
            table[k][byte] = table[k - 1][byte] >> 8 ^ table[0][table[k - 1][byte] & 0xFF];
}

static uint32_t step8(uint64_t word)
{
    uint32_t crc = 0;

    for (int k = 0; k < 8; k++)
        crc ^= table[7 - k][word >> 8 * k & 0xFF];
    return crc;
}

static uint32_t update_portable(uint32_t crc, const uint8_t *at, size_t len)
{
    for (; len >= 8; at += 8, len -= 8)
        crc = step8(load64(at) ^ crc);
    for (; len > 0; at++, len--)
        crc = crc >> 8 ^ table[0][(crc ^ *at) & 0xFF];
    return crc;
}

#if defined(__x86_64__)

#include <nmmintrin.h>

/*
 * One crc32 instruction takes three cycles but a new one can start each cycle, so three runs of
 * STRIDE bytes go side by side. Joining them means advancing a crc over STRIDE zero bytes, which is
 * linear: four table look-ups, one for each byte of the crc.
 */
enum { STRIDE_LONG = 1024, STRIDE_SHORT = 128 };

static uint32_t shift_long[4][256];
static uint32_t shift_short[4][256];

static void shift_fill(uint32_t shift[4][256], size_t zeroes)
{
    static const uint8_t nothing[STRIDE_LONG];
    uint32_t advanced[32];

    assert(zeroes <= sizeof(nothing));
    for (int bit = 0; bit < 32; bit++)
        advanced[bit] = update_portable((uint32_t)1 << bit, nothing, zeroes);
    for (int byte = 0; byte < 4; byte++)
        for (uint32_t value = 0; value < 256; value++)
            for (int bit = 0; bit < 8; bit++)
                if (value >> bit & 1)
                    shift[byte][value] ^= advanced[byte * 8 + bit];
}

static uint32_t shifted(uint32_t shift[4][256], uint64_t crc)
{
    return shift[0][crc & 0xFF] ^ shift[1][crc >> 8 & 0xFF] ^ shift[2][crc >> 16 & 0xFF] ^
           shift[3][crc >> 24 & 0xFF];
}

__attribute__((target("sse4.2"))) static uint32_t
update_three(uint32_t crc, const uint8_t *at, size_t stride, uint32_t shift[4][256])
{
    uint64_t a = crc;
    uint64_t b = 0;
    uint64_t c = 0;

    for (const uint8_t *end = at + stride; at < end; at += 8) {
        a = _mm_crc32_u64(a, load64(at));
        b = _mm_crc32_u64(b, load64(at + stride));
        c = _mm_crc32_u64(c, load64(at + 2 * stride));
    }
    return (uint32_t)(shifted(shift, shifted(shift, a) ^ b) ^ c);
}

__attribute__((target("sse4.2"))) static uint32_t update_hardware(uint32_t crc, const uint8_t *at,
                                                                  size_t len)
{
    for (; len >= 3 * STRIDE_LONG; at += 3 * STRIDE_LONG, len -= 3 * STRIDE_LONG)
        crc = update_three(crc, at, STRIDE_LONG, shift_long);
    for (; len >= 3 * STRIDE_SHORT; at += 3 * STRIDE_SHORT, len -= 3 * STRIDE_SHORT)
        crc = update_three(crc, at, STRIDE_SHORT, shift_short);
    for (; len >= 8; at += 8, len -= 8)
        crc = (uint32_t)_mm_crc32_u64(crc, load64(at));
    for (; len > 0; at++, len--)
        crc = _mm_crc32_u8(crc, *at);
    return crc;
}

static bool hardware_prepare(void)
{
    if (!__builtin_cpu_supports("sse4.2"))
        return false;
    shift_fill(shift_long, STRIDE_LONG);
    shift_fill(shift_short, STRIDE_SHORT);
    return true;
}

#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)

#include <arm_acle.h>

static uint32_t update_hardware(uint32_t crc, const uint8_t *at, size_t len)
{
    for (; len >= 8; at += 8, len -= 8)
        crc = __crc32cd(crc, load64(at));
    for (; len > 0; at++, len--)
        crc = __crc32cb(crc, *at);
    return crc;
}

static bool hardware_prepare(void)
{
    return true;
}

#else

static uint32_t update_hardware(uint32_t crc, const uint8_t *at, size_t len)
{
    return update_portable(crc, at, len);
}

static bool hardware_prepare(void)
{
    return false;
}

#endif

static bool hardware;

static void prepare(void)
{
    table_fill();
    hardware = hardware_prepare();
}

/* Tables are made once, at the first use by any thread. */
static void prepare_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, prepare);
}

uint32_t crc32c(uint32_t crc, struct bytes more)
{
    prepare_once();
    if (hardware)
        return ~update_hardware(~crc, more.at, more.len);
    return ~update_portable(~crc, more.at, more.len);
}

uint32_t crc32c_portable(uint32_t crc, struct bytes more)
{
    prepare_once();
    return ~update_portable(~crc, more.at, more.len);
}

bool crc32c_is_hardware(void)
{
    prepare_once();
    return hardware;
}
