/*
 * JWTs of real etcd are good here, and ours there: by every method, of the same keys.
 *
 * Both have users and roles of the same auth revision, so a token of either is asked with at both.
 */
#include "harness/jwt_keys_test.h"
#include "harness/peer_test.h"
#include "harness/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

struct pair {
    struct peer etcd, ours;
};

/* The keys are those of files, and an HMAC's is in one alone. */
static const char *flag_of(enum jwt_method m, bool has_public, bool has_private, const char *ttl)
{
    static char text[1024];
    char public_key[300] = "", private_key[300] = "";

    if (has_public)
        snprintf(public_key, sizeof(public_key), ",pub-key=%s/public", test_tmp_dir());
    if (has_private)
        snprintf(private_key, sizeof(private_key), ",priv-key=%s/private", test_tmp_dir());
    snprintf(text, sizeof(text), "--bcrypt-cost=4 --auth-token=jwt,sign-method=%s%s%s,ttl=%s",
             jwt_method_name(m), public_key, private_key, ttl);
    return text;
}

static void make_keys(enum jwt_method m)
{
    struct jwt_keys keys;

    jwt_keys_make(m, &keys);
    jwt_keys_write(&keys);
    jwt_keys_free(&keys);
}

static void set_up(struct peer *p)
{
    PEER_CTL(p, "user add root:pw");
    PEER_CTL(p, "user grant-role root root");
    PEER_CTL(p, "user add '<\303\244>:pw'"); /* whose name is spelled with escapes in a token */
    PEER_CTL(p, "role add r");
    PEER_CTL(p, "role grant-permission r readwrite a");
    PEER_CTL(p, "user grant-role '<\303\244>' r");
    PEER_CTL(p, "auth enable");
}

/* What the gateway gives for a name and a password: a token, or an error. */
static const char *log_in(struct peer *p, const char *user)
{
    return peer_run(&p->arena,
                    "curl -s %s/v3/auth/authenticate -d '{\"name\":\"%s\",\"password\":\"pw\"}' | "
                    "sed 's/.*\"token\":\"\\([^\"]*\\)\".*/\\1/'",
                    p->client_url, user);
}

static const char *ask(struct peer *p, const char *token, const char *key)
{
    return peer_run(&p->arena,
                    "curl -s %s/v3/kv/put -H 'Authorization: %s' "
                    "-d \"{\\\"key\\\":\\\"$(printf %s | base64)\\\"}\" | "
                    "sed 's/.*\"message\":\"\\([^\"]*\\)\".*/\\1/; s/^{\"header\".*/ok/'",
                    p->client_url, token, key);
}

static const char *health(struct peer *p)
{
    return peer_run(&p->arena, "curl -s %s/health", p->client_url);
}

static void check_both(struct pair *t, const char *token, const char *key, const char *result)
{
    CHECK_STR(ask(&t->etcd, token, key), result);
    CHECK_STR(ask(&t->ours, token, key), result);
}

static void pair_open(struct pair *t)
{
    char dir[256];

    snprintf(dir, sizeof(dir), "%s/etcd", test_tmp_dir());
    peer_open(&t->etcd, dir);
    snprintf(dir, sizeof(dir), "%s/ours", test_tmp_dir());
    peer_open_ours(&t->ours, dir);
}

/* etcdctl's look at the health is anonymous, and so it is no good once auth is enabled; /health is
 * good only where root is given a token. */
static void await_serving(struct peer *p)
{
    peer_run(&p->arena,
             "timeout 30 sh -c 'until curl -sf %s/version >/dev/null; do sleep 0.02; done'",
             p->client_url);
}

static void pair_start(struct pair *t, const char *flags)
{
    peer_launch(&t->etcd, flags);
    peer_launch(&t->ours, flags);
    await_serving(&t->etcd);
    await_serving(&t->ours);
}

static void pair_stop(struct pair *t)
{
    peer_stop(&t->etcd);
    peer_stop(&t->ours);
}

static void pair_close(struct pair *t)
{
    peer_close(&t->etcd);
    peer_close(&t->ours);
}

static const char denied[] = "etcdserver: permission denied";
static const char invalid[] = "etcdserver: invalid auth token";

static void check_method(struct pair *t)
{
    struct peer *const both[] = {&t->etcd, &t->ours};

    for (size_t i = 0; i < 2; i++) {
        const char *token = log_in(both[i], "<\303\244>");
        check_both(t, token, "a", "ok");
        check_both(t, token, "b", denied);
        check_both(t, peer_run(&both[i]->arena, "echo '%s' | sed 's/\\.[^.]*$/.AAAA/'", token), "a",
                   invalid);
        check_both(t, peer_run(&both[i]->arena, "echo '%s' | sed 's/\\.[^.]*$//'", token), "a",
                   invalid);
    }
}

TEST(jwts_of_etcd_are_good_here_and_ours_there)
{
    static const enum jwt_method methods[] = {JWT_RS256, JWT_PS384, JWT_ES512, JWT_HS512,
                                              JWT_EdDSA};
    struct pair t;

    peer_need();
    pair_open(&t);
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        bool has_public = methods[i] != JWT_HS512;
        make_keys(methods[i]);
        pair_start(&t, flag_of(methods[i], has_public, true, "1m"));
        if (i == 0) {
            set_up(&t.etcd);
            set_up(&t.ours);
        }
        check_method(&t);
        pair_stop(&t);
    }
    pair_close(&t);
}

/* Users and roles that have changed since make a token old, until somebody logs in again; who has
 * the public key alone gives out none. */
TEST(old_and_verified_only_jwts_are_as_etcds)
{
    static const char old[] = "etcdserver: revision of auth store is old";
    struct pair t;

    peer_need();
    make_keys(JWT_ES256);
    pair_open(&t);
    pair_start(&t, flag_of(JWT_ES256, true, true, "1h"));
    set_up(&t.etcd);
    set_up(&t.ours);
    const char *token = log_in(&t.etcd, "<\303\244>");
    const char *of_root = log_in(&t.ours, "root");
    check_both(&t, token, "a", "ok");
    PEER_CTL(&t.etcd, "--auth-jwt-token %s role add other", of_root);
    PEER_CTL(&t.ours, "--auth-jwt-token %s role add other", of_root);
    check_both(&t, token, "a", old);
    token = log_in(&t.ours, "<\303\244>");
    check_both(&t, token, "a", "ok");
    pair_stop(&t);

    pair_start(&t, flag_of(JWT_ES256, true, false, "1h"));
    check_both(&t, token, "a", "ok"); /* a restart forgets nothing */
    CHECK_STR(log_in(&t.ours, "root"), log_in(&t.etcd, "root"));
    CHECK(strstr(log_in(&t.ours, "root"), "auth: token signing attempted with verify-only key"));
    CHECK_STR(health(&t.ours), "{\"health\":\"true\",\"reason\":\"\"}");
    CHECK_STR(health(&t.etcd), /* it would sign a token to look at itself */
              "{\"health\":\"false\",\"reason\":\"RANGE ERROR:auth: user name is empty\"}");
    pair_stop(&t);
    pair_close(&t);
}

static void check_refused(struct peer *p, const char *flags, const char *why)
{
    int status;

    peer_run(&p->arena, "rm -f %s.log", p->dir);
    peer_launch(p, flags);
    CHECK_EQ(waitpid(p->pid, &status, 0), p->pid);
    p->pid = 0;
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) != 0);
    const char *said = peer_run(&p->arena, "cat %s.log", p->dir);
    if (!strstr(said, why))
        test_fail(__FILE__, __LINE__, "%s: not \"%s\" but: %s", flags, why, said);
}

TEST(options_of_jwts_are_refused_in_etcds_words)
{
    struct pair t;
    char flags[512];
    const struct {
        const char *options, *why;
    } cases[] = {
        {"", "auth: invalid auth options"},
        {",sign-method=es256", "auth: invalid auth options"},
        {",sign-method=ES256,pub-key=/nonexistent", "auth: invalid auth options"},
        {",sign-method=ES256,ttl=x", "auth: invalid auth options"},
        {",sign-method=ES256", "auth: missing key data"},
        {",sign-method=HS256,pub-key=public", "auth: missing key data"},
        {",sign-method=ES256,pub-key=public,priv-key=other",
         "auth: public and private keys don't match"},
        {",sign-method=RS256,priv-key=private", "key is not a valid RSA private key"},
        {",sign-method=ES256,pub-key=text",
         "invalid key: Key must be a PEM encoded PKCS1 or PKCS8 key"},
    };

    peer_need();
    pair_open(&t);
    make_keys(JWT_ES256);
    peer_run(&t.etcd.arena, "cp %s/private %s/other && echo text > %s/text", test_tmp_dir(),
             test_tmp_dir(), test_tmp_dir());
    make_keys(JWT_ES256);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *full =
            peer_run(&t.etcd.arena, "echo '%s' | sed 's#-key=\\([a-z]\\)#-key=%s/\\1#g'",
                     cases[i].options, test_tmp_dir());
        snprintf(flags, sizeof(flags), "--auth-token=jwt%s", full);
        check_refused(&t.etcd, flags, cases[i].why);
        check_refused(&t.ours, flags, cases[i].why);
    }
    pair_close(&t);
}
