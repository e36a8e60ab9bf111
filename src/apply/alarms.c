#include "apply/apply_int.h"

#include "base/mem.h"

/* ---- The table ---- */

static int compare(struct apply_alarm a, struct apply_alarm b)
{
    if (a.member != b.member)
        return a.member < b.member ? -1 : 1;
    return (a.alarm > b.alarm) - (a.alarm < b.alarm);
}

/* Where it is, or where it belongs. */
static size_t place_of(const struct alarms *s, struct apply_alarm alarm)
{
    size_t low = 0, high = s->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(s->at[middle], alarm) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const struct alarms *s, size_t place, struct apply_alarm alarm)
{
    return place < s->count && compare(s->at[place], alarm) == 0;
}

bool alarms_have(const struct alarms *s, struct apply_alarm alarm)
{
    return is_at(s, place_of(s, alarm), alarm);
}

static size_t *counter_of(struct alarms *s, int32_t alarm)
{
    if (alarm == PB_ALARM_NOSPACE)
        return &s->no_space;
    return alarm == PB_ALARM_CORRUPT ? &s->corrupt : NULL;
}

static bool add(struct alarms *s, struct apply_alarm alarm)
{
    size_t place = place_of(s, alarm), *counter = counter_of(s, alarm.alarm);

    if (is_at(s, place, alarm))
        return false;
    if (s->count == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 4;
        s->at = mem_resize(s->at, s->cap, sizeof(*s->at));
    }
    memmove(s->at + place + 1, s->at + place, (s->count - place) * sizeof(*s->at));
    s->at[place] = alarm;
    s->count++;
    if (counter)
        ++*counter;
    return true;
}

static bool take_away(struct alarms *s, struct apply_alarm alarm)
{
    size_t place = place_of(s, alarm), *counter = counter_of(s, alarm.alarm);

    if (!is_at(s, place, alarm))
        return false;
    s->count--;
    memmove(s->at + place, s->at + place + 1, (s->count - place) * sizeof(*s->at));
    if (counter)
        --*counter;
    return true;
}

/* ---- The bucket: the alarm, encoded, is the key, and there is no value ---- */

static void encode(struct apply_alarm alarm, struct buf *out)
{
    pb_encode_alarm_member(
        &(struct pb_alarm_member){.member_id = alarm.member, .alarm = alarm.alarm}, out);
}

bool alarms_raise(struct alarms *s, struct backend *b, struct apply_alarm alarm)
{
    struct buf key = {0};
    assert(alarm.alarm != PB_ALARM_NONE);

    if (!add(s, alarm))
        return false;
    encode(alarm, &key);
    backend_put(b, BUCKET_ALARM, buf_bytes(&key), (struct bytes){0});
    buf_free(&key);
    return true;
}

bool alarms_clear(struct alarms *s, struct backend *b, struct apply_alarm alarm)
{
    struct buf key = {0};

    if (!take_away(s, alarm))
        return false;
    encode(alarm, &key);
    backend_delete(b, BUCKET_ALARM, buf_bytes(&key));
    buf_free(&key);
    return true;
}

static enum err load_one(struct alarms *s, struct bytes key, struct buf *why)
{
    struct arena arena = {0};
    struct pb_alarm_member m;
    enum err e = pb_decode_alarm_member(key, &arena, &m);

    arena_free(&arena);
    if (e != ERR_OK) {
        buf_printf(why, "bucket alarm: a key cannot be understood: %s", err_text(e));
        return ERR_CORRUPT;
    }
    add(s, (struct apply_alarm){m.member_id, m.alarm});
    return ERR_OK;
}

enum err alarms_load(struct alarms *s, struct backend *b, struct buf *why)
{
    struct backend_view v;
    struct backend_cursor c;
    struct bytes key, value;
    enum err e;

    backend_view_open(b, &v);
    backend_cursor_open(&v, BUCKET_ALARM, (struct bytes){0}, &c);
    while ((e = backend_cursor_next(&c, &key, &value)) == ERR_OK)
        if ((e = load_one(s, key, why)) != ERR_OK)
            break;
    if (e != ERR_OK && e != ERR_END && why->len == 0)
        buf_append_str(why, backend_view_damage(&v));
    backend_cursor_close(&c);
    backend_view_close(&v);
    return e == ERR_END ? ERR_OK : e;
}

void alarms_free(struct alarms *s)
{
    mem_free(s->at);
    *s = (struct alarms){0};
}

void alarms_check(const struct alarms *s)
{
    size_t no_space = 0, corrupt = 0;

    for (size_t i = 0; i < s->count; i++) {
        no_space += s->at[i].alarm == PB_ALARM_NOSPACE;
        corrupt += s->at[i].alarm == PB_ALARM_CORRUPT;
        if (i > 0)
            assert(compare(s->at[i - 1], s->at[i]) < 0);
    }
    assert(no_space == s->no_space);
    assert(corrupt == s->corrupt);
}
