#include "api/api_int.h"
#include "harness/test.h"

/* ---- Building transactions ---- */

struct grove {
    struct arena arena;
    struct rng rng;
};

static struct pb_request_op put_op(struct grove *g, const char *key)
{
    struct pb_put_request *r = arena_new(&g->arena, struct pb_put_request);

    r->key = bytes_of_str(key);
    return (struct pb_request_op){.which = PB_OP_PUT, .put = r};
}

static struct pb_request_op delete_op(struct grove *g, const char *key, struct bytes end)
{
    struct pb_delete_range_request *r = arena_new(&g->arena, struct pb_delete_range_request);

    r->key = bytes_of_str(key);
    r->range_end = end;
    return (struct pb_request_op){.which = PB_OP_DELETE_RANGE, .delete_range = r};
}

static struct pb_request_op range_op(struct grove *g, const char *key)
{
    struct pb_range_request *r = arena_new(&g->arena, struct pb_range_request);

    r->key = bytes_of_str(key);
    return (struct pb_request_op){.which = PB_OP_RANGE, .range = r};
}

/*
 * From text, to keep the cases readable:
 *
 *     txn    := list '|' list
 *     list   := op*
 *     op     := key                a put of that letter
 *             | '-' key            its deletion
 *             | '-' key key2       with '..' between: a..c
 *             | '-' key '*'        everything from it on
 *             | '?' key            a range
 *             | '(' txn ')'
 */
static const struct pb_txn_request *parse_txn(struct grove *g, const char **at);

static const char *letter(struct grove *g, char c)
{
    return arena_printf(&g->arena, "%c", c);
}

static struct pb_request_op parse_delete(struct grove *g, const char **at)
{
    const char *key = letter(g, *(*at)++);
    struct bytes end = {0};

    if (**at == '*') {
        ++*at;
        end = BYTES("\0");
    } else if (strncmp(*at, "..", 2) == 0) {
        end = bytes_of_str(letter(g, (*at)[2]));
        *at += 3;
    }
    return delete_op(g, key, end);
}

static struct pb_request_op parse_op(struct grove *g, const char **at)
{
    char first = *(*at)++;

    if (first == '-')
        return parse_delete(g, at);
    if (first == '?')
        return range_op(g, letter(g, *(*at)++));
    if (first != '(')
        return put_op(g, letter(g, first));
    struct pb_request_op op = {.which = PB_OP_TXN, .txn = parse_txn(g, at)};
    CHECK_EQ(**at, ')');
    ++*at;
    return op;
}

static size_t parse_list(struct grove *g, const char **at, struct pb_request_op **out)
{
    size_t count = 0;

    *out = arena_new_array(&g->arena, strlen(*at) + 1, struct pb_request_op);
    while (**at && **at != '|' && **at != ')') {
        if (**at == ' ')
            ++*at;
        else
            (*out)[count++] = parse_op(g, at);
    }
    return count;
}

static const struct pb_txn_request *parse_txn(struct grove *g, const char **at)
{
    struct pb_txn_request *txn = arena_new(&g->arena, struct pb_txn_request);
    struct pb_request_op *ops;

    txn->success.count = parse_list(g, at, &ops);
    txn->success.at = ops;
    if (**at != '|')
        return txn;
    ++*at;
    txn->failure.count = parse_list(g, at, &ops);
    txn->failure.at = ops;
    return txn;
}

static enum result check_text(const char *text)
{
    struct grove g = {0};
    const struct pb_txn_request *txn = parse_txn(&g, &text);
    enum result a = api_txn_check(txn, 128, &g.arena);

    CHECK_EQ(*text, 0);
    arena_free(&g.arena);
    return a;
}

/* ---- The rules, one by one ---- */

TEST(a_txn_may_write_a_key_only_once)
{
    CHECK_EQ(check_text("a b c"), RESULT_OK);
    CHECK_EQ(check_text("a b a"), RESULT_DUPLICATE_KEY);
    CHECK_EQ(check_text("|a b a"), RESULT_DUPLICATE_KEY);
    CHECK_EQ(check_text("a|a"), RESULT_OK);
    CHECK_EQ(check_text("a (a|)"), RESULT_DUPLICATE_KEY);
    CHECK_EQ(check_text("(a|a)"), RESULT_OK);
    CHECK_EQ(check_text("(a|) (|a)"), RESULT_DUPLICATE_KEY);
    CHECK_EQ(check_text("((a|) b|(|a) b)"), RESULT_OK);
    CHECK_EQ(check_text("((a|)|) (((|a)|)|)"), RESULT_DUPLICATE_KEY);
    CHECK_EQ(check_text("((a|a)|a)|a"), RESULT_OK);
    CHECK_EQ(check_text("((a|a)|a) a"), RESULT_DUPLICATE_KEY);
}

TEST(a_txn_may_not_put_what_it_deletes)
{
    CHECK_EQ(check_text("-a a"), RESULT_DUPLICATE_KEY);
    CHECK_EQ(check_text("a -a"), RESULT_DUPLICATE_KEY);
    CHECK_EQ(check_text("-a b"), RESULT_OK);
    CHECK_EQ(check_text("-a..c a"), RESULT_DUPLICATE_KEY);
    CHECK_EQ(check_text("-a..c b"), RESULT_DUPLICATE_KEY);
    CHECK_EQ(check_text("-a..c c"), RESULT_OK);
    CHECK_EQ(check_text("-b..d a"), RESULT_OK);
    CHECK_EQ(check_text("-a|a"), RESULT_OK);
    CHECK_EQ(check_text("-c..a b"), RESULT_OK);
    CHECK_EQ(check_text("-a -a -a..z"), RESULT_OK);
    CHECK_EQ(check_text("?a a -b ?b"), RESULT_OK);
}

TEST(a_txn_nested_in_another_counts_with_it)
{
    CHECK_EQ(check_text("-a (a|)"), RESULT_DUPLICATE_KEY);
    CHECK_EQ(check_text("(a|) -a"), RESULT_DUPLICATE_KEY);
    CHECK_EQ(check_text("a (|-a)"), RESULT_DUPLICATE_KEY);
    CHECK_EQ(check_text("(|((-a|)|)) a"), RESULT_DUPLICATE_KEY);
    CHECK_EQ(check_text("(a|-a)"), RESULT_OK);
}

/* etcd looks at siblings in order, and only at what came before. */
TEST(a_txn_may_delete_in_a_later_sibling_what_an_earlier_one_puts)
{
    CHECK_EQ(check_text("(-a|) (a|)"), RESULT_DUPLICATE_KEY);
    CHECK_EQ(check_text("(|-a) (|a)"), RESULT_DUPLICATE_KEY);
    CHECK_EQ(check_text("(a|) (-a|)"), RESULT_OK);
    CHECK_EQ(check_text("(a|) (b|) (-a..c|)"), RESULT_OK);
    CHECK_EQ(check_text("((-a|)|) ((a|)|)"), RESULT_DUPLICATE_KEY);
    CHECK_EQ(check_text("((a|) (-a|)|)"), RESULT_OK);
}

TEST(a_txn_may_put_what_it_deletes_from_a_key_on)
{
    CHECK_EQ(check_text("-a* b"), RESULT_OK);
    CHECK_EQ(check_text("-a* a"), RESULT_OK);
}

/* ---- Arguments ---- */

static enum result check_one(struct pb_request_op op, unsigned ops_max)
{
    struct pb_txn_request txn = {.success = {.at = &op, .count = 1}};
    struct arena arena = {0};
    enum result a = api_txn_check(&txn, ops_max, &arena);

    arena_free(&arena);
    return a;
}

TEST(a_txn_checks_the_arguments_of_everything_in_it)
{
    struct pb_range_request range = {.key = BYTES("k"), .sort_order = 3};
    struct pb_put_request put = {.key = BYTES("k"), .ignore_value = true, .value = BYTES("v")};
    struct pb_compare compare = {0};
    struct pb_txn_request txn = {.compare = {.at = &compare, .count = 1}};
    struct pb_request_op op = {.which = PB_OP_RANGE, .range = &range};

    CHECK_EQ(check_one(op, 128), RESULT_INVALID_SORT_OPTION);
    range = (struct pb_range_request){.key = BYTES("k"), .sort_target = -1};
    CHECK_EQ(check_one(op, 128), RESULT_INVALID_SORT_OPTION);
    range = (struct pb_range_request){.sort_target = -1};
    CHECK_EQ(check_one(op, 128), RESULT_EMPTY_KEY);

    op = (struct pb_request_op){.which = PB_OP_PUT, .put = &put};
    CHECK_EQ(check_one(op, 128), RESULT_VALUE_PROVIDED);
    put = (struct pb_put_request){.key = BYTES("k"), .ignore_lease = true, .lease = 1};
    CHECK_EQ(check_one(op, 128), RESULT_LEASE_PROVIDED);
    put = (struct pb_put_request){0};
    CHECK_EQ(check_one(op, 128), RESULT_EMPTY_KEY);

    op = (struct pb_request_op){.which = PB_OP_TXN, .txn = &txn};
    CHECK_EQ(check_one(op, 128), RESULT_EMPTY_KEY);
    compare.key = BYTES("k");
    CHECK_EQ(check_one(op, 128), RESULT_OK);
    CHECK_EQ(check_one((struct pb_request_op){0}, 128), RESULT_KEY_NOT_FOUND);
}

TEST(a_txn_leaves_its_children_what_it_does_not_use_of_the_limit)
{
    struct pb_compare compares[3] = {{.key = BYTES("a")}, {.key = BYTES("a")}, {.key = BYTES("a")}};
    struct pb_txn_request inner = {.compare = {.at = compares, .count = 3}};
    struct pb_request_op op = {.which = PB_OP_TXN, .txn = &inner};

    CHECK_EQ(check_one(op, 4), RESULT_OK);
    CHECK_EQ(check_one(op, 3), RESULT_TOO_MANY_OPS);
    CHECK_EQ(check_one(op, 0), RESULT_TOO_MANY_OPS);
}

/* ---- Against etcd's way of saying it, with sets of keys ---- */

enum { LETTERS = 8 };

struct sets {
    bool put[LETTERS], deleted[LETTERS];
};

static bool model_lists(const struct pb_request_op *ops, size_t count, struct sets *out);

static unsigned letter_of(struct bytes key)
{
    CHECK_EQ(key.len, 1);
    return (unsigned)(key.at[0] - 'a');
}

static void model_delete(const struct pb_delete_range_request *r, struct sets *out)
{
    for (unsigned k = 0; k < LETTERS; k++) {
        uint8_t name = (uint8_t)('a' + k);
        struct bytes key = bytes_of(&name, 1);
        bool covers = r->range_end.len == 0
                          ? bytes_equal(key, r->key)
                          : bytes_compare(key, r->key) >= 0 && bytes_compare(key, r->range_end) < 0;
        out->deleted[k] |= covers;
    }
}

/* Adds a nested transaction's sets; false if they do not go together with what is there. */
static bool model_child(const struct pb_txn_request *txn, struct sets *out)
{
    struct sets then = {0}, otherwise = {0};

    if (!model_lists(txn->success.at, txn->success.count, &then) ||
        !model_lists(txn->failure.at, txn->failure.count, &otherwise))
        return false;
    for (unsigned k = 0; k < LETTERS; k++) {
        bool puts = then.put[k] || otherwise.put[k];
        if (puts && (out->put[k] || out->deleted[k]))
            return false;
    }
    for (unsigned k = 0; k < LETTERS; k++) {
        out->put[k] |= then.put[k] || otherwise.put[k];
        out->deleted[k] |= then.deleted[k] || otherwise.deleted[k];
    }
    return true;
}

static bool model_lists(const struct pb_request_op *ops, size_t count, struct sets *out)
{
    for (size_t i = 0; i < count; i++) {
        if (ops[i].which == PB_OP_DELETE_RANGE)
            model_delete(ops[i].delete_range, out);
    }
    for (size_t i = 0; i < count; i++) {
        if (ops[i].which == PB_OP_TXN && !model_child(ops[i].txn, out))
            return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (ops[i].which != PB_OP_PUT)
            continue;
        unsigned k = letter_of(ops[i].put->key);
        if (out->put[k] || out->deleted[k])
            return false;
        out->put[k] = true;
    }
    return true;
}

static bool model_accepts(const struct pb_txn_request *txn)
{
    struct sets then = {0}, otherwise = {0};

    return model_lists(txn->success.at, txn->success.count, &then) &&
           model_lists(txn->failure.at, txn->failure.count, &otherwise);
}

static const struct pb_txn_request *random_txn(struct grove *g, unsigned depth);

static struct pb_request_op random_op(struct grove *g, unsigned depth)
{
    char first = (char)('a' + rng_below(&g->rng, LETTERS));
    const char *key = letter(g, first);

    switch (rng_below(&g->rng, 10)) {
    case 0:
    case 1:
    case 2:
    case 3:
        return put_op(g, key);
    case 4:
        return delete_op(g, key, (struct bytes){0});
    case 5:
        return delete_op(g, key,
                         rng_chance(&g->rng, 1, 4) ? BYTES("\0")
                                                   : bytes_of_str(letter(g, (char)(first + 2))));
    case 6:
        return range_op(g, key);
    default:
        if (depth == 0)
            return range_op(g, key);
        return (struct pb_request_op){.which = PB_OP_TXN, .txn = random_txn(g, depth - 1)};
    }
}

static size_t random_list(struct grove *g, unsigned depth, struct pb_request_op **out)
{
    size_t count = rng_below(&g->rng, 4);

    *out = arena_new_array(&g->arena, count, struct pb_request_op);
    for (size_t i = 0; i < count; i++)
        (*out)[i] = random_op(g, depth);
    return count;
}

static const struct pb_txn_request *random_txn(struct grove *g, unsigned depth)
{
    struct pb_txn_request *txn = arena_new(&g->arena, struct pb_txn_request);
    struct pb_request_op *ops;

    txn->success.count = random_list(g, depth, &ops);
    txn->success.at = ops;
    txn->failure.count = random_list(g, depth, &ops);
    txn->failure.at = ops;
    return txn;
}

TEST(a_txn_overlaps_exactly_as_the_model_says)
{
    struct grove g = {0};
    uint64_t accepted = 0, refused = 0;

    rng_seed(&g.rng, test_seed());
    for (uint64_t i = 0; i < 30000 * test_effort(); i++) {
        const struct pb_txn_request *txn = random_txn(&g, 4);
        bool expect = model_accepts(txn);
        CHECK_EQ(api_txn_check(txn, 128, &g.arena), expect ? RESULT_OK : RESULT_DUPLICATE_KEY);
        accepted += expect;
        refused += !expect;
        arena_reset(&g.arena);
    }
    arena_free(&g.arena);

    CHECK(accepted > 1000);
    CHECK(refused > 1000);
}

/* ---- Size ---- */

/* Puts at the bottom of one arm, deletes of all of them in the next: nothing overlaps, and
 * comparing each with each would take minutes. */
static const struct pb_txn_request *wide_txn(struct grove *g, unsigned levels, unsigned *number,
                                             bool deletes)
{
    struct pb_txn_request *txn = arena_new(&g->arena, struct pb_txn_request);
    size_t count = levels == 0 ? 80 : 3;
    struct pb_request_op *ops = arena_new_array(&g->arena, count, struct pb_request_op);

    for (size_t i = 0; i < count; i++) {
        if (levels > 0)
            ops[i] = (struct pb_request_op){.which = PB_OP_TXN,
                                            .txn = wide_txn(g, levels - 1, number, deletes)};
        else if (deletes)
            ops[i] = delete_op(g, "a", BYTES("z"));
        else
            ops[i] = put_op(g, arena_printf(&g->arena, "k%u", (*number)++));
    }
    txn->failure.at = ops;
    txn->failure.count = count;
    return txn;
}

TEST(a_txn_of_a_hundred_thousand_operations_is_checked_quickly)
{
    struct grove g = {0};
    unsigned number = 0;
    struct pb_request_op arms[2] = {
        {.which = PB_OP_TXN, .txn = wide_txn(&g, 6, &number, false)},
        {.which = PB_OP_TXN, .txn = wide_txn(&g, 6, &number, true)},
    };
    struct pb_txn_request txn = {.success = {.at = arms, .count = 2}};

    CHECK_EQ(number, 58320);
    CHECK_EQ(api_txn_check(&txn, 128, &g.arena), RESULT_OK);
    struct pb_request_op swapped[2] = {arms[1], arms[0]};
    txn.success.at = swapped;
    CHECK_EQ(api_txn_check(&txn, 128, &g.arena), RESULT_DUPLICATE_KEY);
    arena_free(&g.arena);
}
