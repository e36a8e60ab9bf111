/*
 * cluster-soak: real members under half load for a long time, one killed every minute (soak.h).
 *
 *     cluster-soak [--server FILE] [--minutes N] [--members N] [--clients N] [--election-ms N]
 *                  [--seed S] [--flags "..."]
 *
 * Status 1 when something was lost or wrong, when what members have resident grows by 1 % an hour
 * or more after the first ten minutes, or their open files by 5 %.
 */
#include "cluster/soak.h"
#include "cluster/tool.h"

#include <stdio.h>

#define RESIDENT_GROWTH_MAX 0.01
#define FILES_GROWTH_MAX    0.05 /* of sixty or so: clients come and go, one more or less is noise */

int main(int argc, char **argv)
{
    static struct soak_result r;
    struct soak_options o = {.program = "build/cleat", .minutes = 45, .seed = 1, .verbose = true};
    const struct tool_option options[] = {
        {"--server", .text = &o.program},
        {"--flags", .text = &o.flags},
        {"--minutes", .number = &o.minutes, .max = SOAK_MINUTES_MAX},
        {"--members", .number = &o.members, .max = 7},
        {"--clients", .number = &o.clients, .max = 500},
        {"--election-ms", .number = &o.election_ms, .max = 50000},
        {"--seed", .big = &o.seed},
        {0},
    };

    if (!tool_parse(options, argc, argv))
        return 2;
    o.dir = tool_open();
    if (!o.dir)
        return 1;
    o.is_unwanted = &tool_is_unwanted;
    bool ok = soak_run(&o, &r);
    printf("%u minutes, %u kills; %.0f calls a second of %.0f; %u succeeded, %u failed; resident "
           "%+.2f %% an hour, open files %+.2f %%\n",
           r.count, r.kills, r.half_per_s, r.full_per_s, r.operations, r.failed,
           100 * r.resident_slope, 100 * r.files_slope);
    if (!ok)
        printf("PROBLEM: %s\nlook at %s\n", r.problem, o.dir);
    tool_close(ok);
    bool is_flat = r.resident_slope < RESIDENT_GROWTH_MAX && r.files_slope < FILES_GROWTH_MAX;
    return ok && !tool_is_unwanted && is_flat ? 0 : 1;
}
