/*
 * raw_http: bytes to a server's port, and its response as text to compare.
 *
 *     const char *text = raw_http(&arena, port, BYTES("GET /health HTTP/1.1\r\nHost: x\r\n\r\n"));
 *
 *     HTTP/1.1 200 OK
 *     Content-Length: 29
 *     Content-Type: text/plain; charset=utf-8
 *
 *     {"health":"true","reason":""}
 *
 * The fields are sorted. Left out are the date, and the fields that allow pages of other origins.
 */
#pragma once

#include "base/arena.h"
#include "base/bytes.h"

#include <stdint.h>

/* The first response that is not an interim one. "(nothing)": the server hung up without a word;
 * "(more)" at the end: it hung up within the response. The connection must be possible, to
 * 127.0.0.1. */
const char *raw_http(struct arena *arena, uint16_t port, struct bytes request);

/* The number behind the last colon. */
uint16_t raw_port_of(const char *url);
