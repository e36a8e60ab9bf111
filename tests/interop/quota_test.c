/* A server whose quota is exceeded, as its clients and its probes see it. */
#include "harness/test.h"
#include "interop/caller_test.h"

#include <string.h>
#include <unistd.h>

enum { REFUSALS = 100, LARGE_BYTES = 200000 };

/* On a connection that is there already, so that it is asked as soon as it can be. */
static bool is_healthy(int fd)
{
    const char *request = "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    char answer[1024];
    size_t len = 0;

    CHECK_EQ(write(fd, request, strlen(request)), (ssize_t)strlen(request));
    for (ssize_t n; (n = read(fd, answer + len, sizeof(answer) - 1 - len)) > 0;)
        len += (size_t)n;
    close(fd);
    answer[len] = 0;
    CHECK(strncmp(answer, "HTTP/1.1 ", 9) == 0);
    return strncmp(answer + 9, "200", 3) == 0;
}

static enum rpc_code put_large(struct line *l, struct bytes value)
{
    struct ask a = {.line = l};

    ask_start(&a, "/etcdserverpb.KV/Put", &pb_put_request_schema,
              &(struct pb_put_request){.key = BYTES("k"), .value = value});
    ask_wait(&a);
    enum rpc_code code = a.code;
    ask_free(&a);
    return code;
}

static void ask_alarm(struct line *l, const struct pb_alarm_request *request, struct arena *arena,
                      struct pb_alarm_response *out)
{
    struct ask a = {.line = l};

    ask_start(&a, "/etcdserverpb.Maintenance/Alarm", &pb_alarm_request_schema, request);
    ask_wait(&a);
    CHECK_EQ(a.code, RPC_OK);
    ask_read(&a, &pb_alarm_response_schema, arena, out);
    ask_free(&a);
}

static void disarm(struct line *l)
{
    struct arena arena = {0};
    struct pb_alarm_response response;

    ask_alarm(l, &(struct pb_alarm_request){.action = PB_ALARM_GET}, &arena, &response);
    CHECK_EQ(response.alarms.count, 1);
    ask_alarm(l,
              &(struct pb_alarm_request){.action = PB_ALARM_DEACTIVATE,
                                         .member_id = response.alarms.at[0].member_id,
                                         .alarm = PB_ALARM_NOSPACE},
              &arena, &response);
    arena_free(&arena);
}

/* A client that is told of no space and looks at /health at once finds the same there. */
TEST(health_tells_of_the_quota_as_soon_as_a_write_is_refused_for_it)
{
    struct arena arena = {0};
    struct peer peer;
    struct caller caller;
    struct buf value = {0};
    unsigned healthy = 0;
    memset(buf_reserve(&value, LARGE_BYTES), 'v', LARGE_BYTES);
    value.len = LARGE_BYTES;
    peer_open_ours(&peer, arena_printf(&arena, "%s/ours", test_tmp_dir()));
    peer_start(&peer, "--quota-backend-bytes=100000");
    caller_open(&caller, &peer);
    struct line *line = caller_connect(&caller);

    for (unsigned i = 0; i < REFUSALS; i++) {
        int fd = peer_connect(&peer);
        CHECK_EQ(put_large(line, buf_bytes(&value)), RPC_RESOURCE_EXHAUSTED);
        healthy += is_healthy(fd);
        disarm(line);
    }

    CHECK_EQ(healthy, 0);
    buf_free(&value);
    caller_close(&caller);
    peer_stop(&peer);
    peer_close(&peer);
    arena_free(&arena);
}
