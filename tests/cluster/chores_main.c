/*
 * cluster-chores: a member under half load, compacted, defragmented and scraped (chores.h).
 *
 *     cluster-chores [--server FILE] [--minutes N | --seconds N] [--keys N] [--flags "..."]
 *
 * Status 1 when a call has failed, the store goes on growing, or the core thread was at work for
 * 5 ms or more in one turn.
 */
#include "cluster/chores.h"
#include "cluster/tool.h"

#include <inttypes.h>
#include <stdio.h>

#define TURN_MS_MAX 5

int main(int argc, char **argv)
{
    struct chores_result r;
    unsigned minutes = 10;
    struct chores_options o = {.program = "build/cleat", .verbose = true};
    const struct tool_option options[] = {
        {"--server", .text = &o.program},
        {"--flags", .text = &o.flags},
        {"--minutes", .number = &minutes, .max = 1500},
        {"--seconds", .number = &o.seconds, .max = 90000},
        {"--keys", .number = &o.keys, .max = 10000000},
        {0},
    };

    if (!tool_parse(options, argc, argv))
        return 2;
    o.seconds = o.seconds ? o.seconds : 60 * minutes;
    o.dir = tool_open();
    if (!o.dir)
        return 1;
    o.is_unwanted = &tool_is_unwanted;
    bool ok = chores_run(&o, &r);
    printf("%u seconds; %.0f puts a second of %.0f, the slowest %.1f ms; %u compactions, %u "
           "defragmentations, %u scrapes; store %.1f MB at most, then %.1f MB; longest turn %.2f "
           "ms of work\n",
           o.seconds, r.half_per_s, r.full_per_s, r.slowest_ms, r.compactions, r.defragmentations,
           r.scrapes, (double)r.size_first / 1e6, (double)r.size_second / 1e6, r.longest_turn_ms);
    if (!ok)
        printf("PROBLEM: %s\nlook at %s\n", r.problem, o.dir);
    else if (r.longest_turn_ms >= TURN_MS_MAX)
        printf("PROBLEM: a turn has taken %.2f ms\n", r.longest_turn_ms);
    tool_close(ok);
    return ok && !tool_is_unwanted && r.longest_turn_ms < TURN_MS_MAX ? 0 : 1;
}
