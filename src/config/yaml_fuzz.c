/*
 * Any bytes as a configuration file.
 *
 * Beyond not crashing: a refusal has a reason, and what was accepted has only texts that a flag can
 * hold. The same bytes read twice are the same.
 */
#include "base/assert.h"
#include "config/file.h"
#include "config/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_value(const struct yaml_value *v)
{
    for (size_t i = 0; v->kind == YAML_LIST && i < v->count; i++)
        assert(v->items[i]);
    for (size_t i = 0; v->kind == YAML_MAP && i < v->count; i++) {
        assert(v->fields[i].value);
        assert(i == 0 || bytes_compare(v->fields[i - 1].key, v->fields[i].key) < 0);
    }
}

static void check_tree(struct bytes text, struct arena *arena)
{
    const struct yaml_value *root;
    struct buf why = {0};
    bool is_good = yaml_read(text, arena, &why, &root);

    assert(is_good == (why.len == 0));
    if (is_good && root)
        check_value(root);
    buf_free(&why);
}

static void check_flags(struct bytes text, struct arena *arena)
{
    struct flags flags;
    struct buf why = {0};
    const char *unknown;

    flags_init(&flags, arena);
    enum config_file_result result = config_file_parse(text, &flags, &why, &unknown);
    assert((result == CONFIG_FILE_OK) == (why.len == 0));
    assert(unknown);
    buf_free(&why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = bytes_of(data, size);
    struct arena arena = {0};

    check_tree(text, &arena);
    check_flags(text, &arena);
    arena_free(&arena);
    return 0;
}
