/*
 * Messages encoded by protobuf for Python (testdata/make_vectors.py), decoded and encoded by us,
 * with the hand-written codecs and without.
 */
#include "harness/test.h"
#include "pb/codec.h"
#include "pb/opinion_rig_test.h"
#include "pb/pb_int.h"

#include <stdio.h>
#include <stdlib.h>

struct vector {
    const struct pb_schema *const *schemas; /* to choose from */
    size_t schema_count;
    const struct pb_schema *schema; /* NULL: the message is of another room */
    struct buf wire, canonical, text;
    bool refused;
};

static const char *const path = "src/pb/testdata/vectors.txt";

static void take_hex(const char *hex, struct buf *out)
{
    unsigned byte;

    for (buf_clear(out); sscanf(hex, "%2x", &byte) == 1; hex += 2)
        buf_append_byte(out, (uint8_t)byte);
}

/* What a line says after its first word, or NULL if that is another word. */
static const char *after(const char *line, const char *word)
{
    size_t len = strlen(word);

    return strncmp(line, word, len) == 0 ? line + len : NULL;
}

static const struct pb_schema *find_schema(const struct vector *v, const char *name)
{
    for (size_t i = 0; i < v->schema_count; i++) {
        if (strcmp(v->schemas[i]->name, name) == 0)
            return v->schemas[i];
    }
    return NULL;
}

static void take_line(struct vector *v, const char *line, bool *in_text)
{
    const char *rest;

    if (*in_text) {
        buf_printf(&v->text, "%s\n", line);
    } else if ((rest = after(line, "message "))) {
        v->schema = find_schema(v, rest);
    } else if ((rest = after(line, "wire "))) {
        take_hex(rest, &v->wire);
        buf_clear(&v->canonical);
        buf_append(&v->canonical, buf_bytes(&v->wire));
    } else if ((rest = after(line, "canonical "))) {
        take_hex(rest, &v->canonical);
    } else if (after(line, "refused")) {
        v->refused = true;
    } else if (after(line, "text")) {
        *in_text = true;
    } else if (line[0] != '#') {
        test_fail(__FILE__, __LINE__, "%s: a line that makes no sense: %s", path, line);
    }
}

/* The next block, up to the empty line that ends it; false at the end of the file. */
static bool next_vector(FILE *f, struct vector *v)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    bool in_text = false;

    buf_clear(&v->text);
    v->refused = false;
    v->schema = NULL;
    while ((len = getline(&line, &cap, f)) > 1) {
        line[len - 1] = '\0';
        take_line(v, line, &in_text);
    }
    free(line);
    return len > 0;
}

static void check_content(const struct vector *v, const void *msg)
{
    struct buf out = {0};

    pb_dump(v->schema, msg, &out);
    CHECK_BYTES(buf_bytes(&out), buf_bytes(&v->text));
    buf_clear(&out);
    pb_encode(v->schema, msg, &out);
    CHECK_BYTES(buf_bytes(&out), buf_bytes(&v->canonical));
    CHECK_EQ(pb_encoded_size(v->schema, msg), v->canonical.len);
    buf_clear(&out);
    pb_encode_by_table(v->schema, msg, &out);
    CHECK_BYTES(buf_bytes(&out), buf_bytes(&v->canonical));
    buf_free(&out);
}

static void check_vector(const struct vector *v)
{
    struct arena arena = {0};
    void *msg = arena_alloc(&arena, v->schema->size);
    void *by_table = arena_alloc(&arena, v->schema->size);

    enum err e = pb_decode(v->schema, buf_bytes(&v->wire), &arena, msg);
    enum err by_table_e = pb_decode_by_table(v->schema, buf_bytes(&v->wire), &arena, by_table);

    CHECK_EQ(e, by_table_e);
    CHECK_EQ(e != ERR_OK, v->refused);
    if (!v->refused) {
        check_content(v, msg);
        check_content(v, by_table);
    }
    arena_free(&arena);
}

size_t vectors_check(const struct pb_schema *const *schemas, size_t count,
                     const struct pb_schema *except)
{
    FILE *f = fopen(path, "r");
    struct vector v = {.schemas = schemas, .schema_count = count};
    bool seen[256] = {false};
    size_t checked = 0;

    CHECK(f != NULL);
    CHECK(count <= ARRAY_LEN(seen));
    while (next_vector(f, &v)) {
        if (!v.schema)
            continue; /* of another room, or a comment of its own */
        check_vector(&v);
        checked++;
        for (size_t i = 0; i < count; i++)
            seen[i] |= schemas[i] == v.schema && (v.wire.len > 0 || v.schema->field_count == 0);
    }
    for (size_t i = 0; i < count; i++) {
        if (!seen[i] && schemas[i] != except)
            test_fail(__FILE__, __LINE__, "%s has no vector", schemas[i]->name);
    }
    fclose(f);
    buf_free(&v.wire);
    buf_free(&v.canonical);
    buf_free(&v.text);
    return checked;
}
