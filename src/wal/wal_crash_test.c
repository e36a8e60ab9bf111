/*
 * Power cuts at every moment, and every disk call failing once. What is there afterwards must be
 * what was acknowledged, or that and some of what came right after it; never less, never a mixture.
 */
#include "wal/wal_rig_test.h"

#include <stdio.h>

enum { STEPS = 120, SEGMENT = 8192 };

/* One life of a log: a fixed amount of work, with time passing in between, until it is done or the
 * disk has been called `calls_max` times. */
static void live(struct wal_rig *rig, uint64_t calls_max)
{
    for (int i = 0; i < STEPS && !rig->failed[0]; i++) {
        wal_rig_do_something(rig);
        for (uint64_t n = rng_below(&rig->rng, 6); n > 0 && !rig->failed[0]; n--) {
            if (fake_disk_calls(rig->world->disk) >= calls_max)
                return;
            fake_world_step(rig->world);
        }
    }
}

/* After a crash: what is there is right, it can be used, and is right again. */
static void check_revival(struct wal_rig *rig)
{
    CHECK_EQ(wal_rig_open(rig, false), ERR_OK);
    for (int i = 0; i < 10; i++)
        wal_rig_do_something(rig);
    wal_rig_settle(rig);
    CHECK_STR(rig->failed, "");
    wal_rig_close(rig);
    CHECK_EQ(wal_rig_open(rig, true), ERR_OK);
    wal_rig_close(rig);
}

static uint64_t calls_of_a_life(uint64_t seed)
{
    struct wal_rig *rig = wal_rig_new(seed, SEGMENT);

    CHECK_EQ(wal_rig_create(rig), ERR_OK);
    live(rig, UINT64_MAX);
    wal_rig_settle(rig);
    uint64_t calls = fake_disk_calls(rig->world->disk);
    wal_rig_close(rig);
    wal_rig_free(rig);
    return calls;
}

static void crash_at_every_call(enum fake_crash how, uint64_t seeds)
{
    uint64_t crashes = 0, torn = 0;

    for (uint64_t seed = test_seed(); seed < test_seed() + seeds * test_effort(); seed++) {
        uint64_t calls = calls_of_a_life(seed);
        for (uint64_t at = 20; at <= calls; at++) {
            struct wal_rig *rig = wal_rig_new(seed, SEGMENT);
            struct replayed o;
            struct wal_found found;

            CHECK_EQ(wal_rig_create(rig), ERR_OK);
            live(rig, at);
            wal_rig_crash(rig, how);
            CHECK_EQ(replayed_of_disk(rig, &o, &found), ERR_OK);
            torn += found.torn;
            replayed_free(&o);
            check_revival(rig);
            wal_rig_free(rig);
            crashes++;
        }
    }
    printf("%llu crashes, %llu torn records\n", (unsigned long long)crashes,
           (unsigned long long)torn);
    CHECK(crashes > 100);
    CHECK(how != FAKE_TORN || torn > 10);
}

TEST(a_kill_at_every_call_loses_nothing_acknowledged)
{
    crash_at_every_call(FAKE_KILLED, 1);
}

TEST(a_power_cut_at_every_call_loses_nothing_acknowledged)
{
    crash_at_every_call(FAKE_POWER_CUT, 1);
}

TEST(torn_and_reordered_sectors_at_every_call_lose_nothing_acknowledged)
{
    test_runs_in_one_thread();
    crash_at_every_call(FAKE_TORN, 4);
}

/* Crash upon crash: each life begins with what the last one left. */
TEST(a_log_survives_a_hundred_power_cuts)
{
    for (uint64_t seed = test_seed(); seed < test_seed() + 3 * test_effort(); seed++) {
        struct wal_rig *rig = wal_rig_new(seed, SEGMENT);

        CHECK_EQ(wal_rig_create(rig), ERR_OK);
        for (int round = 0; round < 100; round++) {
            uint64_t calls = fake_disk_calls(rig->world->disk);
            live(rig, calls + rng_below(&rig->rng, 40));
            wal_rig_crash(rig, rng_chance(&rig->rng, 3, 4) ? FAKE_TORN : FAKE_KILLED);
            CHECK_EQ(wal_rig_open(rig, false), ERR_OK);
        }
        wal_rig_close(rig);
        wal_rig_free(rig);
    }
}

/* --- every call fails once --- */

enum { LIVES = 2 };

struct tally {
    unsigned refused;  /* an opening that said no */
    unsigned died;     /* a running log that ended the process */
    unsigned waited;   /* for space: and then went on */
    unsigned harmless; /* nobody was hurt: the next segment's reservation, a purge, a close */
};

/* Two lives, the second after closing and opening, with one call failing somewhere. False if the
 * fault was never met. */
static bool live_with_fault(struct wal_rig *rig, struct fake_fault fault, struct tally *tally)
{
    fake_disk_fail(rig->world->disk, fault);
    for (int life = 0; life < LIVES; life++) {
        enum err e = life == 0 ? wal_rig_create(rig) : wal_rig_open(rig, false);
        if (e != ERR_OK) {
            CHECK(e == fault.err);
            tally->refused++;
            return true;
        }
        live(rig, UINT64_MAX);
        wal_rig_settle(rig);
        if (!rig->failed[0] && wal_awaits_space(rig->wal)) {
            tally->waited++;
            wal_retry(rig->wal);
            wal_rig_settle(rig);
        }
        if (rig->failed[0]) {
            CHECK(strstr(rig->failed, "/member/wal"));
            CHECK(strcasestr(rig->failed, err_text(fault.err))); /* or in the system's words */
            tally->died++;
            return true;
        }
        wal_close(rig->wal);
        rig->wal = NULL;
        if (rig->failed[0]) {
            tally->died++;
            return true;
        }
        rig->acknowledged = rig->record_count;
    }
    tally->harmless++;
    return !fake_disk_will_fail(rig->world->disk);
}

/* The first call of the fault's kind fails, then in another life the second, until none is left. */
static void fail_every_call(struct fake_fault fault)
{
    struct tally tally = {0};

    for (fault.nth = 1;; fault.nth++) {
        struct wal_rig *rig = wal_rig_new(test_seed(), SEGMENT);
        bool met = live_with_fault(rig, fault, &tally);

        /* The process is gone, the machine too, every other time. */
        static const enum fake_crash ends[] = {FAKE_KILLED, FAKE_TORN, FAKE_POWER_CUT};
        wal_rig_crash(rig, ends[fault.nth % ARRAY_LEN(ends)]);
        if (rig->record_count == 0) /* the creation failed: it can be done again */
            CHECK_EQ(wal_rig_create(rig), ERR_OK);
        else
            CHECK_EQ(wal_rig_open(rig, false), ERR_OK);
        wal_rig_close(rig);
        wal_rig_free(rig);
        if (!met)
            break;
    }
    printf("%llu calls: %u refused, %u died, %u waited, %u harmless\n",
           (unsigned long long)fault.nth, tally.refused, tally.died, tally.waited, tally.harmless);
    CHECK_EQ(tally.waited > 20, fault.err == ERR_NO_SPACE);
    CHECK(tally.died > 20 || (fault.kind == DISK_WRITE && fault.err == ERR_NO_SPACE));
    if (fault.kind == DISK_WRITE) {
        CHECK(fault.nth > 50);
        return;
    }
    CHECK(fault.nth > 100);
    CHECK(tally.refused > 20);
    CHECK(tally.harmless > 10);
}

TEST(every_call_fails_once_with_an_io_error)
{
    test_runs_in_one_thread();
    fail_every_call((struct fake_fault){.err = ERR_IO});
}

TEST(every_call_fails_once_for_want_of_space)
{
    test_runs_in_one_thread();
    fail_every_call((struct fake_fault){.err = ERR_NO_SPACE});
}

TEST(every_write_comes_up_short_once)
{
    test_runs_in_one_thread();
    fail_every_call((struct fake_fault){.kind = DISK_WRITE, .err = ERR_NO_SPACE, .written = 100});
    fail_every_call((struct fake_fault){.kind = DISK_WRITE, .err = ERR_IO, .written = 777});
}

/* Without a simulator to tell, it is the process that ends. */
TEST(a_failed_sync_ends_the_process_naming_the_file)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), SEGMENT);

    rig->opt.on_failed = NULL;
    CHECK_EQ(wal_rig_create(rig), ERR_OK);
    wal_rig_settle(rig);
    fake_disk_fail(rig->world->disk,
                   (struct fake_fault){.kind = DISK_SYNC, .nth = 1, .err = ERR_IO});
    wal_rig_state(rig, 1, 7, 0);
    CHECK_DIES(wal_rig_settle(rig), "wal: sync of /member/wal/0000000000000000-0000000000000000.wal"
                                    " failed: input/output error");
    fake_disk_fail(rig->world->disk, (struct fake_fault){0});
    wal_rig_settle(rig);
    wal_rig_close(rig);
    wal_rig_free(rig);
}

/*
 * A sync fails, and the process ends; the kernel still shows what was to be synced, and takes it
 * for clean. The next life finds those entries, and appends behind them. If it does not write them
 * again they are gone with the power, from the middle of what was acknowledged since.
 */
TEST(what_a_failed_sync_has_left_in_memory_alone_is_written_again)
{
    for (uint64_t seed = test_seed(); seed < test_seed() + 20 * test_effort(); seed++) {
        struct wal_rig *rig = wal_rig_new(seed, (uint64_t)64 * SEGMENT);
        size_t data_len = 1 + (size_t)(seed * 397 % 3000);
        CHECK_EQ(wal_rig_create(rig), ERR_OK);
        wal_rig_state(rig, 1, 7, 0);
        wal_rig_entries(rig, 1, 5, data_len);
        wal_rig_settle(rig);
        fake_disk_fail(rig->world->disk,
                       (struct fake_fault){.kind = DISK_SYNC, .nth = 1, .err = ERR_IO});
        wal_rig_entries(rig, 6, 5, data_len);
        wal_rig_settle(rig);
        CHECK(rig->failed[0] != 0);
        wal_rig_crash(rig, FAKE_KILLED);

        CHECK_EQ(wal_rig_open(rig, false), ERR_OK);
        CHECK_EQ(rig->last, 10); /* all there, as it seems */
        wal_rig_entries(rig, 11, 2, data_len);
        wal_rig_settle(rig);
        CHECK_STR(rig->failed, "");
        wal_rig_crash(rig, FAKE_POWER_CUT);

        CHECK_EQ(wal_rig_open(rig, true), ERR_OK);
        CHECK_EQ(rig->last, 12);
        wal_rig_close(rig);
        wal_rig_free(rig);
    }
}
