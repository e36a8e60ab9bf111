#include "cluster/version.h"
#include "config/config.h"
#include "config/flags.h"

void config_usage(struct buf *out)
{
    buf_append_str(out, "Usage:\n"
                        "\n"
                        "  etcd [flags]\n"
                        "    Start a member.\n"
                        "\n"
                        "  etcd --version\n"
                        "    Print the version.\n"
                        "\n"
                        "  etcd -h | --help\n"
                        "    Print the flags.\n"
                        "\n");
}

static void append_section(struct buf *out, enum flag_section section)
{
    for (size_t id = 0; id < FLAG_WORKING_COUNT; id++) {
        const struct flag *flag = &flag_table[id];
        if (flag->section == section)
            buf_printf(out, "  --%s '%s'\n    %s\n", flag->name, flag->initial, flag->help);
    }
}

void config_help(struct buf *out)
{
    static const char *const sections[] = {
        [SECTION_MEMBER] = "Member",     [SECTION_CLUSTER] = "Clustering",
        [SECTION_SECURITY] = "Security", [SECTION_LOG] = "Logging",
        [SECTION_TUNING] = "Tuning",     [SECTION_UNSAFE] = "Unsafe"};

    /* The table keeps etcd's order of checks, in which sections alternate. */
    for (size_t section = 0; section < ARRAY_LEN(sections); section++) {
        buf_printf(out, "\n%s:\n", sections[section]);
        append_section(out, (enum flag_section)section);
    }
    buf_append_str(out, "\nEach flag can also be given as a variable of the environment: "
                        "ETCD_DATA_DIR for --data-dir.\n");
}

#if defined(__x86_64__)
#define ARCHITECTURE "amd64"
#elif defined(__aarch64__)
#define ARCHITECTURE "arm64"
#else
#define ARCHITECTURE "unknown"
#endif

void config_version(struct buf *out)
{
    buf_printf(out,
               "etcd Version: %s\n"
               "Git SHA: Not provided (this is cleat)\n"
               "Go Version: none (C, compiled by %s)\n"
               "Go OS/Arch: linux/%s\n",
               SERVER_VERSION, __VERSION__, ARCHITECTURE);
}
