/*
 * auth: what --auth-token says, checked as etcd checks it. Private to the room.
 *
 *     simple
 *     jwt,sign-method=RS256,pub-key=FILE,priv-key=FILE,ttl=5m
 *     (nothing: nobody can log in)
 *
 * Files are not looked at here, but when the server is opened (token_keys.h).
 */
#pragma once

#include "config/config.h"

/* False, and *why has the reason. `unknown` is the options of a JWT that nobody knows, with commas
 * between them: etcd passes over them, and says so. Its text and those in `out` are the arena's. */
bool config_auth_read(const char *text, struct arena *arena, struct config_token *out,
                      const char **unknown, struct buf *why);
