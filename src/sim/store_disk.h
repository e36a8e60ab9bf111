/*
 * store_disk: the fake disk, but with the real one where the real page store is.
 *
 * LMDB maps its file into memory, so it cannot live on a disk of fakes; what is done around it (the
 * folder, its lock, the names of its copies) must then be done where the file is. Everything else
 * stays on the fake disk. Such a machine cannot crash.
 */
#pragma once

#include "io/disk.h"

struct loop;

enum { STORE_DISK_FILES_MAX = 8 };

struct store_disk {
    struct disk base;
    struct disk *fake, *real;
    struct loop *loop;                                   /* the real one's */
    const struct disk_file *files[STORE_DISK_FILES_MAX]; /* open on the real one */
};

void store_disk_open(struct store_disk *s, struct disk *fake);
void store_disk_close(struct store_disk *s);
