/*
 * rig: a set of leases on a store in memory, for tests. It checks itself after every change.
 */
#pragma once

#include "backend/backend.h"
#include "backend/backend_memory.h"
#include "lease/lease.h"

struct lease_rig {
    struct lease_options options;
    struct memory_disk *disk;
    struct backend *backend;
    struct lease_set *set;
    uint64_t now_ms;
    uint64_t index; /* of the last entry */
};

/* The options' backend is filled in. */
void lease_rig_open(struct lease_rig *r, const struct lease_options *options);
void lease_rig_close(struct lease_rig *r);

/* Commits everything, closes both, and opens them again. Keys are attached to nothing then. */
void lease_rig_restart(struct lease_rig *r);

/* Each is one entry of the log. */
enum lease_result lease_rig_grant(struct lease_rig *r, int64_t id, int64_t ttl);
enum lease_result lease_rig_revoke(struct lease_rig *r, int64_t id);
void lease_rig_checkpoint(struct lease_rig *r, int64_t id, int64_t remaining_ttl);

enum lease_result lease_rig_attach(struct lease_rig *r, int64_t id, const char *key);
void lease_rig_detach(struct lease_rig *r, const char *key);

/* Up to LEASE_REVOKES_MAX ids that are to be revoked now. */
size_t lease_rig_expired(struct lease_rig *r, int64_t ids[]);
bool lease_rig_renews(struct lease_rig *r, int64_t id); /* says LEASE_OK */

/* What lease_look says at the rig's time; the lease is there (checked). */
struct lease_info lease_rig_look(struct lease_rig *r, int64_t id);
