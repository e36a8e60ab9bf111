#include "apply/apply_rig_test.h"

#include "base/mem.h"

#include <ctype.h>

/* ---- Opening ---- */

static void on_refused(void *context, const char *text)
{
    struct apply_rig *d = context;

    buf_printf(&d->refused, "%s\n", text);
}

static void on_leased_key(void *context, struct bytes key, int64_t lease)
{
    struct apply_rig *d = context;

    CHECK_EQ(lease_attach(d->leases, lease, key), LEASE_OK);
}

static void on_settled_key(void *context, struct bytes key)
{
    struct apply_rig *d = context;

    lease_detach(d->leases, key);
}

bool apply_rig_open_rooms(struct apply_rig *d)
{
    struct backend *b = d->backend_rig.b;
    struct buf *why = &d->refused;

    buf_clear(why);
    CHECK_EQ(lease_open(&(struct lease_options){.backend = b, .min_ttl = 2}, why, &d->leases),
             ERR_OK);
    CHECK_EQ(
        mvcc_open(&(struct mvcc_options){.backend = b,
                                         .on_leased_key = on_leased_key,
                                         .on_settled_key = on_settled_key,
                                         .range_tombstone_keys_min = d->range_tombstone_keys_min,
                                         .context = d},
                  why, &d->mvcc),
        ERR_OK);
    CHECK_EQ(cluster_open(
                 &(struct cluster_options){
                     .backend = b, .cluster_id = 1, .own_id = APPLY_RIG_OWN_ID, .max_learners = 1},
                 why, &d->cluster),
             ERR_OK);
    enum err e = auth_open(b, why, &d->auth);
    if (e == ERR_OK)
        e = apply_open(&(struct apply_options){.backend = b,
                                               .auth = d->auth,
                                               .tokens = d->tokens,
                                               .mvcc = d->mvcc,
                                               .leases = d->leases,
                                               .cluster = d->cluster,
                                               .own_id = APPLY_RIG_OWN_ID,
                                               .quota_bytes = d->quota_bytes,
                                               .on_refused = on_refused,
                                               .context = d},
                       why, &d->apply);
    if (e != ERR_OK)
        buf_printf(why, " (%s)\n", err_text(e));
    return e == ERR_OK;
}

void apply_rig_close_rooms(struct apply_rig *d)
{
    apply_close(d->apply);
    auth_close(d->auth);
    cluster_close(d->cluster);
    mvcc_close(d->mvcc);
    lease_close(d->leases);
    d->apply = NULL;
    d->auth = NULL;
    d->cluster = NULL;
    d->mvcc = NULL;
    d->leases = NULL;
}

void apply_rig_init(struct apply_rig *d, enum backend_rig_kind kind)
{
    apply_rig_init_settling(d, kind, 0);
}

void apply_rig_init_settling(struct apply_rig *d, enum backend_rig_kind kind,
                             int64_t range_tombstone_keys_min)
{
    *d = (struct apply_rig){.steps = 100, .range_tombstone_keys_min = range_tombstone_keys_min};
    backend_rig_init(&d->backend_rig, kind);
    CHECK_EQ(backend_rig_open(&d->backend_rig), ERR_OK);
    CHECK(apply_rig_open_rooms(d));
}

void apply_rig_free(struct apply_rig *d)
{
    apply_rig_close_rooms(d);
    backend_rig_close(&d->backend_rig);
    backend_rig_free(&d->backend_rig);
    buf_free(&d->refused);
    for (size_t i = 0; i < d->log_count; i++)
        blob_unref(d->log[i].blob);
    mem_free(d->log);
}

/* ---- Applying ---- */

static void check_all(const struct apply_rig *d)
{
    apply_check(d->apply);
    mvcc_check(d->mvcc);
    lease_check(d->leases);
    cluster_check(d->cluster);
    auth_check(d->auth);
}

static struct apply_effects *give(struct apply_rig *d, const struct raft_entry *entry)
{
    size_t refused = d->refused.len;

    if (apply_begin(d->apply, entry, d->now_ms) != 0 && !d->nobody_waits)
        apply_make_reply(d->apply);
    for (d->slices = 1; !apply_some(d->apply, d->steps); d->slices++) {
        if (d->refused.len > refused)
            return NULL;
        if (d->check_slices)
            check_all(d);
    }
    return apply_effects(d->apply);
}

struct apply_effects *apply_rig_entry(struct apply_rig *d, enum raft_entry_type type,
                                      struct bytes data)
{
    if (d->log_count == d->log_cap) {
        d->log_cap = d->log_cap ? 2 * d->log_cap : 64;
        d->log = mem_resize(d->log, d->log_cap, sizeof(*d->log));
    }
    struct blob *blob = data.len > 0 ? blob_copy(data) : NULL;
    struct raft_entry *e = &d->log[d->log_count++];
    *e = (struct raft_entry){
        .term = 1, .index = d->log_count, .type = type, .data = blob_bytes(blob), .blob = blob};
    return give(d, e);
}

void apply_rig_done(struct apply_rig *d)
{
    apply_end(d->apply, (struct bytes){0});
    check_all(d);
}

struct apply_effects *apply_rig_request(struct apply_rig *d,
                                        struct pb_internal_raft_request *request)
{
    struct pb_request_header header = {
        .id = 7000 + d->log_count, .username = d->who.user, .auth_revision = d->who.auth_revision};
    struct buf data = {0};

    request->header = &header;
    pb_encode_internal_raft_request(request, &data);
    request->header = NULL;
    struct apply_effects *e = apply_rig_entry(d, RAFT_ENTRY_NORMAL, buf_bytes(&data));
    buf_free(&data);
    return e;
}

enum result apply_rig_do(struct apply_rig *d, struct pb_internal_raft_request *request)
{
    struct apply_effects *e = apply_rig_request(d, request);

    CHECK(e);
    enum result result = e->result;
    apply_rig_done(d);
    return result;
}

enum result apply_rig_put(struct apply_rig *d, const char *key, const char *value, int64_t lease)
{
    struct pb_put_request put = {
        .key = bytes_of_str(key), .value = bytes_of_str(value), .lease = lease};

    return apply_rig_do(d, &(struct pb_internal_raft_request){.put = &put});
}

enum result apply_rig_delete(struct apply_rig *d, const char *key, const char *end)
{
    struct pb_delete_range_request gone = {.key = bytes_of_str(key),
                                           .range_end = apply_rig_end(end)};

    return apply_rig_do(d, &(struct pb_internal_raft_request){.delete_range = &gone});
}

/* ---- Restarts ---- */

/* As raft does after a restart: everything since the last snapshot, and here there is none. */
static void give_all_again(struct apply_rig *d)
{
    for (size_t i = 0; i < d->log_count; i++) {
        struct apply_effects *e = give(d, &d->log[i]);
        CHECK(e);
        apply_rig_done(d);
    }
}

void apply_rig_restart(struct apply_rig *d)
{
    if (backend_can_commit(d->backend_rig.b))
        backend_rig_commit(&d->backend_rig);
    apply_rig_close_rooms(d);
    backend_rig_close(&d->backend_rig);
    CHECK_EQ(backend_rig_open(&d->backend_rig), ERR_OK);
    CHECK(apply_rig_open_rooms(d));
    give_all_again(d);
}

void apply_rig_crash(struct apply_rig *d)
{
    apply_rig_close_rooms(d);
    backend_rig_crash(&d->backend_rig);
    CHECK(apply_rig_open_rooms(d));
    give_all_again(d);
}

/* ---- Looking ---- */

void apply_rig_read_reply(struct reply *r, size_t chunk, struct buf *out)
{
    uint64_t total = reply_total(r), before = out->len;

    do {
        size_t had = out->len;
        reply_check(r);
        bool last = reply_read(r, chunk, out);
        CHECK(out->len - had <= chunk);
        if (last)
            break;
    } while (true);
    CHECK_EQ(out->len - before, total);
}

struct bytes apply_rig_end(const char *text)
{
    return strcmp(text, "*") == 0 ? BYTES("\0") : bytes_of_str(text);
}

void apply_rig_print(struct bytes text, struct buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        if (isgraph(text.at[i]) && text.at[i] != '\\')
            buf_append_byte(out, text.at[i]);
        else
            buf_printf(out, "\\%02x", text.at[i]);
    }
}

void apply_rig_dump_bucket(struct apply_rig *d, enum bucket bucket, struct buf *out)
{
    struct backend_view v;
    struct backend_cursor c;
    struct bytes key, value;
    enum err e;

    backend_view_open(d->backend_rig.b, &v);
    backend_cursor_open(&v, bucket, (struct bytes){0}, &c);
    while ((e = backend_cursor_next(&c, &key, &value)) == ERR_OK) {
        apply_rig_print(key, out);
        buf_append_str(out, value.len > 0 ? " = " : " =");
        apply_rig_print(value, out);
        buf_append_byte(out, '\n');
    }
    CHECK_EQ(e, ERR_END);
    backend_cursor_close(&c);
    backend_view_close(&v);
}

void apply_rig_dump(struct apply_rig *d, struct buf *out)
{
    for (int i = 0; i < BUCKET_COUNT; i++) {
        buf_printf(out, "%s:\n", bucket_name((enum bucket)i));
        apply_rig_dump_bucket(d, (enum bucket)i, out);
    }
}
