#include "backend/lmdb_int.h"

#include "base/assert.h"
#include "io/clock.h"

#include <sys/mman.h>
#include <time.h>

/*
 * Letting go is madvise(MADV_DONTNEED) on part of the map. That map is shared, of a file, and never
 * written through (LMDB writes with pwrite as long as MDB_WRITEMAP is off), so the call takes
 * nothing but entries out of the page tables. The pages stay in the kernel's cache with their
 * content, and whoever holds a pointer into one, in whatever thread and at whatever moment, finds
 * the same bytes there: the next look is a fault that puts the entry back, from memory if the cache
 * still has the page, else from the disk as ever. So no lock is needed against readers, against the
 * thread that commits, or against views that are open. A page that the disk cannot give back ends
 * the process by name, in lmdb_map.c, as it would at the first look.
 */
enum {
    EDGE_BYTES = 2 * MIB,    /* one fault can map as much as this, aligned: a whole large folio */
    STEP_BYTES = 32 * MIB,   /* addresses between two looks at the clock */
    JUMP_BYTES = 128 * KIB,  /* what a jump counts for: it maps a window, or a large folio */
    LARGE_BYTES = 256 * KIB, /* a value of this size is worth its own faults */
    COMMIT_JUMPS = 4,        /* the right edges of a few trees, and of the list of free pages */
    /* How much longer than letting go took the last time it is left alone. What is used again has
     * to be mapped again, which takes some six times as long: so that costs 2 % of the time. */
    PAUSE_TIMES = 256,
    PAUSE_TIMES_REMOVING = 32,
};

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;

    if (clock_gettime(clock, &t) != 0)
        return 0;
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

void lmdb_resident_open(struct lmdb_resident *m)
{
    if (pthread_mutex_init(&m->lock, NULL) != 0)
        fatal("cannot make a lock");
}

void lmdb_resident_close(struct lmdb_resident *m)
{
    pthread_mutex_destroy(&m->lock);
}

static void span_add(struct lmdb_span *s, struct lmdb_span more)
{
    bool is_first = s->low == s->high;

    s->low = is_first || more.low < s->low ? more.low : s->low;
    s->high = is_first || more.high > s->high ? more.high : s->high;
}

/* --- letting go --------------------------------------------------------------------------- */

/* To where one fault at either end can reach, within the map. */
static struct lmdb_span with_edges(const struct lmdb_resident *m, struct lmdb_span span)
{
    span.low -= span.low % EDGE_BYTES;
    span.high += EDGE_BYTES - 1;
    span.high -= span.high % EDGE_BYTES;
    span.high = span.high > m->map_bytes ? m->map_bytes : span.high;
    assert(span.low < span.high);
    return span;
}

/*
 * From `*hand`, around, until all of the span is done or the time is up. False: the kernel refuses,
 * as it does when somebody has locked all memory, and is not asked again.
 */
static bool let_go(char *map, struct lmdb_span span, uint64_t until_ns, size_t *hand, size_t *left)
{
    size_t at = *hand > span.low && *hand < span.high ? *hand : span.low;

    at -= (at - span.low) % STEP_BYTES; /* whole steps, so that they meet where they began */
    *left = span.high - span.low;
    while (*left > 0) {
        size_t step = span.high - at < STEP_BYTES ? span.high - at : STEP_BYTES;
        if (madvise(map + at, step, MADV_DONTNEED) != 0)
            return false;
        *left -= step;
        at = at + step == span.high ? span.low : at + step;
        if (*left > 0 && now_ns(CLOCK_THREAD_CPUTIME_ID) >= until_ns)
            break;
    }
    *hand = at;
    return true;
}

static bool is_time(const struct lmdb_resident *m)
{
    if (m->busy || m->jump_bytes + m->removed_bytes < LMDB_LET_GO_BYTES)
        return false;
    uint64_t times = m->removed_bytes < LMDB_LET_GO_BYTES ? PAUSE_TIMES : PAUSE_TIMES_REMOVING;
    return now_ns(CLOCK_MONOTONIC) - m->ended_ns >= times * m->took_ns;
}

/* Under the lock. What was read in a row pays by its size for being let go of; all the rest waits
 * until there is time for it. */
static bool take(struct lmdb_resident *m, struct lmdb_span *out, bool *everything)
{
    *everything = m->row_bytes < LMDB_LET_GO_BYTES;
    if (m->refused || m->high <= LMDB_LET_GO_BYTES)
        return false; /* there is not even as much */
    if (!*everything) {
        *out = m->row;
        if (m->row_before.high > 0)
            span_add(out, m->row_before);
        m->row_before = m->row;
        m->row = (struct lmdb_span){0};
        m->row_bytes = 0;
        m->jump_bytes += JUMP_BYTES; /* for pages that were looked at again still later */
        return true;
    }
    if (!is_time(m))
        return false;
    m->busy = true;
    m->jump_bytes = m->removed_bytes = 0;
    *out = (struct lmdb_span){0, m->high};
    return true;
}

static void work_off(struct lmdb_resident *m, struct lmdb_span span, bool everything)
{
    uint64_t began = now_ns(CLOCK_THREAD_CPUTIME_ID);
    size_t hand = everything ? m->hand : 0; /* nobody else's while m->busy */
    size_t left;

    bool works = let_go(m->map, with_edges(m, span), began + LMDB_LET_GO_NS_MAX, &hand, &left);
    uint64_t took = now_ns(CLOCK_THREAD_CPUTIME_ID) - began;
    pthread_mutex_lock(&m->lock);
    m->refused |= !works;
    if (left > 0)
        m->jump_bytes += LMDB_LET_GO_BYTES; /* to be continued as soon as there is time */
    if (everything) {
        m->hand = hand;
        m->ended_ns = now_ns(CLOCK_MONOTONIC);
        m->took_ns = took;
        m->busy = false;
    }
    pthread_mutex_unlock(&m->lock);
}

/* --- being told --------------------------------------------------------------------------- */

void lmdb_resident_tell(struct lmdb_resident *m, struct lmdb_touched *t)
{
    struct lmdb_span span;
    bool everything;

    pthread_mutex_lock(&m->lock);
    m->row_bytes += t->row_bytes;
    m->jump_bytes += t->jump_bytes;
    m->removed_bytes += t->removed_bytes;
    if (t->row_bytes > 0)
        span_add(&m->row, t->row);
    m->high = t->high > m->high ? t->high : m->high;
    bool due = take(m, &span, &everything);
    pthread_mutex_unlock(&m->lock);
    *t = (struct lmdb_touched){.window = t->window};
    if (due)
        work_off(m, span, everything);
}

void lmdb_resident_moved(struct lmdb_resident *m, struct lmdb_touched *t, size_t low, size_t high)
{
    size_t first = low / LMDB_WINDOW_BYTES, last = high / LMDB_WINDOW_BYTES;
    bool near = first - t->window <= 1; /* the same one, or the next */

    if (!m->map)
        return;
    if (t->row_bytes + t->jump_bytes + t->removed_bytes >= LMDB_TELL_BYTES)
        lmdb_resident_tell(m, t);
    if (high > m->map_bytes) { /* in the transaction's copy of a page */
        t->removed_bytes += high - low;
        return;
    }
    if (near || high - low >= LARGE_BYTES) {
        t->row_bytes += (last - (near ? t->window : first)) * LMDB_WINDOW_BYTES;
        t->row_bytes += near ? 0 : 4 * JUMP_BYTES; /* large folios stick out at both its ends */
        span_add(&t->row, (struct lmdb_span){low, high});
    } else {
        t->jump_bytes += JUMP_BYTES;
    }
    t->window = last;
    t->high = high > t->high ? high : t->high;
}

void lmdb_resident_committed(struct lmdb_resident *m, struct lmdb_touched *t, size_t jumps,
                             uint64_t file_bytes)
{
    if (!m->map)
        return;
    t->jump_bytes += (COMMIT_JUMPS + jumps) * JUMP_BYTES;
    t->high = file_bytes < m->map_bytes ? (size_t)file_bytes : m->map_bytes;
    lmdb_resident_tell(m, t);
}

void lmdb_read_randomly(struct store *s, bool randomly)
{
    const struct lmdb_resident *m = &lmdb_store(s)->resident;

    if (m->map) /* a hint: if it is refused, more is read than is needed, as before */
        (void)madvise(m->map, m->map_bytes, randomly ? MADV_RANDOM : MADV_NORMAL);
}
