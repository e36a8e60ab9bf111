/* The end: nobody new, a moment for those who are here, and everything on disk. */
#include "api/api.h"
#include "backend/backend.h"
#include "config/config.h"
#include "server/server_int.h"
#include "wal/wal.h"

void server_stop(struct server *s)
{
    if (s->is_stopping)
        return;
    s->is_stopping = s->facts.is_stopping = true;
    s->stop_ms = server_now_ms(s);
    log_info(s->logger, "closing etcd server", LOG_STR("name", s->config->name),
             LOG_STR("data-dir", s->config->data_dir));
    if (s->boot) {
        founding_stop(&s->founding);
        joining_stop(&s->joining);
    } else {
        leadership_resign(s);
        cutting_stop(&s->cutting);
        receiving_stop(&s->receiving);
        api_stop(s->clients.api, RESULT_STOPPED);
        backend_defrag_cancel(s->state.backend); /* nobody waits for it any more */
    }
    clients_stop(&s->clients);
    server_come_back(s);
}

/*
 * What waits for a full log, or for space of its own, may wait for ever. It is not waited for: the
 * next start finds what a crash would have left.
 */
static bool snapshot_is_over(const struct server *s)
{
    return !log_snapshot_is_busy(&s->snapshot) ||
           (s->snapshot.state == LOG_SNAPSHOT_RECORDING && wal_awaits_space(s->wal));
}

static bool install_is_over(const struct server *s)
{
    return !install_is_busy(&s->install) || s->install.file_is_due ||
           (s->install.step == INSTALL_RECORDING && wal_awaits_space(s->wal)) ||
           (s->install.step == INSTALL_SWAPPING && backend_lacks_space(s->state.backend) &&
            backend_is_idle(s->state.backend));
}

/* Called in every turn. */
void stop_some(struct server *s)
{
    if (!s->is_stopping)
        return;
    if (s->boot)
        peering_stop(&s->peering);
    if (!clients_are_idle(&s->clients)) {
        if (!s->has_cut && s->facts.now_ms - s->stop_ms >= STOP_GRACE_MS) {
            s->has_cut = true;
            clients_cut(&s->clients);
        }
        return;
    }
    if (!s->boot && !s->final_sync_asked && !leadership_is_resigning(s) && snapshot_is_over(s) &&
        install_is_over(s) && receiving_is_idle(&s->receiving) &&
        s->own_image.step == OWN_IMAGE_IDLE && hashing_is_idle(&s->hashing) &&
        passwords_is_idle(&s->passwords) && !warming_is_busy(&s->warming)) {
        s->final_sync_asked = true;
        peering_stop(&s->peering);
        s->final_seq = wal_sync(s->wal);
        if (backend_can_commit(s->state.backend))
            backend_commit_start(s->state.backend);
    }
}

/* With an event of its own in the inbox it has not: who closes it would leave that there. */
bool server_has_stopped(const struct server *s)
{
    if (s->again.queued)
        return false;
    if (s->boot)
        return s->is_stopping && founding_is_idle(&s->founding) && joining_is_idle(&s->joining) &&
               clients_are_gone(&s->clients) && peering_is_idle(&s->peering);
    /* What the log has no space for was promised to nobody. */
    bool is_written = wal_durable(s->wal) >= s->final_seq || wal_awaits_space(s->wal);

    return s->is_stopping && s->final_sync_asked && is_written && wal_is_idle(s->wal) &&
           backend_is_idle(s->state.backend) && clients_are_gone(&s->clients) &&
           !clients_have_events(&s->clients) && rpc_line_is_empty(s->clients.line) &&
           peering_is_idle(&s->peering) && snapshot_is_over(s) && install_is_over(s) &&
           list_empty(&s->install.olds) && cutting_is_idle(&s->cutting) &&
           receiving_is_idle(&s->receiving) && metrics_is_idle(s->metrics) &&
           space_is_idle(&s->space) && s->own_image.step == OWN_IMAGE_IDLE &&
           !warming_is_busy(&s->warming);
}
