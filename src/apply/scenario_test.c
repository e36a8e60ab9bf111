/*
 * Entries as text, what they answer and what they do. Each line of a scenario's input is one entry,
 * one read or one look; a transaction goes on to its "end".
 */
#include "apply/apply_rig_test.h"

#include "base/mem.h"
#include "cluster/member_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORDS = 12, OPS = 16 };

struct script {
    struct apply_rig rig;
    bool open;
    struct arena arena; /* of the command */
    const char *rest;   /* of its input */
    const char *words[WORDS];
    size_t word_count;
    struct buf *out;
};

/* ---- Words ---- */

/* The next line, cut into words; false at the end. '' is an empty word. */
static bool next_line(struct script *s)
{
    s->word_count = 0;
    memset(s->words, 0, sizeof(s->words));
    if (!*s->rest)
        return false;
    size_t len = strcspn(s->rest, "\n");
    char *line = arena_copy_str(&s->arena, bytes_of(s->rest, len)), *save = NULL;
    s->rest += len + (s->rest[len] == '\n');
    for (char *w = strtok_r(line, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        CHECK(s->word_count < WORDS);
        s->words[s->word_count++] = strcmp(w, "''") == 0 ? "" : w;
    }
    return s->word_count > 0;
}

static bool is(const struct script *s, size_t at, const char *word)
{
    return at < s->word_count && strcmp(s->words[at], word) == 0;
}

static bool has(const struct script *s, const char *word)
{
    for (size_t i = 1; i < s->word_count; i++)
        if (is(s, i, word))
            return true;
    return false;
}

/* The value of "name=value"; NULL if there is none. */
static const char *option(const struct script *s, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 1; i < s->word_count; i++)
        if (strncmp(s->words[i], name, len) == 0 && s->words[i][len] == '=')
            return s->words[i] + len + 1;
    return NULL;
}

/* A word that is not a number is a mistake in the scenario. */
static int64_t number_of(const char *word)
{
    char *end;

    CHECK(word);
    int64_t n = strtoll(word, &end, 0);
    CHECK(end != word && *end == 0);
    return n;
}

static int64_t number(const struct script *s, const char *name)
{
    const char *text = option(s, name);

    return text ? number_of(text) : 0;
}

/* Is the word at `at` there, and neither an option nor a flag? Flags are said with a dash. */
static struct bytes plain(const struct script *s, size_t at)
{
    if (at >= s->word_count || s->words[at][0] == '-' || strchr(s->words[at], '='))
        return (struct bytes){0};
    return apply_rig_end(s->words[at]);
}

/* ---- Requests from words ---- */

static struct pb_put_request *parse_put(struct script *s)
{
    struct pb_put_request *p = arena_new(&s->arena, struct pb_put_request);

    *p = (struct pb_put_request){.key = plain(s, 1),
                                 .value = plain(s, 2),
                                 .lease = number(s, "lease"),
                                 .prev_kv = has(s, "-prev"),
                                 .ignore_value = has(s, "-ignore-value"),
                                 .ignore_lease = has(s, "-ignore-lease")};
    return p;
}

static struct pb_delete_range_request *parse_delete(struct script *s)
{
    struct pb_delete_range_request *d = arena_new(&s->arena, struct pb_delete_range_request);

    *d = (struct pb_delete_range_request){
        .key = plain(s, 1), .range_end = plain(s, 2), .prev_kv = has(s, "-prev")};
    return d;
}

static struct pb_range_request *parse_range(struct script *s)
{
    struct pb_range_request *r = arena_new(&s->arena, struct pb_range_request);

    *r = (struct pb_range_request){.key = plain(s, 1),
                                   .range_end = plain(s, 2),
                                   .revision = number(s, "rev"),
                                   .limit = number(s, "limit"),
                                   .keys_only = has(s, "-keys"),
                                   .count_only = has(s, "-count"),
                                   .serializable = has(s, "-serializable")};
    return r;
}

static int32_t pick(const char *word, const char *const names[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, names[i]) == 0)
            return (int32_t)i;
    return (int32_t)strtol(word, NULL, 10); /* one that the API does not know */
}

/* if KEY[..END] TARGET OP OPERAND */
static struct pb_compare parse_compare(struct script *s)
{
    static const char *const targets[] = {"version", "create", "mod", "value", "lease"};
    static const char *const results[] = {"=", ">", "<", "!="};
    char *key = arena_copy_str(&s->arena, bytes_of_str(s->words[1])), *end = strstr(key, "..");
    struct pb_compare c = {.target = pick(s->words[2], targets, ARRAY_LEN(targets)),
                           .result = pick(s->words[3], results, ARRAY_LEN(results))};

    if (end)
        *end = 0;
    c.key = bytes_of_str(key);
    c.range_end = end ? apply_rig_end(end + 2) : (struct bytes){0};
    if (s->word_count < 5)
        return c;
    c.which = (enum pb_compare_operand)(c.target + PB_OPERAND_VERSION);
    if (c.target == PB_TARGET_VALUE)
        c.value = bytes_of_str(s->words[4]);
    else
        c.version = strtoll(s->words[4], NULL, 10);
    return c;
}

static struct pb_txn_request *parse_txn(struct script *s);

static struct pb_request_op parse_op(struct script *s)
{
    if (is(s, 0, "put"))
        return (struct pb_request_op){.which = PB_OP_PUT, .put = parse_put(s)};
    if (is(s, 0, "delete"))
        return (struct pb_request_op){.which = PB_OP_DELETE_RANGE, .delete_range = parse_delete(s)};
    if (is(s, 0, "get"))
        return (struct pb_request_op){.which = PB_OP_RANGE, .range = parse_range(s)};
    if (is(s, 0, "txn"))
        return (struct pb_request_op){.which = PB_OP_TXN, .txn = parse_txn(s)};
    CHECK(is(s, 0, "nothing"));
    return (struct pb_request_op){0};
}

/* The lines after "txn", to its "end". */
static struct pb_txn_request *parse_txn(struct script *s)
{
    struct pb_txn_request *t = arena_new(&s->arena, struct pb_txn_request);
    struct pb_compare *compares = arena_new_array(&s->arena, OPS, struct pb_compare);
    struct pb_request_op *then = arena_new_array(&s->arena, OPS, struct pb_request_op);
    struct pb_request_op *other = arena_new_array(&s->arena, OPS, struct pb_request_op);
    bool in_else = false;

    t->compare.at = compares;
    t->success.at = then;
    t->failure.at = other;
    while (next_line(s) && !is(s, 0, "end")) {
        CHECK(t->compare.count < OPS && t->success.count < OPS && t->failure.count < OPS);
        if (is(s, 0, "if"))
            compares[t->compare.count++] = parse_compare(s);
        else if (is(s, 0, "else"))
            in_else = true;
        else if (in_else)
            other[t->failure.count++] = parse_op(s);
        else if (!is(s, 0, "then"))
            then[t->success.count++] = parse_op(s);
    }
    return t;
}

/* ---- Answers ---- */

/* The text form of a message, on one line. */
static void print_message(struct script *s, const struct pb_schema *schema, struct bytes wire)
{
    struct buf text = {0};
    void *msg = arena_alloc(&s->arena, schema->size);

    CHECK_EQ(pb_decode(schema, wire, &s->arena, msg), ERR_OK);
    pb_dump(schema, msg, &text);
    buf_append_byte(s->out, '{');
    for (size_t i = 0; i < text.len; i++) {
        bool gap = text.at[i] == '\n' || text.at[i] == ' ';
        if (!gap)
            buf_append_byte(s->out, text.at[i]);
        else if (i + 1 < text.len && text.at[i + 1] != ' ' && text.at[i + 1] != '\n')
            buf_append_byte(s->out, ' ');
    }
    buf_append_byte(s->out, '}');
    buf_free(&text);
}

static void print_reply(struct script *s, const struct pb_schema *schema, struct reply *r)
{
    struct buf wire = {0};

    apply_rig_read_reply(r, 7, &wire);
    buf_append_byte(s->out, ' ');
    print_message(s, schema, buf_bytes(&wire));
    buf_free(&wire);
}

static void print_result(struct script *s, enum result result, int64_t revision)
{
    buf_printf(s->out, "%s rev=%" PRId64, result == RESULT_OK ? "ok" : result_text(result),
               revision);
}

static void print_changes(struct script *s, const struct mvcc_changes *c)
{
    if (c->revision == 0)
        return;
    buf_printf(s->out, " changes=%zu", c->count);
    for (size_t i = 0; c->at && i < c->count; i++) {
        const struct mvcc_change *one = &c->at[i];
        buf_printf(s->out, " %" PRId64 ".%" PRId64 "%s", one->at.main, one->at.sub,
                   one->tombstone ? "-"
                   : one->creates ? "+"
                                  : "=");
        apply_rig_print(one->key, s->out);
    }
}

static void print_flags(struct script *s, const struct apply_effects *e)
{
    if (e->compact_revision)
        buf_printf(s->out, " compact=%" PRId64, e->compact_revision);
    buf_printf(s->out, "%s%s%s%s%s", e->compacted ? " compacted" : "",
               e->compact_physical ? " physical" : "", e->no_op ? " no-op" : "",
               e->quota_exceeded ? " quota-exceeded" : "",
               e->version_lowered ? " version-lowered" : "");
    if (e->is_conf_change)
        buf_printf(s->out, " conf-change type=%d node=%" PRIx64 "%s%s", (int)e->conf_change.type,
                   e->conf_change.node_id, e->removed_self ? " removed-self" : "",
                   e->skip_raft ? " skip-raft" : "");
}

static void print_refused(struct script *s)
{
    buf_append(s->out, buf_bytes(&s->rig.refused));
    buf_clear(&s->rig.refused);
    s->rig.log_count--; /* what cannot be applied is given up, so that the story can go on */
    apply_rig_crash(&s->rig);
    blob_unref(s->rig.log[s->rig.log_count].blob);
}

static void print_effects(struct script *s, struct apply_effects *e, const struct pb_schema *schema)
{
    if (!e) {
        print_refused(s);
        return;
    }
    print_result(s, e->result, e->revision);
    if (schema && e->result == RESULT_OK && !s->rig.nobody_waits)
        print_reply(s, schema, &e->reply);
    CHECK_EQ(e->reply.total, e->reply.taken);
    print_changes(s, &e->changes);
    print_flags(s, e);
    buf_append_byte(s->out, '\n');
    apply_rig_done(&s->rig);
}

static void request(struct script *s, struct pb_internal_raft_request r,
                    const struct pb_schema *schema)
{
    print_effects(s, apply_rig_request(&s->rig, &r), schema);
}

/* ---- Lines: entries ---- */

static bool kv_line(struct script *s)
{
    if (is(s, 0, "put"))
        request(s, (struct pb_internal_raft_request){.put = parse_put(s)}, &pb_put_response_schema);
    else if (is(s, 0, "delete"))
        request(s, (struct pb_internal_raft_request){.delete_range = parse_delete(s)},
                &pb_delete_range_response_schema);
    else if (is(s, 0, "range"))
        request(s, (struct pb_internal_raft_request){.range = parse_range(s)},
                &pb_range_response_schema);
    else if (is(s, 0, "txn"))
        request(s, (struct pb_internal_raft_request){.txn = parse_txn(s)}, &pb_txn_response_schema);
    else
        return false;
    return true;
}

static bool lease_line(struct script *s)
{
    int64_t id = s->word_count > 1 ? strtoll(s->words[1], NULL, 10) : 0;
    int64_t ttl = s->word_count > 2 ? strtoll(s->words[2], NULL, 10) : 0;
    struct pb_lease_checkpoint one = {id, ttl};

    if (is(s, 0, "grant"))
        request(s,
                (struct pb_internal_raft_request){
                    .lease_grant = &(struct pb_lease_grant_request){.id = id, .ttl = ttl}},
                &pb_lease_grant_response_schema);
    else if (is(s, 0, "revoke"))
        request(s, (struct pb_internal_raft_request){.lease_revoke = &(struct pb_lease_id){id}},
                &pb_lease_revoke_response_schema);
    else if (is(s, 0, "checkpoint"))
        request(s,
                (struct pb_internal_raft_request){
                    .lease_checkpoint =
                        &(struct pb_lease_checkpoint_request){.checkpoints = {&one, 1}}},
                &pb_lease_checkpoint_response_schema);
    else
        return false;
    return true;
}

static void alarm_line(struct script *s)
{
    static const char *const actions[] = {"get", "raise", "clear"};
    static const char *const types[] = {"none", "nospace", "corrupt"};
    struct pb_alarm_request a = {
        .action = pick(s->words[1], actions, ARRAY_LEN(actions)),
        .alarm = pick(s->words[2], types, ARRAY_LEN(types)),
        .member_id = (uint64_t)number(s, "member"),
    };

    request(s, (struct pb_internal_raft_request){.alarm = &a}, &pb_alarm_response_schema);
}

static void compact_line(struct script *s)
{
    struct pb_compaction_request c = {.revision = strtoll(s->words[1], NULL, 10),
                                      .physical = has(s, "-physical")};

    request(s, (struct pb_internal_raft_request){.compaction = &c}, &pb_compaction_response_schema);
}

static bool cluster_line(struct script *s)
{
    struct bytes text = s->word_count > 1 ? bytes_of_str(s->words[1]) : (struct bytes){0};
    struct bytes url = s->word_count > 3 ? bytes_of_str(s->words[3]) : (struct bytes){0};

    if (is(s, 0, "version"))
        request(s,
                (struct pb_internal_raft_request){
                    .cluster_version_set = &(struct pb_cluster_version_set_request){.ver = text}},
                NULL);
    else if (is(s, 0, "downgrade"))
        request(s,
                (struct pb_internal_raft_request){.downgrade_info_set =
                                                      &(struct pb_downgrade_info_set_request){
                                                          .enabled = text.len > 0, .ver = text}},
                NULL);
    else if (is(s, 0, "downgrade-test"))
        request(
            s,
            (struct pb_internal_raft_request){
                .downgrade_version_test = &(struct pb_downgrade_version_test_request){.ver = text}},
            NULL);
    else if (is(s, 0, "attributes"))
        request(s,
                (struct pb_internal_raft_request){
                    .cluster_member_attr_set =
                        &(struct pb_cluster_member_attr_set_request){
                            .member_id = strtoull(s->words[1], NULL, 16),
                            .member_attributes =
                                s->word_count > 2
                                    ? &(struct pb_attributes){.name = bytes_of_str(s->words[2]),
                                                              .client_urls = {&url, 1}}
                                    : NULL}},
                NULL);
    else
        return false;
    return true;
}

/* conf add|learner|promote|remove|update ID [URL] */
static void conf_line(struct script *s)
{
    static const char *const types[] = {"add", "remove", "update", "learner"};
    struct bytes url = s->word_count > 3 ? bytes_of_str(s->words[3]) : (struct bytes){0};
    uint64_t id = strtoull(s->words[2], NULL, 16);
    struct buf context = {0}, data = {0};
    bool promotes = is(s, 1, "promote");
    struct raft_conf_change cc = {.id = 99, .node_id = id};

    if (!promotes)
        cc.type = (enum raft_conf_change_type)pick(s->words[1], types, ARRAY_LEN(types));
    if (promotes)
        buf_printf(&context, "{\"id\":%" PRIu64 ",\"peerURLs\":null,\"isPromote\":true}", id);
    else if (is(s, 3, "garbage"))
        buf_append_str(&context, "garbage");
    else if (cc.type != RAFT_REMOVE_NODE)
        buf_printf(&context, "{\"id\":%" PRIu64 ",\"peerURLs\":[\"%.*s\"]%s}", id, (int)url.len,
                   (const char *)url.at,
                   cc.type == RAFT_ADD_LEARNER_NODE ? ",\"isLearner\":true" : "");
    cc.context = buf_bytes(&context);
    raft_conf_change_encode(&cc, &data);
    print_effects(s, apply_rig_entry(&s->rig, RAFT_ENTRY_CONF_CHANGE, buf_bytes(&data)), NULL);
    buf_free(&context);
    buf_free(&data);
}

/* Any request, by the name of its field, empty but for a header. */
static void empty_request(struct script *s, const char *name)
{
    const struct pb_schema *schema = &pb_internal_raft_request_schema;
    struct pb_internal_raft_request r = {0};

    for (size_t i = 0; i < schema->field_count; i++) {
        const struct pb_field *f = &schema->fields[i];
        if (f->kind == PB_MESSAGE && strcmp(f->name, name) == 0) {
            const void *empty = arena_alloc(&s->arena, f->sub->size);
            memcpy((uint8_t *)&r + f->offset, &empty, sizeof(empty));
            request(s, r,
                    strcmp(name, "auth_status") == 0 ? &pb_auth_status_response_schema : NULL);
            return;
        }
    }
    test_fail(__FILE__, __LINE__, "no request %s", name);
}

/* raw TYPE HEX: an entry as it stands. */
static void raw_line(struct script *s)
{
    struct buf data = {0};

    for (const char *hex = s->words[2]; hex && hex[0] && hex[1]; hex += 2) {
        char digits[3] = {hex[0], hex[1], 0};
        buf_append_byte(&data, (uint8_t)strtoul(digits, NULL, 16));
    }
    print_effects(
        s, apply_rig_entry(&s->rig, (enum raft_entry_type)number_of(s->words[1]), buf_bytes(&data)),
        NULL);
    buf_free(&data);
}

/* ---- Lines: reads and looks ---- */

static void read_line(struct script *s)
{
    struct apply_read r = {0};
    const struct pb_schema *schema = &pb_range_response_schema;

    r.keep_open = has(s, "-keep-open");
    if (is(s, 0, "read-txn")) {
        r.txn = parse_txn(s);
        schema = &pb_txn_response_schema;
    } else {
        r.range = parse_range(s);
    }
    apply_read_begin(s->rig.apply, &r);
    while (!apply_read_some(&r, s->rig.steps))
        ;
    print_result(s, r.result, r.revision);
    if (r.scan)
        buf_printf(s->out, " scan kvs=%" PRId64 " count=%" PRId64 " bytes=%" PRIu64, r.scan->kvs,
                   r.scan->count, r.scan->bytes);
    else if (r.result == RESULT_OK)
        print_reply(s, schema, &r.reply);
    buf_append_byte(s->out, '\n');
    apply_read_end(&r);
}

static void leases_line(struct script *s)
{
    struct buf ids = {0};
    struct bytes key;

    lease_list(s->rig.leases, &ids);
    for (size_t i = 0; i < ids.len / sizeof(int64_t); i++) {
        int64_t id;
        memcpy(&id, ids.at + i * sizeof(id), sizeof(id));
        buf_printf(s->out, "%" PRId64 ":", id);
        for (key = (struct bytes){0}; lease_next_key(s->rig.leases, id, key, &key);) {
            buf_append_byte(s->out, ' ');
            apply_rig_print(key, s->out);
        }
        buf_append_byte(s->out, '\n');
    }
    buf_free(&ids);
}

static void bucket_line(struct script *s)
{
    enum bucket bucket;

    CHECK(bucket_find(bytes_of_str(s->words[1]), &bucket));
    apply_rig_dump_bucket(&s->rig, bucket, s->out);
}

static bool look_line(struct script *s)
{
    if (is(s, 0, "get") || is(s, 0, "read-txn"))
        read_line(s);
    else if (is(s, 0, "leases"))
        leases_line(s);
    else if (is(s, 0, "bucket"))
        bucket_line(s);
    else
        return false;
    return true;
}

/* Things about the rig itself. */
static bool apply_rig_line(struct script *s)
{
    struct apply_rig *d = &s->rig;

    if (is(s, 0, "restart")) {
        apply_rig_restart(d);
    } else if (is(s, 0, "crash")) {
        apply_rig_crash(d);
    } else if (is(s, 0, "steps")) {
        d->steps = (unsigned)number_of(s->words[1]);
    } else if (is(s, 0, "somebody")) {
        d->nobody_waits = false;
    } else if (is(s, 0, "nobody")) {
        d->nobody_waits = true;
    } else if (is(s, 0, "quota")) {
        d->quota_bytes = strtoll(s->words[1], NULL, 10);
        apply_rig_restart(d);
    } else if (is(s, 0, "again")) { /* the log's nth entry, as after a restart */
        apply_begin(d->apply, &d->log[strtoull(s->words[1], NULL, 10) - 1], 0);
        CHECK(apply_some(d->apply, 1));
        print_effects(s, apply_effects(d->apply), NULL);
    } else {
        return false;
    }
    return true;
}

static void run_line(struct script *s)
{
    if (kv_line(s) || lease_line(s) || cluster_line(s) || look_line(s) || apply_rig_line(s))
        return;
    if (is(s, 0, "alarm"))
        alarm_line(s);
    else if (is(s, 0, "compact"))
        compact_line(s);
    else if (is(s, 0, "conf"))
        conf_line(s);
    else if (is(s, 0, "request"))
        empty_request(s, s->words[1]);
    else if (is(s, 0, "raw"))
        raw_line(s);
    else if (is(s, 0, "no-op"))
        print_effects(s, apply_rig_entry(&s->rig, RAFT_ENTRY_NORMAL, (struct bytes){0}), NULL);
    else
        test_fail(__FILE__, __LINE__, "unknown line: %s", s->words[0]);
}

static void result(void *context, const struct scenario_command *command, struct buf *out)
{
    struct script *s = context;

    if (strcmp(command->name, "new") == 0) {
        if (s->open)
            apply_rig_free(&s->rig);
        apply_rig_init(&s->rig, BACKEND_RIG_MEMORY);
        s->open = true;
        s->rig.check_slices = true;
    } else if (strcmp(command->name, "do") != 0) {
        buf_printf(out, "unknown command %s\n", command->name);
        return;
    }
    s->out = out;
    s->rest = arena_copy_str(&s->arena, command->input);
    while (next_line(s))
        run_line(s);
    arena_reset(&s->arena);
}

static void run(const char *path)
{
    struct script s = {0};

    test_scenario(path, result, &s);
    if (s.open)
        apply_rig_free(&s.rig);
    arena_free(&s.arena);
}

TEST(scenario_keys_are_put_deleted_and_read)
{
    run("src/apply/testdata/keys.txt");
}

TEST(scenario_transactions)
{
    run("src/apply/testdata/txn.txt");
}

TEST(scenario_leases_alarms_quota_and_compaction)
{
    run("src/apply/testdata/admin.txt");
}

TEST(scenario_members_and_versions)
{
    run("src/apply/testdata/cluster.txt");
}

TEST(scenario_what_is_refused)
{
    run("src/apply/testdata/refused.txt");
}

TEST(requests_of_users_and_roles_apply_as_written)
{
    run("src/apply/testdata/users.txt");
}
