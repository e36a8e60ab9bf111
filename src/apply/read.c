#include "apply/apply_int.h"

#include "base/mem.h"

/*
 * Between its slices a transaction's read holds a scan open as a pin, so that what it looks at
 * later is not compacted away. The pin stands at the oldest revision that it may still need: the
 * state of its beginning, or what a range on its path asks for.
 */
struct read {
    struct work work;
    struct mvcc_scan pin; /* never measured */
    bool begun;
};

/* Reads come and go by the hundred thousand, mostly one at a time. */
static struct read *take_memory(struct apply *a)
{
    struct read *rd = a->spare_read;

    if (!rd)
        return mem_new(struct read);
    a->spare_read = NULL;
    *rd = (struct read){0};
    return rd;
}

static void give_memory_back(struct apply *a, struct read *rd)
{
    if (a->spare_read)
        mem_free(rd);
    else
        a->spare_read = rd;
}

void apply_read_begin(struct apply *a, struct apply_read *r)
{
    assert(!r->state);
    assert(!r->range != !r->txn);
    assert(!r->txn || (!r->keep_open && apply_txn_is_read_only(r->txn)));

    struct read *rd = take_memory(a);
    rd->work.apply = a;
    rd->work.txn = r->txn;
    rd->work.keep_open = r->keep_open;
    rd->work.reply = &r->reply;
    if (r->range)
        rd->work.single = (struct pb_request_op){.which = PB_OP_RANGE, .range = r->range};
    r->apply = a;
    r->state = rd;
    a->reads++;
}

static void hold_back_compaction(struct mvcc *m, struct read *rd)
{
    int64_t lowest = rd->work.lowest_revision;

    if (rd->pin.is_open && lowest >= rd->pin.question.at.main)
        return;
    mvcc_scan_close(&rd->pin);
    rd->pin = (struct mvcc_scan){.question = {.key = BYTES("\0"), .at = revision_whole(lowest)}};
    mvcc_scan_open(m, &rd->pin);
}

static void finish(const struct apply *a, struct apply_read *r, struct read *rd)
{
    work_count(&rd->work);
    r->result = a->state == APPLY_REFUSED ? RESULT_CORRUPT : rd->work.result;
    /* What was decided at the beginning may be another by now, whatever was read. */
    if (auth_is_outdated(a->o.auth, &r->identity))
        r->result = RESULT_AUTH_OLD_REVISION;
    if (r->keep_open && r->result == RESULT_OK) {
        r->scan = rd->work.op.scan;
        rd->work.op.scan = NULL;
    }
    if (r->result != RESULT_OK)
        reply_free(&r->reply);
    mvcc_scan_close(&rd->pin);
}

static enum result decide(struct apply *a, const struct apply_read *r)
{
    return result_of_auth(r->range ? auth_decide(a->o.auth, &r->identity, RULE_READ_RANGE, r->range)
                                   : auth_decide(a->o.auth, &r->identity, RULE_TXN, r->txn));
}

bool apply_read_some(struct apply_read *r, unsigned steps)
{
    struct apply *a = r->apply;
    struct read *rd = r->state;
    assert(rd);

    if (!rd->begun) {
        r->result = decide(a, r);
        if (r->result != RESULT_OK)
            return true;
        work_begin(&rd->work);
        r->revision = rd->work.base.main;
        rd->begun = true;
    }
    if (!work_some(&rd->work, &steps) && a->state != APPLY_REFUSED) {
        /* A range has its own scan open, which pins; a transaction may have none between two. */
        if (r->txn)
            hold_back_compaction(a->o.mvcc, rd);
        return false;
    }
    finish(a, r, rd);
    return true;
}

void apply_read_end(struct apply_read *r)
{
    struct apply *a = r->apply;
    struct read *rd = r->state;

    reply_free(&r->reply);
    reply_scan_free(r->scan);
    r->scan = NULL;
    if (!rd)
        return;
    mvcc_scan_close(&rd->pin);
    work_abandon(&rd->work);
    work_free(&rd->work);
    give_memory_back(a, rd);
    r->state = NULL;
    assert(a->reads > 0);
    a->reads--;
}
