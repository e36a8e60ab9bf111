/*
 * rig: the same test, once in the real world and once in the fake one.
 *
 *     CONTRACT(a_sentence_about_the_seam)
 *     {
 *         ... uses rig->io; waits with rig_until(rig, &count, 1) ...
 *     }
 */
#pragma once

#include "harness/test.h"
#include "io/clock.h"
#include "io/disk.h"
#include "io/fake_world.h"
#include "io/io.h"
#include "io/loop.h"
#include "io/net.h"
#include "io/resolve.h"
#include "io/worker.h"

struct rig {
    const struct io *io;
    struct loop *loop;       /* real */
    struct fake_world *fake; /* or fake */
};

void rig_open_real(struct rig *rig);
void rig_open_fake(struct rig *rig);
void rig_close(struct rig *rig);

/* Lets things happen until *count reaches `want`; fails the test if it takes unreasonably long. */
void rig_until(struct rig *rig, const unsigned *count, unsigned want);

/* Lets the next thing happen, waiting for it if need be: at most one event runs. */
void rig_step(struct rig *rig);

/* Lets things happen for a while of the rig's time. */
void rig_for_ms(struct rig *rig, uint64_t ms);

/* From now on only so many more files and connections can be opened; and: as many as before. */
void rig_limit_files(struct rig *rig, unsigned more);
void rig_unlimit_files(struct rig *rig);

/* A path inside a directory of the test's own, which exists. Good until the test ends. */
const char *rig_path(struct rig *rig, const char *name);

#define CONTRACT(name)                                                                             \
    static void name(struct rig *rig);                                                             \
    TEST(real_##name)                                                                              \
    {                                                                                              \
        struct rig rig;                                                                            \
        rig_open_real(&rig);                                                                       \
        name(&rig);                                                                                \
        rig_close(&rig);                                                                           \
    }                                                                                              \
    TEST(fake_##name)                                                                              \
    {                                                                                              \
        struct rig rig;                                                                            \
        rig_open_fake(&rig);                                                                       \
        name(&rig);                                                                                \
        rig_close(&rig);                                                                           \
    }                                                                                              \
    static void name(struct rig *rig)
