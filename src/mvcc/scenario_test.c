/*
 * Scenarios: "new" is an empty store, "do" more of the same; a step on each line. A put or delete
 * outside begin and end is an entry of its own. As a key, * is the zero byte: "get * *" is
 * everything.
 */
#include "mvcc/mvcc_rig_test.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORDS = 16, SCANS = 4 };

struct script {
    struct mvcc_rig rig;
    struct arena arena; /* of the whole file: scans keep looking at their questions */
    struct named_scan {
        const char *name;
        struct mvcc_scan scan;
        struct buf out;
    } scans[SCANS];
    struct mvcc_delete_range deleting;
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

/* The number in a word like "limit=3", wherever it stands. */
static int64_t option(const struct script *s, const char *name, int64_t otherwise)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < s->count; i++)
        if (strncmp(s->words[i], name, len) == 0 && s->words[i][len] == '=')
            return strtoll(s->words[i] + len + 1, NULL, 10);
    return otherwise;
}

static bool flag(const struct script *s, const char *name)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->words[i], name) == 0)
            return true;
    return false;
}

static const char *result_name(enum mvcc_result a)
{
    static const char *const names[] = {"ok", "compacted", "future"};

    return names[a];
}

/* --- writing ------------------------------------------------------------------------------ */

static void print_changes(const struct mvcc_changes *c, struct buf *out)
{
    if (c->revision == 0) {
        buf_append_str(out, "nothing changed\n");
        return;
    }
    buf_printf(out, "revision %" PRId64 ":", c->revision);
    if (!c->at)
        buf_printf(out, " %zu changes", c->count);
    for (size_t i = 0; c->at && i < c->count; i++)
        buf_printf(out, " %.*s%s", (int)c->at[i].key.len, (const char *)c->at[i].key.at,
                   c->at[i].tombstone ? "-"
                   : c->at[i].creates ? "+"
                                      : "");
    buf_append_str(out, "\n");
}

/* Around a change that is not inside begin and end. */
static bool begin_if_alone(struct script *s)
{
    bool alone = !mvcc_is_writing(s->rig.m);

    if (alone)
        mvcc_rig_begin(&s->rig);
    return alone;
}

static void end_if_alone(struct script *s, bool alone, struct buf *out)
{
    if (!alone)
        return;
    struct mvcc_changes c = mvcc_rig_end(&s->rig);
    if (c.revision == 0)
        print_changes(&c, out);
}

static void do_put(struct script *s, struct buf *out)
{
    bool alone = begin_if_alone(s);

    mvcc_put(s->rig.m, word(s, 1), word(s, 2), option(s, "lease", 0));
    end_if_alone(s, alone, out);
}

static void do_delete(struct script *s, struct buf *out)
{
    bool alone = begin_if_alone(s);
    struct mvcc_delete_range d = {.range = key_range(word(s, 1), word(s, 2))};

    mvcc_delete_range_begin(s->rig.m, &d);
    while (!mvcc_delete_range_some(s->rig.m, &d, 2))
        ;
    buf_printf(out, "deleted %" PRId64 "\n", d.deleted);
    end_if_alone(s, alone, out);
}

/* A delete that stays half done: "deleting KEY END", then "some STEPS". */
static void do_deleting(struct script *s, struct buf *out)
{
    (void)out;
    s->deleting = (struct mvcc_delete_range){.range = key_range(word(s, 1), word(s, 2))};
    mvcc_delete_range_begin(s->rig.m, &s->deleting);
}

static void do_some(struct script *s, struct buf *out)
{
    bool done = mvcc_delete_range_some(s->rig.m, &s->deleting, (unsigned)number(s, 1));

    buf_printf(out, "deleted %" PRId64 "%s\n", s->deleting.deleted, done ? ", done" : "");
}

static void do_begin(struct script *s, struct buf *out)
{
    (void)out;
    mvcc_rig_begin(&s->rig);
}

static void do_end(struct script *s, struct buf *out)
{
    struct mvcc_changes c = mvcc_rig_end(&s->rig);

    print_changes(&c, out);
}

/* --- reading ------------------------------------------------------------------------------ */

static int32_t sort_target(const struct script *s)
{
    static const char *const names[] = {"by-key", "by-version", "by-create", "by-mod", "by-value"};

    for (int32_t i = 0; i < (int32_t)ARRAY_LEN(names); i++)
        if (flag(s, names[i]))
            return i;
    return PB_SORT_BY_KEY;
}

/* False, and why, if the revision cannot be read. */
static bool ask(struct script *s, size_t first, struct mvcc_question *q, struct buf *out)
{
    *q = (struct mvcc_question){
        .key = word(s, first),
        .limit = option(s, "limit", 0),
        .sort_target = sort_target(s),
        .sort_order = flag(s, "ascend")    ? PB_SORT_ASCEND
                      : flag(s, "descend") ? PB_SORT_DESCEND
                                           : PB_SORT_NONE,
        .keys_only = flag(s, "keys-only"),
        .count_only = flag(s, "count-only"),
        .min_mod_revision = option(s, "min-mod", 0),
        .max_mod_revision = option(s, "max-mod", 0),
        .min_create_revision = option(s, "min-create", 0),
        .max_create_revision = option(s, "max-create", 0),
        .tag = 0x12,
    };
    if (s->count > first + 1 && !flag(s, "one") && !strchr(s->words[first + 1], '='))
        q->end = word(s, first + 1);
    if (flag(s, "working")) {
        q->at = mvcc_working(s->rig.m);
        return true;
    }
    enum mvcc_result a = mvcc_resolve(s->rig.m, option(s, "rev", 0), &q->at);
    if (a != MVCC_OK)
        buf_printf(out, "%s\n", result_name(a));
    return a == MVCC_OK;
}

static void print_kv(const struct pb_key_value *kv, struct buf *out)
{
    buf_append(out, kv->key);
    if (kv->value.len > 0)
        buf_printf(out, "=%.*s", (int)kv->value.len, (const char *)kv->value.at);
    buf_printf(out, " create=%" PRId64 " mod=%" PRId64 " version=%" PRId64, kv->create_revision,
               kv->mod_revision, kv->version);
    if (kv->lease)
        buf_printf(out, " lease=%" PRId64, kv->lease);
    buf_append_str(out, "\n");
}

static void print_kvs(struct script *s, struct bytes encoded, struct buf *out)
{
    struct pb_range_response response;

    CHECK_EQ(pb_decode_range_response(encoded, &s->arena, &response), ERR_OK);
    for (size_t i = 0; i < response.kvs.count; i++)
        print_kv(&response.kvs.at[i], out);
}

static void print_measure(const struct mvcc_scan *scan, struct buf *out)
{
    buf_printf(out, "count=%" PRId64 " kvs=%" PRId64 "%s\n", scan->count, scan->kvs,
               scan->more ? " more" : "");
}

static void do_get(struct script *s, struct buf *out)
{
    struct mvcc_scan scan = {0};
    struct buf encoded = {0};

    if (!ask(s, 1, &scan.question, out))
        return;
    mvcc_rig_scan(&s->rig, &scan, 20, 2, &encoded);
    print_kvs(s, buf_bytes(&encoded), out);
    print_measure(&scan, out);
    buf_free(&encoded);
}

static struct named_scan *named(struct script *s)
{
    for (size_t i = 0; i < SCANS; i++)
        if (s->scans[i].name && strcmp(s->scans[i].name, s->words[1]) == 0)
            return &s->scans[i];
    test_fail(__FILE__, __LINE__, "no scan %s", s->words[1]);
}

static void do_open(struct script *s, struct buf *out)
{
    struct named_scan *n = s->scans;

    while (n->name)
        n++;
    CHECK(n < s->scans + SCANS);
    *n = (struct named_scan){.name = s->words[1]};
    if (ask(s, 2, &n->scan.question, out))
        mvcc_scan_open(s->rig.m, &n->scan);
    else
        n->name = NULL;
}

static void do_measure(struct script *s, struct buf *out)
{
    struct named_scan *n = named(s);

    if (mvcc_scan_measure(&n->scan, (unsigned)option(s, "steps", 1000)))
        print_measure(&n->scan, out);
    else
        buf_append_str(out, "not yet\n");
}

static void do_read(struct script *s, struct buf *out)
{
    struct named_scan *n = named(s);
    size_t before = n->out.len;

    bool done = mvcc_scan_read(&n->scan, (size_t)option(s, "max", 1), 1000, &n->out);
    print_kvs(s, bytes_of(n->out.at + before, n->out.len - before), out);
    if (done)
        buf_append_str(out, "done\n");
}

static void do_close(struct script *s, struct buf *out)
{
    struct named_scan *n = named(s);

    (void)out;
    mvcc_scan_close(&n->scan);
    buf_free(&n->out);
    n->name = NULL;
}

static bool print_change(void *context, const struct mvcc_change *c)
{
    struct buf *out = context;

    buf_printf(out, "%" PRId64 "_%" PRId64 " %.*s%s ", c->at.main, c->at.sub, (int)c->key.len,
               (const char *)c->key.at,
               c->tombstone ? "-"
               : c->creates ? "+"
                            : "");
    return true;
}

static void do_history(struct script *s, struct buf *out)
{
    struct revision next = {number(s, 1), 0};

    while (!mvcc_history_some(s->rig.m, &next, &(unsigned){2}, print_change, out))
        ;
    buf_printf(out, "next %" PRId64 "_%" PRId64 "\n", next.main, next.sub);
}

static void do_before(struct script *s, struct buf *out)
{
    struct buf kv = {0};
    struct pb_key_value decoded;
    uint32_t length = mvcc_length_before(s->rig.m, word(s, 1), number(s, 2));

    if (mvcc_read_before(s->rig.m, word(s, 1), number(s, 2), &kv)) {
        CHECK_EQ(pb_decode_key_value(buf_bytes(&kv), &s->arena, &decoded), ERR_OK);
        print_kv(&decoded, out);
    } else {
        buf_append_str(out, "nothing\n");
    }
    CHECK_EQ(kv.len, length);
    buf_free(&kv);
}

static void do_hash(struct script *s, struct buf *out)
{
    buf_printf(out, "%08" PRIx32 "\n", mvcc_rig_hash(&s->rig, s->count > 1 ? number(s, 1) : 0));
}

/* --- compacting, crashing ----------------------------------------------------------------- */

static void do_compact(struct script *s, struct buf *out)
{
    enum mvcc_result a = mvcc_rig_compact(&s->rig, number(s, 1));

    if (a != MVCC_OK)
        buf_printf(out, "%s\n", result_name(a));
}

static void do_work(struct script *s, struct buf *out)
{
    bool idle = mvcc_compact_some(s->rig.m, (unsigned)option(s, "steps", 1000));
    bool waits = mvcc_compact_waiting(s->rig.m);

    buf_printf(out, "%s\n", waits ? "waits" : idle ? "nothing left" : "more to do");
}

static void do_commit(struct script *s, struct buf *out)
{
    (void)out;
    mvcc_rig_commit(&s->rig);
}

static void do_settle(struct script *s, struct buf *out)
{
    (void)out;
    mvcc_rig_settle(&s->rig);
}

static void do_reopen(struct script *s, struct buf *out)
{
    mvcc_rig_reopen(&s->rig);
    if (s->rig.leased.len > 0)
        buf_printf(out, "leased: %s\n", buf_str(&s->rig.leased));
}

static void do_crash(struct script *s, struct buf *out)
{
    (void)out;
    mvcc_rig_crash(&s->rig);
}

static void do_state(struct script *s, struct buf *out)
{
    const struct mvcc *m = s->rig.m;

    buf_printf(out, "revision=%" PRId64 " compact=%" PRId64 " finished=%" PRId64 " keys=%zu%s\n",
               mvcc_revision(m), mvcc_compact_revision(m), mvcc_compact_finished(m),
               mvcc_status(m).keys, mvcc_compact_pending(m) ? " pending" : "");
}

/* What is in the store: revisions, t for tombstones. */
static void do_stored(struct script *s, struct buf *out)
{
    struct backend_view v;
    struct backend_cursor c;
    struct bytes key, value;

    backend_view_open(s->rig.backend_rig.b, &v);
    backend_cursor_open(&v, BUCKET_KEY, (struct bytes){0}, &c);
    while (backend_cursor_next(&c, &key, &value) == ERR_OK)
        buf_printf(out, "%d_%d%s ", key.at[7], key.at[16], key.len == 18 ? "t" : "");
    backend_cursor_close(&c);
    backend_view_close(&v);
    buf_append_str(out, "\n");
}

/* --- the script --------------------------------------------------------------------------- */

static const struct step {
    const char *name;
    void (*run)(struct script *s, struct buf *out);
} steps[] = {
    {"put", do_put},       {"delete", do_delete}, {"deleting", do_deleting},
    {"some", do_some},     {"begin", do_begin},   {"end", do_end},
    {"get", do_get},       {"open", do_open},     {"measure", do_measure},
    {"read", do_read},     {"close", do_close},   {"history", do_history},
    {"before", do_before}, {"hash", do_hash},     {"compact", do_compact},
    {"work", do_work},     {"commit", do_commit}, {"settle", do_settle},
    {"reopen", do_reopen}, {"crash", do_crash},   {"state", do_state},
    {"stored", do_stored},
};

static void split(struct script *s, char *line)
{
    char *rest = NULL;

    s->count = 0;
    for (char *w = strtok_r(line, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
        CHECK(s->count < WORDS);
        s->words[s->count++] = w;
    }
}

static void run_line(struct script *s, char *line, struct buf *out)
{
    split(s, line);
    if (s->count == 0)
        return;
    for (size_t i = 0; i < ARRAY_LEN(steps); i++)
        if (strcmp(steps[i].name, s->words[0]) == 0) {
            steps[i].run(s, out);
            mvcc_check_store(s->rig.m);
            return;
        }
    test_fail(__FILE__, __LINE__, "what is %s?", s->words[0]);
}

/* A new store, or more of the one before. */
static void result(void *context, const struct scenario_command *command, struct buf *out)
{
    struct script *s = context;
    char *rest = NULL, *text = arena_copy_str(&s->arena, command->input);

    if (strcmp(command->name, "new") == 0) {
        mvcc_rig_free(&s->rig);
        mvcc_rig_init(&s->rig, BACKEND_RIG_MEMORY);
    }
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        run_line(s, line, out);
    CHECK_EQ(s->rig.damage.len, 0);
}

TEST(mvcc_scenarios)
{
    struct script s = {0};

    mvcc_rig_init(&s.rig, BACKEND_RIG_MEMORY);
    test_scenario("src/mvcc/testdata/mvcc.txt", result, &s);
    mvcc_rig_free(&s.rig);
    arena_free(&s.arena);
}
