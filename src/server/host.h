/*
 * host: where a client is, for whatever clients of different places take turns at, or share.
 */
#pragma once

#include "base/buf.h"

/* Appends what names the place of this remote address, "10.0.0.1:4711": the host without the port,
 * which is another one with every connection; and of an IPv6 address the network alone, of whose
 * 2^64 addresses anybody may use as many as he likes. */
void host_of_remote(struct bytes remote, struct buf *out);
