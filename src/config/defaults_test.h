/*
 * defaults: every flag of etcd 3.7.1 with its default, in all the ways that etcd lets one write it.
 */
#pragma once

#include <stddef.h>

struct spelled_flag {
    const char *name;
    const char *spellings; /* '|' between them; NULL: it has its default only if nobody says it */
};

extern const struct spelled_flag spelled_flags[];
extern const size_t spelled_flag_count;
