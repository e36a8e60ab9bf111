#include "server/damage_test.h"

#include "base/buf.h"
#include "harness/test.h"
#include "pb/codec.h"

/* In order of revision: the last one is the newest. */
static void find_newest(struct backend *b, const char *key, struct buf *at, struct buf *record)
{
    struct backend_view v;
    struct backend_cursor c;
    struct bytes name, value;
    struct arena arena = {0};

    backend_view_open(b, &v);
    backend_cursor_open(&v, BUCKET_KEY, (struct bytes){0}, &c);
    while (backend_cursor_next(&c, &name, &value) == ERR_OK) {
        struct pb_key_value kv = {0};
        CHECK_EQ(pb_decode(&pb_key_value_schema, value, &arena, &kv), ERR_OK);
        if (!bytes_equal(kv.key, bytes_of_str(key)) || kv.value.len == 0)
            continue;
        buf_clear(at);
        buf_append(at, name);
        buf_clear(record);
        buf_append(record, value);
    }
    backend_cursor_close(&c);
    backend_view_close(&v);
    arena_free(&arena);
}

/* A record without a lease ends with the value. */
void damage_value(const struct backend_options *store, const char *key)
{
    struct backend *b;
    struct buf at = {0}, record = {0};

    CHECK_EQ(backend_open(store, &b), ERR_OK);
    find_newest(b, key, &at, &record);
    CHECK(at.len > 0);
    record.at[record.len - 1] ^= 1;
    backend_put(b, BUCKET_KEY, buf_bytes(&at), buf_bytes(&record));
    CHECK_EQ(backend_commit_now(b), ERR_OK);
    backend_close(b);
    buf_free(&at);
    buf_free(&record);
}
