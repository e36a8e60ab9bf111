/* What happens, told: to the hash that two runs of a seed must share, to the story that can be
 * drawn, and to whoever wants a trace. */
#include "sim/sim_int.h"

#include <inttypes.h>
#include <stdio.h>

void sim_note(struct sim *s, uint64_t what)
{
    s->hash = (s->hash ^ what) * 0x100000001b3ull;
    s->hash ^= s->hash >> 29;
}

void sim_trace(struct sim *s, const char *format, ...)
{
    char line[LOG_LINE_BYTES_MAX];
    va_list args;

    if (!s->o.trace)
        return;
    int len = snprintf(line, sizeof(line), "%12.6f ", (double)s->time.now_ns / 1e9);
    va_start(args, format);
    int more = vsnprintf(line + len, sizeof(line) - (size_t)len, format, args);
    va_end(args);
    size_t all = (size_t)len + (size_t)more;
    s->o.trace(s->o.trace_context, bytes_of(line, all < sizeof(line) ? all : sizeof(line) - 1));
}

static const char *place_name(const struct sim *s, unsigned place, char out[static 8])
{
    bool is_member = place < s->member_count;

    snprintf(out, 8, "%c%u", is_member ? 'm' : 'c',
             1 + (is_member ? place : place - s->member_count));
    return out;
}

static void tell_event(struct sim *s, struct story_event e)
{
    char from[8], to[8];
    bool has_text = e.kind == STORY_PHASE || e.kind == STORY_BROKEN;

    e.until_ns = s->time.now_ns;
    if (e.at_ns == 0)
        e.at_ns = e.until_ns;
    story_note(s->story, &e);
    if (!s->o.trace || has_text)
        return;
    place_name(s, e.from, from);
    place_name(s, e.to, to);
    if (e.kind >= STORY_DISK_SICK && e.kind <= STORY_DISK_SPOILED)
        sim_trace(s, "%s %s: %s\n", from, story_kind_name(e.kind),
                  sim_fault_name((enum sim_fault)e.number));
    else if (e.kind >= STORY_CUT)
        sim_trace(s, "%s -> %s %s %" PRIu64 " (after %.3f ms)\n", from, to, story_kind_name(e.kind),
                  e.number, (double)(e.until_ns - e.at_ns) / 1e6);
    else
        sim_trace(s, "%s %s %" PRId64 "\n", from, story_kind_name(e.kind), (int64_t)e.number);
}

void sim_tell(struct sim *s, enum story_kind kind, unsigned from, unsigned to, uint64_t number)
{
    tell_event(
        s, (struct story_event){
               .kind = (uint8_t)kind, .from = (uint8_t)from, .to = (uint8_t)to, .number = number});
}

void sim_tell_text(struct sim *s, enum story_kind kind, const char *text)
{
    story_note_text(s->story, s->time.now_ns, kind, text);
    sim_trace(s, "%s: %s\n", story_kind_name(kind), text);
}

/* A line of a member's log, which has the member's own time in it. */
void sim_tell_line(void *context, struct bytes line)
{
    struct sim_member *m = context;

    sim_trace(m->sim, "m%u %.*s", m->number + 1, (int)line.len, (const char *)line.at);
}

void sim_on_wire_event(void *context, enum fake_wire_event what, unsigned from, unsigned to,
                       uint64_t sent_ns, size_t bytes)
{
    static const enum story_kind kinds[] = {
        [FAKE_WIRE_SENT] = STORY_SENT,           [FAKE_WIRE_LOST] = STORY_LOST,
        [FAKE_WIRE_CONNECTED] = STORY_CONNECTED, [FAKE_WIRE_REFUSED] = STORY_REFUSED,
        [FAKE_WIRE_RESET] = STORY_RESET,         [FAKE_WIRE_REPEATED] = STORY_REPEATED,
    };

    tell_event(context, (struct story_event){.kind = (uint8_t)kinds[what],
                                             .at_ns = sent_ns,
                                             .from = (uint8_t)from,
                                             .to = (uint8_t)to,
                                             .number = bytes});
}
