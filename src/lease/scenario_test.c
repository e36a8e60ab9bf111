/*
 * The steps of testdata/lease.txt, one to a line. Each that a client or the server would get an
 * answer to prints it.
 */
#include "lease/lease_rig_test.h"

#include "harness/test.h"
#include "pb/codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORDS = 8 };

static const char *result_text(enum lease_result a)
{
    static const char *const texts[] = {
        [LEASE_OK] = "ok",
        [LEASE_NOT_FOUND] = "not found",
        [LEASE_EXISTS] = "exists",
        [LEASE_TTL_TOO_LARGE] = "ttl too large",
        [LEASE_NOT_PRIMARY] = "not primary",
        [LEASE_EXPIRED] = "expired",
    };

    return texts[a];
}

static void say_state(struct lease_rig *r, struct buf *out)
{
    struct buf ids = {0};

    lease_list(r->set, &ids);
    buf_printf(out, "%s, %zu leases\n", lease_is_primary(r->set) ? "leading" : "following",
               lease_count(r->set));
    for (size_t i = 0; i < ids.len / sizeof(int64_t); i++) {
        int64_t id;
        memcpy(&id, ids.at + i * sizeof(id), sizeof(id));
        struct lease_info info = lease_rig_look(r, id);
        buf_printf(out, "%" PRId64 " ttl=%" PRId64 " left=%" PRId64 "%s", id, info.granted_ttl,
                   info.remaining, info.expired ? " expired" : "");
        struct bytes key = {0};
        for (const char *before = " keys="; lease_next_key(r->set, id, key, &key); before = ",") {
            buf_append_str(out, before);
            buf_append(out, key);
            CHECK_EQ(lease_of_key(r->set, key), id);
        }
        buf_append_byte(out, '\n');
    }
    buf_free(&ids);
}

static void say_records(struct lease_rig *r, struct buf *out)
{
    struct arena arena = {0};
    struct backend_view view;
    struct backend_cursor c;
    struct bytes key, value;

    backend_view_open(r->backend, &view);
    backend_cursor_open(&view, BUCKET_LEASE, (struct bytes){0}, &c);
    while (backend_cursor_next(&c, &key, &value) == ERR_OK) {
        struct pb_lease record;
        for (size_t i = 0; i < key.len; i++)
            buf_printf(out, "%02x", key.at[i]);
        CHECK_EQ(pb_decode_lease(value, &arena, &record), ERR_OK);
        buf_printf(out, " ID:%" PRId64 " TTL:%" PRId64 " RemainingTTL:%" PRId64 "\n", record.id,
                   record.ttl, record.remaining_ttl);
    }
    backend_cursor_close(&c);
    backend_view_close(&view);
    arena_free(&arena);
}

static void say_expired(struct lease_rig *r, struct buf *out)
{
    int64_t ids[LEASE_REVOKES_MAX];
    size_t count = lease_rig_expired(r, ids);

    buf_append_str(out, "expired:");
    for (size_t i = 0; i < count; i++)
        buf_printf(out, " %" PRId64, ids[i]);
    buf_append_byte(out, '\n');
}

static void say_checkpoints(struct lease_rig *r, struct buf *out)
{
    struct lease_remaining told[LEASE_CHECKPOINTS_MAX];
    size_t count = lease_take_checkpoints(r->set, r->now_ms, told, LEASE_CHECKPOINTS_MAX);

    lease_check(r->set);
    buf_append_str(out, "checkpoints:");
    for (size_t i = 0; i < count; i++)
        buf_printf(out, " %" PRId64 "=%" PRId64, told[i].id, told[i].remaining_ttl);
    buf_append_byte(out, '\n');
}

static void say_renewed(struct lease_rig *r, int64_t id, struct buf *out)
{
    int64_t ttl = 0;
    bool needs_checkpoint = false;
    enum lease_result a = lease_renew(r->set, id, r->now_ms, &ttl, &needs_checkpoint);

    lease_check(r->set);
    buf_printf(out, "renew %" PRId64 ": %s", id, result_text(a));
    if (a == LEASE_OK)
        buf_printf(out, ", ttl %" PRId64 "%s", ttl, needs_checkpoint ? ", clear first" : "");
    buf_append_byte(out, '\n');
}

/* What goes through the log. */
static bool logged_step(struct lease_rig *r, char *words[], const int64_t numbers[],
                        struct buf *out)
{
    enum lease_result a = LEASE_OK;

    if (strcmp(words[0], "grant") == 0)
        a = lease_rig_grant(r, numbers[1], numbers[2]);
    else if (strcmp(words[0], "revoke") == 0)
        a = lease_rig_revoke(r, numbers[1]);
    else if (strcmp(words[0], "attach") == 0)
        a = lease_rig_attach(r, numbers[1], words[2]);
    else if (strcmp(words[0], "detach") == 0)
        lease_rig_detach(r, words[1]);
    else if (strcmp(words[0], "checkpoint") == 0)
        lease_rig_checkpoint(r, numbers[1], numbers[2]);
    else
        return false;
    if (a != LEASE_OK)
        buf_printf(out, "%s %s: %s\n", words[0], words[1], result_text(a));
    return true;
}

static bool leading_step(struct lease_rig *r, char *words[], const int64_t numbers[],
                         struct buf *out)
{
    if (strcmp(words[0], "promote") == 0)
        lease_promote(r->set, r->now_ms, (uint64_t)numbers[1]);
    else if (strcmp(words[0], "demote") == 0)
        lease_demote(r->set);
    else if (strcmp(words[0], "renew") == 0)
        say_renewed(r, numbers[1], out);
    else if (strcmp(words[0], "expired") == 0)
        say_expired(r, out);
    else if (strcmp(words[0], "checkpoints") == 0)
        say_checkpoints(r, out);
    else
        return false;
    lease_check(r->set);
    return true;
}

static void step(struct lease_rig *r, char *line, struct buf *out)
{
    char *words[WORDS] = {"", "", "", "", "", "", "", ""};
    int64_t numbers[WORDS] = {0};
    int count = 0;

    for (char *rest, *word = strtok_r(line, " ", &rest); word && count < WORDS;
         word = strtok_r(NULL, " ", &rest)) {
        words[count] = word;
        numbers[count++] = strtoll(word, NULL, 10);
    }
    if (logged_step(r, words, numbers, out) || leading_step(r, words, numbers, out))
        return;
    if (strcmp(words[0], "wait") == 0)
        r->now_ms += (uint64_t)numbers[1];
    else if (strcmp(words[0], "restart") == 0)
        lease_rig_restart(r);
    else if (strcmp(words[0], "persist") == 0)
        lease_persist_checkpoints(r->set, true);
    else if (strcmp(words[0], "state") == 0)
        say_state(r, out);
    else if (strcmp(words[0], "records") == 0)
        say_records(r, out);
    else
        test_fail(__FILE__, __LINE__, "unknown step %s", words[0]);
}

/* "fresh [checkpoint] [persist]" starts over, "do" goes on. */
static void result(void *context, const struct scenario_command *command, struct buf *out)
{
    struct lease_rig *r = context;

    if (strcmp(command->name, "fresh") == 0) {
        if (r->set)
            lease_rig_close(r);
        lease_rig_open(
            r, &(struct lease_options){.min_ttl = 2,
                                       .checkpoint = scenario_find(command, "checkpoint") != NULL,
                                       .checkpoint_persist = scenario_find(command, "persist")});
    }
    char *text = arena_copy_str(command->arena, command->input);
    for (char *rest, *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        step(r, line, out);
}

TEST(leases_do_as_their_scenarios_say)
{
    struct lease_rig r = {0};

    test_scenario("src/lease/testdata/lease.txt", result, &r);
    lease_rig_close(&r);
}
