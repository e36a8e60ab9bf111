#include "base/blob.h"

#include "base/buf.h"
#include "harness/test.h"

#include <pthread.h>

TEST(a_blob_lives_until_its_last_owner_lets_go)
{
    struct blob *b = blob_copy(BYTES("shared"));

    CHECK(blob_ref(b) == b);
    CHECK_EQ(blob_ref_count(b), 2);
    blob_unref(b);
    CHECK_BYTES(blob_bytes(b), BYTES("shared"));
    blob_unref(b);
}

TEST(a_blob_takes_over_what_was_gathered)
{
    struct buf gathered = {0};

    size_t room = blob_begin(&gathered);
    CHECK_EQ(gathered.len, room);
    for (unsigned i = 0; i < 1000; i++)
        buf_append_str(&gathered, "piece ");
    struct blob *b = blob_end(&gathered);

    CHECK_EQ(gathered.len + gathered.cap, 0);
    CHECK_EQ(blob_bytes(b).len, 6000);
    CHECK_BYTES(bytes_of(blob_bytes(b).at + 5994, 6), BYTES("piece "));
    CHECK_EQ(blob_ref_count(b), 1);
    blob_unref(b);
}

TEST(no_blob_is_empty_and_needs_no_care)
{
    CHECK(blob_ref(NULL) == NULL);
    CHECK_EQ(blob_bytes(NULL).len, 0);
    blob_unref(NULL);
}

static void *ref_and_unref(void *b)
{
    for (int i = 0; i < 10000; i++)
        blob_unref(blob_ref(b));
    blob_unref(b);
    return NULL;
}

TEST(threads_may_share_a_blob)
{
    struct blob *b = blob_copy(BYTES("x"));
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, ref_and_unref, blob_ref(b));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);

    CHECK_EQ(blob_ref_count(b), 1);
    blob_unref(b);
}
