#include "server/passwords.h"

#include "base/assert.h"
#include "base/mem.h"
#include "io/entropy.h"

/* Those who come from one place, by its name without the port. */
struct address {
    struct list link;
    struct list questions;
    size_t count;
    struct buf name;
};

struct password_question {
    struct job job;
    struct list link;
    struct passwords *passwords;
    struct api_call *call; /* NULL: forgotten */
    bool compares, is_refused;
    bool matches;
    struct buf password, hash;
    unsigned cost;
    uint8_t salt[PASSWORD_SALT_BYTES];
};

void passwords_init(struct passwords *p, struct workers *workers, struct entropy *entropy,
                    unsigned cost)
{
    *p = (struct passwords){.workers = workers, .entropy = entropy, .cost = cost};
    list_init(&p->addresses);
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

static void free_questions(struct list *questions)
{
    for (struct list *link; (link = list_pop_front(questions));)
        question_free(container_of(link, struct password_question, link));
}

static void address_free(struct address *a)
{
    list_remove(&a->link);
    buf_free(&a->name);
    mem_free(a);
}

void passwords_free(struct passwords *p)
{
    if (!p->addresses.next)
        return;
    if (p->running)
        question_free(p->running);
    while (!list_empty(&p->addresses)) {
        struct address *a = container_of(p->addresses.next, struct address, link);
        free_questions(&a->questions);
        address_free(a);
    }
    free_questions(&p->done);
}

bool passwords_is_idle(const struct passwords *p)
{
    return !p->running;
}

/* --- on a worker --- */

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

/* --- in the turn --- */

static void run_next(struct passwords *p);

static void question_answered(struct job *j)
{
    struct password_question *q = container_of(j, struct password_question, job);
    struct passwords *p = q->passwords;

    assert(p->running == q);
    p->running = NULL;
    if (q->call)
        list_push_back(&p->done, &q->link);
    else
        question_free(q);
    run_next(p);
}

/* The address goes to the end of the line, if somebody is left there. */
static void run_next(struct passwords *p)
{
    if (p->running || list_empty(&p->addresses))
        return;
    struct address *a = container_of(p->addresses.next, struct address, link);
    struct list *link = list_pop_front(&a->questions);
    assert(link);
    a->count--;
    p->waiting--;
    list_remove(&a->link);
    if (a->count > 0)
        list_push_back(&p->addresses, &a->link);
    else
        address_free(a);
    p->running = container_of(link, struct password_question, link);
    p->running->job = (struct job){.run = answer_question, .on_done = question_answered};
    job_submit(p->workers, &p->running->job);
}

/* Without the port, which is another one with every connection. */
static struct bytes host_of(struct bytes remote)
{
    size_t len = remote.len;

    while (len > 0 && remote.at[len - 1] != ':')
        len--;
    return bytes_of(remote.at, len > 0 ? len - 1 : remote.len);
}

/* There are no more of them than wait: a walk is short beside what each costs. */
static struct address *address_of(struct passwords *p, struct bytes name)
{
    LIST_FOREACH (link, &p->addresses) {
        struct address *a = container_of(link, struct address, link);
        if (bytes_equal(buf_bytes(&a->name), name))
            return a;
    }
    struct address *a = mem_new(struct address);
    list_init(&a->link);
    list_init(&a->questions);
    buf_append(&a->name, name);
    list_push_back(&p->addresses, &a->link);
    return a;
}

static struct password_question *question_new(struct passwords *p, const struct api_need *need)
{
    struct password_question *q = mem_new(struct password_question);

    *q = (struct password_question){
        .passwords = p, .call = need->call, .compares = need->password.compares, .cost = p->cost};
    list_init(&q->link);
    return q;
}

/* No more of the password is kept than counts: who logs in may send megabytes, and waits. */
static void question_fill(struct password_question *q, const struct api_password *w)
{
    struct passwords *p = q->passwords;
    char nobodys[PASSWORD_HASH_LEN + 1];
    size_t len = w->password.len < PASSWORD_BYTES_MAX ? w->password.len : PASSWORD_BYTES_MAX;

    assert(w->compares || len == w->password.len);
    buf_append(&q->password, bytes_of(w->password.at, len));
    if (w->compares && w->hash.len > 0) {
        buf_append(&q->hash, w->hash);
    } else if (w->compares) {
        password_nobodys(p->cost, nobodys);
        buf_append(&q->hash, bytes_of(nobodys, PASSWORD_HASH_LEN));
    } else {
        entropy_fill(p->entropy, q->salt, sizeof(q->salt));
    }
}

void passwords_need(struct passwords *p, const struct api_need *need)
{
    struct password_question *q = question_new(p, need);
    struct address *a = NULL;
    assert(need->need == API_PASSWORD);

    if (p->waiting < PASSWORDS_WAITING_MAX)
        a = address_of(p, host_of(need->password.remote));
    if (!a || a->count == PASSWORDS_WAITING_PER_ADDRESS_MAX) {
        q->is_refused = true;
        list_push_back(&p->done, &q->link);
        return;
    }
    question_fill(q, &need->password);
    list_push_back(&a->questions, &q->link);
    a->count++;
    p->waiting++;
    run_next(p);
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

static bool forget_waiting(struct passwords *p, const struct api_call *c)
{
    LIST_FOREACH (link, &p->addresses) {
        struct address *a = container_of(link, struct address, link);
        struct password_question *q = find_in(&a->questions, c);
        if (!q)
            continue;
        list_remove(&q->link);
        question_free(q);
        p->waiting--;
        if (--a->count == 0)
            address_free(a);
        return true;
    }
    return false;
}

bool passwords_forget(struct passwords *p, const struct api_call *c)
{
    struct password_question *q = find_in(&p->done, c);

    if (p->running && p->running->call == c) {
        p->running->call = NULL;
        return true;
    }
    if (!q)
        return forget_waiting(p, c);
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
        .is_refused = q->is_refused, .matches = q->matches, .hash_len = 0};
    if (!q->compares && !q->is_refused) {
        assert(q->hash.len == PASSWORD_HASH_LEN);
        memcpy(out->hash, q->hash.at, q->hash.len);
        out->hash_len = q->hash.len;
    }
    question_free(q);
    return c;
}
