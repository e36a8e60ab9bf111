/* Which connections leave when there is no place left: on fake hosts with addresses of their own,
 * and where one address is enough, on real sockets too. */
#include "io/conn_limit.h"

#include "base/limits.h"
#include "io/net_rig_test.h"

#include <stdio.h>

enum { GUESTS_MAX = 64 };

/* A connection: the end that was accepted, and its client's. */
struct guest {
    struct end client, served;
};

static struct guest guests[GUESTS_MAX];
static unsigned accepted;

struct crowd {
    struct rig *rig;
    struct conn_limit limit;
    struct listener *listener;
    unsigned count; /* of guests */
};

static void accept_guest(struct listener *l, struct conn *c)
{
    (void)l;
    guests[accepted].served.conn = c;
    conn_accept(c, &end_handlers, &guests[accepted++].served);
}

static void crowd_open(struct crowd *c, struct rig *rig, unsigned max)
{
    *c = (struct crowd){.rig = rig};
    accepted = 0;
    struct listener_options options = {.on_accept = accept_guest, .limit = &c->limit};
    struct net_address here;

    conn_limit_init(&c->limit, max);
    /* In the fake world by the address that other hosts reach it by: each has a 127.0.0.1. */
    CHECK_EQ(net_address_parse(rig->fake ? "10.0.0.1:0" : "127.0.0.1:0", &here), ERR_OK);
    CHECK_EQ(net_listen(rig->io->net, &here, &options, &c->listener), ERR_OK);
}

static void crowd_close(struct crowd *c)
{
    conn_limit_check(&c->limit);
    for (unsigned i = 0; i < c->count; i++) {
        end_close(c->rig, &guests[i].client);
        if (i < accepted)
            end_close(c->rig, &guests[i].served);
    }
    listener_close(c->listener);
    conn_limit_free(&c->limit);
}

/* From another host of the fake world. */
static unsigned knock_from(struct crowd *c, struct net *host)
{
    struct guest *g = &guests[c->count];

    *g = (struct guest){0};
    g->client.conn = net_connect(host, &c->listener->address, &end_handlers, &g->client);
    return c->count++;
}

static unsigned knock(struct crowd *c)
{
    return knock_from(c, c->rig->io->net);
}

static unsigned enter_from(struct crowd *c, struct net *host)
{
    unsigned nth = knock_from(c, host);

    rig_until(c->rig, &accepted, nth + 1);
    conn_limit_check(&c->limit);
    return nth;
}

static unsigned enter(struct crowd *c)
{
    return enter_from(c, c->rig->io->net);
}

static void prove(unsigned nth)
{
    conn_prove(guests[nth].served.conn, 0);
}

static void set_busy(const struct crowd *c, unsigned nth, bool is_busy)
{
    struct conn *conn = guests[nth].served.conn;

    if (is_busy)
        conn_set_busy(conn);
    else
        conn_set_idle(conn, clock_now_ns(c->rig->io->clock));
}

/* Later than all that was before. */
static void use(const struct crowd *c, unsigned nth)
{
    rig_for_ms(c->rig, 1);
    set_busy(c, nth, true);
    set_busy(c, nth, false);
}

static bool is_evicted(unsigned nth)
{
    return guests[nth].served.closed && guests[nth].served.reason == ERR_EVICTED;
}

static void await_evicted(struct crowd *c, unsigned nth)
{
    rig_until(c->rig, &guests[nth].served.closed, 1);
    CHECK(is_evicted(nth));
}

static struct net *new_host(struct rig *rig, const char *ip)
{
    return fake_wire_add_host(rig->fake->wire, &rig->fake->inbox, ip);
}

/* --- those that have proved nothing --- */

CONTRACT(the_oldest_that_has_proved_nothing_makes_room)
{
    struct crowd c;
    crowd_open(&c, rig, 3);
    unsigned first = enter(&c), second = enter(&c), third = enter(&c);
    prove(first);

    unsigned fourth = enter(&c);
    await_evicted(&c, second);
    unsigned fifth = enter(&c);
    await_evicted(&c, third);

    CHECK(!is_evicted(first) && !is_evicted(fourth) && !is_evicted(fifth));
    CHECK_EQ(c.limit.evicted, 2);
    CHECK_EQ(c.limit.open, 3);
    crowd_close(&c);
}

/* Whoever comes gets some time to say who it is, however many come behind it. */
TEST(a_newcomer_has_time_to_prove_itself)
{
    struct rig rig;
    struct crowd c;
    rig_open_fake(&rig);
    crowd_open(&c, &rig, 1);
    unsigned first = enter(&c);
    uint64_t since_ns = clock_now_ns(rig.io->clock);

    unsigned second = enter(&c);

    CHECK(clock_now_ns(rig.io->clock) - since_ns >= (NET_PATIENCE_MS - 10) * NS_PER_MS);
    await_evicted(&c, first);
    prove(second);
    set_busy(&c, second, true);
    (void)knock(&c);
    rig_for_ms(&rig, 10 * NET_PATIENCE_MS);
    CHECK(!is_evicted(second));
    CHECK_EQ(accepted, 2);
    crowd_close(&c);
    rig_close(&rig);
}

TEST(patience_lasts_as_long_as_the_owner_of_the_limit_says)
{
    struct rig rig;
    struct crowd c;
    rig_open_fake(&rig);
    crowd_open(&c, &rig, 1);
    c.limit.patience_ms = NET_PATIENCE_MS / 5;
    unsigned first = enter(&c);
    uint64_t since_ns = clock_now_ns(rig.io->clock);

    (void)enter(&c);

    CHECK(clock_now_ns(rig.io->clock) - since_ns < NET_PATIENCE_MS * NS_PER_MS / 2);
    await_evicted(&c, first);
    crowd_close(&c);
    rig_close(&rig);
}

/* A handshake's step is queued behind those of others, say. */
CONTRACT(one_that_waits_for_us_has_its_time_when_it_does_no_more)
{
    struct crowd c;
    crowd_open(&c, rig, 2);
    unsigned first = enter(&c), second = enter(&c);
    conn_set_waits(guests[first].served.conn, true);

    unsigned third = enter(&c);
    await_evicted(&c, second);
    CHECK(!is_evicted(first));
    conn_set_waits(guests[first].served.conn, false);
    (void)enter(&c);
    (void)enter(&c);

    await_evicted(&c, first);
    await_evicted(&c, third);
    crowd_close(&c);
}

/* Nobody waits behind a place that is reserved, and those that have proved nothing get none. */
TEST(reserved_places_are_for_those_that_have_proved_themselves)
{
    enum { PLACES = 8, RESERVED = 3 };
    struct rig rig;
    struct crowd c;
    rig_open_fake(&rig);
    crowd_open(&c, &rig, PLACES);
    c.limit.reserved = RESERVED;

    for (unsigned i = 0; i < 2 * PLACES; i++)
        (void)enter(&c);
    rig_for_ms(&rig, 10 * NET_PATIENCE_MS);
    CHECK_EQ(c.limit.open, PLACES - RESERVED);
    for (unsigned i = 0; i < RESERVED; i++)
        prove(enter(&c));
    for (unsigned i = 0; i < 2 * PLACES; i++)
        (void)enter(&c);
    rig_for_ms(&rig, 10 * NET_PATIENCE_MS);

    CHECK_EQ(c.limit.open, PLACES);
    for (unsigned i = 2 * PLACES; i < 2 * PLACES + RESERVED; i++)
        CHECK(!is_evicted(i));
    crowd_close(&c);
    rig_close(&rig);
}

/* --- those that have --- */

CONTRACT(what_somebody_waits_for_is_never_evicted)
{
    struct crowd c;
    crowd_open(&c, rig, 2);
    for (unsigned i = 0; i < 2; i++) {
        prove(enter(&c));
        set_busy(&c, i, true);
    }

    unsigned late = knock(&c);
    rig_until(rig, &guests[late].client.opened, 1);
    rig_for_ms(rig, 3 * NET_PATIENCE_MS);
    CHECK_EQ(accepted, 2);
    CHECK_EQ(c.limit.evicted, 0);
    end_close(rig, &guests[0].served);
    rig_until(rig, &accepted, 3);

    CHECK(!is_evicted(1));
    crowd_close(&c);
}

TEST(the_owner_of_most_connections_loses_the_one_that_is_idle_longest)
{
    struct rig rig;
    struct crowd c;
    rig_open_fake(&rig);
    struct net *many = new_host(&rig, "10.0.0.2"), *few = new_host(&rig, "10.0.0.3");
    struct net *other = new_host(&rig, "10.0.0.4");
    crowd_open(&c, &rig, 6);
    for (unsigned i = 0; i < 2; i++)
        prove(enter_from(&c, few));
    for (unsigned i = 2; i < 6; i++)
        prove(enter_from(&c, many));
    set_busy(&c, 2, true); /* a watch, say, and the oldest of its owner's */
    use(&c, 3);

    unsigned first = enter_from(&c, other);
    await_evicted(&c, 4);
    prove(first);

    /* Now it holds three, and the others two and one. */
    prove(enter_from(&c, few));
    await_evicted(&c, 5);
    CHECK_EQ(c.limit.evicted, 2);
    CHECK_EQ(c.limit.open, 6);
    crowd_close(&c);
    rig_close(&rig);
}

/* One address, as behind a translating router or on one machine: all are alike. */
TEST(among_those_of_one_address_the_longest_idle_makes_room)
{
    struct rig rig;
    struct crowd c;
    rig_open_fake(&rig);
    crowd_open(&c, &rig, 3);
    for (unsigned i = 0; i < 3; i++)
        prove(enter(&c));
    use(&c, 0);

    prove(enter(&c));
    await_evicted(&c, 1);
    set_busy(&c, 2, true);
    prove(enter(&c));
    await_evicted(&c, 0);
    set_busy(&c, 2, false);
    prove(enter(&c));
    await_evicted(&c, 3);

    CHECK(!is_evicted(2));
    crowd_close(&c);
    rig_close(&rig);
}

/* Idle connections in all places but one would leave that one to a silent newcomer at a time. */
TEST(idle_connections_do_not_hold_most_places_while_newcomers_prove_themselves)
{
    struct rig rig;
    struct crowd c;
    rig_open_fake(&rig);
    crowd_open(&c, &rig, 6);
    for (unsigned i = 0; i < 5; i++)
        prove(enter(&c));
    (void)enter(&c); /* which says nothing */

    uint64_t before_ns = clock_now_ns(rig.io->clock);
    (void)enter(&c);
    await_evicted(&c, 0);
    (void)enter(&c);
    await_evicted(&c, 1);
    CHECK(clock_now_ns(rig.io->clock) - before_ns < NET_PATIENCE_MS * NS_PER_MS / 2);
    (void)enter(
        &c); /* three places are theirs: this one waits for the first to have had its time */
    await_evicted(&c, 5);

    CHECK(clock_now_ns(rig.io->clock) - before_ns >= NET_PATIENCE_MS * NS_PER_MS / 2);
    CHECK(!is_evicted(2));
    crowd_close(&c);
    rig_close(&rig);
}

/* However many addresses a stranger has. */
TEST(of_owners_that_hold_one_each_the_longest_idle_makes_room)
{
    struct rig rig;
    struct crowd c;
    char ip[32];
    rig_open_fake(&rig);
    crowd_open(&c, &rig, 3);
    for (unsigned i = 0; i < 3; i++) {
        snprintf(ip, sizeof(ip), "10.0.1.%u", i + 1);
        prove(enter_from(&c, new_host(&rig, ip)));
    }
    set_busy(&c, 0, true);
    use(&c, 1);

    prove(enter_from(&c, new_host(&rig, "10.0.2.1")));
    await_evicted(&c, 2);
    (void)enter(&c);
    await_evicted(&c, 1);

    CHECK(!is_evicted(0));
    crowd_close(&c);
    rig_close(&rig);
}

/* By its certificate a connection is not its address's any more. */
TEST(a_certificate_says_whose_a_connection_is)
{
    struct rig rig;
    struct crowd c;
    rig_open_fake(&rig);
    crowd_open(&c, &rig, 4);
    uint64_t names[] = {conn_owner_of_names("a", NULL, 0),
                        conn_owner_of_names("b", (const char *const[]){"b.example"}, 1)};
    CHECK(names[0] != names[1]);
    for (unsigned i = 0; i < 4; i++)
        conn_prove(guests[enter(&c)].served.conn, names[i == 0]);

    (void)enter(&c);

    await_evicted(&c, 1);
    crowd_close(&c);
    rig_close(&rig);
}

TEST(an_address_of_ipv6_counts_by_its_first_half)
{
    struct net_address a, b, other, four;

    CHECK_EQ(net_address_of_host("2001:db8:1:2::3", 1, &a), ERR_OK);
    CHECK_EQ(net_address_of_host("2001:db8:1:2:ffff::", 2, &b), ERR_OK);
    CHECK_EQ(net_address_of_host("2001:db8:1:3::3", 1, &other), ERR_OK);
    CHECK_EQ(net_address_of_host("1.2.3.4", 1, &four), ERR_OK);

    CHECK_EQ(conn_owner_of_address(&a), conn_owner_of_address(&b));
    CHECK(conn_owner_of_address(&a) != conn_owner_of_address(&other));
    CHECK(conn_owner_of_address(&a) != conn_owner_of_address(&four));
}

/* --- all of it at random --- */

/* The bound holds, busy ones stay, and a newcomer gets in, or waits where nobody can be evicted. */
TEST(a_random_crowd_stays_within_its_limit)
{
    enum { PLACES = 10, RESERVED = 2, HOSTS = 4 };
    struct rig rig;
    struct crowd c;
    struct rng rng;
    struct net *hosts[HOSTS];
    bool is_kept[GUESTS_MAX] = {0};
    rig_open_fake(&rig);
    rng_seed(&rng, test_seed());
    for (unsigned i = 0; i < HOSTS; i++) {
        char ip[32];
        snprintf(ip, sizeof(ip), "10.0.1.%u", i + 1);
        hosts[i] = new_host(&rig, ip);
    }
    crowd_open(&c, &rig, PLACES);
    c.limit.reserved = RESERVED;

    while (c.count < GUESTS_MAX) {
        (void)knock_from(&c, hosts[rng_below(&rng, HOSTS)]);
        rig_for_ms(&rig, rng_below(&rng, NET_PATIENCE_MS));
        for (unsigned i = 0; i < accepted; i++) {
            struct end *e = &guests[i].served;
            CHECK(!is_kept[i] || !is_evicted(i));
            if (e->closed || (c.limit.leaving && e->conn->admission == c.limit.leaving))
                continue; /* it is evicted, or about to hear of that */
            unsigned dice = (unsigned)rng_below(&rng, 20);
            if (dice < 4)
                conn_prove(e->conn, 0);
            if (dice < 2 || dice == 10)
                set_busy(&c, i, dice < 2);
            is_kept[i] = dice < 2 || (is_kept[i] && dice != 10);
            if (dice == 19)
                end_close(&rig, e);
        }
        conn_limit_check(&c.limit);
    }
    rig_for_ms(&rig, 4 * NET_PATIENCE_MS);

    CHECK(c.limit.evicted > 0);
    crowd_close(&c);
    rig_close(&rig);
}
