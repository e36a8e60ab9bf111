/*
 * own_image: an image of this member's own state, to be installed in its place.
 *
 * No snapshot comes from anywhere as long as a member is alone, and yet the state must bear to be
 * replaced at any moment. So tests have a member make an image of itself, as of some index, and
 * install it; to clients it must be as if nothing had happened, but for a proposal here and there
 * that times out. No flag leads here.
 *
 *     IDLE --ask--> ASKED: no further entry is applied, and large deletes are settled
 *     --the cut--> BUILDING: a worker copies what the store had, and opens the rooms on it
 *     --BUILT--> install_begin
 *
 * An image from another member is ahead of what is applied here. So, too, can this one be: the
 * member waits at the cut for `ahead` more entries to be committed; a worker applies them to the
 * image, and the member itself only the first half of them, or up to the middle of one that takes
 * long. The others are overtaken.
 *
 * Promises   1. The image is what the entries up to its index make of it: settled, at the cut, and
 *               in no other way than on any member.
 *            2. No entry above the image's index is applied before it is installed.
 * Not here   Cuts that are sent to other members: those are read in slices. This one holds a view
 * of the store open while it is copied, which is long for a large one.
 */
#pragma once

#include "backend/backend.h"
#include "entry/entry.h"
#include "io/worker.h"
#include "mvcc/mvcc.h"
#include "server/state.h"

struct server;

enum own_image_step { OWN_IMAGE_IDLE, OWN_IMAGE_ASKED, OWN_IMAGE_BUILDING, OWN_IMAGE_BUILT };

struct own_image {
    enum own_image_step step;
    uint64_t ahead; /* asked for */
    struct mvcc_waiter waiter;

    /* from the cut on */
    struct backend_options store; /* where the image is to be */
    struct state_options rooms;
    struct backend_view view; /* of the old store; the worker closes it */
    bool has_view;
    struct raft_entry entries[OWN_IMAGE_AHEAD_MAX]; /* behind the cut */
    size_t entry_count;
    uint64_t now_ms; /* when it was asked for; then, at the cut */

    /* the worker's */
    struct job job;
    struct state image;
    struct buf why;   /* empty, or why there is no image */
    bool lacks_space; /* for this reason: the member goes on as it is */
};

/* Asks for one. False if one is under way already. */
bool own_image_ask(struct own_image *o, uint64_t ahead, uint64_t now_ms);

/* Also one that is all zeroes. The old store is still there; the worker has nothing in hand. */
void own_image_free(struct own_image *o);

/* One step of whatever is under way; called in every turn. */
void own_image_some(struct server *s);
