#include "server/space.h"

#include "backend/backend.h"
#include "base/list.h"
#include "base/logger.h"
#include "config/config.h"
#include "server/server_int.h"
#include "wal/wal.h"

#include <stdio.h>

void space_init(struct space *p, const struct space_options *options)
{
    *p = (struct space){.o = *options};
}

static void on_asked(struct disk_op *op)
{
    struct space *p = container_of(op, struct space, op);

    p->is_asking = false;
    log_error(p->o.logger,
              "no space left on the disk; writes are refused until there is some, and it is tried "
              "again every second",
              LOG_STR("data-dir", p->o.dir),
              LOG_STR("full", p->log_is_full && p->store_is_full ? "log and store"
                              : p->log_is_full                   ? "log"
                                                                 : "store"),
              LOG_STR("store-error", p->store_is_full ? p->store_text : ""),
              LOG_U64("bytes-left", op->err == ERR_OK ? op->size : 0));
}

static void begin(struct space *p, uint64_t now_ms)
{
    p->since_ms = now_ms;
    if (p->is_asking)
        return; /* the line is about to be written */
    p->is_asking = true;
    p->op = (struct disk_op){.kind = DISK_SPACE, .path = p->o.dir, .on_done = on_asked};
    disk_submit(p->o.disk, DISK_OTHER, &p->op);
}

bool space_look(struct space *p, bool log_is_full, bool store_is_full, uint64_t now_ms)
{
    bool is_full = log_is_full || store_is_full;

    if (is_full) {
        p->log_is_full = log_is_full;
        p->store_is_full = store_is_full;
    }
    if (is_full == p->is_full)
        return false;
    p->is_full = is_full;
    if (is_full)
        begin(p, now_ms);
    else
        log_info(p->o.logger, "there is space on the disk again", LOG_STR("data-dir", p->o.dir),
                 LOG_U64("full-for-ms", now_ms - p->since_ms));
    return true;
}

bool space_may_try(struct space *p, uint64_t now_ms)
{
    if (now_ms < p->try_ms)
        return false;
    p->try_ms = now_ms + SPACE_RETRY_MS;
    return true;
}

bool space_is_idle(const struct space *p)
{
    return !p->is_asking;
}

/* --- the server's --- */

/* Also while there is only no next segment, and nobody has to be refused yet. */
void space_some(struct server *s)
{
    bool store_is_full = backend_lacks_space(s->state.backend);
    uint64_t now_ms = s->facts.now_ms;

    if (store_is_full && !s->space.is_full)
        snprintf(s->space.store_text, sizeof(s->space.store_text), "%s",
                 backend_failure(s->state.backend));
    if (space_look(&s->space, wal_space_left(s->wal) == 0, store_is_full, now_ms)) {
        s->facts.disk_is_full = s->space.is_full;
        if (s->space.is_full)
            pending_refuse(&s->pending, RESULT_NO_SPACE);
    }
    if ((wal_lacks_space(s->wal) || store_is_full) && space_may_try(&s->space, now_ms)) {
        wal_retry(s->wal);
        backend_retry(s->state.backend);
    }
}
