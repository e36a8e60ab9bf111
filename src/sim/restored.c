#include "sim/restored.h"

#include "backend/backend.h"
#include "backend/backend_memory.h"
#include "lease/lease.h"
#include "mvcc/mvcc.h"
#include "server/state.h"
#include "snap/bolt.h"

#include <inttypes.h>

/* --- from the file into a store --- */

static enum err copy_bucket(struct bolt *file, struct bytes name, struct backend *into)
{
    struct bolt_cursor *c = NULL;
    struct bolt_entry entry;
    struct buf value = {0};
    enum bucket bucket;

    if (!bucket_find(name, &bucket))
        return ERR_UNSUPPORTED;
    enum err e = bolt_cursor_open(file, name, &c);
    while (e == ERR_OK && (e = bolt_cursor_next(c, &entry)) == ERR_OK) {
        buf_clear(&value);
        e = bolt_cursor_value(c, SIZE_MAX, &value);
        if (e == ERR_OK)
            backend_put(into, bucket, entry.key, buf_bytes(&value));
    }
    bolt_cursor_close(c);
    buf_free(&value);
    return e == ERR_END ? ERR_OK : e;
}

static enum err copy_buckets(struct bolt *file, struct backend *into)
{
    struct bolt_cursor *names = bolt_cursor_open_root(file);
    struct bolt_entry entry;
    enum err e;

    while ((e = bolt_cursor_next(names, &entry)) == ERR_OK) {
        struct buf name = {0};
        buf_append(&name, entry.key);
        e = copy_bucket(file, buf_bytes(&name), into);
        buf_free(&name);
        if (e != ERR_OK)
            break;
    }
    bolt_cursor_close(names);
    return e == ERR_END ? backend_commit_now(into) : e;
}

/* False: the file is not what a backup should be. */
static bool fill_store(struct bytes backup, struct backend *into, struct buf *why)
{
    struct bolt_memory memory;
    struct bolt_fault fault = {0};
    struct bolt *file = NULL;

    bolt_memory_init(&memory, backup);
    enum err e = bolt_check_digest(&memory.source, &fault);
    if (e == ERR_OK)
        e = bolt_open(&memory.source, BOLT_IMAGE, &fault, &file);
    if (e == ERR_OK)
        e = bolt_check(file);
    if (e == ERR_OK)
        e = copy_buckets(file, into);
    bolt_close(file);
    if (e != ERR_OK)
        buf_printf(why, "a backup of %zu bytes: %s at %" PRIu64 " (%s)", backup.len,
                   fault.what ? fault.what : "refused", fault.offset, err_text(e));
    return e == ERR_OK;
}

/* --- what the rooms say --- */

static void note_why(void *context, const char *text)
{
    buf_append_str(context, text);
}

static bool read_key(const struct state *s, unsigned key, struct history_event *out,
                     struct buf *why)
{
    struct arena arena = {0};
    char text[HISTORY_KEY_BYTES];
    struct bytes name = bytes_of_str(history_key(key, text));
    struct keyindex_found found;
    struct pb_key_value kv;
    struct buf stored = {0};

    if (!mvcc_find(s->mvcc, name, revision_whole(mvcc_revision(s->mvcc)), &found))
        return false;
    mvcc_read_kv(s->mvcc, found.mod, &stored);
    if (pb_decode_key_value(buf_bytes(&stored), &arena, &kv) != ERR_OK)
        buf_printf(why, "key %s of a backup cannot be decoded", text);
    else {
        *out = (struct history_event){.revision = kv.mod_revision,
                                      .key = key,
                                      .op = history_number(kv.value),
                                      .create_revision = kv.create_revision,
                                      .version = kv.version,
                                      .lease = kv.lease};
        if (lease_of_key(s->leases, name) != kv.lease)
            buf_printf(why, "key %s of a backup does not hang on its lease", text);
    }
    arena_free(&arena);
    buf_free(&stored);
    return true;
}

static void read_keys(const struct state *s, struct history_image *out, struct buf *why)
{
    out->kvs = mem_new_array(HISTORY_ALL_KEYS, struct history_event);
    for (unsigned key = 0; key < HISTORY_ALL_KEYS && why->len == 0; key++)
        out->kv_count += read_key(s, key, &out->kvs[out->kv_count], why);
}

static void read_hash(const struct state *s, struct history_image *out, struct buf *why)
{
    struct mvcc_hash hash = {0};

    if (mvcc_hash_open(s->mvcc, &hash) != MVCC_OK) {
        buf_append_str(why, "a backup has no hash");
        return;
    }
    while (!mvcc_hash_some(s->mvcc, &hash, MVCC_SLICE_STEPS))
        if (!mvcc_is_settled(s->mvcc, INT64_MAX)) {
            buf_append_str(why, "a backup has a delete that is not settled");
            break;
        }
    out->hash = hash.hash;
    out->compact_revision = hash.compact_revision;
    mvcc_hash_close(s->mvcc, &hash);
}

static void read_state(struct backend *store, struct history_image *out, struct buf *why)
{
    static const struct logger quiet = {.level = LOG_FATAL, .sink = log_sink_none};
    struct state state = {.backend = store};
    struct state_options options = {.logger = &quiet, .on_failed = note_why, .context = why};

    enum err e = state_open(&state, &options, why);
    if (e != ERR_OK && why->len == 0)
        buf_append_str(why, err_text(e));
    if (why->len == 0) {
        state_check(&state);
        out->index = backend_applied(store).index;
        out->revision = mvcc_revision(state.mvcc);
        read_keys(&state, out, why);
        read_hash(&state, out, why);
    }
    state_close(&state);
}

bool restored_read(struct bytes backup, struct history_image *out, struct buf *why)
{
    struct memory_disk *disk = memory_disk_new(1);
    struct backend_options options = {.memory = disk, .why = why};
    struct backend *store = NULL;

    *out = (struct history_image){0};
    enum err e = backend_open(&options, &store);
    bool is_filled = e == ERR_OK && fill_store(backup, store, why);
    backend_close(store);
    store = NULL;
    if (is_filled) /* where it stands is read when it is opened */
        e = backend_open(&options, &store);
    if (is_filled && e == ERR_OK)
        read_state(store, out, why);
    if (e != ERR_OK && why->len == 0)
        buf_append_str(why, err_text(e));
    backend_close(store);
    memory_disk_free(disk);
    if (why->len > 0) {
        mem_free(out->kvs);
        *out = (struct history_image){0};
    }
    return why->len == 0;
}
