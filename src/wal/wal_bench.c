/*
 * What an entry costs to encode, and how close a stream of 64 KB batches comes to what the disk can
 * do, measured against plain pwrite and fdatasync in the same run, turn by turn.
 */
#include "base/assert.h"
#include "base/mem.h"
#include "harness/bench.h"
#include "io/loop.h"
#include "wal/wal_int.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* --- a disk that is infinitely fast --- */

struct null_disk {
    struct disk base;
    struct disk_op *queued[8];
    size_t count;
};

static void null_run(struct disk *d, struct disk_op *op)
{
    static int file;

    (void)d;
    if (op->kind == DISK_OPEN)
        op->file = (struct disk_file *)(void *)&file;
    op->done = 0;
    for (size_t i = 0; op->kind == DISK_WRITE && i < op->piece_count; i++)
        op->done += op->pieces[i].len;
    op->err = op->kind == DISK_LIST ? ERR_NOT_FOUND : ERR_OK;
}

static void null_submit(struct disk *base, enum disk_queue queue, struct disk_op *op)
{
    struct null_disk *d = container_of(base, struct null_disk, base);

    (void)queue;
    assert(d->count < ARRAY_LEN(d->queued));
    d->queued[d->count++] = op;
}

static void null_finish_all(struct null_disk *d)
{
    while (d->count > 0) {
        struct disk_op *op = d->queued[0];
        memmove(d->queued, d->queued + 1, --d->count * sizeof(struct disk_op *));
        null_run(&d->base, op);
        op->on_done(op);
    }
}

struct encoding {
    struct null_disk disk;
    struct wal *wal;
    struct blob *data;
    uint64_t index;
};

enum { ENTRIES_EACH = 64 };

static void encode(void *context, uint64_t times)
{
    struct encoding *e = context;
    struct raft_entry entries[ENTRIES_EACH];

    for (uint64_t i = 0; i < times; i++) {
        for (size_t n = 0; n < ENTRIES_EACH; n++)
            entries[n] = (struct raft_entry){
                .term = 3, .index = ++e->index, .data = blob_bytes(e->data), .blob = e->data};
        struct wal_save save = {.entries = entries,
                                .entry_count = ENTRIES_EACH,
                                .state = {.term = 3, .vote = 1, .commit = e->index - ENTRIES_EACH}};
        wal_append(e->wal, &save);
        null_finish_all(&e->disk);
        if (i % 64 == 0)
            wal_release(e->wal, e->index);
    }
}

static void encode_entries(size_t len, const char *suffix)
{
    static const struct disk_ops ops = {.submit = null_submit, .run = null_run};
    static const struct logger logger = {.level = LOG_FATAL};
    struct encoding e = {.disk.base.ops = &ops};
    uint8_t *fill;

    e.data = blob_new(len, &fill);
    memset(fill, 'x', len);
    struct wal_options opt = {.dir = "wal", .logger = &logger};
    if (wal_create(&e.disk.base, &opt, &(struct pb_wal_metadata){1, 1}, &e.wal) != ERR_OK)
        fatal("bench: cannot create a log on no disk at all");
    null_finish_all(&e.disk);
    bench_run(&(struct bench_work){
        .suffix = suffix, .body = encode, .context = &e, .bytes_each = len * ENTRIES_EACH});
    null_finish_all(&e.disk);
    wal_close(e.wal);
    blob_unref(e.data);
}

BENCH(wal_append_64_entries)
{
    encode_entries(256, "256_bytes");
    encode_entries(WAL_SHARE_BYTES_MIN - 1, "16k_copied");
    encode_entries(WAL_SHARE_BYTES_MIN, "16k_shared");
}

/* --- a real one --- */

/* Many short rounds, by turns, of which the middle one counts: a shared disk has moods. */
enum { BATCH_BYTES = 64 * 1024, ROUND = 10, ROUNDS = 75 };

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double raw_round(int fd, off_t *offset)
{
    static uint8_t block[BATCH_BYTES];
    double began = now_s();

    for (int i = 0; i < ROUND; i++, *offset += BATCH_BYTES) {
        memset(block, i + 1, sizeof(block));
        if (pwrite(fd, block, sizeof(block), *offset) != sizeof(block) || fdatasync(fd) != 0)
            fatal("bench: cannot write");
    }
    return now_s() - began;
}

struct streaming {
    struct loop *loop;
    struct inbox *inbox;
    struct wal *wal;
    struct raft_entry entries[256];
    size_t count; /* of them to a batch */
    uint64_t index;
    unsigned to_send;
};

static void turn(void *context)
{
    inbox_drain(((struct streaming *)context)->inbox, 100);
}

static void send(struct streaming *s)
{
    if (s->to_send == 0)
        return;
    s->to_send--;
    for (size_t i = 0; i < s->count; i++)
        s->entries[i].index = ++s->index;
    wal_append(s->wal, &(struct wal_save){.entries = s->entries, .entry_count = s->count});
}

static void on_durable(void *context, uint64_t seq)
{
    (void)seq;
    send(context);
}

/* One batch is being written while the next one gathers. */
static double wal_round(struct streaming *s)
{
    double began = now_s();

    s->to_send = ROUND;
    send(s);
    send(s);
    while (s->to_send > 0 || wal_durable(s->wal) < wal_sync(s->wal))
        loop_run_once(s->loop, turn, s);
    return now_s() - began;
}

static void open_stream(struct streaming *s, const char *dir, struct blob *data)
{
    static const struct logger logger = {.level = LOG_FATAL};
    struct wal_options opt = {
        .dir = dir, .logger = &logger, .on_durable = on_durable, .context = s};

    if (loop_open(&(struct loop_options){0}, &s->loop) != ERR_OK)
        fatal("bench: no loop");
    s->inbox = loop_io(s->loop)->inbox;
    if (wal_create(loop_io(s->loop)->disk, &opt, &(struct pb_wal_metadata){1, 1}, &s->wal) !=
        ERR_OK)
        fatal("bench: cannot create %s", dir);
    size_t frame = 256 + 32;
    s->count = BATCH_BYTES / frame;
    for (size_t i = 0; i < s->count; i++)
        s->entries[i] = (struct raft_entry){.term = 1, .data = blob_bytes(data), .blob = data};
    while (!wal_is_idle(s->wal))
        loop_run_once(s->loop, turn, s);
}

static void close_stream(struct streaming *s, const char *dir)
{
    char command[256];

    while (!wal_is_idle(s->wal))
        loop_run_once(s->loop, turn, s);
    wal_close(s->wal);
    loop_close(s->loop);
    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    if (system(command) != 0)
        fatal("bench: cannot remove %s", dir);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double middle(double times[static ROUNDS])
{
    qsort(times, ROUNDS, sizeof(*times), compare);
    return times[ROUNDS / 2];
}

BENCH(wal_stream_64k)
{
    char top[] = "build/wal-bench-XXXXXX", path[64];
    struct streaming s = {0};
    uint8_t *fill;
    struct blob *data = blob_new(256, &fill);
    double raw[ROUNDS], ours[ROUNDS];
    off_t offset = 0;

    memset(fill, 'x', 256);
    if (!mkdtemp(top))
        fatal("bench: cannot make %s", top);
    snprintf(path, sizeof(path), "%s/raw", top);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || posix_fallocate(fd, 0, WAL_SEGMENT_BYTES) != 0)
        fatal("bench: cannot make %s", path);
    snprintf(path, sizeof(path), "%s/wal", top);
    open_stream(&s, path, data);
    raw_round(fd, &offset); /* warm */
    wal_round(&s);
    uint64_t before = wal_status(s.wal).bytes_written, syncs = wal_status(s.wal).syncs;
    for (int i = 0; i < ROUNDS; i++) {
        raw[i] = raw_round(fd, &offset);
        ours[i] = wal_round(&s);
    }
    double round_bytes = (double)(wal_status(s.wal).bytes_written - before) / (double)ROUNDS;
    double raw_rate = (double)(BATCH_BYTES * ROUND) / middle(raw) / 1e6;
    double rate = round_bytes / middle(ours) / 1e6;
    bench_report("syncs_each_round", (double)(wal_status(s.wal).syncs - syncs) / (double)ROUNDS,
                 "");
    bench_report("raw", raw_rate, "MB/s");
    bench_report("wal", rate, "MB/s");
    bench_report("wal_of_raw", 100 * rate / raw_rate, "%");
    close(fd);
    close_stream(&s, top);
    blob_unref(data);
}
