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
 *     target "//aaa...", 10 KiB  TOO_LONG   (414)
 *
 * A redirect may be ten times as long as the request that it answers: a '"' of the path is encoded
 * twice, "%2522", and is in a field and in a page. So a target whose path has to be cleaned
 * or decoded is refused past HTTP_ODD_TARGET_BYTES_MAX. Go has no such bound; no path that is
 * served is as long as a tenth of it.
 *
 * Promises   1. Where a client is sent it is HERE, or TOO_LONG to be asked for.
 *            2. Work and memory are a few times the length of the path; a path that is neither
 *               cleaned nor decoded is looked at once. What is appended for a target that is not
 *               TOO_LONG is at most HTTP_DIRECTIONS_BYTES_MAX.
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

enum http_path_kind { HTTP_PATH_HERE, HTTP_PATH_ELSEWHERE, HTTP_PATH_STAR, HTTP_PATH_TOO_LONG };

/* Are there two digits behind each %? What follows a '?' is not looked at. */
bool http_path_is_sound(struct bytes target);

/* A target's path, and what it has behind the first '?'. */
struct bytes http_path_of_target(struct bytes target, struct bytes *query);

/* Reads a sound target. *out is the decoded path, or where to go instead; if it is too long, the
 * path as it came. It is part of the target or of *text, which is the caller's. No paths (NULL):
 * there are no trees. */
enum http_path_kind http_path_read(const struct http_paths *paths, struct bytes verb,
                                   struct bytes target, struct buf *text, struct bytes *out);

/* The status of the response to a request that is not HERE: 307; or, with an empty body, 414, and
 * 200 or 400 for "*". */
unsigned http_path_status(enum http_path_kind kind, struct bytes verb);

/* Appends the value of "Location", and a page with a link to there. */
void http_path_location(struct bytes path, struct bytes query, struct buf *out);
void http_path_page(struct bytes path, struct bytes query, struct buf *out);
