#include "cluster/cluster.h"

#include "backend/backend.h"
#include "backend/backend_memory.h"
#include "base/mem.h"
#include "base/rng.h"
#include "harness/test.h"

#include <inttypes.h>
#include <stdlib.h>

enum { OWN_ID = 1 };

/* A cluster on a store in memory. */
struct rig {
    struct memory_disk *disk;
    struct backend *backend;
    struct cluster *cluster;
    unsigned max_learners;
};

static void rig_open_cluster(struct rig *r)
{
    struct buf why = {0};
    struct cluster_options options = {.backend = r->backend,
                                      .cluster_id = 0xc0ffee,
                                      .own_id = OWN_ID,
                                      .max_learners = r->max_learners};

    CHECK_EQ(cluster_open(&options, &why, &r->cluster), ERR_OK);
    CHECK_EQ(why.len, 0);
}

static void rig_open(struct rig *r)
{
    *r = (struct rig){.max_learners = CLUSTER_LEARNERS_DEFAULT};
    r->disk = memory_disk_new(test_seed());
    CHECK_EQ(backend_open(&(struct backend_options){.memory = r->disk}, &r->backend), ERR_OK);
    rig_open_cluster(r);
}

static void rig_close(struct rig *r)
{
    cluster_close(r->cluster);
    backend_close(r->backend);
    memory_disk_free(r->disk);
}

static void append_bucket(struct rig *r, enum bucket bucket, struct buf *out)
{
    struct backend_view view;
    struct backend_cursor cursor;
    struct bytes key, value;

    backend_view_open(r->backend, &view);
    backend_cursor_open(&view, bucket, (struct bytes){0}, &cursor);
    while (backend_cursor_next(&cursor, &key, &value) == ERR_OK) {
        buf_printf(out, "%s/%.*s %.*s\n", bucket_name(bucket), (int)key.len, (const char *)key.at,
                   (int)value.len, (const char *)value.at);
    }
    backend_cursor_close(&cursor);
    backend_view_close(&view);
}

static void append_store(struct rig *r, struct buf *out)
{
    append_bucket(r, BUCKET_MEMBERS, out);
    append_bucket(r, BUCKET_MEMBERS_REMOVED, out);
    append_bucket(r, BUCKET_CLUSTER, out);
}

static struct raft_conf_change change_of(enum raft_conf_change_type type, uint64_t id,
                                         const struct pb_member *m, struct buf *context)
{
    buf_clear(context);
    if (m)
        member_json_write(m, context);
    return (struct raft_conf_change){.type = type, .node_id = id, .context = buf_bytes(context)};
}

/* ---- Stories as text ---- */

enum { WORDS = 5 };

struct script {
    struct rig rig;
    struct arena arena;
};

static uint64_t number(const char *hex)
{
    return strtoull(hex, NULL, 16);
}

/* A word that is not a number is a mistake in the scenario. */
static int decimal(const char *word)
{
    char *end;
    long n = strtol(word, &end, 10);

    CHECK(end != word && *end == 0);
    return (int)n;
}

static struct url_list urls_of(struct script *s, const char *text)
{
    if (text[0] == 0)
        return (struct url_list){0};
    return url_list_split(bytes_of_str(text), &s->arena);
}

static void reply_change(struct script *s, const struct raft_conf_change *cc, struct buf *out)
{
    bool removed_self;
    enum cluster_result expected = cluster_check_conf_change(s->rig.cluster, cc);
    enum cluster_result result = cluster_apply_conf_change(s->rig.cluster, cc, &removed_self);

    CHECK_EQ(result, expected);
    buf_printf(out, "%s%s%s\n", cluster_result_text(result), removed_self ? ", ourselves" : "",
               cluster_result_is_fatal(result) ? " (fatal)" : "");
}

/* "add ID URLS NAME", "learner ID URLS", "update ID URLS", "promote ID", "remove ID" */
static bool change_step(struct script *s, const char *const *words, struct buf *out)
{
    static const struct {
        const char *word;
        enum raft_conf_change_type type;
    } kinds[] = {{"add", RAFT_ADD_NODE},
                 {"learner", RAFT_ADD_LEARNER_NODE},
                 {"update", RAFT_UPDATE_NODE},
                 {"promote", RAFT_ADD_NODE},
                 {"remove", RAFT_REMOVE_NODE}};
    struct url_list urls = urls_of(s, words[2]);
    struct pb_member m = {.id = number(words[1]),
                          .name = bytes_of_str(words[3]),
                          .peer_urls = {urls.at, urls.count},
                          .is_learner = strcmp(words[0], "learner") == 0};

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (strcmp(words[0], kinds[i].word) != 0)
            continue;
        struct buf context = {0};
        struct raft_conf_change cc = change_of(kinds[i].type, m.id, &m, &context);
        if (strcmp(words[0], "promote") == 0) {
            buf_clear(&context);
            member_json_write_promotion(m.id, &context);
            cc.context = buf_bytes(&context);
        }
        if (strcmp(words[0], "remove") == 0)
            cc.context = (struct bytes){0};
        reply_change(s, &cc, out);
        buf_free(&context);
        return true;
    }
    return false;
}

/* "raw TYPE ID CONTEXT" */
static bool raw_step(struct script *s, const char *const *words, struct buf *out)
{
    if (strcmp(words[0], "raw") != 0)
        return false;
    struct raft_conf_change cc = {.type = (enum raft_conf_change_type)decimal(words[1]),
                                  .node_id = number(words[2]),
                                  .context = bytes_of_str(words[3])};
    reply_change(s, &cc, out);
    return true;
}

static bool set_step(struct script *s, const char *const *words, struct buf *out)
{
    struct cluster *c = s->rig.cluster;
    size_t said = out->len;

    if (strcmp(words[0], "attributes") == 0) {
        enum cluster_result result = cluster_set_attributes(
            c, number(words[1]), bytes_of_str(words[2]), urls_of(s, words[3]));
        buf_append_str(out, cluster_result_text(result));
    } else if (strcmp(words[0], "version") == 0)
        cluster_set_version(c, bytes_of_str(words[1]), out);
    else if (strcmp(words[0], "downgrade") == 0)
        cluster_set_downgrade(c, strcmp(words[1], "to") == 0, bytes_of_str(words[2]), out);
    else
        return false;
    buf_append_str(out, out->len == said ? "ok\n" : "\n");
    return true;
}

static void reply_version(struct cluster *c, const char *lowest, struct buf *out)
{
    struct cluster_downgrade downgrade = cluster_downgrade(c);
    struct version version;
    char next[VERSION_TEXT_MAX];
    bool is_known = version_parse(bytes_of_str(lowest), &version);

    buf_append_str(out, "version=");
    buf_append(out, cluster_version(c));
    if (downgrade.is_known)
        buf_append_str(out, downgrade.enabled ? " downgrade=" : " no downgrade");
    buf_append(out, downgrade.target_version);
    if (cluster_next_version(c, is_known ? &version : NULL, next))
        buf_printf(out, " next=%s", next);
    buf_append_byte(out, '\n');
}

static void append_urls(const struct bytes *urls, size_t count, struct buf *out)
{
    url_list_join((struct url_list){urls, count}, out);
    if (count == 0)
        buf_append_byte(out, '-');
}

static void reply_members(struct cluster *c, struct buf *out)
{
    size_t count, removed_count;
    const struct pb_member *members = cluster_members(c, &count);
    const uint64_t *removed = cluster_removed(c, &removed_count);
    struct raft_conf_state state;

    for (size_t i = 0; i < count; i++) {
        const struct pb_member *m = &members[i];
        CHECK(cluster_find(c, m->id) == m);
        buf_printf(out, "%" PRIx64 " \"%.*s\"%s ", m->id, (int)m->name.len,
                   (const char *)m->name.at, m->is_learner ? " learner" : "");
        append_urls(m->peer_urls.at, m->peer_urls.count, out);
        buf_append_str(out, " / ");
        append_urls(m->client_urls.at, m->client_urls.count, out);
        buf_append_byte(out, '\n');
    }
    for (size_t i = 0; i < removed_count; i++) {
        CHECK(cluster_is_removed(c, removed[i]));
        buf_printf(out, "%" PRIx64 " removed\n", removed[i]);
    }
    cluster_conf_state(c, &state);
    cluster_conf_state_json(&state, out);
    buf_append_byte(out, '\n');
}

static bool question_step(struct script *s, const char *const *words, struct buf *out)
{
    struct cluster *c = s->rig.cluster;

    if (strcmp(words[0], "members") == 0)
        reply_members(c, out);
    else if (strcmp(words[0], "store") == 0)
        append_store(&s->rig, out);
    else if (strcmp(words[0], "next") == 0)
        reply_version(c, words[1], out);
    else if (strcmp(words[0], "may") == 0)
        buf_printf(out, "add=%d remove=%d promote=%d own-learner=%d\n", cluster_may_add_voter(c),
                   cluster_may_remove_voter(c, number(words[1])), cluster_may_promote(c),
                   cluster_is_own_learner(c));
    else
        return false;
    return true;
}

static bool life_step(struct script *s, const char *const *words)
{
    struct buf why = {0};

    if (strcmp(words[0], "reload") == 0)
        CHECK_EQ(cluster_reload(s->rig.cluster, &why), ERR_OK);
    else if (strcmp(words[0], "learners") == 0) {
        cluster_close(s->rig.cluster);
        s->rig.max_learners = (unsigned)decimal(words[1]);
        rig_open_cluster(&s->rig);
    } else
        return false;
    return true;
}

static void step(struct script *s, const char *const *words, struct buf *out)
{
    if (!change_step(s, words, out) && !raw_step(s, words, out) && !set_step(s, words, out) &&
        !question_step(s, words, out) && !life_step(s, words))
        test_fail(__FILE__, __LINE__, "no step %s", words[0]);
    cluster_check(s->rig.cluster);
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
}

static void run_script(const char *path)
{
    struct script s = {0};

    rig_open(&s.rig);
    test_scenario(path, reply, &s);
    rig_close(&s.rig);
    arena_free(&s.arena);
}

TEST(members_come_and_go_as_the_scenario_says)
{
    run_script("src/cluster/testdata/members.txt");
}

TEST(versions_change_as_the_scenario_says)
{
    run_script("src/cluster/testdata/versions.txt");
}

/* ---- A story that etcd itself wrote ---- */

static void replay(struct rig *r, enum raft_conf_change_type type, uint64_t id, const char *context)
{
    struct raft_conf_change cc = {.type = type, .node_id = id, .context = bytes_of_str(context)};

    CHECK_EQ(cluster_apply_conf_change(r->cluster, &cc, NULL), CLUSTER_OK);
}

/* The conf changes are from the log of an etcd 3.7.1, the store is what it made of them. */
TEST(etcds_log_leads_to_etcds_store)
{
    static const struct bytes clients[] = {BYTES("http://127.0.0.1:33378"),
                                           BYTES("http://127.0.0.1:33379")};
    struct rig r;
    struct buf store = {0}, why = {0};

    rig_open(&r);
    replay(&r, RAFT_ADD_NODE, 6662698563040693991u,
           "{\"id\":6662698563040693991,\"peerURLs\":[\"http://127.0.0.1:33380\"],"
           "\"name\":\"m\\u003c1\\u003e\"}");
    CHECK_EQ(cluster_set_attributes(r.cluster, 6662698563040693991u, BYTES("m<1>"),
                                    (struct url_list){clients, 2}),
             CLUSTER_OK);
    CHECK(cluster_set_version(r.cluster, BYTES("3.7.0"), &why));
    replay(&r, RAFT_ADD_LEARNER_NODE, 14704571056494821715u,
           "{\"id\":14704571056494821715,\"peerURLs\":[\"http://127.0.0.1:44380\","
           "\"http://127.0.0.1:44381\"],\"isLearner\":true}");
    replay(&r, RAFT_UPDATE_NODE, 14704571056494821715u,
           "{\"id\":14704571056494821715,\"peerURLs\":[\"http://127.0.0.1:55380\"]}");
    replay(&r, RAFT_REMOVE_NODE, 14704571056494821715u, "");
    replay(&r, RAFT_ADD_LEARNER_NODE, 11770383591926694880u,
           "{\"id\":11770383591926694880,\"peerURLs\":[\"http://127.0.0.1:44390\"],"
           "\"isLearner\":true}");
    CHECK(cluster_set_downgrade(r.cluster, true, BYTES("3.6.0"), &why));
    append_store(&r, &store);

    CHECK_STR(buf_str(&store),
              "members/5c76a90ae78bcee7 {\"id\":6662698563040693991,"
              "\"peerURLs\":[\"http://127.0.0.1:33380\"],\"name\":\"m\\u003c1\\u003e\","
              "\"clientURLs\":[\"http://127.0.0.1:33378\",\"http://127.0.0.1:33379\"]}\n"
              "members/a358cd83c2e083e0 {\"id\":11770383591926694880,"
              "\"peerURLs\":[\"http://127.0.0.1:44390\"],\"isLearner\":true}\n"
              "members_removed/cc112177bcdd4153 removed\n"
              "cluster/clusterVersion 3.7.0\n"
              "cluster/downgrade {\"target-version\":\"3.6.0\",\"enabled\":true}\n");
    rig_close(&r);
    buf_free(&store);
}

/* ---- Damage ---- */

TEST(a_damaged_table_is_not_opened)
{
    static const struct {
        enum bucket bucket;
        enum err want;
        const char *key, *value, *why;
    } cases[] = {
        {BUCKET_MEMBERS, ERR_CORRUPT, "xyz", "{\"id\":1,\"peerURLs\":[]}",
         "bucket members, key xyz: not a member's id"},
        {BUCKET_MEMBERS, ERR_CORRUPT, "11112222333344445", "{}",
         "bucket members, key 11112222333344445: not a member's id"},
        {BUCKET_MEMBERS, ERR_CORRUPT, "2", "{\"id\":2,", "bucket members, key 2: not a member"},
        {BUCKET_MEMBERS, ERR_CORRUPT, "2", "{\"id\":3,\"peerURLs\":[]}",
         "bucket members, key 2: another member's entry"},
        {BUCKET_MEMBERS, ERR_CORRUPT, "01", "{\"id\":1,\"peerURLs\":[]}",
         "bucket members, key 1: a member's second entry"},
        {BUCKET_MEMBERS_REMOVED, ERR_CORRUPT, "-1", "removed",
         "bucket members_removed, key -1: not a member's id"},
        {BUCKET_CLUSTER, ERR_CORRUPT, "clusterVersion", "3.7",
         "cluster version 3.7 is not a version"},
        {BUCKET_CLUSTER, ERR_UNSUPPORTED, "clusterVersion", "3.8.0",
         "invalid downgrade; server version is lower than determined cluster version "
         "(server 3.7.0, cluster 3.8.0)"},
        {BUCKET_CLUSTER, ERR_CORRUPT, "downgrade", "[]",
         "bucket cluster, key downgrade: not a downgrade"},
        {BUCKET_CLUSTER, ERR_CORRUPT, "downgrade", "{\"enabled\":true}",
         "bucket cluster, key downgrade: its target is not a version"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct rig r;
        struct buf why = {0};
        rig_open(&r);
        replay(&r, RAFT_ADD_NODE, OWN_ID, "{\"id\":1,\"peerURLs\":[\"http://a:1\"]}");

        backend_put(r.backend, cases[i].bucket, bytes_of_str(cases[i].key),
                    bytes_of_str(cases[i].value));

        CHECK_EQ(cluster_reload(r.cluster, &why), cases[i].want);
        CHECK_STR(buf_str(&why), cases[i].why);
        CHECK(cluster_own(r.cluster)); /* the old tables are still there */
        rig_close(&r);
        buf_free(&why);
    }
}

TEST(more_members_than_fit_stop_the_member)
{
    struct rig r;
    struct buf context = {0}, why = {0}, url = {0};

    rig_open(&r);
    for (uint64_t id = 1; id <= CLUSTER_MEMBERS_MAX + 1; id++) {
        buf_clear(&url);
        buf_printf(&url, "http://h:%" PRIu64, id);
        struct bytes text = buf_bytes(&url);
        struct pb_member m = {.id = id, .peer_urls = {&text, 1}};
        struct raft_conf_change cc = change_of(RAFT_ADD_NODE, id, &m, &context);
        enum cluster_result result = cluster_apply_conf_change(r.cluster, &cc, NULL);
        CHECK_EQ(result, id <= CLUSTER_MEMBERS_MAX ? CLUSTER_OK : CLUSTER_TOO_MANY_MEMBERS);
    }
    cluster_check(r.cluster);

    backend_put(r.backend, BUCKET_MEMBERS, BYTES("ffff"), BYTES("{\"id\":65535,\"peerURLs\":[]}"));
    CHECK_EQ(cluster_reload(r.cluster, &why), ERR_UNSUPPORTED);
    CHECK_STR(buf_str(&why), "more than 64 members");
    rig_close(&r);
    buf_free(&context);
    buf_free(&url);
    buf_free(&why);
}

/* A request full of addresses, twice: comparing each with each would take minutes. */
TEST(very_many_urls_are_compared_at_once)
{
    enum { URLS = 100000 };
    struct rig r;
    struct arena arena = {0};
    struct buf context = {0};
    struct bytes *urls = arena_new_array(&arena, 2 * URLS, struct bytes);

    rig_open(&r);
    for (int i = 0; i < 2 * URLS; i++)
        urls[i] = bytes_of_str(arena_printf(&arena, "h%d", i));
    struct pb_member first = {.id = 1, .peer_urls = {urls, URLS}};
    struct pb_member second = {.id = 2, .peer_urls = {urls + URLS, URLS}};
    struct pb_member third = {.id = 3, .peer_urls = {urls + URLS - 1, 1}};

    struct raft_conf_change cc = change_of(RAFT_ADD_NODE, 1, &first, &context);
    CHECK_EQ(cluster_apply_conf_change(r.cluster, &cc, NULL), CLUSTER_OK);
    cc = change_of(RAFT_ADD_NODE, 2, &second, &context);
    CHECK_EQ(cluster_apply_conf_change(r.cluster, &cc, NULL), CLUSTER_OK);
    cc = change_of(RAFT_ADD_NODE, 3, &third, &context);
    CHECK_EQ(cluster_apply_conf_change(r.cluster, &cc, NULL), CLUSTER_PEER_URL_EXISTS);
    rig_close(&r);
    buf_free(&context);
    arena_free(&arena);
}

/* ---- Random changes against a slow, obvious model ---- */

enum { MODEL_IDS = 8, MODEL_URLS = 6, MODEL_LEARNERS = 2 };

struct model {
    struct {
        bool is_member, is_removed, is_learner;
        unsigned urls; /* a bit for each */
    } ids[MODEL_IDS];
};

struct dice {
    enum raft_conf_change_type type;
    uint64_t id;
    unsigned urls;
    bool is_learner, is_promote;
};

static struct dice roll(struct rng *rng)
{
    struct dice d = {.id = 1 + rng_below(rng, MODEL_IDS - 1)};

    d.type = (enum raft_conf_change_type)rng_below(rng, 4);
    d.urls = 1u << rng_below(rng, MODEL_URLS);
    if (rng_chance(rng, 1, 4))
        d.urls |= 1u << rng_below(rng, MODEL_URLS);
    d.is_learner = d.type == RAFT_ADD_LEARNER_NODE || rng_chance(rng, 1, 10);
    d.is_promote = d.type == RAFT_ADD_NODE && rng_chance(rng, 1, 2);
    return d;
}

static bool model_url_taken(const struct model *m, unsigned urls, uint64_t except)
{
    for (uint64_t id = 0; id < MODEL_IDS; id++) {
        if (m->ids[id].is_member && id != except && (m->ids[id].urls & urls))
            return true;
    }
    return false;
}

static size_t model_learners(const struct model *m)
{
    size_t learners = 0;

    for (uint64_t id = 0; id < MODEL_IDS; id++)
        learners += m->ids[id].is_member && m->ids[id].is_learner;
    return learners;
}

static enum cluster_result model_add(struct model *m, const struct dice *d)
{
    if (m->ids[d->id].is_member)
        return CLUSTER_ID_EXISTS;
    if (model_url_taken(m, d->urls, 0))
        return CLUSTER_PEER_URL_EXISTS;
    if (d->type == RAFT_ADD_LEARNER_NODE && model_learners(m) + 1 > MODEL_LEARNERS)
        return CLUSTER_TOO_MANY_LEARNERS;
    m->ids[d->id].is_member = true;
    m->ids[d->id].is_learner = d->is_learner;
    m->ids[d->id].urls = d->urls;
    return CLUSTER_OK;
}

static enum cluster_result model_apply(struct model *m, const struct dice *d)
{
    if (m->ids[d->id].is_removed)
        return CLUSTER_ID_REMOVED;
    if ((d->type == RAFT_ADD_NODE || d->type == RAFT_ADD_LEARNER_NODE) && !d->is_promote)
        return model_add(m, d);
    if (!m->ids[d->id].is_member)
        return CLUSTER_ID_NOT_FOUND;
    if (d->is_promote) {
        if (!m->ids[d->id].is_learner)
            return CLUSTER_NOT_LEARNER;
        m->ids[d->id].is_learner = false;
    } else if (d->type == RAFT_UPDATE_NODE) {
        if (model_url_taken(m, d->urls, d->id))
            return CLUSTER_PEER_URL_EXISTS;
        m->ids[d->id].urls = d->urls;
    } else {
        m->ids[d->id].is_member = false;
        m->ids[d->id].is_removed = true;
    }
    return CLUSTER_OK;
}

static const struct bytes model_urls[MODEL_URLS] = {BYTES("u0"), BYTES("u1"), BYTES("u2"),
                                                    BYTES("u3"), BYTES("u4"), BYTES("u5")};

static size_t spread_urls(unsigned bits, struct bytes out[static MODEL_URLS])
{
    size_t count = 0;

    for (unsigned i = 0; i < MODEL_URLS; i++) {
        if (bits & 1u << i)
            out[count++] = model_urls[i];
    }
    return count;
}

static enum cluster_result apply_dice(struct cluster *c, const struct dice *d)
{
    struct bytes urls[MODEL_URLS];
    struct pb_member m = {.id = d->id, .is_learner = d->is_learner};
    struct buf context = {0};

    m.peer_urls.count = spread_urls(d->urls, urls);
    m.peer_urls.at = urls;
    struct raft_conf_change cc = change_of(d->type, d->id, &m, &context);
    if (d->is_promote) {
        buf_clear(&context);
        member_json_write_promotion(d->id, &context);
        cc.context = buf_bytes(&context);
    }
    enum cluster_result result = cluster_apply_conf_change(c, &cc, NULL);
    buf_free(&context);
    return result;
}

static void check_against_model(const struct cluster *c, const struct model *m)
{
    size_t members = 0, count;

    for (uint64_t id = 1; id < MODEL_IDS; id++) {
        const struct pb_member *found = cluster_find(c, id);
        struct bytes urls[MODEL_URLS];
        CHECK_EQ(found != NULL, m->ids[id].is_member);
        CHECK_EQ(cluster_is_removed(c, id), m->ids[id].is_removed);
        if (!found)
            continue;
        members++;
        CHECK_EQ(found->is_learner, m->ids[id].is_learner);
        CHECK(url_list_equal((struct url_list){found->peer_urls.at, found->peer_urls.count},
                             (struct url_list){urls, spread_urls(m->ids[id].urls, urls)}));
    }
    cluster_members(c, &count);
    CHECK_EQ(count, members);
}

static void run_random(uint64_t seed)
{
    struct rig r;
    struct model model = {0};
    struct rng rng;
    struct buf why = {0};

    rng_seed(&rng, seed);
    rig_open(&r);
    cluster_close(r.cluster);
    r.max_learners = MODEL_LEARNERS;
    rig_open_cluster(&r);
    for (int i = 0; i < 60; i++) {
        struct dice d = roll(&rng);
        enum cluster_result want = model_apply(&model, &d);
        CHECK_EQ(apply_dice(r.cluster, &d), want);
        cluster_check(r.cluster);
        check_against_model(r.cluster, &model);
        if (rng_chance(&rng, 1, 10)) {
            CHECK_EQ(cluster_reload(r.cluster, &why), ERR_OK);
            check_against_model(r.cluster, &model);
        }
    }
    rig_close(&r);
}

TEST(random_changes_do_what_the_rules_say)
{
    for (uint64_t i = 0; i < 300 * test_effort(); i++)
        run_random(test_seed() * 1000003 + i);
}
