/*
 * /metrics and /debug/vars. Most of what they show belongs to other rooms: the server makes the
 * text, in the form that was agreed on, and the request waits for it. Anybody may ask, and need not
 * read what comes: so memory for the text is asked for first, by the size of the last such text.
 */
#include "api/api_int.h"
#include "api/negotiate.h"

static size_t *last_bytes(struct api *a, struct api_scrape scrape)
{
    return &a->scrape_bytes[scrape.format][scrape.is_gzipped];
}

/* The text grows while there is more to tell. */
static uint64_t bytes_after(size_t last)
{
    return last > 0 ? last + last / 4 : API_SCRAPE_BYTES;
}

static void measure_metrics(struct call *c)
{
    api_call_measure(c, API_METRICS);
}

static void measure_vars(struct call *c)
{
    api_call_measure(c, API_VARS);
}

static void respond_metrics(struct call *c, struct bytes text)
{
    struct api *a = api_of(c);
    struct api_scrape scrape = c->base.scrape;
    struct bytes fields = scrape.is_gzipped ? BYTES("Content-Encoding:gzip\n") : bytes_of(NULL, 0);
    uint64_t rpc = c->base.rpc;

    a->stats.scrapes++;
    *last_bytes(a, scrape) = text.len;
    api_call_end(c);
    rpc_line_http_reply_with(a->o.line, rpc, 200, negotiate_type(scrape), fields, text);
}

static void respond_vars(struct call *c, struct bytes text)
{
    struct api *a = api_of(c);
    uint64_t rpc = c->base.rpc;

    a->vars_bytes = text.len;
    api_call_end(c);
    rpc_line_http_reply(a->o.line, rpc, 200, "application/json; charset=utf-8", text);
}

static void measuring_failed(struct call *c, enum result why)
{
    struct api *a = api_of(c);
    uint64_t rpc = c->base.rpc;

    api_call_end(c);
    rpc_line_http_reply(a->o.line, rpc, 503, "text/plain; charset=utf-8",
                        bytes_of_str(result_text(why)));
}

const struct handler api_http_metrics = {.measured = respond_metrics, .failed = measuring_failed};
const struct handler api_http_vars = {.measured = respond_vars, .failed = measuring_failed};

void api_http_metrics_asked(struct api *a, struct rpc_event *e)
{
    struct call *c = api_call_new(a, e);

    c->on = &api_http_metrics;
    c->base.scrape = negotiate_scrape(rpc_event_bytes(&c->first, c->first.fields));
    api_call_reserve(c, bytes_after(*last_bytes(a, c->base.scrape)), measure_metrics);
}

void api_http_vars_asked(struct api *a, struct rpc_event *e)
{
    struct call *c = api_call_new(a, e);

    c->on = &api_http_vars;
    api_call_reserve(c, bytes_after(a->vars_bytes), measure_vars);
}
