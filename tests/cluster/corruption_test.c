/*
 * One value changed in the store of one member of three, as real processes: each of the checks
 * finds it and names that member, whether we lead or real etcd does, and whoever it is.
 */
#include "cluster/fleet.h"
#include "harness/peer_test.h"
#include "harness/test.h"
#include "io/io.h"
#include "io/loop.h"
#include "server/damage_test.h"
#include "snap/transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TRIES_MAX = 300, BAD = 1 }; /* m2 */

/* Who leads, m1, is of the same kind as m3. */
enum cast {
    ALL_OURS,
    ETCD_LEADS,
    ETCD_IS_BAD,
};

struct trial {
    enum cast cast;
    struct fleet fleet;
    struct arena arena;
    struct peer ours; /* for its program */
    const char *dir;
};

static void a_moment_passes(void)
{
    const struct timespec a_moment = {.tv_nsec = 50000000};

    nanosleep(&a_moment, NULL);
}

/* Go's texts of messages have one space or two between fields, by chance. */
static const char *ctl(struct trial *t, unsigned member, const char *what)
{
    return peer_run(&t->arena,
                    "$PEERS/etcdctl --command-timeout=3s --endpoints 127.0.0.1:%u %s 2>&1 | "
                    "tr -s ' ' | sed 's/ $//'",
                    t->fleet.members[member].client_port, what);
}

static void look(struct trial *t)
{
    if (!fleet_look(&t->fleet))
        test_fail(__FILE__, __LINE__, "%s", t->fleet.problem);
}

static void await_ctl(struct trial *t, unsigned member, const char *what, const char *text)
{
    const char *said = "";

    for (unsigned i = 0; i < TRIES_MAX; i++) {
        said = ctl(t, member, what);
        if (strstr(said, text))
            return;
        look(t);
        a_moment_passes();
    }
    test_fail(__FILE__, __LINE__, "%s at m%u never said %s, but %s", what, member + 1, text, said);
}

static bool has_logged(struct trial *t, unsigned member, const char *text)
{
    return strstr(peer_run(&t->arena, "grep -q '%s' %s/m%u.log && echo yes || true", text, t->dir,
                           member + 1),
                  "yes") != NULL;
}

static void await_log(struct trial *t, unsigned member, const char *text)
{
    for (unsigned i = 0; i < TRIES_MAX; i++) {
        if (has_logged(t, member, text))
            return;
        a_moment_passes();
    }
    test_fail(__FILE__, __LINE__, "m%u never logged %s", member + 1, text);
}

static uint64_t id_of(struct trial *t, unsigned member)
{
    const char *id = peer_run(&t->arena,
                              "$PEERS/etcdctl --endpoints 127.0.0.1:%u member list | "
                              "awk -F, '$3 == \" m%u\" { print $1 }'",
                              t->fleet.members[0].client_port, member + 1);

    return strtoull(id, NULL, 16);
}

static void open_trial(struct trial *t, enum cast cast, const char *flags)
{
    *t = (struct trial){.cast = cast, .dir = test_tmp_dir()};
    peer_need();
    peer_open_ours(&t->ours, t->dir);
    const char *etcd = gate_program(GATE_PEERS, "etcd"), *ours = t->ours.program;
    CHECK(fleet_open(&t->fleet, &(struct fleet_options){.program = cast == ETCD_LEADS ? etcd : ours,
                                                        .other = cast == ETCD_IS_BAD ? etcd : ours,
                                                        .dir = t->dir,
                                                        .flags = flags,
                                                        .count = 3,
                                                        .election_ms = 1000}));
    for (unsigned i = 0; i < 3; i++)
        CHECK(fleet_start(&t->fleet, i));
    for (unsigned i = 0; i < 10; i++)
        await_ctl(t, 0, "put k value", "OK");
    for (unsigned i = 1; i < 3; i++)
        (void)ctl(t, i,
                  arena_printf(&t->arena, "move-leader %llx", (unsigned long long)id_of(t, 0)));
    await_ctl(t, 0, "endpoint status", ", true, false,");
}

static void close_trial(struct trial *t)
{
    fleet_close(&t->fleet);
    peer_close(&t->ours);
    arena_free(&t->arena);
}

static void stop_member(struct trial *t, unsigned member)
{
    fleet_stop(&t->fleet, member);
    while (t->fleet.members[member].pid != 0) {
        look(t);
        a_moment_passes();
    }
}

/* The record of k as of its nth put, which was the first thing that anybody wrote. */
static size_t record_of_put(uint8_t nth, uint8_t out[static 16])
{
    const uint8_t record[] = {0x0a, 1,   'k', 0x10, 2,   0x18, (uint8_t)(nth + 1), 0x20, nth, 0x2a,
                              5,    'v', 'a', 'l',  'u', 'e'};

    memcpy(out, record, sizeof(record));
    return sizeof(record);
}

/* All copies of it, in pages that are used no more as well. How many? */
static unsigned spoil_record(uint8_t *at, size_t len, uint8_t nth)
{
    uint8_t record[16];
    size_t bytes = record_of_put(nth, record);
    unsigned count = 0;

    for (uint8_t *end = at + len; (at = memmem(at, (size_t)(end - at), record, bytes)); count++) {
        at += bytes;
        at[-1] ^= 1;
    }
    return count;
}

/* bbolt's pages have no checksums. Of the newest put that is there. */
static void damage_bolt(struct trial *t)
{
    const char *path = arena_printf(&t->arena, "%s/m%u/member/snap/db", t->dir, BAD + 1);
    FILE *file = fopen(path, "r+e");
    CHECK(file);
    CHECK_EQ(fseek(file, 0, SEEK_END), 0);
    size_t len = (size_t)ftell(file);
    uint8_t *all = mem_alloc(len), nth = 127;
    CHECK_EQ(fseek(file, 0, SEEK_SET), 0);
    CHECK_EQ(fread(all, 1, len, file), len);

    while (nth > 0 && spoil_record(all, len, nth) == 0)
        nth--;
    CHECK(nth >= 10);
    CHECK_EQ(fseek(file, 0, SEEK_SET), 0);
    CHECK_EQ(fwrite(all, 1, len, file), len);
    CHECK_EQ(fclose(file), 0);
    mem_free(all);
}

static void damage(struct trial *t)
{
    struct loop *loop;
    char *store = snap_store_dir(arena_printf(&t->arena, "%s/m%u", t->dir, BAD + 1));

    stop_member(t, BAD);
    if (t->cast == ETCD_IS_BAD) {
        damage_bolt(t);
        mem_free(store);
        return;
    }
    CHECK_EQ(loop_open(&(struct loop_options){.worker_threads = 1}, &loop), ERR_OK);
    damage_value(&(struct backend_options){.disk = loop_io(loop)->disk, .dir = store}, "k");
    loop_close(loop);
    mem_free(store);
}

static void await_alarm(struct trial *t)
{
    const char *named =
        arena_printf(&t->arena, "memberID:%llu alarm:CORRUPT", (unsigned long long)id_of(t, BAD));

    await_ctl(t, 0, "alarm list", named);
    CHECK_STR(ctl(t, 2, "alarm list"), named); /* and nobody else */
    await_ctl(t, 2, "put k w", "etcdserver: corrupt cluster");
    await_ctl(t, 0, "get k --print-value-only", "value");
    CHECK(strstr(peer_run(&t->arena, "curl -s http://127.0.0.1:%u/health",
                          t->fleet.members[BAD].client_port),
                 "{\"health\":\"false\",\"reason\":\"ALARM CORRUPT\"}"));
}

static void check_periodic(enum cast cast)
{
    struct trial t;

    open_trial(&t, cast, "--corrupt-check-time=1s");
    await_log(&t, 0, "finished peer corruption check");
    CHECK_STR(ctl(&t, 0, "alarm list"), "");
    damage(&t);
    CHECK(fleet_start(&t.fleet, BAD));
    await_alarm(&t);
    CHECK(has_logged(&t, 0, "same compact revision then hashes must match"));
    close_trial(&t);
}

TEST(a_damaged_member_is_named_by_the_periodic_check_of_ours)
{
    check_periodic(ALL_OURS);
}

TEST(a_damaged_member_is_named_by_the_periodic_check_of_etcd)
{
    check_periodic(ETCD_LEADS);
}

TEST(a_damaged_etcd_is_named_by_the_periodic_check_of_ours)
{
    check_periodic(ETCD_IS_BAD);
}

static void check_compaction(enum cast cast)
{
    struct trial t;

    open_trial(&t, cast, "--feature-gates=CompactHashCheck=true --compact-hash-check-time=1s");
    await_ctl(&t, 0, "compact 5 --physical", "compacted revision 5");
    await_log(&t, 0, "successfully checked hash on whole cluster");
    damage(&t);
    CHECK(fleet_start(&t.fleet, BAD));
    await_ctl(&t, BAD, "get k --print-value-only", "valu");
    await_ctl(&t, 0, "compact 11 --physical", "compacted revision 11");
    await_alarm(&t);
    CHECK(has_logged(&t, 0, "Detected compaction hash mismatch"));
    close_trial(&t);
}

TEST(a_damaged_member_is_named_by_the_compaction_check_of_ours)
{
    check_compaction(ALL_OURS);
}

TEST(a_damaged_member_is_named_by_the_compaction_check_of_etcd)
{
    check_compaction(ETCD_LEADS);
}

TEST(a_damaged_etcd_is_named_by_the_compaction_check_of_ours)
{
    check_compaction(ETCD_IS_BAD);
}

/* Whoever has not been damaged may start; and one that was is told by two others. */
static void check_initial(enum cast cast)
{
    struct trial t;

    open_trial(&t, cast, "--feature-gates=InitialCorruptCheck=true");
    for (unsigned i = 0; i < 3; i++) {
        stop_member(&t, i);
        CHECK(fleet_start(&t.fleet, i));
        await_ctl(&t, i, "get k --print-value-only", "value");
        CHECK(has_logged(&t, i, "initial corruption checking passed; no corruption"));
        CHECK(!has_logged(&t, i, "failed hash kv request"));
    }
    unsigned long long id = id_of(&t, BAD);
    damage(&t);
    CHECK(fleet_start(&t.fleet, BAD));
    await_log(&t, BAD, arena_printf(&t.arena, "%llx found data inconsistency with peers", id));
    while (fleet_look(&t.fleet))
        a_moment_passes();

    CHECK(strstr(t.fleet.problem, "m2 ended by itself, status 0x100;"));
    CHECK(has_logged(&t, BAD, "found different hash values from remote peer"));
    await_ctl(&t, 0, "put k more", "OK");
    CHECK_STR(ctl(&t, 0, "alarm list"), "");
    close_trial(&t);
}

TEST(a_damaged_member_does_not_start_beside_ours)
{
    check_initial(ALL_OURS);
}

TEST(a_damaged_member_does_not_start_beside_etcd)
{
    check_initial(ETCD_LEADS);
}
