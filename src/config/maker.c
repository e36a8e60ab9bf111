#include "config/maker.h"

#include "base/mem.h"
#include "base/text.h"

bool maker_refuse(struct maker *m, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    buf_vprintf(m->why, format, args);
    va_end(args);
    return false;
}

const char *maker_quote(struct maker *m, struct bytes text)
{
    struct buf quotes = {0};

    text_append_quoted(&quotes, text);
    const char *kept = arena_copy_str(&m->out->arena, buf_bytes(&quotes));
    buf_free(&quotes);
    return kept;
}

void maker_note_two(struct maker *m, enum log_level level, const char *message, const char *key,
                    const char *value, const char *second_key, const char *second_value)
{
    if (m->note_count == m->note_cap) {
        m->note_cap = m->note_cap ? 2 * m->note_cap : 8;
        m->notes = mem_resize(m->notes, m->note_cap, sizeof(*m->notes));
    }
    m->notes[m->note_count++] = (struct config_note){
        .level = level, .message = message, .fields = {{key, value}, {second_key, second_value}}};
}

void maker_note(struct maker *m, enum log_level level, const char *message, const char *key,
                const char *value)
{
    maker_note_two(m, level, message, key, value, NULL, NULL);
}

void maker_keep_notes(struct maker *m)
{
    struct config_note *kept = arena_new_array(&m->out->arena, m->note_count, struct config_note);

    for (size_t i = 0; i < m->note_count; i++)
        kept[i] = m->notes[i];
    m->out->notes = kept;
    m->out->note_count = m->note_count;
    mem_free(m->notes);
}
