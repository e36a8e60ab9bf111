/* A member on a machine that is unlike others. */
#include "harness/test.h"
#include "sim/host.h"

#include <errno.h>

/* A disk whose directories cannot be synced, or, with another errno, fail to be. */
struct odd_disk {
    struct disk disk;
    struct disk *real;
    int error;
};

static void odd_run(struct disk *d, struct disk_op *op)
{
    struct odd_disk *o = container_of(d, struct odd_disk, disk);

    o->real->ops->run(o->real, op);
    if (op->kind != DISK_SYNC_DIR || op->err != ERR_OK)
        return;
    op->os_error = o->error;
    op->err = o->error == EINVAL ? ERR_OK : ERR_IO; /* as disk.h has it */
}

static void odd_submit(struct disk *d, enum disk_queue queue, struct disk_op *op)
{
    struct odd_disk *o = container_of(d, struct odd_disk, disk);

    o->real->ops->submit(o->real, queue, op);
}

static const struct disk_ops odd_ops = {.run = odd_run, .submit = odd_submit};

static void note_line(void *context, struct bytes line)
{
    buf_append(context, line);
}

static unsigned count(const struct buf *log, const char *text)
{
    unsigned n = 0;

    for (const char *at = buf_str((struct buf *)log); (at = strstr(at, text)); at++)
        n++;
    return n;
}

/* Boots a member there; true if it starts. What it says is appended to *said. */
static bool boot(int error, struct buf *said, struct buf *why)
{
    struct logger logger = {.level = LOG_INFO,
                            .format = LOG_JSON,
                            .sink = note_line,
                            .sink_context = said,
                            .clock = log_clock_none};
    struct climate climate;
    struct fake_time time;

    fake_time_init(&time, test_seed());
    climate_draw(&climate, &time.rng, 1);
    struct fake_wire *wire = fake_wire_new(&time, &(struct fake_wire_options){0});
    struct sim_host *h = sim_host_new(&time, wire, 0, &climate, &logger);
    struct odd_disk odd = {.disk = {.ops = &odd_ops}, .real = h->io.disk, .error = error};
    h->io.disk = &odd.disk;
    bool started = sim_host_start(h);
    buf_append(why, buf_bytes(&h->why));
    sim_host_crash(h, FAKE_KILLED);
    sim_host_free(h);
    fake_wire_free(wire);
    fake_time_free(&time);
    return started;
}

TEST(a_member_whose_directories_cannot_be_synced_starts_and_says_so_once)
{
    struct buf said = {0}, why = {0};

    CHECK(boot(EINVAL, &said, &why));
    CHECK_EQ(count(&said, "cannot sync directories"), 1);
    buf_free(&said);

    CHECK(!boot(EIO, &said, &why));
    CHECK_EQ(count(&said, "cannot sync directories"), 0);
    CHECK(strstr(buf_str(&why), "/data"));
    buf_free(&said);
    buf_free(&why);
}
