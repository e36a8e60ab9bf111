/* Import without a trial, for tests of what comes of it. */
#pragma once

#include "snap/transfer.h"

/* A copy that takes over at once. */
MUST_CHECK enum err rig_import(struct disk *disk, const struct snap_place *place,
                               struct snap_copied *out);
