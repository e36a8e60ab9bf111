/*
 * backups: images of the state for clients who want to keep one.
 *
 *     API_IMAGE --> cutting_ask --the cut--> backups_take --> api
 *
 * Promises   1. A call that came in goes out exactly once, by backups_take, unless it is forgotten
 *               before: then its image goes with it.
 * Not here   The cut, and how many images there may be (cutting.h). Sending it (api).
 */
#pragma once

#include "api/api.h"
#include "base/list.h"

struct cutting;
struct image;

struct backups {
    struct cutting *cutting;
    struct list asked, cut; /* struct backup_request */
};

void backups_init(struct backups *b, struct cutting *cutting);
/* Also one that is all zeroes. Calls that wait are api's to end; images are cutting's. */
void backups_free(struct backups *b);

/* An API_IMAGE; and it is to be forgotten: false, it was not here. */
void backups_need(struct backups *b, const struct api_need *need);
bool backups_forget(struct backups *b, const struct api_call *c);

/* One who can be told, with the image, which is his from now on; or NULL for it: he cannot have
 * one. NULL: there is nobody. */
struct api_call *backups_take(struct backups *b, struct image **image);

/* All invariants, asserted. */
void backups_check(const struct backups *b);
