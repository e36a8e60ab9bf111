/*
 * Logins and calls of strangers, to the server as a program: an honest client has its turn, and the
 * log does not fill the disk.
 */
#include "base/mem.h"
#include "harness/certs_test.h"
#include "harness/jwt_keys_test.h"
#include "harness/test.h"
#include "interop/caller_test.h"
#include "io/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ADDRESSES = PASSWORDS_WAITING_MAX / PASSWORDS_WAITING_PER_ADDRESS_MAX,
    GUESSES = PASSWORDS_WAITING_PER_ADDRESS_MAX + 8, /* of each address, at any time */
};

struct login_rig {
    struct peer peer;
    struct caller caller;
    struct line *good;
    struct arena arena;
};

static void rig_open(struct login_rig *r, const char *flags)
{
    peer_open_ours(&r->peer, arena_printf(&r->arena, "%s/ours", test_tmp_dir()));
    peer_start(&r->peer, flags);
    caller_open(&r->caller, &r->peer);
    r->good = caller_connect(&r->caller);
}

static void rig_close(struct login_rig *r)
{
    caller_close(&r->caller);
    peer_stop(&r->peer);
    peer_close(&r->peer);
    arena_free(&r->arena);
}

static void do_it(struct login_rig *r, const char *path, const struct pb_schema *schema,
                  const void *message)
{
    struct ask a = {.line = r->good};

    ask_start(&a, path, schema, message);
    ask_wait(&a);
    CHECK_STR(buf_str(&a.text), "");
    CHECK_EQ(a.code, RPC_OK);
    ask_free(&a);
}

/* Root, with a password; and auth is on from now on. */
static void enable_auth(struct login_rig *r)
{
    do_it(r, "/etcdserverpb.Auth/UserAdd", &pb_auth_user_add_request_schema,
          &(struct pb_auth_user_add_request){.name = BYTES("root"), .password = BYTES("secret")});
    do_it(r, "/etcdserverpb.Auth/UserGrantRole", &pb_auth_user_grant_role_request_schema,
          &(struct pb_auth_user_grant_role_request){.user = BYTES("root"), .role = BYTES("root")});
    do_it(r, "/etcdserverpb.Auth/AuthEnable", &pb_auth_enable_request_schema,
          &(struct pb_empty){0});
}

static void start_login(struct ask *a, const char *user, const char *password)
{
    ask_start(a, "/etcdserverpb.Auth/Authenticate", &pb_authenticate_request_schema,
              &(struct pb_authenticate_request){.name = bytes_of_str(user),
                                                .password = bytes_of_str(password)});
}

/* A guess that was compared is followed by the next one, so that the places stay taken. */
static void guess_again(struct ask *a)
{
    struct login_rig *r = a->context;

    if (!bytes_equal(buf_bytes(&a->text), BYTES("etcdserver: too many requests")) && !r->good)
        start_login(a, "root", "guess");
}

static struct line *connect_from(struct login_rig *r, unsigned nth)
{
    struct net_address from;
    char text[32];

    snprintf(text, sizeof(text), "127.0.1.%u:0", nth + 1);
    CHECK_EQ(net_address_parse(text, &from), ERR_OK);
    loop_connect_from(r->caller.loop, &from);
    return caller_connect(&r->caller);
}

/* ---- Lines of the log ---- */

/* Of those with this text, the most in any second. */
static unsigned most_in_a_second(struct login_rig *r, const char *text)
{
    return (unsigned)strtoul(
        peer_run(&r->arena,
                 "grep -F '%s' %s.log | grep -o '\"ts\":\"[^.]*' | sort | uniq -c | "
                 "sort -rn | head -1",
                 text, r->peer.dir),
        NULL, 10);
}

/* So many calls that are refused, some of them at a time; each with a token or a name of its own.
 */
static void be_refused(struct login_rig *r, unsigned count, bool logs_in)
{
    static struct ask asks[100];
    char text[32];

    for (unsigned i = 0; i < count; i += ARRAY_LEN(asks)) {
        for (unsigned k = 0; k < ARRAY_LEN(asks); k++) {
            snprintf(text, sizeof(text), "stranger%u", i + k);
            asks[k] = (struct ask){.line = r->good, .token = logs_in ? NULL : text};
            if (logs_in)
                start_login(&asks[k], text, "guess");
            else
                ask_start(&asks[k], "/etcdserverpb.KV/Range", &pb_range_request_schema,
                          &(struct pb_range_request){.key = BYTES("k")});
        }
        for (unsigned k = 0; k < ARRAY_LEN(asks); k++) {
            ask_wait(&asks[k]);
            CHECK(asks[k].code != RPC_OK);
            ask_free(&asks[k]);
        }
    }
}

/* Or whoever reaches the port fills the disk. */
TEST(ten_thousand_refused_calls_do_not_make_as_many_lines)
{
    static const char bad_token[] = "failed to parse a JWT token",
                      bad_login[] = "invalid authentication was requested";
    static struct login_rig r;
    struct jwt_keys keys;
    jwt_keys_make(JWT_ES256, &keys);
    jwt_keys_write(&keys);
    rig_open(&r,
             arena_printf(&r.arena,
                          "--bcrypt-cost=4 --auth-token=jwt,sign-method=ES256,pub-key=%s/public,"
                          "priv-key=%s/private,ttl=1h",
                          test_tmp_dir(), test_tmp_dir()));
    enable_auth(&r);

    be_refused(&r, 10000, false);
    be_refused(&r, 2000, true);

    unsigned tokens = peer_said(&r.peer, bad_token), logins = peer_said(&r.peer, bad_login);
    printf("%u lines of 10000 bad tokens, %u of 2000 failed logins\n", tokens, logins);
    CHECK(tokens >= 100 && most_in_a_second(&r, bad_token) <= 100 + 10000 / LOG_SAMPLE_EACH);
    CHECK(logins >= 100 && most_in_a_second(&r, bad_login) <= 100 + 2000 / LOG_SAMPLE_EACH);
    jwt_keys_free(&keys);
    rig_close(&r);
}

/* So many connections that begin no handshake, some of them at a time, until each was closed. */
static void speak_no_tls(struct login_rig *r, unsigned count)
{
    static const char plain[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char answer[64];
    int fds[50];

    for (unsigned i = 0; i < count; i += ARRAY_LEN(fds)) {
        for (unsigned k = 0; k < ARRAY_LEN(fds); k++) {
            fds[k] = peer_connect(&r->peer);
            CHECK(send(fds[k], plain, sizeof(plain) - 1, MSG_NOSIGNAL) > 0);
        }
        for (unsigned k = 0; k < ARRAY_LEN(fds); k++) {
            while (recv(fds[k], answer, sizeof(answer), 0) > 0)
                ;
            close(fds[k]);
        }
    }
}

TEST(three_thousand_broken_handshakes_do_not_make_as_many_lines)
{
    static const char broken[] = "rejected connection on client endpoint";
    static struct login_rig r;
    certs_make("server", &(struct cert){.sans = "IP:127.0.0.1"});
    peer_open_ours(&r.peer, arena_printf(&r.arena, "%s/ours", test_tmp_dir()));
    r.peer.client_url = arena_printf(&r.arena, "https%s", strchr(r.peer.client_url, ':'));
    peer_start(&r.peer, arena_printf(&r.arena, "--cert-file=%s --key-file=%s", certs_file("server"),
                                     certs_key("server")));

    speak_no_tls(&r, 3000);

    unsigned lines = peer_said(&r.peer, broken);
    printf("%u lines of 3000 broken handshakes\n", lines);
    CHECK(lines >= 100 && most_in_a_second(&r, broken) <= 100 + 3000 / LOG_SAMPLE_EACH);
    peer_stop(&r.peer);
    peer_close(&r.peer);
    arena_free(&r.arena);
}

/* ---- Places ---- */

TEST(who_guesses_from_eight_addresses_locks_nobody_out)
{
    static struct login_rig r;
    static struct ask guesses[ADDRESSES * GUESSES];
    struct ask honest = {0};
    unsigned refused = 0;
    rig_open(&r, "--bcrypt-cost=10 --log-level=error");
    enable_auth(&r);
    honest.line = r.good;
    r.good = NULL; /* guess on */

    for (unsigned i = 0; i < ARRAY_LEN(guesses); i++) {
        guesses[i] = (struct ask){.on_over = guess_again, .context = &r};
        guesses[i].line = i % GUESSES == 0 ? connect_from(&r, i / GUESSES) : guesses[i - 1].line;
        start_login(&guesses[i], "root", "guess");
    }
    while (refused < ADDRESSES) { /* so all places are taken */
        caller_turn(&r.caller, 100);
        refused = 0;
        for (unsigned i = 0; i < ARRAY_LEN(guesses); i++)
            refused += ask_is_over(&guesses[i]);
    }
    for (unsigned i = 0; i < 3; i++) {
        start_login(&honest, "root", "secret");
        ask_wait(&honest);
        CHECK_STR(buf_str(&honest.text), "");
        CHECK_EQ(honest.code, RPC_OK);
    }

    r.good = honest.line;
    for (unsigned i = 0; i < ARRAY_LEN(guesses); i++) {
        if (!ask_is_over(&guesses[i]))
            ask_cancel(&guesses[i]);
        ask_free(&guesses[i]);
    }
    ask_free(&honest);
    rig_close(&r);
}
