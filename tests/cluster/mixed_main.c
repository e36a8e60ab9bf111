/*
 * cluster-mixed: members of ours and of real etcd in one cluster, and from one kind to the other
 * (mixed.h).
 *
 *     cluster-mixed [--plan together|members|directories] [--ours N]
 *                   [--etcd FILE] [--cleat FILE] [--tls] [--auth] [--seed S]
 *
 * etcdctl stands beside etcd, cleatutl beside cleat. Status 0 when everything was as it should be,
 * and, with a loud line, when there is no etcd; 1 when not: then the directory with data and logs
 * is left and named. The seed decides what clients do; the rest is up to the machine.
 */
#include "cluster/mixed.h"
#include "cluster/tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void print(const struct mixed_options *o, const struct mixed_result *r)
{
    printf("%u steps, %u calls succeeded, %u failed; revision %" PRId64 ", compacted at %" PRId64
           "; same hash %u times; snapshots etcd to cleat %u, cleat to etcd %u, among etcd's %u, "
           "among ours %u; no write for %" PRIu64 " ms at most, well after %" PRIu64 " ms\n",
           r->steps, r->operations, r->failed, r->revision, r->compacted, r->hashes,
           r->snapshots[0][1], r->snapshots[1][0], r->snapshots[0][0], r->snapshots[1][1],
           r->gap_ms_max, r->settle_ms_max);
    if (o->is_guarded)
        printf("auth revision %" PRIu64 " on all members\n", r->auth_revision);
    if (r->problem[0])
        printf("PROBLEM: %s\nlook at %s\n", r->problem, o->dir);
    else if (tool_is_unwanted)
        printf("interrupted\n");
}

static bool plan_of(const char *text, enum mixed_plan *out)
{
    static const char *const names[] = {"together", "members", "directories"};

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (enum mixed_plan)i;
            return true;
        }
    fprintf(stderr, "there is no plan %s\n", text);
    return false;
}

int main(int argc, char **argv)
{
    struct mixed_options o = {
        .cleat = "build/cleat", .etcd = "build/peers/etcd", .ours = 1, .seed = 1};
    struct mixed_result result;
    const char *plan = "together";
    const struct tool_option options[] = {
        {"--plan", .text = &plan},       {"--ours", .number = &o.ours, .max = 3},
        {"--etcd", .text = &o.etcd},     {"--cleat", .text = &o.cleat},
        {"--tls", .flag = &o.is_by_tls}, {"--auth", .flag = &o.is_guarded},
        {"--seed", .big = &o.seed},      {0},
    };

    if (!tool_parse(options, argc, argv) || !plan_of(plan, &o.plan))
        return 2;
    o.dir = tool_open();
    if (!o.dir)
        return 1;
    o.is_unwanted = &tool_is_unwanted;
    printf("%s beside %s: %s", o.cleat, o.etcd, plan);
    printf(o.plan == MIXED_TOGETHER ? ", %u of three are ours\n" : "\n", o.ours);
    bool ok = mixed_run(&o, &result);
    if (result.is_skipped)
        printf("SKIPPED, nothing was done: there is no %s (make peers builds it)\n", o.etcd);
    else
        print(&o, &result);
    tool_close(ok);
    return ok && !tool_is_unwanted ? 0 : 1;
}
