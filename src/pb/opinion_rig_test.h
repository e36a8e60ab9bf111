/*
 * opinion_rig: what protobuf-c makes of our .proto files, held against tables and against the codec
 * on random messages. protobuf-c is nowhere else in the house. For the tests of pb and of entry.
 */
#pragma once

#include "pb/schema.h"

#include <protobuf-c/protobuf-c.h>

/* As many tables as generated descriptors, in any order. */
struct opinion {
    const struct pb_schema *const *ours;
    const ProtobufCMessageDescriptor *const *theirs;
    size_t count;
};

/* The tables say what the .proto files say. */
void opinion_check_tables(const struct opinion *o);

/* Of a oneof, all members and no others share one union; everything else has a place of its own. */
void opinion_check_places(const struct opinion *o);

/* Random messages are the same to all three codecs. */
void opinion_check_random(const struct opinion *o);

/* One byte of a good message is changed, or its end cut off: nobody crashes and both paths agree.
 */
void opinion_check_damaged(const struct opinion *o);

/* Messages encoded by protobuf for Python (testdata/vectors.txt), as far as they are of these
 * types, are read and written alike, with the hand-written codecs and without. Every type but
 * `except` has one with content. Returns how many there were. */
size_t vectors_check(const struct pb_schema *const *schemas, size_t count,
                     const struct pb_schema *except);
