/*
 * stream_ids: which streams a client may still speak on, as section 5.1 of RFC 9113 has it.
 *
 * nghttp2 knows the streams that are open. Of one that is not, it forgets whether it ever was, and
 * who ended it; so it ignores what comes for it, as it has to where we have ended the stream and
 * the client cannot know yet. Here is remembered where that is not so:
 *
 *     silent    the newest streams that are closed and on which the client itself had said its last
 *               word, with END_STREAM or RST_STREAM
 *     skipped   the newest run of numbers that the client went past: they can never be opened
 *
 * What is too old to be remembered is ignored as before: never is a client sent away for frames
 * that were on their way.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { STREAM_IDS_SILENT_MAX = 8 };

struct stream_ids {
    int32_t last; /* that was opened */
    int32_t skipped_from, skipped_to;
    int32_t silent[STREAM_IDS_SILENT_MAX];
    unsigned silent_next;
};

/* A HEADERS frame names this stream, which may be open. False: it was skipped. */
bool stream_ids_open(struct stream_ids *s, int32_t id);

/* It is closed, and the client will not speak on it again. */
void stream_ids_silence(struct stream_ids *s, int32_t id);

/* Is it one of those? Only the newest are known. */
bool stream_ids_is_silent(const struct stream_ids *s, int32_t id);
