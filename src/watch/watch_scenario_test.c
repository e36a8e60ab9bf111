/*
 * Scenarios: "new" is an empty store, "do" more of the same; a step on each line. After each step
 * all work is done and every message taken and shown, unless the story is between "hold" and "go".
 * A stream that is slow keeps what it has taken in its credit until "sent". What is changed between
 * "away" and "replace" is not told, but is in the store that replaces ours, as with a snapshot from
 * the leader. As a key, * is the zero byte: "watch s * *" is everything.
 */
#include "watch/watch_rig_test.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORDS = 16, STREAMS = 4 };

struct script {
    struct watch_rig rig;
    bool open, in_txn, held;
    struct story_stream {
        char name[16];
        struct watch_stream *s;
        bool slow;
        size_t owed; /* bytes taken and not sent */
    } streams[STREAMS];
    const char *words[WORDS];
    size_t count;
};

static struct bytes word(const struct script *s, size_t i)
{
    if (i >= s->count)
        return (struct bytes){0};
    return strcmp(s->words[i], "*") == 0 ? BYTES("\0") : bytes_of_str(s->words[i]);
}

static int64_t number(const struct script *s, size_t i)
{
    CHECK(i < s->count);
    return strtoll(s->words[i], NULL, 10);
}

/* What follows "name=" in some word; NULL if there is none. */
static const char *option(const struct script *s, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < s->count; i++)
        if (strncmp(s->words[i], name, len) == 0 && s->words[i][len] == '=')
            return s->words[i] + len + 1;
    return NULL;
}

static int64_t option_number(const struct script *s, const char *name, int64_t otherwise)
{
    const char *text = option(s, name);

    return text ? strtoll(text, NULL, 10) : otherwise;
}

static bool flag(const struct script *s, const char *name)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->words[i], name) == 0)
            return true;
    return false;
}

static struct story_stream *stream(struct script *s)
{
    CHECK(s->count > 1);
    for (size_t i = 0; i < STREAMS; i++)
        if (s->streams[i].s && strcmp(s->streams[i].name, s->words[1]) == 0)
            return &s->streams[i];
    test_fail(__FILE__, __LINE__, "no stream %s", s->words[1]);
}

/* --- messages --- */

static void show_message(struct script *s, struct watch_message *m, struct buf *out)
{
    struct story_stream *t = watch_stream_context(m->stream);

    buf_printf(out, "%s ", t->name);
    watch_rig_describe(m, out);
    if (t->slow)
        t->owed += m->bytes;
    else
        watch_sent(m->stream, m->bytes);
    watch_check(s->rig.w);
}

static void settle(struct script *s, struct buf *out)
{
    struct watch_message m;

    if (s->held || s->in_txn || s->rig.away)
        return;
    do {
        watch_rig_settle(&s->rig, 50);
        while (watch_take(s->rig.w, &m))
            show_message(s, &m, out);
    } while (!watch_work(s->rig.w, 0, s->rig.now_ms));
}

/* --- steps --- */

static void close_all(struct script *s)
{
    if (!s->open)
        return;
    for (size_t i = 0; i < STREAMS; i++)
        if (s->streams[i].s)
            watch_stream_close(s->streams[i].s);
    watch_rig_free(&s->rig);
    s->open = false;
}

static void step_open(struct script *s)
{
    for (size_t i = 0; i < STREAMS; i++) {
        struct story_stream *t = &s->streams[i];
        if (t->s)
            continue;
        *t = (struct story_stream){.slow = flag(s, "slow")};
        snprintf(t->name, sizeof(t->name), "%s", s->words[1]);
        size_t credit = (size_t)option_number(s, "credit", 1 * MIB);
        t->s = watch_stream_open(s->rig.w, t, credit, s->rig.now_ms);
        return;
    }
    test_fail(__FILE__, __LINE__, "too many streams");
}

static void step_watch(struct script *s)
{
    int32_t filters[2];
    size_t count = 0;

    if (flag(s, "noput"))
        filters[count++] = PB_WATCH_NO_PUT;
    if (flag(s, "nodelete"))
        filters[count++] = PB_WATCH_NO_DELETE;
    struct bytes end = word(s, 3);
    if (end.len > 1 && strchr(s->words[3], '='))
        end = (struct bytes){0}; /* an option already */
    struct pb_watch_create_request request = {
        .key = strcmp(s->words[2], "nothing") == 0 ? (struct bytes){0} : word(s, 2),
        .range_end = end.len > 0 && strcmp(s->words[3], "-") == 0 ? (struct bytes){0} : end,
        .start_revision = option_number(s, "start", 0),
        .watch_id = option_number(s, "id", 0),
        .prev_kv = flag(s, "prev"),
        .progress_notify = flag(s, "progress"),
        .fragment = flag(s, "fragment"),
        .filters = {filters, count},
    };
    watch_create(stream(s)->s, &request, option(s, "refuse"), s->rig.now_ms);
}

/* So many puts of keys with this prefix; with a value of so many bytes. */
static void step_many(struct script *s)
{
    char key[64];
    size_t size = (size_t)option_number(s, "bytes", 1);
    struct buf value = {0};

    memset(buf_extend(&value, size), 'v', size);
    for (int64_t n = 0; n < number(s, 2); n++) {
        snprintf(key, sizeof(key), "%s%05" PRId64, s->words[1], n);
        if (flag(s, "apart"))
            watch_rig_begin(&s->rig);
        mvcc_put(s->rig.mvcc_rig.m, bytes_of_str(key), buf_bytes(&value), 0);
        if (flag(s, "apart"))
            watch_rig_end(&s->rig);
    }
    buf_free(&value);
}

static void step_put(struct script *s)
{
    if (!s->in_txn)
        watch_rig_begin(&s->rig);
    if (strcmp(s->words[0], "put") == 0)
        mvcc_put(s->rig.mvcc_rig.m, word(s, 1), word(s, 2), 0);
    else
        mvcc_delete(s->rig.mvcc_rig.m, word(s, 1));
    if (!s->in_txn)
        watch_rig_end(&s->rig);
}

static void step_sent(struct script *s)
{
    struct story_stream *t = stream(s);

    watch_sent(t->s, t->owed);
    t->owed = 0;
}

static void step_status(struct script *s, struct buf *out)
{
    struct watch_status st = watch_status(s->rig.w);

    buf_printf(out, "streams=%zu watchers=%zu live=%zu lagging=%zu\n", st.streams, st.watchers,
               st.live, st.lagging);
}

static void take_step(struct script *s, struct buf *out)
{
    const char *what = s->words[0];

    if (strcmp(what, "stream") == 0) {
        step_open(s);
    } else if (strcmp(what, "watch") == 0) {
        step_watch(s);
    } else if (strcmp(what, "cancel") == 0) {
        watch_cancel(stream(s)->s, number(s, 2));
    } else if (strcmp(what, "progress") == 0) {
        watch_request_progress(stream(s)->s);
    } else if (strcmp(what, "put") == 0 || strcmp(what, "delete") == 0) {
        step_put(s);
    } else if (strcmp(what, "begin") == 0) {
        watch_rig_begin(&s->rig);
        s->in_txn = true;
    } else if (strcmp(what, "end") == 0) {
        watch_rig_end(&s->rig);
        s->in_txn = false;
    } else if (strcmp(what, "many") == 0) {
        step_many(s);
    } else if (strcmp(what, "compact") == 0) {
        watch_rig_compact(&s->rig, number(s, 1));
    } else if (strcmp(what, "away") == 0) {
        s->rig.away = true;
    } else if (strcmp(what, "replace") == 0) {
        watch_rig_replace(&s->rig);
    } else if (strcmp(what, "hold") == 0 || strcmp(what, "go") == 0) {
        s->held = strcmp(what, "hold") == 0;
    } else if (strcmp(what, "clock") == 0) {
        s->rig.now_ms += (uint64_t)number(s, 1);
    } else if (strcmp(what, "sent") == 0) {
        step_sent(s);
    } else if (strcmp(what, "close") == 0) {
        watch_stream_close(stream(s)->s);
        stream(s)->s = NULL;
    } else if (strcmp(what, "status") == 0) {
        step_status(s, out);
    } else {
        test_fail(__FILE__, __LINE__, "no step is called %s", what);
    }
    watch_check(s->rig.w);
    settle(s, out);
}

static void reply(void *context, const struct scenario_command *command, struct buf *out)
{
    struct script *s = context;
    char *lines = arena_copy_str(command->arena, command->input);
    char *line, *rest = lines;

    if (strcmp(command->name, "new") == 0) {
        close_all(s);
        const struct scenario_arg *fragment = scenario_find(command, "fragment");
        *s = (struct script){.open = true};
        struct watch_options options = {
            .fragment_bytes = fragment ? strtoul(fragment->values[0], NULL, 10) : 0,
            .progress_interval_ms = 1000,
            .seed = 1,
        };
        watch_rig_init(&s->rig, &options);
    }
    while ((line = strsep(&rest, "\n"))) {
        char *token;
        for (s->count = 0; s->count < WORDS && (token = strsep(&line, " "));)
            s->words[s->count++] = token;
        if (s->count > 0 && s->words[0][0] != '\0')
            take_step(s, out);
    }
}

TEST(watch_scenarios_tell_who_hears_what)
{
    struct script s = {0};

    test_scenario("src/watch/testdata/watch.txt", reply, &s);
    close_all(&s);
}
