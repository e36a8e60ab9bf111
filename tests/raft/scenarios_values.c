#include "raft/scenarios.h"

#include "base/assert.h"
#include "base/text.h"

static bool refuse(struct buf *problem, const char *function, const char *text, const char *why)
{
    buf_printf(problem, "strconv.%s: parsing ", function);
    text_append_quoted(problem, bytes_of_str(text));
    buf_printf(problem, ": %s", why);
    return false;
}

bool scenarios_parse_u64(const char *text, uint64_t *out, struct buf *problem)
{
    uint64_t value = 0;

    for (const char *at = text; *at || at == text; at++) {
        if (*at < '0' || *at > '9')
            return refuse(problem, "ParseUint", text, "invalid syntax");
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return refuse(problem, "ParseUint", text, "value out of range");
    }
    *out = value;
    return true;
}

bool scenarios_parse_bool(const char *text, bool *out, struct buf *problem)
{
    static const char *const yes[] = {"1", "t", "T", "TRUE", "true", "True"};
    static const char *const no[] = {"0", "f", "F", "FALSE", "false", "False"};

    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        *out = strcmp(text, yes[i]) == 0;
        if (*out || strcmp(text, no[i]) == 0)
            return true;
    }
    return refuse(problem, "ParseBool", text, "invalid syntax");
}

static bool parse_change(const char *token, struct raft_conf_change_single *out,
                         struct buf *problem)
{
    static const char letters[] = {
        [RAFT_ADD_NODE] = 'v',
        [RAFT_REMOVE_NODE] = 'r',
        [RAFT_UPDATE_NODE] = 'u',
        [RAFT_ADD_LEARNER_NODE] = 'l',
    };

    if (strlen(token) < 2) {
        buf_printf(problem, "unknown token %s", token);
        return false;
    }
    const char *letter = memchr(letters, token[0], sizeof(letters));
    if (!letter) {
        buf_printf(problem, "unknown input: %s", token);
        return false;
    }
    out->type = (enum raft_conf_change_type)(letter - letters);
    return scenarios_parse_u64(token + 1, &out->node_id, problem);
}

static struct bytes trim(struct bytes text)
{
    while (text.len > 0 && strchr(" \t\r\n\v\f", text.at[0]))
        text = bytes_of(text.at + 1, text.len - 1);
    while (text.len > 0 && strchr(" \t\r\n\v\f", text.at[text.len - 1]))
        text.len--;
    return text;
}

/* Changes are parted by single spaces and nothing else, so two spaces have an empty one between. */
bool scenarios_parse_changes(struct bytes text, struct raft_conf_change_single *out, size_t *count,
                             struct buf *problem)
{
    struct arena arena = {0};
    char *at = arena_copy_str(&arena, trim(text));
    bool ok = true;

    *count = 0;
    for (char *token = *at ? at : NULL; token && ok; token = at) {
        at = strchr(token, ' ');
        if (at)
            *at++ = '\0';
        if (*count == RAFT_CHANGES_MAX) {
            buf_printf(problem, "cannot run: more than %d changes", RAFT_CHANGES_MAX);
            ok = false;
        } else {
            ok = parse_change(token, &out[(*count)++], problem);
        }
    }
    arena_free(&arena);
    return ok;
}
