/*
 * Maintenance as an operator does it, with etcd's own tools: a backup taken from us while clients
 * write, restored in etcd and in cleat, and what etcdctl says of us and of etcd.
 */
#include "harness/peer_test.h"
#include "harness/test.h"

#include <inttypes.h>
#include <string.h>

static const char *path_of(struct arena *a, const char *name)
{
    return arena_printf(a, "%s/%s", test_tmp_dir(), name);
}

static int64_t newest(struct peer *p)
{
    return peer_json_number(PEER_CTL(p, "get nothing -w json"), "revision");
}

/* Hash, the revision it is of, and since which compaction: "hash revision compacted". */
static const char *hash_at(struct peer *p, int64_t revision)
{
    const char *json =
        PEER_CTL(p, "endpoint hashkv --rev %" PRId64 " -w json 2>&1 | tail -n 1", revision);

    if (!strstr(json, "hash_revision"))
        return json;
    return arena_printf(&p->arena, "%" PRId64 " %" PRId64 " %" PRId64,
                        peer_json_number(json, "hash"), peer_json_number(json, "hash_revision"),
                        peer_json_number(json, "compact_revision"));
}

static void write_history(struct peer *p)
{
    for (unsigned i = 0; i < 5; i++) {
        PEER_CTL(p, "put a %u", i);
        PEER_CTL(p, "put b %u", i);
        PEER_CTL(p, "del %s", i % 2 ? "a" : "b");
    }
}

/* ---- A backup ---- */

/* While somebody writes at these members; until he has written all that he wants to. */
static void back_up_under_load(struct peer *p, const char *load_urls, const char *to)
{
    peer_run(&p->arena,
             "$PEERS/benchmark --endpoints %s --clients 8 put --total 20000 --val-size 512 "
             "--key-space-size 3000 >%s.load 2>&1 & L=$!; "
             "while [ -z \"$($PEERS/etcdctl --endpoints %s get '' --prefix --rev 200 "
             "--limit 1 2>/dev/null)\" ]; do kill -0 $L || exit 1; done; "
             "$PEERS/etcdctl --endpoints %s snapshot save %s 2>&1; kill -0 $L && wait $L",
             load_urls, to, p->client_url, p->client_url, to);
}

static void restore(struct peer *p, const char *backup)
{
    peer_run(&p->arena,
             "$PEERS/etcdutl snapshot restore %s --data-dir %s --name m --initial-cluster m=%s "
             "--initial-advertise-peer-urls %s 2>&1",
             backup, p->dir, p->advertised_url, p->advertised_url);
}

TEST(a_backup_of_ours_under_load_restores_in_etcd_and_in_cleat)
{
    struct peer source, both[2];
    struct arena a = {0};
    peer_need();
    peer_open_ours(&source, path_of(&a, "source"));
    peer_open(&both[0], path_of(&a, "etcd"));
    peer_open_ours(&both[1], path_of(&a, "cleat"));
    const char *backup = path_of(&a, "backup");
    peer_start(&source, "");
    write_history(&source);
    PEER_CTL(&source, "compact 8 --physical");
    PEER_CTL(&source, "lease grant 3600");

    back_up_under_load(&source, source.client_url, backup);
    const char *status =
        peer_run(&a, "$PEERS/etcdutl snapshot status %s -w json 2>/dev/null", backup);
    int64_t revision = peer_json_number(status, "revision");
    CHECK(revision < newest(&source)); /* it was cut while somebody wrote */
    CHECK(strstr(status, "\"version\":\"3.7.0\""));

    for (int i = 0; i < 2; i++) {
        restore(&both[i], backup);
        peer_start(&both[i], "");
        CHECK_EQ(newest(&both[i]), revision);
        CHECK_STR(hash_at(&both[i], revision), hash_at(&source, revision));
        CHECK_STR(hash_at(&both[i], 12), hash_at(&source, 12));
        CHECK_STR(PEER_CTL(&both[i], "lease list | tail -n 1"),
                  PEER_CTL(&source, "lease list | tail -n 1"));
        peer_stop(&both[i]);
        peer_close(&both[i]);
    }
    peer_stop(&source);
    peer_close(&source);
    arena_free(&a);
}

/* ---- A backup of a cluster ---- */

enum { MEMBERS = 3 };

struct cluster {
    struct arena arena;
    struct peer members[MEMBERS];
    const char *client_urls; /* of all, as etcdctl wants them */
};

static void cluster_open(struct cluster *c)
{
    *c = (struct cluster){0};
    const char *named = "", *urls = "";
    for (int i = 0; i < MEMBERS; i++) {
        struct peer *p = &c->members[i];
        peer_open_ours(p, path_of(&c->arena, arena_printf(&c->arena, "member%d", i)));
        named = arena_printf(&c->arena, "%s%sm%d=%s", named, i ? "," : "", i, p->advertised_url);
        urls = arena_printf(&c->arena, "%s%s%s", urls, i ? "," : "", p->client_url);
    }
    c->client_urls = urls;
    for (int i = 0; i < MEMBERS; i++)
        peer_launch(&c->members[i],
                    arena_printf(&c->arena, "--name m%d --initial-cluster %s", i, named));
    for (int i = 0; i < MEMBERS; i++)
        peer_await(&c->members[i]);
}

static void cluster_close(struct cluster *c)
{
    for (int i = 0; i < MEMBERS; i++) {
        peer_kill(&c->members[i]);
        peer_close(&c->members[i]);
    }
    arena_free(&c->arena);
}

/* The one that leads, or does not. */
static struct peer *cluster_member(struct cluster *c, bool leads)
{
    for (int i = 0; i < MEMBERS; i++) {
        const char *json = PEER_CTL(&c->members[i], "endpoint status -w json");
        bool is_leader = peer_json_number(json, "member_id") == peer_json_number(json, "leader");
        if (is_leader == leads)
            return &c->members[i];
    }
    test_fail(__FILE__, __LINE__, "no member %s", leads ? "leads" : "follows");
}

/* It has what each member has, at the revision of the backup and before it. */
static void check_restored(struct cluster *c, struct peer *p, const char *backup, int64_t revision)
{
    restore(p, backup);
    peer_start(p, "");
    CHECK_EQ(newest(p), revision);
    CHECK(strstr(hash_at(p, revision), arena_printf(&c->arena, " %" PRId64 " 8", revision)));
    for (int i = 0; i < MEMBERS; i++) {
        CHECK_STR(hash_at(p, revision), hash_at(&c->members[i], revision));
        CHECK_STR(hash_at(p, 12), hash_at(&c->members[i], 12));
    }
    peer_stop(p);
    peer_close(p);
}

static void check_backup_at(bool leads)
{
    struct cluster c;
    struct peer etcd, cleat;
    peer_need();
    cluster_open(&c);
    peer_open(&etcd, path_of(&c.arena, "etcd"));
    peer_open_ours(&cleat, path_of(&c.arena, "cleat"));
    write_history(&c.members[0]);
    PEER_CTL(&c.members[0], "compact 8 --physical");
    struct peer *source = cluster_member(&c, leads);
    const char *backup = path_of(&c.arena, "backup");

    back_up_under_load(source, c.client_urls, backup);

    int64_t revision = peer_json_number(
        peer_run(&c.arena, "$PEERS/etcdutl snapshot status %s -w json 2>/dev/null", backup),
        "revision");
    CHECK(revision < newest(source)); /* it was cut while somebody wrote */
    check_restored(&c, &etcd, backup, revision);
    check_restored(&c, &cleat, backup, revision);
    cluster_close(&c);
}

TEST(a_backup_of_a_leader_under_load_is_what_its_cluster_had)
{
    check_backup_at(true);
}

TEST(a_backup_of_a_follower_under_load_is_what_its_cluster_had)
{
    check_backup_at(false);
}

/* ---- What etcdctl says ---- */

static const char *defragment(struct peer *p)
{
    return PEER_CTL(p, "defrag 2>&1 | sed -e 's/\\[.*\\]/[E]/' -e 's/took .*/took T/'");
}

static const char *move_leader_to(struct peer *p, const char *id)
{
    return PEER_CTL(p, "move-leader %s 2>&1 | sed -e 's/^{.*}$//' -e 's/endpoints.*//'", id);
}

static const char *own_id(struct peer *p)
{
    return PEER_CTL(p, "endpoint status -w fields | grep '^\"MemberID\"' | sed 's/.*: //' | "
                       "xargs printf '%%x'");
}

/* In pairs: first etcd, then cleat. */
static void check_same(const char *theirs, const char *ours, const char *part)
{
    CHECK_STR(ours, theirs);
    if (!strstr(ours, part))
        test_fail(__FILE__, __LINE__, "no \"%s\" in %s", part, ours);
}

TEST(etcdctl_says_of_our_maintenance_what_it_says_of_etcds)
{
    struct peer both[2], *etcd = &both[0], *cleat = &both[1];
    struct arena a = {0};
    peer_open(etcd, path_of(&a, "etcd"));
    peer_open_ours(cleat, path_of(&a, "cleat"));
    for (int i = 0; i < 2; i++) {
        peer_start(&both[i], "");
        write_history(&both[i]);
    }
    for (int64_t compacted = 5; compacted <= 15; compacted += 5) {
        for (int i = 0; i < 2; i++)
            PEER_CTL(&both[i], "compact %" PRId64 " --physical", compacted);
        for (int64_t revision = 0; revision <= 17; revision++)
            CHECK_STR(hash_at(cleat, revision), hash_at(etcd, revision));
    }
    check_same(defragment(etcd), defragment(cleat),
               "Finished defragmenting etcd member[E]. took T");
    for (int i = 0; i < 2; i++) {
        const char *id = own_id(&both[i]);
        CHECK_STR(move_leader_to(&both[i], id),
                  arena_printf(&a, "Leadership transferred from %s to %s", id, id));
        CHECK(strstr(move_leader_to(&both[i], "7"), "etcdserver: bad leader transferee"));
    }
    const char *file = path_of(&a, "file");
    check_same(PEER_CTL(etcd, "snapshot save %s 2>/dev/null", file),
               PEER_CTL(cleat, "snapshot save %s 2>/dev/null", file), "Server version 3.7.0");
    for (int i = 0; i < 2; i++) {
        peer_stop(&both[i]);
        peer_close(&both[i]);
    }
    arena_free(&a);
}
