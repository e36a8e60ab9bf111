/*
 * json: a JSON text being written, byte for byte as etcd's encoders would.
 *
 *     struct json j = {.out = &buf};
 *     json_begin_object(&j, NULL);           {
 *     json_put_number(&j, "id", 7);          "id":7
 *     json_begin_list(&j, "peerURLs");       ,"peerURLs":[
 *     json_put_text(&j, NULL, url);          "http://10.0.0.1:2380"
 *     json_end_list(&j);                     ]
 *     json_end_object(&j);                   }
 *
 * It puts commas where they belong and nothing else between: no space, no line. Order and nesting
 * are the caller's. A name is NULL inside a list and at the outermost; it is the caller's own word
 * and written as it is.
 *
 * What is written so is stored, hashed and compared, so texts are spelled as Go does it. Its
 * encoding/json escapes <, >, & and the two line separators of JavaScript, too; the logger that
 * etcd uses does not, and has fewer short escapes. Either way what is not UTF-8 becomes a
 * replacement character.
 */
#pragma once

#include "base/buf.h"

struct json {
    struct buf *out;
    bool more; /* what comes next needs a comma before it */
};

void json_begin_object(struct json *j, const char *name);
void json_end_object(struct json *j);
void json_begin_list(struct json *j, const char *name);
void json_end_list(struct json *j);

void json_put_null(struct json *j, const char *name);
void json_put_bool(struct json *j, const char *name, bool value);
void json_put_number(struct json *j, const char *name, uint64_t value);
void json_put_signed(struct json *j, const char *name, int64_t value);
void json_put_id(struct json *j, const char *name, uint64_t value); /* hex, in quotes */
void json_put_text(struct json *j, const char *name, struct bytes text);
void json_put_str(struct json *j, const char *name, const char *text);

/* A text that comes in pieces: those are appended to `out` in between, and need no escape. */
void json_begin_text(struct json *j, const char *name);
void json_end_text(struct json *j);

/* A whole list of them. */
void json_put_texts(struct json *j, const char *name, const struct bytes *texts, size_t count);

enum json_spelling { JSON_GO, JSON_ZAP };

/*
 * Takes the next piece off *text and returns what stands for it between quotes: as much as needs no
 * escape, or one escape, in `scratch`. For those who have no buf to write to.
 */
struct bytes json_next_piece(struct bytes *text, enum json_spelling spelling,
                             char scratch[static 8]);

/*
 * The other way: takes one escape off the front of *text, or two that are one character together,
 * and appends what it stands for. The syntax must have been seen to be good (gateway/json_scan.h).
 * False: it was half of a character and the other half does not follow; *text is behind it then.
 */
bool json_take_escape(struct bytes *text, struct buf *out);
