/*
 * cluster-siege: a member attacked by many small efforts at once (siege.h).
 *
 *     cluster-siege [--server FILE] [--minutes N | --seconds N] [--quiet-seconds N] [--only ATTACK]
 *                   [--auth] [--flags "..."]
 *
 * Status 1 when something did not hold. Real etcd is besieged for the record, and not judged.
 */
#include "base/assert.h"
#include "cluster/siege.h"
#include "cluster/tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void print_phase(const char *name, const struct siege_phase *p)
{
    printf("%s: %u calls, %u failed, median %.1f ms, 99th percentile %.1f, slowest %.1f; %" PRIu64
           " events; %u probes, %u failed, slowest %.0f ms; %u terms begun; %u starts, slowest "
           "%.0f ms; %" PRIu64 " MB allocated, %" PRIu64 " MB resident at most\n",
           name, p->calls, p->failed_calls, p->p50_ms, p->p99_ms, p->slowest_ms, p->events,
           p->probes, p->failed_probes, p->slowest_probe_ms, p->terms, p->rejoins,
           p->slowest_rejoin_ms, p->anonymous_bytes >> 20, p->resident_bytes >> 20);
}

static bool is_etcd(const char *program)
{
    const char *slash = strrchr(program, '/');

    return strcmp(slash ? slash + 1 : program, "etcd") == 0;
}

int main(int argc, char **argv)
{
    struct siege_result r;
    unsigned minutes = 5;
    struct siege_options o = {.program = "build/cleat",
                              .flags = "--log-level error --quota-backend-bytes 8589934592",
                              .quiet_s = 30,
                              .verbose = true};
    const struct tool_option options[] = {
        {"--server", .text = &o.program},
        {"--flags", .text = &o.flags},
        {"--only", .text = &o.only},
        {"--minutes", .number = &minutes, .max = 1500},
        {"--seconds", .number = &o.siege_s, .max = 90000},
        {"--auth", .flag = &o.has_auth},
        {"--quiet-seconds", .number = &o.quiet_s, .max = 3600},
        {0},
    };

    if (!tool_parse(options, argc, argv))
        return 2;
    o.siege_s = o.siege_s ? o.siege_s : 60 * minutes;
    o.dir = tool_open();
    if (!o.dir)
        return 1;
    o.is_unwanted = &tool_is_unwanted;
    bool ok = siege_run(&o, &r);
    print_phase("quiet", &r.quiet);
    print_phase("siege", &r.siege);
    for (unsigned i = 0; i < attack_count(); i++)
        printf("%s%s %" PRIu64, i ? ", " : "efforts: ", attack_name(i), r.efforts[i]);
    printf("\n");
    const char *verdict = ok ? siege_verdict(&r) : r.problem;
    if (verdict)
        printf("%s: %s\n", ok && is_etcd(o.program) ? "for the record" : "PROBLEM", verdict);
    bool is_well = ok && (!verdict || is_etcd(o.program));
    if (!is_well)
        printf("look at %s\n", o.dir);
    tool_close(is_well);
    return is_well ? 0 : 1;
}
