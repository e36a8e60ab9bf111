/*
 * picture: a story, drawn for somebody who wants to look instead of read.
 *
 * One page of HTML that needs nothing else: time goes to the right, each member has a lane.
 *
 *     0 s          1 s          2 s                        seconds, phases
 *     member 0  [==== leads 2 ====]X    ^[-- follows -]     bars, in the colour of the term
 *               | || | | | | |             || |             ticks: operations, answered or not
 *               ____________rrrrrr_____________________     rows: what does not get here
 *     member 1  ...
 *                                              | broken     the promise, and when it was broken
 *
 * Messages between members are thin lines from lane to lane. Everything says what it is when one
 * points at it; the wheel zooms, dragging moves, a double click shows the whole again.
 *
 * Size       below PICTURE_BYTES_MAX, however long the story. Of messages and operations, if there
 *            are too many, the newest are drawn and some of the older ones; the page says so.
 */
#pragma once

#include "base/buf.h"
#include "base/mem.h"
#include "sim/story.h"

struct history;

enum { PICTURE_BYTES_MAX = 1000000 };

struct picture {
    const struct story *story;
    const struct history *history; /* NULL: no operations */
    const char *title;
    const char *problem; /* NULL or empty: none */
};

void picture_draw(const struct picture *p, struct buf *out);

/* The same, into a file of the machine that this runs on. False: it cannot be written (errno). */
MUST_CHECK bool picture_write(const struct picture *p, const char *path);
