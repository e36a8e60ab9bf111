/* `cleatutl snapshot status FILE` and `cleatutl hashkv FILE`: numbers that two files can be
 * compared by. */
#include "base/crc32c.h"
#include "base/text.h"
#include "cli/utl/etcd_file.h"
#include "cli/utl/etcdutl.h"

#include <inttypes.h>

/* ---- snapshot status ---- */

struct tally {
    struct etcd_keys keys;
    int64_t revision;
};

static void tally_revision(void *context, const struct etcd_revision *r)
{
    struct tally *t = context;

    t->revision = r->main;
    etcd_keys_add(&t->keys, r);
}

static uint64_t count_living(const struct etcd_keys *keys)
{
    const struct map_entry *entry;
    uint64_t count = 0;
    size_t at = 0;

    while ((entry = map_next(&keys->map, &at)))
        count += !((const struct etcd_key *)entry->value)->is_tombstone;
    return count;
}

static int show_status(const struct tally *t, const struct bolt_sum *sum, uint64_t bytes,
                       struct bytes version, const char *format)
{
    struct arena arena = {0};
    struct buf size = {0};
    const char *hash = arena_printf(&arena, "%" PRIu32, sum->crc);
    const char *revision = arena_printf(&arena, "%" PRId64, t->revision);
    const char *keys = arena_printf(&arena, "%" PRIu64, count_living(&t->keys));
    const char *text = arena_copy_str(&arena, version);

    text_append_size(&size, bytes);
    const struct utl_cell cells[] = {
        {"HASH", "Hash", "hash", arena_printf(&arena, "%" PRIx32, sum->crc), hash},
        {"REVISION", "Revision", "revision", revision, revision},
        {"TOTAL KEYS", "Keys", "totalKey", keys, keys},
        {"TOTAL SIZE", "Size", "totalSize", buf_str(&size),
         arena_printf(&arena, "%" PRIu64, bytes)},
        {"VERSION", "Version", "version", text, arena_printf(&arena, "\"%s\"", text)},
    };
    int status = utl_show(format, cells, ARRAY_LEN(cells));
    buf_free(&size);
    arena_free(&arena);
    return status;
}

static bool check_pages(struct etcd_file *f)
{
    if (bolt_check(f->bolt) == ERR_OK)
        return true;
    utl_fail(UTL_ERROR,
             "snapshot file integrity check failed. 1 errors found.\noffset %" PRIu64 ": %s",
             f->fault.offset, f->fault.what ? f->fault.what : "cannot be read");
    return false;
}

int utl_snapshot_status(struct disk *disk, const char *path, const char *format)
{
    struct etcd_file f;
    struct tally t = {0};
    struct bolt_sum sum;
    struct buf version = {0};
    int status = UTL_ERROR;

    etcd_keys_init(&t.keys);
    if (etcd_file_open(&f, disk, path) && check_pages(&f) &&
        etcd_file_walk(&f, tally_revision, &t)) {
        struct bolt_info info = bolt_info(f.bolt);
        etcd_file_meta(&f, "storageVersion", 64, &version);
        enum err e = t.keys.is_damaged ? ERR_CORRUPT : bolt_sum(f.bolt, &sum);
        if (e != ERR_OK)
            etcd_file_fail(&f, e);
        else
            status =
                show_status(&t, &sum, info.pages * info.page_bytes, buf_bytes(&version), format);
    }
    etcd_file_close(&f);
    etcd_keys_free(&t.keys);
    buf_free(&version);
    return status;
}

/* ---- hashkv ---- */

/*
 * As HashKV has it: everything up to a revision, and of what was there at the last compaction only
 * what a compaction at this revision would keep. So first a walk that finds the last revision of
 * each key, then one that hashes. Where no key is alive, etcd leaves out nothing but tombstones at
 * the compaction's own revision, which older versions remove.
 */
struct hashing {
    int64_t compacted, newest;
    int64_t revision;      /* 0, until it is known: the newest */
    struct etcd_keys keys; /* as of the revision */
    uint64_t kept;
    uint32_t crc;
    struct arena scratch;
};

static void find_kept(void *context, const struct etcd_revision *r)
{
    struct hashing *h = context;

    h->newest = r->main;
    if (h->revision == 0 || r->main <= h->revision)
        etcd_keys_add(&h->keys, r);
}

static bool is_kept(struct hashing *h, const struct etcd_revision *r)
{
    if (r->main > h->compacted)
        return true;
    if (h->kept == 0)
        return r->main != h->compacted || !r->is_tombstone;
    const struct etcd_key *last = etcd_keys_find(&h->keys, r, &h->scratch);
    arena_reset(&h->scratch);
    return last && !last->is_tombstone && last->main == r->main && last->sub == r->sub;
}

static void hash_revision(void *context, const struct etcd_revision *r)
{
    struct hashing *h = context;

    if (r->main > h->revision || !is_kept(h, r))
        return;
    h->crc = crc32c(h->crc, r->stored_key);
    h->crc = crc32c(h->crc, r->stored_value);
}

static int64_t meta_revision(struct etcd_file *f, const char *key)
{
    struct buf value = {0};
    uint64_t revision = 0;

    if (etcd_file_meta(f, key, 17, &value) && value.len >= 8) {
        for (int i = 0; i < 8; i++)
            revision = revision << 8 | value.at[i];
    }
    buf_free(&value);
    return (int64_t)revision;
}

static int show_hash(const struct hashing *h, const char *format)
{
    struct arena arena = {0};
    const char *hash = arena_printf(&arena, "%" PRIu32, h->crc);
    const char *revision = arena_printf(&arena, "%" PRId64, h->revision);
    const char *compacted = arena_printf(&arena, "%" PRId64, h->compacted);
    const struct utl_cell cells[] = {
        {"HASH", "Hash", "hash", hash, hash},
        {"HASH REVISION", "Hash revision", "hashRevision", revision, revision},
        {"COMPACT REVISION", "Compact revision", "compactRevision", compacted, compacted},
    };
    int status = utl_show(format, cells, ARRAY_LEN(cells));

    arena_free(&arena);
    return status;
}

/* -1, etcd's for a store that was never compacted. A compaction that was only scheduled is carried
 * out by whoever opens the store: it counts. */
static int64_t compacted_of(struct etcd_file *f)
{
    int64_t finished = meta_revision(f, "finishedCompactRev");
    int64_t scheduled = meta_revision(f, "scheduledCompactRev");
    int64_t newest = finished > scheduled ? finished : scheduled;

    return newest > 0 ? newest : -1;
}

static int hash_file(struct etcd_file *f, struct hashing *h, int64_t revision, const char *format)
{
    h->compacted = compacted_of(f);
    h->revision = revision > 0 ? revision : 0;
    h->newest = 1;
    if (!etcd_file_walk(f, find_kept, h))
        return UTL_ERROR;
    if (h->newest < h->compacted)
        h->newest = h->compacted;
    if (revision > 0 && revision < h->compacted)
        return utl_fail(UTL_ERROR, "mvcc: required revision has been compacted");
    if (revision > h->newest)
        return utl_fail(UTL_ERROR, "mvcc: required revision is a future revision");
    if (h->revision == 0)
        h->revision = h->newest;
    h->kept = count_living(&h->keys);
    h->crc = crc32c(0, BYTES("key"));
    if (!etcd_file_walk(f, hash_revision, h))
        return UTL_ERROR;
    if (h->keys.is_damaged)
        return etcd_file_fail(f, ERR_CORRUPT) ? UTL_OK : UTL_ERROR;
    return show_hash(h, format);
}

int utl_hashkv(struct disk *disk, const char *path, int64_t revision, const char *format)
{
    struct etcd_file f;
    struct hashing h = {0};
    int status = UTL_ERROR;

    etcd_keys_init(&h.keys);
    if (etcd_file_open(&f, disk, path))
        status = hash_file(&f, &h, revision, format);
    etcd_file_close(&f);
    etcd_keys_free(&h.keys);
    arena_free(&h.scratch);
    return status;
}
