#include "sim/permits.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const char denied[] = "etcdserver: permission denied";
static const char nobody[] = "etcdserver: user name is empty";
static const char outdated[] = "etcdserver: revision of auth store is old";
static const char bad_token[] = "etcdserver: invalid auth token";

/* Users and roles, from some change on, and where they were seen in force. */
struct span {
    struct rights rights;
    uint64_t applied_min, applied_max;
    int64_t revision_min, revision_max;
    bool is_guessed;  /* two changes came at once, and nobody has shown which was first */
    uint32_t perhaps; /* so often all tokens may have been dropped besides: what led here may as
                         well have been that auth was switched off, and on again */
};

struct change {
    struct rights_change what;
    size_t since;
    bool is_over, is_ok, is_made;
    size_t made; /* it is the cause of this span */
};

struct token {
    unsigned user;
    size_t from, to;  /* of which it may be */
    uint64_t index;   /* of its entry */
    uint64_t forgets; /* of all members, when he began to log in */
};

struct op {
    bool is_known; /* false: it is none that auth is asked about */
    bool is_anybodys;
    unsigned user, token;
    size_t since;        /* anybody's newest, when it began */
    size_t member_since; /* that of whoever it was sent to, */
    uint64_t applied;    /* likewise: the oldest of them */
    size_t until;        /* anybody's newest, when it was over */
};

struct permits {
    struct span *spans;
    size_t count, cap;
    struct change *changes;
    size_t change_count, change_cap;
    struct token *tokens;
    size_t token_count, token_cap;
    struct op *ops;
    size_t op_cap;
    struct {
        size_t span;
        uint64_t applied;
    } members[HISTORY_MEMBERS_MAX];
    unsigned member_count;
    uint64_t forgets;
    bool tokens_expire;
    char problem[384];
};

__attribute__((format(printf, 2, 3))) static void fail(struct permits *p, const char *format, ...)
{
    va_list args;

    if (p->problem[0] != '\0')
        return;
    va_start(args, format);
    vsnprintf(p->problem, sizeof(p->problem), format, args);
    va_end(args);
}

const char *permits_problem(const struct permits *p)
{
    return p->problem[0] != '\0' ? p->problem : NULL;
}

static void add_span(struct permits *p, const struct rights *rights, bool is_guessed)
{
    if (p->count == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 64;
        p->spans = mem_resize(p->spans, p->cap, sizeof(*p->spans));
    }
    p->spans[p->count++] = (struct span){.rights = *rights,
                                         .applied_min = UINT64_MAX,
                                         .revision_min = INT64_MAX,
                                         .is_guessed = is_guessed};
}

struct permits *permits_new(unsigned members, bool tokens_expire)
{
    struct permits *p = mem_new(struct permits);
    struct rights first = rights_at_first();

    assert(members <= HISTORY_MEMBERS_MAX);
    p->member_count = members;
    p->tokens_expire = tokens_expire;
    add_span(p, &first, false);
    return p;
}

void permits_free(struct permits *p)
{
    if (!p)
        return;
    mem_free(p->spans);
    mem_free(p->changes);
    mem_free(p->tokens);
    mem_free(p->ops);
    mem_free(p);
}

static size_t newest(const struct permits *p)
{
    return p->count - 1;
}

const struct rights *permits_newest(const struct permits *p)
{
    return &p->spans[newest(p)].rights;
}

size_t permits_count(const struct permits *p)
{
    return newest(p);
}

/* --- members --- */

enum {
    AT_ONCE_MAX = 8,  /* changes in one turn, if any of them may be the first */
    IN_ORDER_MAX = 24 /* the same, if they come as they were asked for */
};

/* Changes to choose from, and how many of them at most. */
struct choice {
    size_t most;
    bool anew; /* also those that are known as made from what was seen alone: that was a guess */
};

static bool is_to_be_had(const struct change *c, const struct choice *choice)
{
    if (c->is_over && !c->is_ok)
        return false;
    return !c->is_made || (choice->anew && !c->is_over);
}

/*
 * Those that lead from the newest to these, one after the other; there are few. NOLINT: no deeper
 * than AT_ONCE_MAX.
 */
/* NOLINTNEXTLINE(misc-no-recursion) */
static bool find_causes(struct permits *p, const struct rights *from, const struct rights *to,
                        size_t causes[static IN_ORDER_MAX], size_t count,
                        const struct choice *choice)
{
    if (rights_are_equal(from, to))
        return true;
    if (count == choice->most || from->revision > to->revision ||
        to->revision - from->revision > choice->most - count) /* each counts once, at most */
        return false;
    for (size_t i = p->change_count; i-- > 0;) {
        const struct change *c = &p->changes[i];
        struct rights next = *from;
        bool is_used = !is_to_be_had(c, choice);
        for (size_t n = 0; n < count; n++)
            is_used |= causes[n] == i;
        if (is_used || rights_apply(&next, &c->what) || rights_are_equal(&next, from))
            continue;
        causes[count] = i;
        if (find_causes(p, &next, to, causes, count + 1, choice))
            return true;
        causes[count] = SIZE_MAX;
    }
    return false;
}

/*
 * The same among changes that come in the order in which they were asked for. A disk that hangs for
 * ten seconds holds back more of them than can be tried in any order, and the log keeps the order
 * of a client that asks for one after the other. NOLINT: no deeper than IN_ORDER_MAX.
 */
/* NOLINTNEXTLINE(misc-no-recursion) */
static bool find_in_order(struct permits *p, const struct rights *from, const struct rights *to,
                          size_t causes[static IN_ORDER_MAX], size_t count, size_t first)
{
    const struct choice choice = {.most = IN_ORDER_MAX};

    if (rights_are_equal(from, to))
        return true;
    if (count == choice.most || from->revision > to->revision ||
        to->revision - from->revision > choice.most - count)
        return false;
    for (size_t i = first; i < p->change_count; i++) {
        const struct change *c = &p->changes[i];
        struct rights next = *from;
        if (!is_to_be_had(c, &choice) || rights_apply(&next, &c->what) ||
            rights_are_equal(&next, from))
            continue;
        causes[count] = i;
        if (find_in_order(p, &next, to, causes, count + 1, i + 1))
            return true;
        causes[count] = SIZE_MAX;
    }
    return false;
}

static void copy_secrets(struct rights *to, const struct rights *from)
{
    for (unsigned u = 0; u < RIGHTS_USERS; u++)
        to->users[u].secret = from->users[u].secret;
}

/* One that switches auth off was asked for, and nobody knows what became of it. */
static bool may_be_off(const struct permits *p)
{
    bool may = false;

    for (size_t i = 0; i < p->change_count; i++) {
        const struct change *c = &p->changes[i];
        may |= c->what.kind == RIGHTS_DISABLE && !c->is_made && !(c->is_over && !c->is_ok);
    }
    return may;
}

/* As few of them as will do: one that was enough by itself is likelier than two that undo each
 * other. */
static bool find_fewest(struct permits *p, const struct rights *now,
                        size_t causes[static IN_ORDER_MAX], bool anew)
{
    bool is_found = false;

    for (size_t i = 0; i < IN_ORDER_MAX; i++)
        causes[i] = SIZE_MAX;
    for (size_t most = 1; !is_found && most <= AT_ONCE_MAX; most++)
        is_found = find_causes(p, permits_newest(p), now, causes, 0,
                               &(struct choice){.most = most, .anew = anew});
    return is_found;
}

/* False: nobody has asked for that. */
static bool add_new(struct permits *p, const struct rights *now)
{
    size_t causes[IN_ORDER_MAX];

    if (!find_fewest(p, now, causes, false) && !find_fewest(p, now, causes, true) &&
        !find_in_order(p, permits_newest(p), now, causes, 0, 0))
        return false;
    uint32_t perhaps = p->spans[newest(p)].perhaps + may_be_off(p);
    for (size_t i = 0; i < IN_ORDER_MAX && causes[i] != SIZE_MAX; i++) {
        struct change *c = &p->changes[causes[i]];
        struct rights next = *permits_newest(p);
        const char *text = rights_apply(&next, &c->what);
        assert(!text);
        add_span(p, &next, i + 1 < IN_ORDER_MAX && causes[i + 1] != SIZE_MAX);
        p->spans[newest(p)].perhaps = perhaps;
        c->is_made = true;
        c->made = newest(p);
    }
    copy_secrets(&p->spans[newest(p)].rights, now);
    return true;
}

/* Switching it on does not count, and switching it off does: so these two tell them all apart. */
static bool find_span(const struct permits *p, const struct rights *now, size_t *out)
{
    for (size_t n = p->count; n-- > 0;)
        if (p->spans[n].rights.enabled == now->enabled &&
            p->spans[n].rights.revision == now->revision) {
            *out = n;
            return true;
        }
    return false;
}

/* Of those that came at once another was first than was guessed. It stays one that is not known for
 * sure: there may have been more than two. */
static bool guess_again(struct permits *p, const struct rights *now, size_t *out)
{
    for (size_t n = p->count; n-- > 1;) {
        for (size_t i = 0; i < p->change_count && p->spans[n].is_guessed; i++) {
            struct rights first = p->spans[n - 1].rights;
            const struct change *c = &p->changes[i];
            if (!c->is_made || c->made < n || rights_apply(&first, &c->what) ||
                !rights_are_equal(&first, now))
                continue;
            p->spans[n].rights = first;
            *out = n;
            return true;
        }
    }
    return false;
}

/* Where auth was switched on or off among changes that came at once was guessed, too. */
static bool guess_switch_again(struct permits *p, const struct rights *now, size_t *out)
{
    for (size_t n = p->count; n-- > 1;)
        if (p->spans[n].is_guessed && p->spans[n].rights.revision == now->revision) {
            p->spans[n].rights = *now;
            *out = n;
            return true;
        }
    return false;
}

void permits_shown(struct permits *p, unsigned member, const struct rights *now, uint64_t applied,
                   int64_t revision)
{
    size_t n = newest(p);

    assert(member < p->member_count);
    if (!find_span(p, now, &n) && !guess_again(p, now, &n) && !guess_switch_again(p, now, &n)) {
        if (!add_new(p, now)) {
            fail(p, "member m%u has users and roles of revision %" PRIu64 " that nobody has made",
                 member + 1, now->revision);
            return;
        }
        n = newest(p);
    }
    struct span *s = &p->spans[n];
    if (!rights_are_equal(&s->rights, now) && !s->is_guessed)
        fail(p, "member m%u has other users and roles of revision %" PRIu64 " than others",
             member + 1, now->revision);
    s->applied_min = applied < s->applied_min ? applied : s->applied_min;
    s->applied_max = applied > s->applied_max ? applied : s->applied_max;
    s->revision_min = revision < s->revision_min ? revision : s->revision_min;
    s->revision_max = revision > s->revision_max ? revision : s->revision_max;
    p->members[member].span = n;
    p->members[member].applied = applied;
}

void permits_forgot(struct permits *p, unsigned member)
{
    assert(member < p->member_count);
    p->forgets++;
    p->members[member].span = 0; /* until it shows what it has now */
    p->members[member].applied = 0;
}

size_t permits_member(const struct permits *p, unsigned member)
{
    assert(member < p->member_count);
    return p->members[member].span;
}

uint64_t permits_applied(const struct permits *p, unsigned member)
{
    assert(member < p->member_count);
    return p->members[member].applied;
}

/* --- changes --- */

size_t permits_asked(struct permits *p, const struct rights_change *c)
{
    if (p->change_count == p->change_cap) {
        p->change_cap = p->change_cap ? 2 * p->change_cap : 64;
        p->changes = mem_resize(p->changes, p->change_cap, sizeof(*p->changes));
    }
    p->changes[p->change_count] = (struct change){.what = *c, .since = newest(p)};
    return p->change_count++;
}

/*
 * The same was asked for before, and not answered: whose it was that was made, nobody knows. So it
 * is this one's, or the other's, as it must be.
 */
static bool trade_with_twin(struct permits *p, struct change *c, bool is_made)
{
    for (size_t i = 0; i < p->change_count; i++) {
        struct change *twin = &p->changes[i], *to = is_made ? c : twin, *from = is_made ? twin : c;
        if (twin == c || twin->is_over || twin->is_made != is_made || from->made <= to->since ||
            !rights_changes_are_equal(&twin->what, &c->what))
            continue;
        from->is_made = false;
        to->is_made = true;
        to->made = from->made;
        return true;
    }
    return false;
}

static const struct change *change_made_at(const struct permits *p, size_t n)
{
    for (size_t i = 0; i < p->change_count; i++)
        if (p->changes[i].is_made && p->changes[i].made == n)
            return &p->changes[i];
    unreachable(); /* each but the first has one */
}

/* Those that came at once with the one at span n: from the first of them to the last, which was
 * shown. Writes what they are with `other` in the place of it, and says whether that is what was
 * shown. */
static bool replay_with(const struct permits *p, size_t n, const struct change *other,
                        size_t *first, size_t *last, struct rights out[static AT_ONCE_MAX])
{
    *first = *last = n;
    while (*first > 1 && p->spans[*first - 1].is_guessed)
        --*first;
    while (p->spans[*last].is_guessed)
        ++*last;
    struct rights r = p->spans[*first - 1].rights;
    for (size_t i = *first; i <= *last; i++) {
        if (rights_apply(&r, i == n ? &other->what : &change_made_at(p, i)->what))
            return false;
        out[i - *first] = r;
    }
    return rights_are_equal(&r, &p->spans[*last].rights);
}

/*
 * Another was asked for and not answered that would have led to the same: a password that is set
 * anew shows in the revision alone, whoever's it is. Then it was that one.
 */
static bool replace_cause(struct permits *p, struct change *c)
{
    struct rights then[AT_ONCE_MAX];
    size_t first, last;

    for (size_t i = 0; i < p->change_count; i++) {
        struct change *other = &p->changes[i];
        if (other->is_over || other->is_made || other->since >= c->made ||
            !replay_with(p, c->made, other, &first, &last, then))
            continue;
        copy_secrets(&then[last - first], &p->spans[last].rights);
        for (size_t n = first; n <= last; n++)
            p->spans[n].rights = then[n - first];
        other->is_made = true;
        other->made = c->made;
        c->is_made = false;
        return true;
    }
    return false;
}

/* Would it have done nothing, or been refused in these words, by some of those since? */
static bool had_no_effect(const struct permits *p, const struct change *c, struct bytes text,
                          bool ok)
{
    for (size_t n = c->since; n <= newest(p); n++) {
        struct rights r = p->spans[n].rights;
        const char *refusal = rights_apply(&r, &c->what);
        if (p->spans[n].is_guessed)
            return true;
        if (ok && !refusal && rights_are_equal(&r, &p->spans[n].rights))
            return true;
        if (!ok && refusal && bytes_equal(text, bytes_of_str(refusal)))
            return true;
    }
    return false;
}

/* Not about the change: whether he was told so rightly is looked at elsewhere. */
static bool is_about_asker(struct bytes text)
{
    return bytes_equal(text, bytes_of_str(denied)) || bytes_equal(text, bytes_of_str(nobody)) ||
           bytes_equal(text, bytes_of_str(outdated)) || bytes_equal(text, bytes_of_str(bad_token));
}

void permits_answered(struct permits *p, size_t change, struct bytes text, bool ok)
{
    struct change *c = &p->changes[change];

    assert(change < p->change_count);
    assert(!c->is_over);
    if (ok && !c->is_made && !had_no_effect(p, c, text, ok) && !trade_with_twin(p, c, true))
        fail(p, "change %zu of users and roles was answered, and is not made", change);
    if (!ok && c->is_made && !trade_with_twin(p, c, false) && !replace_cause(p, c))
        fail(p, "change %zu of users and roles was refused, and is made: %.*s", change,
             (int)text.len, (const char *)text.at);
    if (!ok && !is_about_asker(text) && !had_no_effect(p, c, text, ok))
        fail(p, "change %zu of users and roles was refused without a reason: %.*s", change,
             (int)text.len, (const char *)text.at);
    c->is_over = true;
    c->is_ok = ok;
}

void permits_status(struct permits *p, size_t since, bool enabled, uint64_t revision)
{
    for (size_t n = since; n <= newest(p); n++)
        if (p->spans[n].rights.enabled == enabled && p->spans[n].rights.revision == revision)
            return;
    fail(p, "the users and roles are said to be of revision %" PRIu64 ", %s, and they are not",
         revision, enabled ? "enabled" : "disabled");
}

/* --- spans of time --- */

struct window {
    size_t from, to;
};

static void narrow(struct window *w, size_t from, size_t to)
{
    w->from = from > w->from ? from : w->from;
    w->to = to < w->to ? to : w->to;
}

/* Those in force at this entry. */
static struct window at_entry(const struct permits *p, uint64_t index)
{
    struct window w = {0, newest(p)};

    for (size_t n = 0; n < p->count; n++) {
        if (p->spans[n].applied_min <= index)
            w.from = n;
        if (p->spans[n].applied_max >= index && n < w.to)
            w.to = n;
    }
    return w;
}

/* Those in force while the keys were at this revision, or when they came to it. */
static struct window at_revision(const struct permits *p, int64_t revision, bool came)
{
    struct window w = {0, newest(p)};

    for (size_t n = 0; n < p->count; n++) {
        if (p->spans[n].revision_min < revision)
            w.from = n;
        if (p->spans[n].revision_max >= revision + !came && n < w.to)
            w.to = n;
    }
    return w;
}

/* --- tokens --- */

static uint64_t index_of(struct bytes token)
{
    char text[32] = "";
    size_t dot = 0;

    while (dot < token.len && token.at[dot] != '.')
        dot++;
    if (dot < token.len)
        snprintf(text, sizeof(text), "%.*s", (int)(token.len - dot - 1),
                 (const char *)token.at + dot + 1);
    return strtoull(text, NULL, 10);
}

struct permits_login permits_login(const struct permits *p, unsigned user, bool is_right)
{
    return (struct permits_login){
        .user = user, .is_right = is_right, .since = newest(p), .forgets = p->forgets};
}

unsigned permits_logged_in(struct permits *p, const struct permits_login *l, struct bytes token)
{
    uint64_t index = index_of(token);
    struct window w = at_entry(p, index);
    bool is_user = false;

    for (size_t n = w.from; n <= w.to; n++) {
        const struct span *s = &p->spans[n];
        is_user |= s->is_guessed || (s->rights.enabled && s->rights.users[l->user].is_there);
    }
    if (index == 0 || w.to < l->since)
        fail(p, "a token was made before anybody has logged in");
    else if (!l->is_right)
        fail(p, "somebody has logged in with a password that is wrong");
    else if (!is_user)
        fail(p, "%s has logged in, and was not there, or auth was disabled",
             rights_user_name(l->user));
    if (p->token_count == p->token_cap) {
        p->token_cap = p->token_cap ? 2 * p->token_cap : 64;
        p->tokens = mem_resize(p->tokens, p->token_cap, sizeof(*p->tokens));
    }
    p->tokens[p->token_count] = (struct token){
        .user = l->user, .from = w.from, .to = w.to, .index = index, .forgets = l->forgets};
    return PERMITS_TOKENS + (unsigned)p->token_count++;
}

bool permits_login_refused(struct permits *p, const struct permits_login *l, struct bytes text)
{
    bool is_disabled = bytes_equal(text, BYTES("etcdserver: authentication is not enabled"));
    bool is_unknown =
        bytes_equal(text, BYTES("etcdserver: authentication failed, invalid user ID or password"));

    if (!is_disabled && !is_unknown)
        return false;
    for (size_t n = l->since; n <= newest(p); n++) {
        const struct rights *r = &p->spans[n].rights;
        if (p->spans[n].is_guessed || (is_disabled && !r->enabled) ||
            (is_unknown && r->enabled && (!l->is_right || !r->users[l->user].is_there)))
            return true;
    }
    fail(p, "%s was not let in: %.*s", rights_user_name(l->user), (int)text.len,
         (const char *)text.at);
    return true;
}

static const struct token *token_of(const struct permits *p, unsigned token)
{
    return token >= PERMITS_TOKENS ? &p->tokens[token - PERMITS_TOKENS] : NULL;
}

static uint32_t logouts_at(const struct permits *p, size_t n, unsigned user)
{
    return p->spans[n].rights.users[user].logouts;
}

/* May it be good while these are in force? */
static bool is_good(const struct permits *p, unsigned number, size_t n)
{
    const struct token *t = token_of(p, number);

    return t && p->spans[n].rights.enabled && n >= t->from &&
           logouts_at(p, n, t->user) <= logouts_at(p, t->to, t->user);
}

/* May it be bad? */
static bool is_bad(const struct permits *p, unsigned number, size_t n)
{
    const struct token *t = token_of(p, number);

    return !t || logouts_at(p, n, t->user) > logouts_at(p, t->from, t->user) ||
           p->spans[n].perhaps > p->spans[t->from].perhaps;
}

/* --- operations --- */

static struct op *find_op(struct permits *p, uint64_t op)
{
    return op < p->op_cap && p->ops[op].is_known ? &p->ops[op] : NULL;
}

void permits_sent(struct permits *p, uint64_t op, unsigned member, unsigned user, unsigned token)
{
    size_t had = p->op_cap;

    assert(user < RIGHTS_USERS);
    if (op >= p->op_cap) {
        p->op_cap = 2 * op + 256;
        p->ops = mem_resize(p->ops, p->op_cap, sizeof(*p->ops));
        memset(p->ops + had, 0, (p->op_cap - had) * sizeof(*p->ops));
    }
    struct op *o = &p->ops[op];
    if (!o->is_known)
        *o = (struct op){.is_known = true,
                         .since = newest(p),
                         .member_since = SIZE_MAX,
                         .applied = UINT64_MAX,
                         .until = SIZE_MAX};
    o->user = user;
    o->token = token;
    if (permits_member(p, member) < o->member_since)
        o->member_since = permits_member(p, member);
    if (permits_applied(p, member) < o->applied)
        o->applied = permits_applied(p, member);
}

void permits_is_anybodys(struct permits *p, uint64_t op)
{
    struct op *o = find_op(p, op);

    assert(o);
    o->is_anybodys = true;
}

void permits_over(struct permits *p, uint64_t op)
{
    struct op *o = find_op(p, op);

    if (o)
        o->until = newest(p);
}

/* What goes through the log, and reads that a quorum was asked for, are decided by what anybody
 * had when they began, or newer. */
static bool is_decided_late(const struct history_op *o)
{
    struct arena arena = {0};
    struct pb_range_request q = {0};

    if (o->kind == OP_RANGE &&
        pb_decode_range_request(buf_bytes(&o->request), &arena, &q) != ERR_OK)
        unreachable();
    arena_free(&arena);
    return o->kind == OP_PUT || o->kind == OP_DELETE || (o->kind == OP_RANGE && !q.serializable);
}

static bool is_about_leases(enum history_kind kind)
{
    return kind == OP_KEYS || kind == OP_REVOKE || kind == OP_RENEW;
}

/* All keys of ours. */
static bool may_write_all(const struct rights *r, unsigned user)
{
    struct pb_delete_range_request all = {
        .key = BYTES("k"), .range_end = BYTES("{"), .prev_kv = true};
    struct buf wire = {0};

    pb_encode_delete_range_request(&all, &wire);
    bool may = rights_may(r, user, OP_DELETE, buf_bytes(&wire));
    buf_free(&wire);
    return may;
}

/* Could it be refused while these are in force? */
static bool may_be_denied(const struct rights *r, unsigned user, const struct history_op *o)
{
    if (!r->enabled)
        return false;
    if (o->lease != 0 || is_about_leases(o->kind))
        return !may_write_all(r, user);
    return !rights_may(r, user, o->kind, buf_bytes(&o->request));
}

/* How can it be that a member does not know a good one? */
static bool is_forgotten(const struct permits *p, unsigned number, uint64_t applied)
{
    const struct token *t = token_of(p, number);

    return !t || p->tokens_expire || t->forgets != p->forgets || applied < t->index;
}

struct refusal {
    struct window w; /* by those that decide */
    size_t since;    /* by those of the member that found out who asked */
    unsigned token;
    bool is_keys; /* of a lease: looked at again if users or roles have changed, token or none */
    uint64_t applied;
};

static bool has_two_revisions(const struct permits *p, size_t from, size_t to)
{
    return p->spans[from].rights.revision != p->spans[to].rights.revision;
}

static bool any_is_enabled(const struct permits *p, size_t from, size_t to, bool enabled)
{
    for (size_t n = from; n <= to; n++)
        if (p->spans[n].rights.enabled == enabled || p->spans[n].is_guessed)
            return true;
    return false;
}

static bool any_is_bad(const struct permits *p, size_t from, size_t to, unsigned token)
{
    for (size_t n = from; n <= to; n++)
        if (p->spans[n].rights.enabled && is_bad(p, token, n))
            return true;
    return false;
}

/* All reasons but that it is not permitted. False: it is none of these. */
static bool is_about_token(const struct permits *p, const struct refusal *r, struct bytes text,
                           bool *is_right)
{
    bool has_token = r->token != PERMITS_NO_TOKEN;

    if (bytes_equal(text, bytes_of_str(nobody)))
        *is_right = any_is_enabled(p, r->since, r->w.to, true) &&
                    (!has_token || any_is_enabled(p, r->since, r->w.to, false));
    else if (bytes_equal(text, bytes_of_str(outdated)))
        *is_right = (has_token || (r->is_keys && any_is_enabled(p, r->since, r->w.to, false))) &&
                    has_two_revisions(p, r->since, r->w.to);
    else if (bytes_equal(text, bytes_of_str(bad_token)))
        *is_right =
            has_token && any_is_enabled(p, r->since, r->w.to, true) &&
            (is_forgotten(p, r->token, r->applied) || any_is_bad(p, r->since, r->w.to, r->token));
    else
        return false;
    return true;
}

bool permits_refused(struct permits *p, uint64_t op, const struct history_op *o, struct bytes text)
{
    const struct op *known = find_op(p, op);
    bool is_right = false;

    if (!known)
        return false;
    struct refusal r = {.w = {known->member_since, newest(p)},
                        .since = known->member_since,
                        .token = known->token,
                        .applied = known->applied,
                        .is_keys = o->kind == OP_KEYS};
    if (is_decided_late(o))
        narrow(&r.w, known->since, newest(p));
    if (!is_about_token(p, &r, text, &is_right)) {
        if (!bytes_equal(text, bytes_of_str(denied)))
            return false;
        for (size_t n = r.w.from; n <= r.w.to; n++)
            is_right |=
                p->spans[n].is_guessed || may_be_denied(&p->spans[n].rights, known->user, o);
    }
    if (!is_right)
        fail(p, "operation %" PRIu64 " (%s) of %s was refused without a reason: %.*s", op,
             history_kind_name(o->kind), rights_user_name(known->user), (int)text.len,
             (const char *)text.at);
    return true;
}

/* Could it happen while these are in force? A transaction that names no key is anybody's. */
static bool may_happen(const struct permits *p, size_t n, const struct op *known,
                       const struct history_op *o)
{
    const struct rights *r = &p->spans[n].rights;

    if (p->spans[n].is_guessed || !r->enabled || known->is_anybodys)
        return true;
    if (o->kind == OP_TXN && known->token == PERMITS_NO_TOKEN) {
        struct rights without = *r;
        without.users[known->user].roles = 0;
        return rights_may(&without, known->user, OP_TXN, buf_bytes(&o->request));
    }
    return is_good(p, known->token, n) &&
           rights_may(r, known->user, o->kind, buf_bytes(&o->request));
}

/* A write has been applied at the revision where it is seen; one that has changed nothing, and a
 * read, while the keys were at the revision that it was told. */
static void check_op(struct permits *p, uint64_t op, const struct history_op *o)
{
    const struct op *known = find_op(p, op);
    bool is_answered = o->done && !o->failed;

    if (!known || (!is_answered && o->seen == 0))
        return;
    struct window w = {known->member_since, newest(p)};
    if (is_decided_late(o) || o->seen != 0)
        narrow(&w, known->since, newest(p));
    if (is_answered)
        narrow(&w, 0, known->until);
    if (o->seen != 0 || o->kind == OP_PUT || o->kind == OP_DELETE || o->kind == OP_TXN ||
        o->kind == OP_RANGE) {
        struct window at = at_revision(p, o->seen ? o->seen : o->revision, o->seen != 0);
        narrow(&w, at.from, at.to);
    }
    for (size_t n = w.from; n <= w.to; n++)
        if (may_happen(p, n, known, o))
            return;
    fail(p,
         "operation %" PRIu64 " (%s) of %s has happened at revision %" PRId64
         ", and was not permitted then",
         op, history_kind_name(o->kind), rights_user_name(known->user),
         o->seen ? o->seen : o->revision);
}

void permits_check(struct permits *p, const struct history *h)
{
    for (uint64_t n = 0; n < h->op_count && !permits_problem(p); n++)
        check_op(p, n, &h->ops[n]);
}

/* --- watches --- */

/* The reason comes in gRPC's words. */
static struct bytes reason_of(struct bytes text)
{
    static const char desc[] = "desc = ";
    size_t len = sizeof(desc) - 1;

    for (size_t i = 0; i + len <= text.len; i++)
        if (memcmp(text.at + i, desc, len) == 0)
            return bytes_of(text.at + i + len, text.len - i - len);
    return text;
}

bool permits_watched(struct permits *p, const struct permits_watch *w)
{
    struct refusal r = {
        .w = {w->since, newest(p)}, .since = w->since, .token = w->token, .applied = w->applied};
    struct bytes text = reason_of(w->text);
    bool is_right = false;

    if (!is_about_token(p, &r, text, &is_right)) {
        bool is_denied = bytes_equal(text, bytes_of_str(denied));
        if (text.len > 0 && !is_denied)
            return false;
        for (size_t n = w->since; n <= newest(p); n++) {
            const struct rights *now = &p->spans[n].rights;
            bool may = !now->enabled ||
                       (is_good(p, w->token, n) && rights_may_read(now, w->user, w->key, w->end));
            is_right |= p->spans[n].is_guessed || may != is_denied;
        }
    }
    if (!is_right)
        fail(p, "a watch of %s at m%u from %.*s on was %s: %.*s", rights_user_name(w->user),
             w->member + 1, (int)w->key.len, (const char *)w->key.at,
             text.len > 0 ? "refused without a reason" : "created, and was not permitted",
             (int)text.len, (const char *)text.at);
    return true;
}
