#include "harness/test.h"
#include "sim/story.h"

static void note(struct story *s, enum story_kind kind, uint64_t at_ns)
{
    story_note(s, &(struct story_event){.at_ns = at_ns, .until_ns = at_ns, .kind = (uint8_t)kind});
}

TEST(a_story_that_is_too_long_forgets_old_messages_and_nothing_else)
{
    struct story s = {.places = 2, .members = 1};

    note(&s, STORY_STARTED, 1);
    story_note_text(&s, 1, STORY_PHASE, "storm");
    for (uint64_t i = 2; i < STORY_EVENTS_MAX + 10; i++)
        note(&s, i % 1000 == 0 ? STORY_CRASHED : STORY_SENT, i);

    CHECK(s.count < STORY_EVENTS_MAX);
    CHECK(s.forgotten > 0);
    CHECK_EQ(s.events[0].kind, STORY_STARTED);
    CHECK_STR(story_text(&s, &s.events[1]), "storm");
    CHECK_EQ(s.events[s.count - 1].at_ns, STORY_EVENTS_MAX + 9);
    size_t crashes = 0;
    for (size_t i = 0; i < s.count; i++)
        crashes += s.events[i].kind == STORY_CRASHED;
    CHECK_EQ(crashes, (STORY_EVENTS_MAX + 9) / 1000);
    story_free(&s);
}

TEST(nobody_wants_to_know_is_no_story)
{
    story_note(NULL, &(struct story_event){.kind = STORY_SENT});
    story_note_text(NULL, 1, STORY_BROKEN, "a promise");

    CHECK_STR(story_kind_name(STORY_BROKEN), "broken");
}
