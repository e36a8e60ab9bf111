#include "cli/log_file.h"

#include "base/arena.h"
#include "harness/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NS_PER_S ((int64_t)1000000000)
#define MORNING  (1767323045 * NS_PER_S + 678000000) /* 2026-01-02T03:04:05.678Z */

static const char *in_dir(struct arena *arena, const char *name)
{
    return arena_printf(arena, "%s/%s", test_tmp_dir(), name);
}

static int not_dots(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* All names in the directory, sorted, each with what is in it. */
static const char *everything(struct arena *arena)
{
    struct dirent **entries;
    struct buf out = {0};
    int count = scandir(test_tmp_dir(), &entries, not_dots, alphasort);

    for (int i = 0; i < count; i++) {
        char text[256];
        FILE *file = fopen(in_dir(arena, entries[i]->d_name), "r");
        CHECK(file != NULL);
        text[fread(text, 1, sizeof(text) - 1, file)] = 0;
        fclose(file);
        for (char *c = text; *c; c++)
            *c = *c == '\n' ? ';' : *c;
        buf_printf(&out, "%s %s\n", entries[i]->d_name, text);
        free(entries[i]);
    }
    free(entries);
    const char *kept = arena_copy_str(arena, buf_bytes(&out));
    buf_free(&out);
    return kept;
}

TEST(a_log_that_is_full_begins_a_new_file)
{
    struct arena arena = {0};
    struct log_file f;
    struct config_rotation twelve = {.is_on = true, .size_bytes = 12};
    CHECK(log_file_open(&f, in_dir(&arena, "s.log"), &twelve));

    log_file_write(&f, BYTES("one 1\n"), MORNING);
    log_file_write(&f, BYTES("two 2\n"), MORNING);
    log_file_write(&f, BYTES("three\n"), MORNING + NS_PER_S);
    log_file_write(&f, BYTES("longer than a file\n"), MORNING + 2 * NS_PER_S);
    log_file_close(&f);

    CHECK_STR(everything(&arena), "s-2026-01-02T03-04-06.678.log one 1;two 2;\n"
                                  "s-2026-01-02T03-04-07.678.log three;\n"
                                  "s.log longer than a file;\n");
    arena_free(&arena);
}

TEST(a_log_goes_on_in_the_file_that_is_there)
{
    struct arena arena = {0};
    struct log_file f;
    struct config_rotation ten = {.is_on = true, .size_bytes = 10};

    for (int i = 0; i < 3; i++) {
        CHECK(log_file_open(&f, in_dir(&arena, "log"), &ten));
        log_file_write(&f, BYTES("line\n"), MORNING + i);
        log_file_close(&f);
    }

    CHECK_STR(everything(&arena), "log line;\nlog-2026-01-02T03-04-05.678 line;line;\n");
    arena_free(&arena);
}

static void write_days(const struct config_rotation *rotation, struct arena *arena)
{
    struct log_file f;
    CHECK(log_file_open(&f, in_dir(arena, "s.log"), rotation));

    for (int day = 0; day < 5; day++)
        log_file_write(&f, BYTES("a day\n"), MORNING + day * 86400 * NS_PER_S);
    log_file_close(&f);
}

TEST(old_logs_go_when_they_are_too_many_or_too_old)
{
    struct arena arena = {0};
    struct config_rotation two = {.is_on = true, .size_bytes = 6, .backups_max = 2};
    struct config_rotation days = {.is_on = true, .size_bytes = 6, .age_days_max = 1};
    FILE *other = fopen(in_dir(&arena, "s-2020.log"), "w");
    CHECK(other != NULL);
    fclose(other);

    write_days(&two, &arena);
    CHECK_STR(everything(&arena), "s-2020.log \n"
                                  "s-2026-01-05T03-04-05.678.log a day;\n"
                                  "s-2026-01-06T03-04-05.678.log a day;\n"
                                  "s.log a day;\n");
    remove(in_dir(&arena, "s.log"));
    write_days(&days, &arena);
    CHECK_STR(everything(&arena), "s-2020.log \n"
                                  "s-2026-01-05T03-04-05.678.log a day;\n"
                                  "s-2026-01-06T03-04-05.678.log a day;\n"
                                  "s.log a day;\n");
    arena_free(&arena);
}

TEST(a_log_without_rotation_grows)
{
    struct arena arena = {0};
    struct log_file f;
    struct config_rotation none = {.is_on = false};
    CHECK(log_file_open(&f, in_dir(&arena, "log"), &none));

    for (int i = 0; i < 3; i++)
        log_file_write(&f, BYTES("line\n"), MORNING);
    log_file_close(&f);

    CHECK_STR(everything(&arena), "log line;line;line;\n");
    arena_free(&arena);
}

TEST(a_log_that_cannot_be_renamed_goes_on)
{
    struct arena arena = {0};
    struct log_file f;
    struct config_rotation six = {.is_on = true, .size_bytes = 6};
    CHECK_EQ(mkdir(in_dir(&arena, "dir"), 0700), 0);
    CHECK(log_file_open(&f, in_dir(&arena, "dir/log"), &six));
    CHECK_EQ(rename(in_dir(&arena, "dir"), in_dir(&arena, "moved")), 0);

    for (int i = 0; i < 3; i++)
        log_file_write(&f, BYTES("line 1\n"), MORNING);

    CHECK_EQ(f.fd >= 0, true);
    log_file_close(&f);
    arena_free(&arena);
}

/* Otherwise nobody could read what follows, and the disk would fill with it. */
TEST(a_log_whose_file_was_removed_begins_a_new_one_when_it_is_full)
{
    struct arena arena = {0};
    struct log_file f;
    struct config_rotation fourteen = {.is_on = true, .size_bytes = 14};
    CHECK(log_file_open(&f, in_dir(&arena, "log"), &fourteen));
    log_file_write(&f, BYTES("line 1\n"), MORNING);
    CHECK_EQ(remove(in_dir(&arena, "log")), 0); /* somebody else's rotation was here */

    log_file_write(&f, BYTES("line 2\n"), MORNING);
    CHECK_STR(everything(&arena), "");
    log_file_write(&f, BYTES("line 3\n"), MORNING);
    log_file_write(&f, BYTES("line 4\n"), MORNING);

    CHECK_STR(everything(&arena), "log line 3;line 4;\n");
    log_file_close(&f);
    arena_free(&arena);
}
