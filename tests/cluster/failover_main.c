/*
 * cluster-failover: kills the leader of real members again and again, and says for how long nobody
 * could write (failover.h).
 *
 *     cluster-failover [--server FILE] [--kills N] [--stops N] [--election-ms N] [--members N]
 *                      [--flags "..."]
 *
 * Status 1 when the promises are not kept: after a kill writes resume within 2 election timeouts
 * nine times of ten, within 4 always; after a graceful stop the gap is half an election timeout at
 * most.
 */
#include "cluster/failover.h"
#include "cluster/tool.h"

#include <stdio.h>

static void print_times(const char *what, const struct failover_times *t, unsigned election_ms)
{
    if (t->count == 0)
        return;
    double p90 = failover_percentile(t, 90), max = failover_percentile(t, 100);

    printf("%-44s %4u: median %6.0f ms, 90th percentile %6.0f, longest %6.0f "
           "(%.2f and %.2f election timeouts)\n",
           what, t->count, failover_percentile(t, 50), p90, max, p90 / election_ms,
           max / election_ms);
}

static bool is_kept(const struct failover_result *r, unsigned election_ms)
{
    return failover_percentile(&r->kills, 90) <= 2.0 * election_ms &&
           failover_percentile(&r->kills, 100) <= 4.0 * election_ms &&
           failover_percentile(&r->stops, 100) <= 0.5 * election_ms;
}

int main(int argc, char **argv)
{
    static struct failover_result result;
    struct failover_options o = {
        .program = "build/cleat", .kills = 50, .stops = 20, .election_ms = 1000, .members = 3};
    const struct tool_option options[] = {
        {"--server", .text = &o.program},
        {"--flags", .text = &o.flags},
        {"--kills", .number = &o.kills, .max = FAILOVERS_MAX},
        {"--stops", .number = &o.stops, .max = FAILOVERS_MAX},
        {"--members", .number = &o.members, .max = 7},
        {"--election-ms", .number = &o.election_ms, .max = 50000},
        {0},
    };

    if (!tool_parse(options, argc, argv))
        return 2;
    o.dir = tool_open();
    if (!o.dir)
        return 1;
    o.is_unwanted = &tool_is_unwanted;
    bool ok = failover_run(&o, &result);
    printf("%s, %u members, election timeout %u ms\n", o.program, o.members, o.election_ms);
    print_times("killed: until writes resume", &result.kills, o.election_ms);
    print_times("stopped: gap between responses", &result.stops, o.election_ms);
    print_times("stopped: from the signal to the new leader", &result.since_signal, o.election_ms);
    if (!ok)
        printf("PROBLEM: %s\nlook at %s\n", result.problem, o.dir);
    tool_close(ok);
    return ok && is_kept(&result, o.election_ms) && !tool_is_unwanted ? 0 : 1;
}
