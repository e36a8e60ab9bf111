#include "server/stages.h"

#include "base/mem.h"
#include "harness/test.h"

TEST(a_stage_knows_when_each_got_there)
{
    struct stages *s = mem_new(struct stages);

    stages_reached(s, STAGE_LOGGED, 10, 1000000);
    stages_reached(s, STAGE_LOGGED, 12, 5000000);
    stages_reached(s, STAGE_LOGGED, 12, 9000000); /* nothing new */
    stages_reached(s, STAGE_COMMITTED, 11, 7000000);

    CHECK_EQ(stages_when_ns(s, STAGE_LOGGED, 9), 1000000);
    CHECK_EQ(stages_when_ns(s, STAGE_LOGGED, 10), 1000000);
    CHECK_EQ(stages_when_ns(s, STAGE_LOGGED, 11), 5000000);
    CHECK_EQ(stages_when_ns(s, STAGE_LOGGED, 12), 5000000);
    CHECK_EQ(stages_when_ns(s, STAGE_LOGGED, 13), 0);
    CHECK_EQ(stages_when_ns(s, STAGE_COMMITTED, 12), 0);
    CHECK_EQ(stages_when_ns(s, STAGE_PROPOSED, 1), 0);
    mem_free(s);
}

/* However often a turn speaks up: marks that are close are one, and the last ones are kept. */
TEST(a_stage_forgets_what_is_old_and_says_so)
{
    struct stages *s = mem_new(struct stages);
    const uint64_t each_ns = STAGE_MARK_NS / 4, count = 40 * (uint64_t)STAGE_MARKS;

    for (uint64_t i = 1; i <= count; i++)
        stages_reached(s, STAGE_PROPOSED, i, i * each_ns);

    CHECK_EQ(stages_when_ns(s, STAGE_PROPOSED, 1), 0);
    for (uint64_t i = count; i > count - 3 * (uint64_t)STAGE_MARKS; i--) {
        uint64_t at_ns = stages_when_ns(s, STAGE_PROPOSED, i);
        CHECK(at_ns <= i * each_ns && i * each_ns - at_ns < STAGE_MARK_NS);
    }
    mem_free(s);
}
