#include "pb/schema.h"

#include "base/mem.h"
#include "pb/codec.h"
#include "pb/pb_int.h"

#define LISTED(name, type) &pb_##name##_schema,
const struct pb_schema *const pb_schemas[] = {PB_KV_MESSAGES(LISTED) PB_ADMIN_MESSAGES(LISTED)
                                                  PB_FILE_MESSAGES(LISTED)};
#undef LISTED
const size_t pb_schema_count = ARRAY_LEN(pb_schemas);

/* Most messages number their fields 1, 2, 3, so the row is usually where the number says. */
const struct pb_field *pb_find_field(const struct pb_schema *schema, uint32_t number)
{
    size_t low = 0, high = schema->field_count;

    if (number - 1 < high && schema->fields[number - 1].number == number)
        return &schema->fields[number - 1];
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (schema->fields[middle].number == number)
            return &schema->fields[middle];
        if (schema->fields[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

bool pb_is_inside(const struct pb_schema *schema, const uint8_t *msg)
{
    for (const struct pb_field *f = schema->fields; f < schema->fields + schema->field_count; f++) {
        if (f->place == PB_ALWAYS ? pb_is_set(f, msg + f->offset) : pb_is_present(f, msg))
            return true;
    }
    return false;
}
