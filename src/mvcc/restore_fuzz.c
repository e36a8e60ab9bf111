/*
 * Any entries at all as a store: it is refused with a reason, or it is a store like others, which
 * can be read, hashed, compacted and opened again.
 *
 *     input    entries, each: kind, main step, sub, and then
 *              kind 0  a put: key letter, created, version, value length
 *              kind 1  a tombstone: key letter
 *              kind 2  raw: length of the key, key, length of the value, value
 *              kind 3  a note of a compaction: scheduled or finished, at the main reached so far
 *              kind 4  a note of a range tombstone: at the revision reached so far, from a letter
 *                      to another; or raw
 *              kind 5  a bump: an entry without a value, and perhaps the note of the compaction
 *                      at it, without which it is damage
 */
#include "backend/backend.h"
#include "backend/backend_memory.h"
#include "base/assert.h"
#include "mvcc/mvcc_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *at, *end;
};

static unsigned take(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static struct bytes take_bytes(struct input *in)
{
    size_t len = take(in), left = (size_t)(in->end - in->at);
    struct bytes taken = bytes_of(in->at, len < left ? len : left);

    in->at += taken.len;
    return taken;
}

static void put_kv(struct backend *b, struct input *in, struct revision at, bool tombstone)
{
    static const uint8_t zeroes[256];
    struct revision_key space;
    struct buf encoded = {0};
    uint8_t letter = (uint8_t)('a' + take(in) % 4);
    struct pb_key_value kv = {.key = bytes_of(&letter, 1)};

    if (!tombstone) {
        kv.create_revision = take(in);
        kv.mod_revision = at.main;
        kv.version = take(in);
        kv.lease = kv.version % 3;
        kv.value = bytes_of(zeroes, take(in));
    }
    pb_encode_key_value(&kv, &encoded);
    backend_put(b, BUCKET_KEY, revision_encode(at, tombstone, &space), buf_bytes(&encoded));
    buf_free(&encoded);
}

static void put_raw(struct backend *b, struct input *in)
{
    struct bytes key = take_bytes(in), value = take_bytes(in);

    if (key.len > 0)
        backend_put(b, BUCKET_KEY, key, value);
}

static void put_note(struct backend *b, struct input *in, struct revision at)
{
    struct revision_key space;
    struct bytes name = take(in) % 2 ? BYTES(MVCC_SCHEDULED_KEY) : BYTES(MVCC_FINISHED_KEY);

    backend_put(b, BUCKET_META, name, revision_encode(at, false, &space));
}

static void put_range_tombstone_note(struct backend *b, struct input *in, struct revision at)
{
    struct revision_key space;
    struct buf note = {0};
    unsigned from = take(in), to = take(in);

    buf_append(&note, revision_encode(at, false, &space));
    buf_append(&note, bytes_of((const uint8_t[]){to % 3 > 0, 0, 0, 0, 1}, 5));
    buf_append_byte(&note, (uint8_t)('a' + from % 4));
    if (to % 3 > 0)
        buf_append_byte(&note, (uint8_t)('a' + to % 5));
    backend_put(b, BUCKET_META, BYTES(MVCC_RANGE_TOMBSTONE_KEY),
                from % 16 == 15 ? take_bytes(in) : buf_bytes(&note));
    buf_free(&note);
}

static void put_bump(struct backend *b, struct input *in, struct revision at)
{
    struct revision_key space;
    struct bytes key = revision_encode(at, false, &space);

    backend_put(b, BUCKET_KEY, key, (struct bytes){0});
    if (take(in) % 4 > 0)
        backend_put(b, BUCKET_META, BYTES(MVCC_SCHEDULED_KEY), key);
}

static void fill(struct backend *b, struct input *in)
{
    struct revision at = {1, 0};

    while (in->at < in->end) {
        unsigned kind = take(in) % 6;
        if (kind == 2) {
            put_raw(b, in);
            continue;
        }
        at.main += take(in) % 16;
        at.sub = take(in) % 8;
        if (kind == 3)
            put_note(b, in, at);
        else if (kind == 4)
            put_range_tombstone_note(b, in, at);
        else if (kind == 5)
            put_bump(b, in, at);
        else
            put_kv(b, in, at, kind == 1);
    }
}

static void commit(struct backend *b)
{
    enum err e = backend_commit_now(b);

    assert(e == ERR_OK);
}

static void read_everything(struct mvcc *m)
{
    struct buf out = {0};
    struct mvcc_scan s = {.question = {.key = BYTES("\0"),
                                       .end = BYTES("\0"),
                                       .at = revision_whole(mvcc_revision(m)),
                                       .tag = 0x12}};

    mvcc_scan_open(m, &s);
    while (!mvcc_scan_measure(&s, 10))
        ;
    while (!mvcc_scan_read(&s, 100, 10, &out))
        ;
    mvcc_scan_close(&s);
    assert(out.len == s.bytes);
    buf_free(&out);
}

static uint32_t hash(struct mvcc *m)
{
    struct mvcc_hash h = {0};
    enum mvcc_result a = mvcc_hash_open(m, &h);

    assert(a == MVCC_OK);
    while (!mvcc_hash_some(m, &h, 10))
        ;
    mvcc_hash_close(m, &h);
    return h.hash;
}

static void remove_all(struct backend *b, struct mvcc *m)
{
    commit(b);
    while (!mvcc_compact_some(m, 5))
        ;
    assert(!mvcc_compact_pending(m));
    mvcc_check_store(m);
}

static void on_leased_key(void *context, struct bytes key, int64_t lease)
{
    (void)context;
    assert(key.len > 0);
    assert(lease != 0);
}

static bool open_mvcc(struct backend *b, struct mvcc **out)
{
    struct buf why = {0};
    struct mvcc_options options = {.backend = b, .on_leased_key = on_leased_key};
    enum err e = mvcc_open(&options, &why, out);

    assert(e == ERR_OK || e == ERR_CORRUPT);
    assert((e == ERR_OK) == (why.len == 0));
    buf_free(&why);
    return e == ERR_OK;
}

static void write_some(struct backend *b, struct mvcc *m, uint64_t index, struct bytes put,
                       struct bytes delete)
{
    struct mvcc_changes changes;

    backend_entry_begin(b);
    mvcc_write_begin(m);
    mvcc_put(m, put, BYTES("new"), 0);
    mvcc_delete(m, delete);
    mvcc_write_end(m, &changes);
    enum mvcc_result a = mvcc_compact(m, mvcc_revision(m));
    assert(a == MVCC_OK);
    backend_entry_end(b, (struct backend_position){index, 1}, (struct bytes){0});
}

static void use(struct backend *b, struct mvcc *m)
{
    mvcc_check(m);
    read_everything(m);
    write_some(b, m, 1, BYTES("b"), BYTES("c")); /* perhaps before all is settled */
    mvcc_check(m);
    while (!mvcc_settle_some(m, 1))
        ;
    hash(m);
    remove_all(b, m);
    write_some(b, m, 2, BYTES("a"), BYTES("b"));
    remove_all(b, m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memory_disk *disk = memory_disk_new(1);
    struct backend *b;
    struct mvcc *m;
    struct input in = {data, data + size};
    enum err e = backend_open(&(struct backend_options){.memory = disk}, &b);

    assert(e == ERR_OK);
    fill(b, &in);
    commit(b);
    if (open_mvcc(b, &m)) {
        use(b, m);
        commit(b);
        uint32_t before = hash(m);
        mvcc_close(m);
        bool opened = open_mvcc(b, &m);
        assert(opened);
        assert(hash(m) == before);
        mvcc_check_store(m);
        mvcc_close(m);
    }
    backend_close(b);
    memory_disk_free(disk);
    return 0;
}
