/*
 * fake_time: time that passes only when told to.
 *
 * Everything the fakes do later is a task with a due time. A step moves the time to the earliest
 * task and runs it. How long things take is drawn from one seeded rng, so the order in which they
 * complete varies with the seed and never with the machine.
 */
#pragma once

#include "base/heap.h"
#include "base/rng.h"

#include <stdint.h>

/* All zeroes, with run filled in, is not scheduled. */
struct fake_task {
    void (*run)(struct fake_task *t);
    struct heap_node node;
    uint64_t due_ns;
    uint64_t number;
};

struct fake_time {
    uint64_t now_ns;
    uint64_t scheduled; /* tasks so far: breaks ties */
    struct heap tasks;
    struct rng rng;
};

/* How long something takes: evenly from the range. */
struct fake_delay {
    uint64_t min_ns, max_ns;
};

void fake_time_init(struct fake_time *t, uint64_t seed);
void fake_time_free(struct fake_time *t); /* tasks still scheduled are forgotten */

/* Schedules the task, or moves it. */
void fake_time_at(struct fake_time *t, struct fake_task *task, uint64_t due_ns);
void fake_time_after(struct fake_time *t, struct fake_task *task, struct fake_delay delay);

/* One that is not scheduled is fine. */
void fake_time_cancel(struct fake_time *t, struct fake_task *task);

/* Moves to the earliest task and runs it. False if there is none. */
bool fake_time_step(struct fake_time *t);
