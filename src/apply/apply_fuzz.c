/*
 * Any bytes as a log. The first byte is how many steps a slice has; then come entries:
 *
 *     | kind | length u16le | data |    kind even: a request, whose header is added;
 *                                       odd: a conf change
 *
 * Beyond not crashing: all invariants hold after each entry, and a second store, where nobody waits
 * and every slice is long, comes to the same content.
 */
#include "apply/apply.h"
#include "backend/backend.h"
#include "backend/backend_memory.h"
#include "base/assert.h"
#include "base/mem.h"
#include "cluster/cluster.h"
#include "lease/lease.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OWN_ID = 1, ENTRIES_MAX = 100 };

struct place {
    struct memory_disk *disk;
    struct backend *b;
    struct lease_set *leases;
    struct mvcc *mvcc;
    struct cluster *cluster;
    struct auth *auth;
    struct apply *apply;
    uint64_t index;
    unsigned steps;
    bool awaited, refused;
};

static void on_refused(void *context, const char *text)
{
    struct place *p = context;

    assert(*text);
    p->refused = true;
}

static void must(enum err e)
{
    assert(e == ERR_OK);
}

static void place_open(struct place *p, unsigned steps, bool awaited)
{
    struct buf why = {0};

    *p = (struct place){.steps = steps, .awaited = awaited, .disk = memory_disk_new(1)};
    must(backend_open(&(struct backend_options){.memory = p->disk}, &p->b));
    must(lease_open(&(struct lease_options){.backend = p->b, .min_ttl = 2}, &why, &p->leases));
    must(mvcc_open(&(struct mvcc_options){.backend = p->b}, &why, &p->mvcc));
    must(cluster_open(
        &(struct cluster_options){.backend = p->b, .own_id = OWN_ID, .max_learners = 1}, &why,
        &p->cluster));
    must(auth_open(p->b, &why, &p->auth));
    must(apply_open(&(struct apply_options){.backend = p->b,
                                            .auth = p->auth,
                                            .mvcc = p->mvcc,
                                            .leases = p->leases,
                                            .cluster = p->cluster,
                                            .own_id = OWN_ID,
                                            .on_refused = on_refused,
                                            .context = p},
                    &why, &p->apply));
}

static void place_close(struct place *p)
{
    apply_close(p->apply);
    auth_close(p->auth);
    cluster_close(p->cluster);
    mvcc_close(p->mvcc);
    lease_close(p->leases);
    backend_close(p->b);
    memory_disk_free(p->disk);
}

static void read_reply(struct reply *r)
{
    struct buf out = {0};
    uint64_t total = reply_total(r);

    reply_check(r);
    while (!reply_read(r, 1000, &out))
        ;
    assert(out.len == total);
    buf_free(&out);
}

static void give(struct place *p, enum raft_entry_type type, struct bytes data)
{
    struct raft_entry entry = {.index = p->index + 1, .term = 1, .type = type, .data = data};

    if (apply_begin(p->apply, &entry, 0) != 0 && p->awaited)
        apply_make_reply(p->apply);
    while (!p->refused && !apply_some(p->apply, p->steps))
        apply_check(p->apply);
    if (p->refused)
        return;
    read_reply(&apply_effects(p->apply)->reply);
    apply_end(p->apply, (struct bytes){0});
    p->index++;
    apply_check(p->apply);
    mvcc_check(p->mvcc);
    lease_check(p->leases);
    cluster_check(p->cluster);
    auth_check(p->auth);
}

static uint32_t hash_of(struct place *p)
{
    struct backend_view v;
    uint32_t hash;

    backend_view_open(p->b, &v);
    must(mvcc_hash_store(&v, &hash));
    backend_view_close(&v);
    return hash;
}

/* Field 100 of the request: a header with an id. */
static const uint8_t header[] = {0xa2, 0x06, 0x02, 0x08, 0x07};

static void run(struct place *a, struct place *b, const uint8_t *at, const uint8_t *end)
{
    for (int n = 0; n < ENTRIES_MAX && end - at >= 3 && !a->refused; n++) {
        size_t len = at[1] | (size_t)at[2] << 8, left = (size_t)(end - at) - 3;
        enum raft_entry_type type = at[0] & 1 ? RAFT_ENTRY_CONF_CHANGE : RAFT_ENTRY_NORMAL;
        struct buf entry = {0};
        len = len < left ? len : left;
        if (type == RAFT_ENTRY_NORMAL)
            buf_append(&entry, bytes_of(header, sizeof(header)));
        buf_append(&entry, bytes_of(at + 3, len));
        give(a, type, buf_bytes(&entry));
        give(b, type, buf_bytes(&entry));
        assert(a->refused == b->refused);
        buf_free(&entry);
        at += 3 + len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct place a, b;

    if (size == 0)
        return 0;
    place_open(&a, 1 + data[0] % 8, true);
    place_open(&b, 100000, false);
    run(&a, &b, data + 1, data + size);
    if (!a.refused) {
        assert(mvcc_revision(a.mvcc) == mvcc_revision(b.mvcc));
        assert(hash_of(&a) == hash_of(&b));
    }
    place_close(&a);
    place_close(&b);
    return 0;
}
