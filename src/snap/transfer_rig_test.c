#include "snap/transfer_rig_test.h"

enum err rig_import(struct disk *disk, const struct snap_place *place, struct snap_copied *out)
{
    struct snap_import *m;
    enum err e = snap_import_copy(disk, place, &m, out);

    return e == ERR_OK ? snap_import_take_over(m) : e;
}
