/*
 * maker: everything at hand while a configuration is made. Private to the room.
 *
 *     config.c   what is read in which order, and most of what is checked
 *     env.c      the environment          file.h    the file, read by yaml.h
 *     flags.h    the table of flags       value.h   numbers and durations in Go's spelling
 *     gates.h    feature gates            log.c     where the log goes, and its rotation
 *     listen.c   URLs and addresses       tls.h     certificates, versions, suites
 *     auth.h     --auth-token             usage.c   --help and --version
 *
 * Whatever reads or checks returns false once it has refused, with the reason in `why`.
 */
#pragma once

#include "config/config.h"
#include "config/flags.h"

#define NS_PER_MS ((int64_t)1000000)
#define NS_PER_S  (1000 * NS_PER_MS)

struct maker {
    struct flags flags;
    struct config *out;
    struct buf *why;
    struct config_note *notes;
    size_t note_count, note_cap;
    bool has_file; /* the flags are those of a file, and nothing else counts */
};

static inline const struct flag_value *maker_value(const struct maker *m, enum flag_id id)
{
    return &m->flags.values[id];
}

/* Says why, and false. */
__attribute__((format(printf, 2, 3))) bool maker_refuse(struct maker *m, const char *format, ...);

/* As %q would show it. */
const char *maker_quote(struct maker *m, struct bytes text);

/* Lines for the log, with a field or two; they are the configuration's once they are kept. */
void maker_note(struct maker *m, enum log_level level, const char *message, const char *key,
                const char *value);
void maker_note_two(struct maker *m, enum log_level level, const char *message, const char *key,
                    const char *value, const char *second_key, const char *second_value);
void maker_keep_notes(struct maker *m);

/* --- env.c --- */

/* The value of a variable, or NULL. */
const char *maker_env_value(const char *const *env, const char *name);
bool maker_read_env(struct maker *m, const char *const *env);
/* What operators of etcd set to see what clients send: a list with commas. */
bool maker_asks_for_fields(const char *const *env);

/* --- log.c --- */

/* Until the flags have been read, and for good where they cannot be. */
void maker_log_by_default(struct config *c);
bool maker_read_log_level(struct maker *m);
bool maker_read_log(struct maker *m);

/* --- listen.c --- */

/* Have they hosts, and such as are allowed there? */
bool maker_check_urls(struct maker *m);
/* The addresses behind the URLs, and whether there is what listening there needs. */
bool maker_read_listens(struct maker *m);
