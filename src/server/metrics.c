#include "server/metrics.h"

#include "base/gzip.h"
#include "config/config.h"
#include "io/io.h"
#include "raft/raft.h"
#include "server/server_int.h"

struct metrics *metrics_open(void)
{
    struct metrics *m = mem_new(struct metrics);

    list_init(&m->asked);
    list_init(&m->waiting);
    return m;
}

static void drop_scrape(struct metrics *m)
{
    exposition_free(&m->scrape);
    for (unsigned f = 0; f < API_FORMATS; f++)
        for (unsigned packed = 0; packed < 2; packed++) {
            buf_free(&m->forms[f][packed].text);
            m->forms[f][packed].is_wanted = false;
        }
}

void metrics_close(struct metrics *m)
{
    if (!m)
        return;
    buf_free(&m->command_line);
    drop_scrape(m);
    mem_free(m);
}

bool metrics_is_idle(const struct metrics *m)
{
    return m->step != METRICS_LOOKING && m->step != METRICS_WRITING;
}

/* --- counting --- */

void metrics_applied(struct metrics *m, const struct apply_effects *e, uint64_t took_ns)
{
    if (e->kind == APPLY_KIND_NONE)
        return;
    bool is_well = e->result == RESULT_OK || e->result == RESULT_COMPACTED;
    histogram_observe(&m->applied[e->kind][is_well], HISTOGRAM_100US_20, took_ns);
}

/* Whatever the result is: it has come back from the log, and that is what is measured. */
void metrics_answered(struct server *s, const struct api_call *c, const struct apply_effects *e)
{
    struct metrics *m = s->metrics;
    uint64_t now_ns = s->facts.now_ns, began_ns;

    if (c && c->change && container_of(c->change, struct api_change, conf)->is_promotion)
        metrics_promotion(m, e->result);
    if (e->kind == APPLY_KIND_NONE)
        return;
    began_ns = c ? c->started_ns : pending_own_began_ns(&s->pending, e->id);
    if (began_ns != 0)
        histogram_observe(&m->requests[e->kind][true], HISTOGRAM_1MS_14, now_ns - began_ns);
}

void metrics_failed(struct metrics *m, const struct api_call *c, uint64_t now_ns)
{
    unsigned kind = apply_kind(c->request);

    if (kind < APPLY_KINDS)
        histogram_observe(&m->requests[kind][false], HISTOGRAM_1MS_14, now_ns - c->started_ns);
}

void metrics_promotion(struct metrics *m, enum result result)
{
    assert(result < RESULT_COUNT);

    if (result == RESULT_OK)
        m->promotions++;
    else
        m->promotions_refused[result]++;
}

/* --- a look at the process, on a worker --- */

/* A counter must not fall, and the heap does. What is allocated and freed between two looks is not
 * in it: to count that would cost every allocation something. */
static void note_growth(struct metrics *m, uint64_t before_bytes)
{
    if (m->process.heap_used_bytes > before_bytes)
        m->heap_grown_bytes += m->process.heap_used_bytes - before_bytes;
}

static void look(struct job *j)
{
    struct metrics *m = container_of(j, struct metrics, job);
    uint64_t before_bytes = m->process.heap_used_bytes;

    if (m->io->look_at_process)
        m->io->look_at_process(&m->process);
    note_growth(m, before_bytes);
    if (m->io->look_at_process && m->command_line.len == 0)
        process_command_line(&m->command_line);
}

static void looked(struct job *j)
{
    struct metrics *m = container_of(j, struct metrics, job);

    m->step = METRICS_LOOKED;
}

static void begin_to_look(struct server *s)
{
    struct metrics *m = s->metrics;

    if (m->step != METRICS_IDLE || (list_empty(&m->asked) && !m->is_monitoring))
        return;
    list_append_all(&m->waiting, &m->asked);
    m->io = s->io;
    m->step = METRICS_LOOKING;
    m->job = (struct job){.run = look, .on_done = looked};
    job_submit(s->io->workers, &m->job);
}

/* --- the monitor of open files --- */

/* As often as etcd does. Whoever scrapes has looked in between, which is just as well. */
static void monitor(struct server *s)
{
    struct metrics *m = s->metrics;

    if (m->next_look_ms == 0)
        m->next_look_ms = s->facts.now_ms + METRICS_FILES_MS;
    if (s->facts.now_ms < m->next_look_ms || s->is_stopping || m->step != METRICS_IDLE)
        return;
    m->next_look_ms = s->facts.now_ms + METRICS_FILES_MS;
    m->is_monitoring = true;
    begin_to_look(s);
}

static void tell_of_files(struct server *s)
{
    const struct process_sample *p = &s->metrics->process;

    if (p->files_max > 0 && p->open_files >= p->files_max / 5 * 4)
        log_warn(s->logger, "80% of file descriptors are used", LOG_U64("used", p->open_files),
                 LOG_U64("limit", p->files_max));
}

/* --- time --- */

/* A leader sends heartbeats when raft is told of a tick. If that comes late, followers may think
 * that it is gone; and the operator should know why. */
void metrics_tick(struct server *s)
{
    struct metrics *m = s->metrics;
    uint64_t now_ns = s->facts.now_ns, interval_ns = s->config->heartbeat_ms * NS_PER_MS;
    uint64_t before_ns = m->ticked_ns;

    monitor(s);
    m->ticked_ns = s->facts.is_leader ? now_ns : 0;
    if (!s->facts.is_leader || before_ns == 0 || now_ns - before_ns <= 2 * interval_ns ||
        s->conf_state.voters.count + s->conf_state.learners.count <= 1)
        return;
    m->late_heartbeats++;
    log_warn(s->logger,
             "leader failed to send out heartbeat on time; took too long, leader is overloaded "
             "likely from slow disk",
             LOG_NS("heartbeat-interval", (int64_t)interval_ns),
             LOG_NS("expected-duration", (int64_t)(2 * interval_ns)),
             LOG_NS("exceeded-duration", (int64_t)(now_ns - before_ns - 2 * interval_ns)));
}

/* --- those who ask --- */

void metrics_need(struct server *s, const struct api_need *need)
{
    struct api_call *c = need->call;

    c->id = need->need;
    list_init(&c->link);
    list_push_back(&s->metrics->asked, &c->link);
    begin_to_look(s);
}

static bool forget_on(struct list *calls, const struct api_call *c)
{
    LIST_FOREACH (link, calls) {
        if (link != &c->link)
            continue;
        list_remove(link);
        return true;
    }
    return false;
}

bool metrics_forget(struct metrics *m, const struct api_call *c)
{
    return forget_on(&m->asked, c) || forget_on(&m->waiting, c);
}

/* --- what was gathered is written, on a worker --- */

static void write_down(struct job *j)
{
    struct metrics *m = container_of(j, struct metrics, job);
    struct gzip *gzip = NULL;

    exposition_sort(&m->scrape);
    for (unsigned f = 0; f < API_FORMATS; f++) {
        struct metrics_form *plain = &m->forms[f][false], *packed = &m->forms[f][true];
        if (plain->is_wanted || packed->is_wanted)
            exposition_write(&m->scrape, (enum api_format)f, &plain->text);
        if (!packed->is_wanted)
            continue;
        if (!gzip)
            gzip = gzip_new();
        gzip_pack(gzip, buf_bytes(&plain->text), &packed->text);
        if (!plain->is_wanted)
            buf_free(&plain->text);
    }
    gzip_free(gzip);
    exposition_free(&m->scrape);
}

static void wrote(struct job *j)
{
    container_of(j, struct metrics, job)->step = METRICS_WRITTEN;
}

static void begin_to_write(struct server *s)
{
    struct metrics *m = s->metrics;
    bool is_wanted = false;

    LIST_FOREACH (link, &m->waiting) {
        const struct api_call *c = container_of(link, struct api_call, link);
        if (c->id != API_METRICS)
            continue;
        m->forms[c->scrape.format][c->scrape.is_gzipped].is_wanted = true;
        is_wanted = true;
    }
    m->step = METRICS_WRITTEN;
    if (!is_wanted)
        return;
    metrics_gather(s, &m->scrape);
    m->step = METRICS_WRITING;
    m->job = (struct job){.run = write_down, .on_done = wrote};
    job_submit(s->io->workers, &m->job);
}

/* --- the answers --- */

static void answer_vars(struct server *s, struct api_call *c)
{
    struct buf text = {0};

    metrics_vars(s, &text);
    api_measured(s->clients.api, c, buf_bytes(&text));
    buf_free(&text);
}

static void answer(struct server *s, struct api_call *c)
{
    if (c->id == API_METRICS)
        api_measured(s->clients.api, c,
                     buf_bytes(&s->metrics->forms[c->scrape.format][c->scrape.is_gzipped].text));
    else
        answer_vars(s, c);
}

void metrics_serve(struct server *s)
{
    struct metrics *m = s->metrics;

    if (m->step == METRICS_LOOKED) {
        if (m->is_monitoring)
            tell_of_files(s);
        m->is_monitoring = false;
        begin_to_write(s);
    }
    if (m->step != METRICS_WRITTEN)
        return;
    for (struct list *link;
         rpc_line_has_reply_budget(s->clients.line) && (link = list_pop_front(&m->waiting));)
        answer(s, container_of(link, struct api_call, link));
    if (!list_empty(&m->waiting)) {
        server_come_back(s); /* there was no budget */
        return;
    }
    drop_scrape(m);
    m->step = METRICS_IDLE;
    begin_to_look(s);
}
