#include "watch/watch_rig_test.h"

#include <inttypes.h>

void watch_rig_init(struct watch_rig *r, const struct watch_options *options)
{
    struct watch_options o = options ? *options : (struct watch_options){0};

    *r = (struct watch_rig){.now_ms = 1000};
    mvcc_rig_init(&r->mvcc_rig, BACKEND_RIG_MEMORY);
    o.mvcc = r->mvcc_rig.m;
    if (o.fragment_bytes == 0)
        o.fragment_bytes = 2 * MIB;
    if (o.seed == 0)
        o.seed = test_seed();
    r->w = watch_open(&o);
}

void watch_rig_free(struct watch_rig *r)
{
    watch_check(r->w);
    watch_close(r->w);
    mvcc_rig_free(&r->mvcc_rig);
}

void watch_rig_begin(struct watch_rig *r)
{
    mvcc_rig_begin(&r->mvcc_rig);
}

void watch_rig_end(struct watch_rig *r)
{
    struct mvcc_changes changes = mvcc_rig_end(&r->mvcc_rig);

    if (!r->away)
        watch_changed(r->w, &changes);
    watch_check(r->w);
}

void watch_rig_put(struct watch_rig *r, const char *key, const char *value)
{
    watch_rig_begin(r);
    mvcc_put(r->mvcc_rig.m, bytes_of_str(key), bytes_of_str(value), 0);
    watch_rig_end(r);
}

void watch_rig_delete(struct watch_rig *r, const char *key)
{
    watch_rig_begin(r);
    mvcc_delete(r->mvcc_rig.m, bytes_of_str(key));
    watch_rig_end(r);
}

void watch_rig_delete_range(struct watch_rig *r, const char *from, const char *to)
{
    struct mvcc_delete_range d = {.range = key_range(bytes_of_str(from), bytes_of_str(to))};

    watch_rig_begin(r);
    mvcc_delete_range_begin(r->mvcc_rig.m, &d);
    while (!mvcc_delete_range_some(r->mvcc_rig.m, &d, 100))
        ;
    watch_rig_end(r);
}

void watch_rig_compact(struct watch_rig *r, int64_t revision)
{
    CHECK_EQ(mvcc_rig_compact(&r->mvcc_rig, revision), MVCC_OK);
    if (!r->away)
        watch_compacted(r->w);
    watch_check(r->w);
    watch_rig_remove(r);
}

void watch_rig_remove(struct watch_rig *r)
{
    mvcc_rig_commit(&r->mvcc_rig);
    while (mvcc_compact_pending(r->mvcc_rig.m) && !mvcc_compact_waiting(r->mvcc_rig.m)) {
        mvcc_compact_some(r->mvcc_rig.m, 7);
        mvcc_rig_commit(&r->mvcc_rig);
    }
}

void watch_rig_replace(struct watch_rig *r)
{
    r->away = false;
    struct mvcc *before = mvcc_rig_replace(&r->mvcc_rig);
    watch_store_replaced(r->w, r->mvcc_rig.m);
    mvcc_close(before);
    watch_check(r->w);
}

struct watch_stream *watch_rig_stream(struct watch_rig *r, size_t credit_bytes)
{
    return watch_stream_open(r->w, NULL, credit_bytes, r->now_ms);
}

void watch_rig_create(struct watch_rig *r, struct watch_stream *s,
                      const struct pb_watch_create_request *request)
{
    watch_create(s, request, NULL, r->now_ms);
    watch_check(r->w);
}

size_t watch_rig_settle(struct watch_rig *r, unsigned steps)
{
    size_t slices = 1;

    for (; !watch_work(r->w, steps, r->now_ms); slices++) {
        watch_check(r->w);
        CHECK_EQ(watch_next_ms(r->w), 0);
        CHECK(slices < 10000000);
    }
    watch_check(r->w);
    return slices;
}

bool watch_rig_read(struct watch_message *m, struct buf *events)
{
    enum err e = ERR_OK;
    bool done = !m->long_events;
    size_t before = events->len;

    buf_append(events, blob_bytes(m->events));
    blob_unref(m->events);
    m->events = NULL;
    while (!done && e == ERR_OK)
        e = watch_long_read(m->long_events, 5000, events, &done);
    if (m->long_events && e == ERR_OK)
        CHECK_EQ(events->len - before, watch_long_bytes(m->long_events));
    watch_long_end(m->long_events);
    m->long_events = NULL;
    CHECK(e == ERR_OK || e == ERR_CANCELED);
    return e == ERR_OK;
}

static void describe_value(const struct pb_key_value *kv, struct buf *out)
{
    if (kv->value.len > 20)
        buf_printf(out, "%zu bytes", kv->value.len);
    else
        buf_append(out, kv->value);
}

static void describe_event(const struct pb_event *e, struct buf *out)
{
    struct bytes key = e->kv->key;

    buf_append_str(out, e->type == PB_EVENT_DELETE ? " delete " : " put ");
    buf_append(out, bytes_equal(key, BYTES("\0")) ? BYTES("*") : key);
    if (e->type == PB_EVENT_PUT) {
        buf_append_byte(out, '=');
        describe_value(e->kv, out);
    }
    buf_printf(out, "@%" PRId64, e->kv->mod_revision);
    if (e->prev_kv) {
        buf_append_str(out, " was ");
        describe_value(e->prev_kv, out);
        buf_printf(out, "@%" PRId64, e->prev_kv->mod_revision);
    }
}

static void describe_events(struct bytes encoded, struct buf *out)
{
    struct arena arena = {0};
    struct pb_watch_response response;

    CHECK_EQ(pb_decode_watch_response(encoded, &arena, &response), ERR_OK);
    size_t count = response.events.count;
    for (size_t n = 0; n < count; n++) {
        if (count > 6 && n == 2) {
            buf_printf(out, " ... %zu events ...", count);
            n = count - 2;
        }
        describe_event(&response.events.at[n], out);
    }
    arena_free(&arena);
}

void watch_rig_describe(struct watch_message *m, struct buf *out)
{
    struct buf events = {0};
    bool is_long = m->long_events != NULL;

    buf_printf(out, "#%" PRId64, m->watch_id);
    if (m->created)
        buf_append_str(out, " created");
    if (m->canceled)
        buf_append_str(out, " canceled");
    if (m->fragment)
        buf_append_str(out, " fragment");
    buf_printf(out, " revision=%" PRId64, m->revision);
    if (m->compact_revision != 0)
        buf_printf(out, " compact=%" PRId64, m->compact_revision);
    if (m->cancel_reason)
        buf_printf(out, " reason=\"%s\"", m->cancel_reason);
    if (is_long)
        buf_printf(out, " long=%zu", m->bytes);
    if (!watch_rig_read(m, &events))
        buf_append_str(out, " overtaken");
    else
        describe_events(buf_bytes(&events), out);
    buf_append_byte(out, '\n');
    buf_free(&events);
}

const char *watch_rig_next(struct watch_rig *r)
{
    static struct buf text;
    struct watch_message m;

    buf_clear(&text);
    if (watch_take(r->w, &m)) {
        watch_rig_describe(&m, &text);
        text.len--;
        watch_sent(m.stream, m.bytes);
    }
    watch_check(r->w);
    return buf_str(&text);
}
