/* Backups made by hand, restored and held against a history: honest ones, and those that a checker
 * must refuse. */
#include "harness/test.h"
#include "io/hash.h"
#include "mvcc/mvcc.h"
#include "sim/restored.h"
#include "snap/bolt_rig_test.h"

#include <stdio.h>
#include <string.h>

enum { REVISION_BYTES = 17, LEASE = 77 };

struct restored_rig {
    struct arena arena;
    struct rig_bucket buckets[3]; /* key, lease, meta */
    struct history h;
};

static struct bytes number(struct restored_rig *r, uint64_t n)
{
    uint64_t big = __builtin_bswap64(n);

    return arena_copy(&r->arena, bytes_of(&big, sizeof(big)));
}

static void rig_open(struct restored_rig *r)
{
    *r = (struct restored_rig){.h = {.seen = 1, .members = 3}};
    r->buckets[0].name = BYTES("key");
    r->buckets[1].name = BYTES("lease");
    r->buckets[2].name = BYTES("meta");
    rig_add(&r->buckets[2], BYTES("consistent_index"), number(r, 9));
    rig_add(&r->buckets[2], BYTES("term"), number(r, 2));
}

static void rig_close(struct restored_rig *r)
{
    rig_free(r->buckets, ARRAY_LEN(r->buckets));
    history_free(&r->h);
    arena_free(&r->arena);
}

/* Put by an operation that is neither begun nor answered: its value is all that counts here. */
static struct pb_key_value kv_of(struct restored_rig *r, unsigned key, int64_t revision,
                                 int64_t lease)
{
    char text[HISTORY_KEY_BYTES];

    return (struct pb_key_value){.key = arena_copy(&r->arena, bytes_of_str(history_key(key, text))),
                                 .value = bytes_of_str(arena_printf(&r->arena, "%u x", key + 100)),
                                 .create_revision = revision,
                                 .mod_revision = revision,
                                 .version = 1,
                                 .lease = lease};
}

static void store(struct restored_rig *r, const struct pb_key_value *kv)
{
    uint8_t at[REVISION_BYTES] = {[8] = '_'};
    uint64_t main = __builtin_bswap64((uint64_t)kv->mod_revision);
    struct buf value = {0};

    memcpy(at, &main, sizeof(main));
    pb_encode_key_value(kv, &value);
    rig_add(&r->buckets[0], arena_copy(&r->arena, bytes_of(at, sizeof(at))),
            arena_copy(&r->arena, buf_bytes(&value)));
    buf_free(&value);
}

static void store_lease(struct restored_rig *r)
{
    struct buf value = {0};

    pb_encode(&pb_lease_schema, &(struct pb_lease){.id = LEASE, .ttl = 60}, &value);
    rig_add(&r->buckets[1], number(r, LEASE), arena_copy(&r->arena, buf_bytes(&value)));
    buf_free(&value);
}

static void witness(struct restored_rig *r, const struct pb_key_value *kv)
{
    struct pb_put_request put = {.key = kv->key, .value = kv->value, .lease = kv->lease};
    struct buf wire = {0};
    struct pb_event e = {.kv = kv};

    pb_encode(&pb_put_request_schema, &put, &wire);
    while (r->h.op_count <= history_number(kv->value))
        history_gave_up(&r->h, history_begin(&r->h, OP_PUT, buf_bytes(&wire)));
    buf_free(&wire);
    history_witness(&r->h, &e);
}

/* The file as etcdctl has it. */
static void make_backup(struct restored_rig *r, struct buf *out)
{
    uint8_t digest[HASH_SHA256_BYTES];

    rig_write(r->buckets, ARRAY_LEN(r->buckets), NULL, out);
    hash_once(HASH_SHA256, buf_bytes(out), digest);
    buf_append(out, bytes_of(digest, sizeof(digest)));
}

static void restore(struct restored_rig *r, struct history_image *out)
{
    struct buf backup = {0}, why = {0};

    make_backup(r, &backup);
    if (!restored_read(buf_bytes(&backup), out, &why))
        test_fail(__FILE__, __LINE__, "it is refused: %s", buf_str(&why));
    buf_free(&backup);
    buf_free(&why);
}

/* The checks of images alone: the history's operations are made up. */
static void check(struct restored_rig *r, const char *problem)
{
    struct history_image image;

    restore(r, &image);
    CHECK_EQ(image.index, 9);
    history_restored(&r->h, 1, 2, &image);
    history_check_images(&r->h);
    CHECK_STR(r->h.problem, problem);
    rig_close(r);
}

TEST(a_backup_that_holds_what_there_was_is_fine)
{
    struct restored_rig r;
    rig_open(&r);
    struct pb_key_value one = kv_of(&r, 1, 2, 0), leased = kv_of(&r, 4, 3, LEASE);

    store_lease(&r);
    store(&r, &one);
    store(&r, &leased);
    witness(&r, &one);
    witness(&r, &leased);
    check(&r, "");
}

TEST(a_backup_with_another_version_of_a_key_is_noticed)
{
    struct restored_rig r;
    rig_open(&r);
    struct pb_key_value one = kv_of(&r, 1, 2, 0), two = kv_of(&r, 2, 3, 0);

    store(&r, &one);
    witness(&r, &one);
    witness(&r, &two);
    two.value = BYTES("103 x");
    store(&r, &two);
    check(&r, "a backup of member 1 at revision 3, restored, has something else at key 2 than "
              "there was");
}

TEST(a_backup_without_a_key_is_noticed)
{
    struct restored_rig r;
    rig_open(&r);
    struct pb_key_value one = kv_of(&r, 1, 2, 0), two = kv_of(&r, 2, 3, 0);

    witness(&r, &one);
    witness(&r, &two);
    store(&r, &two);
    check(&r, "a backup of member 1 at revision 3, restored, has something else at key 1 than "
              "there was");
}

TEST(a_backup_of_what_has_not_happened_is_noticed)
{
    struct restored_rig r;
    rig_open(&r);
    struct pb_key_value one = kv_of(&r, 1, 2, 0), two = kv_of(&r, 2, 3, 0);

    witness(&r, &one);
    store(&r, &one);
    store(&r, &two);
    check(&r, "a backup is of revision 3, and there are 2");
}

TEST(a_backup_that_lies_behind_its_member_is_noticed)
{
    struct restored_rig r;
    struct history_image image;
    rig_open(&r);
    struct pb_key_value one = kv_of(&r, 1, 2, 0);

    store(&r, &one);
    witness(&r, &one);
    restore(&r, &image);
    history_restored(&r.h, 1, 3, &image);
    CHECK_STR(r.h.problem, "a backup is of revision 2, but its member had been at 3");
    rig_close(&r);
}

TEST(backups_of_one_entry_are_of_one_revision)
{
    struct restored_rig r;
    struct history_image image;
    rig_open(&r);
    struct pb_key_value one = kv_of(&r, 1, 2, 0), two = kv_of(&r, 2, 3, 0);

    witness(&r, &one);
    witness(&r, &two);
    store(&r, &one);
    restore(&r, &image);
    history_restored(&r.h, 0, 0, &image);
    store(&r, &two);
    check(&r, "backups of entry 9 are of revisions 2 and 3");
}

/* --- what is no backup --- */

static void check_refused(struct restored_rig *r, struct buf *backup, const char *text)
{
    struct history_image image;
    struct buf why = {0};

    CHECK(!restored_read(buf_bytes(backup), &image, &why));
    if (!strstr(buf_str(&why), text))
        test_fail(__FILE__, __LINE__, "wanted \"%s\", got: %s", text, buf_str(&why));
    buf_free(&why);
    buf_free(backup);
    rig_close(r);
}

TEST(a_backup_with_a_changed_byte_is_refused)
{
    struct restored_rig r;
    struct buf backup = {0};
    rig_open(&r);
    struct pb_key_value one = kv_of(&r, 1, 2, 0);

    store(&r, &one);
    make_backup(&r, &backup);
    backup.at[backup.len / 2] ^= 1;
    check_refused(&r, &backup, "a backup of ");
}

TEST(a_backup_that_ends_early_is_refused)
{
    struct restored_rig r;
    struct buf backup = {0};
    rig_open(&r);
    struct pb_key_value one = kv_of(&r, 1, 2, 0);

    store(&r, &one);
    make_backup(&r, &backup);
    backup.len -= 4096;
    check_refused(&r, &backup, "a backup of ");
}

TEST(a_backup_whose_key_hangs_on_no_lease_is_refused)
{
    struct restored_rig r;
    struct buf backup = {0};
    rig_open(&r);
    struct pb_key_value leased = kv_of(&r, 4, 2, LEASE);

    store(&r, &leased);
    make_backup(&r, &backup);
    check_refused(&r, &backup, "lease");
}
