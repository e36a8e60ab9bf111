/*
 * port: where a program that a test starts may listen.
 *
 *     uint16_t port = port_take();     ours until this process ends
 *
 * The kernel's own choice (port 0) is right for a listener of the same process. Handed on to
 * another one it is not: between our closing it and that program's listening, any connection that
 * anybody opens may be given it.
 */
#pragma once

#include <stdint.h>

/* A port of 127.0.0.1 on which nobody listens, which the kernel gives to no connection, and which
 * no other process that asks here is told meanwhile. 0, with errno, if there is none. */
uint16_t port_take(void);
