/*
 * negotiate: in which form does a scraper want /metrics?
 *
 * The answers are those of Prometheus' library for Go in the version that etcd 3.7.1 is made of
 * (expfmt.Negotiate, and promhttp for the encoding), with its oddities: parameters are compared
 * letter by letter, a kind that is not known can still say how names are escaped, and identity wins
 * against gzip of the same weight. No name of ours has anything to escape: the word is only said.
 *
 * OpenMetrics is not among the formats, as in etcd: its handler does not turn it on.
 */
#pragma once

#include "api/api.h"

/* The lines of the request's fields (struct rpc_event). */
struct api_scrape negotiate_scrape(struct bytes fields);

/* What the response's Content-Type says of it. Static. */
const char *negotiate_type(struct api_scrape scrape);
