#include "base/mem.h"

#include "base/rng.h"
#include "harness/test.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

/* Whatever was in a piece before, and however it came back: nobody else's bytes, and zeroes where
 * they are promised. */
TEST(pieces_that_come_and_go_keep_to_themselves)
{
    enum { PIECES = 500, SIZE_MAX_HERE = 1500 };
    uint8_t *at[PIECES] = {NULL};
    size_t size[PIECES];
    struct rng rng;

    rng_seed(&rng, test_seed());
    for (int step = 0; step < 100000; step++) {
        size_t i = rng_below(&rng, PIECES);
        if (at[i]) {
            for (size_t j = 0; j < size[i]; j++)
                CHECK_EQ(at[i][j], (uint8_t)i);
            mem_free(at[i]);
            at[i] = NULL;
            continue;
        }
        size[i] = rng_below(&rng, SIZE_MAX_HERE);
        bool zeroed = rng_below(&rng, 2) == 0;
        at[i] = zeroed ? mem_alloc(size[i]) : mem_resize(NULL, size[i], 1);
        for (size_t j = 0; zeroed && j < size[i]; j++)
            CHECK_EQ(at[i][j], 0);
        memset(at[i], (int)i, size[i]);
    }
    for (size_t i = 0; i < PIECES; i++)
        mem_free(at[i]);
    mem_give_back();
}

TEST(a_piece_grows_with_its_content)
{
    for (size_t size = 1; size < 2000; size += 7) {
        uint8_t *at = mem_resize(NULL, size, 1);
        memset(at, 7, size);
        at = mem_resize(at, 2 * size, 1);
        for (size_t i = 0; i < size; i++)
            CHECK_EQ(at[i], 7);
        mem_free(at);
    }
}

static void *free_what_others_made(void *context)
{
    void **pieces = context;

    for (int i = 0; i < 1000; i++)
        mem_free(pieces[i]);
    pieces[0] = mem_alloc(100);
    mem_free(pieces[0]);
    mem_give_back();
    return NULL;
}

TEST(a_piece_may_be_freed_by_another_thread)
{
    void *pieces[1000];
    pthread_t thread;

    for (int i = 0; i < 1000; i++)
        pieces[i] = mem_alloc(100);

    CHECK_EQ(pthread_create(&thread, NULL, free_what_others_made, pieces), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}
