#include "base/crc32c.h"

#include "base/rng.h"
#include "harness/test.h"

/* The vectors of RFC 3720, appendix B.4, and the usual check value. */
static void check_published(uint32_t (*crc)(uint32_t, struct bytes))
{
    uint8_t block[32];

    CHECK_EQ(crc(0, BYTES("123456789")), 0xE3069283);
    memset(block, 0, sizeof(block));
    CHECK_EQ(crc(0, bytes_of(block, 32)), 0x8A9136AA);
    memset(block, 0xFF, sizeof(block));
    CHECK_EQ(crc(0, bytes_of(block, 32)), 0x62A8AB43);
    for (int i = 0; i < 32; i++)
        block[i] = (uint8_t)i;
    CHECK_EQ(crc(0, bytes_of(block, 32)), 0x46DD794E);
    for (int i = 0; i < 32; i++)
        block[i] = (uint8_t)(31 - i);
    CHECK_EQ(crc(0, bytes_of(block, 32)), 0x113FDB5C);
    CHECK_EQ(crc(0, (struct bytes){0}), 0);
}

TEST(both_ways_match_the_published_vectors)
{
    check_published(crc32c);
    check_published(crc32c_portable);
}

TEST(both_ways_agree_on_any_length_and_alignment)
{
    static uint8_t block[20000];
    struct rng rng;

    rng_seed(&rng, test_seed());
    for (size_t i = 0; i < sizeof(block); i++)
        block[i] = (uint8_t)rng_next(&rng);
    for (int round = 0; round < 2000; round++) {
        size_t at = rng_below(&rng, 64);
        size_t len = rng_below(&rng, round % 2 ? 600 : sizeof(block) - at);
        uint32_t start = (uint32_t)rng_next(&rng);
        struct bytes piece = bytes_of(block + at, len);
        CHECK_EQ(crc32c(start, piece), crc32c_portable(start, piece));
    }
}

TEST(the_crc_rolls_over_pieces)
{
    struct bytes whole = BYTES("the quick brown fox jumps over the lazy dog");

    for (size_t cut = 0; cut <= whole.len; cut++) {
        uint32_t crc = crc32c(0, bytes_of(whole.at, cut));
        crc = crc32c(crc, bytes_of(whole.at + cut, whole.len - cut));
        CHECK_EQ(crc, crc32c(0, whole));
    }
}
