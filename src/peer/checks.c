/* Who is let in, by what a request says of itself; and whose streams we read. */
#include "base/text.h"
#include "cluster/version.h"
#include "peer/peer_int.h"

struct bytes field_of(const struct http1_reader *r, const char *name)
{
    bool found;

    return http1_field(r, name, &found);
}

/* As Go reads a number in base 16: digits alone, of either case, however many zeros. */
bool check_id(struct bytes text, uint64_t *out)
{
    uint64_t id = 0;

    if (text.len == 0)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        int digit = text_hex_value(text.at[i]);
        if (digit < 0 || id >> 60 != 0)
            return false;
        id = id << 4 | (uint64_t)digit;
    }
    *out = id;
    return true;
}

/* None means a server from before there was such a field. */
static bool read_version(const struct http1_reader *r, const char *field, struct version *out)
{
    struct bytes text = field_of(r, field);

    return version_parse(text.len > 0 ? text : BYTES("2.0.0"), out);
}

static int compare_minor(struct version a, struct version b)
{
    a.patch = b.patch = 0;
    return version_compare(a, b);
}

static struct version version_of(const char *text)
{
    struct version v = {0};

    (void)!version_parse(bytes_of_str(text), &v);
    return v;
}

static const char *version_problem(const struct peers *p, const struct http1_reader *r)
{
    struct version server, least;

    /* etcd's handler dies of such a header, and its server drops the connection. */
    if (!read_version(r, "X-Server-Version", &server) ||
        !read_version(r, "X-Min-Cluster-Version", &least))
        return "a version that is none";
    if (compare_minor(server, version_of(CLUSTER_VERSION_MIN)) < 0)
        return "remote version is too low";
    if (compare_minor(least, version_of(p->version)) > 0)
        return "local version is too low";
    return NULL;
}

enum check check_request(const struct peers *p, const struct http1_reader *r)
{
    struct bytes from = field_of(r, "X-Server-From"), version = field_of(r, "X-Server-Version");
    struct bytes least = field_of(r, "X-Min-Cluster-Version");
    struct bytes cluster = field_of(r, "X-Etcd-Cluster-ID");
    const char *problem = version_problem(p, r);

    if (problem) {
        log_warn(p->logger, "failed version compatibility check",
                 LOG_ID("local-member-id", p->options.self),
                 LOG_ID("local-member-cluster-id", p->options.cluster_id),
                 LOG_STR("local-member-server-version", p->version),
                 LOG_STR("local-member-server-minimum-cluster-version", CLUSTER_VERSION_MIN),
                 LOG_BYTES("remote-peer-server-name", from),
                 LOG_BYTES("remote-peer-server-version", version),
                 LOG_BYTES("remote-peer-server-minimum-cluster-version", least),
                 LOG_STR("error", problem));
        return CHECK_VERSION;
    }
    if (!bytes_equal(cluster, bytes_of_str(p->cluster_hex))) {
        log_warn(p->logger, "request cluster ID mismatch",
                 LOG_ID("local-member-id", p->options.self),
                 LOG_ID("local-member-cluster-id", p->options.cluster_id),
                 LOG_STR("local-member-server-version", p->version),
                 LOG_STR("local-member-server-minimum-cluster-version", CLUSTER_VERSION_MIN),
                 LOG_BYTES("remote-peer-server-name", from),
                 LOG_BYTES("remote-peer-server-version", version),
                 LOG_BYTES("remote-peer-server-minimum-cluster-version", least),
                 LOG_BYTES("remote-peer-cluster-id", cluster));
        return CHECK_CLUSTER;
    }
    return CHECK_OK;
}

/* A server that is newer, or of our own minor version, is its own business. Of the older ones, 2.0
 * had no such streams, and numbers nobody has heard of may mean anything. */
bool check_stream_version(const struct peers *p, const struct http1_reader *r)
{
    struct version server, own = version_of(p->version);

    if (!read_version(r, "X-Server-Version", &server))
        return false;
    if (compare_minor(server, own) >= 0)
        return true;
    return (server.major == 2 && server.minor >= 1 && server.minor <= 3) || server.major == 3;
}
