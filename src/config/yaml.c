#include "config/yaml.h"

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"
#include "config/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <yaml.h>

/*
 * A node as it was read. Its value is made when it is first asked for, and kept: a node that an
 * alias stands for has one value, however often it is named.
 */
struct node {
    yaml_event_type_t type; /* SCALAR, SEQUENCE_START, MAPPING_START or ALIAS */
    struct bytes text;      /* of a scalar */
    const char *tag;        /* NULL: none */
    bool is_plain;          /* a scalar without quotes */
    bool is_open;           /* it is still being read: an alias to it would contain itself */
    struct bytes anchor;
    struct node *target;               /* of an alias */
    struct node *first, *last, *next;  /* children: items, or keys and values in turn */
    size_t count;                      /* of them */
    const struct yaml_value *resolved; /* NULL: not yet */
};

struct reader {
    yaml_parser_t parser;
    struct arena *arena;
    struct buf *why;
    struct node *anchored[YAML_ANCHORS_MAX]; /* in order; the last of a name counts */
    size_t anchor_count;
    size_t visited, visited_by_alias; /* nodes, as etcd's reader counts them */
};

__attribute__((format(printf, 2, 3))) static bool refuse(struct reader *r, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    buf_vprintf(r->why, format, args);
    va_end(args);
    return false;
}

/* ---- From events to nodes ---- */

/* etcd's reader counts lines from zero, but for the scanner's errors, and says nothing of line 0.
 */
static bool refuse_syntax(struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    size_t line = p->problem_mark.line ? p->problem_mark.line : p->context_mark.line;

    if (p->problem_mark.line && p->error == YAML_SCANNER_ERROR)
        line++;
    buf_append_str(r->why, "yaml: ");
    if (line > 0)
        buf_printf(r->why, "line %zu: ", line);
    return refuse(r, "%s", p->problem ? p->problem : "unknown problem parsing YAML content");
}

static bool new_node(struct reader *r, const yaml_event_t *event, const yaml_char_t *anchor,
                     const yaml_char_t *tag, struct node **out)
{
    struct node *n = *out = arena_new(r->arena, struct node);

    n->type = event->type;
    if (tag)
        n->tag = arena_copy_str(r->arena, bytes_of_str((const char *)tag));
    if (!anchor)
        return true;
    if (r->anchor_count == YAML_ANCHORS_MAX)
        return refuse(r, "yaml: more than %d anchors", YAML_ANCHORS_MAX);
    n->anchor = arena_copy(r->arena, bytes_of_str((const char *)anchor));
    r->anchored[r->anchor_count++] = n;
    return true;
}

static bool find_anchor(struct reader *r, struct node *alias, const char *name)
{
    for (size_t i = r->anchor_count; i-- > 0;) {
        if (bytes_equal(r->anchored[i]->anchor, bytes_of_str(name))) {
            alias->target = r->anchored[i];
            break;
        }
    }
    if (!alias->target)
        return refuse(r, "yaml: unknown anchor '%s' referenced", name);
    if (alias->target->is_open)
        return refuse(r, "yaml: anchor '%s' value contains itself", name);
    return true;
}

static bool make_node(struct reader *r, const yaml_event_t *event, struct node **out)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        if (!new_node(r, event, event->data.scalar.anchor, event->data.scalar.tag, out))
            return false;
        (*out)->text =
            arena_copy(r->arena, bytes_of(event->data.scalar.value, event->data.scalar.length));
        (*out)->is_plain = event->data.scalar.plain_implicit;
        return true;
    case YAML_SEQUENCE_START_EVENT:
        if (!new_node(r, event, event->data.sequence_start.anchor, event->data.sequence_start.tag,
                      out))
            return false;
        return (*out)->is_open = true;
    case YAML_MAPPING_START_EVENT:
        if (!new_node(r, event, event->data.mapping_start.anchor, event->data.mapping_start.tag,
                      out))
            return false;
        return (*out)->is_open = true;
    case YAML_ALIAS_EVENT:
        return new_node(r, event, NULL, NULL, out) &&
               find_anchor(r, *out, (const char *)event->data.alias.anchor);
    default:
        unreachable();
    }
}

static void add_child(struct node *parent, struct node *child)
{
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    parent->count++;
}

/* Where reading is: the lists and maps that are open, the innermost last. */
struct place {
    struct node *open[YAML_DEPTH_MAX];
    size_t depth;
    struct node *root;
};

static bool take_event(struct reader *r, struct place *at, const yaml_event_t *event)
{
    struct node *n;

    if (event->type == YAML_SEQUENCE_END_EVENT || event->type == YAML_MAPPING_END_EVENT) {
        assert(at->depth > 0);
        at->open[--at->depth]->is_open = false;
        return true;
    }
    if (event->type == YAML_STREAM_START_EVENT || event->type == YAML_DOCUMENT_START_EVENT)
        return true;
    if (!make_node(r, event, &n))
        return false;
    if (at->depth > 0)
        add_child(at->open[at->depth - 1], n);
    else
        at->root = n;
    if (!n->is_open)
        return true;
    if (at->depth == YAML_DEPTH_MAX)
        return refuse(r, "yaml: exceeded max depth of %d", YAML_DEPTH_MAX);
    at->open[at->depth++] = n;
    return true;
}

/* One document; what comes behind it is not looked at, as in etcd. */
static bool read_nodes(struct reader *r, struct node **out)
{
    struct place at = {0};
    bool is_good = true, has_ended = false;

    while (is_good && !has_ended) {
        yaml_event_t event;
        if (!yaml_parser_parse(&r->parser, &event))
            return refuse_syntax(r);
        has_ended = event.type == YAML_DOCUMENT_END_EVENT || event.type == YAML_STREAM_END_EVENT;
        if (!has_ended)
            is_good = take_event(r, &at, &event);
        yaml_event_delete(&event);
    }
    *out = at.root;
    return is_good;
}

/* ---- How much it unfolds to ---- */

/* etcd's rule: of little, nearly all may come by aliases; of four million nodes, a tenth. */
static bool is_excessive(const struct reader *r)
{
    double all = (double)r->visited, low = 400000, high = 4000000, allowed = 0.99;

    if (r->visited_by_alias <= 100 || r->visited <= 1000)
        return false;
    if (all >= high)
        allowed = 0.10;
    else if (all > low)
        allowed = 0.99 - 0.89 * (all - low) / (high - low);
    return (double)r->visited_by_alias / all > allowed;
}

/* Walks over everything as often as it is named. Ends early where that is too often. */
static bool visit(struct reader *r, const struct node *n, unsigned depth, bool by_alias)
{
    r->visited++;
    if (by_alias)
        r->visited_by_alias++;
    if (is_excessive(r))
        return refuse(r, "yaml: document contains excessive aliasing");
    if (depth > YAML_DEPTH_MAX)
        return refuse(r, "yaml: exceeded max depth of %d", YAML_DEPTH_MAX);
    if (n->target)
        return visit(r, n->target, depth + 1, true);
    for (const struct node *child = n->first; child; child = child->next) {
        if (!visit(r, child, depth + 1, by_alias))
            return false;
    }
    return true;
}

/* ---- What a word is ---- */

static const struct yaml_value the_null = {.kind = YAML_NULL};
static const struct yaml_value the_truth = {.kind = YAML_BOOL, .boolean = true};
static const struct yaml_value the_lie = {.kind = YAML_BOOL};

static bool is_one_of(struct bytes text, const char *words)
{
    for (const char *at = words; *at;) {
        size_t len = strcspn(at, "|");
        if (bytes_equal(text, bytes_of(at, len)))
            return true;
        at += len + (at[len] != 0);
    }
    return false;
}

static const struct yaml_value *new_value(struct reader *r, enum yaml_kind kind, struct bytes text)
{
    struct yaml_value *v = arena_new(r->arena, struct yaml_value);

    v->kind = kind;
    v->text = text;
    return v;
}

/* The fewest digits that are this number again, as Go's JSON lays them out. */
static struct bytes number_text(struct reader *r, double number)
{
    char digits[40];
    int precision = 0;

    do
        snprintf(digits, sizeof(digits), "%.*e", precision, number);
    while (strtod(digits, NULL) != number && ++precision < 17);
    double size = fabs(number);
    char *exponent = strchr(digits, 'e');
    assert(exponent);
    long power = strtol(exponent + 1, NULL, 10);
    if (size != 0 && (size < 1e-6 || size >= 1e21)) {
        *exponent = 0;
        return bytes_of_str(
            arena_printf(r->arena, "%se%c%ld", digits, power < 0 ? '-' : '+', labs(power)));
    }
    int decimals = precision > power ? precision - (int)power : 0;
    if (power > precision) { /* zeros behind the last digit that counts */
        *exponent = 0;
        char *whole = arena_printf(r->arena, "%s%0*d", digits, (int)power - precision, 0);
        char *point = strchr(whole, '.');
        if (point)
            memmove(point, point + 1, strlen(point));
        return bytes_of_str(whole);
    }
    return bytes_of_str(arena_printf(r->arena, "%.*f", decimals, number));
}

static bool is_float_syntax(const char *text)
{
    const char *at = text + (*text == '-' || *text == '+');
    size_t whole = strspn(at, "0123456789"), behind = 0;

    at += whole;
    if (*at == '.') {
        behind = strspn(at + 1, "0123456789");
        at += 1 + behind;
    }
    if (whole + behind == 0)
        return false;
    if (*at == 'e' || *at == 'E') {
        at += 1 + (at[1] == '-' || at[1] == '+');
        if (strspn(at, "0123456789") == 0)
            return false;
        at += strspn(at, "0123456789");
    }
    return *at == 0;
}

static const struct yaml_value *read_number(struct reader *r, struct bytes text)
{
    char *plain = arena_alloc(r->arena, text.len + 1);
    size_t len = 0;
    int64_t integer;
    uint64_t large;

    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] != '_')
            plain[len++] = (char)text.at[i];
    }
    if (len != strlen(plain))
        return NULL;
    if (!value_parse_int(bytes_of(plain, len), &integer))
        return new_value(r, YAML_NUMBER,
                         bytes_of_str(arena_printf(r->arena, "%lld", (long long)integer)));
    if (!value_parse_uint(bytes_of(plain, len), UINT64_MAX, &large))
        return new_value(r, YAML_NUMBER,
                         bytes_of_str(arena_printf(r->arena, "%llu", (unsigned long long)large)));
    if (!is_float_syntax(plain))
        return NULL;
    double number = strtod(plain, NULL);
    return isinf(number) ? NULL : new_value(r, YAML_NUMBER, number_text(r, number));
}

/* What it is by its look; NULL: text. */
static const struct yaml_value *look_up(struct reader *r, struct bytes text)
{
    if (is_one_of(text, "|~|null|Null|NULL") || text.len == 0)
        return &the_null;
    if (is_one_of(text, "y|Y|yes|Yes|YES|true|True|TRUE|on|On|ON"))
        return &the_truth;
    if (is_one_of(text, "n|N|no|No|NO|false|False|FALSE|off|Off|OFF"))
        return &the_lie;
    return strchr("+-.0123456789", text.at[0]) ? read_number(r, text) : NULL;
}

static const char *short_tag(const char *tag)
{
    return strncmp(tag, "tag:yaml.org,2002:", 18) == 0 ? tag + 18 : NULL;
}

static bool tag_fits(const char *tag, enum yaml_kind kind)
{
    static const struct {
        const char *name;
        enum yaml_kind kind;
    } tags[] = {
        {"null", YAML_NULL}, {"bool", YAML_BOOL}, {"int", YAML_NUMBER}, {"float", YAML_NUMBER}};

    for (size_t i = 0; i < ARRAY_LEN(tags); i++) {
        if (strcmp(tag, tags[i].name) == 0)
            return kind == tags[i].kind;
    }
    return true; /* a tag of somebody's own says nothing about the value */
}

/* JSON has no infinity, and etcd says so in its words. */
static const char *not_in_json(struct bytes text)
{
    if (is_one_of(text, ".inf|.Inf|.INF|+.inf|+.Inf|+.INF"))
        return "+Inf";
    if (is_one_of(text, "-.inf|-.Inf|-.INF"))
        return "-Inf";
    return is_one_of(text, ".nan|.NaN|.NAN") ? "NaN" : NULL;
}

static bool resolve_scalar(struct reader *r, const struct node *n, const struct yaml_value **out)
{
    static const char *const names[] = {"null", "bool", "int", "str"};
    const char *tag = n->tag ? short_tag(n->tag) : NULL;
    bool is_looked_up = tag && is_one_of(bytes_of_str(tag), "null|bool|int|float");
    bool is_text = n->tag ? !is_looked_up : !n->is_plain;
    const struct yaml_value *v = is_text ? NULL : look_up(r, n->text);

    if (tag && strcmp(tag, "binary") == 0)
        return refuse(r, "yaml: !!binary is not supported");
    if (!is_text && not_in_json(n->text))
        return refuse(r, "json: unsupported value: %s", not_in_json(n->text));
    if (!v)
        v = new_value(r, YAML_TEXT, n->text);
    if (tag && !tag_fits(tag, v->kind))
        return refuse(r, "yaml: cannot decode !!%s `%.*s` as a !!%s", names[v->kind],
                      (int)n->text.len, (const char *)n->text.at, tag);
    *out = v;
    return true;
}

/* ---- From nodes to values ---- */

static bool resolve(struct reader *r, struct node *n, const struct yaml_value **out);

static bool resolve_list(struct reader *r, const struct node *n, const struct yaml_value **out)
{
    struct yaml_value *v = arena_new(r->arena, struct yaml_value);
    const struct yaml_value **items =
        arena_alloc_array(r->arena, n->count, sizeof(const struct yaml_value *));

    *v = (struct yaml_value){.kind = YAML_LIST, .items = items};
    for (struct node *child = n->first; child; child = child->next) {
        if (!resolve(r, child, &items[v->count++]))
            return false;
    }
    *out = v;
    return true;
}

struct fields {
    struct yaml_field *at;
    size_t count, cap;
};

static void add_field(struct fields *f, struct bytes key, const struct yaml_value *value)
{
    if (f->count == f->cap) {
        f->cap = f->cap ? 2 * f->cap : 16;
        f->at = mem_resize(f->at, f->cap, sizeof(*f->at));
    }
    f->at[f->count++] = (struct yaml_field){key, value};
}

static bool is_merge(const struct node *key)
{
    return key->type == YAML_SCALAR_EVENT && key->is_plain && bytes_equal(key->text, BYTES("<<"));
}

static void merge_map(struct fields *f, const struct yaml_value *map)
{
    for (size_t i = 0; i < map->count; i++)
        add_field(f, map->fields[i].key, map->fields[i].value);
}

/* "<<" puts another map's fields here, or those of a list of maps, the first of which wins. */
static bool merge(struct reader *r, struct fields *f, const struct yaml_value *value)
{
    bool is_good = value->kind == YAML_MAP || value->kind == YAML_LIST;

    for (size_t i = 0; value->kind == YAML_LIST && i < value->count; i++)
        is_good = is_good && value->items[i]->kind == YAML_MAP;
    if (!is_good)
        return refuse(r, "yaml: map merge requires map or sequence of maps as the value");
    if (value->kind == YAML_MAP)
        merge_map(f, value);
    for (size_t i = value->count; value->kind == YAML_LIST && i-- > 0;)
        merge_map(f, value->items[i]);
    return true;
}

static bool key_text(struct reader *r, const struct yaml_value *key, struct bytes *out)
{
    switch (key->kind) {
    case YAML_TEXT:
    case YAML_NUMBER:
        *out = key->text;
        return true;
    case YAML_BOOL:
        *out = key->boolean ? BYTES("true") : BYTES("false");
        return true;
    case YAML_NULL:
        return refuse(r, "unsupported map key of type: null");
    case YAML_LIST:
    case YAML_MAP:
        return refuse(r, "yaml: invalid map key: a %s", key->kind == YAML_MAP ? "map" : "list");
    }
    unreachable();
}

static bool read_fields(struct reader *r, const struct node *n, struct fields *f)
{
    for (struct node *child = n->first; child; child = child->next->next) {
        const struct yaml_value *key, *value;
        struct bytes name;
        assert(child->next); /* a key without a value has an empty one */
        if (!resolve(r, child, &key) || !resolve(r, child->next, &value))
            return false;
        if (is_merge(child)) {
            if (!merge(r, f, value))
                return false;
        } else {
            if (!key_text(r, key, &name))
                return false;
            add_field(f, name, value);
        }
    }
    return true;
}

/* Fields of one name stay in the order in which they came: they lie in one array. */
static int by_key_then_place(const void *a, const void *b)
{
    const struct yaml_field *const *left = a, *const *right = b;
    int order = bytes_compare((*left)->key, (*right)->key);

    return order ? order : (*left > *right) - (*left < *right);
}

static const struct yaml_value *sorted_map(struct reader *r, const struct fields *f)
{
    struct yaml_value *v = arena_new(r->arena, struct yaml_value);
    struct yaml_field *fields = arena_new_array(r->arena, f->count, struct yaml_field);
    const struct yaml_field **order = mem_alloc_array(f->count, sizeof(*order));

    for (size_t i = 0; i < f->count; i++)
        order[i] = &f->at[i];
    if (f->count > 0)
        qsort(order, f->count, sizeof(*order), by_key_then_place);
    *v = (struct yaml_value){.kind = YAML_MAP, .fields = fields};
    for (size_t i = 0; i < f->count; i++) {
        if (i + 1 == f->count || !bytes_equal(order[i]->key, order[i + 1]->key))
            fields[v->count++] = *order[i];
    }
    mem_free(order);
    return v;
}

static bool resolve_map(struct reader *r, const struct node *n, const struct yaml_value **out)
{
    struct fields f = {0};
    bool is_good = read_fields(r, n, &f);

    if (is_good)
        *out = sorted_map(r, &f);
    mem_free(f.at);
    return is_good;
}

static bool resolve(struct reader *r, struct node *n, const struct yaml_value **out)
{
    bool is_good = true;

    if (n->target)
        return resolve(r, n->target, out);
    if (!n->resolved && n->type == YAML_SEQUENCE_START_EVENT)
        is_good = resolve_list(r, n, &n->resolved);
    else if (!n->resolved && n->type == YAML_MAPPING_START_EVENT)
        is_good = resolve_map(r, n, &n->resolved);
    else if (!n->resolved)
        is_good = resolve_scalar(r, n, &n->resolved);
    *out = n->resolved;
    return is_good;
}

bool yaml_read(struct bytes text, struct arena *arena, struct buf *why,
               const struct yaml_value **out)
{
    struct reader r = {.arena = arena, .why = why};
    struct node *root = NULL;

    *out = NULL;
    if (!yaml_parser_initialize(&r.parser))
        fatal("out of memory"); /* the one way in which it fails */
    yaml_parser_set_input_string(&r.parser, text.at, text.len);
    bool is_good = read_nodes(&r, &root);
    if (is_good && root)
        is_good = visit(&r, root, 0, false) && resolve(&r, root, out);
    yaml_parser_delete(&r.parser);
    return is_good;
}
