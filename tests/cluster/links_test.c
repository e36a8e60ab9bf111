/*
 * What links do to bytes. This process is both members: it listens where the second one's peers are
 * sent on to, and connects as the first.
 */
#include "cluster/links.h"

#include "harness/test.h"
#include "interop/caller.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TURN_MS = 2, QUIET_MS = 60, WAIT_MS_MAX = 10000 };

struct rig {
    struct caller caller; /* for its loop */
    struct fleet fleet;
    struct links links;
    int listening, first, second; /* the two ends, as the members have them */
};

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int new_socket(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    CHECK(fd >= 0);
    return fd;
}

static void rig_connect(struct rig *r)
{
    struct sockaddr_in a = loopback(r->fleet.members[1].advertised_port);

    r->first = new_socket();
    CHECK(connect(r->first, (struct sockaddr *)&a, sizeof(a)) == 0 || errno == EINPROGRESS);
    r->second = -1;
    for (unsigned ms = 0; r->second < 0; ms += TURN_MS) {
        CHECK(ms < WAIT_MS_MAX);
        caller_turn(&r->caller, TURN_MS);
        r->second = accept4(r->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    }
}

static void rig_open(struct rig *r)
{
    *r = (struct rig){0};
    CHECK(fleet_open(&r->fleet, &(struct fleet_options){.program = "/bin/true",
                                                        .dir = test_tmp_dir(),
                                                        .count = 2,
                                                        .election_ms = 1000}));
    CHECK_EQ(caller_init(&r->caller), ERR_OK);
    CHECK_EQ(links_open(&r->links, r->caller.io, &r->fleet), ERR_OK);
    r->fleet.members[0].pid = getpid();
    struct sockaddr_in a = loopback(r->fleet.members[1].peer_port);
    r->listening = new_socket();
    /* Connections of an earlier test may linger on this port, which port_take does not count. */
    CHECK_EQ(setsockopt(r->listening, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)), 0);
    CHECK_EQ(bind(r->listening, (struct sockaddr *)&a, sizeof(a)), 0);
    CHECK_EQ(listen(r->listening, 8), 0);
    rig_connect(r);
}

static void rig_close(struct rig *r)
{
    close(r->first);
    close(r->second);
    close(r->listening);
    links_close(&r->links);
    while (!links_are_closed(&r->links))
        caller_turn(&r->caller, TURN_MS);
    caller_close(&r->caller);
    r->fleet.members[0].pid = 0; /* that was us */
    fleet_close(&r->fleet);
}

static void say(int fd, const char *text)
{
    CHECK_EQ(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Exactly this arrives. */
static void check_hears(struct rig *r, int fd, const char *text)
{
    char heard[64] = "";
    size_t len = 0;

    for (unsigned ms = 0; len < strlen(text) && ms < WAIT_MS_MAX; ms += TURN_MS) {
        caller_turn(&r->caller, TURN_MS);
        ssize_t more = recv(fd, heard + len, sizeof(heard) - 1 - len, 0);
        CHECK(more != 0);
        len += more > 0 ? (size_t)more : 0;
    }
    CHECK_STR(heard, text);
}

/* Nothing does, for a while, and the connection stays. */
static void check_hears_nothing(struct rig *r, int fd)
{
    char heard[64];

    caller_for_ms(&r->caller, QUIET_MS);
    CHECK_EQ(recv(fd, heard, sizeof(heard), 0), -1);
    CHECK_EQ(errno, EAGAIN);
}

static void check_is_over(struct rig *r, int fd)
{
    char heard[64];
    ssize_t len = -1;

    errno = EAGAIN;
    for (unsigned ms = 0; len < 0 && errno == EAGAIN; ms += TURN_MS) {
        CHECK(ms < WAIT_MS_MAX);
        caller_turn(&r->caller, TURN_MS);
        len = recv(fd, heard, sizeof(heard), 0);
    }
    CHECK(len == 0 || (len < 0 && errno == ECONNRESET));
}

TEST(an_open_link_carries_bytes_both_ways)
{
    struct rig r;
    rig_open(&r);

    say(r.first, "hello");
    check_hears(&r, r.second, "hello");
    say(r.second, "yes");
    check_hears(&r, r.first, "yes");

    CHECK_EQ(r.links.carried, 1);
    CHECK_EQ(r.links.strangers, 0);
    rig_close(&r);
}

TEST(a_stalled_link_keeps_bytes_of_one_direction_until_it_opens)
{
    struct rig r;
    rig_open(&r);

    links_set(&r.links, 0, 1, LINK_STALLED);
    say(r.first, "later");
    check_hears_nothing(&r, r.second);
    say(r.second, "at once");
    check_hears(&r, r.first, "at once");

    links_set(&r.links, 0, 1, LINK_OPEN);
    check_hears(&r, r.second, "later");
    rig_close(&r);
}

TEST(a_connection_made_over_a_stalled_link_says_nothing_until_it_opens)
{
    struct rig r;
    rig_open(&r);
    close(r.first);
    close(r.second);

    links_set(&r.links, 0, 1, LINK_STALLED);
    rig_connect(&r);
    say(r.first, "later");
    check_hears_nothing(&r, r.second);

    links_set_all(&r.links, LINK_OPEN);
    check_hears(&r, r.second, "later");
    rig_close(&r);
}

TEST(a_link_that_drops_loses_bytes_of_one_direction_and_resets_when_it_opens)
{
    struct rig r;
    rig_open(&r);

    links_set(&r.links, 1, 0, LINK_DROPPED);
    say(r.second, "lost");
    check_hears_nothing(&r, r.first);
    say(r.first, "not lost");
    check_hears(&r, r.second, "not lost");

    links_set(&r.links, 1, 0, LINK_OPEN);
    check_is_over(&r, r.first);
    check_is_over(&r, r.second);
    rig_close(&r);
}

TEST(a_cut_link_ends_what_there_is_and_what_comes)
{
    struct rig r;
    rig_open(&r);

    links_set(&r.links, 1, 0, LINK_CUT);
    check_is_over(&r, r.first);
    check_is_over(&r, r.second);
    struct sockaddr_in a = loopback(r.fleet.members[1].advertised_port);
    int again = new_socket();
    CHECK(connect(again, (struct sockaddr *)&a, sizeof(a)) == 0 || errno == EINPROGRESS);
    check_is_over(&r, again);
    close(again);
    links_set(&r.links, 1, 0, LINK_OPEN);
    close(r.first);
    close(r.second);

    rig_connect(&r);
    say(r.first, "hello");
    check_hears(&r, r.second, "hello");
    rig_close(&r);
}

TEST(who_is_no_member_is_not_carried)
{
    struct rig r;
    rig_open(&r);
    struct sockaddr_in a = loopback(r.fleet.members[1].advertised_port);
    int stranger = new_socket();
    r.fleet.members[0].pid = 1; /* somebody else */

    CHECK(connect(stranger, (struct sockaddr *)&a, sizeof(a)) == 0 || errno == EINPROGRESS);
    check_is_over(&r, stranger);

    CHECK_EQ(r.links.strangers, 1);
    close(stranger);
    rig_close(&r);
}

TEST(a_hole_drops_what_comes_and_goes_through_the_port_and_lets_its_end_pass)
{
    struct rig r;
    rig_open(&r);

    links_set_hole(&r.links, 0, true); /* in front of the one who has connected */
    say(r.first, "hello");
    check_hears(&r, r.second, "hello");
    links_set_hole(&r.links, 0, false);
    links_set_hole(&r.links, 1, true);
    say(r.first, "lost");
    check_hears_nothing(&r, r.second);
    say(r.second, "lost");
    check_hears_nothing(&r, r.first);
    CHECK_EQ(shutdown(r.first, SHUT_WR), 0);
    check_is_over(&r, r.second);

    rig_close(&r);
}
