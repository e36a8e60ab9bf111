#include "server/storage_version.h"

#include <stdio.h>

#define KEY_STORAGE_VERSION BYTES("storageVersion")

static enum err check(const char *text, struct version found, struct buf *why)
{
    struct version ours = version_of_server();

    found.patch = ours.patch = 0;
    if (version_compare(found, ours) <= 0)
        return ERR_OK;
    buf_printf(why, "the store was written by version %s, which is newer than %s", text,
               SERVER_VERSION);
    return ERR_UNSUPPORTED;
}

enum err storage_version_read(struct backend *b, char out[VERSION_TEXT_MAX], struct buf *why)
{
    struct backend_view view;
    struct bytes text;
    struct version found;

    *out = 0;
    backend_view_open(b, &view);
    enum err e = backend_get(&view, BUCKET_META, KEY_STORAGE_VERSION, &text);
    if (e == ERR_CORRUPT)
        buf_append_str(why, backend_view_damage(&view));
    if (e == ERR_OK && (!version_parse(text, &found) || text.len >= VERSION_TEXT_MAX)) {
        buf_printf(why, "the store's version is not one: \"%.*s\"", (int)text.len, text.at);
        e = ERR_CORRUPT;
    }
    if (e == ERR_OK) {
        snprintf(out, VERSION_TEXT_MAX, "%.*s", (int)text.len, text.at);
        e = check(out, found, why);
    }
    backend_view_close(&view);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

void storage_version_write(struct backend *b, struct bytes version)
{
    if (version.len > 0)
        backend_put(b, BUCKET_META, KEY_STORAGE_VERSION, version);
    else
        backend_delete(b, BUCKET_META, KEY_STORAGE_VERSION);
}

struct bytes storage_version_of_cluster(struct bytes cluster_version)
{
    struct version wanted;

    if (!version_parse(cluster_version, &wanted) ||
        version_compare(wanted, (struct version){3, 6, 0}) < 0)
        return BYTES("");
    return cluster_version;
}
