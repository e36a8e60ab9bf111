#include "server/storage_version.h"

#include <stdio.h>

#define KEY_STORAGE_VERSION BYTES("storageVersion")

/* What etcd knows steps for, one minor version at a time: from 3.5 to its own. */
static enum err check(struct version found, struct buf *why)
{
    struct version ours = version_of_server(), unknown = {.major = found.major};
    char text[VERSION_TEXT_MAX];

    if (found.major == ours.major && found.minor >= 5 && found.minor <= ours.minor)
        return ERR_OK;
    buf_append_str(why, "Failed to validate schema: ");
    if (found.major != ours.major) {
        buf_append_str(why, "changing major storage version is not supported");
    } else {
        unknown.minor = found.minor < 5 ? found.minor + 1 : found.minor;
        buf_printf(why, "version \"%s\" is not supported", version_text(unknown, text));
    }
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
        e = check(found, why);
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
