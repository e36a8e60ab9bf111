/*
 * /metrics beside etcd's own: the same work done to both, then the same families, with the same
 * types, help texts, labels and buckets, and the same values where the work determines them.
 *
 * The reader here is strict on purpose: whatever Prometheus would refuse fails the test.
 */
#include "base/mem.h"
#include "harness/peer_test.h"
#include "harness/test.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- reading --- */

struct family {
    const char *name, *type, *help;
};

struct sample {
    const char *name;   /* with its suffix */
    const char *labels; /* "{...}", or "" */
    double value, added;
    bool is_seen;
};

struct scrape {
    struct arena arena;
    struct family families[512];
    size_t family_count;
    struct sample samples[8192];
    size_t sample_count;
};

static const struct family *find_family(const struct scrape *s, const char *name)
{
    for (size_t i = 0; i < s->family_count; i++)
        if (strcmp(s->families[i].name, name) == 0)
            return &s->families[i];
    return NULL;
}

static struct sample *find_sample(struct scrape *s, const char *name, const char *labels)
{
    for (size_t i = 0; i < s->sample_count; i++)
        if (strcmp(s->samples[i].name, name) == 0 && strcmp(s->samples[i].labels, labels) == 0)
            return &s->samples[i];
    return NULL;
}

static const char *word(struct scrape *s, const char **at)
{
    size_t len = 0;

    while (isalnum((unsigned char)(*at)[len]) || (*at)[len] == '_' || (*at)[len] == ':')
        len++;
    CHECK(len > 0 && !isdigit((unsigned char)(*at)[0]));
    const char *copy = arena_printf(&s->arena, "%.*s", (int)len, *at);
    *at += len;
    return copy;
}

static void read_comment(struct scrape *s, const char *line)
{
    bool is_help = strncmp(line, "# HELP ", 7) == 0;
    CHECK(is_help || strncmp(line, "# TYPE ", 7) == 0);
    const char *at = line + 7, *name = word(s, &at);

    CHECK_EQ(*at, ' ');
    if (is_help) {
        CHECK(!find_family(s, name)); /* once, and before its samples */
        CHECK(s->family_count < ARRAY_LEN(s->families));
        s->families[s->family_count++] =
            (struct family){.name = name, .help = arena_printf(&s->arena, "%s", at + 1)};
        return;
    }
    struct family *f = &s->families[s->family_count - 1];
    CHECK_STR(f->name, name);
    CHECK(!f->type);
    f->type = arena_printf(&s->arena, "%s", at + 1);
    CHECK(strcmp(f->type, "counter") == 0 || strcmp(f->type, "gauge") == 0 ||
          strcmp(f->type, "histogram") == 0 || strcmp(f->type, "summary") == 0);
}

/* name="value",... with \\, \" and \n. */
static const char *read_labels(struct scrape *s, const char *at)
{
    CHECK_EQ(*at++, '{');
    for (;;) {
        (void)word(s, &at);
        CHECK_EQ(*at++, '=');
        CHECK_EQ(*at++, '"');
        for (; *at != '"'; at++) {
            CHECK(*at);
            if (*at == '\\')
                CHECK(strchr("\\\"n", *++at));
        }
        at++;
        if (*at == '}')
            return at + 1;
        CHECK_EQ(*at++, ',');
    }
}

static bool belongs(const struct family *f, const char *name)
{
    size_t len = strlen(f->name);

    if (strcmp(name, f->name) == 0)
        return strcmp(f->type, "histogram") != 0;
    if (strncmp(name, f->name, len) != 0)
        return false;
    bool has_parts = strcmp(f->type, "histogram") == 0 || strcmp(f->type, "summary") == 0;
    return has_parts && (strcmp(name + len, "_sum") == 0 || strcmp(name + len, "_count") == 0 ||
                         strcmp(name + len, "_bucket") == 0);
}

static void read_sample(struct scrape *s, const char *line)
{
    const char *at = line, *name = word(s, &at), *labels = "";
    char *end;

    if (*at == '{') {
        const char *behind = read_labels(s, at);
        labels = arena_printf(&s->arena, "%.*s", (int)(behind - at), at);
        at = behind;
    }
    CHECK_EQ(*at++, ' ');
    double value = strtod(at, &end);
    CHECK(end > at && *end == 0);
    CHECK(s->family_count > 0 && s->families[s->family_count - 1].type);
    if (!belongs(&s->families[s->family_count - 1], name))
        test_fail(__FILE__, __LINE__, "%s is not of family %s", name,
                  s->families[s->family_count - 1].name);
    CHECK(!find_sample(s, name, labels));
    CHECK(s->sample_count < ARRAY_LEN(s->samples));
    s->samples[s->sample_count++] = (struct sample){.name = name, .labels = labels, .value = value};
}

/* A later bucket never has fewer, and the last one has all. */
static void check_histograms(struct scrape *s)
{
    double last = 0;

    for (size_t i = 0; i < s->sample_count; i++) {
        const struct sample *one = &s->samples[i];
        size_t len = strlen(one->name);
        if (len > 7 && strcmp(one->name + len - 7, "_bucket") == 0) {
            CHECK(strstr(one->labels, "le=\""));
            CHECK(one->value >= last);
            last = one->value;
        } else {
            if (len > 6 && strcmp(one->name + len - 6, "_count") == 0 && last > 0)
                CHECK(one->value == last);
            if (len > 4 && strcmp(one->name + len - 4, "_sum") != 0)
                last = 0;
        }
    }
}

static struct scrape *scrape(struct peer *p)
{
    struct scrape *s = mem_new(struct scrape);
    const char *text = peer_run(&p->arena, "curl -sf %s/metrics", p->client_url);

    while (*text) {
        size_t len = strcspn(text, "\n");
        const char *line = arena_printf(&s->arena, "%.*s", (int)len, text);
        if (line[0] == '#')
            read_comment(s, line);
        else
            read_sample(s, line);
        text += len + (text[len] == '\n');
    }
    check_histograms(s);
    CHECK(s->family_count > 120);
    return s;
}

/* What has been added since an earlier one: how often a server was asked whether it serves already
 * is not part of the work. */
static void subtract(struct scrape *s, struct scrape *before)
{
    for (size_t i = 0; i < s->sample_count; i++) {
        const struct sample *b = find_sample(before, s->samples[i].name, s->samples[i].labels);
        s->samples[i].added = s->samples[i].value - (b ? b->value : 0);
    }
}

static void scrape_free(struct scrape *s)
{
    arena_free(&s->arena);
    mem_free(s);
}

/* --- the work --- */

static void work(struct peer *p)
{
    static const char *const commands[] = {
        "put a b",
        "get a",
        "put c d",
        "put c e --prev-kv",
        "del a",
        "del x --prev-kv",
        "get c --rev 1000",
        "get '' --prefix --consistency=s",
        "put q w --lease=99",
        "lease revoke 1234",
        "lease grant 100",
        "member list",
        "endpoint status",
        "endpoint health",
        "alarm list",
        "compact 3",
        "compact 3",
        "compact 3000",
        "defrag",
        "endpoint hashkv",
        "lease list",
    };
    static const char *const paths[] = {"health",
                                        "health?serializable=true",
                                        "livez",
                                        "readyz",
                                        "readyz?verbose&exclude=non_learner",
                                        "readyz/linearizable_read",
                                        "readyz/nothing",
                                        "version",
                                        "debug/vars"};

    static const char *const streams[] = {"Watch/Watch", "Lease/LeaseKeepAlive"};

    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        PEER_CTL(p, "%s >/dev/null 2>&1 || true", commands[i]);
    PEER_CTL(p, "snapshot save %s.snapshot >/dev/null 2>&1", p->dir);
    peer_run(&p->arena,
             "printf 'mod(\"c\") > \"0\"\\n\\nput k v\\nget c\\n\\n\\n' | "
             "$PEERS/etcdctl --endpoints %s txn; "
             "printf 'mod(\"c\") > \"0\"\\n\\nget c\\n\\n\\n' | "
             "$PEERS/etcdctl --endpoints %s txn",
             p->client_url, p->client_url);
    /* a lease with a key, renewed and revoked */
    peer_run(&p->arena,
             "E=\"$PEERS/etcdctl --endpoints %s\"; L=$($E lease grant 60 | cut -d' ' -f2); "
             "$E put leased v --lease=$L; $E lease timetolive $L; $E lease keep-alive --once $L; "
             "$E lease revoke $L; echo $L >%s.lease",
             p->client_url, p->dir);
    /* two events, seen before the watch ends */
    peer_run(&p->arena,
             "E=\"$PEERS/etcdctl --endpoints %s\"; $E watch c >%s.events & W=$!; "
             "until curl -sf %s/metrics | grep -q '^etcd_debugging_mvcc_watcher_total 1$'; do :; "
             "done; $E put c f; $E put c g; until [ $(wc -l <%s.events) = 6 ]; do :; done; "
             "kill $W; wait $W; "
             "until curl -sf %s/metrics | grep -q '^etcd_debugging_mvcc_watcher_total 0$'; do :; "
             "done",
             p->client_url, p->dir, p->client_url, p->dir, p->client_url);
    /* streams that say what is no message */
    for (size_t i = 0; i < ARRAY_LEN(streams); i++)
        peer_run(
            &p->arena,
            "printf '\\0\\0\\0\\0\\2\\377\\377' | curl -s --http2-prior-knowledge --data-binary @- "
            "-H 'content-type: application/grpc' -H 'te: trailers' %s/etcdserverpb.%s",
            p->client_url, streams[i]);
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        peer_run(&p->arena, "curl -s '%s/%s'", p->client_url, paths[i]);
}

/* --- comparing --- */

/*
 * Deliberate differences: families whose values are a matter of the machine, of the time it takes,
 * or of how the store is built. They must be there, with their type, and not 0 where etcd's is not.
 */
static const struct {
    const char *prefix, *why;
    bool may_be_zero;
} differences[] = {
    {"go_",
     "there is no Go runtime: threads, heap and memory stand for it, a collector for nothing",
     true},
    {"process_", "the process itself", false},
    {"os_fd_", "the process itself", false},
    {"etcd_server_go_version", "the same", false},
    {"promhttp_", "scrapes while waiting", false},
    {"etcd_disk_wal_", "how many writes share a sync is a matter of time, and snapshots differ",
     false},
    {"etcd_disk_backend_commit_", "commits come by time", false},
    {"etcd_debugging_disk_backend_commit_", "the same", false},
    {"etcd_mvcc_db_total_size", "pages of LMDB, not of bbolt", false},
    {"etcd_network_client_grpc_sent_bytes_total", "a snapshot is as large as its store", false},
    {"etcd_debugging_mvcc_db_compaction_last", "the time of day", false},
    {"etcd_debugging_mvcc_db_compaction_pause_", "how large a slice is", false},
    {"grpc_server_msg_sent_total{grpc_method=\"Snapshot\"", "one message for each 32 KiB", false},
    {"grpc_server_handled_total{grpc_code=\"OK\",grpc_method=\"LeaseKeepAlive\"",
     "whether a client's end or its cancellation is heard first", true},
    {"grpc_server_handled_total{grpc_code=\"Canceled\",grpc_method=\"LeaseKeepAlive\"", "the same",
     true},
    {"etcd_mvcc_db_open_read_transactions", "who happens to read", false},
    {"etcd_server_id", "members have different ids", false},
    {"etcd_network_known_peers", "the same", false},
};

static const size_t NONE = SIZE_MAX;

static size_t difference_of(const struct sample *s)
{
    for (size_t i = 0; i < ARRAY_LEN(differences); i++) {
        size_t len = strcspn(differences[i].prefix, "{");
        const char *labels = differences[i].prefix + len;
        if (strncmp(s->name, differences[i].prefix, len) == 0 &&
            strncmp(s->labels, labels, strlen(labels)) == 0)
            return i;
    }
    return NONE;
}

/* How long something took. */
static bool is_time(const struct scrape *s, const struct sample *one)
{
    size_t len = strlen(one->name);

    if (len > 4 && strcmp(one->name + len - 4, "_sum") == 0)
        return true;
    return len > 7 && strcmp(one->name + len - 7, "_bucket") == 0 &&
           !strstr(one->labels, "le=\"+Inf\"") && !strstr(one->name, "lease_ttl") &&
           s->sample_count > 0;
}

static unsigned compare_families(const struct scrape *theirs, const struct scrape *ours)
{
    unsigned wrong = 0;

    for (size_t i = 0; i < theirs->family_count; i++) {
        const struct family *t = &theirs->families[i], *o = find_family(ours, t->name);
        if (o && strcmp(t->type, o->type) == 0 && strcmp(t->help, o->help) == 0)
            continue;
        printf("%s: %s\n", t->name, o ? "type or help differs" : "missing");
        wrong++;
    }
    for (size_t i = 0; i < ours->family_count; i++) {
        if (find_family(theirs, ours->families[i].name))
            continue;
        printf("%s: etcd has none\n", ours->families[i].name);
        wrong++;
    }
    return wrong;
}

static bool sample_is_right(struct scrape *ours, const struct scrape *theirs,
                            const struct sample *t)
{
    struct sample *o = find_sample(ours, t->name, t->labels);
    size_t difference = difference_of(t);

    if (o)
        o->is_seen = true;
    if (difference != NONE) /* of those with other labels, the family was compared */
        return !o || t->value == 0 || o->value != 0 || differences[difference].may_be_zero ||
               is_time(theirs, t);
    return o && (o->added == t->added || is_time(theirs, t));
}

static unsigned compare_samples(struct scrape *theirs, struct scrape *ours)
{
    unsigned wrong = 0;

    for (size_t i = 0; i < theirs->sample_count; i++) {
        const struct sample *t = &theirs->samples[i];
        if (sample_is_right(ours, theirs, t))
            continue;
        const struct sample *o = find_sample(ours, t->name, t->labels);
        printf("%s%s: etcd added %g to %g, and we %g to %g\n", t->name, t->labels, t->added,
               t->value, o ? o->added : 0, o ? o->value : -1.0);
        wrong++;
    }
    for (size_t i = 0; i < ours->sample_count; i++) {
        const struct sample *o = &ours->samples[i];
        if (o->is_seen || difference_of(o) != NONE)
            continue;
        printf("%s%s: etcd has none, %g of ours\n", o->name, o->labels, o->value);
        wrong++;
    }
    return wrong;
}

/* It serves before it knows its cluster's version. */
static struct scrape *scrape_settled(struct peer *p)
{
    peer_run(&p->arena,
             "until curl -sf %s/metrics | grep -q '^etcd_cluster_version{.*} 1$'; do :; done",
             p->client_url);
    return scrape(p);
}

/* A server chooses the id of a lease, and one in 256 takes a byte less on the wire. Four requests of
 * the work name it. */
static void subtract_lease_ids(struct peer *p, struct scrape *s)
{
    enum { REQUESTS = 4 };
    const char *text = peer_run(&p->arena, "cat %s.lease", p->dir);
    uint64_t id = strtoull(text, NULL, 16);
    size_t bytes = 1;

    CHECK(id != 0);
    for (; id >= 128; id /= 128)
        bytes++;
    find_sample(s, "etcd_network_client_grpc_received_bytes_total", "")->added -=
        (double)(REQUESTS * bytes);
}

TEST(after_the_same_work_our_metrics_are_etcds)
{
    struct peer etcd, cleat;
    struct arena a = {0};
    peer_open(&etcd, arena_printf(&a, "%s/etcd", test_tmp_dir()));
    peer_open_ours(&cleat, arena_printf(&a, "%s/cleat", test_tmp_dir()));
    peer_start(&etcd, "--metrics=extensive");
    peer_start(&cleat, "--metrics=extensive");
    struct scrape *theirs_before = scrape_settled(&etcd), *ours_before = scrape_settled(&cleat);

    work(&etcd);
    work(&cleat);
    struct scrape *theirs = scrape(&etcd), *ours = scrape(&cleat);
    subtract(theirs, theirs_before);
    subtract(ours, ours_before);
    subtract_lease_ids(&etcd, theirs);
    subtract_lease_ids(&cleat, ours);
    unsigned wrong = compare_families(theirs, ours) + compare_samples(theirs, ours);

    CHECK_EQ(wrong, 0);
    scrape_free(theirs_before);
    scrape_free(ours_before);
    scrape_free(theirs);
    scrape_free(ours);
    peer_stop(&etcd);
    peer_stop(&cleat);
    peer_close(&etcd);
    peer_close(&cleat);
    arena_free(&a);
}

/* --- what is built on them --- */

/* Every series that etcd's alert rules and dashboard ask for; of those between members none is
 * there without others. */
static const char *const series_asked_for[] = {
    "etcd_disk_backend_commit_duration_seconds_bucket",
    "etcd_disk_wal_fsync_duration_seconds_bucket",
    "etcd_mvcc_db_total_size_in_bytes",
    "etcd_mvcc_db_total_size_in_use_in_bytes",
    "etcd_network_client_grpc_received_bytes_total",
    "etcd_network_client_grpc_sent_bytes_total",
    "etcd_server_has_leader",
    "etcd_server_leader_changes_seen_total",
    "etcd_server_proposals_applied_total",
    "etcd_server_proposals_committed_total",
    "etcd_server_proposals_failed_total",
    "etcd_server_proposals_pending",
    "etcd_server_quota_backend_bytes",
    "grpc_server_handled_total",
    "grpc_server_handling_seconds_bucket",
    "grpc_server_started_total",
    "process_resident_memory_bytes",
};

TEST(etcds_alert_rules_and_dashboard_find_every_series)
{
    struct peer cleat;
    struct arena a = {0};
    peer_need();
    peer_open_ours(&cleat, arena_printf(&a, "%s/cleat", test_tmp_dir()));
    peer_start(&cleat, "--metrics=extensive");
    PEER_CTL(&cleat, "put a b");

    struct scrape *s = scrape(&cleat);

    for (size_t i = 0; i < ARRAY_LEN(series_asked_for); i++) {
        bool found = false;
        for (size_t k = 0; k < s->sample_count && !found; k++)
            found = strcmp(s->samples[k].name, series_asked_for[i]) == 0;
        if (!found)
            test_fail(__FILE__, __LINE__, "no %s", series_asked_for[i]);
    }
    scrape_free(s);
    peer_stop(&cleat);
    peer_close(&cleat);
    arena_free(&a);
}

/* --- the other paths --- */

/* Status, body and the fields that matter, of both. */
TEST(health_and_probes_answer_as_etcds)
{
    static const char *const asked[] = {"health",
                                        "health?serializable=true",
                                        "health?exclude=NOSPACE",
                                        "livez",
                                        "livez?verbose",
                                        "livez/serializable_read",
                                        "livez/serializable_read?verbose",
                                        "livez/data_corruption",
                                        "livez/",
                                        "readyz",
                                        "readyz/data_corruption?verbose",
                                        "readyz/non_learner?verbose",
                                        "readyz/linearizable_read?verbose",
                                        "readyz?exclude=nothing",
                                        "readyz/x",
                                        "version"};
    static const char *const verbs[] = {"GET", "POST"};
    struct peer both[2];
    struct arena a = {0};
    peer_open(&both[0], arena_printf(&a, "%s/etcd", test_tmp_dir()));
    peer_open_ours(&both[1], arena_printf(&a, "%s/cleat", test_tmp_dir()));
    for (int i = 0; i < 2; i++)
        peer_start(&both[i], "");

    for (size_t i = 0; i < ARRAY_LEN(asked) * 2; i++) {
        const char *got[2];
        for (int k = 0; k < 2; k++)
            got[k] = peer_run(&both[k].arena,
                              "curl -s -X %s -w '%%{http_code} %%{content_type}' '%s/%s'",
                              verbs[i % 2], both[k].client_url, asked[i / 2]);
        CHECK_STR(got[1], got[0]);
    }
    for (int k = 0; k < 2; k++) /* who only asks whether there are metrics */
        CHECK_STR(
            peer_run(&both[k].arena,
                     "curl -s -I -w '%%{http_code} %%{content_type}' -o /dev/null '%s/metrics'"
                     " && curl -s -X POST -w ' %%{http_code}' -o /dev/null '%s/metrics'",
                     both[k].client_url, both[k].client_url),
            "200 text/plain; version=0.0.4; charset=utf-8; escaping=underscores 200");
    /* the order of its lines is any in etcd */
    for (int k = 0; k < 2; k++)
        CHECK_STR(
            peer_run(&both[k].arena, "curl -s '%s/readyz?verbose' | sort", both[k].client_url),
            "[+]data_corruption ok\n[+]linearizable_read ok\n[+]non_learner ok\n"
            "[+]serializable_read ok\nok");
    for (int i = 0; i < 2; i++) {
        peer_stop(&both[i]);
        peer_close(&both[i]);
    }
    arena_free(&a);
}

/* --- between members --- */

static bool is_between_members(const struct family *f)
{
    return strncmp(f->name, "etcd_network_", strlen("etcd_network_")) == 0;
}

/* One of etcd's and one of ours, so that either has the other to tell of. What one of them counts
 * as sent the other need not have received yet, so only what there is, is compared. */
TEST(a_member_tells_of_another_as_etcd_tells_of_it)
{
    struct peer both[2];
    struct arena a = {0};
    peer_open(&both[0], arena_printf(&a, "%s/etcd", test_tmp_dir()));
    peer_open_ours(&both[1], arena_printf(&a, "%s/cleat", test_tmp_dir()));
    for (int i = 0; i < 2; i++)
        peer_launch(&both[i], arena_printf(&a, "--name m%d --initial-cluster m0=%s,m1=%s", i,
                                           both[0].advertised_url, both[1].advertised_url));
    for (int i = 0; i < 2; i++)
        peer_await(&both[i]);
    PEER_CTL(&both[0], "put a b");

    struct scrape *seen[2];
    for (int i = 0; i < 2; i++) {
        peer_run(&a,
                 "until curl -sf %s/metrics | grep -q '^etcd_network_active_peers.* 1$'; do :; "
                 "done; until curl -sf %s/metrics | grep -q "
                 "'^etcd_network_peer_round_trip_time_seconds_count'; do sleep 0.1; done",
                 both[i].client_url, both[i].client_url);
        seen[i] = scrape(&both[i]);
    }

    static const char *const always[] = {"etcd_network_active_peers", "etcd_network_known_peers",
                                         "etcd_network_peer_sent_bytes_total",
                                         "etcd_network_peer_received_bytes_total",
                                         "etcd_network_peer_round_trip_time_seconds"};
    for (size_t i = 0; i < ARRAY_LEN(always); i++)
        CHECK(find_family(seen[0], always[i]) && find_family(seen[1], always[i]));
    for (size_t i = 0; i < seen[0]->family_count; i++) {
        const struct family *t = &seen[0]->families[i], *o = find_family(seen[1], t->name);
        if (!is_between_members(t) || !o)
            continue;
        CHECK_STR(o->type, t->type);
        CHECK_STR(o->help, t->help);
    }
    for (size_t i = 0; i < seen[1]->sample_count; i++) {
        const struct sample *s = &seen[1]->samples[i];
        if (strcmp(s->name, "etcd_network_peer_sent_bytes_total") == 0 ||
            strcmp(s->name, "etcd_network_peer_received_bytes_total") == 0)
            CHECK(s->value > 0);
    }
    for (int i = 0; i < 2; i++) {
        scrape_free(seen[i]);
        peer_kill(&both[i]);
        peer_close(&both[i]);
    }
    arena_free(&a);
}
