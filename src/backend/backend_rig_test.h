/*
 * stand: a backend of either kind on a bench, for tests.
 *
 * Its backend thread is a queue that the test works off by hand, so that a test can stand between
 * any two moments: frozen, committed, reported.
 */
#pragma once

#include "backend/backend.h"
#include "backend/backend_memory.h"
#include "base/buf.h"
#include "io/loop.h"

enum backend_rig_kind { BACKEND_RIG_MEMORY, BACKEND_RIG_LMDB };

struct backend_rig {
    enum backend_rig_kind kind;
    struct loop *loop; /* for its disk */
    struct memory_disk *memory;
    char dir[160];
    struct backend *b;
    size_t pending_bytes_max, slice_bytes, dirty_bytes_max;
    uint64_t log_index;

    struct workers workers;
    struct job *job; /* at most one is in flight: that is the backend's promise */
    bool has_run;

    bool failed; /* on_failure was called */
    char failure[320];
};

/* The store is created, or opened if the stand was used before. */
void backend_rig_init(struct backend_rig *r, enum backend_rig_kind kind);
MUST_CHECK enum err backend_rig_open(struct backend_rig *r);
struct backend_options backend_rig_options(struct backend_rig *r); /* that it is opened with */
void backend_rig_close(struct backend_rig *r); /* a job in flight is finished first */
void backend_rig_free(struct backend_rig *r);

/* The power goes and comes back: a job in flight is never run. LMDB's counterpart to a process
 * that is killed. Opens again. */
void backend_rig_crash(struct backend_rig *r);

/* What the backend thread does, and what the turn hears of it. False if there is nothing. */
bool backend_rig_run(struct backend_rig *r);
bool backend_rig_report(struct backend_rig *r);
void backend_rig_settle(struct backend_rig *r); /* both, until nothing is left */

void backend_rig_commit(struct backend_rig *r); /* start and settle */

/*
 * The model: a table of what each of a few keys in a few buckets should be. 0 is absent; a number
 * stands for the value that value_of makes of it. Some of the keys are longer than LMDB takes.
 */
enum { MODEL_BUCKETS = 4, MODEL_KEYS = 24 };

struct model {
    uint32_t values[MODEL_BUCKETS][MODEL_KEYS];
    uint64_t index, term;
    uint32_t conf; /* number in the confState; 0 for none */
};

void model_put(struct backend_rig *r, struct model *m, unsigned bucket, unsigned key,
               uint32_t number);
void model_end_entry(struct backend_rig *r, struct model *m, uint64_t term, uint32_t conf);

/* Does the view hold exactly this? By get and by walking. */
bool model_matches(const struct model *m, struct backend_view *v);
