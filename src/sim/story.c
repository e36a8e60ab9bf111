#include "sim/story.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdio.h>

enum { TEXTS_MAX = 64 };

void story_free(struct story *s)
{
    mem_free(s->events);
    mem_free(s->texts);
    s->events = NULL;
    s->texts = NULL;
    s->count = s->cap = 0;
    s->text_count = 0;
}

static bool is_message(const struct story_event *e)
{
    return e->kind == STORY_SENT || e->kind == STORY_LOST;
}

/* What else there is takes the place of the older half of the messages; a story of nothing but
 * crashes that fills it all would be a bug of the simulator. */
static void forget_old_messages(struct story *s)
{
    size_t kept = 0, half = s->count / 2;

    for (size_t i = 0; i < s->count; i++) {
        if (i < half && is_message(&s->events[i]))
            s->forgotten++;
        else
            s->events[kept++] = s->events[i];
    }
    assert(kept < s->count);
    s->count = kept;
}

void story_note(struct story *s, const struct story_event *e)
{
    if (!s)
        return;
    assert(s->places <= STORY_PLACES_MAX);
    assert(e->from < STORY_PLACES_MAX);
    assert(e->to < STORY_PLACES_MAX);
    assert(s->count == 0 || e->until_ns >= s->events[s->count - 1].until_ns);
    if (s->count == STORY_EVENTS_MAX)
        forget_old_messages(s);
    if (s->count == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 1024;
        s->events = mem_resize(s->events, s->cap, sizeof(s->events[0]));
    }
    s->events[s->count++] = *e;
}

void story_note_text(struct story *s, uint64_t at_ns, enum story_kind kind, const char *text)
{
    if (!s)
        return;
    if (!s->texts) {
        s->texts = mem_alloc_array(TEXTS_MAX, STORY_TEXT_MAX);
        s->text_count = 1;
    }
    assert(s->text_count < TEXTS_MAX);
    uint32_t at = s->text_count++;
    snprintf(s->texts[at], STORY_TEXT_MAX, "%s", text);
    story_note(s, &(struct story_event){
                      .at_ns = at_ns, .until_ns = at_ns, .kind = (uint8_t)kind, .text = at});
}

const char *story_text(const struct story *s, const struct story_event *e)
{
    assert(e->text < s->text_count || e->text == 0);

    return e->text == 0 ? "" : s->texts[e->text];
}

const char *story_kind_name(enum story_kind kind)
{
    static const char *const names[] = {
        [STORY_STARTED] = "started",
        [STORY_CRASHED] = "crashed",
        [STORY_STOPPED] = "stopped",
        [STORY_PAUSED] = "paused",
        [STORY_RESUMED] = "resumed",
        [STORY_LEADS] = "leads",
        [STORY_FOLLOWS] = "follows",
        [STORY_CAMPAIGNS] = "has no leader",
        [STORY_DISK_SICK] = "has a sick disk",
        [STORY_DISK_WELL] = "has a disk that is well",
        [STORY_DISK_SPOILED] = "has a spoiled disk",
        [STORY_CLOCK_JUMPED] = "clock jumped",
        [STORY_CLOCK_DRIFTS] = "clock drifts",
        [STORY_CUT] = "cut",
        [STORY_MENDED] = "mended",
        [STORY_CLOGGED] = "clogged",
        [STORY_UNCLOGGED] = "unclogged",
        [STORY_SLOWED] = "slowed",
        [STORY_SENT] = "sent",
        [STORY_LOST] = "lost",
        [STORY_CONNECTED] = "connected",
        [STORY_REFUSED] = "refused",
        [STORY_RESET] = "reset",
        [STORY_REPEATED] = "repeated",
        [STORY_PHASE] = "phase",
        [STORY_BROKEN] = "broken",
    };

    assert((size_t)kind < ARRAY_LEN(names));
    return names[kind];
}
