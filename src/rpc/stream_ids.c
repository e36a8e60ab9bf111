#include "rpc/stream_ids.h"

bool stream_ids_open(struct stream_ids *s, int32_t id)
{
    if (id <= s->last)
        return s->skipped_to == 0 || id < s->skipped_from || id > s->skipped_to;
    int32_t next = s->last == 0 ? 1 : s->last + 2;
    if (id > next) {
        s->skipped_from = next;
        s->skipped_to = id - 1;
    }
    s->last = id;
    return true;
}

void stream_ids_silence(struct stream_ids *s, int32_t id)
{
    s->silent[s->silent_next] = id;
    s->silent_next = (s->silent_next + 1) % STREAM_IDS_SILENT_MAX;
}

bool stream_ids_is_silent(const struct stream_ids *s, int32_t id)
{
    for (unsigned i = 0; i < STREAM_IDS_SILENT_MAX; i++)
        if (s->silent[i] == id)
            return true;
    return false;
}
