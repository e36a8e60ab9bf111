#include "io/io_rig_test.h"

#include "base/arena.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PATIENCE_S = 30, PATIENCE_STEPS = 10 * 1000 * 1000 };

static struct arena paths;

void rig_open_real(struct rig *rig)
{
    *rig = (struct rig){0};
    CHECK_EQ(loop_open(&(struct loop_options){.worker_threads = 2}, &rig->loop), ERR_OK);
    rig->io = loop_io(rig->loop);
}

void rig_open_fake(struct rig *rig)
{
    *rig = (struct rig){.fake = fake_world_new(test_seed())};
    rig->io = fake_world_io(rig->fake);
    CHECK_EQ(disk_make_dir(rig->io->disk, test_tmp_dir(), 0700, DISK_PARENTS), ERR_OK);
}

void rig_close(struct rig *rig)
{
    if (rig->loop)
        loop_close(rig->loop);
    else
        fake_world_free(rig->fake);
    arena_free(&paths);
}

static void turn(void *context)
{
    struct rig *rig = context;

    inbox_drain(rig->io->inbox, 1);
}

static void out_of_patience(struct timer *t)
{
    (void)t;
    test_fail(__FILE__, __LINE__, "it did not happen within %d s", PATIENCE_S);
}

void rig_step(struct rig *rig)
{
    if (rig->loop)
        loop_run_once(rig->loop, turn, rig);
    else
        CHECK(fake_world_step(rig->fake));
}

static void until_real(struct rig *rig, const unsigned *count, unsigned want)
{
    struct timer patience = {.on_time = out_of_patience};

    timer_start(rig->io->clock, &patience, PATIENCE_S * NS_PER_S);
    while (*count < want)
        rig_step(rig);
    timer_stop(rig->io->clock, &patience);
}

void rig_until(struct rig *rig, const unsigned *count, unsigned want)
{
    if (rig->loop)
        until_real(rig, count, want);
    for (unsigned steps = 0; *count < want; steps++) {
        CHECK(steps < PATIENCE_STEPS);
        rig_step(rig);
    }
    CHECK_EQ(*count, want);
}

struct pause {
    struct timer timer;
    unsigned over;
};

static void pause_over(struct timer *t)
{
    container_of(t, struct pause, timer)->over++;
}

void rig_for_ms(struct rig *rig, uint64_t ms)
{
    struct pause p = {.timer.on_time = pause_over};

    timer_start(rig->io->clock, &p.timer, ms * NS_PER_MS);
    rig_until(rig, &p.over, 1);
}

static rlim_t soft_limit(rlim_t wanted)
{
    struct rlimit files;

    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
    rlim_t before = files.rlim_cur;
    files.rlim_cur = wanted;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
    return before;
}

static rlim_t files_before;

/* The system bounds the number itself, and gives out the lowest that is free. */
void rig_limit_files(struct rig *rig, unsigned more)
{
    if (rig->fake) {
        rig->fake->fds.max = rig->fake->fds.open + more;
        return;
    }
    int lowest[8];
    CHECK(more < 8);
    for (unsigned i = 0; i <= more; i++)
        CHECK((lowest[i] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
    for (unsigned i = 0; i <= more; i++)
        close(lowest[i]);
    files_before = soft_limit((rlim_t)lowest[more]);
}

void rig_unlimit_files(struct rig *rig)
{
    if (rig->fake)
        rig->fake->fds.max = 0;
    else
        soft_limit(files_before);
}

const char *rig_path(struct rig *rig, const char *name)
{
    (void)rig;
    return arena_printf(&paths, "%s/%s", test_tmp_dir(), name);
}
