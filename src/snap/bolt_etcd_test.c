/* Our files before etcd's own tools and server, and theirs before our reader. */
#include "base/crc32c.h"
#include "base/limits.h"
#include "harness/peer_test.h"
#include "io/disk.h"
#include "io/hash.h"
#include "io/loop.h"
#include "pb/codec.h"
#include "snap/bolt_rig_test.h"
#include "snap/snapfile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Content as etcd has it ---- */

enum { ALARM, AUTH, AUTH_ROLES, AUTH_USERS, CLUSTER, KEY, LEASE, MEMBERS, REMOVED, META, BUCKETS };

static const char *const bucket_names[BUCKETS] = {
    "alarm", "auth",  "authRoles", "authUsers",       "cluster",
    "key",   "lease", "members",   "members_removed", "meta"};

struct store {
    struct arena arena;
    struct rig_bucket buckets[BUCKETS];
    int64_t revision;
    uint64_t keys; /* alive */
    uint32_t hash; /* HashKV */
};

static struct bytes u64_be(struct store *s, uint64_t value)
{
    uint8_t *at = arena_alloc(&s->arena, 8);

    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(value >> (56 - 8 * i));
    return bytes_of(at, 8);
}

static struct bytes revision_key(struct store *s, uint64_t main, uint64_t sub, bool tombstone)
{
    uint8_t *at = arena_alloc(&s->arena, 18);

    memcpy(at, u64_be(s, main).at, 8);
    at[8] = '_';
    memcpy(at + 9, u64_be(s, sub).at, 8);
    at[17] = 't';
    return bytes_of(at, tombstone ? 18 : 17);
}

static void put_revision(struct store *s, struct bytes key, const struct pb_key_value *kv)
{
    struct buf encoded = {0};

    pb_encode_key_value(kv, &encoded);
    struct bytes value = arena_copy(&s->arena, buf_bytes(&encoded));
    rig_add(&s->buckets[KEY], key, value);
    s->hash = crc32c(crc32c(s->hash, key), value);
    buf_free(&encoded);
}

static struct bytes user_key(struct store *s, uint64_t i)
{
    return bytes_of_str(arena_printf(&s->arena, "key-%08" PRIu64, i));
}

/* A put of key i in a revision of its own. */
static void store_put(struct store *s, uint64_t i, struct bytes value, int64_t create,
                      int64_t version)
{
    int64_t revision = ++s->revision;

    put_revision(s, revision_key(s, (uint64_t)revision, 0, false),
                 &(struct pb_key_value){.key = user_key(s, i),
                                        .create_revision = create ? create : revision,
                                        .mod_revision = revision,
                                        .version = version,
                                        .value = value});
}

static void store_delete(struct store *s, uint64_t i)
{
    int64_t revision = ++s->revision;

    put_revision(s, revision_key(s, (uint64_t)revision, 0, true),
                 &(struct pb_key_value){.key = user_key(s, i)});
}

/* Key 7 is a megabyte, every hundredth one has some pages. */
static size_t value_len(uint64_t i)
{
    if (i == 7)
        return 1 << 20;
    return i % 100 == 0 ? 10000 + i % 5000 : 10 + i % 190;
}

static struct bytes value_of(struct store *s, uint64_t i)
{
    size_t len = value_len(i);
    uint8_t *at = arena_alloc(&s->arena, len);

    for (size_t k = 0; k < len; k++)
        at[k] = (uint8_t)('a' + (i + k * k) % 26);
    return bytes_of(at, len);
}

/* `count` keys; every tenth is overwritten, every fiftieth deleted. */
static void store_fill(struct store *s, uint64_t count)
{
    s->revision = 1;
    s->hash = crc32c(0, BYTES("key"));
    for (uint64_t i = 0; i < count; i++)
        store_put(s, i, value_of(s, i), 0, 1);
    for (uint64_t i = 0; i < count; i += 10)
        store_put(s, i, value_of(s, i + 1), (int64_t)i + 2, 2);
    for (uint64_t i = 5; i < count; i += 50)
        store_delete(s, i);
    s->keys = count - (count + 44) / 50;
}

static void store_init(struct store *s, uint64_t count)
{
    for (size_t i = 0; i < BUCKETS; i++)
        s->buckets[i].name = bytes_of_str(bucket_names[i]);
    store_fill(s, count);
    rig_add(&s->buckets[AUTH], BYTES("authEnabled"), BYTES("\0"));
    rig_add(&s->buckets[AUTH], BYTES("authRevision"), u64_be(s, 1));
    rig_add(&s->buckets[CLUSTER], BYTES("clusterVersion"), BYTES("3.7.0"));
    rig_add(&s->buckets[MEMBERS], BYTES("8e9e05c52164694d"),
            BYTES("{\"id\":10276657743932975437,\"peerURLs\":[\"http://localhost:2380\"],"
                  "\"name\":\"m\"}"));
    rig_add(&s->buckets[META], BYTES("confState"),
            BYTES("{\"voters\":[10276657743932975437],\"auto_leave\":false}"));
    rig_add(&s->buckets[META], BYTES("consistent_index"), u64_be(s, 100000));
    rig_add(&s->buckets[META], BYTES("storageVersion"), BYTES("3.7.0"));
    rig_add(&s->buckets[META], BYTES("term"), u64_be(s, 3));
}

static void store_free(struct store *s)
{
    rig_free(s->buckets, BUCKETS);
    arena_free(&s->arena);
}

/* The store as a backup file: the image and its digest. */
static const char *write_backup(struct store *s, struct buf *file)
{
    uint8_t digest[HASH_SHA256_BYTES];
    const char *path = arena_printf(&s->arena, "%s/backup", test_tmp_dir());

    rig_write(s->buckets, BUCKETS, NULL, file);
    hash_once(HASH_SHA256, buf_bytes(file), digest);
    buf_append(file, bytes_of(digest, sizeof(digest)));
    rig_write_file(path, buf_bytes(file));
    return path;
}

/* ---- Ours before theirs ---- */

static void check_status(struct store *s, const char *path, uint64_t image_bytes,
                         struct bolt_sum sum)
{
    const char *json = peer_run(&s->arena, "$PEERS/etcdutl snapshot status %s -w json 2>&1", path);

    CHECK_EQ(peer_json_number(json, "hash"), sum.crc);
    CHECK_EQ(peer_json_number(json, "revision"), s->revision);
    CHECK_EQ(peer_json_number(json, "totalKey"), s->keys);
    CHECK_EQ(peer_json_number(json, "totalSize"), image_bytes);
    CHECK(strstr(json, "\"version\":\"3.7.0\"") != NULL);
}

static void check_hashkv(struct store *s, const char *path)
{
    const char *json = peer_run(&s->arena, "$PEERS/etcdutl hashkv %s -w json 2>&1", path);

    CHECK_EQ(peer_json_number(json, "hash"), s->hash);
    CHECK_EQ(peer_json_number(json, "hashRevision"), s->revision);
}

static const char *restore(struct store *s, const char *backup, struct peer *e)
{
    const char *dir = arena_printf(&s->arena, "%s/restored", test_tmp_dir());

    peer_open(e, dir);
    peer_run(&s->arena,
             "$PEERS/etcdutl snapshot restore %s --data-dir %s --name m --initial-cluster m=%s "
             "--initial-advertise-peer-urls %s 2>&1",
             backup, dir, e->peer_url, e->peer_url);
    return dir;
}

static void check_served_value(struct store *s, struct peer *e, uint64_t i)
{
    const char *got = PEER_CTL(e, "get key-%08" PRIu64 " --print-value-only", i);
    struct bytes want = value_of(s, i % 10 == 0 ? i + 1 : i);

    if (i % 50 == 5)
        want = BYTES("");
    CHECK_BYTES(bytes_of_str(got), want);
}

static int64_t served_count(struct peer *e)
{
    const char *fields = PEER_CTL(e, "get '' --prefix --count-only -w fields");
    const char *at = strstr(fields, "\"Count\" : ");

    CHECK(at != NULL);
    return strtoll(at + strlen("\"Count\" : "), NULL, 10);
}

/* Reads, writes, deletes and compacts: everything bbolt does to pages that we have written. */
static void use_server(struct store *s, struct peer *e, uint64_t count)
{
    const uint64_t some[] = {0, 1, 5, 7, 10, 55, 99, 100, 101, count / 2, count - 1};

    for (size_t i = 0; i < ARRAY_LEN(some); i++)
        check_served_value(s, e, some[i]);
    CHECK_EQ(served_count(e), s->keys);
    PEER_CTL(e, "put new value");
    PEER_CTL(e, "del key-00000 --prefix");
    PEER_CTL(e, "put key-00000000 back");
    CHECK_STR(PEER_CTL(e, "get new --print-value-only"), "value");
    CHECK_STR(PEER_CTL(e, "get key-00000000 --print-value-only"), "back");
    PEER_CTL(e, "compact %" PRId64 " --physical", s->revision + 2);
    CHECK_STR(PEER_CTL(e, "get new --print-value-only"), "value");
}

/* A data directory's file, opened through the real disk and read as it is. */
static struct bolt_sum read_db(const char *dir)
{
    struct loop *loop;
    struct disk_file *file;
    struct bolt_file source;
    struct bolt_fault fault;
    struct bolt *b;
    struct bolt_sum sum;
    struct arena arena = {0};
    CHECK_EQ(loop_open(&(struct loop_options){0}, &loop), ERR_OK);
    struct disk *disk = loop_io(loop)->disk;

    const char *path = arena_printf(&arena, "%s/member/snap/db", dir);
    CHECK_EQ(disk_open(disk, path, DISK_READ_ONLY, 0, &file), ERR_OK);
    CHECK_EQ(disk_lock(disk, file, DISK_FLOCK | DISK_SHARED), ERR_OK);
    CHECK_EQ(bolt_file_init(&source, disk, file), ERR_OK);
    CHECK_EQ(bolt_open(&source.source, BOLT_LIVE, &fault, &b), ERR_OK);
    enum err e = bolt_check(b);
    if (e != ERR_OK)
        test_fail(__FILE__, __LINE__, "offset %" PRIu64 ": %s", fault.offset, fault.what);
    CHECK(!bolt_info(b).meta_damaged);
    CHECK_EQ(bolt_sum(b, &sum), ERR_OK);

    bolt_close(b);
    CHECK_EQ(disk_close(disk, file), ERR_OK);
    loop_close(loop);
    arena_free(&arena);
    return sum;
}

static void try_with_etcd(uint64_t count)
{
    struct store s = {0};
    struct peer e;
    struct buf file = {0};
    struct bolt_fault fault;
    struct bolt_sum sum;
    peer_need();
    store_init(&s, count);
    const char *path = write_backup(&s, &file);
    struct bytes image = bytes_of(file.at, file.len - HASH_SHA256_BYTES);
    CHECK_EQ(rig_read_all(image, BOLT_IMAGE, &fault, &sum), ERR_OK);

    check_status(&s, path, image.len, sum);
    const char *dir = restore(&s, path, &e);
    const char *db = arena_printf(&s.arena, "%s/member/snap/db", dir);
    check_hashkv(&s, db);
    peer_start(&e, "");
    use_server(&s, &e, count);
    peer_stop(&e);
    peer_close(&e);

    sum = read_db(dir);
    const char *json = peer_run(&s.arena, "$PEERS/etcdutl snapshot status %s -w json 2>&1", db);
    CHECK_EQ(peer_json_number(json, "hash"), sum.crc);
    store_free(&s);
    buf_free(&file);
}

TEST(real_etcd_takes_and_serves_a_small_image_of_ours)
{
    try_with_etcd(300);
}

TEST(real_etcd_takes_and_serves_fifty_thousand_keys_of_ours)
{
    try_with_etcd(50000);
}

/* The tool checks the graph and the order of keys in any bbolt file, whatever is in it. */
TEST(etcds_own_check_accepts_random_images_of_ours)
{
    struct arena arena = {0};
    struct rng rng;
    peer_need();
    rng_seed(&rng, test_seed());

    for (int round = 0; round < 12; round++) {
        struct rig_bucket buckets[] = {
            {.name = BYTES("a")}, {.name = BYTES("b")}, {.name = BYTES("meta")}};
        struct buf image = {0};
        struct bolt_fault fault;
        struct bolt_sum sum;
        uint64_t count = rng_below(&rng, 3000);
        bool wide = rng_chance(&rng, 1, 2);
        for (uint64_t i = 0; i < count; i++) {
            char *key = arena_printf(&arena, "%08" PRIu64 "%*s", i,
                                     wide ? (int)rng_below(&rng, 6000) : 0, "");
            size_t len = rng_below(&rng, i % 7 == 0 ? 9000 : 50);
            rig_add(&buckets[1], bytes_of_str(key), rig_random(&arena, &rng, len));
        }

        uint32_t page_bytes = 1024u << round % 7;
        rig_write(buckets, 3, &(struct rig_write_options){.page_bytes = page_bytes}, &image);
        const char *path = arena_printf(&arena, "%s/image", test_tmp_dir());
        rig_write_file(path, buf_bytes(&image));
        const char *json = peer_run(&arena, "$PEERS/etcdutl snapshot status %s -w json 2>&1", path);

        CHECK_EQ(rig_read_all(buf_bytes(&image), BOLT_IMAGE, &fault, &sum), ERR_OK);
        CHECK_EQ(peer_json_number(json, "hash"), sum.crc);
        CHECK_EQ(sum.keys, count);
        rig_free(buckets, 3);
        buf_free(&image);
    }
    arena_free(&arena);
}

/* ---- Theirs before ours ---- */

/* What the newest revision of a user's key has as its value, found the slow way. */
static void find_value(struct bolt *b, const char *key, struct buf *out)
{
    struct bolt_cursor *c;
    struct bolt_entry entry;
    struct buf raw = {0};
    struct arena arena = {0};

    CHECK_EQ(bolt_cursor_open(b, BYTES("key"), &c), ERR_OK);
    while (bolt_cursor_next(c, &entry) == ERR_OK) {
        struct pb_key_value kv;
        buf_clear(&raw);
        CHECK_EQ(bolt_cursor_value(c, 2 * MIB, &raw), ERR_OK);
        CHECK_EQ(pb_decode_key_value(buf_bytes(&raw), &arena, &kv), ERR_OK);
        if (bytes_equal(kv.key, bytes_of_str(key))) {
            buf_clear(out);
            buf_append(out, kv.value);
        }
        arena_reset(&arena);
    }
    bolt_cursor_close(c);
    buf_free(&raw);
    arena_free(&arena);
}

static void check_backup_content(struct bytes file)
{
    struct bolt_memory memory;
    struct bolt_fault fault;
    struct bolt *b;
    struct buf value = {0};

    bolt_memory_init(&memory, file);
    CHECK_EQ(bolt_check_digest(&memory.source, &fault), ERR_OK);
    CHECK_EQ(bolt_open(&memory.source, BOLT_IMAGE, &fault, &b), ERR_OK);
    CHECK_EQ(bolt_check(b), ERR_OK);
    find_value(b, "k17", &value);
    CHECK_BYTES(buf_bytes(&value), BYTES("second-17"));
    find_value(b, "big", &value);
    CHECK_EQ(value.len, 100000);
    for (size_t i = 0; i < value.len; i++)
        CHECK_EQ(value.at[i], 'x');
    bolt_close(b);
    buf_free(&value);
}

/* The dump's tree, with the numbers of changes, which depend on their order, made alike. */
static const char *dump_tree(struct arena *arena, struct bytes dump, const char *end)
{
    char *text = arena_copy_str(arena, dump);
    char *to = text;
    char *stop = strstr(text, end);

    CHECK(stop != NULL);
    for (const char *at = text; at < stop; at++) {
        bool after_colon = to > text && to[-1] == ':';
        if (after_colon && *at >= '0' && *at <= '9')
            continue;
        *to++ = *at;
    }
    *to = '\0';
    return text;
}

/* The newest .snap is one that we take, and its dump is the one we would have written, but for the
 * parts that nobody reads. */
static void check_snapfile(struct peer *e)
{
    struct loop *loop;
    struct arena arena = {0};
    struct buf file = {0}, dump = {0};
    struct raft_snapshot snapshot;
    struct logger logger = {.level = LOG_FATAL};
    CHECK_EQ(loop_open(&(struct loop_options){0}, &loop), ERR_OK);

    const char *dir = arena_printf(&arena, "%s/member/snap", e->dir);
    struct snapfile_search search = {.dir = dir, .logger = &logger};
    CHECK_EQ(snapfile_load_newest(loop_io(loop)->disk, &search, &arena, &file, &snapshot), ERR_OK);
    CHECK_EQ(snapshot.term, 2);
    CHECK(snapshot.index >= 20);
    CHECK_EQ(snapshot.conf_state.voters.count, 1);
    struct bytes peer = bytes_of_str(e->peer_url), client = bytes_of_str(e->client_url);
    struct pb_member member = {.id = snapshot.conf_state.voters.at[0],
                               .name = BYTES("m"),
                               .peer_urls = {&peer, 1},
                               .client_urls = {&client, 1}};
    snapfile_dump(&(struct snapfile_membership){.members = &member,
                                                .member_count = 1,
                                                .cluster_version = BYTES("3.7.0")},
                  &dump);
    const char *theirs = dump_tree(&arena, snapshot.data, ",\"WatcherHub\"");
    CHECK_STR(dump_tree(&arena, buf_bytes(&dump), ",\"CurrentIndex\""), theirs);

    struct buf again = {0};
    snapfile_encode(&snapshot, &again);
    CHECK_BYTES(buf_bytes(&again), buf_bytes(&file));
    buf_free(&again);
    loop_close(loop);
    arena_free(&arena);
    buf_free(&file);
    buf_free(&dump);
}

TEST(what_real_etcd_has_written_is_read)
{
    struct peer e;
    struct buf file = {0};
    peer_need();
    char dir[256], backup[256], big[256];
    snprintf(dir, sizeof(dir), "%s/data", test_tmp_dir());
    snprintf(backup, sizeof(backup), "%s/backup", test_tmp_dir());
    snprintf(big, sizeof(big), "%s/big", test_tmp_dir());
    peer_open(&e, dir);
    peer_start(&e, "--snapshot-count 20");

    struct buf content = {0};
    memset(buf_extend(&content, 100000), 'x', 100000);
    rig_write_file(big, buf_bytes(&content));
    PEER_CTL(&e, "put big <%s", big);
    for (int i = 0; i < 40; i++)
        PEER_CTL(&e, "put k%d first-%d", i, i);
    for (int i = 0; i < 40; i += 17)
        PEER_CTL(&e, "put k%d second-%d", i, i);
    PEER_CTL(&e, "del k3");
    PEER_CTL(&e, "lease grant 600");
    PEER_CTL(&e, "snapshot save %s 2>&1", backup);

    rig_read_file(backup, &file);
    check_backup_content(buf_bytes(&file));
    peer_stop(&e);
    struct bolt_sum sum = read_db(dir);
    const char *json =
        peer_run(&e.arena, "$PEERS/etcdutl snapshot status %s/member/snap/db -w json 2>&1", dir);
    CHECK_EQ(peer_json_number(json, "hash"), sum.crc);
    check_snapfile(&e);
    peer_close(&e);
    buf_free(&file);
    buf_free(&content);
}
