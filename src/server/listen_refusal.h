/*
 * listen_refusal: the text for the operator when an address cannot be listened at.
 *
 *     listen tcp 127.0.0.1:2379: bind: address already in use
 *     127.0.0.1:2379 is in use by another process: stop it, or choose ... with --listen-client-urls
 *
 * The first line has etcd's words, for the log and for tools that look for them. The second is
 * there if the address is taken; it is for people, and names the flag that sets the address.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct config_listen;

void listen_refusal(const struct config_listen *place, enum err e, struct buf *why);
