/*
 * tls: what the flags say of TLS, checked as etcd checks it. Private to the room.
 */
#pragma once

#include "config/config.h"
#include "config/flags.h"

/* Versions, suites, and either side's flags. False, and *why has the reason. */
bool config_tls_read(const struct flags *flags, struct config *out, struct buf *why);

/* Is there what a listener by TLS, or a connection made by it, needs? */
bool config_tls_check(const struct tls_flags *f, struct buf *why);
