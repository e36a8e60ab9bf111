/*
 * passwords: hashed and compared on a worker, one after the other, everybody in turn.
 *
 * A hash takes as long as thousands of puts, on purpose. So they are computed on a worker, one at a
 * time, and those who wait stand in line by the address they come from: each address that has
 * somebody waiting gets one turn, then the next has its own; and of an address each connection.
 * Whoever guesses passwords as fast as he can waits behind himself, and others pass him.
 *
 *     API_PASSWORD --> its address's line --one of each address in turn--> a worker --> done
 *                  --> too many wait: one is refused at once        --> passwords_take
 *
 * When too many wait, who holds most places loses the newest: the address, in all; the connection,
 * among those of one address. So a newcomer gets in as long as somebody else has two more than he
 * has. Clients behind one address translation share its turns and its places.
 *
 * A stored hash says itself what it costs to compare with it, and each step of the cost doubles
 * that: 31 would take a day. So one that costs more than this server's own waits in a lane of its
 * own, for one worker at a time, and others pass it; and above PASSWORDS_COMPARED_COST_MAX nothing
 * is compared, unless this server's own cost is as high.
 *
 * Promises   1. A call that came in goes out exactly once, by passwords_take, unless it is
 *               forgotten before.
 *            2. At most PASSWORDS_WAITING_MAX wait in a lane, PASSWORDS_WAITING_PER_ADDRESS_MAX of
 *               one address (in IPv6: of a network of 64 bits).
 *            3. A password is overwritten in memory when its turn is over.
 *            4. To compare with a hash that is not there, or costs too much, takes as long as with
 *               one of this server's cost, and fails.
 * Leans on   auth/password.h; io for workers and salt.
 */
#pragma once

#include "api/api.h"
#include "auth/password.h"
#include "io/worker.h"

struct entropy;

enum password_lane_kind { PASSWORD_LANE_QUICK, PASSWORD_LANE_SLOW };

struct passwords {
    struct workers *workers;
    struct entropy *entropy;
    unsigned cost;

    struct password_lane {
        struct passwords *passwords;
        struct list addresses; /* struct source, the next one first */
        size_t waiting;
        struct password_question *running; /* NULL: none is */
    } lanes[2];
    struct list done; /* struct password_question */
};

void passwords_init(struct passwords *p, struct workers *workers, struct entropy *entropy,
                    unsigned cost);
/* Also one that is all zeroes. What a worker had in hand does not come back any more. */
void passwords_free(struct passwords *p);

/* An API_PASSWORD; and it is to be forgotten: false, it was not here. */
void passwords_need(struct passwords *p, const struct api_need *need);
bool passwords_forget(struct passwords *p, const struct api_call *c);

/* One who can be told: NULL, there is none.. */
struct api_call *passwords_take(struct passwords *p, struct api_password_result *out);

/* Has no worker anything in hand? */
bool passwords_is_idle(const struct passwords *p);
