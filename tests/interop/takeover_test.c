/*
 * A directory of etcd's that we serve, whatever the log behind its store holds.
 *
 *     etcd, or a member of ours whose store was exported, writes to its log and dies before its
 *     store has the entries --> cleat starts on the directory, and serves all of them
 */
#include "harness/peer_test.h"
#include "harness/test.h"
#include "interop/json_caller_test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FLAGS "--bcrypt-cost 4"

static const char *data_dir(struct arena *arena)
{
    return arena_printf(arena, "%s/data", test_tmp_dir());
}

/* The program that serves the directory from now on. */
static void become_ours(struct peer *p)
{
    struct peer ours;

    peer_open_ours(&ours, p->dir);
    p->program = arena_printf(&p->arena, "%s", ours.program);
    p->is_ours = true;
    peer_close(&ours);
}

/* ---- A login ---- */

static void call(struct peer *p, const char *path, const struct pb_schema *schema,
                 const void *message)
{
    struct json_caller j;

    json_caller_open(&j, p);
    json_caller_start(&j, path, schema, message);
    json_caller_wait(&j);
    if (j.status != 200)
        test_fail(__FILE__, __LINE__, "%s: %u %s", path, j.status, buf_str(&j.body));
    json_caller_close(&j);
}

#define CALL(p, path, name, ...)                                                                   \
    call((p), (path), &pb_##name##_schema, &(struct pb_##name){__VA_ARGS__})

static void enable_auth(struct peer *p)
{
    CALL(p, "/v3/auth/user/add", auth_user_add_request, .name = BYTES("root"),
         .password = BYTES("pw"));
    call(p, "/v3/auth/role/add", &pb_auth_role_add_request_schema,
         &(struct pb_auth_name){.name = BYTES("root")});
    CALL(p, "/v3/auth/user/grant", auth_user_grant_role_request, .user = BYTES("root"),
         .role = BYTES("root"));
    call(p, "/v3/auth/enable", &pb_auth_enable_request_schema, &(struct pb_empty){0});
}

/* Twice: the replay has several tokens to make anew. */
static void log_in(struct peer *p)
{
    for (int i = 0; i < 2; i++)
        CALL(p, "/v3/auth/authenticate", authenticate_request, .name = BYTES("root"),
             .password = BYTES("pw"));
}

/* Without peer_await, which asks etcd for its health as a user without a name. */
static void start(struct peer *p, const char *flags)
{
    unsigned before = peer_said(p, "ready to serve client requests");

    peer_launch(p, arena_printf(&p->arena, FLAGS " %s", flags));
    peer_await_said(p, "ready to serve client requests", before + 1);
}

/* The member serves, and the logins in its log have left nothing behind that is in the way of
 * others. */
static void check_ours_serves(struct peer *p)
{
    become_ours(p);
    start(p, "");
    CHECK_EQ(peer_said(p, "imported etcd's store"), 1);
    log_in(p);
    peer_stop(p);
}

/* The store of an earlier moment, with the log of now: as if the process had been killed before the
 * store had the last entries. */
TEST(a_login_in_the_log_behind_an_exported_store_is_replayed)
{
    struct peer p;
    struct arena arena = {0};
    peer_open_ours(&p, data_dir(&arena));
    start(&p, "");
    enable_auth(&p);
    peer_stop(&p);
    peer_run(&arena, "%sutl export %s && cp %s/member/snap/db %s.old", p.program, p.dir, p.dir,
             p.dir);
    start(&p, "");
    log_in(&p);
    peer_stop(&p);
    peer_run(&arena,
             "cd %s/member && rm -r store snap/db.imported && mv ../../data.old snap/db && "
             "rm ../../data.log",
             p.dir);

    check_ours_serves(&p);

    peer_close(&p);
    arena_free(&arena);
}

/* Whether this member is a learner is asked of the trial's own store. */
TEST(a_directory_of_etcds_becomes_a_new_cluster_by_force)
{
    struct peer p;
    struct arena arena = {0};
    peer_open_ours(&p, data_dir(&arena));
    start(&p, "");
    enable_auth(&p);
    peer_stop(&p);
    peer_run(&arena, "%sutl export %s && rm %s.log", p.program, p.dir, p.dir);

    start(&p, "--force-new-cluster");

    CHECK_EQ(peer_said(&p, "imported etcd's store"), 1);
    CHECK_EQ(peer_said(&p, "forcing restart member"), 2); /* by the trial, and in earnest */
    log_in(&p);
    peer_stop(&p);
    peer_close(&p);
    arena_free(&arena);
}

static void check_login(const char *etcd)
{
    struct peer p;
    struct arena arena = {0};
    peer_open(&p, data_dir(&arena));
    p.program = etcd;
    start(&p, "--backend-batch-interval 1h --backend-batch-limit 1000000");
    enable_auth(&p);
    peer_stop(&p); /* its store has the users */
    start(&p, "--backend-batch-interval 1h --backend-batch-limit 1000000");
    log_in(&p);
    peer_kill(&p); /* and not the logins */

    check_ours_serves(&p);

    peer_close(&p);
    arena_free(&arena);
}

TEST(a_login_in_the_log_of_an_etcd_that_was_killed_is_replayed)
{
    check_login(gate_program(GATE_PEERS, "etcd"));
}

TEST(a_login_in_the_log_of_an_etcd_36_that_was_killed_is_replayed)
{
    check_login(gate_program(GATE_PEERS36, "etcd"));
}

/* ---- A directory that others may read ---- */

static const char *warnings(struct peer *p)
{
    return peer_run(&p->arena, "grep -o '\"msg\":\"check file permission\".*' %s.log; rm %s.log",
                    p->dir, p->dir);
}

TEST(modes_are_warned_of_as_etcd_does)
{
    struct peer p;
    struct arena arena = {0};
    peer_open(&p, data_dir(&arena));
    peer_run(&arena,
             "mkdir -p %s/member/snap && chmod 1777 %s && chmod 2750 %s/member && "
             "chmod 0500 %s/member/snap",
             p.dir, p.dir, p.dir, p.dir);
    if (geteuid() != 0)
        peer_run(&arena, "chmod 0701 %s/member/snap", p.dir); /* who is bound by it needs it */
    start(&p, "");
    peer_stop(&p);
    const char *theirs = warnings(&p);

    become_ours(&p);
    start(&p, "");
    peer_stop(&p);
    CHECK_STR(warnings(&p), theirs);
    CHECK(strstr(theirs, "the permission is \\\"dtrwxrwxrwx\\\""));

    peer_close(&p);
    arena_free(&arena);
}
