#include "sim/steward.h"

#include "base/assert.h"
#include "base/mem.h"
#include "io/clock.h"
#include "rpc/client.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    PAUSE_MS_MAX = 2500, /* between two changes; one in four follows at once */
    LOOK_MS_MAX = 300,   /* between two lists, when that is all there is to do */
    MEET_MS_MIN = 300,   /* until several operators ask for their next changes at once */
    MEET_MS_MAX = 5000,
    TIMEOUT_MS_OF_MANY_MAX = 2000, /* a change that raft has ignored is answered by nobody */
    AWAY_MS_MAX = 400,
    CONNECT_MS_MAX = 2000,
    VOTERS_MIN = 2,
};

enum change { LIST, ADD, ADD_LEARNER, PROMOTE, REMOVE, UPDATE, CHANGES };

static const char *const change_names[CHANGES] = {"list",    "add",    "add learner",
                                                  "promote", "remove", "update"};

struct known {
    uint64_t id; /* 0: it is none */
    bool is_learner, has_name;
    char urls[2][32];
    unsigned url_count;
};

struct steward {
    struct steward_options o;
    struct rng rng;
    struct client *client;
    struct client_call *call;
    unsigned server; /* that it is, or will be, connected to */
    struct timer timer, limit;
    bool is_open, timer_due, limit_due, winding_down, is_stopped;

    unsigned number;                         /* among the operators, from 1 */
    uint64_t met_ns;                         /* the last meeting that it was at */
    struct known members[CLIMATE_HOSTS_MAX]; /* by machine, as it was last told */
    bool has_list, all_founded;
    uint64_t lists;

    enum change asked; /* what is under way, */
    unsigned host;     /* with this machine, */
    bool is_linearizable, must_fail;
    uint64_t floor;
    bool replaces; /* the next is to add one, since one was removed */
    struct steward_counts counts;
    char problem[256];
};

__attribute__((format(printf, 2, 3))) static void fail(struct steward *s, const char *format, ...)
{
    va_list args;

    if (s->problem[0] != '\0')
        return;
    va_start(args, format);
    vsnprintf(s->problem, sizeof(s->problem), format, args);
    va_end(args);
}

__attribute__((format(printf, 2, 3))) static void tell(struct steward *s, const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    s->o.on->trace(s->o.context, text);
}

const char *steward_problem(const struct steward *s)
{
    return s->problem[0] != '\0' ? s->problem : NULL;
}

static void on_time(struct timer *t)
{
    container_of(t, struct steward, timer)->timer_due = true;
}

static void on_limit(struct timer *t)
{
    container_of(t, struct steward, limit)->limit_due = true;
}

static void wait_ms(struct steward *s, uint64_t max)
{
    s->timer_due = false;
    timer_start(s->o.io->clock, &s->timer, rng_between(&s->rng, 1, max * NS_PER_MS));
}

/* --- the connection --- */

static struct net_address address_of(unsigned host)
{
    struct net_address a;
    char text[32];

    snprintf(text, sizeof(text), "10.0.0.%u:2379", host + 1);
    enum err e = net_address_parse(text, &a);
    assert(e == ERR_OK);
    return a;
}

/* Where clients find members is not enough: where the only one that had told it is removed, those
 * that are left are there, and have told it to nobody who could be asked. */
static void choose_server(struct steward *s)
{
    uint32_t all = s->o.endpoints->all;
    unsigned first = (unsigned)rng_below(&s->rng, s->o.hosts);

    for (unsigned i = 0; i < s->o.hosts; i++) {
        s->server = (first + i) % s->o.hosts;
        if ((all >> s->server & 1) != 0 || s->members[s->server].id != 0)
            return;
    }
}

/* --- machines --- */

static void start_machine(struct steward *s, const struct known *list, unsigned host)
{
    struct buf text = {0};

    for (unsigned i = 0; i < s->o.hosts; i++)
        for (unsigned u = 0; u < list[i].url_count; u++)
            buf_printf(&text, "%sm%u=%s", text.len > 0 ? "," : "", i + 1, list[i].urls[u]);
    s->o.on->start(s->o.context, host, buf_str(&text));
    buf_free(&text);
}

/*
 * Nobody says who the members are. What was asked for may have happened, and then they wait for the
 * new one: a lone member that has added a second, and was started again, serves nobody without it.
 * An operator that was never told of a member knows nobody that the new one could ask.
 */
static void start_blindly(struct steward *s)
{
    if (s->lists == 0)
        return;
    for (unsigned i = 0; i < s->o.hosts; i++) {
        struct known list[CLIMATE_HOSTS_MAX];
        if ((s->o.fleet->adds >> i & 1) == 0 || !s->o.on->needs_start(s->o.context, i))
            continue;
        memcpy(list, s->members, sizeof(list));
        list[i].url_count = 1;
        snprintf(list[i].urls[0], sizeof(list[i].urls[0]), "http://10.0.0.%u:2380", i + 1);
        start_machine(s, list, i);
    }
}

/* --- leaving --- */

/* A change that is under way may happen or not, unless another operator has seen it happen. */
static void note_unknown(struct steward *s)
{
    struct steward_fleet *fleet = s->o.fleet;

    s->counts.unknown += s->asked != LIST;
    if ((s->asked == ADD || s->asked == ADD_LEARNER) && !s->must_fail)
        fleet->adds |= 1u << s->host & ~fleet->listed;
}

static void leave(struct steward *s)
{
    if (s->client)
        client_close(s->client);
    if (s->call)
        note_unknown(s);
    start_blindly(s);
    s->client = NULL;
    s->call = NULL;
    s->is_open = s->has_list = false;
    timer_stop(s->o.io->clock, &s->limit);
    s->limit_due = false;
    choose_server(s);
    wait_ms(s, AWAY_MS_MAX);
}

/* --- asking --- */

static bool is_alone(const struct steward *s)
{
    return s->o.fleet->operators == 1;
}

static void ask(struct steward *s, enum change what, const char *path,
                const struct pb_schema *schema, const void *msg)
{
    struct buf wire = {0};
    uint64_t timeout_ms = rng_between(&s->rng, 300, is_alone(s) ? 9000 : TIMEOUT_MS_OF_MANY_MAX);
    struct client_request request = {.path = path, .timeout_ns = timeout_ms * NS_PER_MS};

    pb_encode(schema, msg, &wire);
    s->asked = what;
    s->floor = s->o.roster->told;
    s->call = client_ask(s->client, &request, buf_bytes(&wire));
    buf_free(&wire);
    if (what == LIST)
        return;
    s->counts.asked++;
    s->has_list = false;
    tell(s, "steward %u asks m%u: %s m%u", s->number, s->server + 1, change_names[what],
         s->host + 1);
    s->o.on->asked(s->o.context);
}

static void ask_for_list(struct steward *s)
{
    s->is_linearizable = !rng_chance(&s->rng, 1, 4);
    ask(s, LIST, "/etcdserverpb.Cluster/MemberList", &pb_member_list_request_schema,
        &(struct pb_member_list_request){.linearizable = s->is_linearizable});
}

static void ask_by_id(struct steward *s, enum change what, const char *path)
{
    ask(s, what, path, &pb_member_remove_request_schema,
        &(struct pb_member_id){.id = s->members[s->host].id});
}

/* One port or both, in either order. */
static size_t some_urls(struct steward *s, unsigned host, char text[2][32], struct bytes out[2])
{
    unsigned first = 2380 + (unsigned)rng_below(&s->rng, 2);
    bool both = rng_chance(&s->rng, 1, 3);

    snprintf(text[0], 32, "http://10.0.0.%u:%u", host + 1, first);
    snprintf(text[1], 32, "http://10.0.0.%u:%u", host + 1, 2380 + 2381 - first);
    out[0] = bytes_of_str(text[0]);
    out[1] = bytes_of_str(text[1]);
    return both ? 2 : 1;
}

static void ask_to_add(struct steward *s, bool is_learner)
{
    char text[32];
    struct pb_member_add_request request = {.is_learner = is_learner};

    snprintf(text, sizeof(text), "http://10.0.0.%u:2380", s->host + 1);
    struct bytes url = bytes_of_str(s->must_fail ? s->members[s->host].urls[0] : text);
    request.peer_urls.at = &url;
    request.peer_urls.count = 1;
    s->o.fleet->used |= 1u << s->host;
    ask(s, is_learner ? ADD_LEARNER : ADD, "/etcdserverpb.Cluster/MemberAdd",
        &pb_member_add_request_schema, &request);
}

static void ask_to_update(struct steward *s)
{
    char text[2][32];
    struct bytes urls[2];
    struct pb_member_update_request request = {.id = s->members[s->host].id};

    request.peer_urls.count = some_urls(s, s->host, text, urls);
    request.peer_urls.at = urls;
    ask(s, UPDATE, "/etcdserverpb.Cluster/MemberUpdate", &pb_member_update_request_schema,
        &request);
}

/* --- what next --- */

static unsigned count_known(const struct steward *s, bool learners)
{
    unsigned count = 0;

    for (unsigned i = 0; i < s->o.hosts; i++)
        count += s->members[i].id != 0 && s->members[i].is_learner == learners;
    return count;
}

/* A machine that was never asked for; or one that is a member, which must be refused. As long as
 * nothing is under way unanswered, and nobody else asks for anything, its URLs are known. */
static bool pick_new(struct steward *s)
{
    unsigned first = (unsigned)rng_below(&s->rng, s->o.hosts);
    bool again = rng_chance(&s->rng, 1, 8) && s->counts.unknown == 0 && is_alone(s);

    for (unsigned i = 0; i < s->o.hosts; i++) {
        unsigned host = (first + i) % s->o.hosts;
        bool is_used = (s->o.fleet->used >> host & 1) != 0;
        if (is_used && !(again && s->members[host].id != 0))
            continue;
        s->host = host;
        s->must_fail = is_used;
        return true;
    }
    return false;
}

static bool pick_member(struct steward *s, bool learner, bool any)
{
    unsigned first = (unsigned)rng_below(&s->rng, s->o.hosts);

    for (unsigned i = 0; i < s->o.hosts; i++) {
        unsigned host = (first + i) % s->o.hosts;
        if (s->members[host].id == 0 || (!any && s->members[host].is_learner != learner))
            continue;
        s->host = host;
        return true;
    }
    return false;
}

static bool try_add(struct steward *s)
{
    bool is_learner = rng_chance(&s->rng, 1, 2);

    if (count_known(s, false) + count_known(s, true) >= CLIMATE_MEMBERS_MAX || !pick_new(s))
        return false;
    ask_to_add(s, is_learner);
    return true;
}

/* A voter, too, now and then, which must be refused. */
static bool try_promote(struct steward *s)
{
    bool voter = rng_chance(&s->rng, 1, 10);

    if (!pick_member(s, !voter, false))
        return false;
    s->must_fail = voter;
    ask_by_id(s, PROMOTE, "/etcdserverpb.Cluster/MemberPromote");
    return true;
}

/* Voters, as far as this operator knows, whose removal nobody has asked for. */
static unsigned count_staying(const struct steward *s)
{
    unsigned count = 0;

    for (unsigned i = 0; i < s->o.hosts; i++)
        count += s->members[i].id != 0 && !s->members[i].is_learner && s->o.fleet->removals[i] == 0;
    return count;
}

/* Where another operator may be about to remove or promote somebody, not even a learner goes while
 * too few voters stay: it may be a voter by now. */
static bool try_remove(struct steward *s)
{
    unsigned voters = is_alone(s) ? count_known(s, false) : count_staying(s);
    bool is_learner = voters <= VOTERS_MIN;

    if (!is_alone(s) && voters < VOTERS_MIN)
        return false;
    if (!pick_member(s, true, !is_learner))
        return false;
    s->o.fleet->removals[s->host]++;
    s->o.on->before_removal(s->o.context, s->host);
    s->replaces = rng_chance(&s->rng, 1, 2);
    ask_by_id(s, REMOVE, "/etcdserverpb.Cluster/MemberRemove");
    return true;
}

static bool try_update(struct steward *s)
{
    if (!pick_member(s, false, true))
        return false;
    ask_to_update(s);
    return true;
}

/* Where there is a learner it is often the next to be promoted: they are rare, and seldom live
 * long. Founders that have not come so far to tell their names may be founded again, and are let in
 * only as long as they are members. */
static bool begin_change(struct steward *s)
{
    uint64_t dice = rng_below(&s->rng, 10);
    bool promotes = rng_chance(&s->rng, 1, 2);

    s->must_fail = false;
    if (s->winding_down || !s->all_founded)
        return false;
    if (s->replaces) {
        s->replaces = false;
        return try_add(s);
    }
    if (!is_alone(s) && rng_chance(&s->rng, 3, 4))
        return try_update(s);
    if (promotes && count_known(s, true) > 0)
        return try_promote(s);
    if (dice < 3)
        return try_add(s);
    if (dice < 6)
        return try_promote(s);
    if (dice < 9)
        return try_remove(s);
    return try_update(s);
}

/* --- lists --- */

static unsigned host_of(struct steward *s, struct bytes url)
{
    unsigned n = 0;
    char text[32];

    snprintf(text, sizeof(text), "%.*s", (int)url.len, (const char *)url.at);
    if (sscanf(text, "http://10.0.0.%u:", &n) == 1 && n >= 1 && n <= s->o.hosts)
        return n - 1;
    fail(s, "a member is listed that has no machine");
    return 0;
}

static void take_url(struct known *k, struct bytes url)
{
    if (k->url_count < ARRAY_LEN(k->urls))
        snprintf(k->urls[k->url_count++], sizeof(k->urls[0]), "%.*s", (int)url.len,
                 (const char *)url.at);
}

static void take_member(struct steward *s, const struct pb_member *m, struct known *out)
{
    unsigned host = host_of(s, m->peer_urls.count > 0 ? m->peer_urls.at[0] : BYTES(""));
    struct known *k = &out[host];

    if (k->id != 0)
        fail(s, "machine %u is listed twice", host + 1);
    *k = (struct known){.id = m->id, .is_learner = m->is_learner, .has_name = m->name.len > 0};
    for (size_t i = 0; i < m->peer_urls.count; i++)
        take_url(k, m->peer_urls.at[i]);
}

/* What it goes by from now on. */
static void believe(struct steward *s, const struct known *list)
{
    bool founded = true;

    memcpy(s->members, list, sizeof(s->members));
    *s->o.endpoints = (struct steward_endpoints){0};
    for (unsigned i = 0; i < s->o.hosts; i++) {
        const struct known *k = &list[i];
        s->o.endpoints->all |= (uint32_t)k->has_name << i;
        s->o.endpoints->voters |= (uint32_t)(k->has_name && !k->is_learner) << i;
        founded &= k->has_name || i >= s->o.founders;
        s->o.fleet->listed |= (uint32_t)(k->id != 0) << i;
    }
    s->o.fleet->adds &= ~s->o.fleet->listed;
    s->all_founded |= founded;
    s->has_list = true;
    s->lists++;
}

/* Also from a list that may be old: where a second voter was added to a first, and is not there
 * yet, there is no other. Whoever is told of members that are not any more is not let in. */
static void take_list(struct steward *s, const struct pb_member *members, size_t count)
{
    struct known list[CLIMATE_HOSTS_MAX] = {0};

    for (size_t i = 0; i < count; i++)
        take_member(s, &members[i], list);
    for (unsigned i = 0; i < s->o.hosts; i++)
        if (list[i].id != 0 && s->o.on->needs_start(s->o.context, i))
            start_machine(s, list, i);
    if (s->asked == LIST && s->is_linearizable)
        believe(s, list);
}

/* --- refusals --- */

/* Of text that has the members as "PeerURLs:[url url]", among other things. */
static void read_refusal(struct steward *s, const char *text, struct known *out)
{
    static const char before[] = "PeerURLs:[";

    while ((text = strstr(text, before))) {
        text += strlen(before);
        while (*text != ']' && *text != '\0') {
            size_t len = strcspn(text, " ]");
            struct bytes url = {(const uint8_t *)text, len};
            take_url(&out[host_of(s, url)], url);
            text += len + (text[len] == ' ');
        }
    }
}

/*
 * Where the machine is one of two that vote, and the other was started meanwhile, this is the only
 * way: that one serves no client, so nobody gives out a list. Half of the time it is started as it
 * was, as by somebody who does not read. Whom it has asked may be behind, and not know it at all.
 */
void steward_refused(struct steward *s, unsigned host, const char *why)
{
    struct known list[CLIMATE_HOSTS_MAX] = {0};

    read_refusal(s, why, list);
    if (list[host].url_count > 0 && rng_chance(&s->rng, 1, 2))
        start_machine(s, list, host);
}

/* --- results --- */

static void heard(struct steward *s, struct bytes message)
{
    struct arena arena = {0};
    struct pb_member_add_response added = {0};
    struct pb_members_response r = {0};
    enum err e;

    if (s->asked == ADD || s->asked == ADD_LEARNER) {
        e = pb_decode(&pb_member_add_response_schema, message, &arena, &added);
        r.members.at = added.members.at;
        r.members.count = added.members.count;
    } else
        e = pb_decode(&pb_member_list_response_schema, message, &arena, &r);
    if (e != ERR_OK)
        fail(s, "a list of members cannot be decoded");
    else {
        uint64_t table = roster_table(r.members.at, r.members.count);
        if (s->asked == LIST && !s->is_linearizable)
            roster_told_of_old(s->o.roster, table);
        else
            roster_told(s->o.roster, s->floor, table);
        take_list(s, r.members.at, r.members.count);
    }
    arena_free(&arena);
}

static bool is_text(struct bytes text, const char *expected)
{
    return bytes_equal(text, bytes_of_str(expected));
}

/* Ids are made of URLs and of the second, by the clock of whoever is asked: when a member is added
 * once more with the URLs that it was added with, it may even have the id. Founders' are made
 * without a time. */
static bool is_same_id(const struct steward *s, struct bytes text)
{
    return (s->asked == ADD || s->asked == ADD_LEARNER) && s->must_fail &&
           s->host >= s->o.founders && is_text(text, "etcdserver: member ID already exist");
}

/* What a correct cluster may say, beyond that it could not be asked. What was asked for may have
 * happened meanwhile by what was asked for before, and not answered. */
static bool is_expected(const struct steward *s, const struct client_event *e)
{
    static const char *const texts[] = {
        "etcdserver: Peer URLs already exists",
        "etcdserver: re-configuration failed due to not enough started members",
        "etcdserver: member not found",
        "etcdserver: can only promote a learner member",
        "etcdserver: can only promote a learner member which is in sync with leader",
        "etcdserver: too many learner members in cluster",
        "etcdserver: rpc not supported for learner",
        "raft proposal dropped",
    };

    if (e->code == RPC_UNAVAILABLE || e->code == RPC_DEADLINE_EXCEEDED)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(texts) && s->asked != LIST; i++)
        if (is_text(e->text, texts[i]))
            return true;
    return is_same_id(s, e->text) || is_text(e->text, "etcdserver: rpc not supported for learner");
}

/* Does the response exclude that the change happens? An operator who is alone takes a refusal by an
 * unhealthy cluster for a change that may happen. */
static bool is_refused(const struct steward *s, const struct client_event *e)
{
    if (e->code == RPC_UNAVAILABLE)
        return !is_alone(s) && is_text(e->text, "etcdserver: unhealthy cluster");
    return e->code != RPC_DEADLINE_EXCEEDED;
}

static void count_change(struct steward *s)
{
    s->counts.added += s->asked == ADD;
    s->counts.learners += s->asked == ADD_LEARNER;
    s->counts.promoted += s->asked == PROMOTE;
    s->counts.removed += s->asked == REMOVE;
    s->counts.updated += s->asked == UPDATE;
}

/* A member that is not found has gone: another operator has removed it. */
static void note_refused(struct steward *s, struct bytes text)
{
    s->counts.refused += s->asked != LIST;
    if (s->asked == REMOVE && !is_text(text, "etcdserver: member not found"))
        s->o.fleet->removals[s->host]--;
}

static void ended(struct steward *s, const struct client_event *e)
{
    s->call = NULL;
    if (s->asked != LIST)
        tell(s, "steward %u is told: %s m%u: %d %.*s", s->number, change_names[s->asked],
             s->host + 1, e->code, (int)e->text.len, (const char *)e->text.at);
    if (e->code == RPC_OK) {
        if (s->must_fail && s->asked != LIST)
            fail(s, "to %s m%u was to be refused, and was not", change_names[s->asked],
                 s->host + 1);
        count_change(s);
    } else if (!is_expected(s, e))
        fail(s, "to %s m%u failed with %d: %.*s", change_names[s->asked], s->host + 1, e->code,
             (int)e->text.len, (const char *)e->text.at);
    else if (!is_refused(s, e))
        note_unknown(s);
    else
        note_refused(s, e->text);
    s->replaces &= e->code == RPC_OK || s->asked != REMOVE;
    bool at_once = rng_chance(&s->rng, 1, 4) || !is_alone(s);
    bool is_change = s->asked != LIST;
    if (e->code != RPC_OK)
        leave(s);
    else
        wait_ms(s, !is_change ? LOOK_MS_MAX : at_once ? 5 : PAUSE_MS_MAX);
}

/* --- the turn --- */

static void take(struct steward *s)
{
    struct client_event e;

    while (s->client && client_take(s->client, &e)) {
        switch (e.kind) {
        case CLIENT_OPEN:
            s->is_open = true;
            timer_stop(s->o.io->clock, &s->limit);
            break;
        case CLIENT_MESSAGE:
            heard(s, e.message);
            break;
        case CLIENT_STATUS:
            ended(s, &e);
            break;
        case CLIENT_GONE:
            leave(s);
            break;
        }
    }
}

static void connect_to_member(struct steward *s)
{
    s->client =
        client_open(&(struct client_options){.io = s->o.io, .address = address_of(s->server)});
    s->limit_due = false;
    timer_start(s->o.io->clock, &s->limit, CONNECT_MS_MAX * NS_PER_MS);
}

/* True: it waits for the moment that the operators have agreed on. One that comes too late for it
 * asks at once. */
static bool waits_for_others(struct steward *s)
{
    struct steward_fleet *fleet = s->o.fleet;
    uint64_t now_ns = clock_now_ns(s->o.io->clock);

    if (is_alone(s) || s->winding_down || !s->all_founded)
        return false;
    if (fleet->meet_ns == s->met_ns)
        fleet->meet_ns = now_ns + rng_between(&s->rng, MEET_MS_MIN, MEET_MS_MAX) * NS_PER_MS;
    if (now_ns < fleet->meet_ns) {
        timer_start(s->o.io->clock, &s->timer, fleet->meet_ns - now_ns);
        return true;
    }
    s->met_ns = fleet->meet_ns;
    return false;
}

/* What it was told last is what it goes by; and the next list is from another member, mostly. */
static void do_next(struct steward *s)
{
    s->timer_due = false;
    if (s->has_list && waits_for_others(s))
        return;
    if (s->has_list && begin_change(s))
        return;
    if (s->has_list && rng_chance(&s->rng, 1, 2))
        leave(s);
    else
        ask_for_list(s);
}

void steward_turn(struct steward *s)
{
    take(s);
    if (s->limit_due && s->client && !s->is_open)
        leave(s);
    s->limit_due = false;
    if (s->is_stopped)
        return;
    if (!s->client && s->timer_due)
        connect_to_member(s);
    if (s->is_open && !s->call && s->timer_due)
        do_next(s);
    if (s->client)
        client_flush(s->client);
}

/* --- the life --- */

struct steward *steward_new(const struct steward_options *options)
{
    struct steward *s = mem_new(struct steward);

    s->o = *options;
    s->rng = options->rng;
    s->timer.on_time = on_time;
    s->limit.on_time = on_limit;
    uint32_t founders = (1u << options->founders) - 1;
    s->number = ++options->fleet->operators;
    options->fleet->used |= founders;
    *s->o.endpoints = (struct steward_endpoints){founders, founders};
    choose_server(s);
    wait_ms(s, PAUSE_MS_MAX);
    return s;
}

void steward_free(struct steward *s)
{
    if (!s)
        return;
    timer_stop(s->o.io->clock, &s->timer);
    timer_stop(s->o.io->clock, &s->limit);
    if (s->client)
        client_close(s->client);
    mem_free(s);
}

void steward_wind_down(struct steward *s)
{
    s->winding_down = true;
    s->replaces = false;
    if (!s->call)
        wait_ms(s, LOOK_MS_MAX);
}

void steward_stop(struct steward *s)
{
    s->is_stopped = true;
    timer_stop(s->o.io->clock, &s->timer);
    timer_stop(s->o.io->clock, &s->limit);
    if (s->client)
        client_close(s->client);
    s->client = NULL;
    s->call = NULL;
}

bool steward_is_idle(const struct steward *s)
{
    return !s->call || s->asked == LIST;
}

bool steward_knows(const struct steward *s, unsigned host)
{
    return s->members[host].id != 0;
}

uint64_t steward_lists(const struct steward *s)
{
    return s->lists;
}

struct steward_counts steward_counts(const struct steward *s)
{
    return s->counts;
}
