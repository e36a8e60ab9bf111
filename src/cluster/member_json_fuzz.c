/*
 * Any bytes as a member, a list, a downgrade, a conf state, versions and a question for a hash.
 *
 * Beyond not crashing: what was accepted is written, read and written again, and the two writings
 * must be the same bytes.
 */
#include "base/assert.h"
#include "cluster/member_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_member(struct bytes json, struct arena *arena)
{
    struct member_change first, second;
    struct buf once = {0}, twice = {0};

    if (member_json_read(json, arena, &first) != ERR_OK)
        return;
    member_json_write(&first.member, &once);
    enum err e = member_json_read(buf_bytes(&once), arena, &second);
    assert(e == ERR_OK);
    member_json_write(&second.member, &twice);
    assert(bytes_equal(buf_bytes(&once), buf_bytes(&twice)));
    assert(!second.is_promote);
    buf_free(&once);
    buf_free(&twice);
}

static void check_list(struct bytes json, struct arena *arena)
{
    const struct pb_member *first, *second;
    struct buf once = {0}, twice = {0};
    size_t count, again;

    if (member_json_read_list(json, arena, &first, &count) != ERR_OK)
        return;
    member_json_write_list(first, count, &once);
    enum err e = member_json_read_list(buf_bytes(&once), arena, &second, &again);
    assert(e == ERR_OK);
    member_json_write_list(second, again, &twice);
    assert(bytes_equal(buf_bytes(&once), buf_bytes(&twice)));
    buf_free(&once);
    buf_free(&twice);
}

static void check_versions(struct bytes json, struct arena *arena)
{
    struct member_versions first, second;
    struct buf once = {0}, twice = {0};

    if (versions_json_read(json, arena, &first) != ERR_OK)
        return;
    versions_json_write(&first, &once);
    enum err e = versions_json_read(buf_bytes(&once), arena, &second);
    assert(e == ERR_OK);
    versions_json_write(&second, &twice);
    assert(bytes_equal(buf_bytes(&once), buf_bytes(&twice)));
    buf_free(&once);
    buf_free(&twice);
}

static void check_hash(struct bytes json)
{
    int64_t revision;

    (void)!hash_json_read(json, &revision);
    (void)!member_hash_json_read(json, &(struct member_hash){0});
}

static void check_downgrade(struct bytes json, struct arena *arena)
{
    struct bytes target, again;
    struct buf once = {0};
    bool enabled, enabled_again;

    if (downgrade_json_read(json, arena, &enabled, &target) != ERR_OK)
        return;
    downgrade_json_write(enabled, target, &once);
    enum err e = downgrade_json_read(buf_bytes(&once), arena, &enabled_again, &again);
    assert(e == ERR_OK);
    assert(enabled == enabled_again);
    assert(bytes_equal(target, again));
    buf_free(&once);
}

static void check_conf_state(struct bytes json)
{
    struct raft_conf_state first, second;
    struct buf once = {0}, twice = {0};

    if (cluster_conf_state_read(json, &first) != ERR_OK)
        return;
    cluster_conf_state_json(&first, &once);
    enum err e = cluster_conf_state_read(buf_bytes(&once), &second);
    assert(e == ERR_OK);
    cluster_conf_state_json(&second, &twice);
    assert(bytes_equal(buf_bytes(&once), buf_bytes(&twice)));
    buf_free(&once);
    buf_free(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes json = bytes_of(data, size);
    struct arena arena = {0};

    check_member(json, &arena);
    check_list(json, &arena);
    check_hash(json);
    check_versions(json, &arena);
    check_downgrade(json, &arena);
    check_conf_state(json);
    arena_free(&arena);
    return 0;
}
