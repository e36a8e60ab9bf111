/* h2spec tries out our HTTP/2, without TLS and with it. What it finds is named here and in
 * docs/compat.md, and nothing else may be found. */
#include "base/mem.h"
#include "harness/certs_test.h"
#include "harness/peer_test.h"
#include "harness/port.h"
#include "harness/test.h"

#include <stdio.h>
#include <string.h>

enum { ALL_CASES = 145, PASSED_MIN = 130, TRIES_MAX = 20 };

struct known {
    const char *id;
    bool only_plain;
};

static const struct known known[] = {
    /* Without TLS a stream that is not gRPC is refused by HEADERS alone; it waits for DATA. */
    {"generic/2/2", .only_plain = true},
    {"generic/2/3", .only_plain = true},
    {"http2/3.5/2", false},   /* who does not begin with the preface is answered in HTTP/1.1 */
    {"http2/5.1/8", false},   /* DATA for a stream that is closed is passed over */
    {"http2/5.1/11", false},  /* the same */
    {"http2/5.3.1/2", false}, /* PRIORITY is not looked at, as our SETTINGS say */
};

static bool is_known(const char *id, bool is_plain)
{
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strcmp(known[i].id, id) == 0 && (is_plain || !known[i].only_plain))
            return true;
    return false;
}

struct target {
    struct arena *arena;
    unsigned port;
    bool is_plain;
    unsigned seen, passed;
};

static const char *command(const struct target *t, const char *cases)
{
    return arena_printf(t->arena,
                        "timeout 60 $H2SPEC/h2spec %s-p %u -o 1 -j %s/%u.xml %s >/dev/null 2>&1",
                        t->is_plain ? "" : "-t -k ", t->port, test_tmp_dir(), t->port, cases);
}

/*
 * Some cases send a frame for a stream that our answer may have ended by then, and what comes for
 * an ended stream is rightly ignored: who is first is chance. Alone, they are tried until they are.
 */
static bool passes_alone(const struct target *t, const char *id)
{
    for (unsigned i = 0; i < TRIES_MAX; i++)
        if (strcmp(peer_run(t->arena, "if %s; then echo yes; else echo no; fi", command(t, id)),
                   "yes") == 0)
            return true;
    return false;
}

/* What is inside of its tag says how it went. */
static void take_case(struct target *t, const char *id, const char *inside)
{
    t->seen++;
    if (strncmp(inside, "</testcase>", 11) != 0) {
        if (strncmp(inside + strspn(inside, "\n "), "<skipped>", 9) == 0 ||
            is_known(id, t->is_plain))
            return;
        if (!passes_alone(t, id))
            test_fail(__FILE__, __LINE__, "%s fails %s TLS: %.400s", id,
                      t->is_plain ? "without" : "with", inside);
    }
    t->passed++;
}

/* Cases are known by their group and their place in it. */
static void take_report(struct target *t)
{
    const char *report = peer_run(t->arena, "cat %s/%u.xml", test_tmp_dir(), t->port);
    char group[64] = "", last[64] = "", id[80];
    unsigned place = 0;

    for (const char *at = report; (at = strstr(at, "<testcase package=\""));) {
        at += strlen("<testcase package=\"");
        snprintf(group, sizeof(group), "%.*s", (int)strcspn(at, "\""), at);
        place = strcmp(group, last) == 0 ? place + 1 : 1;
        snprintf(last, sizeof(last), "%s", group);
        snprintf(id, sizeof(id), "%s/%u", group, place);
        at = strchr(at, '>');
        CHECK(at != NULL);
        take_case(t, id, at + 1);
    }
    CHECK_EQ(t->seen, ALL_CASES);
    CHECK(t->passed >= PASSED_MIN);
}

TEST(h2spec_finds_what_is_named_and_nothing_else)
{
    struct peer p;
    char dir[4096];
    gate_need(GATE_H2SPEC);
    certs_make("server", &(struct cert){.sans = "IP:127.0.0.1"});
    snprintf(dir, sizeof(dir), "%s/data", test_tmp_dir());
    peer_open_ours(&p, dir);
    struct target plain = {&p.arena, .port = port_take(), .is_plain = true};
    struct target secure = {&p.arena, .port = port_take()};
    p.client_url =
        arena_printf(&p.arena, "http://127.0.0.1:%u,https://127.0.0.1:%u", plain.port, secure.port);
    peer_launch(&p, arena_printf(&p.arena, "--cert-file %s --key-file %s", certs_file("server"),
                                 certs_key("server")));
    peer_await_said(&p, "ready to serve client requests", 1);

    peer_run(&p.arena, "(%s & %s & wait) || true", command(&plain, ""), command(&secure, ""));
    take_report(&plain);
    take_report(&secure);

    peer_stop(&p);
    peer_close(&p);
}
