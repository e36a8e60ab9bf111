#include "lease/lease_rig_test.h"

#include "base/buf.h"
#include "harness/test.h"

static void open_both(struct lease_rig *r)
{
    struct buf why = {0};

    CHECK_EQ(backend_open(&(struct backend_options){.memory = r->disk}, &r->backend), ERR_OK);
    r->options.backend = r->backend;
    CHECK_EQ(lease_open(&r->options, &why, &r->set), ERR_OK);
    CHECK_EQ(why.len, 0);
    lease_check(r->set);
}

void lease_rig_open(struct lease_rig *r, const struct lease_options *options)
{
    *r = (struct lease_rig){.options = *options, .disk = memory_disk_new(test_seed())};
    open_both(r);
}

static void close_both(struct lease_rig *r)
{
    lease_close(r->set);
    backend_close(r->backend);
    r->set = NULL;
    r->backend = NULL;
}

void lease_rig_close(struct lease_rig *r)
{
    close_both(r);
    memory_disk_free(r->disk);
}

void lease_rig_restart(struct lease_rig *r)
{
    CHECK_EQ(backend_commit_now(r->backend), ERR_OK);
    close_both(r);
    open_both(r);
}

static void end_entry(struct lease_rig *r)
{
    r->index++;
    backend_entry_end(r->backend, (struct backend_position){r->index, 1}, (struct bytes){0});
    lease_check(r->set);
}

enum lease_result lease_rig_grant(struct lease_rig *r, int64_t id, int64_t ttl)
{
    int64_t granted_ttl = 0;

    backend_entry_begin(r->backend);
    enum lease_result a = lease_grant(r->set, id, ttl, r->now_ms, &granted_ttl);
    end_entry(r);
    if (a == LEASE_OK)
        CHECK_EQ(granted_ttl, ttl > r->options.min_ttl ? ttl : r->options.min_ttl);
    return a;
}

enum lease_result lease_rig_revoke(struct lease_rig *r, int64_t id)
{
    struct bytes key;

    backend_entry_begin(r->backend);
    enum lease_result a = lease_revoke_begin(r->set, id);
    if (a == LEASE_OK) {
        while (lease_first_key(r->set, id, &key)) {
            lease_detach(r->set, key);
            lease_check(r->set);
        }
        lease_revoke_end(r->set, id);
    }
    end_entry(r);
    return a;
}

void lease_rig_checkpoint(struct lease_rig *r, int64_t id, int64_t remaining_ttl)
{
    backend_entry_begin(r->backend);
    lease_checkpoint(r->set, id, remaining_ttl);
    end_entry(r);
}

enum lease_result lease_rig_attach(struct lease_rig *r, int64_t id, const char *key)
{
    enum lease_result a = lease_attach(r->set, id, bytes_of_str(key));

    lease_check(r->set);
    return a;
}

void lease_rig_detach(struct lease_rig *r, const char *key)
{
    lease_detach(r->set, bytes_of_str(key));
    lease_check(r->set);
}

size_t lease_rig_expired(struct lease_rig *r, int64_t ids[])
{
    size_t count = lease_take_expired(r->set, r->now_ms, ids, LEASE_REVOKES_MAX);

    lease_check(r->set);
    return count;
}

bool lease_rig_renews(struct lease_rig *r, int64_t id)
{
    int64_t ttl;
    bool needs_checkpoint;
    enum lease_result a = lease_renew(r->set, id, r->now_ms, &ttl, &needs_checkpoint);

    lease_check(r->set);
    return a == LEASE_OK;
}

struct lease_info lease_rig_look(struct lease_rig *r, int64_t id)
{
    struct lease_info info;

    CHECK(lease_look(r->set, id, r->now_ms, &info));
    CHECK_EQ(info.id, id);
    return info;
}
