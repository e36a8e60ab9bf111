/* Pages that anybody can open: well formed, small, and with everything on them. */
#include "harness/test.h"
#include "io/clock.h"
#include "sim/climate.h"
#include "sim/history.h"
#include "sim/picture.h"

#include <stdio.h>
#include <string.h>

static void note(struct story *s, uint64_t ms, enum story_kind kind, unsigned from, unsigned to,
                 uint64_t number)
{
    story_note(s, &(struct story_event){.at_ns = ms * NS_PER_MS,
                                        .until_ns = ms * NS_PER_MS,
                                        .number = number,
                                        .kind = (uint8_t)kind,
                                        .from = (uint8_t)from,
                                        .to = (uint8_t)to});
}

/* Every element that begins ends, in order, and its attributes are quoted. Returns how many there
 * are, or -1. */
static int count_elements(const char *page)
{
    char open[16][16];
    size_t depth = 0;
    int count = 0;

    for (const char *at = page; (at = strpbrk(at, "<&")); at++) {
        if (*at == '&') {
            const char *end = strchr(at, ';');
            if (!end || end - at > 8)
                return -1;
            continue;
        }
        if (strncmp(at, "<!DOCTYPE", 9) == 0)
            continue;
        const char *end = strchr(at, '>');
        if (!end)
            return -1;
        bool closes = at[1] == '/', is_empty = end[-1] == '/';
        char name[16] = "";
        sscanf(at + 1 + closes, "%15[a-z0-9]", name);
        if (closes && (depth == 0 || strcmp(open[depth - 1], name) != 0))
            return -1;
        depth -= closes;
        size_t quotes = 0;
        for (const char *c = at; c < end; c++)
            quotes += *c == '"';
        if (quotes % 2 != 0 || *name == '\0')
            return -1;
        if (!closes && !is_empty) {
            if (depth == ARRAY_LEN(open))
                return -1;
            memcpy(open[depth++], name, sizeof(name));
        }
        count += !closes;
        at = end;
    }
    return depth == 0 ? count : -1;
}

static unsigned times(const char *page, const char *text)
{
    unsigned n = 0;

    for (const char *at = page; (at = strstr(at, text)); at++)
        n++;
    return n;
}

static void shows(const char *page, const char *text)
{
    if (!strstr(page, text))
        test_fail(__FILE__, __LINE__, "the page does not show \"%s\"", text);
}

TEST(a_picture_shows_all_that_happened)
{
    struct story s = {.places = 5, .members = 3};
    struct history h = {0};
    struct buf page = {0};

    for (unsigned m = 0; m < 3; m++)
        note(&s, 1, STORY_STARTED, m, 0, 1);
    story_note_text(&s, 2 * NS_PER_MS, STORY_PHASE, "storm");
    note(&s, 300, STORY_LEADS, 0, 0, 2);
    note(&s, 310, STORY_FOLLOWS, 1, 0, 2);
    story_note(&s, &(struct story_event){.at_ns = 400 * NS_PER_MS,
                                         .until_ns = 410 * NS_PER_MS,
                                         .number = 77,
                                         .kind = STORY_SENT,
                                         .from = 0,
                                         .to = 2});
    note(&s, 420, STORY_LOST, 2, 1, 99);
    note(&s, 500, STORY_CUT, 0, 2, 0);
    note(&s, 510, STORY_CLOGGED, 4, 1, 0);
    note(&s, 600, STORY_PAUSED, 1, 0, 0);
    note(&s, 700, STORY_RESUMED, 1, 0, 0);
    note(&s, 800, STORY_DISK_SICK, 0, 0, FAULT_HANG);
    note(&s, 850, STORY_DISK_WELL, 0, 0, FAULT_HANG);
    note(&s, 860, STORY_DISK_SPOILED, 1, 0, FAULT_FLIP);
    note(&s, 900, STORY_MENDED, 0, 2, 0);
    note(&s, 1500, STORY_CRASHED, 0, 0, 1);
    note(&s, 1600, STORY_CLOCK_JUMPED, 2, 0, 5000);
    h.now_ns = 450 * NS_PER_MS;
    uint64_t op = history_begin(&h, OP_PUT, BYTES(""));
    history_sent(&h, op, 0);
    h.now_ns = 455 * NS_PER_MS;
    history_done(&h, op, 2, BYTES(""), false);
    uint64_t unknown = history_begin(&h, OP_DELETE, BYTES(""));
    history_sent(&h, unknown, 2);
    history_gave_up(&h, unknown);
    story_note_text(&s, 2500 * NS_PER_MS, STORY_BROKEN, "1 < 2 & \"so\" on");

    picture_draw(&(struct picture){.story = &s,
                                   .history = &h,
                                   .title = "seed 7, 3 members",
                                   .problem = "a <promise> was broken"},
                 &page);
    const char *text = buf_str(&page);

    CHECK(count_elements(text) > 30);
    shows(text, "<title>seed 7, 3 members</title>");
    shows(text, "<p class=\"problem\">a &lt;promise&gt; was broken</p>");
    shows(text, "1 &lt; 2 &amp; &quot;so&quot; on</text>");
    shows(text, "class=\"broken\"");
    shows(text, ">storm</text>");
    CHECK_EQ(times(text, "class=\"lane\""), 3);
    CHECK_EQ(times(text, "class=\"start\""), 3);
    shows(text, "member 0 leads, term 2, from 300.000 to 1500.000 ms");
    shows(text, "member 1 follows member 0, term 2, from 310.000 to");
    shows(text, "member 0 crashed: power cut at 1500.000 ms");
    shows(text, "member 0 has a sick disk for 50.000 ms");
    shows(text, "member 0 has a sick disk: hang at 800.000 ms");
    shows(text, "member 1 has a spoiled disk: flip at 860.000 ms");
    shows(text, "member 1 is paused for 100.000 ms");
    shows(text, "member 0 to member 2: cut for 400.000 ms");
    shows(text, "client 4 to member 1: clogged for");
    shows(text, "member 2 clock jumped at 1600.000 ms");
    shows(text, "0 to 2: 77 bytes, 10.000 ms");
    shows(text, "class=\"hit lost\"");
    shows(text, "0 put, revision 2, from 450.000 to 455.000 ms");
    shows(text, "class=\"hit unknown\"");
    CHECK(!strstr(text, "not drawn"));
    CHECK_EQ(times(text, "http"), 2); /* the names of two languages, and nothing to load */

    buf_free(&page);
    history_free(&h);
    story_free(&s);
}

/* A story of everything there may be of it, and then some. */
TEST(a_picture_of_a_long_story_is_small)
{
    struct story s = {.places = 8, .members = 7};
    struct history h = {0};
    struct buf page = {0};

    for (unsigned i = 0; i < 200000; i++) {
        note(&s, i, STORY_SENT, i % 7, (i + 1) % 7, i);
        if (i % 20 == 0)
            note(&s, i, i % 40 == 0 ? STORY_LEADS : STORY_FOLLOWS, i % 7, (i + 1) % 7, i);
        if (i % 30 == 0)
            note(&s, i, i % 60 == 0 ? STORY_CUT : STORY_MENDED, 1, 2, 0);
        if (i % 10 == 0)
            history_gave_up(&h, history_begin(&h, OP_PUT, BYTES("")));
    }
    for (unsigned m = 0; m < 7; m++)
        note(&s, 200000, STORY_STARTED, m, 0, 1);
    picture_draw(&(struct picture){.story = &s, .history = &h, .title = "long"}, &page);

    CHECK(count_elements(buf_str(&page)) > 4000);
    CHECK(page.len < PICTURE_BYTES_MAX);
    shows(buf_str(&page), "are not drawn");

    buf_free(&page);
    history_free(&h);
    story_free(&s);
}

TEST(a_picture_of_nothing_is_a_page)
{
    struct story s = {.places = 1, .members = 1};
    struct buf page = {0};

    picture_draw(&(struct picture){.story = &s, .title = "nothing"}, &page);
    CHECK(count_elements(buf_str(&page)) > 5);

    buf_free(&page);
}
