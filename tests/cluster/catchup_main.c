/*
 * cluster-catchup: a member that was away while a lot was written comes back, under load; what that
 * costs the others and itself (catchup.h).
 *
 *     cluster-catchup [--server FILE] [--keys N] [--old-keys N] [--value-bytes N] [--clients N]
 *                     [--kill-leader] [--members N] [--election-ms N] [--flags "..."]
 *
 * Status 1 when something is lost or one of the bounds is broken:
 *
 *     anonymous memory   the member: its old index, its new one, and MORE_BYTES
 *                        the others: what they had before, under the same load, and MORE_BYTES
 *     store files        of the others grow by what was written meanwhile: as many bytes for each
 *                        byte as when nobody was sent a snapshot, and SLACK_BYTES for the batches
 *                        that happen to be under way
 */
#include "base/limits.h"
#include "cluster/catchup.h"
#include "cluster/tool.h"

#include <inttypes.h>
#include <stdio.h>

enum { MORE_BYTES = 64000000, SLACK_BYTES = 16000000 };

static double mb(uint64_t bytes)
{
    return (double)bytes / 1e6;
}

static uint64_t growth_max(const struct catchup_result *r)
{
    double each = (double)r->fill_growth / (double)r->fill_bytes;

    return (uint64_t)((double)r->written_bytes * each) + SLACK_BYTES;
}

static uint64_t anonymous_max(const struct catchup_result *r, unsigned member)
{
    if (member == r->away)
        return r->old_index + r->new_index + MORE_BYTES;
    return r->members[member].anonymous_before + MORE_BYTES;
}

/* One that was killed and is not there, or is another process now, has nothing to be compared. */
static bool is_kept(const struct catchup_result *r, unsigned member)
{
    const struct catchup_member *m = &r->members[member];

    if (member == r->killed)
        return true;
    return m->anonymous_most <= anonymous_max(r, member) &&
           (member == r->away || m->store_after <= m->store_before + growth_max(r));
}

static const char *role(const struct catchup_result *r, unsigned member)
{
    return member == r->away     ? "was away"
           : member == r->killed ? "killed"
           : member == r->leader ? "leader"
                                 : "follower";
}

static bool print_member(const struct catchup_result *r, unsigned member)
{
    const struct catchup_member *m = &r->members[member];
    bool is_good = is_kept(r, member);

    printf("m%u  %-9s %10.1f %8.1f %8.1f   %10.1f %8.1f %8.1f%s\n", member + 1, role(r, member),
           mb(member == r->away ? r->old_index : m->anonymous_before), mb(m->anonymous_most),
           mb(anonymous_max(r, member)), mb(m->store_before), mb(m->store_after),
           member == r->away ? 0.0 : mb(m->store_before + growth_max(r)),
           is_good ? "" : "   BROKEN");
    return is_good;
}

static bool print(const struct catchup_options *o, const struct catchup_result *r)
{
    bool is_good = true;

    printf("%s, %u members, %u keys and then %u, of %u bytes\n", o->program, r->count, o->old_keys,
           o->keys, o->value_bytes);
    printf("full speed %.0f puts/s, %.2f bytes of store for each written; half speed %.0f wanted, "
           "%.0f seen\n",
           r->fill_per_s, (double)r->fill_growth / (double)r->fill_bytes, r->fill_per_s / 2,
           r->half_per_s);
    printf("snapshot applied after %" PRIu64 " ms, in step after %" PRIu64
           " ms; written meanwhile %.1f MB; old index %.1f MB, new %.1f MB\n",
           r->applied_ms, r->in_step_ms, mb(r->written_bytes), mb(r->old_index), mb(r->new_index));
    if (o->kills_leader)
        printf("leader killed while it sent; writes again after %" PRIu64 " ms\n", r->resumed_ms);
    printf("MB            anonymous before     most    bound   store before    after    bound\n");
    for (unsigned i = 0; i < r->count; i++)
        is_good &= print_member(r, i);
    return is_good;
}

int main(int argc, char **argv)
{
    static struct catchup_result result;
    struct catchup_options o = {.program = "build/cleat",
                                .keys = 100000,
                                .old_keys = 10000,
                                .value_bytes = 1000,
                                .clients = 64,
                                .before_ms = 5000,
                                .members = 3,
                                .election_ms = 1000};
    const char *more = "";
    const struct tool_option options[] = {
        {"--server", .text = &o.program},
        {"--flags", .text = &more},
        {"--keys", .number = &o.keys, .max = 10000000},
        {"--old-keys", .number = &o.old_keys, .max = 10000000},
        {"--value-bytes", .number = &o.value_bytes, .max = 1000000},
        {"--clients", .number = &o.clients, .max = 500},
        {"--members", .number = &o.members, .max = FLEET_MAX},
        {"--election-ms", .number = &o.election_ms, .max = 50000},
        {"--kill-leader", .flag = &o.kills_leader},
        {0},
    };
    char flags[4096];

    if (!tool_parse(options, argc, argv))
        return 2;
    /* A gigabyte of values, and what is written meanwhile, takes nearly the two that are allowed.
     */
    snprintf(flags, sizeof(flags), "--quota-backend-bytes 8000000000 %s", more);
    o.flags = flags;
    o.dir = tool_open();
    if (!o.dir)
        return 1;
    o.is_unwanted = &tool_is_unwanted;
    bool ok = catchup_run(&o, &result);
    bool is_good = ok && print(&o, &result);
    if (!ok)
        printf("PROBLEM: %s\nlook at %s\n", result.problem, o.dir);
    tool_close(ok);
    return is_good ? 0 : 1;
}
