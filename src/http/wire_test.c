#include "http/wire.h"

#include "base/mem.h"
#include "harness/test.h"
#include "io/conn_queue.h"

/* A connection whose kernel takes what the test lets it. */
struct kernel {
    struct conn base;
    struct inbox inbox;
    struct conn_queue queue;
    struct buf taken;
    size_t credit;
    unsigned asked;
};

static struct kernel *kernel_of(const struct conn *c)
{
    return (struct kernel *)(void *)c;
}

static void take(struct kernel *k, struct bytes what)
{
    buf_append(&k->taken, what);
    k->credit -= what.len;
}

static size_t try_write(struct conn *c, struct bytes what)
{
    struct kernel *k = kernel_of(c);
    size_t now = what.len < k->credit ? what.len : k->credit;

    CHECK_EQ(k->queue.bytes, 0); /* nothing may pass what is queued */
    take(k, bytes_of(what.at, now));
    return now;
}

static size_t write_credit(const struct conn *c)
{
    struct kernel *k = kernel_of(c);

    k->asked++;
    return k->credit;
}

static void write_queued(struct conn *c, struct conn_write *w)
{
    conn_queue_add(&kernel_of(c)->queue, w);
}

static const struct conn_ops ops = {
    .write = write_queued, .try_write = try_write, .write_credit = write_credit};

struct wire_rig {
    struct kernel kernel;
    struct wire_pool pool;
    struct wire wire;
    size_t sent; /* as the wire has told us */
};

static void on_sent(struct wire *w, size_t bytes)
{
    container_of(w, struct wire_rig, wire)->sent += bytes;
}

static void open_wire(struct wire_rig *r)
{
    *r = (struct wire_rig){.kernel.base.ops = &ops};
    inbox_init(&r->kernel.inbox, NULL, NULL);
    conn_queue_init(&r->kernel.queue);
    wire_pool_init(&r->pool);
    r->wire = (struct wire){.pool = &r->pool, .conn = &r->kernel.base, .on_sent = on_sent};
}

static void close_wire(struct wire_rig *r)
{
    wire_drop(&r->wire);
    wire_pool_free(&r->pool);
    buf_free(&r->kernel.taken);
}

/* The kernel has space again, and takes what is queued. */
static void kernel_goes_on(struct wire_rig *r, size_t credit)
{
    struct kernel *k = &r->kernel;
    struct bytes next;

    k->credit = credit;
    while (k->credit > 0 && conn_queue_peek(&k->queue, &next, 1) > 0) {
        next.len = next.len < k->credit ? next.len : k->credit;
        take(k, next);
        conn_queue_sent(&k->queue, next.len, &k->inbox);
    }
    inbox_drain(&k->inbox, SIZE_MAX);
}

static void gather(struct wire_rig *r, size_t bytes)
{
    memset(buf_extend(wire_buf(&r->wire), bytes), 'x', bytes);
}

TEST(what_the_kernel_takes_at_once_is_not_kept)
{
    struct wire_rig r;
    open_wire(&r);
    r.kernel.credit = SIZE_MAX;

    buf_append_str(wire_buf(&r.wire), "one, ");
    buf_append_str(wire_buf(&r.wire), "two");
    CHECK_EQ(wire_send(&r.wire), 8);

    CHECK_BYTES(buf_bytes(&r.kernel.taken), BYTES("one, two"));
    CHECK(!wire_is_blocked(&r.wire));
    CHECK(!r.wire.filling);
    CHECK_EQ(r.pool.spare_count, 1);
    CHECK(list_empty(&r.pool.sent));
    CHECK_EQ(wire_send(&r.wire), 0);
    CHECK_EQ(r.kernel.asked, 0);
    close_wire(&r);
}

TEST(what_it_does_not_take_waits_and_nothing_passes_it)
{
    struct wire_rig r;
    open_wire(&r);
    r.kernel.credit = 4;

    buf_append_str(wire_buf(&r.wire), "one, two");
    CHECK_EQ(wire_send(&r.wire), 4);
    CHECK(wire_is_blocked(&r.wire));
    CHECK(wire_is_full(&r.wire));
    buf_append_str(wire_buf(&r.wire), ", three");
    CHECK_EQ(wire_send(&r.wire), 0);
    kernel_goes_on(&r, 6);
    CHECK(wire_is_blocked(&r.wire));
    CHECK_EQ(r.sent, 4);
    kernel_goes_on(&r, 100);

    CHECK_BYTES(buf_bytes(&r.kernel.taken), BYTES("one, two, three"));
    CHECK(!wire_is_blocked(&r.wire));
    CHECK(!wire_is_full(&r.wire));
    CHECK_EQ(r.sent, 11);
    close_wire(&r);
}

/* A frame is always welcome; past that the kernel is asked, once, and not for more than it has. */
TEST(past_a_frame_only_as_much_gathers_as_the_kernel_has_room_for)
{
    static const struct {
        size_t credit;
        unsigned frames;
    } cases[] = {{0, 1},
                 {WIRE_FRAME_BYTES, 1},
                 {2 * WIRE_FRAME_BYTES, 2},
                 {3 * WIRE_FRAME_BYTES - 1, 2},
                 {SIZE_MAX, WIRE_BYTES_MAX / WIRE_FRAME_BYTES}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct wire_rig r;
        unsigned frames = 0;
        open_wire(&r);
        r.kernel.credit = cases[i].credit;

        for (; !wire_is_full(&r.wire); frames++)
            gather(&r, WIRE_FRAME_BYTES);

        CHECK_EQ(frames, cases[i].frames);
        r.kernel.credit = SIZE_MAX; /* this comes too late */
        CHECK(wire_is_full(&r.wire));
        CHECK_EQ(r.kernel.asked, 1);
        close_wire(&r);
    }
}
