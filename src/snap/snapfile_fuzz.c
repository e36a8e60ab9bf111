/*
 * Any bytes as a snap file: first as they are, then as the data inside one with a good checksum,
 * then as names in a dump.
 */
#include "base/assert.h"
#include "base/crc32c.h"
#include "snap/snapfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is decoded can be encoded, and then says the same. */
static void check_round_trip(const struct raft_snapshot *first, struct arena *arena)
{
    struct buf file = {0};
    struct raft_snapshot second;
    const char *why;

    snapfile_encode(first, &file);
    enum err e = snapfile_decode(buf_bytes(&file), arena, &second, &why);
    assert(e == ERR_OK);
    assert(bytes_equal(first->data, second.data));
    assert(first->index == second.index);
    assert(first->term == second.term);
    buf_free(&file);
}

static void try_file(struct bytes file)
{
    struct arena arena = {0};
    struct raft_snapshot snapshot;
    const char *why;

    enum err e = snapfile_decode(file, &arena, &snapshot, &why);
    assert((e == ERR_OK) == (why == NULL));
    assert(e == ERR_OK || e == ERR_CORRUPT);
    if (e == ERR_OK)
        check_round_trip(&snapshot, &arena);
    arena_free(&arena);
}

static void try_as_data(struct bytes data)
{
    struct buf file = {0};

    pb_encode_snap_file(&(struct pb_snap_file){.crc = crc32c(0, data), .data = data}, &file);
    try_file(buf_bytes(&file));
    buf_free(&file);
}

/* The dump of whatever names is UTF-8 without control characters, and its quotes pair up. */
static void try_as_name(struct bytes name)
{
    struct buf out = {0};
    size_t quotes = 0;

    snapfile_dump(
        &(struct snapfile_membership){
            .members = &(struct pb_member){.id = 1, .name = name, .peer_urls = {&name, 1}},
            .member_count = 1,
            .cluster_version = name},
        &out);
    assert(bytes_are_utf8(buf_bytes(&out)));
    for (size_t i = 0; i < out.len; i++) {
        assert(out.at[i] >= 0x20);
        if (out.at[i] == '\\')
            i++;
        else if (out.at[i] == '"')
            quotes++;
    }
    assert(quotes % 2 == 0);
    buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = mem_alloc(size);
    uint64_t term, index;

    if (size > 0)
        memcpy(copy, data, size);
    try_file(bytes_of(copy, size));
    try_as_data(bytes_of(copy, size));
    try_as_name(bytes_of(copy, size));
    struct buf text = {0};
    buf_append(&text, bytes_of(copy, size));
    if (snapfile_parse_name(buf_str(&text), &term, &index)) {
        char name[SNAPFILE_NAME_BYTES];
        snapfile_name(term, index, name);
        assert(strcmp(name, buf_str(&text)) == 0);
    }
    buf_free(&text);
    mem_free(copy);
    return 0;
}
