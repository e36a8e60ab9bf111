/* What etcd 3.7.1 answers to each, as tests/interop/scrape_test.c sees it do. */
#include "api/negotiate.h"

#include "base/rng.h"
#include "harness/test.h"

#include <stdlib.h>

static const char *agreed(const char *fields)
{
    static struct buf out;
    struct api_scrape s = negotiate_scrape(bytes_of_str(fields));

    buf_clear(&out);
    buf_append_str(&out, negotiate_type(s));
    buf_append_str(&out, s.is_gzipped ? ", gzip" : "");
    return buf_str(&out);
}

#define TEXT  "text/plain; version=0.0.4; charset=utf-8; escaping="
#define PROTO "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding="
#define ASK_PROTO                                                                                  \
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding="

TEST(a_scraper_gets_the_format_that_its_accept_prefers)
{
    static const struct {
        const char *accept, *type;
    } cases[] = {
        {"", TEXT "underscores"},
        {"*/*", TEXT "underscores"},
        {"text/html", TEXT "underscores"},
        {"application/json", TEXT "underscores"},
        {"text/plain", TEXT "underscores"},
        {"text/plain;escaping=allow-utf-8", TEXT "allow-utf-8"},
        {"text/plain; escaping=values", TEXT "values"},
        {"text/plain;escaping=dots", TEXT "dots"},
        {"text/plain;escaping=other", TEXT "underscores"},
        {"text/plain;version=1.0.0;escaping=dots", TEXT "dots"},
        {ASK_PROTO "delimited", PROTO "delimited; escaping=underscores"},
        {ASK_PROTO "text", PROTO "text; escaping=underscores"},
        {ASK_PROTO "compact-text;escaping=values", PROTO "compact-text; escaping=values"},
        {ASK_PROTO "other", TEXT "underscores"},
        {"application/vnd.google.protobuf", TEXT "underscores"},
        {"application/vnd.google.protobuf;encoding=delimited", TEXT "underscores"},
        {"Application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;"
         "encoding=delimited",
         TEXT "underscores"},
        {"application / vnd.google.protobuf ; proto = io.prometheus.client.MetricFamily ;"
         " encoding = delimited",
         PROTO "delimited; escaping=underscores"},
        {"text/plain;q=0.5," ASK_PROTO "delimited;q=0.9", PROTO "delimited; escaping=underscores"},
        {"text/plain;q=0.9," ASK_PROTO "delimited;q=0.5", TEXT "underscores"},
        {"text/plain," ASK_PROTO "delimited", TEXT "underscores"},
        {ASK_PROTO "delimited,text/plain", PROTO "delimited; escaping=underscores"},
        {"text/plain;q=high," ASK_PROTO "delimited;q=0.1", PROTO "delimited; escaping=underscores"},
        {"text/plain;q= 1," ASK_PROTO "delimited;q=0.1", PROTO "delimited; escaping=underscores"},
        {"*/*;q=1," ASK_PROTO "delimited;q=0.1", PROTO "delimited; escaping=underscores"},
        /* Prometheus 3, and with native histograms */
        {"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
         "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;"
         "escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
         TEXT "allow-utf-8"},
        {ASK_PROTO "delimited;escaping=allow-utf-8;q=0.7,application/openmetrics-text;"
                   "version=1.0.0;escaping=allow-utf-8;q=0.6,*/*;q=0.2",
         PROTO "delimited; escaping=allow-utf-8"},
        {"application/openmetrics-text;version=1.0.0", TEXT "underscores"},
        {"text/plain/x,,;,=;q=1,text," ASK_PROTO "text", PROTO "text; escaping=underscores"},
        {"text/plain;escaping=dots=x;escaping=;version", TEXT "underscores"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf fields = {0};
        buf_printf(&fields, "Host:x\naccept:%s\nAccept:" ASK_PROTO "text\n", cases[i].accept);
        CHECK_STR(agreed(buf_str(&fields)), cases[i].type);
        buf_free(&fields);
    }
    CHECK_STR(agreed("Host:x\n"), TEXT "underscores");
}

TEST(a_scraper_gets_gzip_where_it_prefers_that_to_nothing)
{
    static const struct {
        const char *fields;
        bool is_gzipped;
    } cases[] = {
        {"", false},
        {"Accept-Encoding:gzip\n", true},
        {"accept-encoding:deflate, gzip, br, zstd\n", true},
        {"Accept-Encoding:zstd\n", false},
        {"Accept-Encoding:GZIP\n", false},
        {"Accept-Encoding:*\n", false},
        {"Accept-Encoding:gzip;q=0\n", false},
        {"Accept-Encoding:gzip; q=0.001\n", true},
        {"Accept-Encoding:gzip;q=1.0, identity; q=0.5, *;q=0\n", true},
        {"Accept-Encoding:gzip;q=0.5, identity\n", false},
        {"Accept-Encoding:gzip, identity\n", false},
        {"Accept-Encoding:identity;q=0, gzip;q=0.1\n", true},
        {"Accept-Encoding:*;q=0.3, gzip;q=0.31\n", true},
        {"Accept-Encoding:gzip;q=high\n", false},
        {"Accept-Encoding:gzip;level=1\n", false},
        {"Accept-Encoding:br;x, gzip\n", false},
        {"Accept-Encoding:br;x\nAccept-Encoding:gzip\n", true},
        {"Accept-Encoding:br gzip\n", false},
        {"Accept-Encoding:, gzip\n", false},
        {"Accept-Encoding:gzip\t;\tq=1\t,br\n", true},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        CHECK_STR(agreed(cases[i].fields),
                  cases[i].is_gzipped ? TEXT "underscores, gzip" : TEXT "underscores");
}

/* A head may be long, and is anybody's. */
TEST(whatever_is_accepted_some_format_is_agreed_on)
{
    static const char pieces[] = ";,=/*q01.- \ttextplaingzip";
    struct rng rng;
    struct buf fields = {0};
    rng_seed(&rng, test_seed());

    for (unsigned i = 0; i < 5000; i++) {
        buf_clear(&fields);
        buf_append_str(&fields, i % 2 ? "Accept:" : "Accept-Encoding:");
        for (uint64_t left = rng_next(&rng) % 300; left > 0; left--)
            buf_append_byte(&fields, (uint8_t)pieces[rng_next(&rng) % (sizeof(pieces) - 1)]);
        buf_append_byte(&fields, '\n');
        /* its own memory, to the byte: a sanitizer sees whoever reads behind it */
        struct bytes exact = bytes_of(malloc(fields.len), fields.len);
        memcpy((void *)exact.at, fields.at, fields.len);
        (void)negotiate_type(negotiate_scrape(exact));
        free((void *)exact.at);
    }
    buf_free(&fields);
}
