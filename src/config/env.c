#include "config/maker.h"

#include <string.h>

const char *maker_env_value(const char *const *env, const char *name)
{
    size_t len = strlen(name);

    for (; *env; env++) {
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    }
    return NULL;
}

static bool take_env(struct maker *m, enum flag_id id, const char *const *env)
{
    const char *name = flags_env_name(&m->flags, id);
    const char *text = maker_env_value(env, name);
    struct buf reason = {0};

    if (!text)
        return true;
    if (maker_value(m, id)->is_set) {
        return maker_refuse(
            m,
            "conflicting environment variable is shadowed by corresponding command-line "
            "flag (either unset environment variable or disable flag)): %s",
            name);
    }
    if (text[0] == 0)
        return true;
    text = arena_copy_str(&m->out->arena, bytes_of_str(text));
    bool is_good = flags_set(&m->flags, id, bytes_of_str(text), &reason);
    if (!is_good)
        maker_refuse(m, "invalid value %s for %s: %s", maker_quote(m, bytes_of_str(text)), name,
                     buf_str(&reason));
    else
        maker_note_two(m, LOG_INFO, "recognized and used environment variable", "variable-name",
                       name, "variable-value", text);
    buf_free(&reason);
    return is_good;
}

/* Is it ETCD_ and the name of a flag, with something behind it? */
static bool is_used_variable(const struct maker *m, const char *variable)
{
    const char *equals = strchr(variable, '=');

    if (!equals || equals[1] == 0)
        return false;
    for (size_t id = 0; id < FLAG_COUNT; id++) {
        const char *name = flags_env_name(&m->flags, (enum flag_id)id);
        if (bytes_equal(bytes_of_str(name), bytes_of(variable, (size_t)(equals - variable))))
            return true;
    }
    return false;
}

static void note_strangers(struct maker *m, const char *const *env)
{
    for (; *env; env++) {
        bool is_version = strncmp(*env, "ETCD_VERSION=", 13) == 0;
        if (strncmp(*env, "ETCD_", 5) == 0 && !is_version && !is_used_variable(m, *env)) {
            maker_note(m, LOG_WARN, "unrecognized environment variable", "environment-variable",
                       arena_copy_str(&m->out->arena, bytes_of_str(*env)));
        }
    }
}

bool maker_read_env(struct maker *m, const char *const *env)
{
    const char *version = maker_env_value(env, "ETCD_VERSION");

    if (version && version[0] != 0) {
        maker_note_two(m, LOG_WARN, "cannot set special environment variable", "key",
                       "ETCD_VERSION", "value",
                       arena_copy_str(&m->out->arena, bytes_of_str(version)));
    }
    for (size_t id = 0; id < FLAG_COUNT; id++) {
        if (id != FLAG_VERSION && !take_env(m, (enum flag_id)id, env))
            return false;
    }
    note_strangers(m, env);
    return true;
}

bool maker_asks_for_fields(const char *const *env)
{
    const char *debug = maker_env_value(env, "GODEBUG");

    while (debug && *debug) {
        size_t len = strcspn(debug, ",");
        if (bytes_equal(bytes_of(debug, len), BYTES("http2debug=2")))
            return true;
        debug += len + (debug[len] == ',');
    }
    return false;
}
