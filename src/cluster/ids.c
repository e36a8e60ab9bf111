#include "base/mem.h"
#include "cluster/cluster.h"
#include "io/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t first_eight(struct hash *h)
{
    uint8_t digest[HASH_SHA1_BYTES];
    uint64_t id = 0;

    hash_end(h, digest);
    for (size_t i = 0; i < sizeof(id); i++)
        id = id << 8 | digest[i];
    return id;
}

static uint64_t id_from(struct url_list urls, struct bytes salt)
{
    struct arena arena = {0};
    struct url_list sorted = url_list_sorted(urls, &arena); /* in whatever order they are told */
    struct hash *h = hash_new(HASH_SHA1);

    for (size_t i = 0; i < sorted.count; i++)
        hash_add(h, sorted.at[i]);
    hash_add(h, salt);
    arena_free(&arena);
    return first_eight(h);
}

uint64_t cluster_member_id(struct url_list peer_urls, struct bytes token)
{
    return id_from(peer_urls, token);
}

uint64_t cluster_new_member_id(struct url_list peer_urls, int64_t unix_seconds)
{
    char seconds[24];

    snprintf(seconds, sizeof(seconds), "%" PRId64, unix_seconds);
    return id_from(peer_urls, bytes_of_str(seconds));
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return (left > right) - (left < right);
}

uint64_t cluster_id_of(const uint64_t *member_ids, size_t count)
{
    uint64_t *sorted = mem_new_array(count, uint64_t);
    struct hash *h = hash_new(HASH_SHA1);

    for (size_t i = 0; i < count; i++)
        sorted[i] = member_ids[i];
    if (count > 1)
        qsort(sorted, count, sizeof(*sorted), compare_ids);
    for (size_t i = 0; i < count; i++) {
        uint8_t big_endian[8];
        for (int shift = 0; shift < 8; shift++)
            big_endian[shift] = (uint8_t)(sorted[i] >> (56 - 8 * shift));
        hash_add(h, bytes_of(big_endian, sizeof(big_endian)));
    }
    mem_free(sorted);
    return first_eight(h);
}
