/*
 * /livez and /readyz: is this process alive, and may clients be sent to it?
 *
 * Each has some checks, which can be left out by ?exclude=NAME or asked for alone by /readyz/NAME.
 * Only one of them takes time: the linearizable read. So it comes first, and everything else is
 * looked at when its result is there.
 */
#include "api/api_int.h"

enum probe { PROBE_LIVEZ, PROBE_READYZ };
enum check { CHECK_DATA_CORRUPTION, CHECK_SERIALIZABLE, CHECK_LINEARIZABLE, CHECK_NON_LEARNER };

static const char *const probe_names[API_PROBES] = {"livez", "readyz"};
static const char *const check_names[API_CHECKS] = {"data_corruption", "serializable_read",
                                                    "linearizable_read", "non_learner"};
static const unsigned checks_of[API_PROBES] = {1u << CHECK_SERIALIZABLE, (1u << API_CHECKS) - 1};

const char *api_probe_name(unsigned probe)
{
    return probe_names[probe];
}

const char *api_check_name(unsigned probe, unsigned check)
{
    return checks_of[probe] & 1u << check ? check_names[check] : NULL;
}

static bool is_corrupt(const struct api *a)
{
    const struct apply_alarm *alarms;
    size_t count = apply_alarms(a->o.apply, &alarms);

    for (size_t i = 0; i < count; i++)
        if (alarms[i].alarm == PB_ALARM_CORRUPT)
            return true;
    return false;
}

/* Why it fails; NULL if it does not. */
static const char *run_check(struct api *a, enum check check, const struct probing *p,
                             enum result read)
{
    switch (check) {
    case CHECK_DATA_CORRUPTION:
        return is_corrupt(a) ? "alarm activated: CORRUPT" : NULL;
    case CHECK_SERIALIZABLE:
        api_count_nothing_read(a, a->facts->now_ns, true);
        return NULL;
    case CHECK_LINEARIZABLE:
        api_count_nothing_read(a, p->began_ns, read == RESULT_OK);
        return read == RESULT_OK ? NULL : result_text(read);
    case CHECK_NON_LEARNER:
        return a->facts->is_learner ? "not supported for learner" : NULL;
    }
    unreachable();
}

/* True if all is well. */
static bool run_checks(struct api *a, const struct probing *p, enum result read, struct buf *out)
{
    bool is_well = true;

    for (unsigned i = 0; i < API_CHECKS; i++) {
        if (!(p->checks & 1u << i))
            continue;
        const char *why = run_check(a, (enum check)i, p, read);
        struct api_check_stats *s = &a->stats.checks[p->probe][i];
        s->is_well = !why;
        s->succeeded += !why;
        s->failed += why != NULL;
        if (why)
            buf_printf(out, "[-]%s failed: %s\n", check_names[i], why);
        else
            buf_printf(out, "[+]%s ok\n", check_names[i]);
        is_well = is_well && !why;
    }
    return is_well;
}

static void respond(struct api *a, uint64_t rpc, const struct probing *p, enum result read)
{
    struct buf *out = &a->out;

    buf_clear(out);
    bool is_well = run_checks(a, p, read, out);
    if (is_well && !p->verbose)
        buf_clear(out);
    if (!is_well)
        log_error(a->o.logger, "Health check error", LOG_STR("path", probe_names[p->probe]),
                  LOG_BYTES("reason", buf_bytes(out)), LOG_U64("status-code", 503));
    buf_append_str(out, is_well ? "ok\n" : "\n");
    rpc_line_http_reply_with(a->o.line, rpc, is_well ? 200 : 503, "text/plain; charset=utf-8",
                             is_well ? BYTES("X-Content-Type-Options:nosniff\n") : BYTES(""),
                             buf_bytes(out)); /* a 503 has that field as all errors have it */
}

static void finish(struct call *c, enum result read)
{
    struct api *a = api_of(c);
    uint64_t rpc = c->base.rpc;
    struct probing p = c->probing;

    api_call_end(c);
    respond(a, rpc, &p, read);
}

static void confirmed(struct call *c)
{
    finish(c, RESULT_OK);
}

const struct handler api_http_probe = {.confirmed = confirmed, .failed = finish};

static void serve(struct api *a, struct rpc_event *e, struct probing p)
{
    if (!(p.checks & 1u << CHECK_LINEARIZABLE)) {
        respond(a, e->call, &p, RESULT_OK);
        return;
    }
    struct call *c = api_call_new(a, e);
    c->on = &api_http_probe;
    c->probing = p;
    api_call_read_index(c);
}

/* The checks that the path names, 0: there is no such path. */
static unsigned checks_in(struct bytes path, unsigned probe)
{
    struct bytes name = bytes_of_str(probe_names[probe]);

    if (path.len < 1 + name.len || path.at[0] != '/' ||
        !bytes_equal(bytes_of(path.at + 1, name.len), name))
        return 0;
    path = bytes_of(path.at + 1 + name.len, path.len - 1 - name.len);
    if (path.len == 0)
        return checks_of[probe];
    for (unsigned i = 0; i < API_CHECKS; i++)
        if (path.at[0] == '/' && checks_of[probe] & 1u << i &&
            bytes_equal(bytes_of(path.at + 1, path.len - 1), bytes_of_str(check_names[i])))
            return 1u << i;
    return 0;
}

bool api_http_probe_asked(struct api *a, struct rpc_event *e)
{
    struct bytes path = rpc_event_bytes(e, e->path), query = rpc_event_bytes(e, e->query);
    struct probing p = {.began_ns = a->facts->now_ns};

    while (p.probe < API_PROBES && !(p.checks = checks_in(path, p.probe)))
        p.probe++;
    if (p.probe == API_PROBES)
        return false;
    if (!bytes_equal(rpc_event_bytes(e, e->verb), BYTES("GET"))) {
        rpc_line_http_reply(a->o.line, e->call, 405, "text/plain; charset=utf-8",
                            BYTES("Method Not Allowed\n"));
        return true;
    }
    for (unsigned i = 0; i < API_CHECKS && p.checks == checks_of[p.probe]; i++)
        if (api_query_has(query, &a->scratch, "exclude", check_names[i]))
            p.excluded |= 1u << i;
    p.checks &= ~p.excluded;
    p.verbose = api_query_names(query, &a->scratch, "verbose");
    serve(a, e, p);
    return true;
}
