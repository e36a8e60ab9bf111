#include "api/api_int.h"
#include "pb/wire.h"

struct pb_response_header api_header_of(const struct api *a, int64_t revision)
{
    return (struct pb_response_header){.cluster_id = a->facts->cluster_id,
                                       .member_id = a->facts->member_id,
                                       .revision = revision,
                                       .raft_term = a->facts->applied_term};
}

/* A field with nothing in it is left out. */
static uint8_t *put_field(uint8_t *end, unsigned number, uint64_t value)
{
    if (value == 0)
        return end;
    end = pb_put_varint(end, value);
    *--end = (uint8_t)PB_TAG_VARINT(number);
    return end;
}

/* Every answer has one, so it is written by hand, backwards like everything in pb. */
struct bytes api_header_encode(const struct api *a, int64_t revision, struct header_text *out)
{
    uint8_t *end = out->at + sizeof(out->at);
    uint8_t *at = end;

    at = put_field(at, 4, a->facts->applied_term);
    at = put_field(at, 3, (uint64_t)revision);
    at = put_field(at, 2, a->facts->member_id);
    at = put_field(at, 1, a->facts->cluster_id);
    at = pb_put_varint(at, (uint64_t)(end - at));
    *--at = PB_TAG_BYTES(1);
    out->bytes = bytes_of(at, (size_t)(end - at));
    return out->bytes;
}
