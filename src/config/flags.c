#include "config/flags.h"

#include "base/assert.h"
#include "base/text.h"
#include "config/value.h"

#define FLAG_ROW_LONG(id, name, kind, initial, section, help)                                      \
    [FLAG_##id] = {name, initial, help, FLAG_##kind, SECTION_##section},
#define FLAG_ROW(id, name, kind, initial) [FLAG_##id] = {name, initial, NULL, FLAG_##kind, 0},
const struct flag flag_table[FLAG_COUNT] = {FLAGS_THAT_WORK(FLAG_ROW_LONG) FLAGS_NOT_YET(FLAG_ROW)
                                                FLAGS_OF_OLD(FLAG_ROW)};
#undef FLAG_ROW_LONG
#undef FLAG_ROW

enum flag_id flags_find(struct bytes name)
{
    size_t id = 0;

    while (id < FLAG_COUNT && !bytes_equal(name, bytes_of_str(flag_table[id].name)))
        id++;
    return (enum flag_id)id;
}

const char *flags_env_name(const struct flags *f, enum flag_id id)
{
    char *name = arena_printf(f->arena, "ETCD_%s", flag_table[id].name);

    for (char *c = name; *c; c++) {
        if (*c == '-')
            *c = '_';
        else if (*c >= 'a' && *c <= 'z')
            *c = (char)(*c - 32);
    }
    return name;
}

/* ---- One value ---- */

/* An unsigned number of 32 bits is the one kind that repeats what was typed. */
static bool set_uint32(struct flag_value *value, struct bytes text, struct buf *why)
{
    const char *reason = value_parse_uint(text, UINT32_MAX, &value->number);

    if (!reason)
        return true;
    buf_append_str(why, "strconv.ParseUint: parsing ");
    text_append_quoted(why, text);
    buf_printf(why, ": %s", strcmp(reason, "parse error") == 0 ? "invalid syntax" : reason);
    return false;
}

static struct url_list unique_words(struct flags *f, struct bytes text)
{
    struct url_list words = url_list_split(arena_copy(f->arena, text), f->arena);

    return url_list_unique(url_list_sorted(words, f->arena), f->arena);
}

/* Saying nothing, or one URL that is there already, leaves the list as it is: so it is in etcd. */
static bool set_urls(struct flags *f, struct flag_value *value, struct bytes text, struct buf *why)
{
    struct url_list list;

    if (text.len == 0 || url_list_has(value->set, text))
        return true;
    if (!url_list_parse(text, f->arena, why, &list))
        return false;
    value->set = url_list_unique(list, f->arena);
    return true;
}

static bool set_choice(struct flag_value *value, struct bytes text, struct bytes no,
                       struct bytes yes, struct buf *why)
{
    value->boolean = bytes_equal(text, yes);
    if (value->boolean || bytes_equal(text, no))
        return true;
    buf_append_str(why, "invalid value");
    return false;
}

static bool set_origins(struct flags *f, struct flag_value *value, struct bytes text,
                        struct buf *why)
{
    if (!bytes_equal(text, BYTES("*")))
        return url_list_parse(text, f->arena, why, &value->set);
    value->set = url_list_split(arena_copy(f->arena, text), f->arena);
    return true;
}

static bool check_stages(struct flags *f, struct bytes text, struct buf *why)
{
    static const struct bytes stages[] = {BYTES("write-only"), BYTES("write-only-skip-check"),
                                          BYTES("write-only-drop-data"), BYTES("gone")};
    struct url_list said = url_list_split(text, f->arena);

    for (size_t i = 0; i < said.count; i++) {
        if (url_list_has((struct url_list){stages, 4}, said.at[i]))
            continue;
        buf_append_str(why, "invalid value ");
        text_append_quoted(why, said.at[i]);
        return false;
    }
    return true;
}

static bool set_simple(const char *reason, struct buf *why)
{
    if (reason)
        buf_append_str(why, reason);
    return !reason;
}

bool flags_set(struct flags *f, enum flag_id id, struct bytes text, struct buf *why)
{
    struct flag_value *value = &f->values[id];

    value->is_set = true;
    switch (flag_table[id].kind) {
    case FLAG_BOOL:
        return set_simple(value_parse_bool(text, &value->boolean), why);
    case FLAG_UINT:
        return set_simple(value_parse_uint(text, UINT64_MAX, &value->number), why);
    case FLAG_UINT32:
        return set_uint32(value, text, why);
    case FLAG_INT:
        return set_simple(value_parse_int(text, &value->integer), why);
    case FLAG_DURATION:
        return set_simple(value_parse_duration(text, &value->integer), why);
    case FLAG_TEXT:
        value->text = arena_copy_str(f->arena, text);
        return true;
    case FLAG_URLS:
        return set_urls(f, value, text, why);
    case FLAG_SET:
        value->set = unique_words(f, text);
        return true;
    case FLAG_LIST:
        value->set = url_list_split(arena_copy(f->arena, text), f->arena);
        return true;
    case FLAG_STATE:
        return set_choice(value, text, BYTES("new"), BYTES("existing"), why);
    case FLAG_EXIT:
        return set_choice(value, text, BYTES("exit"), BYTES("proxy"), why);
    case FLAG_ORIGINS:
        return set_origins(f, value, text, why);
    case FLAG_GATES:
        return gates_set(&value->gates, text, f->arena, why);
    case FLAG_STAGES:
        return check_stages(f, text, why);
    case FLAG_NOTHING:
        return true;
    }
    unreachable();
}

static struct flag_value default_of(struct flags *f, enum flag_id id)
{
    struct flags other = {.arena = f->arena};
    struct buf why = {0};

    if (flag_table[id].kind != FLAG_STAGES && flag_table[id].kind != FLAG_LIST) {
        bool is_good = flags_set(&other, id, bytes_of_str(flag_table[id].initial), &why);
        assert(is_good);
    }
    other.values[id].is_set = false;
    return other.values[id];
}

void flags_init(struct flags *f, struct arena *arena)
{
    *f = (struct flags){.arena = arena};
    for (size_t id = 0; id < FLAG_COUNT; id++)
        f->values[id] = default_of(f, (enum flag_id)id);
}

/* ---- What is said anyway ---- */

/* Values that etcd takes for the default, or that come to the same. */
static bool is_default_in_other_words(const struct flags *f, enum flag_id id)
{
    const struct flag_value *value = &f->values[id];

    switch (id) {
    case FLAG_BACKEND_BBOLT_FREELIST_TYPE:
        return strcmp(value->text, "array") != 0; /* there are two, and any other word is a map */
    case FLAG_BACKEND_BATCH_LIMIT:
        return value->integer == 10000;
    case FLAG_WARNING_UNARY_REQUEST_DURATION:
        return value->integer == 0;
    case FLAG_RAFT_READ_TIMEOUT:
    case FLAG_RAFT_WRITE_TIMEOUT:
        return value->integer < 5 * (int64_t)1000000000; /* raised to the default */
    case FLAG_METRICS:
        return strcmp(value->text, "extensive") != 0; /* any other word is basic */
    default:
        return false;
    }
}

static bool is_same_value(const struct flag_value *a, const struct flag_value *b)
{
    return a->boolean == b->boolean && a->number == b->number && a->integer == b->integer &&
           gates_are_default(a->gates) == gates_are_default(b->gates) &&
           url_list_equal(a->set, b->set) && (a->text == b->text || strcmp(a->text, b->text) == 0);
}

bool flags_is_default(const struct flags *f, enum flag_id id)
{
    struct flags copy = {.arena = f->arena};
    struct flag_value initial = default_of(&copy, id);

    return is_same_value(&f->values[id], &initial) || is_default_in_other_words(f, id);
}

/* ---- A command line ---- */

struct words {
    const char *const *at;
    int left;
};

static bool takes_no_word(enum flag_kind kind)
{
    return kind == FLAG_BOOL || kind == FLAG_NOTHING;
}

static void explain_bad_value(enum flag_id id, struct bytes text, const char *reason,
                              struct buf *why)
{
    bool is_bool = flag_table[id].kind == FLAG_BOOL;

    buf_append_str(why, is_bool ? "invalid boolean value " : "invalid value ");
    text_append_quoted(why, text);
    buf_printf(why, " for %s-%s: %s", is_bool ? "" : "flag ", flag_table[id].name, reason);
}

static enum flags_result set_from_line(struct flags *f, enum flag_id id, struct bytes text,
                                       struct buf *why)
{
    struct buf reason = {0};
    bool is_good = flags_set(f, id, text, &reason);

    if (!is_good)
        explain_bad_value(id, text, buf_str(&reason), why);
    buf_free(&reason);
    return is_good ? FLAGS_OK : FLAGS_BAD;
}

static enum flags_result parse_one(struct flags *f, struct words *words, struct buf *why)
{
    const char *word = *words->at++;
    struct bytes name = bytes_of_str(word + (word[1] == '-' ? 2 : 1)), text = {0};
    const uint8_t *equals = name.len ? memchr(name.at, '=', name.len) : NULL;

    words->left--;
    if (name.len == 0 || name.at[0] == '-' || name.at[0] == '=') {
        buf_printf(why, "bad flag syntax: %s", word);
        return FLAGS_BAD;
    }
    if (equals) {
        size_t len = (size_t)(equals - name.at);
        text = bytes_of(equals + 1, name.len - len - 1);
        name.len = len;
    }
    enum flag_id id = flags_find(name);
    if (id == FLAG_COUNT) {
        if (bytes_equal(name, BYTES("help")) || bytes_equal(name, BYTES("h")))
            return FLAGS_HELP;
        buf_printf(why, "flag provided but not defined: -%.*s", (int)name.len,
                   (const char *)name.at);
        return FLAGS_BAD;
    }
    if (!equals && takes_no_word(flag_table[id].kind))
        text = BYTES("true");
    else if (!equals) {
        if (words->left == 0) {
            buf_printf(why, "flag needs an argument: -%s", flag_table[id].name);
            return FLAGS_BAD;
        }
        text = bytes_of_str(*words->at++);
        words->left--;
    }
    return set_from_line(f, id, text, why);
}

enum flags_result flags_parse(struct flags *f, int argc, const char *const *argv,
                              const char **stray, struct buf *why)
{
    struct words words = {.at = argv + 1, .left = argc > 0 ? argc - 1 : 0};

    *stray = NULL;
    while (words.left > 0) {
        const char *word = *words.at;
        bool ends_flags = strcmp(word, "--") == 0;
        if (ends_flags || word[0] != '-' || word[1] == 0) {
            if (!ends_flags)
                *stray = word;
            else if (words.left > 1)
                *stray = words.at[1];
            return FLAGS_OK;
        }
        enum flags_result result = parse_one(f, &words, why);
        if (result != FLAGS_OK)
            return result;
    }
    return FLAGS_OK;
}
