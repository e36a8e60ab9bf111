/*
 * volume: a small disk of its own for a member, which can be filled and given space again.
 *
 * It is a tmpfs, so only root may have one. What fills it is one file, .filler, beside the
 * member's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The directory is made. False: why is in errno. */
bool volume_mount(const char *path, uint64_t bytes);
void volume_unmount(const char *path);

/* So many bytes are left, about; 0: not one, but for what the member itself may still give back; so
 * it can be done again. */
bool volume_fill(const char *path, uint64_t left);
bool volume_give_space(const char *path);
