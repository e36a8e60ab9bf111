#include "base/limits.h"
#include "base/mem.h"
#include "config/maker.h"
#include "config/value.h"
#include "config/yaml.h"

#include <string.h>

#define ROTATION_MB 100 /* where none is said */

void maker_log_by_default(struct config *c)
{
    static const struct bytes standard_error[] = {BYTES("stderr")};

    c->log_level = LOG_INFO;
    c->log_format = LOG_JSON;
    c->log_outputs = (struct url_list){standard_error, 1};
}

bool maker_read_log_level(struct maker *m)
{
    const char *text = maker_value(m, FLAG_LOG_LEVEL)->text;
    char *lower = arena_copy_str(&m->out->arena, bytes_of_str(text));

    for (char *c = lower; *c; c++)
        *c = *c >= 'A' && *c <= 'Z' ? (char)(*c + 32) : *c;
    if (log_level_parse(lower, &m->out->log_level))
        return true;
    if (lower[0] == 0)
        m->out->log_level = LOG_INFO;
    else if (strcmp(lower, "warning") == 0)
        m->out->log_level = LOG_WARN;
    else if (strcmp(lower, "dpanic") == 0 || strcmp(lower, "panic") == 0)
        m->out->log_level = LOG_FATAL; /* two levels between error and fatal that no line has */
    else
        return maker_refuse(m, "unrecognized level: %s", maker_quote(m, bytes_of_str(text)));
    return true;
}

/* The list is as Go's %q has it. */
static bool refuse_beside_journal(struct maker *m, struct url_list said)
{
    maker_refuse(m, "running with systemd/journal but other '--log-outputs' values ([");
    for (size_t i = 0; i < said.count; i++)
        maker_refuse(m, "%s%s", i > 0 ? " " : "", maker_quote(m, said.at[i]));
    return maker_refuse(m,
                        "]) are configured with 'default'; override 'default' value with something "
                        "else");
}

static bool read_log_outputs(struct maker *m)
{
    struct url_list said = maker_value(m, FLAG_LOG_OUTPUTS)->set;
    struct bytes *outputs = arena_new_array(&m->out->arena, said.count, struct bytes);

    if (said.count > 1 && url_list_has(said, BYTES("default")))
        return maker_refuse(m, "multi logoutput for \"default\" is not supported yet");
    if (said.count > 1 && url_list_has(said, BYTES("systemd/journal")))
        return refuse_beside_journal(m, said);
    if (said.count > CONFIG_LOG_OUTPUTS_MAX)
        return maker_refuse(m, "--log-outputs takes at most %d outputs (set to %zu)",
                            CONFIG_LOG_OUTPUTS_MAX, said.count);
    if (url_list_has(said, (struct bytes){0}))
        return maker_refuse(m, "open sink \"\": open : no such file or directory");
    for (size_t i = 0; i < said.count; i++)
        outputs[i] = bytes_equal(said.at[i], BYTES("default")) ? BYTES("stderr") : said.at[i];
    m->out->log_outputs = (struct url_list){outputs, said.count};
    return true;
}

/* Go's words for what stands where something else should. */
static const char *json_kind(const struct yaml_value *value)
{
    static const char *const kinds[] = {
        [YAML_NULL] = "null",   [YAML_BOOL] = "bool",  [YAML_NUMBER] = "number",
        [YAML_TEXT] = "string", [YAML_LIST] = "array", [YAML_MAP] = "object"};

    return kinds[value->kind];
}

static bool refuse_rotation(struct maker *m, const struct yaml_field *field, const char *shown,
                            const char *type)
{
    return maker_refuse(
        m,
        "invalid log rotation config: json: cannot unmarshal %s%s into Go struct field "
        "logRotationConfig.Logger.%.*s of type %s",
        json_kind(field->value), shown, (int)field->key.len, (const char *)field->key.at, type);
}

static bool read_rotation_number(struct maker *m, const struct yaml_field *field, uint64_t *out)
{
    int64_t number;

    if (field->value->kind != YAML_NUMBER)
        return refuse_rotation(m, field, "", "int");
    if (value_parse_int(field->value->text, &number)) {
        const char *shown = arena_printf(&m->out->arena, " %.*s", (int)field->value->text.len,
                                         (const char *)field->value->text.at);
        return refuse_rotation(m, field, shown, "int");
    }
    if (number > 0) /* what is negative is as good as nothing, as in etcd */
        *out = (uint64_t)number;
    return true;
}

static bool read_rotation_bool(struct maker *m, const struct yaml_field *field, bool *out)
{
    *out = field->value->boolean;
    return field->value->kind == YAML_BOOL || refuse_rotation(m, field, "", "bool");
}

static bool read_rotation_field(struct maker *m, const struct yaml_field *field, bool *compress)
{
    struct config_rotation *r = &m->out->log_rotation;

    if (bytes_equal(field->key, BYTES("maxsize")))
        return read_rotation_number(m, field, &r->size_bytes);
    if (bytes_equal(field->key, BYTES("maxage")))
        return read_rotation_number(m, field, &r->age_days_max);
    if (bytes_equal(field->key, BYTES("maxbackups")))
        return read_rotation_number(m, field, &r->backups_max);
    if (bytes_equal(field->key, BYTES("localtime")))
        return read_rotation_bool(m, field, &r->local_time);
    if (bytes_equal(field->key, BYTES("compress")))
        return read_rotation_bool(m, field, compress);
    return true; /* etcd passes over what it does not know */
}

/* The settings are JSON, and JSON is YAML. */
static bool read_rotation_config(struct maker *m)
{
    const char *json = maker_value(m, FLAG_LOG_ROTATION_CONFIG_JSON)->text;
    struct config_rotation *r = &m->out->log_rotation;
    const struct yaml_value *root;
    struct buf reason = {0};
    bool compress = false;
    bool is_good = yaml_read(bytes_of_str(json), &m->out->arena, &reason, &root);

    if (!is_good || !root || root->kind == YAML_TEXT)
        maker_refuse(m, "improperly formatted log rotation config: %s",
                     is_good ? "not a JSON object" : buf_str(&reason));
    else if (root->kind != YAML_MAP)
        maker_refuse(m,
                     "invalid log rotation config: json: cannot unmarshal %s into Go value of type "
                     "embed.logRotationConfig",
                     json_kind(root));
    buf_free(&reason);
    if (!is_good || !root || root->kind != YAML_MAP)
        return false;
    for (size_t i = 0; i < root->count; i++) {
        if (!read_rotation_field(m, &root->fields[i], &compress))
            return false;
    }
    if (compress)
        return maker_refuse(m, "--log-rotation-config-json: compress is not supported yet");
    if (r->size_bytes == 0 || r->size_bytes > INT64_MAX / (int64_t)MIB)
        r->size_bytes = ROTATION_MB;
    r->size_bytes *= MIB;
    r->is_on = true;
    return true;
}

static bool read_rotation(struct maker *m)
{
    struct url_list outputs = m->out->log_outputs;
    size_t files = 0;

    if (!maker_value(m, FLAG_ENABLE_LOG_ROTATION)->boolean)
        return true;
    for (size_t i = 0; i < outputs.count; i++)
        files += !bytes_equal(outputs.at[i], BYTES("stderr")) &&
                 !bytes_equal(outputs.at[i], BYTES("stdout"));
    if (files != 1)
        return maker_refuse(
            m, "--log-outputs requires a single file path when --log-rotate-config-json "
               "is defined");
    return read_rotation_config(m);
}

bool maker_read_log(struct maker *m)
{
    const char *logger = maker_value(m, FLAG_LOGGER)->text;
    const char *format = maker_value(m, FLAG_LOG_FORMAT)->text;

    if (strcmp(logger, "capnslog") == 0)
        return maker_refuse(m, "--logger=capnslog is removed in v3.5");
    if (strcmp(logger, "zap") != 0)
        return maker_refuse(m, "unknown logger option %s", maker_quote(m, bytes_of_str(logger)));
    if (!read_log_outputs(m) || !read_rotation(m))
        return false;
    if (strcmp(format, "json") == 0 || url_list_has(m->out->log_outputs, BYTES("systemd/journal")))
        m->out->log_format = LOG_JSON; /* the journal has no other, and etcd does not look */
    else if (strcmp(format, "console") == 0)
        m->out->log_format = LOG_CONSOLE;
    else
        return maker_refuse(m, "unknown log format: %s, supported values json, console", format);
    return true;
}
