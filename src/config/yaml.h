/*
 * yaml: a YAML text as a tree of values, as etcd's reader of its configuration sees it.
 *
 * etcd makes JSON of the YAML first and decodes that. So what a value is has been settled before
 * anybody asks for it: YAML 1.1 decides by the look of a plain word (yes is true, 010 is eight,
 * 1e3 is a number, what is in quotes is text), numbers end up as JSON would write them, and keys
 * are texts, whatever they looked like.
 *
 *     text --libyaml--> events --> nodes, aliases resolved, merged keys in their place
 *
 * Promises   1. Every text ends as a tree or as a reason; the reasons are those of etcd's reader
 *               where it has one ("line 2: mapping values are not allowed in this context").
 *            2. What an alias stands for is shared, never copied, so memory is bounded by the text;
 *               and a text that would unfold to very much more than it is, is refused as in etcd.
 *            3. The fields of a map are in order of their keys, each once: the last one counts.
 *            4. No tree is deeper than YAML_DEPTH_MAX, aliases included: recursion is safe.
 * Not here   What a key means (config/file.h). Anchors of !!binary and !!timestamp: the former is
 *            refused, the latter text, as in etcd.
 * Leans on   libyaml, whose door this is.
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"

enum yaml_kind { YAML_NULL, YAML_BOOL, YAML_NUMBER, YAML_TEXT, YAML_LIST, YAML_MAP };

struct yaml_field;

struct yaml_value {
    enum yaml_kind kind;
    bool boolean;
    struct bytes text; /* TEXT; NUMBER: as JSON has it, such as "1.5" or "1e+21" */
    const struct yaml_value *const *items; /* LIST */
    const struct yaml_field *fields;       /* MAP */
    size_t count;                          /* of either */
};

struct yaml_field {
    struct bytes key;
    const struct yaml_value *value;
};

/* The first document of the text, NULL if there is none. False, and *why says what is wrong. The
 * tree lives in the arena; nothing of it points into the text. */
bool yaml_read(struct bytes text, struct arena *arena, struct buf *why,
               const struct yaml_value **out);
