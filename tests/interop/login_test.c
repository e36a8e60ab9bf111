/*
 * Logins, to the server as a program, while others keep it busy with theirs.
 */
#include "base/mem.h"
#include "harness/test.h"
#include "interop/caller_test.h"
#include "io/loop.h"

#include <stdio.h>

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
    *r = (struct login_rig){0};
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
