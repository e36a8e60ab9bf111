#include "backend/backend_rig_test.h"

#include "base/list.h"
#include "base/mem.h"
#include "harness/test.h"

#include <stdio.h>
#include <stdlib.h>

enum { VIEWS = 4, WORDS = 5 };

struct script {
    struct backend_rig backend_rig;
    struct arena arena; /* of the line */
    struct named_view {
        char *name;
        struct backend_view view;
    } views[VIEWS];
    struct backend_defrag defrag;
    int defrags_done;
};

/* "n*600+a" stands for six hundred times n and then a. */
static struct bytes spelled(struct script *s, const char *text)
{
    struct buf out = {0};

    while (*text) {
        size_t len = strcspn(text, "+");
        const char *star = memchr(text, '*', len);
        size_t times = star ? strtoul(star + 1, NULL, 10) : 1;
        for (size_t i = 0; i < times; i++)
            buf_append(&out, bytes_of(text, star ? (size_t)(star - text) : len));
        text += len + (text[len] == '+');
    }
    struct bytes copy = arena_copy(&s->arena, buf_bytes(&out));
    buf_free(&out);
    return copy;
}

/* The other way round, for answers: a long run of one letter is counted. */
static void spell(struct buf *out, struct bytes text)
{
    for (size_t i = 0, run; i < text.len; i += run) {
        for (run = 1; i + run < text.len && text.at[i + run] == text.at[i]; run++)
            ;
        if (run < 20) {
            run = 1;
            buf_append_byte(out, text.at[i]);
        } else {
            buf_printf(out, "%c*%zu%s", text.at[i], run, i + run < text.len ? "+" : "");
        }
    }
}

static enum bucket bucket_of(const char *name)
{
    enum bucket bucket;

    CHECK(bucket_find(bytes_of_str(name), &bucket));
    return bucket;
}

static struct backend_view *view_named(struct script *s, const char *name)
{
    for (int i = 0; i < VIEWS; i++)
        if (s->views[i].name && strcmp(s->views[i].name, name) == 0)
            return &s->views[i].view;
    return NULL;
}

static void open_view(struct script *s, const char *name, bool on_worker)
{
    int i = 0;

    while (i < VIEWS && s->views[i].name)
        i++;
    CHECK(i < VIEWS);
    s->views[i].name = strdup(name);
    if (on_worker)
        backend_view_open_on_worker(s->backend_rig.b, &s->views[i].view);
    else
        backend_view_open(s->backend_rig.b, &s->views[i].view);
}

static void close_view(struct script *s, const char *name)
{
    for (int i = 0; i < VIEWS; i++)
        if (s->views[i].name && strcmp(s->views[i].name, name) == 0) {
            backend_view_close(&s->views[i].view);
            mem_free(s->views[i].name);
            s->views[i].name = NULL;
            return;
        }
    test_fail(__FILE__, __LINE__, "no view %s", name);
}

static void reply_get(struct script *s, struct backend_view *v, const char **words, struct buf *out)
{
    struct bytes value;
    enum err e = backend_get(v, bucket_of(words[2]), spelled(s, words[3]), &value);

    buf_printf(out, "%s %s/%s ", words[1], words[2], words[3]);
    if (e != ERR_OK) {
        buf_printf(out, "%s\n", err_text(e));
        return;
    }
    buf_append_str(out, "= ");
    spell(out, value);
    buf_append_str(out, "\n");
}

static void reply_scan(struct script *s, struct backend_view *v, const char **words,
                       struct buf *out)
{
    struct backend_cursor c;
    struct bytes key, value;
    enum err e;

    buf_printf(out, "%s %s:", words[1], words[2]);
    backend_cursor_open(v, bucket_of(words[2]),
                        *words[3] ? spelled(s, words[3]) : (struct bytes){0}, &c);
    while ((e = backend_cursor_next(&c, &key, &value)) == ERR_OK) {
        buf_append_str(out, " ");
        spell(out, key);
        buf_append_str(out, "=");
        spell(out, value);
    }
    backend_cursor_close(&c);
    buf_printf(out, "%s\n", e == ERR_END ? "" : err_text(e));
}

static void reply_position(struct backend_view *v, const char **words, struct buf *out)
{
    struct backend_position p;

    CHECK_EQ(backend_view_position(v, &p), ERR_OK);
    buf_printf(out, "%s index=%llu term=%llu\n", words[1], (unsigned long long)p.index,
               (unsigned long long)p.term);
}

static void reply_state(const struct backend *b, struct buf *out)
{
    struct backend_position applied = backend_applied(b), durable = backend_durable(b);

    buf_printf(
        out, "applied=%llu/%llu durable=%llu/%llu batch=%llu durable=%llu%s%s\n",
        (unsigned long long)applied.index, (unsigned long long)applied.term,
        (unsigned long long)durable.index, (unsigned long long)durable.term,
        (unsigned long long)backend_open_batch(b), (unsigned long long)backend_durable_batch(b),
        backend_can_commit(b) ? " can-commit" : "", backend_is_committing(b) ? " committing" : "");
}

static void look(struct script *s, const char **words, struct buf *out)
{
    bool now = strcmp(words[1], "now") == 0;

    if (now)
        open_view(s, "now", false);
    struct backend_view *v = view_named(s, words[1]);
    CHECK(v);
    if (strcmp(words[0], "get") == 0)
        reply_get(s, v, words, out);
    else if (strcmp(words[0], "scan") == 0)
        reply_scan(s, v, words, out);
    else
        reply_position(v, words, out);
    if (now)
        close_view(s, "now");
}

static bool write_step(struct script *s, const char **words)
{
    struct backend *b = s->backend_rig.b;

    if (strcmp(words[0], "put") == 0)
        backend_put(b, bucket_of(words[1]), spelled(s, words[2]),
                    *words[3] ? spelled(s, words[3]) : (struct bytes){0});
    else if (strcmp(words[0], "delete") == 0)
        backend_delete(b, bucket_of(words[1]), spelled(s, words[2]));
    else if (strcmp(words[0], "begin") == 0)
        backend_entry_begin(b);
    else if (strcmp(words[0], "end") == 0)
        backend_entry_end(
            b,
            (struct backend_position){strtoull(words[1], NULL, 10), strtoull(words[2], NULL, 10)},
            *words[3] ? bytes_of_str(words[3]) : (struct bytes){0});
    else
        return false;
    return true;
}

static void defrag_done(struct backend_defrag *d, enum err e)
{
    struct script *s = container_of(d, struct script, defrag);

    CHECK_EQ(e, ERR_OK);
    s->defrags_done++;
}

static bool commit_step(struct script *s, const char **words, struct buf *out)
{
    struct backend_rig *backend_rig = &s->backend_rig;

    if (strcmp(words[0], "commit") == 0)
        backend_commit_start(backend_rig->b);
    else if (strcmp(words[0], "settled-commit") == 0)
        backend_rig_commit(backend_rig);
    else if (strcmp(words[0], "cannot-commit") == 0)
        CHECK(!backend_can_commit(backend_rig->b));
    else if (strcmp(words[0], "run") == 0)
        CHECK(backend_rig_run(backend_rig));
    else if (strcmp(words[0], "report") == 0)
        CHECK(backend_rig_report(backend_rig));
    else if (strcmp(words[0], "settle") == 0)
        backend_rig_settle(backend_rig);
    else if (strcmp(words[0], "crash") == 0)
        backend_rig_crash(backend_rig);
    else if (strcmp(words[0], "defrag") == 0)
        buf_printf(out, "defrag %s\n",
                   backend_defrag_start(backend_rig->b, &s->defrag) ? "started"
                                                                    : "under way already");
    else
        return false;
    return true;
}

static void step(struct script *s, const char **words, struct buf *out)
{
    int defrags = s->defrags_done;

    if (strcmp(words[0], "view") == 0 || strcmp(words[0], "worker") == 0)
        open_view(s, words[1], words[0][0] == 'w');
    else if (strcmp(words[0], "close") == 0)
        close_view(s, words[1]);
    else if (strcmp(words[0], "state") == 0)
        reply_state(s->backend_rig.b, out);
    else if (strcmp(words[0], "get") == 0 || strcmp(words[0], "scan") == 0 ||
             strcmp(words[0], "position") == 0)
        look(s, words, out);
    else if (!write_step(s, words) && !commit_step(s, words, out))
        test_fail(__FILE__, __LINE__, "no step %s", words[0]);
    if (s->defrags_done > defrags)
        buf_append_str(out, "defrag done\n");
    backend_check(s->backend_rig.b);
}

static void reply(void *context, const struct scenario_command *command, struct buf *out)
{
    struct script *s = context;
    char *lines = arena_copy_str(command->arena, command->input), *next_line, *next_word;

    CHECK_STR(command->name, "do");
    for (char *line = strtok_r(lines, "\n", &next_line); line;
         line = strtok_r(NULL, "\n", &next_line)) {
        const char *words[WORDS] = {"", "", "", "", ""};
        char *word = strtok_r(line, " ", &next_word);
        for (int i = 0; word && i < WORDS; i++, word = strtok_r(NULL, " ", &next_word))
            words[i] = word;
        step(s, words, out);
        arena_reset(&s->arena);
    }
    backend_turn_ended(s->backend_rig.b);
}

static void run_contract(enum backend_rig_kind kind)
{
    struct script s = {.defrag = {.on_done = defrag_done}};

    backend_rig_init(&s.backend_rig, kind);
    CHECK_EQ(backend_rig_open(&s.backend_rig), ERR_OK);
    test_scenario("src/backend/testdata/contract.txt", reply, &s);
    CHECK_EQ(s.defrags_done, 2);
    backend_rig_close(&s.backend_rig);
    backend_rig_free(&s.backend_rig);
    arena_free(&s.arena);
}

TEST(the_twin_in_memory_keeps_the_contract)
{
    run_contract(BACKEND_RIG_MEMORY);
}

TEST(the_store_on_disk_keeps_the_contract)
{
    run_contract(BACKEND_RIG_LMDB);
}
