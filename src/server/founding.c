#include "server/founding.h"

#include "config/config.h"
#include "io/io.h"
#include "peer/peer.h"

static struct bytes own_name(const struct founding *f)
{
    return bytes_of_str(f->o.config->name);
}

bool founding_is_needed(const struct cluster_initial *initial, const struct config *config)
{
    return initial->count > 1 || cluster_initial_needs_names(initial, bytes_of_str(config->name),
                                                             config->advertise_peers);
}

static void end(struct founding *f, enum err e)
{
    f->is_over = true;
    f->err = e;
}

/* --- the others --- */

static void ask_next(struct founding *f)
{
    if (f->asked == f->asks.count) {
        end(f, ERR_OK);
        return;
    }
    f->is_asking = true;
    peers_ask(f->o.peers, &(struct peer_ask){.token = f->asked,
                                             .member = RAFT_NONE,
                                             .url = arena_copy_str(&f->arena, f->asks.at[f->asked]),
                                             .verb = "GET",
                                             .path = "/members",
                                             .timeout_ms = FOUNDING_ASK_MS});
    f->asked++;
}

static void begin_asking(struct founding *f)
{
    const struct cluster_initial *initial = f->o.initial;
    size_t count = 0;

    for (size_t i = 0; i < initial->count; i++)
        count += initial->members[i].peer_urls.count;
    struct bytes *urls = arena_new_array(&f->arena, count, struct bytes);
    count = 0;
    for (size_t i = 0; i < initial->count; i++) {
        const struct pb_member *m = &initial->members[i];
        if (bytes_equal(m->name, own_name(f)))
            continue;
        for (size_t u = 0; u < m->peer_urls.count; u++)
            urls[count++] = m->peer_urls.at[u];
    }
    f->asks = url_list_sorted((struct url_list){urls, count}, &f->arena);
    ask_next(f);
}

/* A member that has told where clients reach it has run. */
static bool has_run(const struct pb_member *members, size_t count, uint64_t id)
{
    for (size_t i = 0; i < count; i++)
        if (members[i].id == id)
            return members[i].client_urls.count > 0;
    return false;
}

/* The first answer that makes sense decides; one without members has no cluster to tell of. */
void founding_result(struct founding *f, const struct peer_event *e)
{
    const struct pb_member *own = cluster_initial_find(f->o.initial, own_name(f));
    const struct pb_member *members;
    size_t count;

    if (!f->is_asking || e->id + 1 != f->asked)
        return;
    f->is_asking = false;
    if (e->status == 0 || e->result_cluster_id == 0 ||
        member_json_read_list(e->body, &f->arena, &members, &count) != ERR_OK) {
        ask_next(f);
        return;
    }
    if (has_run(members, count, own->id)) {
        buf_printf(f->o.why, "member %llx has already been bootstrapped",
                   (unsigned long long)own->id);
        end(f, ERR_EXISTS);
        return;
    }
    end(f, ERR_OK);
}

/* --- names --- */

static void verify(struct founding *f, const struct cluster_resolved *resolved)
{
    const struct config *c = f->o.config;

    if (cluster_initial_verify(f->o.initial, own_name(f), c->advertise_peers, resolved,
                               c->joins_existing, f->o.why))
        begin_asking(f);
    else
        end(f, ERR_MALFORMED);
}

static void begin_resolving(struct founding *f)
{
    const struct pb_member *own = cluster_initial_find(f->o.initial, own_name(f));
    struct url_list advertised = f->o.config->advertise_peers;
    struct url_list configured = {own->peer_urls.at, own->peer_urls.count};
    struct buf why = {0};

    names_init(&f->names, f->o.io, f->o.logger, advertised.count + configured.count);
    bool ok = names_add(&f->names, advertised, &why, &f->advertised) &&
              names_add(&f->names, configured, &why, &f->configured);
    assert(ok); /* they were when the flags were read */
    buf_free(&why);
    names_start(&f->names);
}

/* As far as they could be resolved. */
static void look_at_names(struct founding *f)
{
    struct names *n = &f->names;
    struct cluster_resolved resolved = {.failure = names_failure(n, 0, n->count)};

    if (resolved.failure.len == 0) {
        resolved.advertised = names_resolved(n, f->advertised, f->configured);
        resolved.configured = names_resolved(n, f->configured, n->count - f->configured);
    }
    verify(f, &resolved);
}

/* --- all of it --- */

void founding_start(struct founding *f, const struct founding_options *options)
{
    *f = (struct founding){.o = *options};
    if (cluster_initial_needs_names(f->o.initial, own_name(f), f->o.config->advertise_peers))
        begin_resolving(f);
    else
        verify(f, NULL);
}

bool founding_work(struct founding *f)
{
    bool is_resolving = f->names.is_started && f->asked == 0;

    if (!f->is_over && is_resolving && names_work(&f->names))
        look_at_names(f);
    return f->is_over;
}

void founding_stop(struct founding *f)
{
    if (!f->o.io)
        return;
    names_stop(&f->names);
    if (f->is_asking)
        peers_forget(f->o.peers, f->asked - 1);
    f->is_asking = false;
    if (!f->is_over)
        end(f, ERR_CANCELED);
}

bool founding_is_idle(const struct founding *f)
{
    return names_is_idle(&f->names) && !f->is_asking;
}

void founding_free(struct founding *f)
{
    names_free(&f->names);
    arena_free(&f->arena);
}
