/* The membership as a dump of etcd's v2 store: JSON, and inside its values JSON again. */
#include "base/text.h"
#include "snap/snapfile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- JSON, as Go's encoder writes it ---- */

static void put_string_list(struct buf *out, const struct bytes *items, size_t count)
{
    buf_append_byte(out, '[');
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_append_byte(out, ',');
        text_append_json(out, items[i]);
    }
    buf_append_byte(out, ']');
}

/* ---- Nodes of the tree ---- */

struct dump {
    struct buf *out;
    uint64_t index; /* of the newest node: the old store numbered its changes */
};

/*
 * A node up to where its children or its end follow. A directory is created with its first entry,
 * so it has the number that comes next; the two at the top are there from the start.
 */
static void begin_node(struct dump *d, const char *path, const char *name, uint64_t index,
                       struct bytes value)
{
    text_append_json(d->out, bytes_of_str(name));
    buf_printf(d->out,
               ":{\"Path\":\"%s%s\",\"CreatedIndex\":%" PRIu64 ",\"ModifiedIndex\":%" PRIu64
               ",\"ExpireTime\":\"0001-01-01T00:00:00Z\",\"Value\":",
               path, name, index, index);
    text_append_json(d->out, value);
    buf_append_str(d->out, ",\"Children\":");
}

static void begin_dir(struct dump *d, const char *path, const char *name, uint64_t index)
{
    begin_node(d, path, name, index, BYTES(""));
    buf_append_byte(d->out, '{');
}

static void end_dir(struct dump *d)
{
    buf_append_str(d->out, "}}");
}

static void put_file(struct dump *d, const char *path, const char *name, struct bytes value)
{
    begin_node(d, path, name, ++d->index, value);
    buf_append_str(d->out, "null}");
}

static void put_comma(struct dump *d)
{
    buf_append_byte(d->out, ',');
}

/* ---- Members ---- */

static void put_attributes(struct dump *d, const char *path, const struct pb_member *m)
{
    struct buf json = {0};

    buf_append_byte(&json, '{');
    if (m->name.len > 0) {
        buf_append_str(&json, "\"name\":");
        text_append_json(&json, m->name);
    }
    if (m->name.len > 0 && m->client_urls.count > 0)
        buf_append_byte(&json, ',');
    if (m->client_urls.count > 0) {
        buf_append_str(&json, "\"clientURLs\":");
        put_string_list(&json, m->client_urls.at, m->client_urls.count);
    }
    buf_append_byte(&json, '}');
    put_file(d, path, "attributes", buf_bytes(&json));
    buf_free(&json);
}

static void put_raft_attributes(struct dump *d, const char *path, const struct pb_member *m)
{
    struct buf json = {0};

    buf_append_str(&json, "{\"peerURLs\":");
    put_string_list(&json, m->peer_urls.at, m->peer_urls.count);
    if (m->is_learner)
        buf_append_str(&json, ",\"isLearner\":true");
    buf_append_byte(&json, '}');
    put_file(d, path, "raftAttributes", buf_bytes(&json));
    buf_free(&json);
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
    if (m->name.len > 0 || m->client_urls.count > 0) {
        put_attributes(d, path, m);
        put_comma(d);
    }
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
    for (size_t i = 0; i < ms->member_count; i++) {
        if (i > 0)
            put_comma(d);
        put_member(d, sorted[i]);
    }
    end_dir(d);
    mem_free(sorted);
}

static void put_removed(struct dump *d, const struct snapfile_membership *ms)
{
    uint64_t *sorted = mem_new_array(ms->removed_count, uint64_t);

    memcpy(sorted, ms->removed, ms->removed_count * sizeof(uint64_t));
    qsort(sorted, ms->removed_count, sizeof(uint64_t), compare_removed);
    begin_dir(d, "/0/", "removed_members", d->index + 1);
    for (size_t i = 0; i < ms->removed_count; i++) {
        if (i > 0)
            put_comma(d);
        put_file(d, "/0/removed_members/", hex_id(sorted[i]).text, BYTES(""));
    }
    end_dir(d);
    mem_free(sorted);
}

void snapfile_dump(const struct snapfile_membership *membership, struct buf *out)
{
    struct dump d = {.out = out};

    buf_append_str(out, "{\"Root\":{\"Path\":\"/\",\"CreatedIndex\":0,\"ModifiedIndex\":0,"
                        "\"ExpireTime\":\"0001-01-01T00:00:00Z\",\"Value\":\"\",\"Children\":{");
    begin_dir(&d, "/", "0", 0);
    put_members(&d, membership);
    if (membership->removed_count > 0) {
        put_comma(&d);
        put_removed(&d, membership);
    }
    if (membership->cluster_version.len > 0) {
        put_comma(&d);
        put_file(&d, "/0/", "version", membership->cluster_version);
    }
    end_dir(&d);
    put_comma(&d);
    begin_dir(&d, "/", "1", 0);
    end_dir(&d);
    buf_printf(out, "}},\"CurrentIndex\":%" PRIu64 ",\"CurrentVersion\":2}", d.index);
}
