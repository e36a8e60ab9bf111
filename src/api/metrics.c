/*
 * /metrics and /debug/vars. Most of what they show belongs to other rooms: the server makes the
 * text, in the form that was agreed on, and the request waits for it.
 */
#include "api/api_int.h"
#include "api/negotiate.h"

static void ask(struct api *a, struct rpc_event *e, const struct handler *on,
                enum api_need_kind need)
{
    struct call *c = api_call_new(a, e);

    c->on = on;
    c->base.scrape = negotiate_scrape(rpc_event_bytes(&c->first, c->first.fields));
    api_call_measure(c, need);
}

static void respond_metrics(struct call *c, struct bytes text)
{
    struct api *a = api_of(c);
    struct api_scrape scrape = c->base.scrape;
    struct bytes fields = scrape.is_gzipped ? BYTES("Content-Encoding:gzip\n") : bytes_of(NULL, 0);
    uint64_t rpc = c->base.rpc;

    a->stats.scrapes++;
    api_call_end(c);
    rpc_line_http_reply_with(a->o.line, rpc, 200, negotiate_type(scrape), fields, text);
}

static void respond_vars(struct call *c, struct bytes text)
{
    struct api *a = api_of(c);
    uint64_t rpc = c->base.rpc;

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
    ask(a, e, &api_http_metrics, API_METRICS);
}

void api_http_vars_asked(struct api *a, struct rpc_event *e)
{
    ask(a, e, &api_http_vars, API_VARS);
}
