/*
 * emit: one description of a thing, as JSON for programs or as text for people.
 *
 *     emit_begin(&e, "metadata", EMIT_OBJECT);        metadata:
 *     emit_id(&e, "nodeId", id);                        nodeId: 8e9e05c52164694d
 *     emit_end(&e);
 *
 * In text an object inside a list is one line, `name=value name=value`. Bytes that came out of a
 * file are shown so that neither a terminal nor a parser is misled: JSON gets its escapes, text
 * gets \xNN, and what is not UTF-8 is replaced or escaped.
 */
#pragma once

#include "base/json.h"

enum emit_kind { EMIT_OBJECT, EMIT_LIST };

enum { EMIT_DEPTH_MAX = 8 };

struct emit {
    struct buf out; /* buf_free */
    bool json;
    struct json writer;
    unsigned depth;
    struct {
        enum emit_kind kind;
        bool has_items;
    } open[EMIT_DEPTH_MAX];
};

/* name is NULL inside a list, and at the outermost. */
void emit_begin(struct emit *e, const char *name, enum emit_kind kind);
void emit_end(struct emit *e);

void emit_number(struct emit *e, const char *name, uint64_t value);
void emit_id(struct emit *e, const char *name, uint64_t value); /* hex; in JSON a string */
void emit_bool(struct emit *e, const char *name, bool value);
void emit_bytes(struct emit *e, const char *name, struct bytes value);
void emit_str(struct emit *e, const char *name, const char *value);
