/*
 * path: what a request asks for, as Go's http.ServeMux has it.
 *
 * The path of a target is cleaned, "/a//b/./c/../d" to "/a/b/d", and if that changes it the client
 * is sent to the clean one (307, Temporary Redirect). So is a client that leaves out the slash in
 * which the name of a tree ends. Whoever joins "http://host:2379/" and "/v3/kv/range" gets there.
 * Otherwise the path is decoded: "/%68ealth" is "/health". A %2F is no slash where names are
 * compared, and is one in what is below a tree.
 *
 *     target "//v3/kv/range?x"   ELSEWHERE  /v3/kv/range
 *     target "/v3"               ELSEWHERE  /v3/
 *     target "/v3/kv%2Frange"    HERE       /v3/kv/range
 *     target "/livez%2Fx"        HERE       /livez%2Fx, which nothing is called
 *     target "*"                 STAR       the server itself
 *
 * Promises   1. Where a client is sent it is HERE.
 *            2. Work and memory are a few times the length of the path.
 */
#pragma once

#include "base/buf.h"

#include <stdbool.h>

/* What is served at a port. */
struct http_paths {
    const char *const
        *trees; /* names that end in a slash, below which anything may be; then NULL */
    const char *alias, *meant; /* so begins a path that is meant to begin otherwise; or NULL */
};

enum http_path_kind { HTTP_PATH_HERE, HTTP_PATH_ELSEWHERE, HTTP_PATH_STAR };

/* Are there two digits behind each %? What follows a '?' is not looked at. */
bool http_path_is_sound(struct bytes target);

/* Of a sound target, without its query. *out is the decoded path, or where to go instead; it is
 * part of the target or of *text, which is the caller's. No paths (NULL): there are no trees. */
enum http_path_kind http_path_read(const struct http_paths *paths, struct bytes verb,
                                   struct bytes target, struct buf *text, struct bytes *out);

/* Appends the value of "Location", and a page with a link to there. */
void http_path_location(struct bytes path, struct bytes query, struct buf *out);
void http_path_page(struct bytes path, struct bytes query, struct buf *out);
