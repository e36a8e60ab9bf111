#include "server/passwords.h"

#include "base/assert.h"
#include "base/mem.h"
#include "io/entropy.h"
#include "server/host.h"

/* Where questions come from: an address, whose members are its connections, or a connection, whose
 * members are questions. */
struct source {
    struct list link;
    struct list members;
    struct source *within; /* of a connection: its address */
    size_t count;          /* of questions */
    struct buf name;
};

struct password_question {
    struct job job;
    struct list link;
    struct password_lane *lane;
    struct source *connection; /* while it waits */
    struct api_call *call;     /* NULL: forgotten */
    bool compares, is_refused, is_too_costly;
    bool matches;
    struct buf password, hash;
    unsigned cost;
    uint8_t salt[PASSWORD_SALT_BYTES];
};

static_assert(PASSWORDS_QUICK_COST_MAX <= PASSWORDS_COMPARED_COST_MAX, "what is quick is compared");
static_assert((int)PASSWORDS_COMPARED_COST_MAX <= (int)PASSWORD_COST_MAX, "and bcrypt knows it");

void passwords_init(struct passwords *p, struct workers *workers, struct entropy *entropy,
                    unsigned cost)
{
    *p = (struct passwords){.workers = workers, .entropy = entropy, .cost = cost};
    for (size_t i = 0; i < ARRAY_LEN(p->lanes); i++) {
        p->lanes[i].passwords = p;
        list_init(&p->lanes[i].addresses);
    }
    list_init(&p->done);
}

static void overwrite(struct buf *password)
{
    if (password->cap > 0)
        explicit_bzero(password->at, password->cap);
    buf_free(password);
}

static void question_free(struct password_question *q)
{
    overwrite(&q->password);
    buf_free(&q->hash);
    mem_free(q);
}

/* ---- Who waits ---- */

static struct source *find_source(const struct list *sources, struct bytes name)
{
    LIST_FOREACH (link, sources) {
        struct source *s = container_of(link, struct source, link);
        if (bytes_equal(buf_bytes(&s->name), name))
            return s;
    }
    return NULL;
}

static struct source *find_or_add(struct list *sources, struct bytes name, struct source *within)
{
    struct source *s = find_source(sources, name);

    if (s)
        return s;
    s = mem_new(struct source);
    list_init(&s->link);
    list_init(&s->members);
    s->within = within;
    buf_append(&s->name, name);
    list_push_back(sources, &s->link);
    return s;
}

static void count_one_less(struct source *s)
{
    assert(s->count > 0);

    if (--s->count > 0)
        return;
    assert(list_empty(&s->members));
    list_remove(&s->link);
    buf_free(&s->name);
    mem_free(s);
}

static void stop_waiting(struct password_question *q)
{
    struct source *connection = q->connection, *address = connection->within;

    assert(q->lane->waiting > 0);
    list_remove(&q->link);
    q->connection = NULL;
    q->lane->waiting--;
    count_one_less(connection);
    count_one_less(address);
}

static struct source *first_source(const struct list *sources)
{
    assert(!list_empty(sources));

    return container_of(sources->next, struct source, link);
}

static struct password_question *first_question(const struct password_lane *lane)
{
    const struct source *connection = first_source(&first_source(&lane->addresses)->members);

    return container_of(connection->members.next, struct password_question, link);
}

static void free_lane(struct password_lane *lane)
{
    if (lane->running)
        question_free(lane->running);
    while (lane->waiting > 0) {
        struct password_question *q = first_question(lane);
        stop_waiting(q);
        question_free(q);
    }
    assert(list_empty(&lane->addresses));
}

void passwords_free(struct passwords *p)
{
    if (!p->done.next)
        return;
    for (size_t i = 0; i < ARRAY_LEN(p->lanes); i++)
        free_lane(&p->lanes[i]);
    for (struct list *link; (link = list_pop_front(&p->done));)
        question_free(container_of(link, struct password_question, link));
}

bool passwords_is_idle(const struct passwords *p)
{
    return !p->lanes[PASSWORD_LANE_QUICK].running && !p->lanes[PASSWORD_LANE_SLOW].running;
}

/* ---- On a worker ---- */

static void answer_question(struct job *j)
{
    struct password_question *q = container_of(j, struct password_question, job);
    char text[PASSWORD_HASH_LEN + 1];

    if (q->compares) {
        q->matches = password_matches(buf_bytes(&q->hash), buf_bytes(&q->password));
    } else {
        password_hash(buf_bytes(&q->password), q->cost, q->salt, text);
        buf_append(&q->hash, bytes_of(text, PASSWORD_HASH_LEN));
    }
    overwrite(&q->password);
}

/* ---- In the turn ---- */

static void run_next(struct password_lane *lane);

static void question_answered(struct job *j)
{
    struct password_question *q = container_of(j, struct password_question, job);
    struct password_lane *lane = q->lane;

    assert(lane->running == q);
    lane->running = NULL;
    if (q->call)
        list_push_back(&lane->passwords->done, &q->link);
    else
        question_free(q);
    run_next(lane);
}

static void move_to_back(struct list *sources, struct source *s)
{
    list_remove(&s->link);
    list_push_back(sources, &s->link);
}

/* The address goes to the end of the line, and in its own line the connection does. */
static void run_next(struct password_lane *lane)
{
    if (lane->running || lane->waiting == 0)
        return;
    struct password_question *q = first_question(lane);
    move_to_back(&lane->addresses, q->connection->within);
    move_to_back(&q->connection->within->members, q->connection);
    stop_waiting(q);
    lane->running = q;
    q->job = (struct job){.run = answer_question, .on_done = question_answered};
    job_submit(lane->passwords->workers, &q->job);
}

/* No more of the password is kept than counts: who logs in may send megabytes, and waits. */
static void question_fill(struct password_question *q, const struct api_password *w)
{
    struct passwords *p = q->lane->passwords;
    char nobodys[PASSWORD_HASH_LEN + 1];
    size_t len = w->password.len < PASSWORD_BYTES_MAX ? w->password.len : PASSWORD_BYTES_MAX;

    assert(w->compares || len == w->password.len);
    buf_append(&q->password, bytes_of(w->password.at, len));
    if (!w->compares) {
        entropy_fill(p->entropy, q->salt, sizeof(q->salt));
    } else if (password_cost(w->hash) > 0 && !q->is_too_costly) {
        buf_append(&q->hash, w->hash);
    } else {
        password_nobodys(p->cost, nobodys);
        buf_append(&q->hash, bytes_of(nobodys, PASSWORD_HASH_LEN));
    }
}

static unsigned larger(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

static struct password_question *question_new(struct passwords *p, const struct api_need *need)
{
    struct password_question *q = mem_new(struct password_question);
    const struct api_password *w = &need->password;
    unsigned cost = w->compares ? password_cost(w->hash) : p->cost;
    bool is_too_costly = cost > larger(p->cost, PASSWORDS_COMPARED_COST_MAX);
    bool is_slow = !is_too_costly && cost > larger(p->cost, PASSWORDS_QUICK_COST_MAX);

    *q = (struct password_question){
        .lane = &p->lanes[is_slow ? PASSWORD_LANE_SLOW : PASSWORD_LANE_QUICK],
        .call = need->call,
        .compares = w->compares,
        .is_too_costly = is_too_costly,
        .cost = p->cost};
    list_init(&q->link);
    return q;
}

static void refuse(struct password_question *q)
{
    overwrite(&q->password);
    q->is_refused = true;
    list_push_back(&q->lane->passwords->done, &q->link);
}

/* Of several the last in line: it came last, or had its turn last. */
static struct source *largest_source(const struct list *sources)
{
    struct source *largest = first_source(sources);

    LIST_FOREACH (link, sources) {
        struct source *s = container_of(link, struct source, link);
        if (s->count >= largest->count)
            largest = s;
    }
    return largest;
}

/* The newest question of the connection that holds most. */
static void refuse_newest(struct source *connection)
{
    struct password_question *q =
        container_of(connection->members.prev, struct password_question, link);

    stop_waiting(q);
    refuse(q);
}

static size_t count_of(const struct source *s)
{
    return s ? s->count : 0;
}

/* A connection gives way to one of the same address that holds less, by two at least: else the two
 * would only change places. */
static bool connection_gives_way(const struct source *address, const struct source *to)
{
    struct source *largest = largest_source(&address->members);

    if (largest->count < count_of(to) + 2)
        return false;
    refuse_newest(largest);
    return true;
}

/* And so does an address. */
static bool address_gives_way(const struct password_lane *lane, const struct source *to)
{
    const struct source *largest = largest_source(&lane->addresses);

    if (largest->count < count_of(to) + 2)
        return false;
    refuse_newest(largest_source(&largest->members));
    return true;
}

/* Is there a place for one more, perhaps somebody else's? There are no more sources than questions
 * wait: a walk is short beside what each of those costs. */
static bool find_place(const struct password_lane *lane, struct bytes name, struct bytes remote)
{
    const struct source *address = find_source(&lane->addresses, name);
    const struct source *connection = address ? find_source(&address->members, remote) : NULL;

    if (count_of(address) == PASSWORDS_WAITING_PER_ADDRESS_MAX)
        return connection_gives_way(address, connection);
    return lane->waiting < PASSWORDS_WAITING_MAX || address_gives_way(lane, address) ||
           (address && connection_gives_way(address, connection));
}

static void wait_in_line(struct password_question *q, struct bytes name, struct bytes remote)
{
    struct source *address = find_or_add(&q->lane->addresses, name, NULL);
    struct source *connection = find_or_add(&address->members, remote, address);

    q->connection = connection;
    list_push_back(&connection->members, &q->link);
    connection->count++;
    address->count++;
    q->lane->waiting++;
}

void passwords_need(struct passwords *p, const struct api_need *need)
{
    struct password_question *q = question_new(p, need);
    struct buf name = {0};
    assert(need->need == API_PASSWORD);

    host_of_remote(need->password.remote, &name);
    if (find_place(q->lane, buf_bytes(&name), need->password.remote)) {
        question_fill(q, &need->password);
        wait_in_line(q, buf_bytes(&name), need->password.remote);
        run_next(q->lane);
    } else {
        refuse(q);
    }
    buf_free(&name);
}

static struct password_question *find_in(const struct list *questions, const struct api_call *c)
{
    LIST_FOREACH (link, questions) {
        struct password_question *q = container_of(link, struct password_question, link);
        if (q->call == c)
            return q;
    }
    return NULL;
}

static struct password_question *find_waiting(const struct password_lane *lane,
                                              const struct api_call *c)
{
    LIST_FOREACH (of_address, &lane->addresses) {
        const struct source *address = container_of(of_address, struct source, link);
        LIST_FOREACH (of_connection, &address->members) {
            struct password_question *q =
                find_in(&container_of(of_connection, struct source, link)->members, c);
            if (q)
                return q;
        }
    }
    return NULL;
}

static bool lane_forgets(struct password_lane *lane, const struct api_call *c)
{
    if (lane->running && lane->running->call == c) {
        lane->running->call = NULL;
        return true;
    }
    struct password_question *q = find_waiting(lane, c);
    if (!q)
        return false;
    stop_waiting(q);
    question_free(q);
    return true;
}

bool passwords_forget(struct passwords *p, const struct api_call *c)
{
    struct password_question *q = find_in(&p->done, c);

    if (!q)
        return lane_forgets(&p->lanes[PASSWORD_LANE_QUICK], c) ||
               lane_forgets(&p->lanes[PASSWORD_LANE_SLOW], c);
    list_remove(&q->link);
    question_free(q);
    return true;
}

struct api_call *passwords_take(struct passwords *p, struct api_password_result *out)
{
    struct list *link = list_pop_front(&p->done);

    if (!link)
        return NULL;
    struct password_question *q = container_of(link, struct password_question, link);
    struct api_call *c = q->call;
    *out = (struct api_password_result){
        .is_refused = q->is_refused, .is_too_costly = q->is_too_costly, .matches = q->matches};
    if (!q->compares && !q->is_refused) {
        assert(q->hash.len == PASSWORD_HASH_LEN);
        memcpy(out->hash, q->hash.at, q->hash.len);
        out->hash_len = q->hash.len;
    }
    question_free(q);
    return c;
}
