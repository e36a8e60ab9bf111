/* The membership as a dump of etcd's v2 store: JSON, and inside its values JSON again. */
#include "base/json.h"
#include "snap/snapfile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Nodes of the tree ---- */

struct dump {
    struct json json;
    uint64_t index; /* of the newest node: the old store numbered its changes */
};

/* What every node begins with. */
static void put_node(struct dump *d, const char *path, uint64_t index, struct bytes value)
{
    json_put_str(&d->json, "Path", path);
    json_put_number(&d->json, "CreatedIndex", index);
    json_put_number(&d->json, "ModifiedIndex", index);
    json_put_str(&d->json, "ExpireTime", "0001-01-01T00:00:00Z");
    json_put_text(&d->json, "Value", value);
}

/*
 * A node up to where its children or its end follow. A directory is created with its first entry,
 * so it has the number that comes next; the two at the top are there from the start.
 */
static void begin_node(struct dump *d, const char *path, const char *name, uint64_t index,
                       struct bytes value)
{
    char full[64];

    snprintf(full, sizeof(full), "%s%s", path, name);
    json_begin_object(&d->json, name);
    put_node(d, full, index, value);
}

static void begin_dir(struct dump *d, const char *path, const char *name, uint64_t index)
{
    begin_node(d, path, name, index, BYTES(""));
    json_begin_object(&d->json, "Children");
}

static void end_dir(struct dump *d)
{
    json_end_object(&d->json);
    json_end_object(&d->json);
}

static void put_file(struct dump *d, const char *path, const char *name, struct bytes value)
{
    begin_node(d, path, name, ++d->index, value);
    json_put_null(&d->json, "Children");
    json_end_object(&d->json);
}

/* ---- Members ---- */

static void put_attributes(struct dump *d, const char *path, const struct pb_member *m)
{
    struct buf value = {0};
    struct json j = {.out = &value};

    json_begin_object(&j, NULL);
    if (m->name.len > 0)
        json_put_text(&j, "name", m->name);
    if (m->client_urls.count > 0)
        json_put_texts(&j, "clientURLs", m->client_urls.at, m->client_urls.count);
    json_end_object(&j);
    put_file(d, path, "attributes", buf_bytes(&value));
    buf_free(&value);
}

static void put_raft_attributes(struct dump *d, const char *path, const struct pb_member *m)
{
    struct buf value = {0};
    struct json j = {.out = &value};

    json_begin_object(&j, NULL);
    json_put_texts(&j, "peerURLs", m->peer_urls.at, m->peer_urls.count);
    if (m->is_learner)
        json_put_bool(&j, "isLearner", true);
    json_end_object(&j);
    put_file(d, path, "raftAttributes", buf_bytes(&value));
    buf_free(&value);
}

struct hex_id {
    char text[17];
};

static struct hex_id hex_id(uint64_t id)
{
    struct hex_id hex;

    snprintf(hex.text, sizeof(hex.text), "%" PRIx64, id);
    return hex;
}

static void put_member(struct dump *d, const struct pb_member *m)
{
    struct hex_id id = hex_id(m->id);
    char path[64];

    snprintf(path, sizeof(path), "/0/members/%s/", id.text);
    begin_dir(d, "/0/members/", id.text, d->index + 1);
    if (m->name.len > 0 || m->client_urls.count > 0)
        put_attributes(d, path, m);
    put_raft_attributes(d, path, m);
    end_dir(d);
}

/* Go sorts the keys of an object as texts, and ids are written without leading zeroes. */
static int compare_ids(uint64_t a, uint64_t b)
{
    struct hex_id left = hex_id(a), right = hex_id(b);

    return strcmp(left.text, right.text);
}

static int compare_members(const void *a, const void *b)
{
    const struct pb_member *const *left = a;
    const struct pb_member *const *right = b;

    return compare_ids((*left)->id, (*right)->id);
}

static int compare_removed(const void *a, const void *b)
{
    return compare_ids(*(const uint64_t *)a, *(const uint64_t *)b);
}

static void put_members(struct dump *d, const struct snapfile_membership *ms)
{
    const struct pb_member **sorted = mem_new_array(ms->member_count, const struct pb_member *);

    for (size_t i = 0; i < ms->member_count; i++)
        sorted[i] = &ms->members[i];
    qsort(sorted, ms->member_count, sizeof(struct pb_member *), compare_members);
    begin_dir(d, "/0/", "members", d->index + 1);
    for (size_t i = 0; i < ms->member_count; i++)
        put_member(d, sorted[i]);
    end_dir(d);
    mem_free(sorted);
}

static void put_removed(struct dump *d, const struct snapfile_membership *ms)
{
    uint64_t *sorted = mem_new_array(ms->removed_count, uint64_t);

    memcpy(sorted, ms->removed, ms->removed_count * sizeof(uint64_t));
    qsort(sorted, ms->removed_count, sizeof(uint64_t), compare_removed);
    begin_dir(d, "/0/", "removed_members", d->index + 1);
    for (size_t i = 0; i < ms->removed_count; i++)
        put_file(d, "/0/removed_members/", hex_id(sorted[i]).text, BYTES(""));
    end_dir(d);
    mem_free(sorted);
}

void snapfile_dump(const struct snapfile_membership *membership, struct buf *out)
{
    struct dump d = {.json = {.out = out}};

    json_begin_object(&d.json, NULL);
    json_begin_object(&d.json, "Root");
    put_node(&d, "/", 0, BYTES(""));
    json_begin_object(&d.json, "Children");
    begin_dir(&d, "/", "0", 0);
    put_members(&d, membership);
    if (membership->removed_count > 0)
        put_removed(&d, membership);
    if (membership->cluster_version.len > 0)
        put_file(&d, "/0/", "version", membership->cluster_version);
    end_dir(&d);
    begin_dir(&d, "/", "1", 0);
    end_dir(&d);
    end_dir(&d);
    json_put_number(&d.json, "CurrentIndex", d.index);
    json_put_number(&d.json, "CurrentVersion", 2);
    json_end_object(&d.json);
}
