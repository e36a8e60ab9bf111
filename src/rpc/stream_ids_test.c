#include "rpc/stream_ids.h"

#include "harness/test.h"

TEST(a_stream_that_was_skipped_cannot_be_opened)
{
    struct stream_ids s = {0};

    CHECK(stream_ids_open(&s, 1));
    CHECK(stream_ids_open(&s, 3));
    CHECK(stream_ids_open(&s, 1)); /* its trailers, or on their way */
    CHECK(stream_ids_open(&s, 9));
    CHECK(!stream_ids_open(&s, 5));
    CHECK(!stream_ids_open(&s, 7));
    CHECK(stream_ids_open(&s, 9));
    CHECK(stream_ids_open(&s, 11));
    CHECK(!stream_ids_open(&s, 7));
}

/* Java's clients begin with 3. */
TEST(a_client_may_begin_with_any_stream)
{
    struct stream_ids s = {0};

    CHECK(stream_ids_open(&s, 3));
    CHECK(!stream_ids_open(&s, 1));
    CHECK(stream_ids_open(&s, 5));
    CHECK(stream_ids_open(&s, INT32_MAX));
}

TEST(only_the_newest_of_the_silent_streams_are_known)
{
    struct stream_ids s = {0};

    CHECK(!stream_ids_is_silent(&s, 1));
    for (int32_t id = 1; id <= 2 * STREAM_IDS_SILENT_MAX + 1; id += 2)
        stream_ids_silence(&s, id);

    CHECK(!stream_ids_is_silent(&s, 1));
    for (int32_t id = 3; id <= 2 * STREAM_IDS_SILENT_MAX + 1; id += 2)
        CHECK(stream_ids_is_silent(&s, id));
    CHECK(!stream_ids_is_silent(&s, 2 * STREAM_IDS_SILENT_MAX + 3));
}
