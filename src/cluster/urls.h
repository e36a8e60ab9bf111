/*
 * urls: where members say they can be reached, checked and spelled as etcd does.
 *
 * A list comes as one text with commas, or as many texts. Each must be an http, https, unix or
 * unixs URL; the first two have "host:port" and no path. Lists are kept sorted, since ids are
 * computed over them. The error texts are etcd's, or those of the library it parses with.
 *
 * Not here   Who lives at an address: names of hosts are not resolved.
 * Leans on   base; io/net.h to tell a number from a name.
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"

enum url_scheme { URL_HTTP, URL_HTTPS, URL_UNIX, URL_UNIXS };

/* One URL taken apart. Everything looks into an arena. */
struct url {
    struct bytes text; /* whole, as it is compared, hashed and stored */
    enum url_scheme scheme;
    struct bytes host; /* without brackets; for unix all that comes before the path */
    struct bytes port; /* digits; empty for unix, and where none was given */
    struct bytes path; /* unix only */
};

struct url_list {
    const struct bytes *at;
    size_t count;
};

/* "http". */
const char *url_scheme_name(enum url_scheme scheme);
bool url_scheme_is_secure(enum url_scheme scheme); /* https or unixs */
bool url_scheme_is_unix(enum url_scheme scheme);

/* Takes one URL apart, spaces around it ignored. False, and *why says what is wrong with it. */
bool url_parse(struct bytes text, struct arena *arena, struct buf *why, struct url *out);

/* A list separated by commas, parsed, sorted. An empty piece is no URL. */
bool url_list_parse(struct bytes text, struct arena *arena, struct buf *why, struct url_list *out);

/* The same from texts of their own. "no valid URLs given" for none. */
bool url_list_check(struct url_list texts, struct arena *arena, struct buf *why,
                    struct url_list *out);

/* The pieces between commas, empty ones too, as they are. */
struct url_list url_list_split(struct bytes text, struct arena *arena);

/* A copy of the list in order, in `arena`; the texts are shared. */
struct url_list url_list_sorted(struct url_list list, struct arena *arena);

/* A copy of a sorted list without its repeats. */
struct url_list url_list_unique(struct url_list sorted, struct arena *arena);

bool url_list_equal(struct url_list a, struct url_list b);
bool url_list_has(struct url_list list, struct bytes url);

/* Appends the texts with commas between them. */
void url_list_join(struct url_list list, struct buf *out);
