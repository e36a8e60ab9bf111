/* quota: what the log says about --quota-backend-bytes when a member starts, in etcd's lines. What
 * comes of it is apply's and housekeeping's. */
#pragma once

#include <stdint.h>

struct logger;

/* 0: the default; negative: none. */
void quota_say(const struct logger *logger, int64_t quota_bytes);
