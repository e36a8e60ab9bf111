/*
 * secure: the TLS of one side, clients or other members, as the flags have it.
 *
 *     struct tls_flags --> secure_open --> struct tls, to listen and to connect by
 *                             |
 *                             +--> <data-dir>/fixtures/<side>/cert.pem, key.pem
 *
 * If a certificate is to be made, it is made once, and found there by the next start. The key comes
 * last, so that the two are there together or count as missing.
 *
 * Life       secure_open, then secure_close once its connections are gone (secure_is_idle).
 * Not here   Which connections have to be by TLS (clients.h, peering.h).
 */
#pragma once

#include "config/config.h"

struct secure {
    struct tls *tls;                  /* NULL: none was wanted, or it was not opened */
    const char *cert_file, *key_file; /* in use */
    struct arena arena;               /* of their names */
};

struct secure_options {
    const struct io *io;
    const struct logger *logger;
    const struct config *config;
    const struct tls_flags *flags;
    const struct config_listens *listens; /* whose hosts a certificate of our own is for */
    size_t listen_count;
    const char *side;     /* "client" or "peer" */
    const char *rejected; /* what the log says of a connection that failed to get in */
    bool offers_h2;
    bool checks_address; /* as tls.h has it */
};

/* On one that is all zeroes; also when it fails secure_close takes what there is. */
MUST_CHECK enum err secure_open(struct secure *s, const struct secure_options *options,
                                struct buf *why);

/* The same in two steps, for those who need one of each thread: which files, then as many as there
 * are io's. Those are the caller's. */
MUST_CHECK enum err secure_find_files(struct secure *s, const struct secure_options *options,
                                      struct buf *why);
MUST_CHECK enum err secure_open_tls(const struct secure *s, const struct secure_options *options,
                                    struct buf *why, struct tls **out);
bool secure_is_idle(const struct secure *s);
void secure_close(struct secure *s);

/* To the log, as etcd has it: which files are used. */
void secure_say(const struct secure *s, const struct logger *logger, const struct config *config,
                const struct tls_flags *flags, const char *message);
