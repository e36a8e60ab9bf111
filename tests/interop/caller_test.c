#include "interop/caller_test.h"

#include "harness/test.h"

#include <string.h>

void caller_open(struct caller *c, const struct peer *to)
{
    CHECK_EQ(caller_init(c), ERR_OK);
    CHECK_EQ(net_address_parse(strstr(to->client_url, "//") + 2, &c->address), ERR_OK);
}

struct line *caller_connect(struct caller *c)
{
    return caller_connect_to(c, &c->address);
}

void ask_read(struct ask *a, const struct pb_schema *schema, struct arena *arena, void *out)
{
    CHECK(ask_is_over(a));
    CHECK_STR(buf_str(&a->text), "");
    CHECK_EQ(a->code, RPC_OK);
    CHECK_EQ(pb_decode(schema, buf_bytes(&a->answer), arena, out), ERR_OK);
}

int64_t caller_put(struct line *l, struct bytes key, struct bytes value)
{
    struct ask a = {.line = l};
    struct pb_put_request request = {.key = key, .value = value};
    struct pb_put_response response;
    struct arena arena = {0};

    ask_start(&a, "/etcdserverpb.KV/Put", &pb_put_request_schema, &request);
    ask_wait(&a);
    ask_read(&a, &pb_put_response_schema, &arena, &response);
    int64_t revision = response.header->revision;
    arena_free(&arena);
    ask_free(&a);
    return revision;
}
