/*
 * cluster-siege: a member attacked by many small efforts at once (siege.h).
 *
 *     cluster-siege [--server FILE] [--minutes N | --seconds N] [--quiet-seconds N]
 *                   [--only ATTACK[,ATTACK...]] [--without-auth] [--flags "..."]
 *     cluster-siege --help                                    names the attacks
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
    for (unsigned i = 0; i < SIEGE_TIMES; i++) {
        const struct siege_times *t = &p->times[i];
        printf("%s: %-5s %5u, median %.1f ms, 99th percentile %.1f, slowest %.1f\n", name,
               siege_time_name(i), t->count, t->p50_ms, t->p99_ms, t->slowest_ms);
    }
    printf("%s: %u calls failed, %u watches ended, %u leases lost; %u probes, %u failed, slowest "
           "%.0f ms; %u terms begun; %u starts, slowest %.0f ms\n",
           name, p->failed_calls, p->lost_watches, p->lost_leases, p->probes, p->failed_probes,
           p->slowest_probe_ms, p->terms, p->rejoins, p->slowest_rejoin_ms);
    printf("%s: %" PRIu64 " MB resident at most, %" PRIu64
           " of them allocated; %.0f %% of a core; %.0f log lines a second\n",
           name, p->resident_bytes >> 20, p->anonymous_bytes >> 20, 100 * p->cpu_s / p->s,
           p->log_lines / p->s);
}

static void print_help(void)
{
    printf("usage: cluster-siege [--server FILE] [--minutes N | --seconds N] [--quiet-seconds N]\n"
           "                     [--only ATTACK[,ATTACK...]] [--without-auth] [--flags \"...\"]\n\n"
           "The leader of three is attacked by all of these at once, or by some:\n\n");
    for (unsigned i = 0; i < attack_count(); i++)
        printf("  %-23s %s\n", attack_name(i), attack_story(i));
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
                              .flags = "--quota-backend-bytes 8589934592",
                              .quiet_s = 30,
                              .verbose = true};
    bool is_without_auth = false;
    const struct tool_option options[] = {
        {"--server", .text = &o.program},
        {"--flags", .text = &o.flags},
        {"--only", .text = &o.only},
        {"--minutes", .number = &minutes, .max = 1500},
        {"--seconds", .number = &o.siege_s, .max = 90000},
        {"--without-auth", .flag = &is_without_auth},
        {"--quiet-seconds", .number = &o.quiet_s, .max = 3600},
        {0},
    };

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        print_help();
        return 0;
    }
    if (!tool_parse(options, argc, argv))
        return 2;
    o.has_auth = !is_without_auth;
    o.siege_s = o.siege_s ? o.siege_s : 60 * minutes;
    o.dir = tool_open();
    if (!o.dir)
        return 1;
    o.is_unwanted = &tool_is_unwanted;
    bool ok = siege_run(&o, &r);
    print_phase("quiet", &r.quiet);
    print_phase("siege", &r.siege);
    for (unsigned i = 0; i < attack_count(); i++)
        if (r.efforts[i] > 0)
            printf("%23s: %" PRIu64 " efforts, %.1f s of computing\n", attack_name(i), r.efforts[i],
                   r.cpu_s[i]);
    const char *verdict = ok ? siege_verdict(&r) : r.problem;
    if (verdict)
        printf("%s: %s\n", ok && is_etcd(o.program) ? "for the record" : "PROBLEM", verdict);
    bool is_well = ok && (!verdict || is_etcd(o.program));
    if (!is_well)
        printf("look at %s\n", o.dir);
    tool_close(is_well);
    return is_well ? 0 : 1;
}
